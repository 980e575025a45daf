"""The messages of a node to the controller about processes: its own is there, and others are gone."""

import secrets
from typing import Protocol

from goqueue import __version__
from goqueue.clock import NANOSECONDS
from goqueue.cluster.formation import ClusterNote
from goqueue.cluster.messages import NodeIdentity
from goqueue.cluster.peer_messages import Register, Unreachable
from goqueue.cluster.raft import Raft
from goqueue.errors import GoQueueError
from goqueue.limits import CLUSTER_REGISTER_SECONDS, CLUSTER_WITNESS_SECONDS
from goqueue.runtime.cluster.cluster_log import ClusterLog
from goqueue.runtime.cluster.cluster_settings import ClusterSettings
from goqueue.runtime.cluster.cluster_topics import ClusterTopics
from goqueue.runtime.cluster.controller_runner import ControllerRunner
from goqueue.runtime.cluster.peer_network import PeerNetwork


class PresentNode(Protocol):
    """The part of a node of the cluster that is told of."""

    settings: ClusterSettings
    note: ClusterNote
    raft: Raft | None
    log: ClusterLog
    network: PeerNetwork
    office: ControllerRunner
    topics: ClusterTopics
    is_stopping: bool
    failure: GoQueueError | None

    def fail(self, error: GoQueueError) -> None: ...

    @property
    def controller(self) -> NodeIdentity | None: ...

    def now(self) -> int: ...


class Presence:
    """The registration of this process, and the processes that this node has seen gone."""

    def __init__(self, member: PresentNode) -> None:
        self._member = member
        self._incarnation = secrets.token_hex(8)
        self._asked_ns = self._known_end = 0
        self._gone: dict[str, int] = {}
        """When the address of a node has refused a connection."""
        self.has_left = False
        """It was taken out of the list, and stays out."""

    @property
    def is_registered(self) -> bool:
        """True if the record of this process is applied here."""
        found = self._member.log.state.nodes.get(self._member.settings.node)
        return found is not None and found[0].incarnation == self._incarnation

    @property
    def broker_epoch(self) -> int:
        """The offset of its record; 0 before it is registered."""
        found = self._member.log.state.nodes.get(self._member.settings.node)
        return 0 if found is None or not self.is_registered else found[1]

    def start(self) -> None:
        """Note how far the log of the cluster went before."""
        self._known_end = self._member.log.log.next_offset

    def register(self) -> None:
        """Have this process recorded, unless it is; called again and again."""
        if self._member.failure is None and (fence := self._member.topics.fence) is not None:
            self._member.fail(fence)
        member, controller, now = self._member, self._member.controller, self._member.now()
        if self.has_left or member.is_stopping or controller is None or self.is_registered:
            return
        if member.log.applied_end < min(self._known_end, member.log.log.next_offset):
            return  # it does not know yet what it is to say
        if now - self._asked_ns < CLUSTER_REGISTER_SECONDS * NANOSECONDS:
            return
        self._asked_ns = now
        settings, listen = member.settings, member.settings.listen
        damaged, is_whole = member.topics.verdict()
        register = Register(
            self._incarnation,
            settings.client_address,
            "" if listen is None else f"{listen[0]}:{listen[1]}",
            __version__,
            settings.rack,
            settings.feature_level,
            damaged,
            is_whole,
            member.topics.has_groups,
            member.topics.has_keys,
            member.topics.brings,
        )
        if controller == member.note.me:
            member.office.register(member.note.me, register)
        else:
            member.network.send(controller.node, register)

    def refused(self, node: str) -> None:
        """The address of a node has refused a connection."""
        self._gone[node] = self._member.now()
        self._report(node)

    def connected(self, node: str) -> None:
        self._gone.pop(node, None)

    def controller_changed(self) -> None:
        self._asked_ns = 0
        self._member.topics.controller_changed()
        for node, seen_ns in self._gone.items():
            if self._member.now() - seen_ns < CLUSTER_WITNESS_SECONDS * NANOSECONDS:
                self._report(node)

    def _report(self, node: str) -> None:
        member, controller = self._member, self._member.controller
        if controller == member.note.me:
            member.office.gone(node, member.note.me.node)
        elif controller is not None and controller.node != node:
            member.network.send(controller.node, Unreachable(node))
