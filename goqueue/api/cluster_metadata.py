"""Topics, partitions and leaders of the cluster, and what operators may change about them."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from goqueue.api.cluster import member_of
from goqueue.api.endpoint import ApiCall
from goqueue.broker.core.catalog import TopicCreated
from goqueue.broker.core.names import is_internal
from goqueue.cluster.controller_requests import ElectLeader
from goqueue.cluster.membership import NodeStatus
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.replication_messages import IsrChange
from goqueue.errors import ControllerUnavailable, PartitionNotFound, TopicNotFound
from goqueue.limits import OFFSET_MAX
from goqueue.quantities import quoted
from goqueue.runtime.cluster.cluster_node import ClusterNode

_Name = Annotated[str, Meta(min_length=1, max_length=255)]
_Node = Annotated[str, Meta(min_length=1, max_length=64)]
_Number = Annotated[int, Meta(ge=0, le=OFFSET_MAX)]


class ClusterMetadataQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    topic: Annotated[list[_Name], Meta(max_length=1000, description="Only these topics; without it, all.")] = []


class MetadataNodeJson(Struct, kw_only=True):
    node: str
    client_address: str
    rack: str | None
    status: NodeStatus
    fenced: Annotated[bool, Meta(description="It leads nothing and is in sync with nothing.")]


class MetadataPartitionJson(Struct, kw_only=True):
    partition: int
    leader: Annotated[str | None, Meta(description="Null while there is none.")]
    leader_epoch: int
    replicas: Annotated[list[str], Meta(description="Nodes, the preferred leader first.")]
    isr: list[str]


class MetadataTopicJson(Struct, kw_only=True):
    name: str
    partitions: list[MetadataPartitionJson]


class ClusterMetadataResponse(Struct, kw_only=True):
    version: Annotated[int, Meta(description="Records of the cluster that the node has applied.")]
    controller: str | None
    nodes: list[MetadataNodeJson]
    topics: list[MetadataTopicJson]


class PartitionInfoResponse(Struct, kw_only=True):
    topic: str
    partition: int
    topic_id: Annotated[int, Meta(description="A topic that is created again has another one.")]
    leader: str | None
    leader_epoch: int
    partition_epoch: Annotated[int, Meta(description="It increases with each record about the partition.")]
    replicas: list[str]
    isr: list[str]
    elr: Annotated[list[str], Meta(description="Not in sync, and with all that is committed.")]
    min_isr: int
    unclean_epoch: Annotated[int | None, Meta(description="The leader epoch of the last unclean election.")]
    version: int


class ChangeIsrRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    topic: _Name
    partition: _Number
    leader_epoch: _Number
    partition_epoch: Annotated[_Number, Meta(description="That of the state to be changed.")]
    isr: Annotated[list[_Node], Meta(min_length=1, max_length=100)]


class ElectLeaderRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    topic: _Name
    partition: _Number
    node: Annotated[_Node | UnsetType, Meta(description="Left out: the preferred leader.")] = UNSET
    unclean: Annotated[
        bool, Meta(description="Take a replica that may lack committed messages, if no other can lead. They are lost.")
    ] = False


async def describe_metadata(call: ApiCall, query: ClusterMetadataQuery) -> ClusterMetadataResponse:
    member = member_of(call)
    if not member.is_registered:
        raise ControllerUnavailable(
            f"node {member.settings.node} has just started and does not know yet who leads what",
            hint="ask another node, or this one in a moment",
            retry_after=1,
        )
    state, controller = member.log.state, member.controller
    wanted = sorted(set(query.topic) & state.topics.keys()) if query.topic else sorted(state.topics)
    names = call.access.described("topic", [name for name in wanted if query.topic or not is_internal(name)])
    return ClusterMetadataResponse(
        version=member.log.applied_end,
        controller=None if controller is None else controller.node,
        nodes=[
            MetadataNodeJson(
                node=node,
                client_address=registered.client_address,
                rack=registered.rack or None,
                status=member.membership.status(node),
                fenced=node in state.fenced,
            )
            for node, (registered, _) in sorted(state.nodes.items())
        ],
        topics=[_topic(member, state.topics[name]) for name in names],
    )


def _topic(member: ClusterNode, topic: TopicCreated) -> MetadataTopicJson:
    found = member.log.state.partitions
    states = ((one, found.get(PartitionId(topic.created_ns, one))) for one in range(topic.partitions))
    rows = [
        MetadataPartitionJson(
            partition=number,
            leader=state.leader or None,
            leader_epoch=state.leader_epoch,
            replicas=list(state.replicas),
            isr=list(state.isr),
        )
        for number, state in states
        if state is not None
    ]
    return MetadataTopicJson(name=topic.name, partitions=rows)


async def describe_partition(call: ApiCall) -> PartitionInfoResponse:
    return _info(member_of(call), call.parameters["topic"], int(call.parameters["partition"]))


def _info(member: ClusterNode, name: str, number: int) -> PartitionInfoResponse:
    partition, state = find_partition(member, name, number)
    return PartitionInfoResponse(
        topic=name,
        partition=number,
        topic_id=partition.topic_id,
        leader=state.leader or None,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        replicas=list(state.replicas),
        isr=list(state.isr),
        elr=list(state.elr),
        min_isr=state.min_isr,
        unclean_epoch=state.unclean_epoch or None,
        version=member.log.applied_end,
    )


def find_partition(member: ClusterNode, name: str, number: int) -> tuple[PartitionId, PartitionState]:
    topic = member.log.state.topics.get(name)
    if topic is None:
        raise TopicNotFound(f"the cluster has no topic {quoted(name)}", topic=name)
    partition = PartitionId(topic.created_ns, number)
    state = member.log.state.partitions.get(partition)
    if state is None:
        raise PartitionNotFound(f"topic {quoted(name)} has no partition {number}", partitions=topic.partitions)
    return partition, state


async def change_isr(call: ApiCall, body: ChangeIsrRequest) -> PartitionInfoResponse:
    """Ask for another ISR in the name of the leader, under the rules for leaders."""
    member = member_of(call)
    partition, state = find_partition(member, body.topic, body.partition)
    nodes = member.log.state.nodes
    isr = tuple((node, nodes[node][1] if node in nodes else 0) for node in body.isr)
    await member.ask(
        IsrChange(partition, state.leader, body.leader_epoch, body.partition_epoch, isr, "asked for over HTTP")
    )
    return _info(member, body.topic, body.partition)


async def elect_leader(call: ApiCall, body: ElectLeaderRequest) -> PartitionInfoResponse:
    member = member_of(call)
    partition, _ = find_partition(member, body.topic, body.partition)
    node = "" if isinstance(body.node, UnsetType) else body.node
    await member.ask(ElectLeader(partition, node, body.unclean))
    return _info(member, body.topic, body.partition)
