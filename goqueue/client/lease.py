"""One lease: what the application noted about its messages, and what of that was gathered to be sent.

The application notes by appending to a list, which needs no lock and costs a few dozen nanoseconds; whoever sends
reads on from where it stopped. What must stay true:

- The list of notes only grows. So a note is seen by whoever gathers next, whichever thread made it.
- Of several notes about one message the first counts, and what was gathered once is not gathered again.
- An offset without a message needs no settling and may be covered by the settling of others.
"""

import enum
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from goqueue.client.intervals import Intervals, Range, count, missing
from goqueue.client.polls import Leased, TopicPartition
from goqueue.errors import GoQueueError, LeaseExpired

ACK, NACK, REJECT, RELEASE, EXTEND = "acks", "nacks", "rejects", "releases", "extensions"
"""As a request names them."""

LEFT = (NACK, RELEASE)
"""After these a message comes again."""

NEVER = float("inf")


class Note(NamedTuple):
    """What is to become of some offsets; of one that is simply acknowledged its number is noted."""

    action: str
    first: int
    end: int
    seconds: float | None = None
    """The delay of a nack; how long an extension is to hold."""
    reason: str | None = None


class Entry:
    """One entry of a request that settles."""

    __slots__ = ("action", "held", "messages", "ranges", "reason", "seconds")

    def __init__(
        self,
        held: "Held",
        action: str,
        ranges: Sequence[Range],
        messages: int,
        seconds: float | None,
        reason: str | None,
    ) -> None:
        self.held = held
        self.action = action
        self.ranges = ranges
        self.messages = messages
        self.seconds = seconds
        self.reason = reason

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


