"""Producers whose retries are known again: for each one the batches that a partition took last.

The first frame of such a batch carries a mark as its first header, so what this table holds can be
read again from the log after a restart. A crash may have kept the beginning of a batch only; then the retry
brings the rest.

What must stay true: a sequence follows the one before without a gap; what is asked again is answered with
where it was stored the first time, and nothing is stored twice.
"""

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from goqueue.errors import FrameInvalid, GoQueueError, ProducerFenced, SequenceOutOfOrder, UnknownProducer
from goqueue.limits import FRAME_HEADER_BYTES, PRODUCER_WINDOW, PRODUCERS_MAX, SEQUENCE_COUNT
from goqueue.storage import frame, scan

MARK_NAME = "__producer"
_MARK = struct.Struct(">qhII")
_ENCODED_NAME = struct.pack(">H", len(MARK_NAME)) + MARK_NAME.encode() + struct.pack(">H", _MARK.size)

MARK_BYTES = len(_ENCODED_NAME) + _MARK.size
"""What it adds to the headers of a frame."""

Piece = tuple[int, int]
"""A range of offsets: the first, and the one behind the last."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Who sent a batch, and which of its messages these are."""

    producer: int
    epoch: int
    sequence: int
    count: int

    def encode(self) -> bytes:
        return _MARK.pack(self.producer, self.epoch, self.sequence, self.count)

    @classmethod
    def decode(cls, content: bytes) -> "Mark":
        if len(content) != _MARK.size:
            raise FrameInvalid(f"the header {MARK_NAME} has {len(content)} bytes, {_MARK.size} belong there")
        mark = cls(*_MARK.unpack(content))
        if mark.producer < 0 or mark.epoch < 0 or mark.sequence >= SEQUENCE_COUNT or not mark.count:
            raise FrameInvalid(f"the header {MARK_NAME} is impossible: {mark}")
        return mark


@dataclass(slots=True, eq=False)
class Batch:
    """What one append took from a producer."""

    sequence: int
    count: int
    first_offset: int = -1
    """Known once it has been appended."""
    time_ns: int = 0
    epoch: int = 0
    settled: bool = False
    torn: bool = False
    """A crash has kept these first messages of it; the rest comes as a batch of its own."""
    waiters: list[Callable[[GoQueueError | None], None]] | None = None
    """Those who sent it again while it was on its way."""

    @property
    def piece(self) -> Piece:
        return self.first_offset, self.first_offset + self.count

    @property
    def next_sequence(self) -> int:
        return (self.sequence + self.count) % SEQUENCE_COUNT


@dataclass(slots=True)
class Producer:
    """The batches of one producer that are known again: settled ones, and behind them those on their way."""

    batches: list[Batch] = field(default_factory=list)  # a handful: a deque would take ten times as much memory

    @property
    def epoch(self) -> int:
        return self.batches[-1].epoch

    def known(self, mark: Mark) -> list[Batch]:
        """What is stored of this batch: the beginnings that crashes have kept, and what followed; none if it was cut
        otherwise the first time."""
        found: list[Batch] = []
        wanted, left = mark.sequence, mark.count
        for batch in self.batches:
            if batch.epoch == mark.epoch and batch.sequence == wanted and batch.count <= left:
                found.append(batch)
                wanted, left = batch.next_sequence, left - batch.count
                if not batch.torn or not left:
                    break
            elif found:
                break
        is_torn = bool(found) and found[-1].torn and found[-1] is self.batches[-1]
        return found if not left or is_torn else []

    def forget_oldest(self) -> None:
        """Keep the latest settled ones. What is on its way may be refused yet, and takes nobody's place."""
        settled = [batch for batch in self.batches if batch.settled]
        del self.batches[: len(settled) - len(_remembered(settled))]

    def facts(self, end: int) -> list[list[Any]]:
        """Those below this offset, as a note holds them."""
        return [
            [batch.epoch, batch.sequence, batch.count, batch.first_offset, batch.time_ns, batch.torn]
            for batch in _remembered([batch for batch in self.batches if batch.piece[1] <= end])
        ]


def _remembered(batches: list[Batch]) -> list[Batch]:
    """So many of the latest epoch, where one that a crash has torn counts as one with its rest."""
    left = PRODUCER_WINDOW
    found: list[Batch] = []
    for batch in reversed(batches):
        left -= not batch.torn
        if left < 0 or batch.epoch != batches[-1].epoch:
            break
        found.append(batch)
    return found[::-1]


@dataclass(frozen=True, slots=True)
class Known:
    """How much of a batch is stored already."""

    batches: tuple[Batch, ...]
    missing: int
    """How many of its last messages are not."""


