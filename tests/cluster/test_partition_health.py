"""The state of all partitions in a few numbers."""

from goqueue.cluster.partition_health import PartitionHealth, count_needing, count_partitions
from goqueue.cluster.partitions import PartitionState

NODES = ("n1", "n2", "n3")
STATES = [
    PartitionState(NODES, "n1", 1, 1, NODES, 2),
    PartitionState(NODES, "n2", 1, 1, ("n1", "n2"), 2),
    PartitionState(NODES, "n3", 1, 1, ("n3",), 2, ("n1",)),
    PartitionState(("n1",), "", 1, 1, (), 1, ("n1",)),
]


def test_partitions_are_counted_by_what_they_lack() -> None:
    assert count_partitions(STATES) == PartitionHealth(4, offline=1, under_replicated=3, under_min_isr=2)
    assert count_partitions([]) == PartitionHealth()


def test_node_is_needed_where_too_few_others_are_in_sync() -> None:
    assert [count_needing(STATES, node) for node in NODES] == [1, 1, 1]
    assert count_needing(STATES[:1], "n1") == 0
