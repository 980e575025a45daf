"""Records of the cluster's log, and the state that they make."""

import msgspec
import pytest

from goqueue.broker.core.catalog import TopicAltered, TopicCreated, TopicDeleted
from goqueue.broker.core.topic import TopicSettings
from goqueue.cluster.feature_levels import FEATURE_LEVEL
from goqueue.cluster.metadata import (
    CatalogChanged,
    ClusterRecord,
    ClusterState,
    FeatureLevelRaised,
    NodeFenced,
    NodeLeft,
    NodeRegistered,
    NodeUnfenced,
    PartitionsChanged,
    decode_cluster_record,
    encode_cluster_record,
)
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.reassignment_records import Move, Reassignment, ReassignmentStarted
from goqueue.errors import ClusterRecordUnknown
from goqueue.storage import frame

ORDERS = TopicCreated("orders", 2, TopicSettings(), 7)
STATE = PartitionState(("n1", "n2", "n3"), "n1", 1, 1, ("n1", "n2", "n3"), min_isr=2)
PARTITIONS = PartitionsChanged(((PartitionId(7, 0), STATE), (PartitionId(7, 1), STATE)))


def registered(node: str) -> NodeRegistered:
    return NodeRegistered(node, "directory", "process", "http://a", "a:1", "1.0", 5, rack="r1", feature_level=1)


def applied(*records: ClusterRecord) -> ClusterState:
    state = ClusterState()
    for offset, record in enumerate(records):
        state.apply(record, offset)
    return state


@pytest.mark.parametrize(
    "record",
    [
        registered("n1"),
        NodeFenced("n1", 4, is_stopping=True),
        NodeUnfenced("n1", 4),
        FeatureLevelRaised(1),
        CatalogChanged(ORDERS),
        CatalogChanged(TopicAltered("orders", 3, TopicSettings(cleanup="compact"), 7)),
        CatalogChanged(TopicDeleted("orders")),
        PARTITIONS,
    ],
)
def test_record_is_the_same_after_it_was_written_and_read(record: ClusterRecord) -> None:
    assert decode_cluster_record(frame.decode(encode_cluster_record(record))) == record


def test_record_of_a_later_version_is_refused() -> None:
    content = frame.encode(msgspec.json.encode({"record": "node_promoted", "node": "n1"}), b"node/n1")
    with pytest.raises(ClusterRecordUnknown, match="node_promoted"):
        ClusterState().apply_message(frame.decode(content))


def test_level_that_this_version_does_not_know_is_refused_before_its_records() -> None:
    message = frame.decode(encode_cluster_record(FeatureLevelRaised(FEATURE_LEVEL + 1)))
    with pytest.raises(ClusterRecordUnknown, match="feature level"):
        ClusterState().apply_message(message)


def test_registration_without_the_latest_fields_is_read() -> None:
    record = msgspec.to_builtins(registered("n1"))
    del record["rack"], record["feature_level"]
    read = decode_cluster_record(frame.decode(frame.encode(msgspec.json.encode(record), b"node/n1")))
    assert isinstance(read, NodeRegistered)
    assert (read.rack, read.feature_level) == ("", 0)


def test_changed_partitions_are_announced_once() -> None:
    state = applied(CatalogChanged(ORDERS), PARTITIONS)
    assert state.partitions == dict(PARTITIONS.changes)
    assert state.take_changed() == {PartitionId(7, 0), PartitionId(7, 1)}
    assert state.take_changed() == frozenset()


def test_deleted_topic_leaves_its_id_and_no_partition() -> None:
    state = applied(CatalogChanged(ORDERS), PARTITIONS)
    state.take_changed()
    state.apply(CatalogChanged(TopicDeleted("orders")), 9)
    assert (state.topics, state.partitions, state.deleted) == ({}, {}, {7})
    assert state.take_changed() == {PartitionId(7, 0), PartitionId(7, 1)}


def test_fence_ends_with_the_next_process_of_the_node() -> None:
    state = applied(registered("n1"), registered("n2"), NodeFenced("n1", 0), NodeFenced("n2", 1))
    state.apply(registered("n1"), 9)
    assert set(state.fenced) == {"n2"}
    state.apply(NodeUnfenced("n2", 1), 10)
    assert not state.fenced


def test_node_that_left_is_no_longer_fenced() -> None:
    state = applied(registered("n1"), NodeFenced("n1", 0), NodeLeft("n1", 3))
    assert (state.nodes, state.fenced) == ({}, {})


def test_copy_of_a_state_goes_its_own_way() -> None:
    state = applied(registered("n1"), CatalogChanged(ORDERS), PARTITIONS)
    copy = state.copy()
    copy.apply(CatalogChanged(TopicDeleted("orders")), 9)
    assert (set(state.topics), len(state.partitions), state.deleted) == ({"orders"}, 2, set())
    assert (copy.topics, copy.partitions, copy.deleted) == ({}, {}, {7})


def test_next_state_of_a_partition_counts_leaders_and_records() -> None:
    same = STATE.next(leader="n1", isr={"n2", "n1"}, elr=())
    assert (same.leader_epoch, same.partition_epoch, same.isr, same.elr) == (1, 2, ("n1", "n2"), ())
    other = same.next(leader="n2", isr={"n2"}, elr={"n1"})
    assert (other.leader_epoch, other.partition_epoch, other.isr, other.elr) == (2, 3, ("n2",), ("n1",))


def test_no_replica_is_kept_as_eligible_while_enough_are_in_sync() -> None:
    assert STATE.next(leader="n2", isr={"n2", "n3"}, elr={"n1"}).elr == ()
    assert STATE.next(leader="n2", isr={"n2"}, elr={"n1"}, min_isr=1).elr == ()


def test_reassignment_that_has_ended_moves_nothing_when_it_is_told_again() -> None:
    log, state = PartitionId(1, 0), ClusterState()
    ended = Reassignment(1, (Move(log, ("n1",), ("n2",)),), 0, 4, 1, outcome="completed")
    state.apply(ReassignmentStarted(ended), 1)
    assert state.reassignments == {1: ended}
    assert state.reassignment_of(log) is None
