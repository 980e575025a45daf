"""Inspections by name, each called in one way: for whoever is told which one to make, as a pipeline is."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from goqueue.broker.delivery.rules import DEAD_LETTER_SUFFIX
from goqueue.clock import NANOSECONDS
from goqueue.quantities import parse_duration, quoted
from goqueue.spark.inspections import dead_letters, keys, summary, timeline, usage
from goqueue.spark.jobs import on_each
from goqueue.spark.logs.port import Logs
from goqueue.spark.options import boolean, count
from goqueue.spark.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = pa.timestamp("us", "UTC")
_BUCKET_NS_MIN = NANOSECONDS // 1000

Row = dict[str, Any]


@dataclass(frozen=True)
class Inspection:
    """`rows(spark, logs, plan, **parameters)`, each row with the fields of `schema`, whatever it finds."""

    rows: "Callable[..., list[Row]]"
    schema: pa.Schema
    parameters: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    """How each one is read; a reader raises ValueError."""


def time(time_ns: int | None) -> datetime | None:
    return None if time_ns is None else _EPOCH + timedelta(microseconds=time_ns // 1000)


def _fields(**types: Any) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in types.items()])


# --- summary ---


def _summary(spark: "SparkSession", logs: Logs, plan: Plan) -> list[Row]:
    splits = plan.splits(logs)
    parts = summary.summarise(plan, splits, on_each(spark, splits, summary.Look(logs)))
    return [
        {
            **asdict(part.holding),
            "topic": part.topic,
            "partition": part.partition,
            "segments": part.segments,
            "first_offset": part.first_offset,
            "next_offset": part.next_offset,
            "first_time": time(part.holding.first_time),
            "last_time": time(part.holding.last_time),
        }
        for part in parts
    ]


_SUMMARY = _fields(
    topic=pa.string(),
    partition=pa.int32(),
    segments=pa.int64(),
    first_offset=pa.int64(),
    next_offset=pa.int64(),
    messages=pa.int64(),
    bytes=pa.int64(),
    value_bytes=pa.int64(),
    without_key=pa.int64(),
    with_headers=pa.int64(),
    compressed=pa.int64(),
    tombstones=pa.int64(),
    control_records=pa.int64(),
    first_time=_TIME,
    last_time=_TIME,
    damages=pa.int64(),
    lost=pa.int64(),
)


# --- timeline ---


def _timeline(
    spark: "SparkSession", logs: Logs, plan: Plan, bucket: int | None = None, by: timeline.By | None = None
) -> list[Row]:
    ends = timeline.span(logs, plan)
    if ends is None:
        return []
    width = bucket or timeline.bucket_for(*ends)
    fields = {None: (), "topic": ("topic",), "partition": ("topic", "partition"), "priority": ("priority",)}[by]
    found = timeline.filled(timeline.buckets(spark, logs, plan.splits(logs), width, by), width)
    return [
        {
            **dict(zip(fields, one.group, strict=True)),
            "start": time(one.start),
            "seconds": width / NANOSECONDS,
            "messages": one.messages,
            "bytes": one.bytes,
            "peak": one.peak,
            "peak_time": time(one.peak_time),
        }
        for one in found
    ]


_TIMELINE = _fields(
    topic=pa.string(),
    partition=pa.int32(),
    priority=pa.string(),
    start=_TIME,
    seconds=pa.float64(),
    messages=pa.int64(),
    bytes=pa.int64(),
    peak=pa.int64(),
    peak_time=_TIME,
)


# --- keys ---


def _keys(spark: "SparkSession", logs: Logs, plan: Plan, top: int = 20, approx: bool = False) -> list[Row]:
    found = keys.count_keys(spark, logs, plan.splits(logs), top, approx=approx)
    return [{**asdict(one), "share": one.messages / found.messages} for one in found.top]


_KEYS = _fields(
    topic=pa.string(),
    key=pa.binary(),
    messages=pa.int64(),
    bytes=pa.int64(),
    share=pa.float64(),
    tombstones=pa.int64(),
    partition=pa.int32(),
    partitions=pa.int32(),
)


# --- usage ---


def _usage(
    spark: "SparkSession",
    logs: Logs,
    plan: Plan,
    by: usage.By = "topic",
    by_header: str | None = None,
    per: usage.Per | None = None,
) -> list[Row]:
    if not plan.messages:
        return []
    found = usage.usage(spark, logs, plan, usage.Wish(by, by_header, per))
    return [{**asdict(one), "start": time(one.bucket_ns)} for one in found]


_USAGE = _fields(
    start=_TIME,
    topic=pa.string(),
    partition=pa.int32(),
    producer=pa.int64(),
    header=pa.binary(),
    messages=pa.int64(),
    bytes=pa.int64(),
    payload_bytes=pa.int64(),
)


# --- dlq ---


def _dlq(spark: "SparkSession", logs: Logs, plan: Plan, by: dead_letters.By = "error", top: int = 50) -> list[Row]:
    """Of those topics of the source that hold dead letters."""
    letters = Plan(tuple(one for one in plan.ranges if one.place[0].endswith(DEAD_LETTER_SUFFIX)))
    if not letters.messages:
        return []
    found = dead_letters.dead_letters(spark, logs, letters.splits(logs), by=by, top=top)
    return [
        {
            by: time(int(one.what)) if by == "hour" else one.what,
            "letters": one.letters,
            "sent_back": one.sent_back,
            "left": one.left,
            "first_time": time(one.first_ns),
            "last_time": time(one.last_ns),
            "oldest_left": time(one.oldest_left_ns),
            "attempts": one.attempts,
            "attempts_max": one.attempts_max,
            "samples": list(one.samples),
        }
        for one in found
    ]


_DLQ = _fields(
    error=pa.string(),
    origin=pa.string(),
    group=pa.string(),
    hour=_TIME,
    letters=pa.int64(),
    sent_back=pa.int64(),
    left=pa.int64(),
    first_time=_TIME,
    last_time=_TIME,
    oldest_left=_TIME,
    attempts=pa.int64(),
    attempts_max=pa.int64(),
    samples=pa.list_(pa.string()),
)


# --- how parameters are written ---


def _one_of(*known: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in known:
            raise ValueError(f"{quoted(text)} is not one of {', '.join(known)}")
        return text

    return read


def _bucket(text: str) -> int:
    found = round(parse_duration(text) * NANOSECONDS)
    if found < _BUCKET_NS_MIN:
        raise ValueError(f"{quoted(text)} is too short: the shortest is 1ms")
    return found


INSPECTIONS: dict[str, Inspection] = {
    "dlq": Inspection(_dlq, _DLQ, {"by": _one_of("error", "origin", "group", "hour"), "top": count}),
    "keys": Inspection(_keys, _KEYS, {"top": count, "approx": boolean}),
    "summary": Inspection(_summary, _SUMMARY),
    "timeline": Inspection(_timeline, _TIMELINE, {"bucket": _bucket, "by": _one_of("topic", "partition", "priority")}),
    "usage": Inspection(
        _usage,
        _USAGE,
        {"by": _one_of("topic", "partition", "producer"), "by_header": str, "per": _one_of("day", "hour")},
    ),
}
