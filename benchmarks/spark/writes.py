"""Rows on their way out of a log and into one, with a real broker where one is written to."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import GoQueue
from benchmarks.harness.suite import Bench, Figure, Sample, at_least, measurement
from benchmarks.spark import remote, stage, tables
from benchmarks.spark.inspections import RATE, REPEATS
from benchmarks.spark.stock import PARTITIONS, TOPIC
from benchmarks.storage.stock import Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SHARE_OF_FEW = 8  # one in so many of all
STREAMED, STREAMED_QUICK = 2_000_000, 100_000
EXPORT, PUBLISH, STREAM = "export to Parquet, GoQueue", "write rows, GoQueue", "stream, GoQueue"


@measurement(EXPORT, Figure(RATE, budget=at_least(1_500_000), is_total=True), repeats=REPEATS)
def export(bench: Bench) -> Iterator[Sample]:
    """In directories by day and topic, as the command does it."""
    with stage.spark() as spark:
        from goqueue.spark.transfer.export import ExportRequest, export  # noqa: PLC0415 - it loads pyspark

        logs = stage.log(bench)
        plan = stage.plan_of(logs)
        while True:
            path = bench.room()
            watch = Stopwatch()
            written = export(spark, logs, plan, ExportRequest(path))
            seconds = watch.seconds()
            assert written.rows == plan.messages, f"{written.rows} rows instead of {plan.messages}"
            yield written.rows / seconds
            bench.clear(path)


@measurement("export to Parquet, Parquet", Figure(RATE), repeats=REPEATS, ours=EXPORT)
def export_parquet(bench: Bench) -> Iterator[Sample]:
    yield from _exported(bench, tables.parquet, 1)


@measurement("export to Parquet, JSON lines", Figure(RATE), repeats=REPEATS, ours=EXPORT)
def export_json(bench: Bench) -> Iterator[Sample]:
    yield from _exported(bench, tables.json_lines, tables.SHARE_OF_LINES)


def _exported(bench: Bench, table: "Callable[[SparkSession, Bench], DataFrame]", rows_less: int) -> Iterator[Sample]:
    """By Spark, in the same directories and with the same compression."""
    with stage.spark() as spark:
        rows = table(spark, bench).selectExpr("*", "date(timestamp) AS day")
        while True:
            path = bench.room()
            watch = Stopwatch()
            rows.write.option("compression", "zstd").partitionBy("day", "topic").parquet(path)
            yield stage.messages(bench) / rows_less / watch.seconds()
            bench.clear(path)


@measurement(PUBLISH, Figure(RATE, budget=at_least(300_000), is_total=True), repeats=REPEATS)
def publish(bench: Bench) -> Iterator[Sample]:
    """Keys and values of a table into a broker, all durable at the end."""
    broker = GoQueue()
    with running(broker, bench.room()), stage.spark() as spark:
        rows, count = _few(spark, bench)
        for number in range(REPEATS):
            topic = f"{TOPIC}-{number}"
            broker.create(topic, PARTITIONS)
            writer = rows.write.format("goqueue").option("goqueue.url", remote.url(broker)).option("topic", topic)
            watch = Stopwatch()
            writer.mode("append").save()
            yield count / watch.seconds()
            assert broker.client.topic(topic).total_messages == count, "every row is a message"


@measurement("write rows, JSON lines", Figure(RATE), repeats=REPEATS, ours=PUBLISH)
def write_json(bench: Bench) -> Iterator[Sample]:
    """The same rows into files, which nothing syncs."""
    with stage.spark() as spark:
        rows, count = _few(spark, bench)
        while True:
            path = bench.room()
            watch = Stopwatch()
            rows.selectExpr("string(key)", "string(value)").write.json(path)
            yield count / watch.seconds()
            bench.clear(path)


def _few(spark: "SparkSession", bench: Bench) -> "tuple[DataFrame, int]":
    """Keys and values of some of the messages, as a table, and how many they are."""
    return spark.read.parquet(_few_path(spark, bench)), stage.messages(bench) // SHARE_OF_FEW


def _few_path(spark: "SparkSession", bench: Bench) -> str:
    def make(path: Path) -> None:
        few = tables.goqueue(spark, bench, "key, value", 1 / SHARE_OF_FEW)
        few.repartition(PARTITIONS).write.parquet(str(path))

    return str(stage.shared(bench, "few", make))


@measurement(STREAM, Figure(RATE, budget=at_least(150_000), is_total=True), repeats=REPEATS)
def stream(bench: Bench) -> Iterator[Sample]:
    """From one topic of a broker into another, until all that was there is copied."""
    broker, count = GoQueue(), bench.size(STREAMED, STREAMED_QUICK)
    with running(broker, bench.room()), stage.spark() as spark:
        remote.publish(broker, count)
        read = spark.readStream.format("goqueue").option("goqueue.url", remote.url(broker)).option("subscribe", TOPIC)
        rows = read.option("startingOffsets", "earliest").option("columns", "key, value").load()
        for number in range(REPEATS):
            topic = f"copy-{number}"
            broker.create(topic, PARTITIONS)
            writer = rows.writeStream.format("goqueue").option("goqueue.url", remote.url(broker))
            yield count / _streamed(bench, writer.option("topic", topic))
            assert broker.client.topic(topic).total_messages == count, "every message is copied once"


@measurement("stream, Parquet", Figure(RATE), repeats=REPEATS, ours=STREAM)
def stream_files(bench: Bench) -> Iterator[Sample]:
    """From files into files."""
    with stage.spark() as spark:
        table, count = _few(spark, bench)
        rows = spark.readStream.schema(table.schema).parquet(_few_path(spark, bench))
        while True:
            path = bench.room()
            yield count / _streamed(bench, rows.writeStream.format("parquet").option("path", path))
            bench.clear(path)


def _streamed(bench: Bench, writer: "DataStreamWriter") -> float:
    """The seconds of a query that ends when it has read what was there."""
    watch = Stopwatch()
    query = writer.option("checkpointLocation", bench.room()).trigger(availableNow=True).start()
    query.awaitTermination()
    return watch.seconds()
