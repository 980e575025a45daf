"""One replica on this node: joins a partition with the core that leads or follows it.

The cluster's log says who leads; `set_state` brings this replica there, one step at a time. A replica that begins to
lead first completes what is known of its log (epochs, producers) and waits until all of it is stored. Then, in one
turn, it writes the first frame of its epoch and answers clients. One that stops leading fails all who wait at once.
"""

import asyncio
import logging
from collections.abc import Callable

from goqueue.broker.core.epochs import begin_epoch
from goqueue.broker.core.leadership import Leadership
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.producer_checkpoint import load_producers
from goqueue.broker.core.transaction_tracker import TransactionTracker
from goqueue.cluster.follower_replica import AskLeader, CutBack, EmptyLog, FollowerReplica, FollowerStage
from goqueue.cluster.leader_replica import AskController, LeaderReplica, Tell
from goqueue.cluster.partitions import PartitionId, PartitionState, partition_of
from goqueue.cluster.replication_messages import (
    DataHeader,
    OpenReplica,
    RaiseEpoch,
    ReplicaDiverged,
    ReplicaFenced,
    ReplicaOpened,
    ReplicaPosition,
    ReplicaReset,
)
from goqueue.errors import GoQueueError
from goqueue.limits import OFFSET_MAX
from goqueue.runtime.cluster.received_data import append_data, check_data, epochs_in
from goqueue.runtime.cluster.replica_ends import NotedEnds
from goqueue.runtime.cluster.replica_log import ReplicaLog
from goqueue.runtime.cluster.replica_owner import ReplicaOwner
from goqueue.runtime.cluster.replication_stream import ReplicationStream
from goqueue.storage.log import AppendResult
from goqueue.storage.replica_reads import hide
from goqueue.storage.scan import Frames

_log = logging.getLogger("goqueue.cluster")


