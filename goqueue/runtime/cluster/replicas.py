"""All replicas on this node: joins partitions, connections, and the committed state of the cluster.

A partition takes part once its topic is a topic of the cluster. Until then it has no leader here, so that clients
get no answer that another node could contradict. High watermarks are noted from time to time: what was committed
before a crash is at least that.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Any, Protocol

from goqueue.broker.core.epochs import load_epochs
from goqueue.broker.core.leadership import Leadership
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.truncation import reset_partition
from goqueue.broker.core.work import Work
from goqueue.broker.losses import AbsentLog, UnavailableLog
from goqueue.cluster.leader_replica import AskController, ReplicaSettings
from goqueue.cluster.metadata import ClusterState
from goqueue.cluster.partitions import PartitionId, PartitionState, delayed_log_of, partition_of
from goqueue.cluster.recovery import ReplicaExtent
from goqueue.cluster.replication_messages import (
    BlocksDiffer,
    CompareBlocks,
    DataHeader,
    DelayedLogBegun,
    FetchRange,
    IsrChange,
    OpenReplica,
    RaiseEpoch,
    RangeFetched,
    ReplicaPosition,
    ReplicationMessage,
    ResignLeadership,
)
from goqueue.errors import GoQueueError
from goqueue.runtime.cluster.catch_up import CatchUp
from goqueue.runtime.cluster.delayed_replica import DelayedReplicas
from goqueue.runtime.cluster.local_replica import LocalReplica
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.peer_link import PeerLink
from goqueue.runtime.cluster.replica_comparison import ReplicaComparison
from goqueue.runtime.cluster.replica_ends import ReplicaEnds
from goqueue.runtime.cluster.replica_repair import ReplicaRepair
from goqueue.runtime.cluster.replication_stream import CONFIRMATIONS, ReplicationStream, ReplicaTraffic
from goqueue.runtime.runtime import Runtime

_log = logging.getLogger("goqueue.cluster")

_FINISH_SECONDS = 0.5
_FINISH_PAUSE_SECONDS = 0.002
_UNSURE = (None, "leader_epoch", "partition_epoch")
"""Reasons to refuse a change of an ISR that say nothing about earlier attempts: the state has changed since."""
_TICK_SECONDS, _TICK_NS = 0.25, 250_000_000
_RETRY_SECONDS = 1.0
_TICKS_PER_NOTE = 20


class NodeSettings(Protocol):
    @property
    def node(self) -> str: ...

    @property
    def feature_level(self) -> int: ...


class NodeLog(Protocol):
    state: ClusterState
    applied_end: int


class NodePresence(Protocol):
    @property
    def broker_epoch(self) -> int: ...


class NodeLease(Protocol):
    @property
    def is_held(self) -> bool: ...


class ReplicatingNode(Protocol):
    """The part of a node of the cluster that its replicas use."""

    @property
    def settings(self) -> NodeSettings: ...

    @property
    def log(self) -> NodeLog: ...

    @property
    def presence(self) -> NodePresence: ...

    @property
    def lease(self) -> NodeLease: ...

    async def ask(self, request: IsrChange | ResignLeadership | RaiseEpoch) -> object: ...


class Replicas:
    """The replicas of one node. Everything is called on the loop."""

    def __init__(self, node: ReplicatingNode, runtime: Runtime, settings: ReplicaSettings) -> None:
        self.me = node.settings.node
        self.disk, self.clock = runtime.disk, runtime.clock
        self.settings = settings
        self.local: dict[PartitionId, LocalReplica] = {}
        self.shortened: set[PartitionId] = set()
        """Replicas whose log ended below what was committed when this process opened it."""
        self.streams: dict[str, ReplicationStream] = {}
        """By node, those that are connected."""
        self.traffic: dict[str, ReplicaTraffic] = {}
        """By node, since the start."""
        self.catch_up = CatchUp(lambda: node.log.state, runtime.clock.monotonic_ns, settings.catch_up_rate)
        self._node = node
        self._runtime = runtime
        self._loop = asyncio.get_running_loop()
        self._noted = ReplicaEnds(runtime.disk, runtime.store.path)
        self._delayed = DelayedReplicas(self, runtime.broker, self._noted)
        self._roles: dict[tuple[str, int], Leadership] = {}
        self._beginning: set[PartitionId] = set()
        """Partitions of internal topics that are about to take part."""
        self._early: dict[PartitionId, dict[str, OpenReplica]] = {}
        """Requests of followers that came before this node knew that it leads."""
        self._uneven: dict[LocalReplica, None] = {}
        self._tasks = OwnedTasks("a replica", runtime.on_failure.emit)
        self.run, self.call_later = self._tasks.run, self._tasks.call_later
        self.repair = ReplicaRepair(self, self, runtime)
        self.comparison = ReplicaComparison(self, self, self.repair, runtime.scrub)
        runtime.scrub.on_damage = self.repair.scrubbed
        self._timer: asyncio.TimerHandle | None = None
        self._ticks = 0
        self._has_namesakes = False
        self._was_registered = False
        self._is_stopping = False

    # --- start and stop ---

    def start(self) -> None:
        """Take over the partitions that are open, and those that will be opened, if this node can share topics."""
        if not self._node.settings.feature_level:
            return
        broker = self._runtime.broker
        for topic, partition in broker.partitions():
            self._attach(partition, topic.created_ns)
        broker.on_partition_opened.subscribe(self._on_opened)
        self._delayed.start()
        self._tick()

    async def stop(self) -> None:
        """End what is under way, and note what is committed."""
        self._is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        self.stop_all()
        await self._tasks.stop()
        await self._store_note()

    def stop_all(self) -> None:
        """Lead and follow nothing any more."""
        for replica in list(self.local.values()):
            replica.set_state(None)

    async def perform(self, work: Work[Any]) -> Any:
        return await self._runtime.perform(work)

    # --- partitions ---

    def _on_opened(self, partition: Partition) -> None:
        """Attach a partition by the topic that this node has recorded: the cluster may know a later one by the name."""
        topics = self._runtime.broker.maker.records(), self._node.log.state.topics
        found = next((one[partition.topic] for one in topics if partition.topic in one), None)
        self._attach(partition, 0 if found is None else found.created_ns)

    def _attach(self, partition: Partition, topic_id: int) -> None:
        """Have a partition that was opened take part, if its topic is or can be one of the cluster."""
        if is_internal(partition.topic) and partition.topic not in self._node.log.state.topics:
            return
        key = partition.topic, partition.number
        role = Leadership(*key, self.me, self.address_of, self.has_lease)
        log = PartitionId(topic_id, partition.number)
        partition.leadership = role
        if isinstance(partition.log, UnavailableLog | AbsentLog):
            if isinstance(partition.log, AbsentLog):
                partition.log.refusal = role.refusal
            for left in {log, delayed_log_of(log)} & self.local.keys():  # the replica has moved to another node
                self._drop(left)
            self._roles[key] = role
            self._set_role(role, self._node.log.state.partitions.get(log))
            return
        self._roles.pop(key, None)
        noted = self._noted.of(log)
        end = max(noted.high_watermark, self._runtime.broker.noted_end(partition))
        lacks_beginning = partition.earliest > (partition.earliest if noted.start is None else noted.start)
        if lacks_beginning or partition.log_end < end:
            self.shortened.add(log)
        replica = self.local[log] = LocalReplica(self, log, partition, role, noted)
        replica.lacks_beginning = lacks_beginning
        self.repair.attached(replica)
        replica.set_state(self._node.log.state.partitions.get(log))

    def has_lease(self) -> bool:
        return self._node.lease.is_held

    def address_of(self, node: str) -> str | None:
        found = self._node.log.state.nodes.get(node)
        return None if found is None else found[0].client_address

    def _set_role(self, role: Leadership, state: PartitionState | None) -> None:
        """Note who leads a partition without a log here."""
        if state is not None:
            role.leader, role.leader_epoch, role.replicas = state.leader, state.leader_epoch, state.replicas
            role.isr, role.min_isr = state.isr, state.min_isr

    def on_state(self, changed: frozenset[PartitionId]) -> None:
        """Follow committed records of the cluster."""
        state = self._node.log.state
        is_first = not self._was_registered and self._node.presence.broker_epoch > 0
        self._was_registered |= is_first
        for log in list(self.local) if is_first else changed & self.local.keys():
            if partition_of(log) == log:  # a delayed log has the state of its partition
                self.local[log].set_state(state.partitions.get(log))
        if unknown := changed - self.local.keys():
            self._attach_internal(unknown)
        if self._roles:
            self._update_roles(changed)
        if self._has_namesakes:
            self.point_to_namesakes()

    async def finish_publishes(self) -> None:
        """Take no publishes any more, and wait a moment for those that are under way."""
        for replica in self.local.values():
            replica.leadership.hand_over()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FINISH_SECONDS):
                while self._runtime.in_flight_bytes:
                    await asyncio.sleep(_FINISH_PAUSE_SECONDS)

    def point_to_namesakes(self) -> None:
        """Send clients to the leaders of topics of the cluster whose names other topics of this node have."""
        state = self._node.log.state
        for log, replica in self.local.items():
            other = state.topics.get(replica.partition.topic)
            if other is not None and other.created_ns != log.topic_id:
                found = state.partitions.get(PartitionId(other.created_ns, log.partition))
                role = replica.leadership
                self._has_namesakes = True
                role.leader = "" if found is None or found.leader == self.me else found.leader

    def _attach_internal(self, changed: frozenset[PartitionId]) -> None:
        """Have partitions of internal topics take part: they were open before the cluster had them."""
        for name, record in self._node.log.state.topics.items():
            if is_internal(name) and name in self._runtime.broker.topics:
                for partition in self._runtime.broker.topics[name].partitions:
                    if (log := PartitionId(record.created_ns, partition.number)) in changed - self._beginning:
                        self._begin(partition, log)

    def _begin(self, partition: Partition, log: PartitionId) -> None:
        """Have an open partition take part. One that may have records of this node alone is looked at first."""
        state = self._node.log.state.partitions.get(log)
        has_others = state is not None and {*state.isr, *state.elr} != {self.me}
        belongs = state is not None and (self.me in state.replicas or partition.topic in self._runtime.before_anew)
        if has_others and belongs and partition.log_end:
            self._beginning.add(log)
            self.run(self._begin_anew(partition, log))
        else:
            self._attach(partition, log.topic_id)

    async def _begin_anew(self, partition: Partition, log: PartitionId) -> None:
        """Have a partition take part; what this node has recorded there before it followed a leader is removed."""
        try:
            state = self._node.log.state.partitions.get(log)
            is_first = state is not None and state.partition_epoch == 1 and self.me not in state.isr
            if is_first or not (await self.perform(load_epochs(partition.log, self.disk))).last:
                _log.warning("log %s begins anew: the cluster has the records of another node", partition.log.name)
                if (keep := self._runtime.before_anew.get(partition.topic)) is not None:
                    keep(partition)
                await self.perform(partition.synced(partition.log_end))
                await self.perform(reset_partition(partition, self.disk, 0, []))
        except GoQueueError as error:
            _log.error("log %s cannot take part until the next start: %s", partition.log.name, error)
        else:
            self._beginning.discard(log)
            self._attach(partition, log.topic_id)

    def _update_roles(self, changed: frozenset[PartitionId]) -> None:
        state = self._node.log.state
        for (topic, number), role in list(self._roles.items()):
            found = state.topics.get(topic)
            if found is None:
                del self._roles[topic, number]
            elif (log := PartitionId(found.created_ns, number)) in changed:
                self._set_role(role, state.partitions.get(log))

    def _drop(self, log: PartitionId) -> None:
        self.catch_up.forget(log)
        replica = self.local.pop(log)
        replica.detach()
        self._uneven.pop(replica, None)
        self._early.pop(log, None)
        self._noted.forget(log)

    async def end_of(self, log: PartitionId) -> ReplicaExtent | None:
        """Return what this node has of a partition; None if it has nothing."""
        replica = self.local.get(log)
        if replica is not None:
            core = replica.leader or replica.follower
            index = None if core is None else core.index
            return await replica.log.extent(index, replica.high_watermark, replica.failure)
        for topic in self._runtime.broker.topics.values():
            if topic.created_ns == log.topic_id and log.partition < len(topic.partitions):
                found = topic.partition(log.partition).log
                if isinstance(found, UnavailableLog) and found.fence is not None:
                    return ReplicaExtent(self.broker_epoch, problem=found.fence.sentence)
        return None

    # --- what a replica asks of its owner ---

    @property
    def broker_epoch(self) -> int:
        return self._node.presence.broker_epoch

    @property
    def feature_level(self) -> int:
        return self._node.log.state.feature_level

    @property
    def takes_part(self) -> bool:
        """True if this process is registered: what was decided before is about the one before it."""
        return self._node.presence.broker_epoch > 0 and not self._is_stopping

    def uneven(self, replica: LocalReplica) -> None:
        self._uneven[self.local.get(partition_of(replica.id), replica)] = None

    def early(self, log: PartitionId, epoch: int) -> dict[str, OpenReplica]:
        """Return the requests that came before this node led in this epoch. Those of a later epoch wait on."""
        found = self._early.pop(log, {})
        if later := {node: asked for node, asked in found.items() if asked.leader_epoch > epoch}:
            self._early[log] = later
        return {node: asked for node, asked in found.items() if asked.leader_epoch == epoch and node in self.streams}

    def ask_controller(self, replica: LocalReplica, asked: AskController) -> "asyncio.Task[None]":
        return self.run(self._ask(replica, asked))

    async def _ask(self, replica: LocalReplica, asked: AskController) -> None:
        request = asked.request
        while True:
            try:
                await self._node.ask(request)
            except GoQueueError as error:
                _log.info("the controller did not do what %s asked: %s", replica.partition.log.name, error)
                if isinstance(request, IsrChange):
                    replica.refused(asked.attempt, is_final=error.details.get("reason") not in _UNSURE)
                elif replica.is_leader_of(request.leader_epoch):  # no other node leads until the controller knows
                    await asyncio.sleep(_TICK_SECONDS)
                    continue
            return

    # --- connections ---

    def connected(self, link: PeerLink) -> None:
        threads, traffic = self._runtime.threads, self.traffic.setdefault(link.node, ReplicaTraffic())
        stream = ReplicationStream(link, self._loop, threads, self._tasks, self.catch_up, traffic)
        self.streams[link.node] = stream
        for replica in self.local.values():
            replica.connected(link.node)

    def ended(self, link: PeerLink) -> None:
        """The connection with a node has ended."""
        stream = self.streams.pop(link.node, None)
        if stream is None:
            return
        stream.end()
        for asked in self._early.values():
            asked.pop(link.node, None)
        for replica in self.local.values():
            replica.disconnected(link.node)

    def received(self, link: PeerLink, message: ReplicationMessage) -> None:
        replica = self.local.get(message.log)
        if isinstance(message, FetchRange):
            self.repair.asked(link, message)
        elif isinstance(message, RangeFetched):
            self.repair.answered(message)
        elif isinstance(message, CompareBlocks):
            self.comparison.asked(link, message)
        elif isinstance(message, BlocksDiffer):
            self.comparison.differ(link, message)
        elif isinstance(message, DelayedLogBegun):
            self._delayed.begun(message.log)
        elif not isinstance(message, OpenReplica):
            if replica is not None:
                replica.answered(message)
        elif replica is not None and replica.leader is not None and message.leader_epoch <= replica.leader.epoch:
            replica.open(link.node, message)
        else:
            self._early.setdefault(message.log, {})[link.node] = message

    def data(self, link: PeerLink, kind: int, content: memoryview) -> None:
        stream = self.streams.get(link.node)
        if stream is not None and stream.link is link:
            stream.receive(kind, content, self._on_data, self._on_position)

    def _on_data(self, stream: ReplicationStream, data: DataHeader, content: memoryview) -> None:
        replica = self.local.get(data.log)
        if replica is None:
            stream.free(len(content))
        else:
            replica.take(stream, data, content)

    def _on_position(self, kind: int, node: str, row: ReplicaPosition) -> None:
        replica = self.local.get(row.log)
        if replica is None:
            return
        if kind == CONFIRMATIONS:
            replica.confirmed(node, row)
        else:
            replica.hear(row)

    # --- time ---

    def _tick(self) -> None:
        now_ns = self._ticks * _TICK_NS  # who waits while this loop stands still does not lag
        for replica in list(self._uneven):
            if not replica.tick(now_ns):
                self._uneven.pop(replica, None)
        self.repair.look()
        self._ticks += 1
        if self._ticks % _TICKS_PER_NOTE == 0:
            self._tidy()
            self.run(self._store_note())
        self._timer = self._tasks.call_later(_TICK_SECONDS, self._tick)

    def _tidy(self) -> None:
        """Forget what was deleted, and requests of nodes that are not connected any more."""
        for log, replica in list(self.local.items()):
            replica.forget_below_start()
            if replica.partition.log.is_closed:
                self._drop(log)
        self.repair.begin_lost_logs()
        deleted = self._node.log.state.deleted
        self._early = {log: asked for log, asked in self._early.items() if asked and log.topic_id not in deleted}
        self._noted.forget_topics(deleted)

    async def _store_note(self) -> None:
        """Note what is committed and decided, if that has changed."""
        ends = {log: replica.ends for log, replica in self.local.items()}
        await self.perform(self._noted.store(ends, self._node.log.applied_end))
