"""Cost of inspections, and of the same questions in other formats.

GoQueue verifies every frame on the way. The others are asked as one would: with the functions of Spark.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.suite import Bench, Figure, Measurement, Sample, at_least, at_most, measurement
from benchmarks.spark import stage, tables
from benchmarks.spark.stock import ONE_SEGMENT, make_log
from benchmarks.storage.stock import Stopwatch
from goqueue.spark.inspections import keys, summary, timeline
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.logs.port import LogSource
from goqueue.spark.reading.plan import ReadPlan
from goqueue.spark.reading.tasks import run_on_splits

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RATE = "messages/s"
REPEATS = 3
TOP = 20
QUESTIONS = ("summary", "timeline", "top keys")
GROWTH_MOST = 1.25
Question = Callable[["SparkSession", LogSource, ReadPlan], int]


def summarised(spark: "SparkSession", logs: LogSource, plan: ReadPlan) -> int:
    splits = plan.splits(logs)
    parts = summary.summarize(plan, zip(splits, run_on_splits(spark, splits, summary.SummaryScan(logs)), strict=True))
    return sum(part.content.messages for part in parts)


def over_time(spark: "SparkSession", logs: LogSource, plan: ReadPlan) -> int:
    span = timeline.time_span(logs, plan)
    assert span is not None, "there are messages"
    found = timeline.count_by_bucket(spark, logs, plan.splits(logs), timeline.bucket_for(*span))
    return sum(one.messages for one in found)


def by_key(spark: "SparkSession", logs: LogSource, plan: ReadPlan) -> int:
    return keys.count_keys(spark, logs, plan.splits(logs), TOP).messages


def rate(question: Question, spark: "SparkSession", logs: LogSource, plan: ReadPlan) -> float:
    watch = Stopwatch()
    found = question(spark, logs, plan)
    seconds = watch.seconds()
    assert found == plan.messages, f"{found} messages instead of {plan.messages}"
    return found / seconds


@measurement(
    "inspect, GoQueue",
    Figure(RATE, QUESTIONS[0], budget=at_least(10_000_000), is_total=True),
    Figure(RATE, QUESTIONS[1], budget=at_least(10_000_000), is_total=True),
    Figure(RATE, QUESTIONS[2], budget=at_least(8_000_000), is_total=True),
    repeats=REPEATS,
)
def ours(bench: Bench) -> Iterator[Sample]:
    logs = stage.log(bench)
    plan = stage.plan_of(logs)
    with stage.spark(is_brief=True) as spark:
        while True:
            yield tuple(rate(one, spark, logs, plan) for one in (summarised, over_time, by_key))


@measurement(
    "inspect, GoQueue, one segment",
    Figure(RATE, QUESTIONS[0], budget=at_least(10_000_000), is_total=True),
    repeats=REPEATS,
)
def one_segment(bench: Bench) -> Iterator[Sample]:
    """All in one file of 2.5 GB."""
    path = Path(bench.room())
    make_log(path, stage.messages(bench), partitions=1, segment_bytes=ONE_SEGMENT)
    logs = DirectoryLogs.at(str(path))
    plan = stage.plan_of(logs)
    assert sum(len(one.view.segments) for one in plan.ranges) == 1
    with stage.spark(is_brief=True) as spark:
        while True:
            yield rate(summarised, spark, logs, plan)


@measurement(
    "inspect, GoQueue, a sixteenth and all of it",
    Figure("ns/message", "a sixteenth", less_is_better=True),
    Figure("ns/message", "all", less_is_better=True),
    Figure("times", "as much at all of it", budget=at_most(GROWTH_MOST), less_is_better=True, is_total=True),
    repeats=REPEATS,
)
def growth(bench: Bench) -> Iterator[Sample]:
    """A million messages, and sixteen."""
    logs = stage.log(bench)
    part, whole = stage.plan_of(logs, 1 / 16), stage.plan_of(logs)
    with stage.spark(is_brief=True) as spark:
        while True:
            few, many = (1e9 / rate(summarised, spark, logs, plan) for plan in (part, whole))
            yield few, many, many / few


def _compared(name: str, table: "Callable[[SparkSession, Bench], DataFrame]", rows_less: int) -> Measurement:
    @measurement(
        f"inspect, {name}", *(Figure(RATE, one) for one in QUESTIONS), repeats=REPEATS, ours="inspect, GoQueue"
    )
    def measure(bench: Bench) -> Iterator[Sample]:
        count = stage.messages(bench) // rows_less
        with stage.spark() as spark:
            rows = table(spark, bench)
            while True:
                yield tuple(count / _seconds(one, rows) for one in (_summary, _timeline, _top_keys))

    return measure


def _seconds(question: "Callable[[DataFrame], DataFrame]", rows: "DataFrame") -> float:
    watch = Stopwatch()
    assert question(rows).collect()
    return watch.seconds()


def _summary(rows: "DataFrame") -> "DataFrame":
    return rows.groupBy("topic", "partition").agg(
        *map(
            _expression,
            (
                "count(*)",
                "sum(octet_length(value))",
                "count_if(key IS NULL)",
                "min(offset)",
                "max(offset)",
                "min(timestamp)",
                "max(timestamp)",
            ),
        )
    )


def _timeline(rows: "DataFrame") -> "DataFrame":
    hours = rows.groupBy(_expression("date_trunc('hour', timestamp) AS hour"))
    return hours.agg(_expression("count(*)"), _expression("sum(octet_length(value))"))


def _top_keys(rows: "DataFrame") -> "DataFrame":
    counted = rows.groupBy("key").agg(_expression("count(*) AS messages"), _expression("sum(octet_length(value))"))
    return counted.orderBy(_expression("messages DESC")).limit(TOP)


def _expression(text: str) -> "Column":
    from pyspark.sql import functions  # noqa: PLC0415 - loaded with the session

    return functions.expr(text)


peers = (_compared("Parquet", tables.parquet, 1), _compared("JSON lines", tables.json_lines, tables.SHARE_OF_LINES))
