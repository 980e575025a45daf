"""The controller's office on a node: what is decided while this node leads the log of the cluster.

It decides on a state of its own: that of all committed records and of those that it has appended since. With the
office the state is dropped, as the records may be.

Which nodes are there is not recorded, only fences are. A node is fenced when it was silent for a session, or at once
when its process is gone: its address refuses connections, to this node and to a second one. After a change of the
controller, or a pause of this process, every node has a whole session again: it may have a lease of the former one.
The former controller itself has only what is left of a session after the election timeout, within which no majority
has answered it.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from goqueue.broker.core.topic import TopicSpec
from goqueue.broker.internal_topics import GROUP_SETTINGS, GROUPS, TRANSACTION_SETTINGS, TRANSACTIONS
from goqueue.broker.schemas.logs import SCHEMAS, SCHEMAS_SETTINGS
from goqueue.broker.security.logs import SECURITY, SECURITY_SETTINGS
from goqueue.broker.tenants.logs import TENANTS, TENANTS_SETTINGS
from goqueue.clock import NANOSECONDS
from goqueue.cluster.controller import Controller, ControllerSettings, Records
from goqueue.cluster.controller_requests import (
    ControllerAnswer,
    ControllerRequest,
    HandOver,
    OperatorRequest,
    RemoveNode,
)
from goqueue.cluster.draining import move_leaders_away
from goqueue.cluster.formation import ClusterNote
from goqueue.cluster.level_checks import refuse_later
from goqueue.cluster.membership import Membership
from goqueue.cluster.messages import NodeIdentity
from goqueue.cluster.metadata import ClusterCreated, ClusterRecord, NodeFenced, NodeRegistered, VotersChanged
from goqueue.cluster.peer_messages import Register, Unreachable
from goqueue.cluster.raft import Raft
from goqueue.cluster.reassignment_records import NodeDraining, ReassignmentEnded, ReassignmentStarted
from goqueue.cluster.replication_messages import IsrChange
from goqueue.cluster.retelling import tell_state
from goqueue.cluster.shared_logs import InternalTopic
from goqueue.errors import ClusterChangeRefused, ControllerUnavailable, GoQueueError
from goqueue.limits import (
    CLUSTER_RETURNS_AT_ONCE,
    CLUSTER_SETTLED_SECONDS,
    CLUSTER_TRANSACTION_LOGS,
    CLUSTER_WITNESS_SECONDS,
    GROUP_LOGS,
)
from goqueue.quantities import format_count
from goqueue.runtime.cluster.cluster_log import ClusterLog
from goqueue.runtime.cluster.cluster_settings import ClusterSettings
from goqueue.runtime.cluster.operator_changes import hand_over, remove_node, replace_voter
from goqueue.runtime.cluster.peer_link import MessageHandler
from goqueue.runtime.cluster.peer_network import PeerNetwork
from goqueue.runtime.cluster.proposals import forget

_log = logging.getLogger("goqueue.cluster")

_TICK_NS = NANOSECONDS // 4
"""Between two calls of `tick`."""
_DRAIN_NS = 2 * NANOSECONDS
"""For a drained node to finish publishes, before others lead what it leads."""
_LATE_NS = NANOSECONDS
"""A tick that is so late shows that this process stood still."""
_INTERNAL = (
    InternalTopic(TopicSpec(name=GROUPS, partitions=GROUP_LOGS, settings=GROUP_SETTINGS)),
    InternalTopic(TopicSpec(name=SECURITY, partitions=1, settings=SECURITY_SETTINGS), is_followed=True),
    InternalTopic(TopicSpec(name=SCHEMAS, partitions=1, settings=SCHEMAS_SETTINGS), 2, is_followed=True),
    InternalTopic(TopicSpec(name=TENANTS, partitions=1, settings=TENANTS_SETTINGS), 2, is_followed=True),
    InternalTopic(
        TopicSpec(name=TRANSACTIONS, partitions=CLUSTER_TRANSACTION_LOGS, settings=TRANSACTION_SETTINGS),
        2,
        has_one_owner=True,
    ),
)
_TELLS = 2
"""The feature level from which on the state is rewritten."""
_TOPICS = 1
"""The feature level of topics with replicas."""


class ControllingNode(Protocol):
    """The part of a node of the cluster that its office needs."""

    settings: ClusterSettings
    note: ClusterNote
    raft: Raft | None
    log: ClusterLog
    network: PeerNetwork
    membership: Membership
    handlers: dict[type, MessageHandler]

    @property
    def controller(self) -> NodeIdentity | None: ...

    def now(self) -> int: ...

    def wall_clock(self) -> int: ...

    def append(self, records: Sequence[ClusterRecord]) -> "asyncio.Future[int]": ...

    def work(self) -> None: ...


class ControllerRunner:
    """The office; it is open while `controller` is not None."""

    def __init__(self, member: ControllingNode) -> None:
        self._member = member
        self.controller: Controller | None = None
        self._since_ns = self._grace_ns = self._tick_ns = 0
        self._lateness_ns = 0
        """How late this loop has been of late: others may wait for it, so it accuses them later."""
        self._former = ""
        """The controller before this one."""
        self._draining_ns: dict[str, int] = {}
        """Since when this controller knows that a node is drained."""
        self._up_ns: dict[str, int] = {}
        """Since when this controller knows that a node is there."""
        self._fenced_at: dict[str, int] = {}
        """The offsets of fences of this controller."""
        self._gone: dict[str, dict[str, int]] = {}
        """The nodes whose processes are gone, and when which other node has seen that."""
        member.handlers[Register] = lambda link, asked: self.register(link.hello.identity, asked)
        member.handlers[Unreachable] = lambda link, told: self.gone(told.node, link.node)

    # --- the office ---

    def look(self) -> None:
        """Open or close the office; called after each change of the role, and each commit."""
        raft = self._member.raft
        if raft is None or not raft.is_leader:
            self.controller = None
            if raft is not None and raft.leader is not None:
                self._former = raft.leader.node
        elif self.controller is None and raft.is_controller:
            self._open()

    def _open(self) -> None:
        member = self._member
        self._since_ns = self._grace_ns = self._tick_ns = member.now()
        self._lateness_ns = 0
        self._up_ns, self._fenced_at = {}, {}
        settings = ControllerSettings(member.settings.replication_factor, member.settings.min_isr, _INTERNAL)
        self.controller = Controller(member.log.state.copy(), settings)
        for node in list(self._gone):  # such as the controller before this one
            self._fence_gone(node)
        note = member.note
        if not self.controller.state.cluster_id:
            forget(self.append([ClusterCreated(note.cluster_id, note.voters, member.wall_clock())]))
        else:
            self._complete()

    def _complete(self) -> None:
        if self._has_topics and (records := self.in_office().complete(self._member.wall_clock())):
            forget(self.append(records))

    @property
    def _has_topics(self) -> bool:
        return self.controller is not None and self.controller.state.feature_level >= _TOPICS

    def in_office(self) -> Controller:
        """Return the rules. Raises ControllerUnavailable."""
        raft = self._member.raft
        if self.controller is None or raft is None or not raft.is_controller:
            leader, me = self._member.controller, self._member.note.me
            where = "there is none now" if leader is None or leader == me else f"that is {leader.node}"
            raise ControllerUnavailable(f"node {me.node} is not the controller: {where}", retry_after=1)
        return self.controller

    def append(self, records: Records) -> "asyncio.Future[int]":
        """Append records in one piece; the future has the end of the log behind them when they are committed."""
        controller = self.in_office()
        refuse_later(controller.state, records)
        offset = self._member.log.log.next_offset
        for number, record in enumerate(records):
            controller.state.apply(record, offset + number)
            _log_move(record)
            if isinstance(record, NodeFenced):
                self._fenced_at[record.node] = offset + number
                if record.is_stopping:
                    _log.info("node %s stops: others lead its partitions", record.node)
                else:
                    _log.warning("node %s is fenced", record.node)
        return self._member.append(records)

    # --- requests ---

    async def decide(self, request: ControllerRequest) -> ControllerAnswer:
        """Answer a request when its records are committed."""
        controller = self.in_office()
        if isinstance(request, OperatorRequest):
            return ControllerAnswer(await self._operate(controller, request))
        if not self._has_topics:
            raise ControllerUnavailable(
                "not all nodes of the cluster are registered with a version that shares topics",
                hint="see `goqueue-cli cluster nodes`",
                retry_after=1,
            )
        topic_id = self._topic_id(request)
        try:
            records = controller.decide(request, self._member.wall_clock())
        except GoQueueError:
            if not isinstance(request, IsrChange):
                await self._confirm()
            raise
        committed = self.append(records)
        if isinstance(request, IsrChange):
            self._advance_moves()
        topic_id = topic_id or self._topic_id(request)
        started = next((one.reassignment.number for one in records if isinstance(one, ReassignmentStarted)), 0)
        return ControllerAnswer(await committed, topic_id, started)

    async def _confirm(self) -> None:
        """Wait until all that a refusal was decided on is committed. Raise if another controller may know better."""
        await self.append([])
        raft = self._member.raft
        if raft is None or not raft.has_lease(self._member.now()):
            raise ControllerUnavailable("another node may have become the controller", retry_after=1)

    def _advance_moves(self) -> None:
        """Do the next steps of reassignments."""
        controller, now_ns = self.in_office(), self._member.wall_clock()
        if records := controller.moves.advance(now_ns):
            forget(self.append(records))

    async def _operate(self, controller: Controller, request: OperatorRequest) -> int:
        member, raft = self._member, self._member.raft
        assert raft is not None, "an open office has it"
        if isinstance(request, HandOver):
            hand_over(raft, request, member.now())
            member.work()
            return raft.commit
        network, now_ns = member.network, member.wall_clock()
        if isinstance(request, RemoveNode):
            return await self.append(remove_node(raft, network, controller, request.node, now_ns))
        peers = frozenset(member.settings.peers)
        return await self.append(replace_voter(raft, network, peers, request.node, now_ns))

    def _topic_id(self, request: ControllerRequest) -> int:
        name = getattr(request, "name", "")
        topic = None if self.controller is None else self.controller.state.topics.get(name)
        return 0 if topic is None else topic.created_ns

    # --- nodes ---

    def register(self, node: NodeIdentity, asked: Register) -> None:
        """Record a process of a node, unless it is recorded. It asks again until it is."""
        with suppress(ControllerUnavailable):
            controller = self.in_office()
            known = controller.state.nodes.get(node.node)
            if controller.state.cluster_id and (known is None or known[0].incarnation != asked.incarnation):
                try:
                    forget(self._register(controller, node, asked))
                except ClusterChangeRefused as error:
                    _log.warning("node %s is not registered: %s", node.node, error)
                    return
                self._complete()

    def _register(self, controller: Controller, node: NodeIdentity, asked: Register) -> "asyncio.Future[int]":
        record = NodeRegistered(
            *node, asked.incarnation, asked.client_address, asked.peer_address, asked.version,
            self._member.wall_clock(), asked.rack, asked.feature_level, asked.has_groups, asked.has_keys,
            asked.brings,
        )  # fmt: skip
        self._up_ns[node.node] = self._member.now()
        self._gone.pop(node.node, None)
        return self.append(controller.register(record, asked.damaged, is_whole=asked.is_whole))

    async def register_now(self, node: NodeIdentity, asked: Register) -> int:
        """Record a process of a node; return its broker epoch when that is committed."""
        controller = self.in_office()
        committed = self._register(controller, node, asked)
        _, broker_epoch = controller.state.nodes[node.node]
        await committed
        return broker_epoch

    def gone(self, node: str, witness: str) -> None:
        """Note that the process of a node is gone, as a node has seen; two of them are believed."""
        now = self._member.now()
        seen = self._gone.setdefault(node, {})
        seen[witness] = now
        self._gone[node] = {one: at for one, at in seen.items() if now - at < CLUSTER_WITNESS_SECONDS * NANOSECONDS}
        self._fence_gone(node)

    def _fence_gone(self, node: str) -> None:
        seen = self._gone.get(node, {})
        is_believed = len(seen) > 1 and self._member.note.me.node in seen
        if self._has_topics and is_believed and node not in self._member.network.links:
            self._fence(node)

    def may_lead(self, node: str) -> bool:
        """Return whether a node is not fenced, as this controller has decided."""
        return self.controller is not None and node not in self.controller.state.fenced

    def back(self, node: str) -> None:
        """A node is connected."""
        self._gone.pop(node, None)

    def _fence(self, node: str) -> None:
        assert self.controller is not None, "only an open office fences"
        with suppress(ControllerUnavailable):  # it hands over: the next one fences
            if records := self.controller.fence(node):
                forget(self.append(records))

    def tick(self) -> None:
        """Look at silent nodes, at those that are back, at moves, and at leaders that can return."""
        now = self._member.now()
        late = now - self._tick_ns - _TICK_NS
        self._lateness_ns = max(late, self._lateness_ns * 7 // 8)
        if late > _LATE_NS:
            self._grace_ns = now
        before, self._tick_ns = self._tick_ns, now
        raft = self._member.raft
        if not self._has_topics or raft is None or not raft.is_controller:
            return
        assert self.controller is not None, "an office with topics is open"
        state = self.controller.state
        for node in list(state.nodes):
            has_failed = node in self._member.membership.failures  # it is heard, and follows no decision any more
            if node in state.fenced:
                if not has_failed:
                    self._unfence(node, raft)
            elif has_failed or self._silence_ns(node, now) > self._member.settings.session_ns + 2 * self._lateness_ns:
                self._fence(node)
            else:
                self._fence_gone(node)
        self._advance_moves()
        if now // NANOSECONDS > before // NANOSECONDS:
            self._tell_again(raft)
            self._complete()
            self._draining_ns = {node: self._draining_ns.get(node, now) for node in state.draining}
            overdue = {drained for drained, since in self._draining_ns.items() if now - since > _DRAIN_NS}
            if records := move_leaders_away(state, overdue, self.controller.is_up):
                forget(self.append(records))
            self._return_leaders(now)

    def _tell_again(self, raft: Raft) -> None:
        """Tell the state again when the log has grown much: what was before can go then."""
        member, state = self._member, self.in_office().state
        if state.feature_level < _TELLS or not member.log.is_due or raft.history.changed_at >= raft.commit:
            return
        _log.info("the state of the cluster is rewritten, so that the beginning of its log can go")
        forget(self.append([VotersChanged(state.voters, member.wall_clock())]))  # for those that begin there
        forget(self.append(list(tell_state(state, member.wall_clock()))))

    def _silence_ns(self, node: str, now: int) -> int:
        silence, grace = self._member.membership.silence_ns(node, now), self._grace_ns
        if node == self._former and grace == self._since_ns and self._member.raft is not None:
            grace -= self._member.raft.settings.election_ns
        return min(now - grace, now if silence is None else silence)

    def _unfence(self, node: str, raft: Raft) -> None:
        """Let a node in again that is heard, and that knows of its fence."""
        assert self.controller is not None, "only an open office does so"
        member = self._member
        if node != member.note.me.node:
            link, now = member.network.links.get(node), member.now()
            silence = member.membership.silence_ns(node, now)
            if link is None or silence is None or silence > member.settings.session_ns // 2:
                return
            progress = raft.progress.get(link.hello.identity)
            if progress is None or progress.match <= self._fenced_at.get(node, raft.epoch_start):
                return
        if records := self.controller.unfence(node):
            _log.info("node %s takes part again", node)
            self._up_ns[node] = member.now()
            forget(self.append(records))

    def _return_leaders(self, now: int) -> None:
        assert self.controller is not None, "only an open office does so"

        def is_settled(node: str) -> bool:
            return now - self._up_ns.get(node, self._since_ns) >= CLUSTER_SETTLED_SECONDS * NANOSECONDS

        if records := self.controller.return_leaders(is_settled, CLUSTER_RETURNS_AT_ONCE):
            forget(self.append(records))


def _log_move(record: ClusterRecord) -> None:
    match record:
        case ReassignmentStarted():
            number, moves = record.reassignment.number, len(record.reassignment.moves)
            _log.info("reassignment %d begins: %s", number, format_count(moves, "move"))
        case ReassignmentEnded():
            _log.info("reassignment %d is %s", record.number, record.outcome)
        case NodeDraining():
            _log.info("node %s is %s", record.node, "drained" if record.is_draining else "not drained any more")
