"""Estimate the gain of compaction: messages superseded by a later one of their key, and expired tombstones.

Each task tells of its part every key once: how many messages and bytes it has, and what its last one is. Spark puts
the parts of a key together, on disk where they are many, so the number of keys is limited by nothing but that.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goqueue.broker.groups.retries import DEAD_LETTER_SUFFIX
from goqueue.clock import NANOSECONDS
from goqueue.limits import TOMBSTONE_GRACE_SECONDS
from goqueue.quantities import format_size
from goqueue.spark.inspections.inspection import InspectionContext, Report, Row, names
from goqueue.spark.inspections.internal_logs import TopicConfiguration, read_topics
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import FrameRun, Split
from goqueue.spark.logs.visibility import read_messages
from goqueue.spark.reading.columns import FrameBatch, keys
from goqueue.spark.reading.plan import ReadPlan
from goqueue.spark.reading.tasks import splits_to_frame
from goqueue.storage import frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEYS_TABLE = names("topic partition key superseded superseded_bytes")
_BRIEF_MESSAGES = 1_000_000  # with more, rows through the JVM are worth its better compiler
_WORTH_COMPACTING = 0.5  # of a topic's bytes, from which on compaction is advised
_KEYS_AT_ONCE = 200_000  # gathered in a task before they are handed to Spark: some tens of MB

_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("key", pa.binary()),
        *(
            pa.field(name, pa.int64())
            for name in ("messages", "bytes", "tombstones", "offset", "latest_bytes", "deleted_ns")
        ),
    ]
)
_PLACE = ["topic", "partition"]

Numbers = NDArray[np.int64]


@dataclass(slots=True)
class _KeyTable:
    """Counts for each key in a part of a log, and its latest message, which is the last one added."""

    keys: pa.Array
    counts: Numbers
    """Messages, bytes and tombstones: a row for each."""
    latest: Numbers
    """Its offset, its bytes, and when it deleted the key: 0 where it did not."""

    def __len__(self) -> int:
        return len(self.keys)


def _gather(keys: pa.Array, counts: Numbers, latest: Numbers) -> _KeyTable:
    """Add up the counts of each key, and keep its latest message."""
    coded = keys.dictionary_encode(null_encoding="encode")
    codes, count = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(coded.dictionary)
    if count == len(codes):
        return _KeyTable(coded.dictionary, counts, latest)
    last = np.empty(count, np.int64)
    last[codes] = np.arange(len(codes))
    sums = np.array([np.bincount(codes, row, count) for row in counts], np.int64)
    return _KeyTable(coded.dictionary, sums, latest[:, last])


@dataclass(frozen=True, slots=True)
class CompactionScan:
    """The work of a task."""

    logs: LogSource

    def __call__(self, split: Split) -> Iterator[pa.RecordBatch]:
        gathered: list[_KeyTable] = []
        for piece in read_messages(self.logs, split):
            if not isinstance(piece, FrameRun):
                continue
            gathered.append(_keys_of(split, piece))
            if sum(map(len, gathered)) > _KEYS_AT_ONCE:
                joined = _joined(gathered)
                gathered = [joined]
                if len(joined) > _KEYS_AT_ONCE // 2:
                    yield _rows(split, joined)
                    gathered = []
        if gathered:
            yield _rows(split, _joined(gathered))


def _keys_of(split: Split, run: FrameRun) -> _KeyTable:
    frames = run.frames
    flags, lengths = frames.flags, frames.lengths
    tombstones = (flags & frame.TOMBSTONE) != 0
    found = keys(FrameBatch(split.topic, split.partition, run))
    counts = np.array([np.ones(len(frames), np.int64), lengths, tombstones])
    latest = np.array([frames.offsets, lengths, np.where(tombstones, frames.timestamps, 0)])
    if run.dropped is not None:
        real = run.real
        found, counts, latest = found.filter(pa.array(real)), counts[:, real], latest[:, real]
    return _gather(found, counts, latest)


def _joined(parts: Sequence[_KeyTable]) -> _KeyTable:
    if len(parts) == 1:
        return parts[0]
    return _gather(
        pa.concat_arrays([one.keys for one in parts]),
        np.concatenate([one.counts for one in parts], axis=1),
        np.concatenate([one.latest for one in parts], axis=1),
    )


def _rows(split: Split, found: _KeyTable) -> pa.RecordBatch:
    count = len(found)
    return pa.record_batch(
        [
            pa.repeat(pa.scalar(split.topic), count),
            pa.array(np.full(count, split.partition, np.int32)),
            found.keys,
            *(pa.array(column) for column in (*found.counts, *found.latest)),
        ],
        schema=_SCHEMA,
    )


@dataclass(frozen=True, slots=True)
class CompactionGain:
    """The messages of a partition that compaction would remove."""

    topic: str
    partition: int
    messages: int = 0
    bytes: int = 0
    keys: int = 0
    without_key: int = 0
    superseded: int = 0
    superseded_bytes: int = 0
    tombstones: int = 0
    tombstones_due: int = 0
    """That are the latest of their key, and older than the grace period."""
    tombstones_due_bytes: int = 0
    clean: int | None = None
    """The offset below which compaction has been; None where that is not known."""
    dirty_bytes: int | None = None
    """Of what is behind it."""

    @property
    def gain(self) -> int:
        """Bytes."""
        return self.superseded_bytes + self.tombstones_due_bytes

    @property
    def share(self) -> float:
        return self.gain / self.bytes if self.bytes else 0.0


@dataclass(frozen=True, slots=True)
class SupersededKey:
    """A key with many versions that are superseded."""

    topic: str
    partition: int
    key: bytes
    superseded: int
    superseded_bytes: int


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """All of it."""

    gains: tuple[CompactionGain, ...]
    keys: tuple[SupersededKey, ...]


def estimate_compaction(
    spark: "SparkSession", logs: LogSource, plan: ReadPlan, *, now_ns: int, top: int = 10, is_approximate: bool = False
) -> CompactionReport:
    """Estimate the gain as if all segments were sealed. If approximate, keys are estimated and not listed."""
    parts = splits_to_frame(spark, plan.splits(logs), CompactionScan(logs), _SCHEMA)
    if is_approximate:
        return CompactionReport(_gains(plan, logs, _estimated(parts)), ())
    whole = _whole_keys(parts)
    due_before = now_ns - TOMBSTONE_GRACE_SECONDS * NANOSECONDS
    if not top:
        return CompactionReport(_gains(plan, logs, _summed(whole, due_before)), ())
    whole.persist()  # it is asked twice
    try:
        return CompactionReport(_gains(plan, logs, _summed(whole, due_before)), _top(whole, top))
    finally:
        whole.unpersist()


def _whole_keys(parts: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f  # noqa: PLC0415 - loaded with the session

    latest = f.max(f.struct("offset", "latest_bytes", "deleted_ns")).alias("latest")
    counts = [f.sum(name).alias(name) for name in ("messages", "bytes", "tombstones")]
    return parts.groupBy(*_PLACE, "key").agg(*counts, latest).select("*", "latest.latest_bytes", "latest.deleted_ns")


def _summed(whole: "DataFrame", due_before: int) -> list[dict[str, Any]]:
    from pyspark.sql import functions as f  # noqa: PLC0415

    has_key = f.col("key").isNotNull()
    is_due = has_key & (f.col("deleted_ns") > 0) & (f.col("deleted_ns") < due_before)

    def total(value: Any, condition: Any) -> Any:
        return f.sum(f.when(condition, value).otherwise(0))

    rows = whole.groupBy(*_PLACE).agg(
        f.sum("messages").alias("messages"),
        f.sum("bytes").alias("bytes"),
        f.sum("tombstones").alias("tombstones"),
        f.count("key").alias("keys"),
        total(f.col("messages"), ~has_key).alias("without_key"),
        total(f.col("messages") - 1, has_key).alias("superseded"),
        total(f.col("bytes") - f.col("latest_bytes"), has_key).alias("superseded_bytes"),
        total(f.lit(1), is_due).alias("tombstones_due"),
        total(f.col("latest_bytes"), is_due).alias("tombstones_due_bytes"),
    )
    return [row.asDict() for row in rows.collect()]


def _estimated(parts: "DataFrame") -> list[dict[str, Any]]:
    """Estimate the sums; superseded messages are assumed to be as large as the others."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    keyed = f.when(f.col("key").isNotNull(), f.col("messages")).otherwise(0)
    keyed_bytes = f.when(f.col("key").isNotNull(), f.col("bytes")).otherwise(0)
    rows = parts.groupBy(*_PLACE).agg(
        *(f.sum(name).alias(name) for name in ("messages", "bytes", "tombstones")),
        f.hll_sketch_estimate(f.hll_sketch_agg("key", f.lit(14))).alias("keys"),
        f.sum(keyed).alias("keyed"),
        f.sum(keyed_bytes).alias("keyed_bytes"),
    )
    return [_estimated_row(row.asDict()) for row in rows.collect()]


