"""Sampling: which messages are traced.

Decided by position, so that all records of a message are kept or none: a block of offsets is sampled or not. What
fails or is slow is kept all the same, with what was recorded of it before, but not its neighbors in the block.
"""

from collections import deque
from collections.abc import Callable, Iterator

import mmh3

from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.ranges import RangeMap
from goqueue.broker.tracing.records import TraceRecord
from goqueue.limits import TRACE_BLOCK_OFFSETS, TRACE_KEPT_RANGES, TRACE_SLOW_SAMPLES

_WHOLE = 2**32
_BLOCKS_AT_ONCE = 64

Block = tuple[LogRef, int]


def is_block_sampled(ref: LogRef, block: int, rate: float) -> bool:
    name = f"{ref.topic}/{ref.partition}/{int(ref.is_delayed)}/{block}"
    return mmh3.hash(name, signed=False) < rate * _WHOLE


class Sampling:
    """Decides which records are kept."""

    def __init__(self, rate_of: Callable[[str], float]) -> None:
        self._rate_of = rate_of
        """Returns the sampling rate of a topic."""
        self._kept: dict[LogRef, RangeMap[int]] = {}
        """Offsets that are kept though their block is not sampled, with the number of the promotion."""
        self._promotions: deque[tuple[LogRef, int, int, int]] = deque()
        """The oldest first."""
        self._number = 0

    def is_full(self, topic: str) -> bool:
        return self._rate_of(topic) >= 1.0

    def keeps(self, record: TraceRecord) -> bool:
        rate = self._rate_of(record.topic)
        if rate >= 1.0:
            return True
        return self._is_promoted(record) or any(is_block_sampled(*one, rate) for one in blocks_of(record))

    def keeps_message(self, ref: LogRef, offset: int) -> bool:
        is_promoted = ref in self._kept and offset in self._kept[ref]
        return is_promoted or is_block_sampled(ref, offset // TRACE_BLOCK_OFFSETS, self._rate_of(ref.topic))

    def _is_promoted(self, record: TraceRecord) -> bool:
        kept = self._kept.get(record.ref)
        return kept is not None and any(any(kept.within(first, end)) for first, end in record.ranges)

    def keep(self, record: TraceRecord) -> bool:
        """Keep what is recorded of these messages from now on. Return False if that was so already."""
        added = False
        kept = self._kept.setdefault(record.ref, RangeMap())
        for first, end in record.ranges:
            if not kept.covers(first, end):
                added = True
                self._number += 1
                kept.set(first, end, self._number)
                self._promotions.append((record.ref, first, end, self._number))
        while len(self._promotions) > TRACE_KEPT_RANGES:
            self._forget(*self._promotions.popleft())
        return added

    def _forget(self, ref: LogRef, first: int, end: int, number: int) -> None:
        """Forget a promotion, except where a later one is about the same messages."""
        kept = self._kept[ref]
        for start, stop in [(start, stop) for start, stop, one in kept.within(first, end) if one == number]:
            kept.cut(start, stop)
        if not kept:
            del self._kept[ref]


def blocks_of(record: TraceRecord) -> Iterator[Block]:
    first, end = record.first // TRACE_BLOCK_OFFSETS, -(-record.end // TRACE_BLOCK_OFFSETS)
    for block in range(first, min(end, first + _BLOCKS_AT_ONCE)):
        yield record.ref, block


class SlowThreshold:
    """The 99th percentile of durations, from one sample of them to the next."""

    def __init__(self) -> None:
        self._sample: deque[int] = deque()
        self.threshold_ns = 0
        """Zero until the first sample is complete."""

    def is_slow(self, duration_ns: int) -> bool:
        is_slow = 0 < self.threshold_ns < duration_ns
        self._sample.append(duration_ns)
        if len(self._sample) >= TRACE_SLOW_SAMPLES:
            self.threshold_ns = sorted(self._sample)[-(TRACE_SLOW_SAMPLES // 100)]
            self._sample.clear()
        return is_slow
