"""The lease of a node: until when no other node can have become a leader in its place without its knowledge.

A node asks the controller to renew its lease, several times in a session. The controller fences no node that it has
heard within a session, and a new controller fences none in its first session. So a lease counts from the sending of
the question, and ends a good while before the session. It ends at once with the connection to the controller, whose
other end may be the reason to fence a node early.

The controller itself has the lease of its majority, as long as it is connected with one.
"""

from typing import Protocol

from goqueue.cluster.formation import ClusterNote
from goqueue.cluster.messages import NodeIdentity
from goqueue.cluster.peer_messages import Renew, Renewed
from goqueue.cluster.raft import Raft
from goqueue.events import Signal
from goqueue.runtime.cluster.cluster_log import ClusterLog
from goqueue.runtime.cluster.cluster_settings import ClusterSettings
from goqueue.runtime.cluster.controller_runner import ControllerRunner
from goqueue.runtime.cluster.peer_link import MessageHandler, PeerLink
from goqueue.runtime.cluster.peer_network import PeerNetwork

_SHARE_PERCENT = 80
"""The part of a session that a lease lasts."""


class LeasingNode(Protocol):
    """The part of a node of the cluster that its lease needs."""

    settings: ClusterSettings
    note: ClusterNote
    raft: Raft | None
    log: ClusterLog
    network: PeerNetwork
    handlers: dict[type, MessageHandler]
    on_disconnected: Signal[[str]]
    office: ControllerRunner

    @property
    def controller(self) -> NodeIdentity | None: ...

    def now(self) -> int: ...


class ServingLease:
    """The lease of this node, and its answers as the controller to those of others."""

    def __init__(self, member: LeasingNode) -> None:
        self._member = member
        self._length_ns = member.settings.session_ns * _SHARE_PERCENT // 100
        self._until_ns = 0
        self._granted_by = ""
        """The controller that has renewed it last."""
        member.handlers[Renew] = member.handlers[Renewed] = self.received
        member.on_disconnected.subscribe(self.ended)

    @property
    def is_held(self) -> bool:
        """True if this node may answer alone, without others that confirm it."""
        member = self._member
        now = member.now()
        if member.raft is not None and member.raft.is_leader:
            return self._has_majority(member.raft)
        return now < self._until_ns

    def _has_majority(self, raft: Raft) -> bool:
        """Return whether no other controller can have been elected.

        Voters whose connection to this node has ended may elect at once, if they find its address refusing.
        """
        me, links = self._member.note.me, self._member.network.links
        connected = sum(voter == me or voter.node in links for voter in raft.voters)
        return 2 * connected > len(raft.voters) and raft.has_lease(self._member.now())

    def renew(self) -> None:
        """Ask the controller; called some times in a session."""
        member = self._member
        controller = member.controller
        if controller is not None and controller != member.note.me:
            member.network.send(controller.node, Renew(member.now()))

    def received(self, link: PeerLink, message: Renew | Renewed) -> None:
        member = self._member
        if isinstance(message, Renewed):
            self._granted_by = link.node
            self._until_ns = max(self._until_ns, message.sent_ns + self._length_ns)
        elif self._may_grant and member.office.may_lead(link.node):
            link.send(Renewed(message.sent_ns))

    @property
    def _may_grant(self) -> bool:
        """True if this is the controller, and no other one can have been elected."""
        raft = self._member.raft
        return raft is not None and raft.is_controller and self._has_majority(raft)

    def ended(self, node: str) -> None:
        """Handle the end of a connection."""
        if node == self._granted_by:
            self._until_ns = 0