def _estimated_row(row: dict[str, Any]) -> dict[str, Any]:
    keyed, size = row.pop("keyed"), row.pop("keyed_bytes")
    row["keys"] = min(row["keys"], keyed)
    superseded = keyed - row["keys"]
    return row | {
        "without_key": row["messages"] - keyed,
        "superseded": superseded,
        "superseded_bytes": superseded * size // keyed if keyed else 0,
    }


def _top(whole: "DataFrame", top: int) -> tuple[SupersededKey, ...]:
    from pyspark.sql import functions as f  # noqa: PLC0415

    superseded = (f.col("messages") - 1).alias("superseded")
    size = (f.col("bytes") - f.col("latest_bytes")).alias("superseded_bytes")
    rows = (
        whole.where("key IS NOT NULL AND messages > 1")
        .select(*_PLACE, "key", superseded, size)
        .orderBy(f.desc("superseded"), f.desc("superseded_bytes"), *_PLACE, "key")
        .limit(top)
        .collect()
    )
    return tuple(SupersededKey(row[0], row[1], bytes(row[2]), row[3], row[4]) for row in rows)


def _gains(plan: ReadPlan, logs: LogSource, rows: list[dict[str, Any]]) -> tuple[CompactionGain, ...]:
    """Make the gain of every partition; those without messages are included."""
    known = {(row["topic"], row["partition"]): row for row in rows}
    found = []
    for one in plan.ranges:
        row = known.get(one.ref, {"topic": one.ref[0], "partition": one.ref[1]})
        progress = logs.compaction(*one.ref)
        dirty = None if progress is None else sum(s.size for s in one.view.segments if s.next_offset > progress.clean)
        found.append(CompactionGain(**row, clean=None if progress is None else progress.clean, dirty_bytes=dirty))
    return tuple(found)


