"""Messages over time: how many in each bucket, the busiest moment, and when nothing came.

The times of a run do not fall, so the messages of a bucket stand side by side, and their number follows from where
the edges of buckets would stand among the times. Tasks count by the second, or by the bucket where that is shorter;
Spark adds up, so that a log of years costs no more memory than one of minutes.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from goqueue.clock import NANOSECONDS
from goqueue.errors import RequestInvalid
from goqueue.quantities import DURATION_UNITS, format_count, format_duration, format_time
from goqueue.spark.inspections.catalog import TIMELINE
from goqueue.spark.inspections.inspection import Chart, InspectionContext, Report, Row
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import FrameRun, Split, read_split
from goqueue.spark.logs.visibility import read_messages
from goqueue.spark.reading.plan import PartitionRange, ReadPlan
from goqueue.spark.reading.tasks import splits_to_frame
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

By = Literal["topic", "partition", "priority"]

BUCKETS_MAX = 10_000
"""In one timeline: more than that is no picture, and a query in SQL gives as many as one likes."""
_SILENT_PERIODS_SHOWN = 3
_BUCKETS_WANTED = 60
_ROWS = 32_768
_MILLISECONDS = 1_000_000
_STEPS = [
    *(step * _MILLISECONDS for step in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(
        step * NANOSECONDS
        for step in (
            *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200),
            *(86_400, 2 * 86_400, 7 * 86_400, 14 * 86_400, 30 * 86_400, 90 * 86_400, 365 * 86_400),
        )
    ),
]

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("priority", pa.string()),
        pa.field("unit", pa.int64()),
        pa.field("messages", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("first_time", pa.int64()),
        pa.field("last_time", pa.int64()),
    ]
)
GROUPS: dict[By | None, tuple[str, ...]] = {
    None: (),
    "topic": ("topic",),
    "partition": ("topic", "partition"),
    "priority": ("priority",),
}

TimelineGroup = tuple[str | int, ...]
"""A topic; a topic and a partition; a priority; or nothing, where all are counted together."""


@dataclass(frozen=True, slots=True)
class TimeBucket:
    """A part of the time line."""

    group: TimelineGroup
    start: int
    messages: int
    bytes: int
    first_time: int | None = None
    last_time: int | None = None
    peak: int = 0
    """The most messages in one unit of time within it."""
    peak_time: int | None = None


@dataclass(frozen=True, slots=True)
class SilentPeriod:
    """Nothing was published between two messages, for longer than a bucket takes."""

    group: TimelineGroup
    start: int
    end: int


def time_span(logs: LogSource, plan: ReadPlan) -> tuple[int, int] | None:
    """Return the approximate first and last time of the messages, from the indexes."""
    times = [time for one in plan.ranges if one.first < one.end for time in _edges(logs, one)]
    return (min(times), max(times)) if times else None


def _edges(logs: LogSource, given: PartitionRange) -> Iterator[int]:
    held = [one for one in given.view.segments if one.size and one.base_offset < given.end]
    held = [one for one in held if one.next_offset > given.first]
    for segment, offset in ((held[0], given.first), (held[-1], given.end - 1)) if held else ():
        opened = logs.open(*given.ref, segment)
        opened.file.close()
        if len(opened.index):
            yield opened.index.times[max(0, opened.index.before_offset(offset))]
            continue
        within = max(given.first, segment.base_offset), min(given.end, segment.next_offset)
        for piece in read_split(logs, Split(*given.ref, *within, segment.size, (segment,))):
            if isinstance(piece, FrameRun):
                yield from piece.frames.timestamps[[0, -1]].tolist()


def bucket_for(first: int, last: int) -> int:
    """Return the shortest round bucket that makes at most sixty rows."""
    return next((step for step in _STEPS if last // step - first // step < _BUCKETS_WANTED), _STEPS[-1])


def count_buckets(first: int, last: int, bucket: int) -> int:
    return last // bucket - first // bucket + 1


def unit_of(bucket: int) -> int:
    """Return the unit that tasks count by: a second, or the largest unit that divides a second and the bucket."""
    return math.gcd(bucket, NANOSECONDS)


@dataclass(frozen=True, slots=True)
class TimelineScan:
    """The work of a task."""

    logs: LogSource
    unit: int
    by_priority: bool

    def __call__(self, split: Split) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        for piece in read_messages(self.logs, split):
            if isinstance(piece, FrameRun):
                waiting += self._of_run(split, _messages(piece))
                if sum(map(len, waiting)) >= _ROWS:
                    yield _together(waiting)
                    waiting = []
        if waiting:
            yield _together(waiting)

    def _of_run(self, split: Split, frames: Frames) -> Iterator[pa.RecordBatch]:
        if not self.by_priority:
            if len(frames):
                yield _counted(split, None, frames, self.unit)
            return
        found = scan.column(frames.buffer, "u1", frame.AT_PRIORITY)[frames.positions]
        for number in np.unique(found).tolist():
            yield _counted(split, frame.PRIORITIES[number], _chosen(frames, found == number), self.unit)


def _messages(run: FrameRun) -> Frames:
    return run.frames if run.dropped is None else _chosen(run.frames, run.real)


def _chosen(frames: Frames, wanted: "np.typing.NDArray[np.bool_]") -> Frames:
    return replace(frames, positions=frames.positions[wanted], lengths=frames.lengths[wanted])


def _counted(split: Split, priority: str | None, frames: Frames, unit: int) -> pa.RecordBatch:
    times = frames.timestamps
    starts = unit_starts(times, unit)
    ends = np.append(starts[1:], len(times))
    count = len(starts)
    columns = [
        pa.repeat(pa.scalar(split.topic), count),
        pa.array(np.full(count, split.partition, np.int32)),
        pa.repeat(pa.scalar(priority, pa.string()), count),
        pa.array(times[starts] // unit),
        pa.array(ends - starts),
        pa.array(np.add.reduceat(frames.lengths, starts)),
        pa.array(times[starts]),
        pa.array(times[ends - 1]),
    ]
    return pa.record_batch(columns, schema=SCHEMA)


def unit_starts(times: scan.Positions, unit: int) -> scan.Positions:
    """Return which of these times, which do not fall, are the first of their unit."""
    first, last = int(times[0]) // unit, int(times[-1]) // unit
    if last - first < len(times):
        edges = np.searchsorted(times, np.arange(first, last + 1) * unit)
        edges[0] = 0
        return edges[np.diff(edges, append=len(times)) > 0]
    return np.flatnonzero(np.diff(times // unit, prepend=first - 1))


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    (whole,) = pa.Table.from_batches(batches, SCHEMA).combine_chunks().to_batches()
    return whole


def count_by_bucket(
    spark: "SparkSession", logs: LogSource, splits: Sequence[Split], bucket: int, by: By | None = None
) -> list[TimeBucket]:
    """Return the buckets with messages, group by group, in the order of time."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - loaded with the session

    if not splits:
        return []
    unit, groups = unit_of(bucket), GROUPS[by]
    sums = (f.sum("messages").alias("messages"), f.sum("bytes").alias("bytes"))
    ends = (f.min("first_time").alias("first_time"), f.max("last_time").alias("last_time"))
    units = splits_to_frame(spark, splits, TimelineScan(logs, unit, by == "priority"), SCHEMA).groupBy(*groups, "unit")
    found = (
        units.agg(*sums, *ends)
        .withColumn("bucket", f.expr(f"unit div {bucket // unit}"))
        .groupBy(*groups, "bucket")
        .agg(*sums, *ends, f.max(f.struct("messages", (-f.col("unit")).alias("unit"))).alias("peak"))
        .orderBy(*groups, "bucket")
        .collect()
    )
    return [
        TimeBucket(
            tuple(row[group] for group in groups),
            row["bucket"] * bucket,
            row["messages"],
            row["bytes"],
            row["first_time"],
            row["last_time"],
            row["peak"]["messages"],
            -row["peak"]["unit"] * unit,
        )
        for row in found
    ]


