"""Count what topics and producers write and groups read, by header and over time.

A batch of a producer that is known by an id carries it in its first message alone, with how many belong to it. So a
task that meets such a batch at its end reads on to the end of the batch: it gives those messages to the producer, and
takes them from the nameless, whom the next task gives them to. The sum is exact, however a log is cut.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.records import GroupRecord
from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_time
from goqueue.spark.inspections.header import header_column, locate_header
from goqueue.spark.inspections.inspection import InspectionContext, Report
from goqueue.spark.inspections.internal_logs import is_move_to_other_topic, read_group_logs, read_usage, settled_ranges
from goqueue.spark.inspections.tenant_usage import count_by_tenant
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import FrameRun, Split
from goqueue.spark.logs.visibility import read_messages
from goqueue.spark.reading.plan import ReadPlan, TopicSelection
from goqueue.spark.reading.tasks import splits_to_frame
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames
from goqueue.wire.sections import PRODUCER_HEADER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

By = Literal["topic", "partition", "producer"]
Per = Literal["day", "hour"]

_LENGTHS_NS: Mapping[Per, int] = {"hour": 3600 * NANOSECONDS, "day": 24 * 3600 * NANOSECONDS}
_NO_PRODUCER = -1
_NO_BUCKET = 0

_SUMS = ("messages", "bytes", "payload_bytes")
_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("producer", pa.int64()),
        pa.field("header", pa.binary()),
        pa.field("bucket_ns", pa.int64()),
        *(pa.field(name, pa.int64()) for name in _SUMS),
    ]
)

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class UsageGrouping:
    """The properties that messages are counted by."""

    by: By = "topic"
    header: str | None = None
    per: Per | None = None

    @property
    def bucket_ns(self) -> int:
        return _LENGTHS_NS[self.per] if self.per is not None else 0


class _ProducerBatch(NamedTuple):
    """The producer of the messages up to an offset."""

    producer: int = _NO_PRODUCER
    end: int = 0


@dataclass(frozen=True, slots=True)
class UsageScan:
    """The work of a task: some rows for each run of frames."""

    logs: LogSource
    grouping: UsageGrouping
    ends: Mapping[PartitionRef, int]
    """Where what is read of each partition ends."""

    def __call__(self, split: Split) -> Iterator[pa.RecordBatch]:
        batch = _ProducerBatch()
        for piece in read_messages(self.logs, split):
            if isinstance(piece, FrameRun):
                owners, batch = self._owners(piece.frames, batch)
                yield self._rows(split, piece, owners)
        if self.grouping.by == "producer":
            yield from self._rest(split, batch)

    def _rest(self, split: Split, batch: _ProducerBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rest of the last batch, which lies behind the split, up to the next batch."""
        end = min(batch.end, self.ends[PartitionRef(split.topic, split.partition)])
        if end <= split.end:
            return
        rest = Split(split.topic, split.partition, split.end, end, 0, split.segments, horizon=split.horizon)
        for piece in read_messages(self.logs, rest):
            if not isinstance(piece, FrameRun):
                continue
            marked = np.flatnonzero(locate_header(piece.frames, PRODUCER_HEADER)[0] >= 0)
            run = piece.between(0, int(marked[0])) if len(marked) else piece
            if count := len(run.frames):
                yield self._rows(split, run, np.full(count, batch.producer))
                yield self._rows(split, run, np.full(count, _NO_PRODUCER), sign=-1)
            if len(marked):
                return

    def _owners(self, frames: Frames, batch: _ProducerBatch) -> tuple[Numbers, _ProducerBatch]:
        """Return the producer of each message, and the batch that is unfinished at the end."""
        owners = np.full(len(frames), _NO_PRODUCER, np.int64)
        if self.grouping.by != "producer":
            return owners, batch
        offsets = frames.offsets
        starts, _ = locate_header(frames, PRODUCER_HEADER)
        first = 0
        for number in np.flatnonzero(starts >= 0).tolist():
            self._give(owners, offsets, (first, number), batch)
            mark = ProducerMark.decode(bytes(frames.buffer[starts[number] : starts[number] + _MARK_BYTES]))
            batch, first = _ProducerBatch(mark.producer, int(offsets[number]) + mark.count), number
        self._give(owners, offsets, (first, len(frames)), batch)
        return owners, batch

    def _give(self, owners: Numbers, offsets: Numbers, between: tuple[int, int], batch: _ProducerBatch) -> None:
        first, end = between
        owners[first : min(end, int(np.searchsorted(offsets, batch.end)))] = batch.producer

    def _rows(self, split: Split, run: FrameRun, owners: Numbers, sign: int = 1) -> pa.RecordBatch:
        """Sum messages of the same producer, bucket and header."""
        frames, real = run.frames, run.real.astype(np.float64)
        buckets = self._buckets(frames)
        texts, words = self._headers(frames)
        firsts, codes = _group_codes(owners, buckets, words)
        values = scan.column(frames.buffer, ">u4", frame.AT_VALUE_LENGTH)[frames.positions].astype(np.int64)
        weights = (real, real * frames.lengths, real * (values + frames.key_lengths))
        sums = [_summed(codes, len(firsts), one) for one in weights]
        return pa.record_batch(
            [
                pa.repeat(pa.scalar(split.topic), len(firsts)),
                pa.array(np.full(len(firsts), split.partition, np.int32)),
                pa.array(owners[firsts], mask=owners[firsts] == _NO_PRODUCER),
                texts.take(pa.array(words[firsts])),
                pa.array(buckets[firsts]),
                *(pa.array(sign * one) for one in sums),
            ],
            schema=_SCHEMA,
        )

    def _buckets(self, frames: Frames) -> Numbers:
        length = self.grouping.bucket_ns
        return frames.timestamps // length * length if length else np.zeros(len(frames), np.int64)

    def _headers(self, frames: Frames) -> tuple[pa.Array, Numbers]:
        """Return the different values, beginning with none, and the number of each message's value."""
        if self.grouping.header is None:
            return pa.nulls(1, pa.binary()), np.zeros(len(frames), np.int64)
        coded = header_column(frames, self.grouping.header).dictionary_encode()
        texts = pa.concat_arrays([pa.nulls(1, pa.binary()), coded.dictionary])
        return texts, coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1


