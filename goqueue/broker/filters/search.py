"""A read that looks for messages: piece by piece, as far as one request may look.

What must stay true: every message between where a search began and its `next_offset` was looked at, and those that
fit are in its answer; so whoever goes on there misses nothing and gets nothing twice. A search that is not told of a
refusal at once has come some way, and its answer ends there: the next one is refused.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import partial

from goqueue.broker.filters.batch import Batch, Place
from goqueue.broker.filters.sieve import Sieve
from goqueue.broker.partition import Partition
from goqueue.broker.view import Isolation, View
from goqueue.broker.work import Work
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.limits import FILTER_PIECE_BYTES, FILTER_SCAN_BYTES, FILTER_SCAN_SECONDS
from goqueue.storage.extent import Read


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is looked for, and how much of it."""

    sieve: Sieve
    max_bytes: int
    """Of frames; one message is given always."""
    limit: int | None = None
    """The most messages."""
    counts_values: bool = False
    """Whether values count as they are unpacked, too."""
    until_ns: int | None = None
    """Nothing that was appended later."""
    scan_bytes: int = FILTER_SCAN_BYTES
    """How much is looked at."""
    skip_damage: bool = False
    isolation: Isolation = "read_committed"


@dataclass(slots=True)
class Room:
    """What an answer has place for still."""

    bytes_left: int
    value_bytes_left: int | None
    messages_left: int | None
    is_empty: bool = True

    @classmethod
    def of(cls, wish: Wish) -> "Room":
        return cls(wish.max_bytes, wish.max_bytes if wish.counts_values else None, wish.limit)

    @property
    def is_full(self) -> bool:
        return self.messages_left == 0

    def take(self, size: int, value_size: int) -> bool:
        """Whether one more fits; then it is in."""
        fits = size <= self.bytes_left and (self.value_bytes_left is None or value_size <= self.value_bytes_left)
        if not fits and not self.is_empty:
            return False
        self.is_empty = False
        self.bytes_left -= size
        if self.value_bytes_left is not None:
            self.value_bytes_left -= value_size
        if self.messages_left is not None:
            self.messages_left -= 1
        return True


class Search:
    """One filtered read. `look` goes on from where it is until it `is_over`; the owner waits where it `is_at_end`."""

    def __init__(self, partition: Partition, offset: int, wish: Wish, clock: Clock) -> None:
        self.partition = partition
        self.first_offset = self.next_offset = offset
        self.buffers: list[memoryview] = []
        self.scanned = 0
        """Messages that were looked at."""
        self.matched = 0
        self.last_ns: int | None = None
        """When the last of those that were looked at was appended."""
        self.is_at_end = False
        """Whether it stopped because there was nothing more when it began to look."""
        self.is_full = False
        """Whether it stopped because the answer has no room for more."""
        self.is_past_end = False
        """Whether it stopped because what follows was appended too late."""
        self.is_refused = False
        """Whether it stopped because what follows is refused."""
        self._wish = wish
        self._view = View(partition, wish.isolation)
        self._clock = clock
        self._room = Room.of(wish)
        self.bytes = 0
        """How much was looked at, unpacked values included."""

    @property
    def found(self) -> Read:
        """What fits, as an answer to any read."""
        return Read(tuple(self.buffers), self.next_offset)

    def look(self) -> Work[None]:
        """Look on until there is enough, or nothing more, or for as long as one look may take."""
        began, end = self._clock.monotonic_ns(), self._view.end
        self.is_at_end = False
        while not (self.is_over or self.is_at_end):
            try:
                yield from self._look_at_piece(end)
            except GoQueueError:
                if self.next_offset == self.first_offset:
                    raise
                self.is_refused = True
            if self._clock.monotonic_ns() - began >= FILTER_SCAN_SECONDS * NANOSECONDS:
                return

    @property
    def is_over(self) -> bool:
        """Whether no other look would bring more, or it has looked at as much as one request may."""
        return self.is_full or self.is_past_end or self.is_refused or self.bytes >= self._wish.scan_bytes

    def _look_at_piece(self, end: int) -> Work[None]:
        size = min(FILTER_PIECE_BYTES, self._wish.scan_bytes)
        read = yield from self._view.read(self.next_offset, size, skip_damage=self._wish.skip_damage)
        if not read.buffers:
            self.next_offset, self.is_at_end = read.next_offset, True
            return
        sifted: _Sifted = yield partial(_sift, read, self._wish, self._room)
        if sifted.content:
            self.buffers.append(memoryview(sifted.content))
        self.scanned += sifted.scanned
        self.matched += sifted.matched
        self.last_ns = sifted.last_ns or self.last_ns
        self.is_full, self.is_past_end = sifted.is_full, sifted.is_past_end
        self.next_offset = sifted.next_offset
        self.is_at_end = self.next_offset >= end  # who follows what comes meanwhile looks at each bit of it
        self.bytes += sifted.size

    def __repr__(self) -> str:
        return f"<Search {self.matched} of {self.scanned} in {self.partition} {self.first_offset}..{self.next_offset}>"


@dataclass(frozen=True, slots=True)
class _Sifted:
    """What came of one piece."""

    content: bytes
    next_offset: int
    scanned: int
    matched: int
    size: int
    is_full: bool
    is_past_end: bool
    last_ns: int | None


def _sift(read: Read, wish: Wish, room: Room) -> _Sifted:
    """What fits of a piece, as far as there is room. Nobody else has the room meanwhile, so any thread may do it."""
    batch = Batch(read.buffers)
    if wish.until_ns is not None:
        batch.cut_behind(wish.until_ns)
    bound = batch.end
    taken, is_full = _take(batch, wish.sieve.sift(batch), room)
    end = batch.end
    return _Sifted(
        batch.joined(taken),
        batch.offset_at(end) if end < len(batch) else read.next_offset,
        bisect_left(batch.messages, end),
        len(taken),
        batch.edges[end] + batch.unpacked_bytes,
        is_full,
        end == bound < len(batch),
        batch.time_at(end - 1) if end else None,
    )


def _take(batch: Batch, places: list[Place], room: Room) -> tuple[list[Place], bool]:
    """As many as there is room for, and whether there is none for what comes then."""
    for number, place in enumerate(places):
        value_size = 0 if room.value_bytes_left is None else batch.value_bytes(place)
        if value_size is None:
            return places[:number], False
        if not room.take(batch.edges[place + 1] - batch.edges[place], value_size):
            batch.cut(place)
            return places[:number], True
        if room.is_full:
            batch.cut(place + 1)
            return places[: number + 1], True
    return places, False
