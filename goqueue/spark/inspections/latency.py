"""Measure how long messages take from their producer to the log, to their acknowledgement, and in a member's hands.

The first is told by the producer's own time, in a header or in the value. The others are told by the log of the
groups: when a message was handed out, and when that it is done was recorded.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.records import GroupRecord, Range
from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_count, format_time, quoted
from goqueue.spark.inspections.catalog import LATENCY
from goqueue.spark.inspections.header import header_column, locate_header
from goqueue.spark.inspections.inspection import Chart, InspectionContext, Report, Row
from goqueue.spark.inspections.internal_logs import (
    is_move_to_other_topic,
    leased_at_ns,
    read_group_logs,
    settled_ranges,
)
from goqueue.spark.inspections.producer_times import NO_TIME, JsonTimeField, parse_times
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import FrameRun, Split
from goqueue.spark.logs.visibility import read_messages
from goqueue.spark.reading.columns import FrameBatch, values
from goqueue.spark.reading.plan import PartitionRange as PlannedRange
from goqueue.spark.reading.plan import ReadPlan
from goqueue.wire.sections import ORIGIN_HEADER

if TYPE_CHECKING:
    pass

PUBLISH, ACKNOWLEDGE, WORK = "publish", "acknowledge", "work"
"""From the producer's time to the log; from the log to the acknowledgement; from handing out to that."""

SPANS = (PUBLISH, ACKNOWLEDGE, WORK)
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
"""The percentiles that rows tell."""

TRACE = "traceparent"


_DROPPED_BITS = 42  # of the 52 of a float's mantissa: the ten that stay are the steps


@dataclass(slots=True)
class LatencyHistogram:
    """A histogram of whole numbers, including negative ones."""

    steps: Counter[int] = field(default_factory=Counter)
    count: int = 0
    sum: int = 0
    least: int = 0
    most: int = 0

    def add(self, numbers: NDArray[np.int64], times: int = 1) -> None:
        """Add each number so many times."""
        if not len(numbers) or not times:
            return
        found, counts = np.unique(_step(numbers), return_counts=True)
        self._note(int(numbers.min()), int(numbers.max()), len(numbers) * times, _sum(numbers) * times)
        for step, count in zip(found.tolist(), counts.tolist(), strict=True):
            self.steps[step] += count * times

    def join(self, other: "LatencyHistogram") -> None:
        if other.count:
            self._note(other.least, other.most, other.count, other.sum)
            self.steps.update(other.steps)

    def _note(self, least: int, most: int, count: int, total: int) -> None:
        self.least = min(self.least, least) if self.count else least
        self.most = max(self.most, most) if self.count else most
        self.count += count
        self.sum += total

    @property
    def mean(self) -> float | None:
        return self.sum / self.count if self.count else None

    def percentile(self, share: float) -> int | None:
        """Return the number that a share of all numbers does not exceed."""
        rank, seen = max(1, ceil(share * self.count)), 0
        for step in sorted(self.steps):
            seen += self.steps[step]
            if seen >= rank:
                return min(max(_middle(step), self.least), self.most)
        return None


def _step(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    steps = np.abs(numbers).astype(np.float64).view(np.int64) >> _DROPPED_BITS
    found: NDArray[Any] = np.where(numbers < 0, -steps, steps)
    return found


def _sum(numbers: NDArray[np.int64]) -> int:
    """Sum in two halves, neither of which can overflow."""
    return (int((numbers >> 32).sum()) << 32) + int((numbers & 0xFFFFFFFF).sum())


def _middle(step: int) -> int:
    bits = np.array([abs(step), abs(step) + 1], np.int64) << _DROPPED_BITS
    low, high = bits.view(np.float64).tolist()
    size: float = low if high - low <= 1 else (low + high) / 2
    return -round(size) if step < 0 else round(size)


class LatencyKey(NamedTuple):
    """The span, topic, group and time that latencies are counted by."""

    span: str
    topic: str
    group: str | None
    bucket_ns: int
    """When the time begins that they are of; 0 where all are together."""


@dataclass(slots=True)
class LatencyCounts:
    """The latencies that were measured, and the number of messages without a time."""

    lines: defaultdict[LatencyKey, LatencyHistogram] = field(default_factory=lambda: defaultdict(LatencyHistogram))
    timeless: int = 0
    """Messages without the producer's time, or with one that cannot be read."""
    traced: int = 0

    def join(self, other: "LatencyCounts") -> None:
        self.timeless += other.timeless
        self.traced += other.traced
        for line, histogram in other.lines.items():
            self.lines[line].join(histogram)


@dataclass(frozen=True, slots=True)
class ProducerTime:
    """Where the producer's own time is; nowhere if nothing is said."""

    header: str | None = None
    field: str | None = None

    @property
    def is_given(self) -> bool:
        return self.header is not None or self.field is not None


@dataclass(slots=True)
class Acknowledgements:
    """The acknowledged ranges of a group in a partition, and when each was acknowledged."""

    ranges: list[Range] = field(default_factory=list)
    times: list[int] = field(default_factory=list)


@dataclass(slots=True)
class AcknowledgementListener:
    """A listener that collects acknowledgements while the log of groups is replayed."""

    bucket_ns: int
    done: defaultdict[PartitionRef, defaultdict[str, Acknowledgements]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Acknowledgements))
    )
    work: LatencyCounts = field(default_factory=LatencyCounts)

    def __call__(self, record: GroupRecord, time_ns: int, cursor: Cursor | None) -> None:
        ranges = [] if is_move_to_other_topic(record) else settled_ranges(record, cursor)
        if cursor is None or not ranges or cursor.group.startswith("__"):
            return
        heard = self.done[cursor.ref][cursor.group]
        heard.ranges += ranges
        heard.times += [time_ns] * len(ranges)
        if (given := leased_at_ns(record, cursor)) is not None:
            line = LatencyKey(WORK, cursor.topic, cursor.group, _bucket(time_ns, self.bucket_ns))
            count = sum(end - first for first, end in ranges)
            self.work.lines[line].add(np.array([time_ns - given], np.int64), count)


