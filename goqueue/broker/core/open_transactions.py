"""The open transactions of one partition: from the first message of each to its control record.

Invariant: they are sorted by first offset, so the oldest is found at once; the ranges contain every message appended
for them.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from goqueue.broker.core.producers import ProducerMark, marks_in
from goqueue.broker.core.work import Promise
from goqueue.errors import TransactionNotOpen, TransactionPending
from goqueue.limits import OFFSET_MAX, PRODUCERS_MAX
from goqueue.storage import scan
from goqueue.storage.reads import ReadResult
from goqueue.storage.transaction_marker import OffsetRange, TransactionMarker, classify_transactional, markers_in


class TransactionId(NamedTuple):
    """A producer and its epoch, which changes after each transaction."""

    producer: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.producer}-{self.epoch}"


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """The end of a transaction, or of the part that one producer wrote."""

    producer: int
    epoch: int
    is_commit: bool


ProducerEpochs = dict[int, int]
"""Epochs of the producers whose transactions may be open."""


@dataclass(slots=True)
class OpenTransaction:
    """The offset ranges that one producer has written in its open transaction."""

    epoch: int
    ranges: list[OffsetRange] = field(default_factory=list)

    @property
    def first_offset(self) -> int:
        return self.ranges[0][0]

    def add(self, first: int, end: int) -> None:
        if self.ranges and self.ranges[-1][1] == first:
            first = self.ranges.pop()[0]
        self.ranges.append((first, end))

    def cut(self, offset: int) -> None:
        """Drop everything from this offset on: it was not stored."""
        while self.ranges and self.ranges[-1][1] > offset:
            first, _ = self.ranges.pop()
            if first < offset:
                self.ranges.append((first, offset))

    def pass_over(self, offset: int) -> None:
        """Drop everything below this offset: it is decided."""
        self.ranges = [(first, end) for first, end in self.ranges if first >= offset]


class OpenTransactions:
    """The open transactions of one partition, by producer."""

    def __init__(self) -> None:
        self._by_producer: OrderedDict[int, OpenTransaction] = OrderedDict()  # keeps the oldest first after removals
        self._ending: dict[tuple[int, int], OpenTransaction] = {}
        """On replicas, by producer and epoch: those whose markers are not committed, while their producers go on."""
        self.held: OffsetRange | None = None
        """After a start: a range that may hold open transactions not yet found."""
        self.sought: ProducerEpochs = {}
        """The producers whose transactions may be open there."""
        self.waiting: list[Promise[None]] | None = None
        """While they are searched for: those who wait for the result of another."""
        self._ended: OrderedDict[int, int] = OrderedDict()
        """The last epoch of each producer whose end was asked for."""

    def __len__(self) -> int:
        return len(self._by_producer) + len(self._ending)

    def __iter__(self) -> Iterator[tuple[int, OpenTransaction]]:
        yield from self._by_producer.items()
        for (producer, _), opened in self._ending.items():
            yield producer, opened

    @property
    def first_offset(self) -> int | None:
        if self.held is not None:
            return self.held[0]
        first = next((opened.first_offset for opened in self._by_producer.values()), None)
        if self._ending:
            ending = min(opened.first_offset for opened in self._ending.values())
            return ending if first is None else min(first, ending)
        return first

    def of(self, producer: int, epoch: int) -> OpenTransaction | None:
        opened = self._by_producer.get(producer)
        return opened if opened is not None and opened.epoch == epoch else self._ending.get((producer, epoch))

    def among(self, epochs: Mapping[int, int]) -> list[tuple[int, OpenTransaction]]:
        """Return the open transactions of these producers with these epochs. Iterates over the smaller set."""
        both = (self._by_producer.keys() | {producer for producer, _ in self._ending}) & epochs.keys()
        found = ((producer, self.of(producer, epochs[producer])) for producer in sorted(both))
        return [(producer, opened) for producer, opened in found if opened is not None]

    def add(self, producer: int, epoch: int, first: int, end: int) -> None:
        opened = self._by_producer.get(producer)
        if opened is None:
            self._by_producer[producer] = OpenTransaction(epoch, [(first, end)])
            return
        assert opened.epoch == epoch, "a transaction ends everywhere before the next one of its producer begins"
        opened.add(first, end)

    def take_back(self, producer: int, first: int) -> None:
        """Remove what was appended from this offset on: the disk refused it."""
        opened = self._by_producer.get(producer)
        if opened is not None:
            opened.cut(first)
            if not opened.ranges:
                del self._by_producer[producer]

    def following(self, producer: int, epoch: int) -> OpenTransaction:
        """Return the open transaction, which begins if it is not there. An earlier one of the producer is ending."""
        if (opened := self.of(producer, epoch)) is None:
            if (former := self._by_producer.pop(producer, None)) is not None:
                self._ending[producer, former.epoch] = former
            opened = self._by_producer[producer] = OpenTransaction(epoch)
        return opened

    def pass_over(self, producer: int, epoch: int, end: int) -> None:
        """Drop what a transaction has below this offset: a marker has decided it."""
        if (opened := self.of(producer, epoch)) is not None:
            opened.pass_over(end)
            if not opened.ranges and self._ending.pop((producer, epoch), None) is None:
                del self._by_producer[producer]

    def refuse_over(self, mark: ProducerMark | None) -> None:
        """Refuse a batch of a transaction that has ended here, or whose producer has another one open."""
        assert mark is not None, "a transactional batch has a mark"
        producer, epoch = mark.producer, mark.epoch
        if self._ended.get(producer, -1) >= epoch:
            raise TransactionNotOpen(
                f"transaction {TransactionId(producer, epoch)} is over",
                hint="ask how it ended; this batch came too late and was not stored",
            )
        opened = self._by_producer.get(producer)
        if opened is not None and opened.epoch != epoch:
            raise TransactionPending(
                f"transaction {TransactionId(producer, opened.epoch)} has not ended here yet",
                hint="retry in a moment",
                retry_after=1,
            )

    def end(self, ends: Sequence[TransactionEnd]) -> list[TransactionMarker]:
        """Take nothing of these transactions any more, and return the markers of those that are open."""
        for end in ends:
            self._ended[end.producer] = max(end.epoch, self._ended.get(end.producer, -1))
            self._ended.move_to_end(end.producer)
        while len(self._ended) > PRODUCERS_MAX:
            self._ended.popitem(last=False)
        is_commit = {end.producer: end.is_commit for end in ends}
        found = self.among({end.producer: end.epoch for end in ends})
        return [TransactionMarker(one, opened.epoch, is_commit[one], tuple(opened.ranges)) for one, opened in found]

    def close(self, producer: int, epoch: int) -> None:
        """Remove a transaction whose control record is durable."""
        if self._ending.pop((producer, epoch), None) is None and self.of(producer, epoch) is not None:
            del self._by_producer[producer]

    # --- after a start ---

    def hold(self, since: int, end: int, epochs: ProducerEpochs) -> None:
        """Stop committed reads at `since` until it is known what these producers have open below `end`."""
        self.sought |= epochs
        first, behind = self.held or (since, end)
        self.held = (min(first, since), max(behind, end))

    def restore(self, found: dict[int, OpenTransaction]) -> None:
        """Add the open transactions found in the held range, and release it."""
        older = dict(sorted(found.items(), key=lambda item: item[1].first_offset))
        self._by_producer = OrderedDict(older | self._by_producer)
        self.held, self.sought = None, {}


def epochs_in(read: ReadResult) -> ProducerEpochs:
    """Return the producers of transactional batches with their last epochs."""
    epochs: ProducerEpochs = {}
    for buffer in read.buffers:
        frames = scan.walk(buffer)
        transactional = set(frames.offsets[classify_transactional(frames)[0]].tolist())
        epochs |= {mark.producer: mark.epoch for mark, offset, _ in marks_in(buffer) if offset in transactional}
    return epochs


_NONE = OpenTransaction(-1)


class OpenTransactionScan:
    def __init__(self, epochs: ProducerEpochs, end: int) -> None:
        """Scan what was appended before `end`."""
        self._epochs = epochs
        self._end = end
        self.opened: dict[int, OpenTransaction] = {}
        self._last = _NONE
        """The transaction whose batch may continue in the next frames."""

    def look(self, read: ReadResult) -> None:
        """Scan the next frames. May run on any thread."""
        for buffer in read.buffers:
            self._look(buffer)

    def _look(self, buffer: memoryview) -> None:
        """Scan one buffer. A control record covers earlier offsets; if a crash kept only some of several records, the
        rest is open.
        """
        frames, marks = scan.walk(buffer), {offset: mark for mark, offset, _ in marks_in(buffer)}
        foreign = ~classify_transactional(frames)[0]  # what does not go on with the batch before it
        foreign |= np.isin(frames.offsets, np.fromiter(marks, np.int64, len(marks)))
        edges = [*frames.offsets[foreign].tolist(), OFFSET_MAX]
        if len(edges) > 1:
            self._last.cut(edges[0])
            self._last = _NONE
        for offset, mark in marks.items():
            if self._epochs.get(mark.producer) == mark.epoch and offset < self._end:
                opened = self.opened.setdefault(mark.producer, OpenTransaction(mark.epoch))
                behind = bisect_right(edges, offset)
                opened.add(offset, min(offset + mark.count, edges[behind], self._end))
                self._last = opened if behind == len(edges) - 1 else _NONE
        for _, marker in markers_in(frames):
            opened = self.opened.get(marker.producer, _NONE)
            if opened.epoch == marker.epoch:
                opened.pass_over(marker.ranges[-1][1])
                if not opened.ranges:
                    del self.opened[marker.producer]
