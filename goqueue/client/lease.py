"""One lease: what the application noted about its messages, and what of that was gathered to be sent.

The application appends a note to a list, which needs no lock; the sender reads on from where it stopped. What must
stay true:

- The list of notes only grows. So the next gathering sees every note, whichever thread made it.
- Of several notes about one message the first counts, and what was gathered once is not gathered again.
- An offset without a message needs no settling and may be covered by the settling of its neighbors.
"""

import enum
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from goqueue.client.member_requests import TopicPartition
from goqueue.errors import GoQueueError, LeaseExpired
from goqueue.wire.leases import LeaseDescription

if TYPE_CHECKING:
    from goqueue.client.serializers.message_decoding import MessageDecoding

Range = tuple[int, int]
"""The first offset, and the one after the last."""


class OffsetRanges:
    """A set of offsets as ranges. Ranges that touch are merged; none is empty."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for first, end in ranges:
            self.add(first, end)

    def add(self, first: int, end: int) -> list[Range]:
        """Add a range, and return the parts of it that were not in the set."""
        if first >= end:
            return []
        starts, ends = self._starts, self._ends
        low, high = bisect_left(ends, first), bisect_right(starts, end)
        fresh, at = [], first
        for index in range(low, high):
            if at < starts[index]:
                fresh.append((at, starts[index]))
            at = max(at, ends[index])
        if at < end:
            fresh.append((at, end))
        if low < high:
            first, end = min(first, starts[low]), max(end, ends[high - 1])
        starts[low:high] = [first]
        ends[low:high] = [end]
        return fresh

    def covers(self, first: int, end: int) -> bool:
        """Return whether the whole range is in the set."""
        index = bisect_right(self._starts, first) - 1
        return first >= end or (index >= 0 and self._ends[index] >= end)

    def ranges(self) -> list[Range]:
        return list(zip(self._starts, self._ends, strict=True))

    def __len__(self) -> int:
        """Return the number of ranges, not of offsets."""
        return len(self._starts)

    def __repr__(self) -> str:
        return f"<OffsetRanges {self.ranges()}>"


def count_offsets(ranges: Iterable[Range]) -> int:
    return sum(end - first for first, end in ranges)


def uncovered(ranges: Iterable[Range], first: int, end: int) -> list[Range]:
    """Return the parts of a range that ascending ranges inside it leave out."""
    found = []
    for low, high in ranges:
        if first < low:
            found.append((first, low))
        first = high
    return [*found, (first, end)] if first < end else found


ACK, NACK, REJECT, RELEASE, EXTEND = "acks", "nacks", "rejects", "releases", "extensions"
"""The names in a settle request."""

RETURNING = (NACK, RELEASE)
"""The actions after which a message is delivered again."""

NEVER = float("inf")


class SettleNote(NamedTuple):
    """The settlement of some offsets. For a simple ack the application notes the offset alone."""

    action: str
    first: int
    end: int
    seconds: float | None = None
    """The delay of a nack, or the time of an extension."""
    reason: str | None = None


@dataclass(slots=True, eq=False)
class SettleEntry:
    """One entry of a settle request."""

    held: "HeldLease"
    action: str
    ranges: Sequence[Range]
    messages: int
    seconds: float | None
    reason: str | None

    def to_wire(self) -> dict[str, Any]:
        leased = self.held.leased
        named: dict[str, Any] = {"topic": leased.topic, "partition": leased.partition, "lease": leased.lease}
        if self.action == EXTEND:
            return named | {"timeout": self.seconds}
        named["ranges"] = self.ranges
        if self.seconds is not None:
            named["delay"] = self.seconds
        if self.reason is not None:
            named["reason"] = self.reason
        return named


@dataclass(slots=True, eq=False)
class HeldLease:
    """The state of a lease, kept until everything in it is settled or its messages are gone."""

    leased: LeaseDescription
    extend_at: float
    noted: list[int | SettleNote] = field(default_factory=list)
    read: int = 0
    """The number of notes that `settled` and `pending` include."""
    settled: OffsetRanges = field(default_factory=OffsetRanges)
    gaps: list[Range] = field(default_factory=list)
    """Ranges without messages; many when messages of other priorities lie between."""
    pending: dict[tuple[str, float | None, str | None], list[Range]] = field(default_factory=dict)
    wanted: float | None = None
    """The time by which the application wants the lease extended."""
    reserved: int = 0
    """The number of transactions that reserved some of it and have not sent their acks."""
    over: bool = False
    """True if it was lost or revoked: no more of its messages are returned."""
    refused: OffsetRanges = field(default_factory=OffsetRanges)
    error: GoQueueError | None = None
    handle: "weakref.ref[LeaseHandle] | None" = None
    keys: dict[int, bytes] = field(default_factory=dict)
    """Keys by offset, if keys are kept in order; then `left` is called with what is to come again."""
    asked: int = 0
    left: "Callable[[HeldLease, Iterable[Range]], None] | None" = None

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.leased.topic, self.leased.partition)

    @property
    def has_news(self) -> bool:
        return len(self.noted) != self.read or bool(self.pending) or self.wanted is not None

    @property
    def is_complete(self) -> bool:
        return self.settled.covers(self.leased.first, self.leased.end)

    @property
    def is_in_use(self) -> bool:
        """True if the application has, or will get, any of its messages."""
        return self.handle is not None and self.handle() is not None

    def skip(self, gaps: list[Range]) -> None:
        """Record the offsets without messages. A lease without any message is acknowledged."""
        if gaps == [(self.leased.first, self.leased.end)]:
            self.noted.append(SettleNote(ACK, self.leased.first, self.leased.end))
            return
        self.gaps = gaps
        for first, end in gaps:
            self.settled.add(first, end)

    def fold(self) -> None:
        """Apply the notes made since the last call."""
        new = self.noted[self.read :]
        if not new:
            return
        self.read += len(new)
        first = new[0]
        if type(first) is int and new == list(range(first, first + len(new))):  # consecutive acks, the usual case
            self._settle(ACK, first, first + len(new))
            return
        begin = end = -1
        for note in new:
            if isinstance(note, SettleNote):
                self._settle(ACK, begin, end)
                begin = end = -1
                self._take(note)
            elif note == end:
                end += 1
            else:
                self._settle(ACK, begin, end)
                begin, end = note, note + 1
        self._settle(ACK, begin, end)

    def _take(self, note: SettleNote) -> None:
        if note.action == EXTEND:
            self.wanted = note.seconds
        else:
            self._settle(note.action, note.first, note.end, note.seconds, note.reason)

    def _settle(
        self, action: str, first: int, end: int, seconds: float | None = None, reason: str | None = None
    ) -> None:
        fresh = self.settled.add(max(first, self.leased.first), min(end, self.leased.end))
        if fresh:
            self.pending.setdefault((action, seconds, reason), []).extend(fresh)
            if self.left is not None and action in RETURNING:
                self.left(self, fresh)

    def release_unsettled(self) -> None:
        """Release what was not settled. A later ack of it is refused with an error that says why."""
        self.over = True
        self.fold()
        said = self.settled.ranges()
        self.noted.append(SettleNote(RELEASE, self.leased.first, self.leased.end))
        self.fold()
        self.error = LeaseExpired(
            f"messages of {self.place} were released when the group was rebalanced",
            hint="settle received messages in on_revoked",
        )
        for first, end in uncovered(said, self.leased.first, self.leased.end):
            self.refused.add(first, end)

    def reserve(self, ranges: Iterable[Range]) -> list[Range]:
        """Reserve offsets for a transaction. Return those that were not settled before."""
        self.fold()
        first, end = self.leased.first, self.leased.end
        return [piece for low, high in ranges for piece in self.settled.add(max(low, first), min(high, end))]

    def release_reserved(self, ranges: list[Range], reason: str | None) -> None:
        """Return reserved offsets that the broker does not know of; with a `reason`, as failed."""
        said = (RELEASE, None, None) if reason is None else (NACK, 0.0, reason)
        self.pending.setdefault(said, []).extend(ranges)
        if self.left is not None:
            self.left(self, ranges)

    def take(self, room: int) -> list[SettleEntry]:
        """Return what is to be sent, in at most `room` ranges; the rest stays."""
        entries: list[SettleEntry] = []
        while self.pending and room > 0:
            action, seconds, reason = said = next(iter(self.pending))
            fresh = self.pending.pop(said)
            if len(fresh) > room:
                self.pending[action, seconds, reason] = fresh[room:]
                fresh = fresh[:room]
            room -= len(fresh)
            ranges = fresh
            if action == ACK and (len(fresh) > 1 or self.gaps):
                ranges = self.widened(fresh)
            entries.append(SettleEntry(self, action, ranges, count_offsets(fresh), seconds, reason))
        return entries

    def widened(self, fresh: Iterable[Range]) -> list[Range]:
        """Extend ranges by the gaps beside them, so that fewer ranges are sent."""
        return OffsetRanges(map(self._widened, fresh)).ranges()

    def _widened(self, fresh: Range) -> Range:
        first, end = fresh
        before, behind = bisect_left(self.gaps, (first,)) - 1, bisect_left(self.gaps, (end,))
        if before >= 0 and self.gaps[before][1] == first:
            first = self.gaps[before][0]
        if behind < len(self.gaps) and self.gaps[behind][0] == end:
            end = self.gaps[behind][1]
        return first, end

    def refuse(self, entry: SettleEntry, error: GoQueueError) -> None:
        self.error = error
        for first, end in entry.ranges:
            self.refused.add(first, end)


class AckOutcome(enum.Enum):
    """The outcome of messages that were reserved for a transaction."""

    SENT = "the broker keeps them until the transaction ends"
    COMMITTED = "the transaction was committed"
    REDELIVERED = "the broker delivers them again"
    UNSENT = "the broker does not know of it: they must be released"


class LeaseOwner(Protocol):
    """The consumer, as its leases see it."""

    decoding: "MessageDecoding | None"
    """Its deserializers."""

    def durable(self, held: HeldLease, first: int, end: int) -> Any:
        """Wait until what was noted about these offsets is durable. Raises what was refused."""

    def reserve(self, held: HeldLease, ranges: Iterable[Range]) -> tuple[list[Range], tuple[str, str]]:
        """Reserve offsets for a transaction. Return those that were not settled, with group and member."""

    def finish_reservation(
        self, held: HeldLease, ranges: list[Range], outcome: AckOutcome, reason: str | None = None
    ) -> None:
        """Record the outcome of reserved offsets."""


class LeaseHandle:
    """The lease as its messages refer to it. It lives as long as any of them, and the lease is extended as long."""

    __slots__ = ("__weakref__", "held", "note", "owner")

    def __init__(self, held: HeldLease, owner: LeaseOwner, alert: Callable[[], None] | None = None) -> None:
        self.held = held
        self.owner = owner
        self.note: Callable[[int | SettleNote], None] = held.noted.append if alert is None else _alerting(held, alert)
        held.handle = weakref.ref(self)


def _alerting(held: HeldLease, alert: Callable[[], None]) -> Callable[[int | SettleNote], None]:
    """Return a function that notes, and alerts the consumer at once of messages that are to come again."""

    def note(said: int | SettleNote) -> None:
        held.noted.append(said)
        if isinstance(said, SettleNote) and said.action in RETURNING:
            alert()

    return note
