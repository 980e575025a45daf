"""Rows that come out of a log, and out of the same rows in other formats, with nothing done to them."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from benchmarks.harness.suite import Bench, Figure, Sample, at_least, measurement
from benchmarks.spark import stage, tables
from benchmarks.spark.inspections import RATE, REPEATS
from benchmarks.storage.stock import Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS = "read, GoQueue"
CHOICES = {"all columns": tables.ALL, "two columns": tables.TWO, "values alone": tables.VALUE}
Table = Callable[["SparkSession", Bench, str], "DataFrame"]


@measurement(
    OURS,
    Figure(RATE, "all columns", budget=at_least(4_000_000), is_total=True),
    Figure(RATE, "two columns", budget=at_least(8_000_000), is_total=True),
    Figure(RATE, "values alone"),
    repeats=REPEATS,
)
def ours(bench: Bench) -> Iterator[Sample]:
    """Every frame is verified."""
    yield from _taken(bench, tables.goqueue, 1)


@measurement("read, Parquet", *(Figure(RATE, one) for one in CHOICES), repeats=REPEATS, ours=OURS)
def parquet(bench: Bench) -> Iterator[Sample]:
    yield from _taken(bench, lambda spark, bench, columns: _chosen(tables.parquet(spark, bench), columns), 1)


@measurement("read, JSON lines", *(Figure(RATE, one) for one in CHOICES), repeats=REPEATS, ours=OURS)
def json_lines(bench: Bench) -> Iterator[Sample]:
    yield from _taken(bench, tables.json_lines, tables.SHARE_OF_LINES)


@measurement("read, lines of text", Figure(RATE, "values alone"), repeats=REPEATS, ours=OURS)
def text(bench: Bench) -> Iterator[Sample]:
    with stage.spark() as spark:
        rows = tables.text(spark, bench)
        while True:
            yield stage.messages(bench) / tables.SHARE_OF_LINES / seconds(rows)


def _taken(bench: Bench, table: Table, rows_less: int) -> Iterator[Sample]:
    count = stage.messages(bench) / rows_less
    with stage.spark() as spark:
        while True:
            yield tuple(count / seconds(table(spark, bench, columns)) for columns in CHOICES.values())


def _chosen(rows: "DataFrame", columns: str) -> "DataFrame":
    return rows.select(*columns.split(", "))


def seconds(rows: "DataFrame") -> float:
    """Every row is made, and thrown away."""
    watch = Stopwatch()
    rows.write.format("noop").mode("overwrite").save()
    return watch.seconds()
