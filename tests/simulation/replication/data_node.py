"""A simulated node with replicas: the production cores of Raft, the controller and replication over one disk.

This is the shell that the broker has as well: it carries messages, writes logs, and follows the cluster's log.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from goqueue.cluster.follower_replica import AskLeader, CutBack, EmptyLog, FollowerReplica, FollowerStage
from goqueue.cluster.leader_replica import AskController, LeaderReplica, Tell
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.replication_messages import (
    DataHeader,
    IsrChange,
    OpenReplica,
    ReplicaDiverged,
    ReplicaFenced,
    ReplicaOpened,
    ReplicaReset,
    ResignLeadership,
)
from tests.simulation.cluster.oracles import Entry
from tests.simulation.cluster.universe import MS
from tests.simulation.replication.control import ControllingNode
from tests.simulation.replication.disk_log import BEGIN, Asked, Confirmed, Data, DiskLog, Refused, Told
from tests.simulation.replication.links import Connection

if TYPE_CHECKING:
    from tests.simulation.replication.data_universe import DataUniverse

Reply = Callable[[int | None], None]
"""Takes the offset, or None if the outcome is unknown."""
_TICK_NS = 200 * MS
_BATCH = 8


class DataNode(ControllingNode):
    """One node."""

    def __init__(self, universe: "DataUniverse", name: str) -> None:
        super().__init__(universe, name)
        self.has_failing_disk = False
        self._receivers: dict[type, Callable[[str, Any], None]] = {
            Data: self._receive_records,
            Confirmed: self._confirmed,
            Told: self._told,
            Refused: self._refused,
            OpenReplica: self._opened_by,
            ReplicaOpened: self._answered,
            ReplicaDiverged: self._answered,
            ReplicaReset: self._answered,
            ReplicaFenced: self._answered,
        }

    def _reset(self) -> None:
        super()._reset()
        self.leaders: dict[PartitionId, LeaderReplica] = {}
        self.followers: dict[PartitionId, FollowerReplica] = {}
        self.early: dict[PartitionId, dict[str, OpenReplica]] = {}
        """Requests of followers that know of an epoch earlier than this node."""
        self.waiting: dict[PartitionId, list[tuple[int, object, Reply]]] = {}
        self._is_syncing_data = False
        self._to_tell: set[PartitionId] = set()

    # --- process ---

    def start(self) -> None:
        super().start()
        self.later(0, self._tick_data)

    def crash(self) -> None:
        super().crash()
        for link in self.universe.connections_of(self.name):
            link.end()
        for disk in self.logs.values():
            disk.crash(self.universe.random)
        self.has_failing_disk = False
        self._reset()

    def wipe(self) -> None:
        super().wipe()
        self.logs = {}

    def state_of(self, log: PartitionId) -> PartitionState:
        return self.state.partitions[log]

    # --- time ---

    def _tick_data(self) -> None:
        random = self.universe.random
        if not self.is_registered:
            self._ask_controller(self._registration())
        self._control()
        for log, core in list(self.leaders.items()):
            if core.has_resigned:
                self._ask_controller(ResignLeadership(log, self.name, core.epoch, "its disk has failed"))
            elif core.is_uneven:
                core.tick(self.clock())
                self._work_leader(log)
        for log, disk in self.logs.items():
            if random.random() < 0.1:
                disk.saved_high_watermark = disk.high_watermark
            if random.random() < self.universe.retention:
                self._remove_old(log, disk)
        self.later(round(_TICK_NS * random.uniform(0.8, 1.2)), self._tick_data)

    def _remove_old(self, log: PartitionId, disk: DiskLog) -> None:
        """Do as retention does: remove some of what is committed. A follower removes what its leader has removed."""
        core = self.leaders.get(log) or self.followers.get(log)
        if core is None or (isinstance(core, FollowerReplica) and core.stage is FollowerStage.CUTTING):
            return
        limit = min(disk.high_watermark, disk.index.durable_end)
        start = core.log_start if isinstance(core, FollowerReplica) else self.universe.random.randint(disk.start, limit)
        start = min(start, limit)
        if start > disk.start:
            disk.forget_below(start)
            core.forget_below(start)
            if isinstance(core, LeaderReplica):
                self._work_leader(log)

    # --- the cluster's log ---

    def committed(self, end: int) -> None:
        was_registered = self.is_registered
        for offset in range(self.applied, end):
            value = self.entries[offset].value
            if value != 0:
                self.state.apply(value, offset)  # type: ignore[arg-type]
        self.applied = end
        changed = self.state.take_changed()
        for log in changed & self.state.partitions.keys():
            self.universe.data_oracles.decided(log, self.state.partitions[log])
        if self.is_registered and not was_registered:
            changed |= self.state.partitions.keys() | self.logs.keys()
        for log in sorted(changed):
            self._follow_state(log)

    def _follow_state(self, log: PartitionId) -> None:
        state = self.state.partitions.get(log)
        if state is None:
            self.universe.data_oracles.deleted.add(log.topic_id)
        if state is None or self.name not in state.replicas:
            self._drop(log)
            self.logs.pop(log, None)
            return
        follower = self.followers.get(log)
        if not self.is_registered or (follower is not None and follower.stage is FollowerStage.CUTTING):
            return
        disk = self.logs.setdefault(log, DiskLog())
        core = self.leaders.get(log)
        if state.leader == self.name:
            if core is not None and core.epoch == state.leader_epoch:
                core.changed(state)
                self._work_leader(log)
            else:
                self._drop(log)
                self._lead(log, state, disk)
        elif follower is None or (follower.leader, follower.epoch) != (state.leader, state.leader_epoch):
            self._drop(log)
            if state.leader:
                self._follow(log, state, disk)
        elif self.name in state.adding:
            follower.joins(state.partition_epoch)
            self._work_follower(log)

    def _drop(self, log: PartitionId) -> None:
        """End the role here. Clients that wait do not know what becomes of their messages."""
        self.leaders.pop(log, None)
        self.followers.pop(log, None)
        for _, _, reply in self.waiting.pop(log, ()):
            reply(None)

    def _lead(self, log: PartitionId, state: PartitionState, disk: DiskLog) -> None:
        self.universe.data_oracles.leads(self, log, state, disk)
        core = self.leaders[log] = LeaderReplica(
            log, self.name, state, disk.index, disk.high_watermark, self.broker_epoch, self.universe.replica_settings
        )
        if disk.is_fenced:
            core.failed("the log is fenced")
        else:
            begin = disk.end
            self._append_data(log, disk, (Entry(state.leader_epoch, BEGIN),))
            core.appended(begin + 1, ((state.leader_epoch, begin),))
        early = self.early.pop(log, {})
        self.early[log] = {node: asked for node, asked in early.items() if asked.leader_epoch > core.epoch}
        for node, asked in early.items():
            core.open(node, asked)
        self._work_leader(log)

    def _follow(self, log: PartitionId, state: PartitionState, disk: DiskLog) -> None:
        core = self.followers[log] = FollowerReplica(
            *(log, state.leader, state.leader_epoch, disk.index, disk.high_watermark),
            broker_epoch=self.broker_epoch,
            unclean_epoch=state.unclean_epoch,
            partition_epoch=state.partition_epoch,
        )
        if state.leader in self.links:
            core.connected()
        self._work_follower(log)

    # --- connections ---

    def connected(self, link: Connection, life: int) -> None:
        if not link.is_current(life):
            return
        other = link.other(self.name).name
        self._disconnect(other)
        self.links[other] = link
        for log, core in list(self.followers.items()):
            if core.leader == other:
                core.connected()
                self._work_follower(log)

    def disconnected(self, link: Connection, life: int) -> None:
        if link.is_current(life):
            self._disconnect(link.other(self.name).name)

    def _disconnect(self, other: str) -> None:
        self.links.pop(other, None)
        for follower in self.followers.values():
            if follower.leader == other:
                follower.disconnected()
        for log, leader in list(self.leaders.items()):
            leader.disconnected(other)
            self._work_leader(log)
        for asked in self.early.values():
            asked.pop(other, None)

    def _send(self, node: str, message: object) -> None:
        if node == self.name:
            self.later(0, self.receive_data, node, message)
        elif (link := self.links.get(node)) is not None:
            link.send(self.name, message)

    def receive_data(self, source: str, message: object) -> None:
        receive = self._receivers.get(type(message))
        if receive is not None:
            receive(source, message)
        else:
            self._decide(source, message)  # type: ignore[arg-type]

    def _confirmed(self, source: str, message: Confirmed) -> None:
        for log, epoch, end in message.rows:
            if (core := self.leaders.get(log)) is not None:
                core.confirmed(source, epoch, end)
                self._work_leader(log)

    def _told(self, _: str, message: Told) -> None:
        for log, epoch, high_watermark, start in message.rows:
            if (core := self.followers.get(log)) is not None:
                core.hear(epoch, high_watermark, start)
                self._show(log, core.high_watermark)

    def _refused(self, _: str, message: Refused) -> None:
        log = message.request.log
        core = self.leaders.get(log)
        if core is not None and core.epoch == message.request.leader_epoch:
            core.refused(message.attempt, is_final=message.is_final)
            self._work_leader(log)

    def _opened_by(self, source: str, asked: OpenReplica) -> None:
        core = self.leaders.get(asked.log)
        if core is not None and asked.leader_epoch <= core.epoch:
            core.open(source, asked)
            self._work_leader(asked.log)
        else:
            self.early.setdefault(asked.log, {})[source] = asked

    def _answered(self, _: str, message: ReplicaOpened | ReplicaDiverged | ReplicaReset | ReplicaFenced) -> None:
        core = self.followers.get(message.log)
        if core is None:
            return
        if isinstance(message, ReplicaOpened):
            core.opened(message)
        elif isinstance(message, ReplicaFenced):
            core.fenced(message)
        else:
            core.diverged(message)
        self._show(message.log, core.high_watermark)
        self._work_follower(message.log)

    # --- leading ---

    def _work_leader(self, log: PartitionId) -> None:
        """Do what the core asks for, push what followers lack, and answer what is committed."""
        core, disk = self.leaders[log], self.logs[log]
        effects, core.effects = core.effects, []
        for effect in effects:
            if isinstance(effect, Tell):
                self._send(effect.node, effect.message)
            elif isinstance(effect, AskController):
                request = effect.request
                self._ask_controller(Asked(request, effect.attempt) if isinstance(request, IsrChange) else request)
        if self.leaders.get(log) is not core:  # the controller is here, and has decided
            return
        if core.high_watermark > disk.high_watermark:
            self._show(log, core.high_watermark)
            self._answer_clients(log, core.high_watermark)
            if not self._to_tell:
                self.later(2 * MS, self._tell)
            self._to_tell.add(log)
        for node in core.followers:
            while (pending := core.pending(node)) is not None and node in self.links:
                self._push(log, core, disk, node, *pending)

    def _push(self, log: PartitionId, core: LeaderReplica, disk: DiskLog, node: str, base: int, end: int) -> None:
        end = min(end, base + _BATCH)
        header = DataHeader(log, core.epoch, base, end, core.high_watermark, disk.start)
        entries = tuple(disk.records[base - disk.start : end - disk.start])
        self._send(node, Data(header, entries, core.index.rows_between(base, end)))
        core.sent(node, end)

    def _tell(self) -> None:
        logs, self._to_tell = self._to_tell, set()
        cores = [(log, core) for log in sorted(logs) if (core := self.leaders.get(log)) is not None]
        rows = tuple((log, core.epoch, core.high_watermark, core.index.start) for log, core in cores)
        for node in self.links:
            self._send(node, Told(rows))

    def publish(self, log: PartitionId, value: object, reply: Reply) -> None:
        """Append a value unless it is there already; reply when it is committed."""
        core, disk = self.leaders.get(log), self.logs.get(log)
        if core is None or disk is None or core.has_resigned or not core.has_enough:
            reply(None)
            return
        offset = disk.offsets.get(value)
        if offset is None:
            offset = disk.end
            self._append_data(log, disk, (Entry(core.epoch, value),))
            core.appended(offset + 1)
        self.waiting.setdefault(log, []).append((offset, value, reply))
        self._answer_clients(log, core.high_watermark)
        self._work_leader(log)

    def _answer_clients(self, log: PartitionId, end: int) -> None:
        waiting = self.waiting.pop(log, [])
        self.waiting[log] = [one for one in waiting if one[0] >= end]
        for offset, value, reply in waiting:
            if offset < end:
                self.universe.data_oracles.acknowledges(self, log, offset, value)
                reply(offset)

    # --- following ---

    def _receive_records(self, _: str, data: Data) -> None:
        log = data.header.log
        core, disk = self.followers.get(log), self.logs.get(log)
        if core is None or disk is None or disk.is_fenced or not core.takes(data.header):
            return
        self._append_data(log, disk, data.entries)
        core.appended(data.header, data.rows)
        self._show(log, core.high_watermark)

    def _work_follower(self, log: PartitionId) -> None:
        core = self.followers[log]
        effects, core.effects = core.effects, []
        for effect in effects:
            if isinstance(effect, AskLeader):
                self._send(core.leader, effect.message)
            else:
                self.later(self._disk_delay(), self._cut, log, core, effect)

    def _cut(self, log: PartitionId, core: FollowerReplica, effect: CutBack | EmptyLog) -> None:
        disk = self.logs.get(log)
        if disk is None or self.followers.get(log) is not core:
            return
        oracles = self.universe.data_oracles
        if isinstance(effect, CutBack):
            oracles.cuts_back(self, log, disk, effect.end)
            disk.cut(effect.end)
            core.cut_done(disk.start, effect.end)
        else:
            oracles.resets += 1
            disk.records.clear()
            disk.offsets.clear()
            core.cut_done(effect.start, effect.start, effect.rows)
        disk.high_watermark = core.high_watermark
        if core.leader in self.links:
            core.connected()
        self._work_follower(log)
        self._follow_state(log)

    def _show(self, log: PartitionId, high_watermark: int) -> None:
        disk = self.logs[log]
        self.universe.data_oracles.advances(self, log, disk, high_watermark)
        disk.high_watermark = high_watermark

    # --- the disk ---

    def _append_data(self, log: PartitionId, disk: DiskLog, entries: tuple[Entry, ...]) -> None:
        self.universe.data_oracles.appends(self, log, disk, entries)
        disk.append(entries)
        if not self._is_syncing_data:
            self._is_syncing_data = True
            self.later(0, self._sync_data)

    def _sync_data(self) -> None:
        """Everything that was appended when the sync began is durable: one round for all logs."""
        self._is_syncing_data = False
        ends = {log: disk.end for log, disk in self.logs.items() if disk.index.durable_end < disk.end}
        self._is_syncing_data = bool(ends)
        if ends:
            self.later(self._disk_delay(), self._synced_data, ends)

    def _synced_data(self, ends: dict[PartitionId, int]) -> None:
        for log, end in ends.items():
            if (disk := self.logs.get(log)) is not None and not disk.is_fenced:
                self._stored(log, disk, min(end, disk.end))
        rows: dict[str, list[tuple[PartitionId, int, int]]] = {}
        for log, core in self.followers.items():
            if (confirmed := core.confirmed_end) is not None:
                rows.setdefault(core.leader, []).append((log, core.epoch, confirmed))
        for leader, found in rows.items():
            self._send(leader, Confirmed(tuple(found)))
        self._is_syncing_data = False
        if any(one.index.durable_end < one.end and not one.is_fenced for one in self.logs.values()):
            self._is_syncing_data = True
            self.later(0, self._sync_data)

    def _stored(self, log: PartitionId, disk: DiskLog, end: int) -> None:
        leader, follower = self.leaders.get(log), self.followers.get(log)
        if self.has_failing_disk:
            disk.is_fenced = True
            if leader is not None:
                leader.failed("its disk has failed")
                self._work_leader(log)
        elif leader is not None:
            leader.durable(end)
            self._work_leader(log)
        elif follower is not None:
            follower.durable(end)
            self._work_follower(log)
        else:
            disk.index.durable_end = end

    def __repr__(self) -> str:
        roles = {log: self.leaders.get(log) or self.followers.get(log) for log in self.logs}
        lines = "".join(f"\n      {tuple(log)} {self.logs[log]} {role}" for log, role in roles.items())
        return f"{super().__repr__()}, connected to {', '.join(self.links) or 'no node'}{lines}"
