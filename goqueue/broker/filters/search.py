"""A filtered read, in pieces, within the limits of one request.

Invariant: every message between the start of a search and its `next_offset` was examined, and those that match are
in its result. So the next search continues there without gaps or repeats. A search that is refused after some
progress ends there; the next one is refused.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import partial

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.view import Isolation, PartitionView
from goqueue.broker.core.work import Work
from goqueue.broker.filters.filter_batch import FilterBatch, FrameNumber
from goqueue.broker.filters.filter_set import FilterSet
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.limits import FILTER_PIECE_BYTES, FILTER_SCAN_BYTES, FILTER_SCAN_SECONDS
from goqueue.storage.reads import ReadResult


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    sieve: FilterSet
    max_bytes: int
    """Maximum size of the result; one message is always returned."""
    limit: int | None = None
    """Maximum number of messages."""
    counts_values: bool = False
    """Whether the unpacked size of values counts too."""
    until_ns: int | None = None
    """Only messages appended until then."""
    scan_bytes: int = FILTER_SCAN_BYTES
    """Maximum number of bytes to examine."""
    skip_damage: bool = False
    isolation: Isolation = "read_committed"


@dataclass(slots=True)
class ResultRoom:
    bytes_left: int
    value_bytes_left: int | None
    messages_left: int | None
    is_empty: bool = True

    @classmethod
    def of(cls, options: SearchOptions) -> "ResultRoom":
        return cls(options.max_bytes, options.max_bytes if options.counts_values else None, options.limit)

    @property
    def is_full(self) -> bool:
        return self.messages_left == 0

    def take(self, size: int, value_size: int) -> bool:
        """Add one message if it fits; return whether it did."""
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
    """One filtered read. Call `look` until it `is_over`; wait for messages when it `is_at_end`."""

    def __init__(self, partition: Partition, offset: int, options: SearchOptions, clock: Clock) -> None:
        self.partition = partition
        self.first_offset = self.next_offset = offset
        self.buffers: list[memoryview] = []
        self.scanned = 0
        """Number of examined messages."""
        self.matched = 0
        self.last_ns: int | None = None
        """Append time of the last examined message."""
        self.is_at_end = False
        """Whether it stopped at the end of the partition."""
        self.is_full = False
        """Whether it stopped because the result is full."""
        self.is_past_end = False
        """Whether it stopped at `until_ns`."""
        self.is_refused = False
        """Whether it stopped because the next read is refused."""
        self._options = options
        self._view = PartitionView(partition, options.isolation)
        self._clock = clock
        self._room = ResultRoom.of(options)
        self.bytes = 0
        """Number of examined bytes, unpacked values included."""

    @property
    def found(self) -> ReadResult:
        return ReadResult(tuple(self.buffers), self.next_offset)

    def look(self) -> Work[None]:
        """Search until there is enough, the end, or the time limit of one call."""
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
        """True if the search is finished, or has examined as much as one request may."""
        return self.is_full or self.is_past_end or self.is_refused or self.bytes >= self._options.scan_bytes

    def _look_at_piece(self, end: int) -> Work[None]:
        size = min(FILTER_PIECE_BYTES, self._options.scan_bytes)
        read = yield from self._view.read(self.next_offset, size, skip_damage=self._options.skip_damage)
        if not read.buffers:
            self.next_offset, self.is_at_end = read.next_offset, True
            return
        sifted: _FilteredPiece = yield partial(_filter_piece, read, self._options, self._room)
        if sifted.content:
            self.buffers.append(memoryview(sifted.content))
        self.scanned += sifted.scanned
        self.matched += sifted.matched
        self.last_ns = sifted.last_ns or self.last_ns
        self.is_full, self.is_past_end = sifted.is_full, sifted.is_past_end
        self.next_offset = sifted.next_offset
        self.is_at_end = self.next_offset >= end  # messages that arrive meanwhile are the next call's
        self.bytes += sifted.size


@dataclass(frozen=True, slots=True)
class _FilteredPiece:
    content: bytes
    next_offset: int
    scanned: int
    matched: int
    size: int
    is_full: bool
    is_past_end: bool
    last_ns: int | None


def _filter_piece(read: ReadResult, options: SearchOptions, room: ResultRoom) -> _FilteredPiece:
    """Filter one piece, as far as there is room. May run on any thread."""
    batch = FilterBatch(read.buffers)
    if options.until_ns is not None:
        batch.cut_behind(options.until_ns)
    bound = batch.end
    taken, is_full = _take(batch, options.sieve.sift(batch), room)
    end = batch.end
    return _FilteredPiece(
        batch.joined(taken),
        batch.offset_at(end) if end < len(batch) else read.next_offset,
        bisect_left(batch.messages, end),
        len(taken),
        batch.edges[end] + batch.unpacked_bytes,
        is_full,
        end == bound < len(batch),
        batch.time_at(end - 1) if end else None,
    )


def _take(batch: FilterBatch, places: list[FrameNumber], room: ResultRoom) -> tuple[list[FrameNumber], bool]:
    """Take as many messages as fit; return them and whether the result is full."""
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
