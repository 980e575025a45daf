"""Failures that other replicated logs had, each as a short story in the simulation. The oracles watch all of them."""

from itertools import permutations
from typing import Any

import pytest

from goqueue.cluster.controller_requests import DeleteTopic
from goqueue.cluster.leader_replica import LeaderReplica
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.replication_messages import IsrChange
from tests.simulation.cluster.universe import MS, SECOND
from tests.simulation.replication.data_node import DataNode
from tests.simulation.replication.data_plan import form, reboot, recover
from tests.simulation.replication.data_universe import TOPIC, DataUniverse
from tests.simulation.replication.disk_log import DiskLog


class Story:
    """Three nodes in a quiet universe, and the first partition of their topic."""

    def __init__(self, seed: int = 1, *, publishes: bool = True) -> None:
        self.universe = DataUniverse(seed, 3)
        self._log = PartitionId(0, 0)
        self.universe.retention = 0
        self.universe.recreates_topics = False
        self.universe.start()
        form(self.universe)
        self.universe.is_quiet = not publishes
        self.run(SECOND)
        assert self.log.topic_id

    def run(self, nanoseconds: int) -> None:
        self.universe.run(nanoseconds)

    @property
    def log(self) -> PartitionId:
        known = [node.state.topics[TOPIC] for node in self.universe.data_nodes if TOPIC in node.state.topics]
        self._log = PartitionId(known[0].created_ns, 0) if known else self._log
        return self._log

    @property
    def state(self) -> PartitionState:
        """The latest state that any node knows."""
        states = [node.state.partitions.get(self.log) for node in self.universe.data_nodes]
        return max((one for one in states if one is not None), key=lambda one: one.partition_epoch)

    @property
    def leader(self) -> DataNode:
        return self.universe.node(self.state.leader)

    @property
    def followers(self) -> list[DataNode]:
        return [node for node in self.universe.data_nodes if node is not self.leader]

    @property
    def core(self) -> LeaderReplica:
        return self.leader.leaders[self.log]

    def disk(self, node: DataNode) -> DiskLog:
        return node.logs[self.log]

    def acknowledged(self) -> int:
        return self.universe.data_oracles.acknowledged

    def isolate(self, *nodes: DataNode) -> None:
        """Cut these nodes off from the others, in both directions."""
        few = {node.name for node in nodes}
        rest = {node.name for node in self.universe.data_nodes} - few
        self.universe.cut |= {(one, other) for one in few for other in rest}
        self.universe.cut |= {(other, one) for one in few for other in rest}

    def start(self, *nodes: DataNode) -> None:
        for node in nodes:
            if node.raft is None:
                node.start()

    def end(self) -> None:
        recover(self.universe)


def test_epochs_without_messages_are_known_after_many_failovers() -> None:
    story = Story(publishes=False)
    for _ in range(5):
        leader = story.leader
        leader.crash()
        story.run(3 * SECOND)
        story.start(leader)
        story.run(2 * SECOND)

    assert story.state.leader_epoch > 5
    story.end()


@pytest.mark.parametrize("order", list(permutations((0, 1, 2))))
def test_three_histories_of_fast_failovers_become_one(order: tuple[int, ...]) -> None:
    story = Story(sum(order[:2]) + 10)
    nodes = list(story.universe.data_nodes)
    for number in order:
        story.isolate(nodes[number])
        story.run(700 * MS)
        story.universe.cut.clear()
        nodes[number].crash()
        story.run(2500 * MS)
        story.start(nodes[number])

    story.end()


def test_leader_that_loses_its_tail_and_returns_at_once_leads_in_another_epoch() -> None:
    story = Story()
    leader, epoch = story.leader, story.state.leader_epoch
    leader.stalled_until = story.universe.now + SECOND
    story.run(500 * MS)
    assert story.disk(leader).index.durable_end < story.disk(leader).end
    reboot(story.universe, leader)
    story.run(3 * SECOND)

    assert story.state.leader_epoch > epoch
    story.end()


def test_offset_that_the_disk_of_a_leader_refused_is_not_given_out_again_in_its_epoch() -> None:
    story = Story()
    leader, epoch = story.leader, story.state.leader_epoch
    leader.has_failing_disk = True
    story.run(3 * SECOND)

    assert story.state.leader != leader.name
    assert story.state.leader_epoch > epoch
    story.end()


def test_last_replica_standing_commits_nothing_and_the_others_stay_eligible() -> None:
    story = Story()
    leader = story.leader
    story.universe.node(story.followers[0].name).crash()
    story.run(3 * SECOND)
    story.followers[1].crash()
    story.run(200 * MS)
    committed = story.disk(leader).high_watermark
    story.run(3 * SECOND)
    assert story.disk(leader).high_watermark == committed
    leader.crash()
    story.start(*story.universe.data_nodes)
    story.run(4 * SECOND)

    story.end()


def test_high_watermark_waits_while_the_controller_cannot_take_out_a_replica() -> None:
    story = Story()
    leader = story.leader
    controller = next(node for node in story.universe.data_nodes if node.raft is not None and node.raft.is_leader)
    reboots = controller is leader
    if reboots:  # let another node be the controller
        reboot(story.universe, leader)
        story.run(4 * SECOND)
    leader = story.leader
    lagging = story.followers[0]
    story.universe.cut |= {(leader.name, lagging.name), (lagging.name, leader.name)}
    story.run(300 * MS)
    committed = story.disk(leader).high_watermark
    story.isolate(leader)
    story.run(SECOND)

    assert story.disk(leader).high_watermark == committed
    story.end()


