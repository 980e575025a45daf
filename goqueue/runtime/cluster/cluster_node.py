"""A node of the cluster: joins the pure cores with its disk, its connections and its timers.

The order of everything is that of the effects of the Raft core. The vote is written on a thread of its own, the log by
the flusher; both report to the loop.
"""

import asyncio
import logging
import secrets
import uuid
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from msgspec.structs import replace

from goqueue import __version__
from goqueue.clock import NANOSECONDS, boottime_ns
from goqueue.cluster.controller_requests import ControllerAnswer, ControllerRequest, StopNode
from goqueue.cluster.formation import ClusterNote, form, join, refuse_hello
from goqueue.cluster.membership import EventKind, Membership
from goqueue.cluster.messages import (
    Append,
    BeginEpoch,
    Committed,
    Effect,
    NodeIdentity,
    RaftMessage,
    RoleChanged,
    SaveVote,
    Send,
    SkipTo,
    Store,
    Truncate,
    VoteAnswer,
)
from goqueue.cluster.metadata import ClusterRecord, VotersChanged, encode_cluster_record
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.peer_messages import PROTOCOL, Failed, Formed, Hello, Leaving, PeerMessage, Ping
from goqueue.cluster.raft import Raft
from goqueue.cluster.voters import VoterHistory
from goqueue.errors import GoQueueError
from goqueue.events import Signal
from goqueue.limits import CLUSTER_EVENTS
from goqueue.runtime.cluster.cluster_log import ClusterLog, check_append
from goqueue.runtime.cluster.cluster_settings import ClusterSettings
from goqueue.runtime.cluster.cluster_topics import ClusterTopics
from goqueue.runtime.cluster.controller_client import ControllerClient
from goqueue.runtime.cluster.controller_runner import ControllerRunner
from goqueue.runtime.cluster.notes import NodeNotes
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.peer_link import MessageHandler, PeerLink
from goqueue.runtime.cluster.peer_network import PeerHandlers, PeerNetwork
from goqueue.runtime.cluster.peer_tls import PeerFailure
from goqueue.runtime.cluster.presence import Presence
from goqueue.runtime.cluster.proposals import Proposals
from goqueue.runtime.cluster.recovery_exchange import RecoveryExchange
from goqueue.runtime.cluster.replica_ends import ReplicaEnds
from goqueue.runtime.cluster.replicas import Replicas
from goqueue.runtime.cluster.serving_lease import ServingLease
from goqueue.runtime.cluster.votes import Votes
from goqueue.runtime.runtime import Runtime

_log = logging.getLogger("goqueue.cluster")

_TRANSFER_SECONDS = 1.0
_TICK_SECONDS = 0.25
"""Between two looks at silent nodes, and at what is to be registered."""


