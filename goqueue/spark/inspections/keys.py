"""Which keys there are, and how much of a log each one makes.

A task counts the keys of a run where they stand, as Arrow's dictionary of them, and hands over what it has counted
as soon as that would take too much memory; Spark adds up. So few keys are never more than a handful of rows, and
any number of them passes through.

With `approx` each core passes on its most frequent keys alone, and how many there are is estimated. What it leaves
out of a key is at most what it had counted of it when it was left out, which is little for a key that matters.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.limits import MIB
from goqueue.quantities import format_count
from goqueue.spark.inspections.inspection import Chart, InspectionContext, Report, Row, format_key, format_percent
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import FrameRun, Split
from goqueue.spark.logs.visibility import read_messages
from goqueue.spark.reading.columns import FrameBatch, keys
from goqueue.spark.reading.tasks import splits_to_frame
from goqueue.storage import frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

APPROX_ERROR = 0.02
"""Of the estimated number of keys, as a standard deviation."""
_HELD_ROWS = 200_000
_HELD_BYTES = 32 * MIB
_BATCH_ROWS = 16_384

OF_KEY, WITHOUT_KEY, LEFT_OUT = 0, 1, 2
"""What a row counts: one key, messages without any, or keys that are not told apart."""

_SUMS = ("messages", "bytes", "tombstones")
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("kind", pa.int32()),
        pa.field("key", pa.binary()),
        *(pa.field(name, pa.int64()) for name in _SUMS),
    ]
)
_COUNTED = pa.schema([SCHEMA.field(name) for name in ("key", *_SUMS)])


@dataclass(frozen=True, slots=True)
class KeyCount:
    """One of the most frequent keys."""

    topic: str
    key: bytes
    messages: int
    bytes: int
    tombstones: int
    partition: int
    """The one with most of it."""
    partitions: int


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """The key counts of a partition."""

    topic: str
    partition: int
    messages: int
    bytes: int
    tombstones: int
    without_key: int


@dataclass(frozen=True, slots=True)
class KeyCounts:
    partitions: list[PartitionKeys]
    top: list[KeyCount]
    distinct: int
    is_estimate: bool

    @property
    def messages(self) -> int:
        return sum(one.messages for one in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.partitions)

    @property
    def without_key(self) -> int:
        return sum(one.without_key for one in self.partitions)

    @property
    def tombstones(self) -> int:
        return sum(one.tombstones for one in self.partitions)

    @property
    def hottest(self) -> PartitionKeys | None:
        return max(self.partitions, key=lambda one: one.messages, default=None)


@dataclass(frozen=True, slots=True)
class KeyScan:
    """The work of a task."""

    logs: LogSource

    def __call__(self, split: Split) -> Iterator[pa.RecordBatch]:
        held: list[pa.Table] = []
        rows = size = 0
        for piece in read_messages(self.logs, split):
            if not isinstance(piece, FrameRun):
                continue
            counted = _counted(FrameBatch(split.topic, split.partition, piece))
            held.append(counted)
            rows, size = rows + len(counted), size + counted.nbytes
            if rows >= _HELD_ROWS or size >= _HELD_BYTES:
                merged = _merged(held)
                held, rows, size = [merged], len(merged), merged.nbytes
                if rows >= _HELD_ROWS // 2 or size >= _HELD_BYTES // 2:
                    yield from _batches(split, merged)
                    held, rows, size = [], 0, 0
        if held:
            yield from _batches(split, _merged(held))


def _counted(batch: FrameBatch) -> pa.Table:
    """Count the keys of a run; no key is null."""
    frames = batch.frames
    coded = keys(batch).dictionary_encode(null_encoding="encode")
    codes, count = coded.indices.to_numpy(), len(coded.dictionary)
    flags, lengths = frames.flags, frames.lengths
    if batch.run.dropped is not None:
        real = batch.run.real
        codes, flags, lengths = codes[real], flags[real], lengths[real]
    tombstones = (flags & frame.TOMBSTONE) != 0
    sums = (
        np.bincount(codes, minlength=count),
        np.bincount(codes, lengths, count).astype(np.int64),
        np.bincount(codes[tombstones], minlength=count),
    )
    table = pa.Table.from_arrays([coded.dictionary, *map(pa.array, sums)], schema=_COUNTED)
    return table.filter(pc.field("messages") > 0) if batch.run.dropped is not None else table


def _merged(tables: list[pa.Table]) -> pa.Table:
    if len(tables) == 1:
        return tables[0]
    together = pa.concat_tables(tables).group_by("key", use_threads=False)
    merged = together.aggregate([(name, "sum") for name in _SUMS])
    return merged.select(["key", *(f"{name}_sum" for name in _SUMS)]).cast(
        pa.schema([pa.field("key", pa.binary()), *(pa.field(f"{name}_sum", pa.int64()) for name in _SUMS)])
    ).rename_columns(_COUNTED.names)  # fmt: skip


def _batches(split: Split, counted: pa.Table) -> Iterator[pa.RecordBatch]:
    for batch in counted.to_batches(max_chunksize=_BATCH_ROWS):
        count = len(batch)
        yield pa.record_batch(
            [
                pa.repeat(pa.scalar(split.topic), count),
                pa.array(np.full(count, split.partition, np.int32)),
                batch.column("key").is_null().cast(pa.int32()),
                *batch.columns,
            ],
            schema=SCHEMA,
        )


@dataclass(frozen=True, slots=True)
class KeepFrequentKeys:
    """Keep the most frequent keys of each partition, of all that passes here; the others as one row together."""

    keep: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held, rows = pa.Table.from_batches([], SCHEMA), 0
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            rows += len(batch)
            if rows >= 2 * self.keep:
                held, rows, waiting = self._pruned(held, waiting), 0, []
        yield from self._pruned(held, waiting).to_batches(max_chunksize=_BATCH_ROWS)

    def _pruned(self, held: pa.Table, waiting: list[pa.RecordBatch]) -> pa.Table:
        table = _summed(pa.concat_tables([held, pa.Table.from_batches(waiting, SCHEMA)]))
        if len(table) <= self.keep:
            return table
        is_key = pc.equal(table["kind"], OF_KEY)
        named, others = table.filter(is_key), table.filter(pc.invert(is_key))
        order = pc.sort_indices(named, [("messages", "descending")])
        rest = named.take(order[self.keep :])
        left_out = rest.set_column(2, SCHEMA.field("kind"), pa.array(np.full(len(rest), LEFT_OUT, np.int32)))
        left_out = left_out.set_column(3, SCHEMA.field("key"), pa.nulls(len(rest), pa.binary()))
        return pa.concat_tables([named.take(order[: self.keep]), _summed(pa.concat_tables([others, left_out]))])


def _summed(table: pa.Table) -> pa.Table:
    names = SCHEMA.names[:4]
    summed = table.group_by(names, use_threads=False).aggregate([(name, "sum") for name in _SUMS])
    return summed.select([*names, *(f"{name}_sum" for name in _SUMS)]).rename_columns(SCHEMA.names)


def key_frame(spark: "SparkSession", logs: LogSource, splits: Sequence[Split]) -> "DataFrame":
    """Return the counts of all tasks; the same key may be in many rows."""
    return splits_to_frame(spark, splits, KeyScan(logs), SCHEMA)


def added_up(counted: "DataFrame") -> "DataFrame":
    """Sum the rows of each key of each partition."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - loaded with the session

    return counted.groupBy("topic", "partition", "kind", "key").agg(*(f.sum(name).alias(name) for name in _SUMS))