def test_clean_stop_of_a_leader_moves_its_partitions_before_it_ends() -> None:
    story = Story()
    leader = story.leader
    leader.stop()
    story.run(200 * MS)

    assert story.state.leader != leader.name
    assert leader.name not in story.state.isr
    before = story.acknowledged()
    story.run(2 * SECOND)
    assert story.acknowledged() > before
    leader.crash()
    story.end()


def test_wiped_replica_returns_empty_and_is_no_member_until_it_has_everything() -> None:
    story = Story()
    wiped = story.followers[0]
    story.universe.lost_nodes.add(wiped.name)
    wiped.wipe()
    wiped.start()
    story.universe.introduce_observers()
    story.run(100 * MS)
    story.end()

    assert story.disk(wiped).end == story.disk(story.leader).end


def test_power_loss_of_all_nodes_loses_nothing_that_was_acknowledged() -> None:
    story = Story()
    nodes = story.universe.data_nodes
    for number in range(3):
        for node in nodes:
            node.crash()
        shortest = sorted(nodes, key=lambda node: story.disk(node).end)
        story.start(*shortest[:2])  # the shortest logs form a majority first
        story.run(3 * SECOND)
        shortest[number].paused_until = story.universe.now + SECOND
        story.start(*nodes)
        story.run(3 * SECOND)

    story.end()


def test_follower_that_was_away_longer_than_retention_begins_at_the_start_of_its_leader() -> None:
    story = Story()
    away = story.followers[0]
    away.crash()
    story.run(4 * SECOND)
    leader, disk = story.leader, story.disk(story.leader)
    start = disk.high_watermark - 1
    assert start > story.disk(away).end
    disk.forget_below(start)
    story.core.forget_below(start)
    leader._work_leader(story.log)
    story.start(away)
    story.end()

    assert story.universe.data_oracles.resets
    assert story.disk(away).start >= start


def test_topic_that_is_created_again_has_nothing_of_the_deleted_one() -> None:
    story = Story()
    before, away = story.log, story.followers[0]
    away.crash()
    story.run(3 * SECOND)
    story.leader.ask(DeleteTopic(TOPIC))
    story.run(3 * SECOND)
    assert before in away.logs
    story.start(away)
    story.end()

    assert story.log != before
    assert before not in away.logs


def test_replicas_that_were_apart_are_the_same_at_the_end() -> None:
    story = Story()
    for node in story.universe.data_nodes:
        story.isolate(node)
        story.run(2 * SECOND)
        story.universe.cut.clear()
        story.run(SECOND)
    story.end()

    first, *others = (story.disk(node) for node in story.universe.data_nodes)
    assert all(other.records == first.records for other in others)


def test_rebooted_replica_does_not_enter_the_isr_by_the_request_for_its_former_process() -> None:
    story = Story()
    leader, rebooted = story.leader, story.followers[0]
    rebooted.crash()
    story.run(3 * SECOND)
    assert rebooted.name not in story.state.isr
    story.start(rebooted)
    story.universe.run(10 * SECOND, until=lambda: story.core.followers[rebooted.name].is_open)
    former = story.core.followers[rebooted.name].broker_epoch
    rebooted.crash()
    story.start(rebooted)
    story.universe.run(10 * SECOND, until=lambda: rebooted.is_registered)
    isr = tuple((node, leader.state.nodes[node][1]) for node in story.state.isr)
    before = story.state
    leader.ask(
        IsrChange(
            story.log,
            *(leader.name, before.leader_epoch, before.partition_epoch),
            isr=(*isr, (rebooted.name, former)),
            reason="it has caught up",
        )
    )
    story.run(100 * MS)

    assert rebooted.broker_epoch != former
    assert story.state.isr == before.isr or story.state.partition_epoch > before.partition_epoch + 1
    story.end()


def test_end_that_leaders_show_never_goes_back_across_failovers() -> None:
    story, shown = Story(), 0
    for _ in range(12):
        leader = story.leader
        story.universe.run(5 * SECOND, until=lambda: story.core.high_watermark > story.core.epoch_start)
        assert story.core.high_watermark >= shown, "what a reader has seen as the latest is gone"
        shown = story.core.high_watermark
        leader.crash()
        story.run(2 * SECOND)
        story.start(leader)
        story.run(500 * MS)

    story.end()


def test_repeated_publish_is_answered_only_when_its_first_copy_is_committed() -> None:
    story = Story(publishes=False)
    leader, answers = story.leader, list[int | None]()
    story.isolate(leader)
    for _ in range(2):  # the second time as a duplicate of what is stored here
        leader.publish(story.log, "once", answers.append)
        story.run(50 * MS)
    assert not [one for one in answers if one is not None]
    leader.crash()
    story.universe.cut.clear()
    story.run(5 * SECOND)
    story.start(leader)
    story.run(5 * SECOND)
    later = story.leader
    later.publish(story.log, "once", answers.append)
    story.run(SECOND)
    assert answers[-1] is not None
    later.crash()
    story.run(5 * SECOND)

    assert [one.value for one in story.disk(story.leader).records].count("once") == 1
    story.end()


def test_new_controller_fences_no_node_that_is_there() -> None:
    story = Story(publishes=False)
    for _ in range(10):
        controller = next(node for node in story.universe.data_nodes if node.raft and node.raft.is_leader)
        controller.crash()
        story.universe.run(5 * SECOND, until=lambda: any(one.raft.is_controller for one in _up(story)))
        story.run(2 * SECOND)
        fenced = set().union(*(node.state.fenced for node in _up(story)))
        assert fenced <= {controller.name}
        story.start(controller)
        story.run(2 * SECOND)

    story.end()


def _up(story: Story) -> list[Any]:
    return [node for node in story.universe.data_nodes if node.raft is not None]
