"""Planted defects that the simulation of replicas must find: each is a mistake that another broker has made."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from goqueue.cluster import controller as controller_module
from goqueue.cluster import reassigner as reassigner_module
from goqueue.cluster.controller import Controller, Records
from goqueue.cluster.elections import restart_replica
from goqueue.cluster.epoch_index import EpochIndex, EpochRow
from goqueue.cluster.follower_replica import CutBack, FollowerReplica, FollowerStage
from goqueue.cluster.leader_replica import LeaderReplica
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.replication_messages import IsrChange, OpenReplica
from tests.simulation.cluster.universe import MS
from tests.simulation.replication.data_node import DataNode
from tests.simulation.replication.data_universe import DataUniverse
from tests.simulation.replication.disk_log import DiskLog

Plant = Callable[[Any, DataUniverse], None]
"""Plants the defect, with a monkeypatch that takes it out again."""


def empty_epochs_are_forgotten(patch: Any, _: DataUniverse) -> None:
    def lose(self: DiskLog, end: int) -> None:
        original(self, end)
        starts = [start for _, start in self.index.rows] + [self.end]
        self.index.rows = [row for row, later in zip(self.index.rows, starts[1:], strict=True) if later - row[1] > 1]

    original = DiskLog.lose
    patch.setattr(DiskLog, "lose", lose)


def logs_are_cut_to_the_high_watermark(patch: Any, _: DataUniverse) -> None:
    def connected(self: FollowerReplica) -> None:
        if self.index.durable_end < self.index.end or self.high_watermark == self.index.end:
            original(self)
        elif self.stage is FollowerStage.IDLE:
            self.stage = FollowerStage.CUTTING
            self.effects.append(CutBack(self.high_watermark))

    def open_always(self: LeaderReplica, node: str, asked: OpenReplica) -> None:
        if asked.leader_epoch == self.epoch and not self.has_resigned:
            self._open(node, asked)

    original = FollowerReplica.connected
    patch.setattr(FollowerReplica, "connected", connected)
    patch.setattr(LeaderReplica, "open", open_always)


def unknown_epochs_end_at_the_end_of_the_log(patch: Any, _: DataUniverse) -> None:
    def common_end(self: EpochIndex, epoch: int) -> EpochRow:
        known = any(one == epoch for one, _ in self.rows)
        return self.end_of(epoch) if known else (epoch, self.end)

    patch.setattr(EpochIndex, "common_end", common_end)


def process_that_starts_again_keeps_its_epoch(patch: Any, _: DataUniverse) -> None:
    def restart(state: Any, node: str, verdict: Any, is_up: Any) -> Any:
        return None if verdict == "intact" and state.leader == node else restart_replica(state, node, verdict, is_up)

    patch.setattr(controller_module, "restart_replica", restart)


def refused_offsets_are_given_out_again(patch: Any, _: DataUniverse) -> None:
    def stored(self: DataNode, log: PartitionId, disk: DiskLog, end: int) -> None:
        if self.has_failing_disk and log in self.leaders:
            disk.cut(disk.index.durable_end)
            disk.index.cut(disk.index.durable_end)
            self.has_failing_disk = False
        else:
            original(self, log, disk, end)

    original = DataNode._stored
    patch.setattr(DataNode, "_stored", stored)


def last_replica_commits_alone(patch: Any, _: DataUniverse) -> None:
    patch.setattr(LeaderReplica, "has_enough", property(lambda _: True))


def stale_process_enters_the_isr(patch: Any, universe: DataUniverse) -> None:
    universe.joiner_fault = "lose"

    def change_isr(self: Controller, request: IsrChange) -> Records:
        nodes = self.state.nodes
        rows = tuple((node, nodes[node][1] if node in nodes else epoch) for node, epoch in request.isr)
        return original(self, replace(request, isr=rows))

    original = Controller.change_isr
    patch.setattr(Controller, "change_isr", change_isr)


def uncommitted_shrink_counts(patch: Any, _: DataUniverse) -> None:
    def counted(self: LeaderReplica) -> list[str]:
        isr = self.state.isr if self._asked is None else tuple(node for node, _ in self._asked.isr)
        return [node for node in self.followers if node in isr]

    patch.setattr(LeaderReplica, "_counted", property(counted))


def uncommitted_growth_does_not_count(patch: Any, universe: DataUniverse) -> None:
    universe.joiner_fault, universe.patience_ns = "stall", 60 * MS
    patch.setattr(
        LeaderReplica, "_counted", property(lambda self: [node for node in self.followers if node in self.state.isr])
    )


def confirmed_before_it_is_durable(patch: Any, _: DataUniverse) -> None:
    def confirmed_end(self: FollowerReplica) -> int | None:
        return self.index.end if self.stage is FollowerStage.STREAMING else None

    patch.setattr(FollowerReplica, "confirmed_end", property(confirmed_end))


def leader_does_not_count_its_own_disk(patch: Any, _: DataUniverse) -> None:
    def advance(self: LeaderReplica) -> None:
        durable, self.index.durable_end = self.index.durable_end, self.index.end
        original(self)
        self.index.durable_end = durable

    original = LeaderReplica._advance
    patch.setattr(LeaderReplica, "_advance", advance)


def damaged_log_stays_eligible(patch: Any, _: DataUniverse) -> None:
    def restart(state: Any, node: str, _: Any, is_up: Any) -> Any:
        return restart_replica(state, node, "intact", is_up)

    patch.setattr(controller_module, "restart_replica", restart)


def moves_complete_before_the_new_replicas_are_in_sync(patch: Any, _: DataUniverse) -> None:
    def settle_on(state: PartitionState, nodes: tuple[str, ...], min_isr: int, _: Any) -> PartitionState:
        following = replace(state, replicas=nodes, adding=(), removing=())
        return following.next(leader=nodes[0], isr=nodes, min_isr=min_isr)

    patch.setattr(reassigner_module, "obstacle_to_complete", lambda *_: None)
    patch.setattr(reassigner_module, "settle_on", settle_on)


def logs_are_deleted_when_their_move_begins(patch: Any, _: DataUniverse) -> None:
    def follow_state(self: DataNode, log: PartitionId) -> None:
        original(self, log)
        state = self.state.partitions.get(log)
        if state is not None and self.name in state.removing:
            self._drop(log)
            self.logs.pop(log, None)

    original = DataNode._follow_state
    patch.setattr(DataNode, "_follow_state", follow_state)


CANARIES: tuple[Plant, ...] = (
    empty_epochs_are_forgotten,
    logs_are_cut_to_the_high_watermark,
    unknown_epochs_end_at_the_end_of_the_log,
    process_that_starts_again_keeps_its_epoch,
    refused_offsets_are_given_out_again,
    last_replica_commits_alone,
    stale_process_enters_the_isr,
    uncommitted_shrink_counts,
    uncommitted_growth_does_not_count,
    confirmed_before_it_is_durable,
    leader_does_not_count_its_own_disk,
    damaged_log_stays_eligible,
    moves_complete_before_the_new_replicas_are_in_sync,
    logs_are_deleted_when_their_move_begins,
)
