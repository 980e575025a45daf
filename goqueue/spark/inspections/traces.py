"""Traces: how long messages take to be stored and to be handled, what fails and why, from the trace files of a broker.

A record of a trace file stands for many messages to which the same happened. Files of a running broker are read as they
are: a line that is not complete yet is skipped.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from goqueue.errors import RequestInvalid
from goqueue.quantities import format_count
from goqueue.spark.inspections.dead_letters import error_class
from goqueue.spark.inspections.inspection import InspectionContext, Report, Row
from goqueue.spark.inspections.log_catalog import TRACES
from goqueue.spark.logs.directory import DirectoryLogs

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

By = Literal["event", "reason", "member"]

DIRECTORY = "traces"
_SCHEMA = (
    "event string, topic string, partition int, first long, end long, time_ns long, since_ns long, group string,"
    " member string, attempt int, reason string, runs array<long>"
)
_KEYS: dict[By, tuple[str, ...]] = {
    "event": ("topic", "group", "event"),
    "reason": ("topic", "group", "event", "reason"),
    "member": ("topic", "group", "member", "event"),
}
_SHARES = (0.5, 0.9, 0.99)
_STEPS = 1000  # of a logarithm: durations are rounded to a tenth of a percent, so that few different ones remain
_COMMITTED = "its offset was committed"
"""The reason of acknowledgements that cover all messages before an offset, however often they were acknowledged."""


def read_records(spark: "SparkSession", paths: Sequence[str]) -> "DataFrame":
    """Return the records of trace files, with the number of messages and the duration of each in seconds."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - loaded with the session

    runs = "aggregate(filter(runs, (length, place) -> place % 2 = 0), 0L, (sum, length) -> sum + length)"
    return (
        spark.read.schema(_SCHEMA)
        .json(list(paths))
        .where("event is not null and topic is not null and time_ns is not null")
        .where(~((f.col("event") == "consume.acked") & f.coalesce(f.col("reason") == _COMMITTED, f.lit(False))))
        .withColumn("messages", f.expr(f"case when size(runs) > 0 then {runs} else end - first end"))
        .withColumn("seconds", f.expr("case when since_ns > 0 then greatest(time_ns - since_ns, 0) / 1e9 end"))
    )


def count_events(records: "DataFrame", by: By, top: int) -> list[Row]:
    """Return the most frequent kinds of events, with percentiles of their durations for each message."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - loaded with the session

    if by == "reason":
        kind = f.udf(error_class, "string", useArrow=False)
        records = records.where("reason is not null and reason != ''").withColumn("reason", kind("reason"))
    percentiles: Column = f.percentile(_rounded(f.col("seconds")), list(_SHARES), f.col("messages"))
    found = (
        records.groupBy(*_KEYS[by])
        .agg(
            f.count("*").alias("records"),
            f.sum("messages").alias("messages"),
            percentiles.alias("percentiles"),
            f.max("seconds").alias("max_seconds"),
            f.min("time_ns").alias("first_time"),
            f.max("time_ns").alias("last_time"),
        )
        .orderBy(f.desc("messages"), *_KEYS[by])
        .limit(top)
        .collect()
    )
    return [_with_percentiles(row.asDict()) for row in found]


def _rounded(seconds: "Column") -> "Column":
    from pyspark.sql import functions as f  # noqa: PLC0415 - loaded with the session

    rounded = f.exp(f.round(f.log(seconds) * _STEPS) / _STEPS)
    return f.when(seconds > 0, rounded).otherwise(seconds)


def _with_percentiles(row: dict[str, Any]) -> Row:
    found, most = row.pop("percentiles") or (), row["max_seconds"]
    names = (f"p{round(share * 100)}_seconds" for share in _SHARES)
    return {**row, **{name: min(one, most) for name, one in zip(names, found, strict=False)}}


def slowest_records(records: "DataFrame", count: int) -> list[Row]:
    """Return the records with the longest durations."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - loaded with the session

    names = ("topic", "partition", "first", "end", "group", "member", "event", "attempt", "messages", "seconds")
    found = (
        records.where("seconds is not null")
        .orderBy(f.desc("seconds"), "time_ns", "topic", "partition", "first")
        .limit(count)
        .select(*names, f.col("time_ns").alias("last_time"))
        .collect()
    )
    rows = [row.asDict() for row in found]
    return [{**row, "message": f"{row['topic']}/{row['partition']}@{row['first']}"} for row in rows]


def trace_files(context: InspectionContext) -> list[str]:
    logs = context.logs
    if not isinstance(logs, DirectoryLogs):
        raise RequestInvalid(
            "trace files are read from a data directory, and a broker or a backup was named",
            hint="name its data directory, or ask the broker: goqueue-cli trace search",
        )
    directory = os.path.join(os.path.abspath(logs.name), DIRECTORY)
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    return [f"file:{directory}/{name}" for name in names if name.endswith(".jsonl")]


def inspect(context: InspectionContext, by: By, slowest: int | None, top: int) -> Report:
    from pyspark.sql import functions as f  # noqa: PLC0415 - loaded with the session

    paths = trace_files(context)
    if not paths:
        return Report([], warnings=["there are no trace files"])
    start_ns, end_ns = context.time_range
    with context.session(context.plan) as spark:
        records = read_records(spark, paths)
        if context.topics:
            records = records.where(f.col("topic").isin(*context.topics))
        if start_ns is not None:
            records = records.where(f.col("time_ns") >= start_ns)
        if end_ns is not None:
            records = records.where(f.col("time_ns") < end_ns)
        if slowest is not None:
            names = ("message", "messages", "group", "member", "event", "attempt", "seconds", "last_time")
            return Report(slowest_records(records, slowest), fields=names)
        rows = count_events(records, by, top)
    report = Report(rows, fields=(*_KEYS[by], *TRACES.table[3:]))
    report.notes.append(f"{format_count(len(paths), 'trace file')} read")
    if len(rows) == top:
        report.warnings.append(f"the largest {format_count(top)} are shown; --top {top * 10} shows more")
    return report
