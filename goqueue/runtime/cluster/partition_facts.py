"""Facts about the partitions of a cluster, as one of its nodes knows them: the lag of replicas, where it leads them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.runtime.cluster.cluster_node import ClusterNode

PartitionCondition = Literal["ok", "under_replicated", "under_min_isr", "offline"]


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """One replica."""

    node: str
    is_in_sync: bool
    lag: int | None
    """Messages that it does not have durably yet; None if this node does not lead the partition, or it never answered.
    """


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition."""

    topic: str
    number: int
    state: PartitionState
    replicas: tuple[ReplicaFacts, ...]

    @property
    def condition(self) -> PartitionCondition:
        return condition_of(self.state)

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.number}"


def condition_of(state: PartitionState) -> PartitionCondition:
    """Return the worst that is true of a partition."""
    if not state.leader:
        return "offline"
    if len(state.isr) < state.min_isr:
        return "under_min_isr"
    return "under_replicated" if state.is_under_replicated else "ok"


def partition_facts(member: ClusterNode, *topics: str) -> Iterator[PartitionFacts]:
    """Return the partitions of some topics, in their order; without a name, those of all."""
    state = member.log.state
    for name in sorted(state.topics.keys() & topics if topics else state.topics):
        topic = state.topics[name]
        for number in range(topic.partitions):
            partition = PartitionId(topic.created_ns, number)
            if (found := state.partitions.get(partition)) is not None:
                lags = _lags(member, partition)
                replicas = tuple(ReplicaFacts(one, one in found.isr, lags.get(one)) for one in found.replicas)
                yield PartitionFacts(name, number, found, replicas)


def _lags(member: ClusterNode, partition: PartitionId) -> dict[str, int]:
    local = member.replicas.local.get(partition)
    leader = None if local is None else local.leader
    if leader is None:
        return {}
    end = leader.index.end
    lags = {node: end - one.match for node, one in leader.followers.items() if one.match >= 0}
    return {member.settings.node: 0, **lags}


def replica_lags(member: ClusterNode) -> Counter[str]:
    """Return the lag of each node in the partitions that this one leads, in messages of all of them together."""
    found: Counter[str] = Counter()
    for partition in member.replicas.local:
        found.update({node: lag for node, lag in _lags(member, partition).items() if node != member.settings.node})
    return found
