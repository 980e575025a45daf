"""The state of the cluster rewritten: it is the same, and nodes that were away or are new take it from there."""

from pathlib import Path

import pytest

from goqueue.cluster.controller_requests import DeleteTopic
from goqueue.cluster.messages import NodeIdentity
from goqueue.cluster.metadata import ClusterState, NodeLeft, PartitionsChanged
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.reassignment_records import NodeDraining
from goqueue.cluster.retelling import tell_state
from tests.cluster.deciding_cluster import Cluster
from tests.cluster.nodes import RunningCluster, run, wait
from tests.cluster.test_topics import delete, has, lacks


def content(state: ClusterState) -> dict[str, object]:
    """Return all that the records of a state have made."""
    found = {name: value for name, value in vars(state).items() if not name.startswith("_") and name != "was_told"}
    return found | {"catalog": state.topics, "nodes_of_catalog": state.catalog.nodes}


def full_state(monkeypatch: pytest.MonkeyPatch) -> ClusterState:
    monkeypatch.setattr("goqueue.cluster.retelling.CLUSTER_TOLD_AT_ONCE", 3)
    cluster = Cluster("n1", "n2", "n3")
    cluster.create("kept", partitions=4)
    partition = cluster.create("more")
    cluster.create("gone")
    cluster.ask(DeleteTopic("gone"))
    cluster.change_isr(partition, "n1", "n2")
    cluster.fence("n3")
    cluster.apply([NodeDraining("n2", True)])
    return cluster.state


def test_told_state_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    state, told = full_state(monkeypatch), ClusterState()
    told.is_behind = True
    pieces = tell_state(state, 1)
    assert len(pieces) > 2
    told.apply(NodeLeft("n1", 1), 1)  # of what was before, nothing is known
    for piece in pieces[:2]:
        told.apply(piece, 2)
    told.apply(NodeLeft("n1", 1), 3)  # the first attempt was cut off
    for offset, piece in enumerate(pieces, 4):
        assert told.is_behind
        told.apply(piece, offset)

    assert content(told) == content(state)
    assert told.take_changed() == state.partitions.keys()
    assert told.was_told


def test_node_that_has_the_state_passes_over_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    state = full_state(monkeypatch)
    before = content(state.copy())
    state.take_changed()
    for offset, piece in enumerate(tell_state(state, 1), 100):
        state.apply(piece, offset)

    assert content(state) == before
    assert not state.take_changed()


def test_state_that_is_told_takes_the_place_of_what_a_node_had(monkeypatch: pytest.MonkeyPatch) -> None:
    state, late = full_state(monkeypatch), ClusterState()
    old = PartitionId(3, 0)
    late.apply(PartitionsChanged(((old, PartitionState(("n9",), "n9", 1, 1, ("n9",))),)), 0)
    late.voters = (NodeIdentity("n9", "d"),)
    late.is_behind = True
    for offset, piece in enumerate(tell_state(state, 1), 1):
        late.apply(piece, offset)

    assert late.voters == state.voters
    assert late.take_changed() == state.partitions.keys() | {old}


def test_node_that_was_away_takes_what_it_missed_from_the_told_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.runtime.cluster.cluster_log.CLUSTER_TELL_BYTES", 100)
    monkeypatch.setattr("goqueue.runtime.cluster.cluster_log.CLUSTER_TELL_GROWTH", 0)

    async def main(cluster: RunningCluster) -> None:
        late = next(node for node in cluster.nodes.values() if node is not cluster.controller)
        left = [node for node in cluster.nodes.values() if node is not late]
        await left[0].create("orders")
        await left[0].create("returns")
        await cluster.agree(lambda node: has("orders")(node) and has("returns")(node))
        await late.crash()
        known = late.member.log.log.next_offset
        await delete(left[0], "returns")
        for number in range(30):
            await left[0].create(f"news-{number}")
        await wait(left[0], lambda: all(node.member.log.index.start > known for node in left))

        await late.start()

        await wait(late, lambda: has("news-29")(late) and has("orders")(late) and lacks("returns")(late))
        assert late.member.log.index.start > known
        await cluster.agree(lambda node: late.name not in node.member.log.state.fenced)
        for node in (late, *left):
            assert node.member.log.state.topics == left[0].member.log.state.topics
        await late.stop()
        await late.start()
        await cluster.agree(lambda node: late.name not in node.member.log.state.fenced and has("news-29")(node))

    run(main, tmp_path, feature_level=2)