def fill_empty_buckets(found: Sequence[TimeBucket], bucket: int) -> list[TimeBucket]:
    """Add the empty buckets, so that all groups begin and end together."""
    if not found:
        return []
    known = {(one.group, one.start): one for one in found}
    starts = range(min(one.start for one in found), max(one.start for one in found) + 1, bucket)
    groups = dict.fromkeys(one.group for one in found)
    return [known.get((group, start)) or TimeBucket(group, start, 0, 0) for group in groups for start in starts]


def silent_periods(found: Sequence[TimeBucket], bucket: int) -> list[SilentPeriod]:
    """Return silent periods, longest first. One longer than a bucket lies between two buckets with messages."""
    quiet = [
        SilentPeriod(one.group, one.last_time, other.first_time)
        for one, other in pairwise(found)
        if one.group == other.group
        and one.last_time is not None
        and other.first_time is not None
        and other.first_time - one.last_time > bucket
    ]
    return sorted(quiet, key=lambda one: one.start - one.end)


def choose_bucket(ends: tuple[int, int], wanted: int | None) -> int:
    """Return the given bucket, if it does not make too many rows, or a suitable one."""
    if wanted is None:
        return bucket_for(*ends)
    if (count := count_buckets(*ends, wanted)) > BUCKETS_MAX:
        longer = format_duration(bucket_for(*ends) / NANOSECONDS)
        raise RequestInvalid(
            f"this makes {count:,} buckets, {BUCKETS_MAX:,} is the maximum",
            hint=f"choose a longer bucket, such as {longer}, or a shorter time",
        )
    return wanted


