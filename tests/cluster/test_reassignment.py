"""Moves of partitions: when they begin, complete and go back, and which nodes may be lost meanwhile."""

from collections.abc import Iterable
from itertools import chain, combinations

import pytest

from goqueue.clock import NANOSECONDS
from goqueue.cluster.controller import Records
from goqueue.cluster.controller_requests import (
    AlterTopic,
    CancelReassignment,
    ChangeReassignment,
    DeleteTopic,
    DrainNode,
    StartReassignment,
)
from goqueue.cluster.epoch_index import EpochIndex
from goqueue.cluster.leader_replica import LeaderReplica
from goqueue.cluster.level_checks import refuse_later
from goqueue.cluster.metadata import PartitionsChanged
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.reassigner import stage_of
from goqueue.cluster.reassignment_records import NodeDraining, ReassignmentEnded
from goqueue.errors import ClusterChangeRefused, NodeNotFound, ReassignmentNotFound, RequestInvalid, TopicNotFound
from goqueue.runtime.cluster.catch_up import CatchUp
from tests.cluster.deciding_cluster import NODES, Cluster

FIVE = (*NODES, "n4", "n5")


class MovingCluster(Cluster):
    """Five nodes; one partition on the first three of them."""

    def __init__(self, *nodes: str, **settings: int) -> None:
        super().__init__(*(nodes or NODES), level=2)
        self.partition = self.create(**settings)  # type: ignore[arg-type]
        for node in FIVE[len(nodes or NODES) :]:
            self.start(node, level=2)

    def start_move(self, *target: str, partition: PartitionId | None = None, **settings: int) -> Records:
        moves = ((partition or self.partition, target),)
        return [*self.ask(StartReassignment(moves, **settings)), *self.advance()]

    def advance(self) -> Records:
        return self.apply(self.controller.moves.advance(2))

    def catch_up(self, *nodes: str) -> None:
        """These nodes come into the ISR, as the leader asks for."""
        self.change_isr(self.partition, *self.state.partitions[self.partition].isr, *nodes)

    @property
    def replicas(self) -> str:
        state = self.state.partitions[self.partition]
        move = f" +{','.join(state.adding)} -{','.join(state.removing)}" if state.is_moving else ""
        return f"{','.join(state.replicas)}{move}"

    @property
    def outcome(self) -> str:
        return list(self.state.reassignments.values())[-1].outcome


@pytest.fixture
def cluster() -> MovingCluster:
    return MovingCluster()


def subsets(nodes: Iterable[str]) -> list[tuple[str, ...]]:
    found = list(nodes)
    return list(chain.from_iterable(combinations(found, count) for count in range(len(found) + 1)))


def test_move_completes_when_all_that_come_are_in_sync(cluster: MovingCluster) -> None:
    before = cluster.state.partitions[cluster.partition]
    first, second, third = before.replicas
    cluster.start_move("n4", "n5", first)
    assert cluster.replicas == f"{first},{second},{third},n4,n5 +n4,n5 -{second},{third}"
    assert cluster.state.partitions[cluster.partition].leader_epoch == before.leader_epoch
    cluster.catch_up("n4")
    assert cluster.advance() == []
    cluster.catch_up("n5")
    cluster.advance()
    assert (cluster.replicas, cluster.shown(cluster.partition)) == (f"n4,n5,{first}", f"n4 in 2: n4,n5,{first}")
    assert cluster.advance() == [ReassignmentEnded(1, "completed", 2, done=1)]
    assert cluster.advance() == []


def test_ended_reassignment_counts_what_it_moved_when_later_ones_move_that_elsewhere(cluster: MovingCluster) -> None:
    before = cluster.state.partitions[cluster.partition].replicas
    second = cluster.create("u")
    others = cluster.state.partitions[second].replicas
    other = next(node for node in FIVE if node not in others)
    moves = ((cluster.partition, before[::-1]), (second, (*others[1:], other)))
    cluster.ask(StartReassignment(moves))
    cluster.advance()
    cluster.ask(CancelReassignment(1))
    cluster.start_move(*before)
    cluster.advance()
    assert cluster.replicas == ",".join(before)
    assert [(one.outcome, one.done) for one in cluster.state.reassignments.values()] == [
        ("cancelled", 1),
        ("completed", 1),
    ]


