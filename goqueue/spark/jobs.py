"""Work on all splits, one task each: for what does not pass rows through the JVM.

An inspection looks at the frames of a split where they are, and hands back a few rows or a small object. Their sum is
made on the driver; where it could be large, the rows are a DataFrame, and Spark makes it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from goqueue.spark.failure import carried
from goqueue.spark.plan import gathered
from goqueue.spark.reading import Split

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")


def on_each(spark: "SparkSession", splits: Sequence[Split], look: Callable[[Split], T]) -> list[T]:
    """What `look` makes of each split, in their order. It runs on executors, so it and its result travel."""
    if not splits:
        return []
    if _is_remote(spark):
        return _through_frames(spark, splits, look)

    def task(group: tuple[Split, ...]) -> list[T]:
        with carried():
            return [look(split) for split in group]

    groups = gathered(splits)
    found: list[T] = spark.sparkContext.parallelize(groups, len(groups)).flatMap(task).collect()
    return found


def as_frame(
    spark: "SparkSession",
    splits: Sequence[Split],
    look: "Callable[[Split], Iterable[pa.RecordBatch]]",
    schema: "pa.Schema",
) -> "DataFrame":
    """The record batches that `look` makes of each split, as one frame."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - loaded with the session

    groups = gathered(splits)

    def tasks(numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        with carried():
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    for split in groups[number]:
                        yield from look(split)

    numbered = spark.range(0, len(groups), 1, max(1, len(groups)))
    return numbered.mapInArrow(tasks, from_arrow_schema(schema))


def _through_frames(spark: "SparkSession", splits: Sequence[Split], look: Callable[[Split], T]) -> list[T]:
    """A Connect server has no RDDs: the results travel as bytes."""
    import pickle  # noqa: PLC0415 - our own results, from executors of our own

    import pyarrow as pa  # noqa: PLC0415

    order = {split: number for number, split in enumerate(splits)}

    def pickled(split: Split) -> "Iterator[pa.RecordBatch]":
        yield pa.record_batch([pa.array([order[split]]), pa.array([pickle.dumps(look(split))])], names=["n", "result"])

    schema = pa.schema([pa.field("n", pa.int64()), pa.field("result", pa.binary())])
    rows = sorted(as_frame(spark, splits, pickled, schema).collect(), key=lambda row: row["n"])
    return [pickle.loads(row["result"]) for row in rows]  # noqa: S301


def _is_remote(spark: "SparkSession") -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