def peak_rate(one: TimeBucket, width: int) -> float:
    return one.peak * NANOSECONDS / unit_of(width)


def rows(lines: Iterable[TimeBucket], width: int, by: By | None) -> list[Row]:
    seconds = width / NANOSECONDS
    return [
        {
            **dict(zip(GROUPS[by], one.group, strict=True)),
            "start": one.start,
            "seconds": seconds,
            "messages": one.messages,
            "bytes": one.bytes,
            "rate": one.messages / seconds,
            "byte_rate": one.bytes / seconds,
            "peak_rate": peak_rate(one, width),
            "peak_time": one.peak_time,
        }
        for one in lines
    ]


def inspect(context: InspectionContext, bucket: int | None, by: By | None) -> Report:
    logs, plan = context.logs, context.plan
    ends = time_span(logs, plan)
    width = choose_bucket(ends, bucket) if ends is not None else bucket or NANOSECONDS
    splits = plan.splits(logs)
    found: list[TimeBucket] = []
    if splits:
        with context.session(plan) as spark:
            found = count_by_bucket(spark, logs, splits, width, by)
    buckets = fill_empty_buckets(found, width)
    return Report(
        rows(buckets, width, by),
        plan,
        (*GROUPS[by], *TIMELINE.table),
        bar="messages",
        formats={"start": lambda text: _format_start(text, width)},
        notes=_notes(found, width) if found else [],
        chart=_chart(buckets, width),
    )


def _format_start(text: str, width: int) -> str:
    """Format the start of a bucket without digits that are zero in all of them."""
    seconds = text[:19].replace("T", " ")
    if width % NANOSECONDS:
        return f"{seconds}{text[19:23]}"
    return seconds if width % DURATION_UNITS["m"] else seconds[:16] if width % DURATION_UNITS["d"] else seconds[:10]


def _notes(found: Sequence[TimeBucket], width: int) -> list[str]:
    notes = []
    busiest = max(found, key=lambda one: one.peak)
    if busiest.peak_time is not None:
        notes.append(
            f"busiest{_of(busiest.group)}: {peak_rate(busiest, width):,.6g}/s at {_clock(busiest.peak_time)}; "
            f"a bucket is {format_duration(width / NANOSECONDS)}"
        )
    quiet = silent_periods(found, width)
    for one in quiet[:_SILENT_PERIODS_SHOWN]:
        length = format_duration((one.end - one.start) / NANOSECONDS)
        notes.append(f"no messages{_of(one.group)} for {length}: from {_clock(one.start)} to {_clock(one.end)}")
    if len(quiet) > _SILENT_PERIODS_SHOWN:
        notes.append(f"and {format_count(len(quiet) - _SILENT_PERIODS_SHOWN, 'shorter silent period')}")
    return notes


def _of(group: TimelineGroup) -> str:
    return f" of {_name(group)}" if group else ""


def _name(group: TimelineGroup) -> str:
    return "/".join(map(str, group))


def _clock(time_ns: int) -> str:
    return f"{format_time(time_ns)[:19]}Z".replace("T", " ")


def _chart(buckets: Sequence[TimeBucket], width: int) -> Chart:
    series: dict[str, list[float]] = {}
    for one in buckets:
        series.setdefault(_name(one.group) or "all", []).append(one.messages * NANOSECONDS / width)
    starts = sorted({one.start for one in buckets})
    return Chart("Messages over time", [_clock(start)[:-1] for start in starts], series, "messages/s")