@pytest.mark.parametrize("dead", subsets(FIVE[:4]))
def test_move_ends_only_with_enough_replicas_in_sync(dead: tuple[str, ...]) -> None:
    """All subsets of nodes that are lost, before and after the new replica came into sync, for both ends of a move."""
    for is_in_sync in (False, True):
        for cancels in (False, True):
            cluster = MovingCluster()
            partition, leaving = cluster.partition, cluster.state.partitions[cluster.partition].replicas[0]
            kept = [node for node in NODES if node != leaving]
            cluster.start_move(*kept, "n4")
            if is_in_sync:
                cluster.catch_up("n4")
            cluster.fence(*dead)
            if cancels:
                try:
                    cluster.ask(CancelReassignment(1))
                except ClusterChangeRefused:
                    assert sum(node not in dead for node in NODES) < 2
            else:
                cluster.advance()
            state = cluster.state.partitions[partition]
            alive = [node for node in (*kept, "n4") if node not in dead]
            if not cancels:
                is_done = is_in_sync and "n4" not in dead and len(alive) >= 2
                assert state.is_moving == (not is_done)
            if not state.is_moving:
                assert len(state.isr) >= state.min_isr
                assert state.leader in state.isr
                assert state.leader not in dead
                assert set(state.isr) <= set(state.replicas)


def test_cancelled_move_goes_back_to_the_replicas_in_their_former_order(cluster: MovingCluster) -> None:
    before = cluster.state.partitions[cluster.partition].replicas
    cluster.start_move("n4", before[2], before[1])
    cluster.catch_up("n4")
    cluster.ask(CancelReassignment(1))
    assert (cluster.replicas, cluster.outcome) == (",".join(before), "cancelled")
    assert cluster.state.partitions[cluster.partition].isr == before
    with pytest.raises(ClusterChangeRefused, match="reassignment 1 is cancelled"):
        cluster.ask(CancelReassignment(1))
    with pytest.raises(ReassignmentNotFound, match="no reassignment 7"):
        cluster.ask(CancelReassignment(7))


def test_leader_that_leaves_is_followed_by_the_first_of_the_target(cluster: MovingCluster) -> None:
    first, second, third = cluster.state.partitions[cluster.partition].replicas
    cluster.start_move(third, second)
    assert cluster.shown(cluster.partition) == f"{third} in 2: {third},{second}"
    assert first not in cluster.replicas


def test_other_order_of_the_same_nodes_changes_the_preferred_leader_at_once(cluster: MovingCluster) -> None:
    first, second, third = cluster.state.partitions[cluster.partition].replicas
    cluster.start_move(third, first, second)
    assert cluster.shown(cluster.partition) == f"{third} in 2: {third},{first},{second}"


def test_move_waits_for_its_turn_and_while_it_is_paused() -> None:
    cluster = MovingCluster(partitions=3)
    moves = tuple((log, ("n4", *state.replicas[1:])) for log, state in cluster.state.partitions.items())
    cluster.ask(StartReassignment(moves, at_once=2))
    cluster.ask(ChangeReassignment(1, is_paused=True, throttle=5))
    assert cluster.advance() == []
    assert cluster.state.reassignments[1].throttle == 5
    cluster.ask(ChangeReassignment(1, is_paused=False))
    cluster.advance()
    stages = [
        stage_of(move, cluster.state.reassignments[1], cluster.state.partitions[move.log])
        for move in cluster.state.reassignments[1].moves
    ]
    assert stages == ["moving", "moving", "waiting"]


def test_partition_has_one_reassignment_at_a_time_until_all_of_that_is_over() -> None:
    cluster = MovingCluster(partitions=2)
    (first, state), (second, other) = cluster.state.partitions.items()
    cluster.ask(StartReassignment(((first, state.replicas[:2]), (second, ("n4", *other.replicas[1:]))), at_once=2))
    cluster.advance()
    assert cluster.state.partitions[first].replicas == state.replicas[:2], "it is there, the other one moves"

    with pytest.raises(ClusterChangeRefused, match="t/0 is being moved by reassignment 1, which is not over"):
        cluster.start_move("n5", state.replicas[1], partition=first)


def test_new_replicas_get_slices_at_the_throttle_and_none_while_their_reassignment_is_paused() -> None:
    cluster, now = MovingCluster(), [0]
    catch_up = CatchUp(lambda: cluster.state, lambda: now[0], rate=0)
    cluster.start_move(*NODES, "n4", throttle=1000)
    state = cluster.state.partitions[cluster.partition]
    leader = LeaderReplica(cluster.partition, state.leader, state, EpochIndex(), 0)
    assert catch_up.wait_seconds(leader, "n4") == 0
    catch_up.sent(leader, "n4", 5000)
    now[0] = 5 * NANOSECONDS - 1
    assert catch_up.wait_seconds(leader, "n4") > 0
    now[0] = 5 * NANOSECONDS
    assert catch_up.wait_seconds(leader, "n4") == 0
    cluster.ask(ChangeReassignment(1, is_paused=True))
    assert catch_up.wait_seconds(leader, "n4") > 0
    assert catch_up.wait_seconds(leader, state.isr[-1]) == 0
    cluster.ask(ChangeReassignment(1, is_paused=False))
    assert catch_up.wait_seconds(leader, "n4") == 0


