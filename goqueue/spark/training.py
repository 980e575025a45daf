"""Make a class archive: a session that does a little of everything that commands do, while the JVM records it.

`python -m goqueue.spark.training PATH`, started in the background by `class_archive.make_later`.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goqueue.spark.launch.class_archive import make_base, making
from goqueue.spark.launch.java import find_java
from goqueue.spark.launch.jvm import JvmSettings
from goqueue.spark.session import Cluster, start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(path: Path) -> None:
    os.nice(19)
    with making(path) as part:
        if part is not None:
            machine = JvmSettings(is_brief=True, base=make_base(find_java(), path), record=part)
            with start_session(Cluster("local[2]"), "goqueue training", machine) as spark:
                for exercise in _EXERCISES:
                    with suppress(Exception):  # a package may be missing; the rest is worth recording
                        exercise(spark)


def _count_in_tasks(spark: "SparkSession") -> None:
    spark.sparkContext.parallelize(range(2), 2).mapPartitions(lambda rows: [sum(rows)]).collect()


def _count_in_batches(spark: "SparkSession") -> None:
    def counted(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415 - in the worker

        rows = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_arrays([pa.array([rows])], names=["rows"])

    spark.range(0, 100, numPartitions=2).mapInArrow(counted, "rows long").groupBy().sum("rows").collect()


def _query(spark: "SparkSession") -> None:
    spark.range(1000).createOrReplaceTempView("numbers")
    spark.sql(
        "SELECT id % 7 AS k, count(*) AS n FROM numbers WHERE id > 3 GROUP BY 1 ORDER BY 2 DESC LIMIT 3"
    ).collect()
    spark.sql("SELECT * FROM numbers").limit(10).toArrow()


_EXERCISES: tuple[Callable[["SparkSession"], None], ...] = (_count_in_tasks, _count_in_batches, _query)

if __name__ == "__main__":
    main(Path(sys.argv[1]))
