"""The same rows as Spark's own formats have them, written by Spark from the log."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.suite import Bench
from benchmarks.spark import stage
from benchmarks.spark.stock import TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARE_OF_LINES = 4
"""Lines hold so many times fewer messages, since they take so many times longer; rates are compared."""
ALL = "key, value, topic, partition, offset, timestamp, timestampType, priority"
TWO = "offset, timestamp"
VALUE = "value"
_IN_LINES = (
    "key STRING, value STRING, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT, priority STRING"
)


def goqueue(spark: "SparkSession", bench: Bench, columns: str = ALL, share: float = 1.0) -> "DataFrame":
    logs = stage.log(bench)
    ends: dict[str, int] = {str(one.ref[1]): one.end for one in stage.plan_of(logs, share).ranges}
    reader = spark.read.format("goqueue").option("path", logs.name).option("subscribe", TOPIC)
    return reader.option("columns", columns).option("endingOffsets", json.dumps({TOPIC: ends})).load()


def parquet(spark: "SparkSession", bench: Bench) -> "DataFrame":
    def make(path: Path) -> None:
        goqueue(spark, bench).write.parquet(str(path))

    return spark.read.parquet(str(stage.shared(bench, "parquet", make)))


def json_lines(spark: "SparkSession", bench: Bench, columns: str = ALL) -> "DataFrame":
    """With their schema given: to find it out would take as long as to read all."""

    def make(path: Path) -> None:
        few = goqueue(spark, bench, share=1 / SHARE_OF_LINES)
        few.selectExpr("string(key)", "string(value)", *ALL.split(", ")[2:]).write.json(str(path))

    wanted = [one for one in _IN_LINES.split(", ") if one.split()[0] in columns.split(", ")]
    return spark.read.schema(", ".join(wanted)).json(str(stage.shared(bench, "lines.json", make)))


def text(spark: "SparkSession", bench: Bench) -> "DataFrame":
    """A line a value."""

    def make(path: Path) -> None:
        goqueue(spark, bench, VALUE, 1 / SHARE_OF_LINES).selectExpr("string(value)").write.text(str(path))

    return spark.read.text(str(stage.shared(bench, "lines.txt", make)))
