"""Plans of moves: drained nodes are empty, new ones get their share, and little is copied for it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.reassignment_plans import Plan, PlannedCluster, plan_balance, plan_drain
from goqueue.errors import ClusterChangeRefused
from goqueue.limits import MIB

THREE = ("n1", "n2", "n3")


def cluster(nodes: int, partitions: int, factor: int = 3, size: int = 0, racks: str = "") -> PlannedCluster:
    """Return partitions that are spread over the first three nodes."""
    names = [f"n{number}" for number in range(1, nodes + 1)]
    logs = [PartitionId(1, number) for number in range(partitions)]
    before = {log: tuple(THREE[(log.partition + one) % 3] for one in range(factor)) for log in logs}
    return PlannedCluster(dict(zip(names, racks or [""] * nodes, strict=True)), before, dict.fromkeys(logs, size))


def copies(cluster: PlannedCluster, plan: Plan) -> int:
    return sum(len(set(replicas) - set(cluster.before[log])) for log, replicas in plan.items())


def test_drained_node_has_no_replica_and_only_its_own_are_copied() -> None:
    found = cluster(4, 6)
    plan = plan_drain(found, "n2")
    assert all("n2" not in replicas for replicas in found.now.values())
    assert copies(found, plan) == 6


def test_drain_is_refused_where_all_other_nodes_have_a_replica() -> None:
    with pytest.raises(ClusterChangeRefused, match="node n2 cannot be drained"):
        plan_drain(cluster(3, 2), "n2")


def test_drained_replica_goes_to_another_rack_than_the_others() -> None:
    found = cluster(5, 1, racks="abcab")
    plan_drain(found, "n1")
    assert set(found.now[PartitionId(1, 0)]) == {"n4", "n2", "n3"}


def test_added_node_gets_its_share_of_bytes_and_leaders() -> None:
    found = cluster(4, 8, size=100 * MIB)
    plan = plan_balance(found, to="n4")
    assert copies(found, plan) == 6
    assert set(Counter(node for replicas in found.now.values() for node in replicas).values()) == {6}
    assert set(Counter(replicas[0] for replicas in found.now.values()).values()) == {2}


def test_balanced_cluster_is_left_alone() -> None:
    assert plan_balance(cluster(3, 9, size=7)) == {}


def test_large_partition_is_balanced_by_several_small_ones() -> None:
    found = cluster(2, 0)
    logs = [PartitionId(1, number) for number in range(5)]
    sizes = [4000 * MIB, *[1000 * MIB] * 4]
    found = PlannedCluster({"n1": "", "n2": ""}, dict.fromkeys(logs, ("n1",)), dict(zip(logs, sizes, strict=True)))
    assert copies(found, plan_balance(found)) == 1
    assert abs(found.load["n1"] - found.load["n2"]) < 10 * MIB


def test_two_replicas_on_one_rack_are_put_apart() -> None:
    found = PlannedCluster({"n1": "a", "n2": "a", "n3": "b"}, {PartitionId(1, 0): ("n1", "n2")}, {})
    assert plan_balance(found) == {PartitionId(1, 0): ("n1", "n3")}


@given(
    st.lists(st.permutations(["n1", "n2", "n3", "n4"]).map(lambda one: tuple(one[:2])), max_size=20),
    st.lists(st.integers(0, 10**9), min_size=20, max_size=20),
)
def test_plan_keeps_the_number_of_replicas_and_makes_no_node_fuller(
    replicas: list[tuple[str, str]], sizes: list[int]
) -> None:
    logs = {PartitionId(1, number): nodes for number, nodes in enumerate(replicas)}
    racks = {"n1": "a", "n2": "a", "n3": "b", "n4": ""}
    found = PlannedCluster(racks, logs, {log: sizes[log.partition] for log in logs})
    crowd, fullest = sum(map(found.crowd, logs.values())), max(found.load.values())
    plan_balance(found)
    assert all(len(set(nodes)) == 2 for nodes in found.now.values())
    assert sum(map(found.crowd, found.now.values())) <= crowd
    if not crowd:
        assert max(found.load.values()) <= fullest