class ClusterNode:
    """This node. Call `start` and `stop` on the loop, while the runtime runs."""

    def __init__(self, runtime: Runtime, settings: ClusterSettings) -> None:
        self.settings = settings
        self.note: ClusterNote
        self.votes: Votes
        self.raft: Raft | None = None
        """None until the cluster is formed."""
        self.log: ClusterLog
        self.failure: GoQueueError | None = None
        """Why this node takes no part any more: its disk refused."""
        self.network: PeerNetwork
        self.membership = Membership(settings.membership, settings.node, settings.peers)
        self.handlers: dict[type, MessageHandler] = {}
        self.on_disconnected: Signal[[str]] = Signal()
        self._timers = OwnedTasks("a timer of the node", runtime.on_failure.emit)
        self.office = ControllerRunner(self)
        self.client = ControllerClient(self, runtime.on_failure.emit)
        self.recovery = RecoveryExchange(self, self._timers)
        self.presence = Presence(self)
        self.topics = ClusterTopics(self, runtime)
        self.lease = ServingLease(self)
        self.events: deque[tuple[int, EventKind, str]] = deque(maxlen=CLUSTER_EVENTS)
        """Time, kind and node of the latest events."""
        self.controller_changes = 0
        self.leaderless_ns: int | None = None
        """Since when no controller is known, by the monotonic clock."""
        self.on_state: Signal[[frozenset[PartitionId]]] = Signal()
        """Called when records were committed and applied, with the partitions that they changed."""
        self._runtime = runtime
        self._peers = tuple(sorted(settings.peers))
        self._loop: asyncio.AbstractEventLoop
        self._timer: asyncio.TimerHandle | None = None
        self._ticks: asyncio.TimerHandle | None = None
        self._ping_ns = 0
        self._leader: NodeIdentity | None = None
        self._proposals = Proposals(settings.node)
        self.is_stopping = self._is_working = False
        self.changed = asyncio.Event()
        """Set, and cleared at once, when the role, the controller or the state has changed."""

    # --- start and stop ---

    async def start(self) -> None:
        runtime, settings = self._runtime, self.settings
        self._loop, self.leaderless_ns = asyncio.get_running_loop(), self.now()
        self._notes = NodeNotes(runtime.disk, runtime.store.path)
        self.votes = Votes(self, self._notes, runtime.on_failure.emit)
        note, noted = self._notes.load(settings.node), ReplicaEnds(runtime.disk, runtime.store.path).cluster_end
        self.log = ClusterLog(runtime.store, runtime.disk, self._on_report, is_new=note is None, noted_end=noted)
        if note is None:
            note = ClusterNote(NodeIdentity(settings.node, str(uuid.uuid4())))
            self._notes.save(note)
        self.note = note
        self.membership.on_event.subscribe(self._note_event)
        self.replicas = Replicas(self, runtime, settings.replicas)
        self.on_state.subscribe(self.replicas.on_state)
        handlers = PeerHandlers(
            self._hello, self._refusal, self._connected, self._received, self._ended, self._on_refused,
            self.replicas.received, self.replicas.data, runtime.on_failure.emit,
        )  # fmt: skip
        self.network = PeerNetwork(settings.node, settings.peers, settings.secret, handlers, settings.tls)
        if note.is_formed:
            self._open_raft()
        self.replicas.start()
        self.topics.start()
        self.presence.start()
        await self.network.start(settings.listen)
        self._form()
        self._tick()

    async def stop(self) -> None:
        """Hand over, tell the others, and end."""
        await self.give_away()
        self.is_stopping = True
        self._tell_changed()
        if self.raft is not None and self.raft.is_leader:
            self.raft.transfer(self.now())
            self.work()
            with suppress(TimeoutError):
                async with asyncio.timeout(_TRANSFER_SECONDS):
                    while self.controller == self.note.me and self.network.links:
                        await self.changed.wait()
        for link in self.network.links.values():
            link.send(Leaving())
        for timer in (self._timer, self._ticks):
            if timer is not None:
                timer.cancel()
        await self.topics.stop()
        await self._timers.stop()
        await self.network.stop()
        await self.replicas.stop()
        self._proposals.refuse()
        self.raft = None
        await self.votes.stop()

    async def give_away(self) -> None:
        """Have others lead what this node leads, and count it in no ISR any more, if there are others."""
        epoch, state = self.presence.broker_epoch, self.log.state
        has_others = any(node not in state.fenced for node in state.nodes if node != self.settings.node)
        if self.raft is not None and epoch and has_others and state.feature_level:
            await self.replicas.finish_publishes()
            with suppress(GoQueueError):
                await self.client.ask(StopNode(self.settings.node, epoch), _TRANSFER_SECONDS)

    def now(self) -> int:
        return boottime_ns()

    # --- formation ---

    def _form(self) -> None:
        """Form the cluster if all are here."""
        hellos = {node: link.hello for node, link in self.network.links.items()}
        if (note := form(self.note, self._peers, hellos, lambda: str(uuid.uuid4()))) is not None:
            self._adopt(note)

    def _adopt(self, note: ClusterNote) -> None:
        self._notes.save(note)
        self.note = note
        _log.info("the cluster %s has the voters %s", note.cluster_id, ", ".join(one.node for one in note.voters))
        self._open_raft()
        for link in self.network.links.values():
            link.send(Formed(note.cluster_id, note.voters))

    def _open_raft(self) -> None:
        note, now = self.note, self.now()
        vote, voters = self._notes.load_vote(), VoterHistory(note.voters, self.log.voter_rows())
        self.raft = Raft(self.settings.raft, note.me, voters, vote, self.log.index, secrets.SystemRandom().random, now)
        if note.me not in self.raft.voters:
            _log.warning("node %s has no vote: the voters are others, or are on other directories", note.me.node)
        for link in self.network.links.values():
            self.raft.add_observer(link.hello.identity, now)
        self.work()

    # --- connections ---

    def _hello(self) -> Hello:
        return Hello(PROTOCOL, self.note.me, self.note.cluster_id, self._peers, self.note.voters, __version__)

    def _refusal(self, hello: Hello) -> str | None:
        return refuse_hello(self.note, self._peers, hello)

    def _connected(self, link: PeerLink) -> None:
        hello = link.hello
        self.membership.connected(link.node, self.now())
        self.office.back(link.node)
        self.presence.connected(link.node)
        self.replicas.connected(link)
        self._meet(hello.cluster_id, hello.voters)
        if self.failure is not None:
            link.send(Failed(self.failure.sentence))
        if self.note.is_formed and not hello.cluster_id:
            link.send(Formed(self.note.cluster_id, self.note.voters))
        if self.raft is not None:
            self.raft.add_observer(hello.identity, self.now())
            self.work()
        else:
            self._form()

    def _meet(self, cluster_id: str, voters: tuple[NodeIdentity, ...]) -> None:
        if (note := join(self.note, cluster_id, voters)) is not None:
            self._adopt(note)

    def _ended(self, link: PeerLink) -> None:
        self.on_disconnected.emit(link.node)
        self.replicas.ended(link)
        if self.raft is not None:
            self.raft.drop_observer(link.hello.identity)

    def _on_refused(self, node: str) -> None:
        self.presence.refused(node)
        if self.raft is not None:
            self.raft.refused(node, self.now())
            self.work()

    def _received(self, link: PeerLink, message: PeerMessage) -> None:
        self.membership.heard(link.node, self.now())
        match message:
            case Ping():
                pass
            case Formed():
                self._meet(message.cluster_id, message.voters)
            case Leaving():
                self.membership.leaves(link.node)
            case Failed():
                self.membership.failures[link.node] = message.reason
            case _ if (handler := self.handlers.get(type(message))) is not None:
                handler(link, message)
            case Hello():
                raise PeerFailure(f"node {link.node} says hello twice")
            case _ if self.raft is not None:
                if isinstance(message, Append) and (problem := check_append(message)) is not None:
                    raise PeerFailure(f"node {link.node} sent an append that is not whole: {problem}")
                self.raft.receive(link.hello.identity, cast(RaftMessage, message), self.now())
                self.work()

    # --- effects ---

    def work(self) -> None:
        """Do what the core asks for."""
        raft = self.raft
        if raft is None or self._is_working:  # an effect has caused this call: its loop goes on
            return
        self._is_working = True
        try:
            while raft.effects:
                effects, raft.effects = raft.effects, []
                for effect in effects:
                    self._do(effect)
        except GoQueueError as error:
            self.fail(error)
        except Exception:  # the rest of this node would look alive, and take no part
            _log.critical("the node failed by a defect: the broker stops", exc_info=True)
            self._runtime.on_failure.emit()
            raise
        finally:
            self._is_working = False
        self._arm()

    def _do(self, effect: Effect) -> None:
        match effect:
            case Send():
                self._send(effect)
            case Store():
                self.log.store(effect.append)
            case SaveVote():
                self.votes.save(effect.vote)
            case BeginEpoch():
                self.log.begin_epoch(effect.epoch, self.note.me.node, self._runtime.clock.now_ns())
            case Truncate():
                self.log.truncate(effect.end)
            case SkipTo():
                self.log.skip_to(*effect)
            case Committed():
                self._commit(effect.end)
            case RoleChanged():
                self._change_role(effect)

    def _send(self, effect: Send) -> None:
        if isinstance(effect.message, VoteAnswer) and self.votes.answer(effect.to, effect.message):
            return
        link = self.network.links.get(effect.to.node)
        if link is None or link.hello.identity != effect.to:
            return
        message = effect.message
        if isinstance(message, Append) and message.end > message.base:
            message = replace(message, content=self.log.content(message.base, message.end))
        link.send(message)

    def _on_report(self) -> None:
        """The log has come further, or will not."""
        if self.raft is None:
            return
        if self.log.log.fence is not None:
            self.fail(self.log.log.fence)
            return
        self.raft.durable(self.log.log.durable_end, self.now())
        self.work()

    def fail(self, error: GoQueueError) -> None:
        """Take no part any more: what this disk has is not known."""
        _log.error("node %s takes no part in the cluster any more: %s", self.settings.node, error)
        self.failure, self.raft, self.leaderless_ns = error, None, self.leaderless_ns or self.now()
        self.replicas.stop_all()
        self.membership.failures[self.settings.node] = error.sentence
        for link in self.network.links.values():
            link.send(Failed(error.sentence))
        self.office.look()
        self._proposals.refuse()
        self._tell_changed()

    def _commit(self, end: int) -> None:
        self.log.apply_to(end)
        if self.raft is not None and self.log.told_start > self.log.index.start:
            self.raft.forget_below(self.log.told_start)
        self.on_state.emit(self.log.state.take_changed())
        self.topics.changed()
        self._proposals.commit(end)
        self.office.look()
        self._tell_changed()

    def _change_role(self, change: RoleChanged) -> None:
        if change.role != "leader":
            self._proposals.refuse()
        self.office.look()
        if change.leader is not None:
            self.leaderless_ns = None
        elif self.leaderless_ns is None:
            self.leaderless_ns = self.now()
        if change.leader is not None and change.leader != self._leader:
            self._leader = change.leader
            self.controller_changes += 1
            self._note_event("controller_changed", change.leader.node)
        self.presence.controller_changed()
        self.lease.renew()
        self._tell_changed()

    def _tell_changed(self) -> None:
        self.changed.set()
        self.changed.clear()

    # --- time ---

    def _arm(self) -> None:
        if self.raft is None or self.is_stopping:
            return
        if self._timer is not None:
            self._timer.cancel()
        delay = (self.raft.deadline() - self.now()) / NANOSECONDS
        self._timer = self._timers.call_later(max(0.0, delay), self._tick_raft)

    def _tick_raft(self) -> None:
        if self.raft is not None:
            self.raft.tick(self.now())
            self.work()

    def _tick(self) -> None:
        """Look at silent nodes, say that this one is alive, and register it."""
        now = self.now()
        self.membership.tick(now)
        if now - self._ping_ns >= self.settings.heartbeat_seconds * NANOSECONDS:
            self._ping_ns = now
            for link in self.network.links.values():
                link.send(Ping())
        for node, (registered, _) in self.log.state.nodes.items():
            self.network.learn(node, registered.peer_address)
        self.presence.register()
        self.office.tick()
        self.recovery.look()
        self.lease.renew()
        self._ticks = self._timers.call_later(_TICK_SECONDS, self._tick)

    # --- records ---

    @property
    def voters(self) -> frozenset[NodeIdentity]:
        return frozenset(self.note.voters) if self.raft is None else self.raft.voters

    @property
    def controller(self) -> NodeIdentity | None:
        """The leader of the cluster's log, as far as this node knows."""
        return None if self.raft is None else self.raft.leader

    def append(self, records: Sequence[ClusterRecord]) -> "asyncio.Future[int]":
        """Append records for the office; the future is kept when they, and all before them, are committed."""
        raft = self.raft
        assert raft is not None, "only an open office appends"
        if records:
            voters = frozenset(records[0].voters) if isinstance(records[0], VotersChanged) else None
            raft.appended(self.log.append(b"".join(map(encode_cluster_record, records))), self.now(), voters)
        answer = self._proposals.add(self.log.log.next_offset)
        self._proposals.commit(raft.commit)
        self.work()
        return answer

    async def ask(self, request: ControllerRequest) -> ControllerAnswer:
        """Ask the controller; see `ControllerClient.ask`."""
        return await self.client.ask(request)

    @property
    def is_registered(self) -> bool:
        """True if the cluster knows this process, so that this node knows what was decided before."""
        return self.presence.is_registered

    def wall_clock(self) -> int:
        return self._runtime.clock.now_ns()

    async def remove(self, node: str) -> None:
        """Take a node out of the list, as the controller; hand over if it is this one."""
        await self.office.append(self.office.in_office().remove(node, self.wall_clock()))
        if node == self.settings.node and self.raft is not None:
            self.presence.has_left = True
            self.raft.transfer(self.now())
            self.work()

    def _note_event(self, kind: EventKind, node: str) -> None:
        self.events.append((self._runtime.clock.now_ns(), kind, node))
        _log.log(logging.WARNING if kind in ("died", "suspected") else logging.INFO, "node %s: %s", node, kind)