def partitions_of(added: "DataFrame") -> list[PartitionKeys]:
    from pyspark.sql import functions as f  # noqa: PLC0415

    without = f.sum(f.when(f.col("kind") == WITHOUT_KEY, f.col("messages")).otherwise(0)).alias("without_key")
    sums = added.groupBy("topic", "partition").agg(*(f.sum(name).alias(name) for name in _SUMS), without)
    return [PartitionKeys(**row.asDict()) for row in sums.orderBy("topic", "partition").collect()]


def count_keys(
    spark: "SparkSession", logs: LogSource, splits: Sequence[Split], top: int, *, approx: bool = False
) -> KeyCounts:
    """Return the `top` keys, and the sums to compare them with."""
    if not splits:
        return KeyCounts([], [], 0, is_estimate=approx)
    from pyspark.sql import functions as f  # noqa: PLC0415

    counted = key_frame(spark, logs, splits)
    seen = _observation()
    if approx:
        name = f.when(f.col("kind") == OF_KEY, f.xxhash64("topic", "key"))
        counted = counted.observe(seen, f.approx_count_distinct(name, APPROX_ERROR).alias("keys"))
        counted = counted.mapInArrow(KeepFrequentKeys(max(10_000, 50 * top)), counted.schema)
    added = added_up(counted).persist()
    try:
        partitions = partitions_of(added)
        named = _by_key(added)
        if not approx:
            named = named.observe(seen, f.count("*").alias("keys"))
        found = named.orderBy(f.desc("messages"), "topic", "key").limit(top).collect()
    finally:
        added.unpersist()
    return KeyCounts(partitions, [_key(row) for row in found], seen.get["keys"], is_estimate=approx)


def _by_key(added: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f  # noqa: PLC0415

    sums = (f.sum(name).alias(name) for name in _SUMS)
    most = (-f.max(f.struct("messages", (-f.col("partition")).alias("last")))["last"]).alias("partition")
    return (
        added.where(f.col("kind") == OF_KEY).groupBy("topic", "key").agg(*sums, most, f.count("*").alias("partitions"))
    )


def _key(row: Any) -> KeyCount:
    return KeyCount(**{**row.asDict(), "key": bytes(row["key"])})


def _observation() -> "Observation":
    from pyspark.sql import Observation  # noqa: PLC0415

    return Observation()


def rows(found: KeyCounts) -> list[Row]:
    """Make rows with the share of all messages, including those without a key."""
    return [{**asdict(one), "share": one.messages / found.messages} for one in found.top]


def inspect(context: InspectionContext, top: int, approx: bool) -> Report:
    plan = context.plan
    splits = plan.splits(context.logs)
    found = KeyCounts([], [], 0, is_estimate=approx)
    if splits:
        with context.session(plan, is_brief=False) as spark:
            found = count_keys(spark, context.logs, splits, top, approx=approx)
    chart = Chart(
        f"Messages of the {format_count(len(found.top), 'most frequent key')}",
        [format_key(one.key) for one in found.top],
        [one.messages for one in found.top],
        "messages",
    )
    return Report(rows(found), plan, bar="messages", notes=_notes(found) if found.messages else [], chart=chart)


def _notes(found: KeyCounts) -> list[str]:
    about = "about " if found.is_estimate else ""
    share = format_percent(sum(one.messages for one in found.top) / found.messages)
    notes = [
        f"{format_count(found.messages, 'message')} with {about}{format_count(found.distinct, 'different key')}; "
        f"{share} of them have the keys above",
        f"{format_count(found.without_key, 'message')} without a key, {format_count(found.tombstones, 'tombstone')}",
    ]
    hottest = found.hottest
    if hottest is not None and len(found.partitions) > 1:
        share = format_percent(hottest.messages / found.messages)
        notes.append(f"the largest partition is {hottest.topic}/{hottest.partition}, with {share} of the messages")
    return notes
