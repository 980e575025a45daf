"""Sampling: which messages are traced.

Decided by position, so that all records of a message are kept or none: a block of offsets is sampled or not. What
fails or is slow is kept all the same, with what was recorded of it before.
"""

from collections import deque
from collections.abc import Callable, Iterator

import mmh3

from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.tracing.records import TraceRecord
from goqueue.limits import TRACE_BLOCK_OFFSETS, TRACE_KEPT_BLOCKS, TRACE_SLOW_SAMPLES

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
        self._kept: dict[Block, None] = {}

    def is_full(self, topic: str) -> bool:
        return self._rate_of(topic) >= 1.0

    def keeps(self, record: TraceRecord) -> bool:
        rate = self._rate_of(record.topic)
        if rate >= 1.0:
            return True
        return any(one in self._kept or is_block_sampled(*one, rate) for one in blocks_of(record))

    def keeps_message(self, ref: LogRef, offset: int) -> bool:
        block = ref, offset // TRACE_BLOCK_OFFSETS
        return block in self._kept or is_block_sampled(*block, self._rate_of(ref.topic))

    def keep(self, record: TraceRecord) -> bool:
        """Keep what is recorded of these messages from now on. Return False if that was so already."""
        added = False
        for block in blocks_of(record):
            if block not in self._kept:
                added = True
                self._kept[block] = None
                if len(self._kept) > TRACE_KEPT_BLOCKS:
                    del self._kept[next(iter(self._kept))]
        return added


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
