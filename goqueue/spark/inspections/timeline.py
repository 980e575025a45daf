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
from goqueue.quantities import format_duration
from goqueue.spark.inspections import parameters
from goqueue.spark.inspections.inspection import TIME, Inspection, Row
from goqueue.spark.inspections.inspection import schema as fields
from goqueue.spark.jobs import as_frame
from goqueue.spark.logs.port import Logs
from goqueue.spark.outcomes import read_messages
from goqueue.spark.plan import Plan, Range
from goqueue.spark.reading import Run, Split, read
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

By = Literal["topic", "partition", "priority"]

BUCKET_NS_MIN = NANOSECONDS // 1000
BUCKETS_MAX = 10_000
"""In one timeline: more than that is no picture, and a query in SQL gives as many as one likes."""
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

Group = tuple[str | int, ...]
"""A topic; a topic and a partition; a priority; or nothing, where all are counted together."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A part of the time line."""

    group: Group
    start: int
    messages: int
    bytes: int
    first_time: int | None = None
    last_time: int | None = None
    peak: int = 0
    """The most messages in one unit of time within it."""
    peak_time: int | None = None


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing was published between two messages, for longer than a bucket takes."""

    group: Group
    start: int
    end: int


def span(logs: Logs, plan: Plan) -> tuple[int, int] | None:
    """About from when to when the messages are, as the indexes tell it."""
    times = [time for one in plan.ranges if one.first < one.end for time in _edges(logs, one)]
    return (min(times), max(times)) if times else None


def _edges(logs: Logs, given: Range) -> Iterator[int]:
    held = [one for one in given.view.segments if one.size and one.base_offset < given.end]
    held = [one for one in held if one.next_offset > given.first]
    for segment, offset in ((held[0], given.first), (held[-1], given.end - 1)) if held else ():
        opened = logs.open(*given.place, segment)
        opened.file.close()
        if len(opened.index):
            yield opened.index.times[max(0, opened.index.before_offset(offset))]
            continue
        within = max(given.first, segment.base_offset), min(given.end, segment.next_offset)
        for piece in read(logs, Split(*given.place, *within, segment.size, (segment,))):
            if isinstance(piece, Run):
                yield from piece.frames.timestamps[[0, -1]].tolist()


def bucket_for(first: int, last: int) -> int:
    """The shortest round one with which a picture is not too wide."""
    return next((step for step in _STEPS if last // step - first // step < _BUCKETS_WANTED), _STEPS[-1])


def count_buckets(first: int, last: int, bucket: int) -> int:
    return last // bucket - first // bucket + 1


def unit_of(bucket: int) -> int:
    """What tasks count by: seconds, or whatever fits into both a second and a bucket."""
    return math.gcd(bucket, NANOSECONDS)


@dataclass(frozen=True, slots=True)
class Look:
    """The work of a task."""

    logs: Logs
    unit: int
    by_priority: bool

    def __call__(self, split: Split) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        for piece in read_messages(self.logs, split):
            if isinstance(piece, Run):
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


def _messages(run: Run) -> Frames:
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
    """Which of times that do not fall are the first of their unit."""
    first, last = int(times[0]) // unit, int(times[-1]) // unit
    if last - first < len(times):
        edges = np.searchsorted(times, np.arange(first, last + 1) * unit)
        edges[0] = 0
        return edges[np.diff(edges, append=len(times)) > 0]
    return np.flatnonzero(np.diff(times // unit, prepend=first - 1))


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    (whole,) = pa.Table.from_batches(batches, SCHEMA).combine_chunks().to_batches()
    return whole


def buckets(
    spark: "SparkSession", logs: Logs, splits: Sequence[Split], bucket: int, by: By | None = None
) -> list[Bucket]:
    """The buckets with messages in them, group by group, in the order of time."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - loaded with the session

    if not splits:
        return []
    unit, groups = unit_of(bucket), GROUPS[by]
    sums = (f.sum("messages").alias("messages"), f.sum("bytes").alias("bytes"))
    ends = (f.min("first_time").alias("first_time"), f.max("last_time").alias("last_time"))
    units = as_frame(spark, splits, Look(logs, unit, by == "priority"), SCHEMA).groupBy(*groups, "unit")
    found = (
        units.agg(*sums, *ends)
        .withColumn("bucket", f.expr(f"unit div {bucket // unit}"))
        .groupBy(*groups, "bucket")
        .agg(*sums, *ends, f.max(f.struct("messages", (-f.col("unit")).alias("unit"))).alias("peak"))
        .orderBy(*groups, "bucket")
        .collect()
    )
    return [
        Bucket(
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


def filled(found: Sequence[Bucket], bucket: int) -> list[Bucket]:
    """With those that are empty, so that all groups begin and end together."""
    if not found:
        return []
    known = {(one.group, one.start): one for one in found}
    starts = range(min(one.start for one in found), max(one.start for one in found) + 1, bucket)
    groups = dict.fromkeys(one.group for one in found)
    return [known.get((group, start)) or Bucket(group, start, 0, 0) for group in groups for start in starts]


def silences(found: Sequence[Bucket], bucket: int) -> list[Silence]:
    """The longest first. What is longer than a bucket crosses an edge, so it lies between two buckets."""
    quiet = [
        Silence(one.group, one.last_time, other.first_time)
        for one, other in pairwise(found)
        if one.group == other.group
        and one.last_time is not None
        and other.first_time is not None
        and other.first_time - one.last_time > bucket
    ]
    return sorted(quiet, key=lambda one: one.start - one.end)


def fitting(ends: tuple[int, int], wanted: int | None) -> int:
    """The bucket that was asked for, if it does not make too many lines; or one that makes a good picture."""
    if wanted is None:
        return bucket_for(*ends)
    if (count := count_buckets(*ends, wanted)) > BUCKETS_MAX:
        longer = format_duration(bucket_for(*ends) / NANOSECONDS)
        raise RequestInvalid(
            f"this makes {count:,} lines, {BUCKETS_MAX:,} is the most",
            hint=f"take a longer bucket, such as {longer}, or less time",
        )
    return wanted


def peak_rate(one: Bucket, width: int) -> float:
    """In a second."""
    return one.peak * NANOSECONDS / unit_of(width)


def rows(lines: Iterable[Bucket], width: int, by: By | None) -> list[Row]:
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


def inspect(
    spark: "SparkSession", logs: Logs, plan: Plan, bucket: int | None = None, by: By | None = None
) -> list[Row]:
    ends = span(logs, plan)
    if ends is None:
        return []
    width = fitting(ends, bucket)
    return rows(filled(buckets(spark, logs, plan.splits(logs), width, by), width), width, by)


INSPECTION = Inspection(
    inspect,
    fields(
        topic=pa.string(),
        partition=pa.int32(),
        priority=pa.string(),
        start=TIME,
        seconds=pa.float64(),
        messages=pa.int64(),
        bytes=pa.int64(),
        rate=pa.float64(),
        byte_rate=pa.float64(),
        peak_rate=pa.float64(),
        peak_time=TIME,
    ),
    {"bucket": parameters.bucket(BUCKET_NS_MIN), "by": parameters.one_of("topic", "partition", "priority")},
)
