"""How long messages take: from their producer to the log, until a group has acknowledged them, and in its hands.

The first is told by the producer's own time, in a header or in the value. The others are told by the log of the
groups: when a message was handed out, and when that it is done was recorded.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goqueue.broker.delivery.changes import Place, Range
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.transfer import ORIGIN
from goqueue.broker.groups.state import Record
from goqueue.clock import NANOSECONDS
from goqueue.spark.columns import Batch, values
from goqueue.spark.inspections import parameters
from goqueue.spark.inspections.header import header, place_of_header
from goqueue.spark.inspections.histogram import Histogram
from goqueue.spark.inspections.inspection import TIME, Inspection, Row, apart, schema
from goqueue.spark.inspections.ledger import done_by, given_ns, is_departure, read_ledger
from goqueue.spark.inspections.moments import NEVER, Field, moments
from goqueue.spark.jobs import on_each
from goqueue.spark.logs.port import Logs
from goqueue.spark.outcomes import read_messages
from goqueue.spark.plan import Plan
from goqueue.spark.plan import Range as PlannedRange
from goqueue.spark.reading import Run, Split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUBLISH, ACKNOWLEDGE, WORK = "publish", "acknowledge", "work"
"""From the producer's time to the log; from the log to the acknowledgement; from handing out to that."""

SPANS = (PUBLISH, ACKNOWLEDGE, WORK)
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
"""The percentiles that rows tell."""

TRACE = "traceparent"


class Line(NamedTuple):
    """What latencies are gathered by."""

    span: str
    topic: str
    group: str | None
    bucket_ns: int
    """When the time begins that they are of; 0 where all are together."""


@dataclass(slots=True)
class Found:
    """What was measured, and what could not be."""

    lines: defaultdict[Line, Histogram] = field(default_factory=lambda: defaultdict(Histogram))
    timeless: int = 0
    """Messages without the producer's time, or with one that cannot be read."""
    traced: int = 0

    def join(self, other: "Found") -> None:
        self.timeless += other.timeless
        self.traced += other.traced
        for line, histogram in other.lines.items():
            self.lines[line].join(histogram)


@dataclass(frozen=True, slots=True)
class Source:
    """Where the producer's own time is; nowhere if nothing is said."""

    header: str | None = None
    field: str | None = None

    @property
    def is_told(self) -> bool:
        return self.header is not None or self.field is not None


@dataclass(slots=True)
class Acknowledgements:
    """Of one group in one partition: ranges of offsets, and when each was done."""

    ranges: list[Range] = field(default_factory=list)
    times: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Ears:
    """Hears what groups have done, as their log is replayed."""

    bucket_ns: int
    done: defaultdict[Place, defaultdict[str, Acknowledgements]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Acknowledgements))
    )
    work: Found = field(default_factory=Found)

    def __call__(self, record: Record, time_ns: int, cursor: Cursor | None) -> None:
        ranges = [] if is_departure(record) else done_by(record, cursor)
        if cursor is None or not ranges or cursor.group.startswith("__"):
            return
        heard = self.done[cursor.place][cursor.group]
        heard.ranges += ranges
        heard.times += [time_ns] * len(ranges)
        if (given := given_ns(record, cursor)) is not None:
            line = Line(WORK, cursor.topic, cursor.group, _bucket(time_ns, self.bucket_ns))
            count = sum(end - first for first, end in ranges)
            self.work.lines[line].add(np.array([time_ns - given], np.int64), count)


