"""Idempotent producers: the latest batches of each producer in a partition, so that a retry is answered and not stored
again.

The first frame of a batch has a mark as its first header, so this table can be read again from the log. A crash may
have kept only the beginning of a batch; then the retry brings the rest.

Invariant: sequences follow each other without a gap; a repeated batch is answered with its first offsets, and
nothing is stored twice.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from goqueue.errors import CallerError, FrameInvalid, GoQueueError, ProducerFenced, SequenceOutOfOrder, UnknownProducer
from goqueue.limits import FRAME_HEADER_BYTES, PRODUCER_WINDOW, PRODUCERS_MAX, SEQUENCE_COUNT
from goqueue.storage import frame, scan
from goqueue.wire.sections import PRODUCER, PRODUCER_HEADER, PRODUCER_PREFIX

Piece = tuple[int, int]
"""A range of offsets: the first, and the one after the last."""


@dataclass(frozen=True, slots=True)
class ProducerMark:
    """The producer of a batch and the sequence numbers of its messages."""

    producer: int
    epoch: int
    sequence: int
    count: int

    def encode(self) -> bytes:
        return PRODUCER.pack(self.producer, self.epoch, self.sequence, self.count)

    @classmethod
    def decode(cls, content: bytes) -> "ProducerMark":
        if len(content) != PRODUCER.size:
            raise FrameInvalid(f"the header {PRODUCER_HEADER} has {len(content)} bytes, {PRODUCER.size} belong there")
        mark = cls(*PRODUCER.unpack(content))
        if mark.producer < 0 or mark.epoch < 0 or mark.sequence >= SEQUENCE_COUNT or not mark.count:
            raise FrameInvalid(f"the header {PRODUCER_HEADER} is impossible: {mark}")
        return mark


@dataclass(slots=True, eq=False)
class ProducerBatch:
    """One appended batch of a producer."""

    sequence: int
    count: int
    first_offset: int = -1
    time_ns: int = 0
    epoch: int = 0
    settled: bool = False
    torn: bool = False
    """A crash kept only the first messages; the rest is a batch of its own."""
    waiters: list[Callable[[GoQueueError | None], None]] | None = None
    """Callbacks of retries that arrived while it was being written."""

    @property
    def piece(self) -> Piece:
        return self.first_offset, self.first_offset + self.count

    @property
    def next_sequence(self) -> int:
        return (self.sequence + self.count) % SEQUENCE_COUNT


@dataclass(slots=True)
class ProducerState:
    """The remembered batches of one producer: durable ones, then those being written."""

    batches: list[ProducerBatch] = field(default_factory=list)  # a handful: a deque would take ten times as much memory

    @property
    def epoch(self) -> int:
        return self.batches[-1].epoch

    def known(self, mark: ProducerMark) -> list[ProducerBatch]:
        """Return the stored parts of this batch: beginnings that crashes kept, and what followed. Empty if it was
        divided differently before.
        """
        found: list[ProducerBatch] = []
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
        """Keep the latest durable batches. One that is being written may still be refused and counts for nothing."""
        settled = [batch for batch in self.batches if batch.settled]
        del self.batches[: len(settled) - len(_remembered(settled))]

    def facts(self, end: int) -> list[list[Any]]:
        """Return the batches below this offset, as the checkpoint holds them."""
        return [
            [batch.epoch, batch.sequence, batch.count, batch.first_offset, batch.time_ns, batch.torn]
            for batch in _remembered([batch for batch in self.batches if batch.piece[1] <= end])
        ]


def _remembered(batches: list[ProducerBatch]) -> list[ProducerBatch]:
    """Return the latest batches of the latest epoch; a torn batch and its rest count as one."""
    left = PRODUCER_WINDOW
    found: list[ProducerBatch] = []
    for batch in reversed(batches):
        left -= not batch.torn
        if left < 0 or batch.epoch != batches[-1].epoch:
            break
        found.append(batch)
    return found[::-1]


@dataclass(frozen=True, slots=True)
class KnownBatches:
    """The part of a batch that is stored already."""

    batches: tuple[ProducerBatch, ...]
    missing: int
    """Number of its last messages that are not stored."""


class ProducerTable:
    def __init__(self, *, is_complete: bool = True) -> None:
        self.is_complete = is_complete
        """Whether all producers of this partition are known. If not, an unknown producer may only start with sequence
        0: another batch may be stored already.
        """
        self._table: OrderedDict[int, ProducerState] = OrderedDict()

    def __len__(self) -> int:
        return len(self._table)

    def look_up(self, mark: ProducerMark) -> KnownBatches:
        """Return what is stored of this batch; raise if it may not be stored."""
        producer = self._table.get(mark.producer)
        if producer is None and mark.sequence and not self.is_complete:
            raise SequenceOutOfOrder(
                f"producer {mark.producer} is not known here, and its batch begins with sequence"
                f" {mark.sequence}: it may be stored already",
                hint="it was removed for newer producers or lost in a crash; get a new id",
                forgotten=True,
            )
        if producer is None or mark.epoch > producer.epoch:
            return KnownBatches((), mark.count)
        if mark.epoch < producer.epoch:
            raise ProducerFenced(
                f"producer {mark.producer} has epoch {producer.epoch}, this batch has the older epoch {mark.epoch}",
                hint="another producer has taken over; get a new id",
                epoch=producer.epoch,
            )
        expected = producer.batches[-1].next_sequence
        if mark.sequence == expected:
            return KnownBatches((), mark.count)
        batches = producer.known(mark)
        missing = mark.count - sum(batch.count for batch in batches)
        if not batches:
            raise SequenceOutOfOrder(
                f"the batch of producer {mark.producer} begins with sequence {mark.sequence}, expected {expected}",
                hint="an earlier batch is missing, or this one is older than the batches that are kept",
                expected=expected,
            )
        return KnownBatches(tuple(batches), missing)

    def has_stored(self, mark: ProducerMark) -> bool:
        with suppress(CallerError):  # it would be refused
            return not self.look_up(mark).missing
        return False

    def next_sequence(self, number: int, epoch: int) -> int:
        producer = self._table.get(number)
        return producer.batches[-1].next_sequence if producer is not None and producer.epoch == epoch else 0

    def add(self, mark: ProducerMark, batch: ProducerBatch) -> None:
        batch.epoch = mark.epoch
        producer = self._table.get(mark.producer)
        if producer is None:
            self._table[mark.producer] = ProducerState([batch])
        else:
            producer.batches.append(batch)
            self._table.move_to_end(mark.producer)
        if len(self._table) > PRODUCERS_MAX:
            self._table.popitem(last=False)
            self.is_complete = False

    def settle(self, mark: ProducerMark, batch: ProducerBatch) -> None:
        batch.settled = True
        producer = self._table.get(mark.producer)
        if producer is not None:
            producer.forget_oldest()

    def take_back(self, mark: ProducerMark, batch: ProducerBatch) -> None:
        """Remove a refused batch and all behind it."""
        producer = self._table.get(mark.producer)
        if producer is not None and batch in producer.batches:
            while producer.batches.pop() is not batch:
                pass
            if not producer.batches:
                del self._table[mark.producer]

    def replay(self, mark: ProducerMark, first_offset: int, time_ns: int, next_offset: int) -> None:
        """Add a batch found in the log, which ends before `next_offset`."""
        count = min(mark.count, next_offset - first_offset)
        producer = self._table.get(mark.producer)
        if producer is None or mark.epoch >= producer.epoch:
            batch = ProducerBatch(mark.sequence, count, first_offset, time_ns, torn=count < mark.count)
            self.add(mark, batch)
            self.settle(mark, batch)

    # --- the note beside the log ---

    def facts(self, end: int) -> list[Any]:
        """Return what is stored below this offset, as the checkpoint holds it."""
        found = ([number, producer.facts(end)] for number, producer in self._table.items())
        return [[number, batches] for number, batches in found if batches]

    @classmethod
    def from_facts(cls, facts: list[Any], *, is_complete: bool) -> "ProducerTable":
        producers = cls(is_complete=is_complete)
        for number, batches in facts:
            producers._table[number] = ProducerState(
                [
                    ProducerBatch(sequence, count, offset, time_ns, epoch, settled=True, torn=torn)
                    for epoch, sequence, count, offset, time_ns, torn in batches
                ]
            )
        return producers


def unknown_producer_id(producer: int) -> UnknownProducer:
    return UnknownProducer(
        f"producer id {producer} was never given out from this data directory",
        hint="the directory is new or was restored: get a new id with POST /producers/init, and send unanswered"
        " messages again; nothing of this id is stored here",
        producer_id=producer,
    )


def mark_of(headers: list[tuple[str, bytes]]) -> ProducerMark | None:
    return ProducerMark.decode(headers[0][1]) if headers and headers[0][0] == PRODUCER_HEADER else None


def marks_in(buffer: memoryview) -> Iterator[tuple[ProducerMark, int, int]]:
    """Yield each mark with the offset and time of its frame."""
    frames = scan.walk(buffer)
    marked = frames.positions[(frames.flags & frame.HAS_HEADERS) != 0]
    if not len(marked):
        return
    keys = scan.column(frames.buffer, ">u2", frame.AT_KEY_LENGTH)[marked].astype("i8")
    values = scan.column(frames.buffer, ">u4", frame.AT_VALUE_LENGTH)[marked].astype("i8")
    starts = marked + FRAME_HEADER_BYTES + keys + values + 2  # skip the header count
    for position, start in zip(marked.tolist(), starts.tolist(), strict=True):
        if bytes(buffer[start : start + len(PRODUCER_PREFIX)]) == PRODUCER_PREFIX:
            content = bytes(buffer[start + len(PRODUCER_PREFIX) : start + len(PRODUCER_PREFIX) + PRODUCER.size])
            yield ProducerMark.decode(content), frame.offset_at(buffer, position), frame.timestamp_at(buffer, position)


def pieces_of(batches: tuple[ProducerBatch, ...]) -> tuple[Piece, ...]:
    """Return the batches' offset ranges, adjacent ones joined."""
    pieces: list[Piece] = []
    for first, end in (batch.piece for batch in batches):
        joins = pieces and pieces[-1][1] == first
        pieces.append((pieces.pop()[0] if joins else first, end))
    return tuple(pieces)