class Producers:
    """The table of one partition."""

    def __init__(self, *, is_complete: bool = True) -> None:
        self.is_complete = is_complete
        """Whether each producer is known that has stored something here. Of one that is not, only a first batch is
        taken: any other may be stored already."""
        self._table: OrderedDict[int, Producer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._table)

    def look_up(self, mark: Mark) -> Known:
        """What is stored of it, or why it may not be stored."""
        producer = self._table.get(mark.producer)
        if producer is None and mark.sequence and not self.is_complete:
            raise SequenceOutOfOrder(
                f"nothing is remembered of producer {mark.producer} here, and its batch begins with sequence"
                f" {mark.sequence}: it may be stored already",
                hint="too many other producers came in between, or a crash; begin again with a new id",
                forgotten=True,
            )
        if producer is None or mark.epoch > producer.epoch:
            return Known((), mark.count)
        if mark.epoch < producer.epoch:
            raise ProducerFenced(
                f"producer {mark.producer} has epoch {producer.epoch} by now, this batch has {mark.epoch}",
                hint="another producer has taken over; begin again with a new id",
                epoch=producer.epoch,
            )
        expected = producer.batches[-1].next_sequence
        if mark.sequence == expected:
            return Known((), mark.count)
        batches = producer.known(mark)
        missing = mark.count - sum(batch.count for batch in batches)
        if not batches:
            raise SequenceOutOfOrder(
                f"the batch of producer {mark.producer} begins with sequence {mark.sequence}, {expected} is next",
                hint="a batch before it is missing, or it is older than the batches that are remembered",
                expected=expected,
            )
        return Known(tuple(batches), missing)

    def next_sequence(self, number: int, epoch: int) -> int:
        """Of what this producer sends next in this epoch."""
        producer = self._table.get(number)
        return producer.batches[-1].next_sequence if producer is not None and producer.epoch == epoch else 0

    def add(self, mark: Mark, batch: Batch) -> None:
        """It has been appended."""
        batch.epoch = mark.epoch
        producer = self._table.get(mark.producer)
        if producer is None:
            self._table[mark.producer] = Producer([batch])
        else:
            producer.batches.append(batch)
            self._table.move_to_end(mark.producer)
        if len(self._table) > PRODUCERS_MAX:
            self._table.popitem(last=False)
            self.is_complete = False

    def settle(self, mark: Mark, batch: Batch) -> None:
        """It is stored."""
        batch.settled = True
        producer = self._table.get(mark.producer)
        if producer is not None:
            producer.forget_oldest()

    def take_back(self, mark: Mark, batch: Batch) -> None:
        """It was refused by the disk, and with it all that came behind it."""
        producer = self._table.get(mark.producer)
        if producer is not None and batch in producer.batches:
            while producer.batches.pop() is not batch:
                pass
            if not producer.batches:
                del self._table[mark.producer]

    def replay(self, mark: Mark, first_offset: int, time_ns: int, next_offset: int) -> None:
        """It was found in the log, which ends before `next_offset`."""
        count = min(mark.count, next_offset - first_offset)
        producer = self._table.get(mark.producer)
        if producer is None or mark.epoch >= producer.epoch:
            batch = Batch(mark.sequence, count, first_offset, time_ns, torn=count < mark.count)
            self.add(mark, batch)
            self.settle(mark, batch)

    # --- the note beside the log ---

    def facts(self, end: int) -> list[Any]:
        """What is stored below this offset, as a note holds it."""
        found = ([number, producer.facts(end)] for number, producer in self._table.items())
        return [[number, batches] for number, batches in found if batches]

    @classmethod
    def from_facts(cls, facts: list[Any], *, is_complete: bool) -> "Producers":
        producers = cls(is_complete=is_complete)
        for number, batches in facts:
            producers._table[number] = Producer(
                [
                    Batch(sequence, count, offset, time_ns, epoch, settled=True, torn=torn)
                    for epoch, sequence, count, offset, time_ns, torn in batches
                ]
            )
        return producers


def never_given(producer: int) -> UnknownProducer:
    return UnknownProducer(
        f"producer id {producer} was never given out from this data directory",
        hint="the directory was made anew, or restored: get a new id with POST /producers/init, and send again what"
        " was not answered; nothing of this id is stored here",
        producer_id=producer,
    )


def mark_of(headers: list[tuple[str, bytes]]) -> Mark | None:
    """The mark among a frame's headers, if it has one."""
    return Mark.decode(headers[0][1]) if headers and headers[0][0] == MARK_NAME else None


def marks_in(buffer: memoryview) -> Iterator[tuple[Mark, int, int]]:
    """Every mark in these frames, with the offset and the time of its frame."""
    frames = scan.walk(buffer)
    marked = frames.positions[(frames.flags & frame.HAS_HEADERS) != 0]
    if not len(marked):
        return
    keys = scan.column(frames.buffer, ">u2", frame.AT_KEY_LENGTH)[marked].astype("i8")
    values = scan.column(frames.buffer, ">u4", frame.AT_VALUE_LENGTH)[marked].astype("i8")
    starts = marked + FRAME_HEADER_BYTES + keys + values + 2  # behind the count of the headers
    for position, start in zip(marked.tolist(), starts.tolist(), strict=True):
        if bytes(buffer[start : start + len(_ENCODED_NAME)]) == _ENCODED_NAME:
            content = bytes(buffer[start + len(_ENCODED_NAME) : start + len(_ENCODED_NAME) + _MARK.size])
            yield Mark.decode(content), frame.offset_at(buffer, position), frame.timestamp_at(buffer, position)