_MARK_BYTES = len(ProducerMark(0, 0, 0, 1).encode())


def _group_codes(owners: Numbers, buckets: Numbers, words: Numbers) -> tuple[Numbers, Numbers]:
    """Return the first message of each group, and the group of each message."""
    parts = [one for one in (owners, buckets, words) if len(one) and (one != one[0]).any()]
    if not parts:
        return np.zeros(1, np.int64), np.zeros(len(owners), np.int64)
    codes = np.zeros(len(owners), np.int64)
    for part in parts:
        found, numbers = np.unique(part, return_inverse=True)
        codes = codes * len(found) + numbers
    _, firsts, codes = np.unique(codes, return_index=True, return_inverse=True)
    return firsts, codes


def _summed(codes: Numbers, count: int, numbers: NDArray[Any]) -> Numbers:
    """Sum by group; exact below 2^53, and a run has a few megabytes."""
    if count == 1:
        return np.array([int(numbers.sum())], np.int64)
    return np.bincount(codes, numbers, count).astype(np.int64)


@dataclass(frozen=True, slots=True)
class UsageCounts:
    """Messages with the same properties. What they are not counted by is None."""

    start: int | None
    """When their bucket begins, in nanoseconds."""
    topic: str
    partition: int | None
    producer: int | None
    header: bytes | None
    messages: int
    bytes: int
    """Of whole frames, as they stand on disk."""
    payload_bytes: int
    """Of keys and values."""