def rows(gains: Sequence[CompactionGain], topics: Mapping[str, TopicConfiguration]) -> list[Row]:
    return [
        {
            "topic": one.topic,
            "partition": one.partition,
            "cleanup": topics[one.topic].settings.cleanup if one.topic in topics else None,
            "messages": one.messages,
            "bytes": one.bytes,
            "keys": one.keys,
            "without_key": one.without_key,
            "superseded": one.superseded,
            "superseded_bytes": one.superseded_bytes,
            "tombstones": one.tombstones,
            "tombstones_due": one.tombstones_due,
            "gain_bytes": one.gain,
            "gain_share": round(one.share, 6),
            "clean": one.clean,
            "dirty_bytes": one.dirty_bytes,
            "dirty_share": None if one.dirty_bytes is None or not one.bytes else min(1.0, one.dirty_bytes / one.bytes),
        }
        for one in gains
    ]


def inspect(context: InspectionContext, keys: bool, top: int, approx: bool) -> Report:
    logs, plan = context.logs, context.plan
    found, topics = CompactionReport((), ()), read_topics(logs)
    if plan.ranges:
        with context.session(plan, is_brief=plan.messages < _BRIEF_MESSAGES) as spark:
            found = estimate_compaction(
                spark, logs, plan, now_ns=context.now_ns, top=top if keys else 0, is_approximate=approx
            )
    if keys:
        return Report([asdict(one) for one in found.keys], plan, _KEYS_TABLE)
    return Report(rows(found.gains, topics), plan, notes=_advice(found.gains, topics))


def _advice(gains: Sequence[CompactionGain], topics: Mapping[str, TopicConfiguration]) -> list[str]:
    """Name topics that are not compacted, and most of which compaction would free."""
    gain, size = Counter[str](), Counter[str]()
    for one in gains:
        gain[one.topic] += one.gain
        size[one.topic] += one.bytes
    return [
        f"{topic} is not compacted: if only the latest message of each key is needed, compaction would free "
        f"{format_size(gain[topic])} of {format_size(size[topic])}"
        for topic in size
        if topic in topics
        and not topic.endswith(DEAD_LETTER_SUFFIX)
        and "compact" not in topics[topic].settings.cleanup
        and size[topic]
        and gain[topic] / size[topic] >= _WORTH_COMPACTING
    ]
