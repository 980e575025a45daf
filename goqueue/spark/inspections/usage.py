"""Who writes how much, and which group has read how much: by topic, producer and header, and over time.

A batch of a producer that is known by an id carries it in its first message alone, with how many belong to it. So a
task that meets such a batch at its end reads on to the end of the batch: it gives those messages to the producer, and
takes them from the nameless, whom the next task gives them to. The sum is exact, however a log is cut.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goqueue.broker.delivery.changes import Place
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.groups.state import Record
from goqueue.broker.producers import MARK_NAME, Mark
from goqueue.clock import NANOSECONDS
from goqueue.spark.inspections import parameters
from goqueue.spark.inspections.header import header, place_of_header
from goqueue.spark.inspections.inspection import TIME, Inspection, Row, schema
from goqueue.spark.inspections.ledger import done_by, is_departure, read_ledger
from goqueue.spark.jobs import as_frame
from goqueue.spark.logs.port import Logs
from goqueue.spark.outcomes import read_messages
from goqueue.spark.plan import Plan
from goqueue.spark.reading import Run, Split
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

By = Literal["topic", "partition", "producer"]
Per = Literal["day", "hour"]

_LENGTHS_NS: Mapping[Per, int] = {"hour": 3600 * NANOSECONDS, "day": 24 * 3600 * NANOSECONDS}
_NAMELESS = -1
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
class Wish:
    """What is told apart."""

    by: By = "topic"
    header: str | None = None
    per: Per | None = None

    @property
    def bucket_ns(self) -> int:
        return _LENGTHS_NS[self.per] if self.per is not None else 0


class _Batch(NamedTuple):
    """Whose the messages are, up to an offset."""

    producer: int = _NAMELESS
    end: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """The work of a task: some rows for each run of frames."""

    logs: Logs
    wish: Wish
    ends: Mapping[Place, int]
    """Where what is read of each partition ends."""

    def __call__(self, split: Split) -> Iterator[pa.RecordBatch]:
        batch = _Batch()
        for piece in read_messages(self.logs, split):
            if isinstance(piece, Run):
                owners, batch = self._owners(piece.frames, batch)
                yield self._rows(split, piece, owners)
        if self.wish.by == "producer":
            yield from self._rest(split, batch)

    def _rest(self, split: Split, batch: _Batch) -> Iterator[pa.RecordBatch]:
        """What of the last batch lies behind the split, up to where another one begins."""
        end = min(batch.end, self.ends[split.topic, split.partition])
        if end <= split.end:
            return
        rest = Split(split.topic, split.partition, split.end, end, 0, split.segments, horizon=split.horizon)
        for piece in read_messages(self.logs, rest):
            if not isinstance(piece, Run):
                continue
            marked = np.flatnonzero(place_of_header(piece.frames, MARK_NAME)[0] >= 0)
            run = piece.between(0, int(marked[0])) if len(marked) else piece
            if count := len(run.frames):
                yield self._rows(split, run, np.full(count, batch.producer))
                yield self._rows(split, run, np.full(count, _NAMELESS), sign=-1)
            if len(marked):
                return

    def _owners(self, frames: Frames, batch: _Batch) -> tuple[Numbers, _Batch]:
        """The producer of each message, and which batch is under way at the end."""
        owners = np.full(len(frames), _NAMELESS, np.int64)
        if self.wish.by != "producer":
            return owners, batch
        offsets = frames.offsets
        starts, _ = place_of_header(frames, MARK_NAME)
        first = 0
        for number in np.flatnonzero(starts >= 0).tolist():
            self._give(owners, offsets, (first, number), batch)
            mark = Mark.decode(bytes(frames.buffer[starts[number] : starts[number] + _MARK_BYTES]))
            batch, first = _Batch(mark.producer, int(offsets[number]) + mark.count), number
        self._give(owners, offsets, (first, len(frames)), batch)
        return owners, batch

    def _give(self, owners: Numbers, offsets: Numbers, between: tuple[int, int], batch: _Batch) -> None:
        first, end = between
        owners[first : min(end, int(np.searchsorted(offsets, batch.end)))] = batch.producer

    def _rows(self, split: Split, run: Run, owners: Numbers, sign: int = 1) -> pa.RecordBatch:
        """What is the same in producer, bucket and header is one row."""
        frames, real = run.frames, run.real.astype(np.float64)
        buckets = self._buckets(frames)
        texts, words = self._headers(frames)
        firsts, codes = _kinds(owners, buckets, words)
        values = scan.column(frames.buffer, ">u4", frame.AT_VALUE_LENGTH)[frames.positions].astype(np.int64)
        sums = [_summed(codes, len(firsts), one) for one in (real, frames.lengths, values + frames.key_lengths)]
        return pa.record_batch(
            [
                pa.repeat(pa.scalar(split.topic), len(firsts)),
                pa.array(np.full(len(firsts), split.partition, np.int32)),
                pa.array(owners[firsts], mask=owners[firsts] == _NAMELESS),
                texts.take(pa.array(words[firsts])),
                pa.array(buckets[firsts]),
                *(pa.array(sign * one) for one in sums),
            ],
            schema=_SCHEMA,
        )

    def _buckets(self, frames: Frames) -> Numbers:
        length = self.wish.bucket_ns
        return frames.timestamps // length * length if length else np.zeros(len(frames), np.int64)

    def _headers(self, frames: Frames) -> tuple[pa.Array, Numbers]:
        """The different values, the first of which is none, and which one each message has."""
        if self.wish.header is None:
            return pa.nulls(1, pa.binary()), np.zeros(len(frames), np.int64)
        coded = header(frames, self.wish.header).dictionary_encode()
        texts = pa.concat_arrays([pa.nulls(1, pa.binary()), coded.dictionary])
        return texts, coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1


_MARK_BYTES = len(Mark(0, 0, 0, 1).encode())


def _kinds(owners: Numbers, buckets: Numbers, words: Numbers) -> tuple[Numbers, Numbers]:
    """The first message of each kind, and of which kind each one is. Mostly all are of one."""
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
    """Exact below 2^53, and a run has some megabytes."""
    if count == 1:
        return np.array([int(numbers.sum())], np.int64)
    return np.bincount(codes, numbers, count).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Use:
    """One line."""

    topic: str | None
    partition: int | None
    producer: int | None
    """None where the messages do not tell."""
    header: bytes | None
    bucket_ns: int | None
    messages: int
    bytes: int
    """Of whole frames, as they stand on disk."""
    payload_bytes: int
    """Of keys and values."""


def usage(spark: "SparkSession", logs: Logs, plan: Plan, wish: Wish) -> list[Use]:
    """In the order of time, topic and what else is told apart."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - loaded with the session

    look = Look(logs, wish, {one.place: one.end for one in plan.ranges})
    keys = ["bucket_ns", "topic"]
    keys += ["partition"] if wish.by == "partition" else ["producer"] if wish.by == "producer" else []
    keys += ["header"] if wish.header is not None else []
    found = as_frame(spark, plan.splits(logs), look, _SCHEMA).groupBy(*keys)
    rows = found.agg(*(f.sum(name).alias(name) for name in _SUMS)).where("messages <> 0").orderBy(*keys).collect()
    return [_use(row.asDict(), wish) for row in rows]