def count_usage(spark: "SparkSession", logs: LogSource, plan: ReadPlan, grouping: UsageGrouping) -> list[UsageCounts]:
    """Return the counts in the order of time, topic and the other properties."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - loaded with the session

    look = UsageScan(logs, grouping, {PartitionRef(*one.ref): one.end for one in plan.ranges})
    keys = ["bucket_ns", "topic"]
    keys += ["partition"] if grouping.by == "partition" else ["producer"] if grouping.by == "producer" else []
    keys += ["header"] if grouping.header is not None else []
    found = splits_to_frame(spark, plan.splits(logs), look, _SCHEMA).groupBy(*keys)
    rows = found.agg(*(f.sum(name).alias(name) for name in _SUMS)).where("messages <> 0").orderBy(*keys).collect()
    return [_usage_counts(row.asDict(), grouping) for row in rows]


def _usage_counts(row: dict[str, Any], grouping: UsageGrouping) -> UsageCounts:
    header = row.get("header")
    return UsageCounts(
        start=row["bucket_ns"] if grouping.per is not None else None,
        topic=row["topic"],
        partition=row.get("partition"),
        producer=row.get("producer"),
        header=None if header is None else bytes(header),
        **{name: row[name] for name in _SUMS},
    )


class ConsumptionKey(NamedTuple):
    """The group, topic and time that settled messages are counted by."""

    bucket_ns: int
    group: str
    topic: str
    partition: int | None


@dataclass(slots=True)
class ConsumptionCounts:
    """Messages that are done."""

    acknowledged: int = 0
    dead_letters: int = 0


@dataclass(slots=True)
class ConsumptionListener:
    """Hears what groups have settled, as their log is replayed."""

    grouping: UsageGrouping
    topics: frozenset[str]
    first_ns: int | None
    end_ns: int | None
    counts: dict[ConsumptionKey, ConsumptionCounts] = field(default_factory=dict)

    def __call__(self, record: GroupRecord, time_ns: int, cursor: Cursor | None) -> None:
        if cursor is None or cursor.group.startswith("__") or cursor.topic not in self.topics:
            return
        if time_ns < (self.first_ns or 0) or (self.end_ns is not None and time_ns >= self.end_ns):
            return
        settled = sum(end - first for first, end in settled_ranges(record, cursor))
        if settled:
            length = self.grouping.bucket_ns
            bucket = time_ns // length * length if length else _NO_BUCKET
            partition = cursor.partition if self.grouping.by == "partition" else None
            count = self.counts.setdefault(
                ConsumptionKey(bucket, cursor.group, cursor.topic, partition), ConsumptionCounts()
            )
            if is_move_to_other_topic(record):
                count.dead_letters += settled
            else:
                count.acknowledged += settled


def count_consumption(
    logs: LogSource,
    topics: Sequence[str],
    grouping: UsageGrouping,
    first_ns: int | None = None,
    end_ns: int | None = None,
) -> tuple[dict[ConsumptionKey, ConsumptionCounts], int | None]:
    """Count what groups settled between two times; also return the time since which their log is complete."""
    listener = ConsumptionListener(grouping, frozenset(topics), first_ns, end_ns)
    state = read_group_logs(logs, listener)
    return dict(sorted(listener.counts.items(), key=_order)), state.since_ns


def _order(pair: tuple[ConsumptionKey, ConsumptionCounts]) -> tuple[int, str, str, int]:
    reading = pair[0]
    return reading.bucket_ns, reading.group, reading.topic, reading.partition or 0


def inspect(
    context: InspectionContext, by: By | Literal["group", "tenant"], by_header: str | None, per: Per | None
) -> Report:
    if by == "group":
        return _inspect_groups(context, per)
    plan, grouping = context.plan, UsageGrouping("topic" if by == "tenant" else by, by_header, per)
    found: list[UsageCounts] = []
    if plan.messages:
        with context.session(plan) as spark:
            found = count_usage(spark, context.logs, plan, grouping)
    if by == "tenant":
        return _by_tenant(context, found, per)
    sources: dict[str, str] = {
        **({per: "start"} if per else {}),
        "topic": "topic",
        **({by: by} if by != "topic" else {}),
        **({by_header: "header"} if by_header else {}),
        **{name: name for name in _SUMS},
    }
    return Report([asdict(one) for one in found], plan, tuple(sources), sources=sources)


def _by_tenant(context: InspectionContext, found: list[UsageCounts], per: Per | None) -> Report:
    rows = count_by_tenant(found, read_usage(context.logs))
    names = ("tenant", *_SUMS) if per else ("tenant", *_SUMS, "recorded_messages", "recorded_bytes")
    sources: dict[str, str] = {**({per: "start"} if per else {}), **{name: name for name in names}}
    return Report(rows, context.plan, tuple(sources), sources=sources)


def _inspect_groups(context: InspectionContext, per: Per | None) -> Report:
    topics = list(dict.fromkeys(topic for topic, _ in TopicSelection(context.topics).places(context.logs)))
    found, since_ns = count_consumption(context.logs, topics, UsageGrouping("topic", per=per), *context.time_range)
    listed = [
        {
            **({per: key.bucket_ns} if per else {}),
            "group": key.group,
            "topic": key.topic,
            "acknowledged": counts.acknowledged,
            "dead_letters": counts.dead_letters,
        }
        for key, counts in found.items()
    ]
    report = Report(listed, fields=(*([per] if per else []), "group", "topic", "acknowledged", "dead_letters"))
    if since_ns is not None:
        report.warnings.append(f"the log of groups begins at {format_time(since_ns)[:19]}Z: earlier reads are missing")
    return report
