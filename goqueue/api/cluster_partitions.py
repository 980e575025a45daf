"""The partitions of the cluster for an operator: leaders, replicas and their lag."""

from typing import Annotated

from msgspec import Meta, Struct

from goqueue.api.cluster import member_of
from goqueue.api.endpoint import ApiCall
from goqueue.errors import TopicNotFound
from goqueue.quantities import quoted
from goqueue.runtime.cluster.partition_facts import PartitionCondition, PartitionFacts, partition_facts

_Name = Annotated[str, Meta(min_length=1, max_length=255)]


class ClusterPartitionsQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    topic: Annotated[_Name | None, Meta(description="Only this topic.")] = None
    unhealthy: Annotated[bool, Meta(description="Only those with replicas that are not in sync.")] = False


class ReplicaJson(Struct, kw_only=True):
    node: str
    in_sync: bool
    lag: Annotated[int | None, Meta(description="Messages behind the leader; null unless the node that answers leads.")]


class ClusterPartitionJson(Struct, kw_only=True):
    topic: str
    partition: int
    status: PartitionCondition
    leader: Annotated[str | None, Meta(description="Null while there is none.")]
    leader_epoch: int
    preferred_leader: str
    min_isr: int
    isr: list[str]
    elr: Annotated[list[str], Meta(description="Not in sync, and with all that is committed.")]
    replicas: list[ReplicaJson]
    unclean_epoch: Annotated[int | None, Meta(description="The leader epoch of the last unclean election.")]


class ClusterPartitionsResponse(Struct, kw_only=True):
    node_id: Annotated[str, Meta(description="The node that answers.")]
    partitions: list[ClusterPartitionJson]


async def describe_partitions(call: ApiCall, query: ClusterPartitionsQuery) -> ClusterPartitionsResponse:
    member = member_of(call)
    if query.topic is not None and query.topic not in member.log.state.topics:
        raise TopicNotFound(f"the cluster has no topic {quoted(query.topic)}", topic=query.topic)
    found = list(partition_facts(member, *([] if query.topic is None else [query.topic])))
    names = set(call.access.described("topic", sorted({one.topic for one in found})))
    return ClusterPartitionsResponse(
        node_id=member.settings.node,
        partitions=[
            _partition(one) for one in found if one.topic in names and not (query.unhealthy and one.condition == "ok")
        ],
    )


def _partition(facts: PartitionFacts) -> ClusterPartitionJson:
    state = facts.state
    return ClusterPartitionJson(
        topic=facts.topic,
        partition=facts.number,
        status=facts.condition,
        leader=state.leader or None,
        leader_epoch=state.leader_epoch,
        preferred_leader=state.replicas[0],
        min_isr=state.min_isr,
        isr=list(state.isr),
        elr=list(state.elr),
        replicas=[ReplicaJson(node=one.node, in_sync=one.is_in_sync, lag=one.lag) for one in facts.replicas],
        unclean_epoch=state.unclean_epoch or None,
    )
