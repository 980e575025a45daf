"""Messages that were published more than once: the same key and the same value, in one topic.

Spark counts them by two checksums of 96 bits together, so that values do not travel. Tombstones are no repetition:
to delete twice means what to delete once means. Neither are control records.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from goqueue.spark.columns import schema_of
from goqueue.spark.extract import Extract
from goqueue.spark.inspections.inspection import TIME, Row, schema
from goqueue.spark.jobs import as_frame, on_each
from goqueue.spark.logs.port import Logs
from goqueue.spark.plan import Plan
from goqueue.spark.reading import Split

if TYPE_CHECKING:
    from pyspark.sql import Observation, SparkSession

_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")
REPEATS_MAX = 10_000
"""That are named: the key of each is looked up in the log."""
SCHEMA = schema(
    topic=pa.string(),
    key=pa.binary(),
    value_bytes=pa.int64(),
    copies=pa.int64(),
    first_partition=pa.int32(),
    first_offset=pa.int64(),
    first_time=TIME,
    last_partition=pa.int32(),
    last_offset=pa.int64(),
    last_time=TIME,
)
"""Of what `rows` makes."""
_PLACES = 1 << 52
"""A partition and an offset as one number: an offset that passes this would take a century to reach."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """One content. Its first place is the lowest offset in the lowest partition, its last one the highest of all."""

    topic: str
    key: bytes | None
    value_bytes: int
    copies: int
    first_partition: int
    first_offset: int
    first_time_us: int
    last_partition: int
    last_offset: int
    last_time_us: int


@dataclass(frozen=True, slots=True)
class Repeats:
    contents: int
    """That were published more than once."""
    copies: int
    """Messages that a reader would not miss."""
    most: list[Repeat]


@dataclass(frozen=True, slots=True)
class _Rows:
    logs: Logs

    def __call__(self, split: Split) -> Iterator[pa.RecordBatch]:
        yield from Extract(self.logs, _COLUMNS, fails_on_loss=False).batches(split)


@dataclass(frozen=True, slots=True)
class _KeyLook:
    """The key of the message that a split of one offset holds."""

    logs: Logs

    def __call__(self, split: Split) -> bytes | None:
        batches = Extract(self.logs, ("key",), fails_on_loss=False).batches(split)
        found: list[bytes | None] = [key for batch in batches for key in batch.column(0).to_pylist()]
        return found[0] if found else None


def find_repeats(spark: "SparkSession", logs: Logs, plan: Plan, splits: Sequence[Split], most: int) -> Repeats:
    """Those with the most copies, and how many there are in all.

    Only numbers are added up, which Spark does without sorting; keys are looked up at the end, of those that are told.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - loaded with the session

    if not splits:
        return Repeats(0, 0, [])
    place = f.col("partition").cast("long") * _PLACES + f.col("offset")
    time = f.unix_micros("timestamp")
    rows = as_frame(spark, splits, _Rows(logs), schema_of(_COLUMNS)).where("value IS NOT NULL")
    counted = (
        rows.groupBy("topic", f.xxhash64("key", "value").alias("one"), f.crc32("value").alias("other"))
        .agg(
            f.count("*").alias("copies"),
            f.max(f.octet_length("value")).alias("value_bytes"),
            f.min(place).alias("first_place"),
            f.max(place).alias("last_place"),
            f.min(time).alias("first_time"),
            f.max(time).alias("last_time"),
        )
        .where("copies > 1")
    )
    total = _observation()
    watched = counted.observe(total, f.count("*").alias("contents"), f.sum(f.col("copies") - 1).alias("copies"))
    found = watched.orderBy(f.desc("copies"), "topic", "first_place").limit(most).collect()
    looked_up = on_each(spark, [_one_message(plan, row["topic"], row["first_place"]) for row in found], _KeyLook(logs))
    sums = total.get
    return Repeats(
        sums["contents"] or 0, sums["copies"] or 0, [_repeat(*pair) for pair in zip(found, looked_up, strict=True)]
    )


def _one_message(plan: Plan, topic: str, place: int) -> Split:
    partition, offset = divmod(place, _PLACES)
    log = next(one for one in plan.ranges if one.place == (topic, partition))
    held = tuple(one for one in log.view.segments if one.base_offset <= offset < one.next_offset)
    return Split(topic, partition, offset, offset + 1, 1, held)


def _repeat(row: Any, key: bytes | None) -> Repeat:
    first_partition, first_offset = divmod(row["first_place"], _PLACES)
    last_partition, last_offset = divmod(row["last_place"], _PLACES)
    return Repeat(
        topic=row["topic"],
        key=key,
        value_bytes=row["value_bytes"],
        copies=row["copies"],
        first_partition=first_partition,
        first_offset=first_offset,
        first_time_us=row["first_time"],
        last_partition=last_partition,
        last_offset=last_offset,
        last_time_us=row["last_time"],
    )


def _observation() -> "Observation":
    from pyspark.sql import Observation  # noqa: PLC0415

    return Observation()


def rows(found: Sequence[Repeat]) -> list[Row]:
    return [
        {
            "topic": one.topic,
            "key": one.key,
            "value_bytes": one.value_bytes,
            "copies": one.copies,
            "first_partition": one.first_partition,
            "first_offset": one.first_offset,
            "first_time": one.first_time_us * 1000,
            "last_partition": one.last_partition,
            "last_offset": one.last_offset,
            "last_time": one.last_time_us * 1000,
        }
        for one in found
    ]
