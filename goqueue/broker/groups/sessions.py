"""Member sessions: what the broker knows of members and does not record, and the rebalance that gathers.

After a restart every member has a full session timeout to send its next heartbeat.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.records import Group, Member, RebalanceReason
from goqueue.errors import GoQueueError, MemberUnknown
from goqueue.quantities import quoted

JoinCallback = Callable[[tuple[str, Group] | GoQueueError], None]
"""Called with the member's id and its group."""

DoneCallback = Callable[[GoQueueError | None], None]


def unknown_member(group: str, member: str) -> MemberUnknown:
    return MemberUnknown(f"group {quoted(group)} has no member {quoted(member)}", hint="join again", group=group)


@dataclass(slots=True)
class MemberSession:
    seen_ns: int
    known_generation: int = 0
    """The latest generation that the member was told about."""
    partitions: list[PartitionRef] = field(default_factory=list)
    """The partitions that it may process."""
    changed: int = 0
    """The generation in which `partitions` changed last."""
    polls: int = 0
    """Polls that wait for messages now: while there are some, the session does not expire."""
    alerted: int = 0
    """The generation for which a waiting poll ended early; only one does."""
    asked_ns: int | None = None
    """Since when the member is asked to revoke partitions."""
    is_fenced: bool = False
    """The member was told that its generation is stale: a join with its client id is its return."""
    waiting: dict[Callable[[], None], None] = field(default_factory=dict)
    """Called once when there may be something new for the member."""
    wake_at_room: int = 0
    """How much room for messages in flight must be free before the member is woken; 0 when it does not wait for it."""
    poll_number: int = 0
    last_polled: PartitionRef | None = None
    """The partition of the latest messages: the next poll starts after it."""

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, {}
        for call in waiting:
            call()


@dataclass(slots=True)
class PendingRebalance:
    """The causes and members that gather until the next rebalance of a group begins."""

    began_ns: int
    settings: Group | None = None
    """The settings of a new or empty group, taken from its first member."""
    delivery: dict[str, Any] = field(default_factory=dict)
    """The delivery settings that members name, of each field the last value."""
    joining: dict[str, Member] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)
    expired: set[str] = field(default_factory=set)
    """The leaving members whose session expired: their messages in flight have failed."""
    reasons: set[RebalanceReason] = field(default_factory=set)
    join_callbacks: list[tuple[str, JoinCallback]] = field(default_factory=list)
    leave_callbacks: list[DoneCallback] = field(default_factory=list)


@dataclass(slots=True)
class RebalanceStats:
    """Rebalances of one group, or of all, since the broker started."""

    total: int = 0
    successful: int = 0
    failed: int = 0
    revoked: int = 0
    """Partitions taken from members."""
    assigned: int = 0
    timeouts: int = 0
    """Members that did not revoke partitions in time."""
    last_ns: int = 0
    """The duration of the last rebalance."""
    longest_ns: int = 0
    sum_ns: int = 0
    last_at_ns: int = 0
    by_reason: Counter[str] = field(default_factory=Counter)

    @property
    def average_ns(self) -> float:
        return self.sum_ns / self.successful if self.successful else 0.0

    def count_begin(self, reasons: list[str]) -> None:
        self.total += 1
        self.by_reason.update(reasons)

    def count_moves(self, before: Group, after: Group) -> None:
        had = {(member, ref) for member, refs in before.assignment.items() for ref in refs}
        has = {(member, ref) for member, refs in after.assignment.items() for ref in refs}
        self.revoked += len(had - has)
        self.assigned += len(has - had)

    def count_end(self, took_ns: int, now_ns: int) -> None:
        self.successful += 1
        self.last_ns = took_ns
        self.longest_ns = max(self.longest_ns, took_ns)
        self.sum_ns += took_ns
        self.last_at_ns = now_ns


@dataclass(slots=True)
class GroupSession:
    members: dict[str, MemberSession] = field(default_factory=dict)
    known_by_all: int = 0
    """A generation that every member was told about."""
    pending: PendingRebalance | None = None
    waiting_for_rejoin: list[tuple[str, JoinCallback]] = field(default_factory=list)
    """Eager members that have rejoined, answered when all others have."""
    stats: RebalanceStats = field(default_factory=RebalanceStats)

    def member(self, member: str, now_ns: int) -> MemberSession:
        found = self.members.get(member)
        if found is None:
            found = self.members[member] = MemberSession(now_ns)
        return found

    def wake(self) -> None:
        for session in list(self.members.values()):
            session.wake()