@dataclass(frozen=True, slots=True)
class Done:
    """The same as Acknowledgements, on its way to a task."""

    group: str
    firsts: NDArray[np.int64]
    ends: NDArray[np.int64]
    times: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Look:
    """The work of a task. Buckets of no length put all together."""

    logs: Logs
    source: Source
    bucket_ns: int
    done: Mapping[Place, Sequence[Done]]

    def __call__(self, split: Split) -> Found:
        found = Found()
        path = Field(self.source.field) if self.source.field is not None else None
        for piece in read_messages(self.logs, split):
            if not isinstance(piece, Run):
                continue
            if self.source.is_told:
                self._add_published(found, split, piece, path)
            for done in self.done.get((split.topic, split.partition), ()):
                self._add_acknowledged(found, split, piece, done)
            found.traced += int(np.count_nonzero(piece.real & (place_of_header(piece.frames, TRACE)[0] >= 0)))
        return found

    def _add_published(self, found: Found, split: Split, run: Run, path: Field | None) -> None:
        frames = run.frames
        if path is None:
            assert self.source.header is not None
            produced = moments(header(frames, self.source.header))
        else:
            produced = path.moments(values(Batch(split.topic, split.partition, run)).to_pylist())
        real = run.real
        real &= place_of_header(frames, ORIGIN)[0] < 0  # a copy has the time of what it is a copy of
        told = (produced != NEVER) & real
        found.timeless += int(np.count_nonzero(real & ~told))
        times = frames.timestamps[told]
        self._add(found, Line(PUBLISH, split.topic, None, 0), times, times - produced[told])

    def _add_acknowledged(self, found: Found, split: Split, run: Run, done: Done) -> None:
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
        line = Line(ACKNOWLEDGE, split.topic, done.group, 0)
        self._add(found, line, ended, ended - frames.timestamps[which])

    def _add(self, found: Found, line: Line, times: NDArray[np.int64], latencies: NDArray[np.int64]) -> None:
        """By when it ended; these times do not fall."""
        if not len(times):
            return
        if not self.bucket_ns:
            found.lines[line].add(latencies)
            return
        buckets, starts = np.unique(times // self.bucket_ns, return_index=True)
        for bucket, part in zip(buckets.tolist(), np.split(latencies, starts[1:]), strict=True):
            found.lines[line._replace(bucket_ns=bucket * self.bucket_ns)].add(part)


@dataclass(frozen=True, slots=True)
class Preparation:
    """What the driver finds out before anything is read: which part has to be, and what tasks are to know."""

    plan: Plan
    look: Look
    found: Found
    """What needs no reading."""


def prepare(logs: Logs, plan: Plan, source: Source, bucket_ns: int = 0) -> Preparation:
    """Only where no producer's time is asked for, the messages that nobody has acknowledged are not read."""
    ears = Ears(bucket_ns)
    read_ledger(logs, ears)
    chosen = {one.place for one in plan.ranges}
    topics = {topic for topic, _ in chosen}
    done = {
        place: [_packed(group, one) for group, one in sorted(groups.items())]
        for place, groups in ears.done.items()
        if place in chosen
    }
    lines = {line: histogram for line, histogram in ears.work.lines.items() if line.topic in topics}
    ears.work.lines = defaultdict(Histogram, lines)
    ranges = plan.ranges if source.is_told else tuple(_narrowed(one, done.get(one.place, ())) for one in plan.ranges)
    return Preparation(Plan(ranges), Look(logs, source, bucket_ns, done), ears.work)


def _packed(group: str, heard: Acknowledgements) -> Done:
    ranges = np.array(heard.ranges, np.int64).reshape(-1, 2)
    return Done(group, ranges[:, 0].copy(), ranges[:, 1].copy(), np.array(heard.times, np.int64))


def _narrowed(given: PlannedRange, done: Sequence[Done]) -> PlannedRange:
    first = min((int(one.firsts.min()) for one in done), default=given.end)
    end = max((int(one.ends.max()) for one in done), default=given.first)
    first, end = max(first, given.first), min(end, given.end)
    return PlannedRange(given.place, first, max(first, end), given.view)


def together(prepared: Preparation, parts: Iterable[Found]) -> Found:
    """All that was found."""
    whole = Found()
    whole.join(prepared.found)
    for part in parts:
        whole.join(part)
    return whole


def _bucket(time_ns: int, length_ns: int) -> int:
    return time_ns // length_ns * length_ns if length_ns else 0


def rows(found: Found) -> list[Row]:
    """By topic, span, group and time; the time only where there are buckets."""
    lines = sorted(found.lines, key=lambda one: (one.topic, SPANS.index(one.span), one.group or "", one.bucket_ns))
    return [_row(line, found.lines[line]) for line in lines]


def _row(line: Line, histogram: Histogram) -> Row:
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


def inspect(
    spark: "SparkSession",
    logs: Logs,
    plan: Plan,
    header: str | None = None,
    field: str | None = None,
    bucket: int = 0,
) -> list[Row]:
    prepared = prepare(logs, plan, Source(header, field), bucket)
    return rows(together(prepared, on_each(spark, prepared.plan.splits(logs), prepared.look)))


INSPECTION = Inspection(
    inspect,
    schema(
        time=TIME,
        span=pa.string(),
        topic=pa.string(),
        group=pa.string(),
        messages=pa.int64(),
        **{f"{title}_seconds": pa.float64() for title in (*SHARES, "max", "mean", "min")},
    ),
    {"header": parameters.text(), "field": parameters.field_path(), "bucket": parameters.bucket()},
    apart("header", "field"),
)
