"""Trace records: one for each range of offsets to which the same happened at the same time.

A record is one JSON object in the trace files. Fields are only ever added, with a default; `docs/tracing.md` lists
them.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Literal

import msgspec

from goqueue.broker.core.partition_ref import LogRef, PartitionRef
from goqueue.limits import TRACE_RANGES_MAX

TraceEventType = Literal[
    "publish.received",
    "publish.partitioned",
    "publish.persisted",
    "publish.replicated",
    "consume.fetched",
    "consume.acked",
    "consume.nacked",
    "consume.rejected",
    "consume.released",
    "consume.dropped",
    "visibility.timeout",
    "visibility.extended",
    "dlq.routed",
    "dlq.redriven",
    "delay.scheduled",
    "delay.rescheduled",
    "delay.ready",
    "delay.cancelled",
    "delay.expired",
    "transaction.committed",
    "transaction.aborted",
]

PUBLISH_EVENTS: tuple[TraceEventType, ...] = ("publish.received", "publish.partitioned", "publish.persisted")
"""A record of `publish.persisted` stands for all three: they happen to a batch together."""

ERROR_EVENTS: frozenset[TraceEventType] = frozenset(
    {
        "consume.nacked",
        "consume.rejected",
        "consume.dropped",
        "visibility.timeout",
        "dlq.routed",
        "dlq.redriven",
        "delay.expired",
        "transaction.aborted",
    }
)
"""Messages to which these happen are always kept."""


class TraceRecord(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Something that happened to a range of messages of one log."""

    event: TraceEventType
    topic: str
    partition: int
    first: int
    end: int
    """The offset after the last one."""
    time_ns: int
    delayed: bool = False
    """The offsets are those of the delayed log."""
    since_ns: int = 0
    """When it began: the append of what is persisted, the delivery of what is settled."""
    group: str = ""
    member: str = ""
    attempt: int = 0
    """The number of the delivery, from 1."""
    reason: str = ""
    until_ns: int = 0
    """The end of a lease, the time of a retry, or the due time."""
    to_topic: str = ""
    to_partition: int = 0
    to_offset: int = 0
    """Where the copies are searched from; for `delay.ready`, the first offset in the delayed log."""
    to_end: int = 0
    """For `delay.ready`: the end of the offsets in the delayed log."""
    transaction: str = ""
    headers: bool = False
    """Some of the messages have headers of their own, possibly a `traceparent`."""
    runs: tuple[int, ...] = ()
    """Alternating lengths of what is in the range and what is not; empty if all of it is."""

    @property
    def ref(self) -> LogRef:
        return LogRef(self.topic, self.partition, self.delayed)

    @property
    def messages(self) -> int:
        return sum(self.runs[::2]) if self.runs else self.end - self.first

    @property
    def duration_ns(self) -> int:
        return max(0, self.time_ns - self.since_ns) if self.since_ns else 0

    @property
    def ranges(self) -> list[tuple[int, int]]:
        edges = list(accumulate(self.runs or (self.end - self.first,), initial=self.first))
        return list(zip(edges[::2], edges[1::2], strict=True))

    def covers(self, offset: int) -> bool:
        if not self.first <= offset < self.end:
            return False
        if not self.runs:
            return True
        edges = list(accumulate(self.runs, initial=self.first))
        return bisect_right(edges, offset) % 2 == 1

    def overlaps(self, other: "TraceRecord") -> bool:
        """Return whether both are about some of the same messages of a log."""
        if self.first >= other.end or other.first >= self.end:
            return False
        if not self.runs and not other.runs:
            return True
        ours, theirs = self.ranges, other.ranges
        return any(first < stop and start < end for first, end in ours for start, stop in theirs)


def delayed_part(ready: TraceRecord) -> TraceRecord:
    """Return a record about the same messages in the delayed log."""
    return TraceRecord(ready.event, ready.topic, ready.partition, ready.to_offset, ready.to_end, 0, delayed=True)


Ranges = Sequence[tuple[int, int]]


def as_runs(ranges: Ranges) -> tuple[int, int, tuple[int, ...]]:
    """Return first offset, end and runs of sorted ranges."""
    first, end = ranges[0][0], ranges[-1][1]
    if len(ranges) == 1:
        return first, end, ()
    edges = [edge for one in ranges for edge in one]
    return first, end, tuple(after - before for before, after in pairwise(edges))


def in_parts(ranges: Ranges) -> Iterable[Ranges]:
    """Split ranges so that no record has too many."""
    return [ranges] if len(ranges) <= TRACE_RANGES_MAX else _split(sorted(ranges))


def _split(ranges: Ranges) -> Iterable[Ranges]:
    return (ranges[at : at + TRACE_RANGES_MAX] for at in range(0, len(ranges), TRACE_RANGES_MAX))


def of_ref(ref: PartitionRef) -> LogRef:
    return LogRef(ref.topic, ref.partition)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(TraceRecord)


def encode_lines(records: Iterable[TraceRecord]) -> bytes:
    return _encoder.encode_lines(records)


def decode_line(line: bytes | memoryview) -> TraceRecord | None:
    """Return None for a line that is torn, damaged or of a later version."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
