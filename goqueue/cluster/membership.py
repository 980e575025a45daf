"""Which nodes are there, as people are shown it: slower than elections, which do not depend on it.

unknown ── heard ──> alive ── silent ──> suspect ── silent ──> dead
                       ^                    │                    │
                       └────── heard ───────┴────────────────────┘
alive, suspect ── says that it stops ──> leaving ── silent ──> dead
                                            └── heard after a new start ──> alive
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from goqueue.events import Signal

NodeStatus = Literal["unknown", "alive", "suspect", "dead", "leaving"]
EventKind = Literal["joined", "left", "died", "suspected", "recovered", "controller_changed"]


@dataclass(frozen=True, slots=True)
class MembershipSettings:
    """After which silence a node counts as what."""

    suspect_ns: int
    dead_ns: int


@dataclass(slots=True)
class _Member:
    status: NodeStatus = "unknown"
    heard_ns: int | None = None


class Membership:
    """The view of one node."""

    def __init__(self, settings: MembershipSettings, me: str, others: Iterable[str]) -> None:
        self._settings = settings
        self._me = me
        self._members = {node: _Member() for node in others if node != me}
        self.on_event: Signal[[EventKind, str]] = Signal()
        """Called with what happened, and the node."""
        self.failures: dict[str, str] = {}
        """Why nodes take no part any more, although they are alive."""

    def heard(self, node: str, now_ns: int) -> None:
        """The node has sent something."""
        member = self._members.setdefault(node, _Member())
        member.heard_ns = now_ns
        if member.status not in ("alive", "leaving"):
            event: EventKind = "joined" if member.status == "unknown" else "recovered"
            member.status = "alive"
            self.on_event.emit(event, node)

    def connected(self, node: str, now_ns: int) -> None:
        """A new connection: a node that was leaving or had failed may have started again."""
        self.failures.pop(node, None)
        member = self._members.setdefault(node, _Member())
        if member.status == "leaving":
            member.status = "dead"
        self.heard(node, now_ns)

    def leaves(self, node: str) -> None:
        """The node says that it stops."""
        member = self._members.setdefault(node, _Member())
        if member.status != "leaving":
            member.status = "leaving"
            self.on_event.emit("left", node)

    def tick(self, now_ns: int) -> None:
        """Count silence."""
        for node, member in self._members.items():
            if member.heard_ns is None or member.status in ("unknown", "dead"):
                continue
            silence = now_ns - member.heard_ns
            if silence >= self._settings.dead_ns:
                has_left, member.status = member.status == "leaving", "dead"
                if not has_left:
                    self.on_event.emit("died", node)
            elif silence >= self._settings.suspect_ns and member.status == "alive":
                member.status = "suspect"
                self.on_event.emit("suspected", node)

    def status(self, node: str) -> NodeStatus:
        if node == self._me:
            return "alive"
        member = self._members.get(node)
        return "unknown" if member is None else member.status

    def silence_ns(self, node: str, now_ns: int) -> int | None:
        """Return for how long nothing was heard; None if nothing ever was."""
        if node == self._me:
            return 0
        member = self._members.get(node)
        return None if member is None or member.heard_ns is None else now_ns - member.heard_ns

    @property
    def nodes(self) -> list[str]:
        return sorted({self._me, *self._members})
