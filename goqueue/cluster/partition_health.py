"""The state of all partitions of a cluster in a few numbers."""

from collections.abc import Iterable
from dataclasses import dataclass

from goqueue.cluster.partitions import PartitionState


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    """Numbers of partitions."""

    count: int = 0
    offline: int = 0
    """Without a leader: nothing can be published or read."""
    under_replicated: int = 0
    """With replicas that are not in sync."""
    under_min_isr: int = 0
    """With fewer replicas in sync than `min_isr`: publishes are refused unless with acks=leader."""


def count_partitions(states: Iterable[PartitionState]) -> PartitionHealth:
    found = list(states)
    return PartitionHealth(
        len(found),
        sum(not one.leader for one in found),
        sum(one.is_under_replicated for one in found),
        sum(len(one.isr) < one.min_isr for one in found),
    )


def count_needing(states: Iterable[PartitionState], node: str) -> int:
    """Count the partitions that accept no publishes with acks=all without this node."""
    return sum(node in one.isr and len(one.isr) - 1 < one.min_isr for one in states)