class LocalReplica:
    """One partition of a topic, of which this node has a log."""

    def __init__(
        self, owner: ReplicaOwner, log: PartitionId, partition: Partition, leadership: Leadership, noted: NotedEnds
    ) -> None:
        self.id, self.partition, self.leadership = log, partition, leadership
        self.state: PartitionState | None = None
        self.leader: LeaderReplica | None = None
        self.follower: FollowerReplica | None = None
        self.failure: str = ""
        """Why this replica takes no part until the next start."""
        self.sound_end, self.lacks_beginning = OFFSET_MAX, False  # where damage begins; whether the beginning is gone
        self.delayed: LocalReplica | None = None
        """The replica of the delayed log, if there is one."""
        self.on_role: Callable[[], None] = lambda: None
        """Called when this replica leads or not, has all committed that it inherited, or a follower has asked."""
        self._owner, self._disk = owner, owner.disk
        self._noted, self._told = max(min(noted.high_watermark, partition.log_end), partition.earliest), 0
        self._change: asyncio.Task[None] | None = None
        partition.commits.replicated_end = self._noted
        hide(partition.log, self._disk, self._noted)
        partition.derive()
        self.transactions = TransactionTracker(partition, noted.undecided)
        self.log = ReplicaLog(owner, partition, self.transactions)
        partition.producers = None
        partition.commits.obstacle = leadership.lost()
        partition.leadership = leadership
        partition.log.on_report = self._report
        self.detach = partition.on_appended.subscribe(self._appended)
        partition.commits.on_committed.subscribe(self.transactions.committed)

    @property
    def high_watermark(self) -> int:
        core = self.leader or self.follower
        return self._noted if core is None else core.high_watermark

    @property
    def ends(self) -> NotedEnds:
        one, end = self.partition, self.high_watermark
        return NotedEnds(end, min(end, one.last_stable), one.earliest)

    # --- who leads ---

    def set_state(self, state: PartitionState | None) -> None:
        """Take over a state of the cluster's log; None if the partition is deleted."""
        if self.delayed is not None:
            self.delayed.set_state(state)
        self.state, role, leader = state, self.leadership, self.leader
        self.log.tell_progress()
        if leader is not None and (state is None or (state.leader, state.leader_epoch) != (leader.me, leader.epoch)):
            self._stop_leading()
        if state is None:
            self._drop_follower()
            return
        role.leader, role.leader_epoch, role.replicas = state.leader, state.leader_epoch, state.replicas
        role.isr, role.min_isr = state.isr, state.min_isr
        if self.leader is not None:
            self.leader.changed(state)
            self._owner.uneven(self)
            self.after_leader()
            if not self.leader.has_enough and not is_internal(self.partition.topic):  # journals wait for the end
                self.partition.commits.give_up(role.undecided())
        elif self._change is None and not self._fits(state):
            self._change = self._owner.run(self._follow_state())
        elif self.follower is not None and self._owner.me in state.adding:
            self.follower.joins(state.partition_epoch)
            self.do_follower_effects()
        self.partition.wake()

    def is_leader_of(self, epoch: int) -> bool:
        """Return whether the cluster's log names this node as the leader, in this epoch."""
        return self.state is not None and (self.state.leader, self.state.leader_epoch) == (self._owner.me, epoch)

    def _fits(self, state: PartitionState) -> bool:
        leads = self.leader and (self.leader.me, self.leader.epoch)
        follows = self.follower and (self.follower.leader, self.follower.epoch)
        return (leads or follows) == ((state.leader, state.leader_epoch) if self._may_follow(state) else None)

    def _may_follow(self, state: PartitionState) -> bool:
        """Return whether there is a leader, and this node has a replica: its log may be one from before, or left."""
        return bool(state.leader) and self._owner.me in state.replicas

    async def _follow_state(self) -> None:
        """Become what the newest state says, as often as it changes meanwhile."""
        try:
            while (state := self.state) is not None and not self._fits(state) and not self.failure:
                while self.follower is not None and self.follower.stage is FollowerStage.CUTTING:
                    await self.log.wait()
                self._drop_follower()
                if not self._owner.takes_part:
                    return
                if state.leader == self._owner.me:
                    await self._lead(state)
                elif self._may_follow(state):
                    await self._follow(state)
        except GoQueueError as error:
            self._fail(error)
        finally:
            self._change = None

    def _drop_follower(self) -> None:
        if self.follower is not None:
            core, self.follower = self.follower, None
            self._noted, self.lacks_beginning = core.high_watermark, core.lacks_beginning

    def _fail(self, error: GoQueueError) -> None:
        """Take no part until the next start: what the disk holds is not known."""
        if not self.partition.log.is_closed:
            self.failure = str(error)
            _log.error("replica %s takes no part any more: %s", self.partition.log.name, error)
        if self.leader is not None:
            self.leader.failed(self.failure)
            self._do_leader_effects()
            self._stop_leading()
        self._drop_follower()

    async def _lead(self, state: PartitionState) -> None:
        partition, owner, role = self.partition, self._owner, self.leadership
        await self.log.index()
        partition.producers = None
        await owner.perform(load_producers(partition, self._disk))
        index = await self.log.index()
        if self.state is None or self._differs(state):
            return
        if index.last_epoch >= state.leader_epoch:
            await self._raise_epoch(state, index.last_epoch)
            return
        self.leader = LeaderReplica(
            self.id, owner.me, self.state, index, self._noted, owner.broker_epoch, owner.settings
        )
        partition.commits.obstacle, role.is_leading, role.is_settled = None, True, False
        begin_epoch(partition, state.leader_epoch, owner.me, owner.clock.now_ns(), lambda _: None)
        self.on_role()
        for node, asked in owner.early(self.id, state.leader_epoch).items():
            self.open(node, asked)
        owner.uneven(self)
        self.after_leader()
        partition.wake()

    async def _raise_epoch(self, state: PartitionState, last_epoch: int) -> None:
        """Wait for an epoch above those that the log had before it came to this cluster."""
        asked = RaiseEpoch(partition_of(self.id), self._owner.me, state.leader_epoch, last_epoch)
        self._owner.ask_controller(self, AskController(asked))
        while not self._differs(state):
            await self.log.wait()

    def _differs(self, state: PartitionState) -> bool:
        now = self.state
        return now is None or (now.leader, now.leader_epoch) != (state.leader, state.leader_epoch)

    def _stop_leading(self) -> None:
        assert self.leader is not None
        role, partition = self.leadership, self.partition
        self._noted, self.leader = self.leader.high_watermark, None
        self.transactions.doubt()  # who waits is told that it failed, and the log may keep it
        role.is_leading = role.is_settled = False
        partition.commits.obstacle = role.lost()
        partition.commits.replicated_end = self._noted
        partition.producers = None
        self.on_role()
        partition.commits.advance()
        partition.wake()

    async def _follow(self, state: PartitionState) -> None:
        index = await self.log.index()
        if self.state is None or self._differs(state):
            return
        owner = self._owner
        self.partition.producers = None
        self.follower = FollowerReplica(
            self.id, state.leader, state.leader_epoch, index, self._noted, owner.broker_epoch, state.unclean_epoch
        )
        self.follower.sound_end, self.follower.partition_epoch = self.sound_end, self.state.partition_epoch
        self.follower.lacks_beginning = self.lacks_beginning
        if state.leader in owner.streams:
            self.follower.connected()
            self.do_follower_effects()

    def follow_again(self) -> None:
        """Derive anew what follows from the log, where frames were repaired, and follow on."""
        self.transactions.doubt()
        self.partition.producers = None
        if self.follower is not None and self.follower.stage is not FollowerStage.CUTTING:
            self._drop_follower()
            self.set_state(self.state)

    # --- the leader's side ---

    def _appended(self, frames: Frames, appended: AppendResult) -> None:
        """Send what clients have published, in the same turn."""
        leader = self.leader
        if leader is None:
            return
        is_first = leader.epoch_start == OFFSET_MAX
        leader.appended(appended.next_offset, ((leader.epoch, appended.first_offset),) if is_first else ())
        for node, follower in leader.followers.items():
            if follower.is_open:
                self._owner.streams[node].push(self, frames, appended)
        self._owner.uneven(self)

    def open(self, node: str, asked: OpenReplica) -> None:
        """Answer a follower."""
        if self.leader is not None:
            self.forget_below_start()
            self.leader.open(node, asked)
            self._owner.uneven(self)
            self.after_leader()
            self._owner.streams[node].want(self)
            self.on_role()

    def ask_again(self, node: str) -> None:
        """Have a follower ask for the log again, to which nothing could be sent."""
        if self.leader is not None:
            self.leader.ask_again(node)
            self.after_leader()

    def confirmed(self, node: str, row: ReplicaPosition) -> None:
        """A follower has come further."""
        if self.leader is not None:
            self.leader.confirmed(node, row.leader_epoch, row.end)
            self.after_leader()

    def after_leader(self) -> None:
        """Do what the core wants after each call of it."""
        leader = self.leader
        if leader is None:
            return
        if leader.effects:
            self._do_leader_effects()
        commits, self.leadership.common_end = self.partition.commits, leader.common_end
        commits.replicated_end = leader.replicated_end
        commits.advance()
        if not self.leadership.is_settled and commits.committed_end > leader.epoch_start:
            self.leadership.is_settled = True
            self.partition.wake()
            self.on_role()
        if leader.high_watermark > self._told:
            self._told = leader.high_watermark
            for node, follower in leader.followers.items():
                if follower.is_open:
                    self._owner.streams[node].tell_higher(self)

    def _do_leader_effects(self) -> None:
        assert self.leader is not None
        effects, self.leader.effects = self.leader.effects, []
        for effect in effects:
            if isinstance(effect, Tell):
                if (stream := self._owner.streams.get(effect.node)) is not None:
                    stream.tell(effect.message)
            else:
                self._owner.ask_controller(self, effect)

    def position(self) -> ReplicaPosition | None:
        """Return the high watermark for followers."""
        leader = self.leader
        if leader is None:
            return None
        start = self.partition.log.first_offset
        return ReplicaPosition(self.id, leader.epoch, leader.high_watermark, start, leader.common_end)

    def tick(self, now_ns: int) -> bool:
        """Look at the followers; return whether there will be something to see at the next look."""
        leader = self.leader
        if leader is None:
            return False
        leader.tick(now_ns)
        for one in (self, self.delayed):
            if one is not None:
                one.after_leader()
                one._give_up_overdue()
        return leader.is_uneven

    def _give_up_overdue(self) -> None:
        """Answer publishes that wait here while others may have another leader. The broker's own records wait on."""
        is_kept = self.leadership.may_answer or is_internal(self.partition.topic)
        self.partition.commits.give_up_overdue(None if is_kept else self.leadership.lost())

    def refused(self, attempt: int, *, is_final: bool) -> None:
        """The controller has refused a change of the ISR."""
        if self.leader is not None:
            self.leader.refused(attempt, is_final=is_final)
            self.after_leader()

    def forget_below_start(self) -> None:
        """Follow retention, which has removed the oldest messages."""
        start, core = self.partition.log.first_offset, self.leader or self.follower
        if core is not None and core.index.start < start:
            core.forget_below(start)
            self.after_leader()

    # --- the follower's side ---

    def connected(self, node: str) -> None:
        if self.follower is not None and self.follower.leader == node:
            self.follower.connected()
            self.do_follower_effects()

    def disconnected(self, node: str) -> None:
        if self.leader is not None:
            self.leader.disconnected(node)
            self._owner.uneven(self)
        elif self.follower is not None and self.follower.leader == node:
            self.follower.disconnected()

    def answered(self, message: ReplicaOpened | ReplicaReset | ReplicaDiverged | ReplicaFenced) -> None:
        """Take an answer of the leader."""
        follower = self.follower
        if follower is None:
            return
        match message:
            case ReplicaOpened():
                follower.opened(message)
            case ReplicaFenced():
                follower.fenced(message)
            case _:
                follower.diverged(message)
        self.do_follower_effects()
        self._show_committed(follower)

    def do_follower_effects(self) -> None:
        follower = self.follower
        if follower is None:
            return
        effects, follower.effects = follower.effects, []
        for effect in effects:
            if isinstance(effect, AskLeader):
                if (stream := self._owner.streams.get(follower.leader)) is not None:
                    stream.tell(effect.message)
            else:
                self._owner.run(self._cut(follower, effect))
        if follower.problem:
            _log.error("replica %s cannot follow: %s", self.partition.log.name, follower.problem)

    async def _cut(self, follower: FollowerReplica, effect: CutBack | EmptyLog) -> None:
        """Bring the log back to what the leader has."""
        try:
            await self.log.cut(effect)
        except GoQueueError as error:
            self._fail(error)
        self.partition.producers = None
        log = self.partition.log
        follower.cut_done(log.first_offset, log.next_offset, effect.rows if isinstance(effect, EmptyLog) else None)
        self.log.tell_progress()
        if follower is self.follower:
            self._show_committed(follower)
            if follower.leader in self._owner.streams and not self.failure:
                self.connected(follower.leader)

    def take(self, stream: ReplicationStream, data: DataHeader, content: memoryview) -> None:
        """Append what the leader has sent. Raises PeerFailure if it is not whole."""
        follower, log = self.follower, self.partition.log
        if follower is None or not follower.takes(data) or log.obstacle is not None:
            stream.free(len(content))
            return
        frames = check_data(content, data, log.last_time, stream.node)
        try:
            append_data(log, frames, stream.free, has_gaps=data.has_gaps)
        except GoQueueError as error:
            self._fail(error)
            return
        follower.appended(data, epochs_in(frames))
        self.transactions.look(frames)
        self._show_committed(follower)

    def hear(self, row: ReplicaPosition) -> None:
        """The leader tells its high watermark."""
        if self.follower is not None:
            self.follower.hear(row.leader_epoch, row.end, row.log_start, row.common_end)
            self._show_committed(self.follower)

    def confirmation(self) -> ReplicaPosition | None:
        """Return up to where the log here is that of the leader."""
        follower = self.follower
        if follower is None or (end := follower.confirmed_end) is None:
            return None
        return ReplicaPosition(self.id, follower.epoch, end)

    def _show_committed(self, follower: FollowerReplica) -> None:
        commits, role = self.partition.commits, self.leadership
        role.log_start, role.common_end = follower.log_start, follower.common_end
        if commits.replicated_end != follower.high_watermark:
            commits.replicated_end = follower.high_watermark
            commits.advance()

    # --- the log ---

    def _report(self) -> None:
        """The log has come further, or will not."""
        log, follower = self.partition.log, self.follower
        if log.fence is not None and not self.failure:
            self._fail(log.fence)
        elif self.leader is not None:
            self.leader.durable(log.stored_end)
            self.after_leader()
        else:
            if follower is not None:
                follower.durable(log.stored_end)
                self.do_follower_effects()
                if (stream := self._owner.streams.get(follower.leader)) is not None:
                    stream.confirm(self)
            self.partition.commits.advance()
        self.log.tell_progress()

    def __repr__(self) -> str:
        return f"<LocalReplica {self.partition.log.name}: {self.leader or self.follower or 'idle'}>"
