"""The speed at which replicas catch up."""

from goqueue.clock import NANOSECONDS
from goqueue.cluster.epoch_index import EpochIndex
from goqueue.cluster.leader_replica import LeaderReplica
from goqueue.cluster.metadata import ClusterState
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.reassignment_records import Move, Reassignment, ReassignmentChanged, ReassignmentStarted
from goqueue.runtime.cluster.catch_up import CatchUp

LOG = PartitionId(1, 0)
MOVING = PartitionState(("n1", "n2"), "n1", 1, 2, ("n1",), adding=("n2",))


def test_other_throttle_is_in_force_at_once() -> None:
    state, now_ns = ClusterState(), [NANOSECONDS]
    state.apply(ReassignmentStarted(Reassignment(1, (Move(LOG, ("n1",), ("n1", "n2")),), 1, 4, 0)), 1)
    leader = LeaderReplica(LOG, "n1", MOVING, EpochIndex([], 0), 0)
    catch_up = CatchUp(lambda: state, lambda: now_ns[0], 0)
    catch_up.sent(leader, "n2", 1_000_000)
    assert 0 < catch_up.wait_seconds(leader, "n2") < 1, "it looks again before the million seconds are over"
    now_ns[0] += 100 * NANOSECONDS
    assert catch_up.wait_seconds(leader, "n2") > 0

    state.apply(ReassignmentChanged(1, 1_000_000, False), 2)
    assert catch_up.wait_seconds(leader, "n2") == 0
    catch_up.sent(leader, "n2", 100_000)
    now_ns[0] += NANOSECONDS // 5
    assert catch_up.wait_seconds(leader, "n2") == 0
