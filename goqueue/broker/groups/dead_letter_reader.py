"""Reads the dead letters of a topic that were not redriven, a piece at a time.

What was redriven is what the internal redrive group has settled. Unlike other groups it settles messages in any order:
a dead letter that it has not settled and does not move can be redriven, before its position as well as after.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.ranges import RangeMap
from goqueue.broker.core.topic import Topic
from goqueue.broker.core.view import PartitionView, measure_backlog
from goqueue.broker.core.work import Work
from goqueue.broker.filters.filter_batch import FilterBatch
from goqueue.broker.filters.filter_set import NO_FILTERS, FilterSet
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.dead_letter_message import dead_letter_headers
from goqueue.broker.groups.dead_letters import REDRIVE_GROUP
from goqueue.broker.groups.store import GroupStore
from goqueue.errors import OffsetOutOfRange
from goqueue.limits import OFFSET_MAX, READ_BYTES, REDRIVE_SCAN_BYTES, REDRIVE_SCAN_MESSAGES
from goqueue.quantities import parse_time
from goqueue.storage import frame
from goqueue.storage.reads import ReadResult

_OFFSET_DIGITS_MAX = 19  # of OFFSET_MAX


@dataclass(frozen=True)
class DeadLetter:
    """A message in a dead-letter queue. Facts from its headers are None when the headers do not have them."""

    partition: int
    message: frame.StoredMessage

    @property
    def offset(self) -> int:
        return self.message.offset

    @property
    def key(self) -> bytes | None:
        return self.message.key

    @property
    def since_ns(self) -> int:
        """When it became a dead letter."""
        return self.message.timestamp_ns

    @cached_property
    def headers(self) -> dict[str, str]:
        return dead_letter_headers(self.message.headers)

    @property
    def origin_topic(self) -> str | None:
        return self.headers.get("topic")

    @property
    def origin_partition(self) -> int | None:
        return self._number("partition")

    @property
    def origin_offset(self) -> int | None:
        return self._number("offset")

    @property
    def group(self) -> str | None:
        return self.headers.get("group")

    @property
    def error(self) -> str:
        return self.headers.get("error", "")

    @property
    def attempts(self) -> int | None:
        return self._number("attempts")

    @property
    def first_ns(self) -> int | None:
        """When it was delivered for the first time."""
        return self._time("first-time")

    @property
    def last_ns(self) -> int | None:
        """When it failed for the last time."""
        return self._time("last-time")

    def _number(self, name: str) -> int | None:
        text = self.headers.get(name, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= _OFFSET_DIGITS_MAX else None

    def _time(self, name: str) -> int | None:
        try:
            return parse_time(self.headers.get(name, ""))
        except ValueError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterCriteria:
    error: str | None = None
    """A part of the error."""
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    """Headers with these values, `dlq.` headers included."""
    from_ns: int | None = None
    """It became a dead letter at or after this time."""
    to_ns: int | None = None
    """It became a dead letter before this time."""
    group: str | None = None
    """The group in which it failed."""
    origin: str | None = None
    """The topic that it comes from."""
    filters: FilterSet = NO_FILTERS

    def match(self, letter: DeadLetter) -> bool:
        """Check everything but times, which the reader turns into offsets, and filters, which check whole batches."""
        return (
            (self.key is None or letter.key == (self.key or None))
            and (self.group is None or letter.group == self.group)
            and (self.origin is None or letter.origin_topic == self.origin)
            and (self.error is None or self.error in letter.error)
            and all(pair in letter.message.headers for pair in self.headers)
        )


def is_redrivable(cursor: Cursor | None, offset: int) -> bool:
    return cursor is None or not (cursor.is_settled(offset, offset + 1) or offset in cursor.moving)


class DeadLetterReader:
    """Reads through the dead letters of a topic, one partition after the other.

    It ends where each partition ended at the beginning, so that dead letters that are added meanwhile are not read,
    and before that when it has read as much as one request may.
    """

    def __init__(self, store: GroupStore, topic: Topic, criteria: DeadLetterCriteria, start: Mapping[int, int]) -> None:
        self.topic = topic
        self.scanned = 0
        self.next = {partition.number: start.get(partition.number, 0) for partition in topic.partitions}
        """Where to continue in each partition."""
        self._store = store
        self._criteria = criteria
        self._ends = {partition.number: partition.last_stable for partition in topic.partitions}
        self._left = deque(topic.partitions)
        self._bytes = 0
        self._has_looked_up_times = False

    @property
    def is_over(self) -> bool:
        is_limit_reached = self.scanned >= REDRIVE_SCAN_MESSAGES or self._bytes >= REDRIVE_SCAN_BYTES
        return is_limit_reached or self.is_complete

    @property
    def is_complete(self) -> bool:
        return self._current_partition() is None

    def read(self, most: int) -> Work[list[DeadLetter]]:
        """Return the next matching dead letters, all of one partition; none when the reader is over."""
        yield from self._look_up_times()
        while not self.is_over and (partition := self._current_partition()) is not None:
            found = yield from self._read_piece(partition, most)
            if found:
                return found
        return []

    def remaining(self) -> Work[int]:
        """Count the dead letters that were not read, whether they match or not."""
        yield from self._look_up_times()
        count = 0
        for partition in self.topic.partitions:
            done = self._redriven(partition.number, self.next[partition.number], self._ends[partition.number])
            done.set(self._ends[partition.number], OFFSET_MAX, True)
            ranges = [(first, end) for first, end, _ in done.runs()]
            left = yield from measure_backlog(PartitionView(partition), self.next[partition.number], ranges)
            count += left.messages
        return count

    def _look_up_times(self) -> Work[None]:
        """Turn the times of the criteria into offsets, once: append times never decrease."""
        if self._has_looked_up_times:
            return
        self._has_looked_up_times = True
        from_ns, to_ns = self._criteria.from_ns, self._criteria.to_ns
        for partition in self.topic.partitions:
            number = partition.number
            if partition.earliest >= self._ends[number]:
                continue
            if from_ns is not None:
                first = yield from partition.offset_for_time(from_ns)
                self.next[number] = max(self.next[number], first)
            if to_ns is not None:
                end = yield from partition.offset_for_time(to_ns)
                self._ends[number] = min(self._ends[number], end)

    def _current_partition(self) -> Partition | None:
        """Return the first partition that may have more, and move its next offset past redriven messages."""
        while self._left:
            partition = self._left[0]
            number = partition.number
            first = max(self.next[number], partition.earliest)
            if (cursor := self._store.cursor_of(REDRIVE_GROUP, self.topic, number)) is not None:
                first = max(first, cursor.floor)
                run = cursor.acked.run_at(first)
                first = run[1] if run is not None else first
            if first < self._ends[number]:
                self.next[number] = first
                return partition
            self.next[number] = max(self.next[number], self._ends[number])
            self._left.popleft()
        return None

    def _redriven(self, number: int, first: int, end: int) -> RangeMap[bool]:
        """Return the offsets of a range that were redriven or are moving."""
        done: RangeMap[bool] = RangeMap()
        if (cursor := self._store.cursor_of(REDRIVE_GROUP, self.topic, number)) is not None and first < end:
            if first < cursor.floor:
                done.set(first, min(cursor.floor, end), True)
            for start, stop, _ in cursor.acked.within(first, end):
                done.set(start, stop, True)
            for start, stop, _ in cursor.moving.within(first, end):
                done.set(start, stop, True)
        return done

    def _read_piece(self, partition: Partition, most: int) -> Work[list[DeadLetter]]:
        number = partition.number
        offset = self.next[number]
        try:
            read = yield from partition.read(offset, READ_BYTES, skip_damage=True)
        except OffsetOutOfRange:  # retention has removed it meanwhile
            self.next[number] = max(offset + 1, partition.earliest)
            return []
        end = min(read.next_offset, self._ends[number])
        done = self._redriven(number, offset, end)
        piece: _MatchedPiece = yield partial(_match, number, read, end, done, self._criteria, most)
        self.scanned += piece.scanned
        self._bytes += piece.size
        self.next[number] = max(offset + 1, piece.next_offset)
        return piece.letters


@dataclass(slots=True)
class _MatchedPiece:
    letters: list[DeadLetter]
    next_offset: int
    scanned: int = 0
    size: int = 0


def _match(
    number: int, read: ReadResult, end: int, done: RangeMap[bool], criteria: DeadLetterCriteria, most: int
) -> _MatchedPiece:
    """Return the first matching messages before an offset. Runs in any thread: it uses nothing shared."""
    batch = FilterBatch(read.buffers)
    passed = set(criteria.filters.sift(batch))
    next_offset = end if batch.end == len(batch) else min(end, batch.offset_at(batch.end))
    piece = _MatchedPiece([], next_offset, size=batch.unpacked_bytes)
    for index in batch.messages:
        offset = batch.offset_at(index)
        if offset >= next_offset:
            break
        piece.size += batch.edges[index + 1] - batch.edges[index]
        if done.get(offset) is not None:
            continue
        piece.scanned += 1
        if index not in passed:
            continue
        letter = DeadLetter(number, frame.decode(batch.content, batch.edges[index]))
        if criteria.match(letter):
            piece.letters.append(letter)
            if len(piece.letters) == most:
                piece.next_offset = offset + 1
                break
    return piece