def _use(row: dict[str, Any], wish: Wish) -> Use:
    told = row.get("header")
    return Use(
        row["topic"],
        row.get("partition"),
        row.get("producer"),
        None if told is None else bytes(told),
        row["bucket_ns"] if wish.per is not None else None,
        row["messages"],
        row["bytes"],
        row["payload_bytes"],
    )


class Reading(NamedTuple):
    """What a group has read."""

    bucket_ns: int
    group: str
    topic: str
    partition: int | None


@dataclass(slots=True)
class Count:
    """Messages that are done."""

    acknowledged: int = 0
    moved: int = 0
    """To the dead letters."""


@dataclass(slots=True)
class Ears:
    """Hears what groups have settled, as their log is replayed."""

    wish: Wish
    topics: frozenset[str]
    first_ns: int | None
    end_ns: int | None
    counts: dict[Reading, Count] = field(default_factory=dict)

    def __call__(self, record: Record, time_ns: int, cursor: Cursor | None) -> None:
        if cursor is None or cursor.group.startswith("__") or cursor.topic not in self.topics:
            return
        if time_ns < (self.first_ns or 0) or (self.end_ns is not None and time_ns >= self.end_ns):
            return
        settled = sum(end - first for first, end in done_by(record, cursor))
        if settled:
            length = self.wish.bucket_ns
            bucket = time_ns // length * length if length else _NO_BUCKET
            partition = cursor.partition if self.wish.by == "partition" else None
            count = self.counts.setdefault(Reading(bucket, cursor.group, cursor.topic, partition), Count())
            if is_departure(record):
                count.moved += settled
            else:
                count.acknowledged += settled


def consumption(
    logs: Logs, topics: Sequence[str], wish: Wish, first_ns: int | None = None, end_ns: int | None = None
) -> tuple[dict[Reading, Count], int | None]:
    """What groups have done of these topics between two moments, and from when on their log tells it."""
    ears = Ears(wish, frozenset(topics), first_ns, end_ns)
    ledger = read_ledger(logs, ears)
    return dict(sorted(ears.counts.items(), key=_order)), ledger.since_ns


def _order(pair: tuple[Reading, Count]) -> tuple[int, str, str, int]:
    reading = pair[0]
    return reading.bucket_ns, reading.group, reading.topic, reading.partition or 0


def rows(found: Iterable[Use]) -> list[Row]:
    return [
        {
            "start": one.bucket_ns,
            "topic": one.topic,
            "partition": one.partition,
            "producer": one.producer,
            "header": one.header,
            "messages": one.messages,
            "bytes": one.bytes,
            "payload_bytes": one.payload_bytes,
        }
        for one in found
    ]


def inspect(
    spark: "SparkSession",
    logs: Logs,
    plan: Plan,
    by: By = "topic",
    by_header: str | None = None,
    per: Per | None = None,
) -> list[Row]:
    return rows(usage(spark, logs, plan, Wish(by, by_header, per))) if plan.messages else []


INSPECTION = Inspection(
    inspect,
    schema(
        start=TIME,
        topic=pa.string(),
        partition=pa.int32(),
        producer=pa.int64(),
        header=pa.binary(),
        messages=pa.int64(),
        bytes=pa.int64(),
        payload_bytes=pa.int64(),
    ),
    {
        "by": parameters.one_of("topic", "partition", "producer"),
        "by_header": parameters.text(),
        "per": parameters.one_of("day", "hour"),
    },
)