class Held:
    """What the consumer remembers of a lease, as long as anything of it is to be done."""

    __slots__ = (
        "asked",
        "error",
        "extend_at",
        "gaps",
        "handle",
        "keys",
        "leased",
        "left",
        "noted",
        "over",
        "pending",
        "pledged",
        "read",
        "refused",
        "settled",
        "wanted",
    )

    def __init__(self, leased: Leased, extend_at: float) -> None:
        self.leased = leased
        self.noted: list[int | Note] = []
        self.read = 0
        """How many of the notes are among `settled` and `pending`."""
        self.settled = Intervals()
        self.gaps: list[Range] = []
        """Where it has no messages: there are many where messages of other lanes lie between."""
        self.pending: dict[tuple[str, float | None, str | None], list[Range]] = {}
        self.wanted: float | None = None
        """How long the application wants to have it from now on."""
        self.extend_at = extend_at
        self.pledged = 0
        """How many transactions are to acknowledge some of it, and have not told the broker yet."""
        self.over = False
        """It was lost, or taken: nothing of it is handed out any more."""
        self.refused = Intervals()
        self.error: GoQueueError | None = None
        self.handle: weakref.ref[Lease] | None = None
        self.keys: dict[int, bytes] = {}
        """By offset, where keys are to stay in their order; `left` is told then what is to come again."""
        self.asked = 0
        self.left: Callable[[Held, Iterable[Range]], None] | None = None

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
        """Whether the application still has any of its messages, or will get them."""
        return self.handle is not None and self.handle() is not None

    def skip(self, gaps: list[Range]) -> None:
        """Where it has no messages. A lease without any is acknowledged as it is."""
        if gaps == [(self.leased.first, self.leased.end)]:
            self.noted.append(Note(ACK, self.leased.first, self.leased.end))
            return
        self.gaps = gaps
        for first, end in gaps:
            self.settled.add(first, end)

    def fold(self) -> None:
        """Take in what was noted meanwhile."""
        new = self.noted[self.read :]
        if not new:
            return
        self.read += len(new)
        first = new[0]
        if type(first) is int and new == list(range(first, first + len(new))):  # one after the other, as mostly
            self._settle(ACK, first, first + len(new))
            return
        begin = end = -1
        for note in new:
            if isinstance(note, Note):
                self._settle(ACK, begin, end)
                begin = end = -1
                self._take(note)
            elif note == end:
                end += 1
            else:
                self._settle(ACK, begin, end)
                begin, end = note, note + 1
        self._settle(ACK, begin, end)

    def _take(self, note: Note) -> None:
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
            if self.left is not None and action in LEFT:
                self.left(self, fresh)

    def give_back(self) -> None:
        """Release what nothing was said of. A word about it that comes later is too late, and who waits is told."""
        self.over = True
        self.fold()
        said = self.settled.ranges()
        self.noted.append(Note(RELEASE, self.leased.first, self.leased.end))
        self.fold()
        self.error = LeaseExpired(
            f"messages of {self.place} were given back when the group shared its partitions out anew",
            hint="settle what is in hand in on_revoked",
        )
        for first, end in missing(said, self.leased.first, self.leased.end):
            self.refused.add(first, end)

    def pledge(self, ranges: Iterable[Range]) -> list[Range]:
        """Leave these offsets to a transaction; gives those of which nothing was said before."""
        self.fold()
        first, end = self.leased.first, self.leased.end
        return [piece for low, high in ranges for piece in self.settled.add(max(low, first), min(high, end))]

    def take_back(self, ranges: list[Range], reason: str | None) -> None:
        """The broker was not told of what was left to a transaction: it is to come again. For a `reason` it failed."""
        said = (RELEASE, None, None) if reason is None else (NACK, 0.0, reason)
        self.pending.setdefault(said, []).extend(ranges)
        if self.left is not None:
            self.left(self, ranges)

    def take(self, room: int) -> list[Entry]:
        """What is to be sent, in at most so many ranges; the rest stays."""
        entries: list[Entry] = []
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
            entries.append(Entry(self, action, ranges, count(fresh), seconds, reason))
        return entries

    def widened(self, fresh: Iterable[Range]) -> list[Range]:
        """With the gaps beside them: so what lies on both sides of one is told as one range."""
        return Intervals(map(self._widened, fresh)).ranges()

    def _widened(self, fresh: Range) -> Range:
        first, end = fresh
        before, behind = bisect_left(self.gaps, (first,)) - 1, bisect_left(self.gaps, (end,))
        if before >= 0 and self.gaps[before][1] == first:
            first = self.gaps[before][0]
        if behind < len(self.gaps) and self.gaps[behind][0] == end:
            end = self.gaps[behind][1]
        return first, end

    def refuse(self, entry: Entry, error: GoQueueError) -> None:
        self.error = error
        for first, end in entry.ranges:
            self.refused.add(first, end)


class Fate(enum.Enum):
    """What becomes of messages that were left to a transaction."""

    TOLD = "the broker keeps them until the transaction ends"
    DONE = "it was committed"
    BACK = "the broker hands them out again"
    UNSAID = "the broker knows nothing of it: it is to be told that they come again"


class Owner(Protocol):
    def durable(self, held: Held, first: int, end: int) -> Any:
        """Wait until what was noted about these offsets is durable; raises what was refused."""

    def pledge(self, held: Held, ranges: Iterable[Range]) -> tuple[list[Range], tuple[str, str]]:
        """Leave offsets to a transaction: those of which nothing was said before, and of which group and member."""

    def redeem(self, held: Held, ranges: list[Range], fate: Fate, reason: str | None = None) -> None:
        """What became of them."""


class Lease:
    """What messages know of their lease. As long as any of them is alive it is alive, and the lease is extended."""

    __slots__ = ("__weakref__", "held", "note", "owner")

    def __init__(self, held: Held, owner: Owner, alert: Callable[[], None] | None = None) -> None:
        self.held = held
        self.owner = owner
        self.note: Callable[[int | Note], None] = held.noted.append if alert is None else _alerting(held, alert)
        held.handle = weakref.ref(self)


def _alerting(held: Held, alert: Callable[[], None]) -> Callable[[int | Note], None]:
    """Noting, where the consumer is to see at once what comes again."""

    def note(said: int | Note) -> None:
        held.noted.append(said)
        if isinstance(said, Note) and said.action in LEFT:
            alert()

    return note
