"""Internal topics that a cluster shares, and where their replicas are."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from goqueue.broker.core.names import SECURITY
from goqueue.broker.core.topic import TopicSpec
from goqueue.cluster.metadata import ClusterState
from goqueue.cluster.partitions import PartitionId, PartitionState

_SPREAD = 2
"""The feature level from which on nodes that come later get a replica of what is followed."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """An internal topic of the cluster."""

    spec: TopicSpec
    level: int = 1
    """The feature level from which on the cluster has it."""
    is_followed: bool = False
    """Every node has a replica, and answers questions from it. Else the leaders of its partitions coordinate."""
    has_one_owner: bool = False
    """What one node brings is kept, and what others bring is removed. Else it stays there, unserved."""


def owners_of(topic: str, state: ClusterState) -> list[str]:
    """Return the nodes that had records in an internal topic before the cluster shared it."""
    nodes = ((node, found) for node, (found, _) in state.nodes.items())
    if topic == SECURITY:
        return sorted(node for node, found in nodes if found.has_keys)
    return sorted(node for node, found in nodes if topic in found.brings)


def spread_followed(topic: InternalTopic, state: ClusterState) -> Iterator[tuple[PartitionId, PartitionState]]:
    """Yield the states that give a followed topic a replica on every node."""
    record = state.topics.get(topic.spec.name)
    is_due = topic.is_followed and state.feature_level >= _SPREAD
    for number in range(record.partitions if record is not None and is_due else 0):
        assert record is not None, "it has partitions"
        partition = PartitionId(record.created_ns, number)
        found = state.partitions.get(partition)
        if found is not None and not found.is_moving and (missing := sorted(state.nodes.keys() - set(found.replicas))):
            yield (
                partition,
                replace(found, replicas=(*found.replicas, *missing), partition_epoch=found.partition_epoch + 1),
            )


def leave_followed(
    node: str, state: ClusterState, followed: Collection[str]
) -> Iterator[tuple[PartitionId, PartitionState]]:
    """Yield the states without the replicas that a node has of followed topics, where it is not in sync any more."""
    for log, found in state.partitions.items():
        if node in found.replicas and node not in found.isr and state.names[log.topic_id] in followed:
            left = replace(found, replicas=tuple(one for one in found.replicas if one != node))
            yield log, left.next(leader=left.leader, isr=left.isr, elr=left.elr)