@dataclass(frozen=True, slots=True)
class AcknowledgedRanges:
    """The same as Acknowledgements, on its way to a task."""

    group: str
    firsts: NDArray[np.int64]
    ends: NDArray[np.int64]
    times: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LatencyScan:
    """The work of a task. Buckets of no length put all together."""

    logs: LogSource
    source: ProducerTime
    bucket_ns: int
    done: Mapping[PartitionRef, Sequence[AcknowledgedRanges]]

    def __call__(self, split: Split) -> LatencyCounts:
        found = LatencyCounts()
        path = JsonTimeField(self.source.field) if self.source.field is not None else None
        for piece in read_messages(self.logs, split):
            if not isinstance(piece, FrameRun):
                continue
            if self.source.is_given:
                self._add_published(found, split, piece, path)
            for done in self.done.get(PartitionRef(split.topic, split.partition), ()):
                self._add_acknowledged(found, split, piece, done)
            found.traced += int(np.count_nonzero(piece.real & (locate_header(piece.frames, TRACE)[0] >= 0)))
        return found

    def _add_published(self, found: LatencyCounts, split: Split, run: FrameRun, path: JsonTimeField | None) -> None:
        frames = run.frames
        if path is None:
            assert self.source.header is not None
            produced = parse_times(header_column(frames, self.source.header))
        else:
            produced = path.moments(values(FrameBatch(split.topic, split.partition, run)).to_pylist())
        real = run.real
        real &= locate_header(frames, ORIGIN_HEADER)[0] < 0  # a copy has the time of what it is a copy of
        told = (produced != NO_TIME) & real
        found.timeless += int(np.count_nonzero(real & ~told))
        times = frames.timestamps[told]
        self._add(found, LatencyKey(PUBLISH, split.topic, None, 0), times, times - produced[told])

    def _add_acknowledged(self, found: LatencyCounts, split: Split, run: FrameRun, done: AcknowledgedRanges) -> None:
        frames, real = run.frames, run.real
        offsets = frames.offsets
        lows, highs = np.searchsorted(offsets, done.firsts), np.searchsorted(offsets, done.ends)
        counts = highs - lows
        if not counts.sum():
            return
        starts = np.repeat(lows - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
        which = starts + np.arange(counts.sum())
        ended = np.repeat(done.times, counts)
        ended, which = ended[real[which]], which[real[which]]
        order = np.argsort(ended, kind="stable")
        ended, which = ended[order], which[order]
        line = LatencyKey(ACKNOWLEDGE, split.topic, done.group, 0)
        self._add(found, line, ended, ended - frames.timestamps[which])

    def _add(
        self, found: LatencyCounts, line: LatencyKey, times: NDArray[np.int64], latencies: NDArray[np.int64]
    ) -> None:
        """Add latencies by the time at which they ended, which does not fall."""
        if not len(times):
            return
        if not self.bucket_ns:
            found.lines[line].add(latencies)
            return
        buckets, starts = np.unique(times // self.bucket_ns, return_index=True)
        for bucket, part in zip(buckets.tolist(), np.split(latencies, starts[1:]), strict=True):
            found.lines[line._replace(bucket_ns=bucket * self.bucket_ns)].add(part)


@dataclass(frozen=True, slots=True)
class LatencyPlan:
    """The part of the log that has to be read, and what is known without reading it."""

    plan: ReadPlan
    look: LatencyScan
    found: LatencyCounts
    """What needs no reading."""


def plan_latency(logs: LogSource, plan: ReadPlan, source: ProducerTime, bucket_ns: int = 0) -> LatencyPlan:
    """Plan the scan. Without a producer's time, only acknowledged messages are read."""
    listener = AcknowledgementListener(bucket_ns)
    read_group_logs(logs, listener)
    chosen = {one.ref for one in plan.ranges}
    topics = {topic for topic, _ in chosen}
    done = {
        ref: [_packed(group, one) for group, one in sorted(groups.items())]
        for ref, groups in listener.done.items()
        if ref in chosen
    }
    lines = {line: histogram for line, histogram in listener.work.lines.items() if line.topic in topics}
    listener.work.lines = defaultdict(LatencyHistogram, lines)
    ranges = (
        plan.ranges
        if source.is_given
        else tuple(_narrowed(one, done.get(PartitionRef(*one.ref), ())) for one in plan.ranges)
    )
    return LatencyPlan(ReadPlan(ranges), LatencyScan(logs, source, bucket_ns, done), listener.work)


def _packed(group: str, heard: Acknowledgements) -> AcknowledgedRanges:
    ranges = np.array(heard.ranges, np.int64).reshape(-1, 2)
    return AcknowledgedRanges(group, ranges[:, 0].copy(), ranges[:, 1].copy(), np.array(heard.times, np.int64))


def _narrowed(given: PlannedRange, done: Sequence[AcknowledgedRanges]) -> PlannedRange:
    first = min((int(one.firsts.min()) for one in done), default=given.end)
    end = max((int(one.ends.max()) for one in done), default=given.first)
    first, end = max(first, given.first), min(end, given.end)
    return PlannedRange(given.ref, first, max(first, end), given.view)


def join_counts(prepared: LatencyPlan, parts: Iterable[LatencyCounts]) -> LatencyCounts:
    whole = LatencyCounts()
    whole.join(prepared.found)
    for part in parts:
        whole.join(part)
    return whole


def _bucket(time_ns: int, length_ns: int) -> int:
    return time_ns // length_ns * length_ns if length_ns else 0


def rows(found: LatencyCounts) -> list[Row]:
    """Make rows by topic, span, group and time; the time only where there are buckets."""
    lines = sorted(found.lines, key=lambda one: (one.topic, SPANS.index(one.span), one.group or "", one.bucket_ns))
    return [_row(line, found.lines[line]) for line in lines]


def _row(line: LatencyKey, histogram: LatencyHistogram) -> Row:
    return {
        **({"time": line.bucket_ns} if line.bucket_ns else {}),
        "span": line.span,
        "topic": line.topic,
        "group": line.group,
        "messages": histogram.count,
        **{f"{title}_seconds": _seconds(histogram.percentile(share)) for title, share in SHARES.items()},
        "max_seconds": _seconds(histogram.most),
        "mean_seconds": _seconds(histogram.mean),
        "min_seconds": _seconds(histogram.least),
    }


def _seconds(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else round(nanoseconds) / NANOSECONDS


def inspect(context: InspectionContext, header: str | None, field: str | None, bucket: int | None) -> Report:
    source = ProducerTime(header, field)
    planned = plan_latency(context.logs, context.plan, source, bucket or 0)
    found = join_counts(planned, [part for _, part in context.scan(planned.plan, planned.look)])
    listed = rows(found)
    fields = ("time", *LATENCY.table) if bucket else None
    chart = _chart(listed) if bucket else None
    return Report(listed, planned.plan, fields, notes=_notes(found, source), chart=chart)


def _notes(found: LatencyCounts, source: ProducerTime) -> list[str]:
    notes = []
    if found.timeless:
        source_name = (
            f"the header {quoted(source.header)}" if source.header else f"the field {quoted(source.field or '')}"
        )
        notes.append(f"{format_count(found.timeless, 'message')} without a time in {source_name}")
    if not source.is_given:
        notes.append("--header NAME or --field PATH names the producer's own time")
    if found.traced:
        notes.append(f"{format_count(found.traced, 'message')} with a trace (traceparent)")
    return notes


def _chart(listed: Sequence[Row]) -> Chart:
    """Return a line for each span, topic and group; it is 0 in a bucket in which nothing ended."""
    times = sorted({row["time"] for row in listed})
    series: dict[str, list[float]] = {}
    has_topics = len({row["topic"] for row in listed}) > 1
    for row in listed:
        name = " ".join(filter(None, (row["span"], row["topic"] if has_topics else None, row["group"])))
        series.setdefault(name, [0.0] * len(times))[times.index(row["time"])] = row["p99_seconds"]
    labels = [format_time(time)[5:16].replace("T", " ") for time in times]
    return Chart("99 of 100 messages took no longer", labels, series, "s")
