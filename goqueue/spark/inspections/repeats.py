"""Messages that were published more than once: the same key and the same value, in one topic.

Spark counts them by two checksums of 96 bits together, so that values do not travel. Tombstones are no repetition:
to delete twice means what to delete once means. Neither are control records.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from goqueue.quantities import format_count
from goqueue.spark.inspections.inspection import InspectionContext, Report, Row, names
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import Split
from goqueue.spark.reading.columns import schema_of
from goqueue.spark.reading.plan import ReadPlan
from goqueue.spark.reading.tasks import Extract, run_on_splits, splits_to_frame

if TYPE_CHECKING:
    from pyspark.sql import Observation, SparkSession

_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")
_TABLE = names(
    "copies topic key value_bytes first last first_time last_time "
    "-first_partition -first_offset -last_partition -last_offset"
)
_PLACES = 1 << 52
"""A partition and an offset as one number: an offset that passes this would take a century to reach."""


@dataclass(frozen=True, slots=True)
class RepeatedContent:
    """One content. Its first place is the lowest offset in the lowest partition, its last one the highest of all."""

    topic: str
    key: bytes | None
    value_bytes: int
    copies: int
    first_partition: int
    first_offset: int
    first_time: int
    last_partition: int
    last_offset: int
    last_time: int


@dataclass(frozen=True, slots=True)
class Repeats:
    contents: int
    """That were published more than once."""
    copies: int
    """Messages that a reader would not miss."""
    most: list[RepeatedContent]


@dataclass(frozen=True, slots=True)
class _Rows:
    logs: LogSource

    def __call__(self, split: Split) -> Iterator[pa.RecordBatch]:
        yield from Extract(self.logs, _COLUMNS, fails_on_loss=False).batches(split)


@dataclass(frozen=True, slots=True)
class _KeyLookup:
    """The key of the message that a split of one offset holds."""

    logs: LogSource

    def __call__(self, split: Split) -> bytes | None:
        batches = Extract(self.logs, ("key",), fails_on_loss=False).batches(split)
        found: list[bytes | None] = [key for batch in batches for key in batch.column(0).to_pylist()]
        return found[0] if found else None


def find_repeats(spark: "SparkSession", logs: LogSource, plan: ReadPlan, splits: Sequence[Split], most: int) -> Repeats:
    """Find the contents with the most copies, and count all.

    Only numbers are added up, which Spark does without sorting; keys are looked up at the end, of those that are told.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - loaded with the session

    if not splits:
        return Repeats(0, 0, [])
    number = f.col("partition").cast("long") * _PLACES + f.col("offset")
    time = f.unix_micros("timestamp")
    rows = splits_to_frame(spark, splits, _Rows(logs), schema_of(_COLUMNS)).where("value IS NOT NULL")
    counted = (
        rows.groupBy("topic", f.xxhash64("key", "value").alias("one"), f.crc32("value").alias("other"))
        .agg(
            f.count("*").alias("copies"),
            f.max(f.octet_length("value")).alias("value_bytes"),
            f.min(number).alias("first_place"),
            f.max(number).alias("last_place"),
            f.min(time).alias("first_time"),
            f.max(time).alias("last_time"),
        )
        .where("copies > 1")
    )
    total = _observation()
    watched = counted.observe(total, f.count("*").alias("contents"), f.sum(f.col("copies") - 1).alias("copies"))
    found = watched.orderBy(f.desc("copies"), "topic", "first_place").limit(most).collect()
    looked_up = run_on_splits(
        spark, [_one_message(plan, row["topic"], row["first_place"]) for row in found], _KeyLookup(logs)
    )
    sums = total.get
    return Repeats(
        sums["contents"] or 0, sums["copies"] or 0, [_repeat(*pair) for pair in zip(found, looked_up, strict=True)]
    )


def _one_message(plan: ReadPlan, topic: str, number: int) -> Split:
    partition, offset = divmod(number, _PLACES)
    log = next(one for one in plan.ranges if one.ref == (topic, partition))
    held = tuple(one for one in log.view.segments if one.base_offset <= offset < one.next_offset)
    return Split(topic, partition, offset, offset + 1, 1, held)


def _repeat(row: Any, key: bytes | None) -> RepeatedContent:
    first_partition, first_offset = divmod(row["first_place"], _PLACES)
    last_partition, last_offset = divmod(row["last_place"], _PLACES)
    return RepeatedContent(
        topic=row["topic"],
        key=key,
        value_bytes=row["value_bytes"],
        copies=row["copies"],
        first_partition=first_partition,
        first_offset=first_offset,
        first_time=row["first_time"] * 1000,
        last_partition=last_partition,
        last_offset=last_offset,
        last_time=row["last_time"] * 1000,
    )


def _observation() -> "Observation":
    from pyspark.sql import Observation  # noqa: PLC0415

    return Observation()


def rows(found: Sequence[RepeatedContent]) -> list[Row]:
    return [
        {
            **asdict(one),
            "first": f"{one.first_partition}/{one.first_offset}",
            "last": f"{one.last_partition}/{one.last_offset}",
        }
        for one in found
    ]


def inspect(context: InspectionContext, most: int) -> Report:
    plan = context.plan
    with context.session(plan, is_brief=False) as spark:
        found = find_repeats(spark, context.logs, plan, plan.splits(context.logs), most)
    note = (
        f"{format_count(found.contents, 'content')} published more than once: "
        f"{format_count(found.copies, 'redundant message')}"
    )
    return Report(rows(found.most), plan, _TABLE, notes=[note])
