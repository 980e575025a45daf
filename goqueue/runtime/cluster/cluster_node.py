"""A node of the cluster: joins the pure cores with its disk, its connections and its timers.

The order of everything is that of the effects of the Raft core. The vote is written on a thread of its own, the log by
the flusher; both report to the loop.
"""

import asyncio
import logging
import secrets
import uuid
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import cast

from msgspec.structs import asdict, replace

from goqueue import __version__
from goqueue.clock import NANOSECONDS
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
    Store,
    Truncate,
    Vote,
    VoteAnswer,
    VoteRequest,
)
from goqueue.cluster.metadata import ClusterCreated, ClusterRecord, NodeLeft, NodeRegistered, encode_cluster_record
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.peer_messages import PROTOCOL, Formed, Hello, Leaving, PeerMessage, Ping, Register
from goqueue.cluster.raft import Raft
from goqueue.errors import ControllerUnavailable, GoQueueError
from goqueue.events import Signal
from goqueue.limits import CLUSTER_EVENTS, CLUSTER_REGISTER_SECONDS
from goqueue.runtime.cluster.cluster_log import ClusterLog, check_append
from goqueue.runtime.cluster.cluster_settings import ClusterSettings
from goqueue.runtime.cluster.notes import NodeNotes
from goqueue.runtime.cluster.peer_link import PeerLink
from goqueue.runtime.cluster.peer_network import PeerHandlers, PeerNetwork
from goqueue.runtime.cluster.peer_tls import PeerFailure
from goqueue.runtime.cluster.proposals import Proposals, forget
from goqueue.runtime.cluster.serving_lease import MessageHandler, ServingLease
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
        self.raft: Raft | None = None
        """None until the cluster is formed."""
        self.log: ClusterLog
        self.failure: GoQueueError | None = None
        """Why this node takes no part any more: its disk refused."""
        self.network: PeerNetwork
        self.membership = Membership(settings.membership, settings.node, settings.peers)
        self.handlers: dict[type, MessageHandler] = {}
        self.on_disconnected: Signal[[str]] = Signal()
        self.lease = ServingLease(self)
        self.events: deque[tuple[int, EventKind, str]] = deque(maxlen=CLUSTER_EVENTS)
        """Time, kind and node of the latest events."""
        self.controller_changes = 0
        self.leaderless_ns: int | None = None
        """Since when no controller is known, by the monotonic clock."""
        self.on_state: Signal[[frozenset[PartitionId]]] = Signal()
        """Called when records were committed and applied, with the partitions that they changed."""
        self._runtime = runtime
        self._incarnation = secrets.token_hex(8)
        self._peers = tuple(sorted(settings.peers))
        self._threads = ThreadPoolExecutor(1, "goqueue-vote")
        self._loop: asyncio.AbstractEventLoop
        self._timer: asyncio.TimerHandle | None = None
        self._ticks: asyncio.TimerHandle | None = None
        self._ping_ns = 0
        self._registered_ns = 0
        self._leader: NodeIdentity | None = None
        self._proposals = Proposals(settings.node)
        self._vote_answers: dict[NodeIdentity, list[asyncio.Future[VoteAnswer]]] = {}
        """Who waits for the answer to a vote request that came over HTTP, by candidate."""
        self.is_stopping = False
        self._has_left = self._is_working = False
        self.changed = asyncio.Event()
        """Set, and cleared at once, when the role, the controller or the state has changed."""

    # --- start and stop ---

    async def start(self) -> None:
        runtime, settings = self._runtime, self.settings
        self._loop, self.leaderless_ns = asyncio.get_running_loop(), self.now()
        self._notes = NodeNotes(runtime.disk, runtime.store.path)
        note = self._notes.load(settings.node)
        self.log = ClusterLog(runtime.store, runtime.disk, self._on_report, is_new=note is None)
        if note is None:
            note = ClusterNote(NodeIdentity(settings.node, str(uuid.uuid4())))
            self._notes.save(note)
        self.note = note
        self.membership.on_event.subscribe(self._note_event)
        handlers = PeerHandlers(
            self._hello, self._refusal, self._connected, self._received, self._ended, self._on_refused
        )
        self.network = PeerNetwork(settings.node, settings.peers, settings.secret, handlers, settings.tls)
        if note.is_formed:
            self._open_raft()
        await self.network.start(settings.listen)
        self._form()
        self._tick()

    async def stop(self) -> None:
        """Hand over, tell the others, and end."""
        self.is_stopping = True
        self._tell_changed()
        if self.raft is not None and self.raft.is_leader:
            self.raft.transfer(self.now())
            self._work()
            await self._wait_until_deposed()
        for link in self.network.links.values():
            link.send(Leaving())
        for timer in (self._timer, self._ticks):
            if timer is not None:
                timer.cancel()
        await self.network.stop()
        self._proposals.refuse()
        self.raft = None
        await self._loop.run_in_executor(None, self._threads.shutdown)

    async def _wait_until_deposed(self) -> None:
        try:
            async with asyncio.timeout(_TRANSFER_SECONDS):
                while self.raft is not None and self.raft.is_leader and self.network.links:
                    await self.changed.wait()
        except TimeoutError:
            pass

    def now(self) -> int:
        return self._runtime.clock.monotonic_ns()

    # --- formation ---

    def _form(self) -> None:
        """Form the cluster if all are here."""
        hellos = {node: link.hello for node, link in self.network.links.items()}
        note = form(self.note, self._peers, hellos, lambda: str(uuid.uuid4()))
        if note is not None:
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
        vote = self._notes.load_vote()
        voters = frozenset(note.voters)
        self.raft = Raft(self.settings.raft, note.me, voters, vote, self.log.index, secrets.SystemRandom().random, now)
        if not note.has_vote:
            _log.warning("node %s has no vote: the voters are others, or are on other directories", note.me.node)
        for link in self.network.links.values():
            self.raft.add_observer(link.hello.identity, now)
        self._work()

    # --- connections ---

    def _hello(self) -> Hello:
        note = self.note
        return Hello(PROTOCOL, note.me, note.cluster_id, self._peers, note.voters, __version__)

    def _refusal(self, hello: Hello) -> str | None:
        return refuse_hello(self.note, self._peers, hello)

    def _connected(self, link: PeerLink) -> None:
        hello = link.hello
        self.membership.connected(link.node, self.now())
        self._meet(hello.cluster_id, hello.voters)
        if self.note.is_formed and not hello.cluster_id:
            link.send(Formed(self.note.cluster_id, self.note.voters))
        if self.raft is not None:
            self.raft.add_observer(hello.identity, self.now())
            self._work()
        else:
            self._form()

    def _meet(self, cluster_id: str, voters: tuple[NodeIdentity, ...]) -> None:
        note = join(self.note, cluster_id, voters)
        if note is not None:
            self._adopt(note)

    def _ended(self, link: PeerLink) -> None:
        self.on_disconnected.emit(link.node)
        if self.raft is not None:
            self.raft.drop_observer(link.hello.identity)

    def _on_refused(self, node: str) -> None:
        if self.raft is not None:
            self.raft.refused(node, self.now())
            self._work()

    def _received(self, link: PeerLink, message: PeerMessage) -> None:
        self.membership.heard(link.node, self.now())
        match message:
            case Ping():
                pass
            case Formed():
                self._meet(message.cluster_id, message.voters)
            case Leaving():
                self.membership.leaves(link.node)
            case Register():
                self._register(link.hello.identity, message)
            case _ if (handler := self.handlers.get(type(message))) is not None:
                handler(link, message)
            case Hello():
                raise PeerFailure(f"node {link.node} says hello twice")
            case _ if self.raft is not None:
                if isinstance(message, Append) and (problem := check_append(message)) is not None:
                    raise PeerFailure(f"node {link.node} sent an append that is not whole: {problem}")
                self.raft.receive(link.hello.identity, cast(RaftMessage, message), self.now())
                self._work()

    # --- effects ---

    def _work(self) -> None:
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
            self._fail(error)
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
                self._save_vote(effect.vote)
            case BeginEpoch():
                self.log.begin_epoch(effect.epoch, self.note.me.node, self._runtime.clock.now_ns())
            case Truncate():
                self.log.truncate(effect.end)
            case Committed():
                self._commit(effect.end)
            case RoleChanged():
                self._change_role(effect)

    def _send(self, effect: Send) -> None:
        if isinstance(effect.message, VoteAnswer) and (waiting := self._vote_answers.pop(effect.to, None)):
            for answer in waiting:
                if not answer.done():
                    answer.set_result(effect.message)
            return
        link = self.network.links.get(effect.to.node)
        if link is None or link.hello.identity != effect.to:
            return
        message = effect.message
        if isinstance(message, Append) and message.end > message.base:
            message = replace(message, content=self.log.content(message.base, message.end))
        link.send(message)

    def _save_vote(self, vote: Vote) -> None:
        saving = self._loop.run_in_executor(self._threads, partial(self._notes.save_vote, vote))
        saving.add_done_callback(partial(self._vote_saved, vote))

    def _vote_saved(self, vote: Vote, saving: "asyncio.Future[None]") -> None:
        if saving.cancelled() or self.raft is None:
            return
        error = saving.exception()
        if isinstance(error, GoQueueError):
            self._fail(error)
        elif error is not None:
            raise error
        else:
            self.raft.vote_saved(vote, self.now())
            self._work()

    def _on_report(self) -> None:
        """The log has come further, or will not."""
        if self.raft is None:
            return
        if self.log.log.fence is not None:
            self._fail(self.log.log.fence)
            return
        self.raft.durable(self.log.log.durable_end, self.now())
        self._work()

    def _fail(self, error: GoQueueError) -> None:
        """Take no part any more: what this disk has is not known."""
        _log.error("node %s takes no part in the cluster any more: %s", self.settings.node, error)
        self.failure, self.raft = error, None
        self.leaderless_ns = self.leaderless_ns or self.now()
        self._proposals.refuse()
        self._tell_changed()

    def _commit(self, end: int) -> None:
        self.log.apply_to(end)
        self.on_state.emit(self.log.state.take_changed())
        self._proposals.commit(end)
        self._create_cluster()
        self._tell_changed()

    def _change_role(self, change: RoleChanged) -> None:
        if change.role != "leader":
            self._proposals.refuse()
        if change.leader is not None:
            self.leaderless_ns = None
        elif self.leaderless_ns is None:
            self.leaderless_ns = self.now()
        if change.leader is not None and change.leader != self._leader:
            self._leader = change.leader
            self.controller_changes += 1
            self._note_event("controller_changed", change.leader.node)
        self._registered_ns = 0
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
        self._timer = self._loop.call_later(max(0.0, delay), self._tick_raft)

    def _tick_raft(self) -> None:
        if self.raft is not None:
            self.raft.tick(self.now())
            self._work()

    def _tick(self) -> None:
        """Look at silent nodes, say that this one is alive, and register it."""
        now = self.now()
        self.membership.tick(now)
        if now - self._ping_ns >= self.settings.heartbeat_seconds * NANOSECONDS:
            self._ping_ns = now
            for link in self.network.links.values():
                link.send(Ping())
        self._register_self(now)
        self.lease.renew()
        self._ticks = self._loop.call_later(_TICK_SECONDS, self._tick)

    # --- records ---

    @property
    def controller(self) -> NodeIdentity | None:
        """The leader of the cluster's log, as far as this node knows."""
        return None if self.raft is None else self.raft.leader

    def propose(self, record: ClusterRecord) -> "asyncio.Future[int]":
        """Append a record; the future has its offset when it is committed. Raises if this is not the controller."""
        raft = self.raft
        if raft is None or not raft.is_controller:
            leader = self.controller
            where = "there is none now" if leader is None or leader == self.note.me else f"that is {leader.node}"
            raise ControllerUnavailable(f"node {self.settings.node} is not the controller: {where}", retry_after=1)
        count = self.log.append(encode_cluster_record(record))
        answer = self._proposals.add(self.log.log.next_offset)
        raft.appended(count, self.now())
        self._work()
        return answer

    def _create_cluster(self) -> None:
        """Record what the cluster is, with the first controller."""
        if self.raft is not None and self.raft.is_controller and not self.log.state.cluster_id and not self._proposals:
            now_ns = self._runtime.clock.now_ns()
            forget(self.propose(ClusterCreated(self.note.cluster_id, self.note.voters, now_ns)))

    def _register_self(self, now: int) -> None:
        """Have this process recorded, unless it is."""
        found = self.log.state.nodes.get(self.settings.node)
        is_recorded = found is not None and found[0].incarnation == self._incarnation
        if is_recorded or self._has_left or self.is_stopping or self.raft is None:
            return
        if now - self._registered_ns < CLUSTER_REGISTER_SECONDS * NANOSECONDS or self.controller is None:
            return
        self._registered_ns = now
        listen = self.settings.listen
        peer_address = "" if listen is None else f"{listen[0]}:{listen[1]}"
        register = Register(self._incarnation, self.settings.client_address, peer_address, __version__)
        if self.raft.is_leader:
            self._register(self.note.me, register)
        else:
            self.network.send(self.controller.node, register)

    def _register(self, node: NodeIdentity, asked: Register) -> None:
        if self.raft is None or not self.raft.is_controller or not self.log.state.cluster_id:
            return  # it asks again
        forget(self.register(node, **asdict(asked)))

    def register(
        self, node: NodeIdentity, *, incarnation: str, client_address: str, peer_address: str, version: str
    ) -> "asyncio.Future[int]":
        """Record a process of a node, as the controller; the future has its broker epoch."""
        now_ns = self._runtime.clock.now_ns()
        return self.propose(NodeRegistered(*node, incarnation, client_address, peer_address, version, now_ns))

    def ask_for_vote(self, candidate: NodeIdentity, asked: VoteRequest) -> "asyncio.Future[VoteAnswer]":
        """Return the answer for a candidate that is not connected, once it may leave."""
        assert self.raft is not None, "only a voter is asked"
        answer: asyncio.Future[VoteAnswer] = self._loop.create_future()
        self._vote_answers.setdefault(candidate, []).append(answer)
        self.raft.receive(candidate, asked, self.now())
        self._work()
        return answer

    async def remove(self, node: str) -> None:
        """Take a node out of the list, as the controller; hand over if it is this one."""
        await self.propose(NodeLeft(node, self._runtime.clock.now_ns()))
        if node == self.settings.node and self.raft is not None:
            self._has_left = True
            self.raft.transfer(self.now())
            self._work()

    def _note_event(self, kind: EventKind, node: str) -> None:
        self.events.append((self._runtime.clock.now_ns(), kind, node))
        _log.log(logging.WARNING if kind in ("died", "suspected") else logging.INFO, "node %s: %s", node, kind)