def test_partition_of_a_deleted_topic_is_not_moved(cluster: MovingCluster) -> None:
    cluster.start_move(*NODES[1:], "n4")
    cluster.ask(DeleteTopic("t"))
    assert cluster.advance() == [ReassignmentEnded(1, "completed", 2)]
    cluster.create()
    with pytest.raises(TopicNotFound, match="it was deleted"):
        cluster.start_move("n4")


def test_plan_that_cannot_be_carried_out_is_refused(cluster: MovingCluster) -> None:
    replicas = cluster.state.partitions[cluster.partition].replicas
    cluster.fence("n5")
    for target, kind, sentence in (
        (replicas, ClusterChangeRefused, "nothing to move"),
        ((), RequestInvalid, "t/0 cannot have the replicas of no node"),
        (("n1", "n1"), RequestInvalid, "each once"),
        (("n9",), RequestInvalid, "no such node"),
        (("n5", "n1"), ClusterChangeRefused, "node n5, which is not there"),
    ):
        with pytest.raises(kind, match=sentence):
            cluster.start_move(*target)
    twice = ((cluster.partition, replicas[:1]), (cluster.partition, replicas[1:]))
    with pytest.raises(RequestInvalid, match="partition t/0 is named more than once"):
        cluster.ask(StartReassignment(twice))
    cluster.start_move(*replicas[1:], "n4")
    with pytest.raises(ClusterChangeRefused, match="t/0 is being moved by reassignment 1"):
        cluster.start_move(*replicas)


def test_replication_factor_grows_and_shrinks_with_min_isr() -> None:
    cluster = MovingCluster(replication_factor=1)
    (only,) = cluster.state.partitions[cluster.partition].replicas
    cluster.ask(AlterTopic("t", {"replication_factor": 3}))
    cluster.advance()
    assert cluster.state.partitions[cluster.partition].min_isr == 1
    cluster.catch_up(*cluster.state.partitions[cluster.partition].adding)
    cluster.advance()
    state = cluster.state.partitions[cluster.partition]
    assert (len(state.replicas), state.replicas[0], state.min_isr) == (3, only, 2)
    cluster.advance()
    cluster.ask(AlterTopic("t", {"replication_factor": 1}))
    cluster.advance()
    assert (cluster.replicas, cluster.state.partitions[cluster.partition].min_isr) == (only, 1)


def test_min_isr_above_the_replicas_that_there_are_is_refused_where_the_cluster_has_more_nodes() -> None:
    cluster = MovingCluster()
    for node in FIVE[3:]:
        cluster.start(node, level=2)
    with pytest.raises(RequestInvalid, match="min_isr 4 is more than 3 replicas"):
        cluster.ask(AlterTopic("t", {"min_isr": 4}))
    with pytest.raises(RequestInvalid, match="min_isr 4 is more than 3 replicas"):
        cluster.create("u", min_isr=4)
    cluster.create("u", min_isr=4, replication_factor=4)
    cluster.ask(AlterTopic("t", {"min_isr": 3}))
    assert cluster.state.partitions[cluster.partition].min_isr == 3


def test_moving_replica_does_not_count_as_missing(cluster: MovingCluster) -> None:
    cluster.start_move(*NODES, "n4")
    state = cluster.state.partitions[cluster.partition]
    assert not state.is_under_replicated
    assert state.settled == state.replicas[:3]


def test_move_is_not_recorded_before_all_nodes_know_of_moves() -> None:
    cluster = Cluster(*NODES)
    partition = cluster.create()
    replicas = cluster.state.partitions[partition].replicas
    records = cluster.controller.decide(StartReassignment(((partition, replicas[1:]),)), 1)
    with pytest.raises(ClusterChangeRefused, match="feature level 2"):
        refuse_later(cluster.state, records)


def test_drained_node_leads_nothing_until_it_is_taken_back(cluster: MovingCluster) -> None:
    cluster.create("u", 6, now_ns=2)
    assert cluster.ask(DrainNode("n1", True)) == [NodeDraining("n1", True)]
    cluster.ask(DrainNode("n1", True))  # by the node, when its publishes are finished
    assert "n1" not in {state.leader for state in cluster.state.partitions.values()}
    assert cluster.controller.return_leaders(lambda _: True, 50) == []
    assert all("n1" not in state.replicas for state in _created(cluster, "v"))
    assert cluster.ask(DrainNode("n1", True)) == []
    cluster.ask(DrainNode("n1", False))
    returned = cluster.apply(cluster.controller.return_leaders(lambda node: node == "n1", 50))
    assert sum(len(one.changes) for one in returned if isinstance(one, PartitionsChanged))
    with pytest.raises(NodeNotFound, match="no node 'n9'"):
        cluster.ask(DrainNode("n9", True))


def _created(cluster: Cluster, name: str) -> list[PartitionState]:
    cluster.create(name, 2, now_ns=3)
    topic_id = cluster.state.topics[name].created_ns
    return [state for log, state in cluster.state.partitions.items() if log.topic_id == topic_id]
