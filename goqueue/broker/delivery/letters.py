"""Dead letters: what is known of each, and those of a topic that were not sent back yet, a piece at a time.

Which ones were sent back is what a group of the broker's own has settled in the topic. Unlike other groups it takes
them in any order: what it has not settled, and does not move, lies there still, before its position as behind it.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from goqueue.broker.backlog import backlog
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.deadletter import REDRIVE_GROUP
from goqueue.broker.delivery.transfer import told_by
from goqueue.broker.filters.batch import Batch
from goqueue.broker.filters.sieve import NO_FILTERS, Sieve
from goqueue.broker.groups.ledger import Ledger
from goqueue.broker.partition import Partition
from goqueue.broker.ranges import RangeMap
from goqueue.broker.topic import Topic
from goqueue.broker.view import View
from goqueue.broker.work import Work
from goqueue.errors import OffsetOutOfRange
from goqueue.limits import OFFSET_MAX, READ_BYTES, REDRIVE_SCAN_BYTES, REDRIVE_SCAN_MESSAGES
from goqueue.quantities import parse_time
from goqueue.storage import frame
from goqueue.storage.extent import Read

_DIGITS_MAX = 19  # of OFFSET_MAX


@dataclass(frozen=True)
class DeadLetter:
    """A message among the dead letters. Its headers tell where it failed; None where they do not say so."""

    partition: int
    message: frame.Message

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
    def told(self) -> dict[str, str]:
        return told_by(self.message.headers)

    @property
    def origin_topic(self) -> str | None:
        return self.told.get("topic")

    @property
    def origin_partition(self) -> int | None:
        return self._number("partition")

    @property
    def origin_offset(self) -> int | None:
        return self._number("offset")

    @property
    def group(self) -> str | None:
        return self.told.get("group")

    @property
    def error(self) -> str:
        """Why it failed; without a character where nobody has said."""
        return self.told.get("error", "")

    @property
    def attempts(self) -> int | None:
        return self._number("attempts")

    @property
    def first_ns(self) -> int | None:
        """When it was delivered for the first time."""
        return self._time("first-time")

    @property
    def last_ns(self) -> int | None:
        """When it was given up."""
        return self._time("last-time")

    def _number(self, name: str) -> int | None:
        text = self.told.get(name, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX else None

    def _time(self, name: str) -> int | None:
        try:
            return parse_time(self.told.get(name, ""))
        except ValueError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """Which dead letters are meant: those that all of this is true of."""

    error: str | None = None
    """A part of why it failed."""
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    """Each is there with this value; those that tell of the failure count too."""
    from_ns: int | None = None
    """It became a dead letter then or later."""
    to_ns: int | None = None
    """It became one before."""
    group: str | None = None
    """In which it failed."""
    sieve: Sieve = NO_FILTERS
    """Filters that let it through."""

    def fit(self, letter: DeadLetter) -> bool:
        """All but the times, which are offsets to whoever reads, and the filters, which look at many at once."""
        return (
            (self.key is None or letter.key == (self.key or None))
            and (self.group is None or letter.group == self.group)
            and (self.error is None or self.error in letter.error)
            and all(pair in letter.message.headers for pair in self.headers)
        )


def redrive_cursor(ledger: Ledger, topic: Topic, number: int) -> Cursor | None:
    """What was sent back from there; None where nothing was, or from an earlier topic of the name."""
    cursor = ledger.cursor(REDRIVE_GROUP, (topic.name, number))
    return cursor if cursor is not None and cursor.topic_ns == topic.created_ns else None


def lies(cursor: Cursor | None, offset: int) -> bool:
    """Whether what is there was not sent back, and is not on its way."""
    return cursor is None or not (cursor.is_settled(offset, offset + 1) or offset in cursor.moving)


class Scan:
    """Goes through the dead letters of a topic, one partition after the other.

    It ends where each partition ended when it began, so that what comes back meanwhile is not taken again; and
    before that once it has looked at as much as one request may.
    """

    def __init__(self, ledger: Ledger, topic: Topic, criteria: Criteria, start: Mapping[int, int]) -> None:
        self.topic = topic
        self.scanned = 0
        self.next = {partition.number: start.get(partition.number, 0) for partition in topic.partitions}
        """Where to go on in each partition."""
        self._ledger = ledger
        self._criteria = criteria
        self._ends = {partition.number: partition.last_stable for partition in topic.partitions}
        self._left = deque(topic.partitions)
        """Those that are not done; the first may turn out to be."""
        self._bytes = 0
        self._is_placed = False

    @property
    def is_over(self) -> bool:
        is_much = self.scanned >= REDRIVE_SCAN_MESSAGES or self._bytes >= REDRIVE_SCAN_BYTES
        return is_much or self.is_complete

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to be looked at."""
        return self._current() is None

    def piece(self, most: int) -> Work[list[DeadLetter]]:
        """The next that fit, at most so many and all of one partition. None: the scan is over."""
        yield from self._place()
        while not self.is_over and (partition := self._current()) is not None:
            found = yield from self._look(partition, most)
            if found:
                return found
        return []

    def remaining(self) -> Work[int]:
        """How many lie there that were not looked at, whether they fit or not."""
        yield from self._place()
        count = 0
        for partition in self.topic.partitions:
            done = self._done(partition.number, self.next[partition.number], self._ends[partition.number])
            done.set(self._ends[partition.number], OFFSET_MAX, True)
            spans = [(first, end) for first, end, _ in done.runs()]
            left = yield from backlog(View(partition), self.next[partition.number], spans)
            count += left.messages
        return count

    def _place(self) -> Work[None]:
        """Times are looked up once: they do not fall within a partition."""
        if self._is_placed:
            return
        self._is_placed = True
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

    def _current(self) -> "Partition | None":
        """The first partition that is not done, and from where on there may be something."""
        while self._left:
            partition = self._left[0]
            number = partition.number
            first = max(self.next[number], partition.earliest)
            if (cursor := redrive_cursor(self._ledger, self.topic, number)) is not None:
                first = max(first, cursor.floor)
                run = cursor.acked.run_at(first)
                first = run[1] if run is not None else first
            if first < self._ends[number]:
                self.next[number] = first
                return partition
            self.next[number] = max(self.next[number], self._ends[number])
            self._left.popleft()
        return None

    def _done(self, number: int, first: int, end: int) -> RangeMap[bool]:
        """What does not lie there any more, of these offsets."""
        done: RangeMap[bool] = RangeMap()
        if (cursor := redrive_cursor(self._ledger, self.topic, number)) is not None and first < end:
            if first < cursor.floor:
                done.set(first, min(cursor.floor, end), True)
            for start, stop, _ in cursor.acked.within(first, end):
                done.set(start, stop, True)
            for start, stop, _ in cursor.moving.within(first, end):
                done.set(start, stop, True)
        return done

    def _look(self, partition: Partition, most: int) -> Work[list[DeadLetter]]:
        number = partition.number
        offset = self.next[number]
        try:
            read = yield from partition.read(offset, READ_BYTES, skip_damage=True)
        except OffsetOutOfRange:  # retention was quicker
            self.next[number] = max(offset + 1, partition.earliest)
            return []
        end = min(read.next_offset, self._ends[number])
        done = self._done(number, offset, end)
        sifted: _Sifted = yield partial(_sift, number, read, end, done, self._criteria, most)
        self.scanned += sifted.scanned
        self._bytes += sifted.size
        self.next[number] = max(offset + 1, sifted.next_offset)
        return sifted.letters

    def __repr__(self) -> str:
        return f"<Scan {self.topic.name} {self.next} of {self._ends}>"


@dataclass(slots=True)
class _Sifted:
    """What a look at some messages has found."""

    letters: list[DeadLetter]
    next_offset: int
    scanned: int = 0
    size: int = 0


def _sift(number: int, read: Read, end: int, done: RangeMap[bool], criteria: Criteria, most: int) -> _Sifted:
    """The first ones that fit, before an offset. Touches nothing else, so any thread may do it."""
    batch = Batch(read.buffers)
    let_through = set(criteria.sieve.sift(batch))
    next_offset = end if batch.end == len(batch) else min(end, batch.offset_at(batch.end))
    sifted = _Sifted([], next_offset, size=batch.unpacked_bytes)
    for place in batch.messages:
        offset = batch.offset_at(place)
        if offset >= next_offset:
            break
        sifted.size += batch.edges[place + 1] - batch.edges[place]
        if done.get(offset) is not None:
            continue
        sifted.scanned += 1
        if place not in let_through:
            continue
        letter = DeadLetter(number, frame.decode(batch.content, batch.edges[place]))
        if criteria.fit(letter):
            sifted.letters.append(letter)
            if len(sifted.letters) == most:
                sifted.next_offset = offset + 1
                break
    return sifted
