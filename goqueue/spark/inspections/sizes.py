"""How large messages are: keys, values, headers and whole frames.

Sizes are counted, one counter a size, so percentiles are exact; above a MiB they are rounded up to whole KiB, so
that the counters of any log fit into memory. Values are counted as they stand on disk, compressed where they are.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from goqueue.limits import FRAME_HEADER_BYTES, KIB, MIB
from goqueue.spark.inspections import parameters
from goqueue.spark.inspections.inspection import Inspection, Row, apart, schema
from goqueue.spark.jobs import as_frame
from goqueue.spark.logs.port import Logs
from goqueue.spark.outcomes import read_messages
from goqueue.spark.plan import Plan
from goqueue.spark.reading import Run, Split
from goqueue.storage import frame, scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Part = Literal["frame", "value", "key", "headers"]
PARTS: tuple[Part, ...] = ("frame", "value", "key", "headers")

PERCENTILES = (50, 90, 95, 99)
"""That rows tell."""

_DENSE = 64 * KIB  # below this a counter for each size, since nearly all are there
_ROUNDED = MIB
_ZSTD_HEADER_BYTES = 18  # what says how large a value will be lies in these

_BIGGEST, _STORED, _PLAIN = "biggest", "stored", "plain"

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("what", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("segment", pa.int64()),
        pa.field("messages", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Big:
    """One of the largest frames, and where it stands."""

    size: int
    topic: str
    partition: int
    offset: int
    segment: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many messages have which size; both columns as long as there are different sizes, which rise."""

    sizes: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def messages(self) -> int:
        return int(self.counts.sum())

    @property
    def bytes(self) -> int:
        return int(np.dot(self.sizes, self.counts))

    @property
    def mean(self) -> float:
        return self.bytes / self.messages if self.messages else 0.0

    @property
    def largest(self) -> int:
        return int(self.sizes[-1]) if len(self.sizes) else 0

    def percentile(self, share: float) -> int:
        """The smallest size that so many in a hundred do not pass."""
        if not len(self.sizes):
            return 0
        reached = np.cumsum(self.counts)
        wanted = max(1, int(np.ceil(share * self.messages / 100 - 1e-9)))
        return int(self.sizes[np.searchsorted(reached, wanted)])

    def histogram(self) -> list[tuple[int, int, int]]:
        """Sizes from one power of two up to the next, and how many there are: without gaps from the least on."""
        if not len(self.sizes):
            return []
        powers = np.where(self.sizes > 0, np.frexp(np.maximum(self.sizes, 1))[1], 0)
        counts = np.bincount(powers, self.counts).astype(np.int64).tolist()
        steps = range(int(powers[0]), len(counts))
        return [(0 if step == 0 else 1 << (step - 1), max(1, 1 << step), counts[step]) for step in steps]


@dataclass(slots=True)
class TopicSizes:
    """What the messages of a topic, or of all, are made of."""

    topic: str
    parts: dict[Part, Sizes] = field(default_factory=dict)
    compressed: int = 0
    stored_bytes: int = 0
    """Of compressed values, as they are."""
    plain_bytes: int = 0
    """Of the same, as they were."""

    @property
    def ratio(self) -> float | None:
        """How many bytes became one."""
        return self.plain_bytes / self.stored_bytes if self.stored_bytes else None


@dataclass(frozen=True, slots=True)
class Look:
    """The work of a task."""

    logs: Logs
    biggest: int

    def __call__(self, split: Split) -> Iterator[pa.RecordBatch]:
        counts = {part: _Counter() for part in PARTS}
        squeezed = {_STORED: 0, _PLAIN: 0}
        compressed = 0
        biggest: list[tuple[int, int, int]] = []
        for piece in read_messages(self.logs, split):
            if not isinstance(piece, Run):
                continue
            for part, found in _measured(piece).items():
                counts[part].add(found)
            biggest = self._bigger(biggest, piece)
            for stored, plain in _compressed(piece):
                compressed += 1
                squeezed[_STORED] += stored
                squeezed[_PLAIN] += plain
        for part, counter in counts.items():
            yield _batch(split, part, *counter.columns())
        if compressed:
            for what, total in squeezed.items():
                yield _batch(split, what, np.array([total]), np.array([compressed]))
        if biggest:
            yield _biggest_batch(split, biggest)

    def _bigger(self, known: list[tuple[int, int, int]], run: Run) -> list[tuple[int, int, int]]:
        """The largest frames so far, as size, offset and segment; of the same size the first ones."""
        frames = run.frames
        least = known[-1][0] if len(known) == self.biggest else -1
        passing = np.flatnonzero((frames.lengths > least) & run.real)
        if not len(passing) or not self.biggest:
            return known
        if len(passing) > self.biggest:
            order = np.argsort(-frames.lengths[passing], kind="stable")
            passing = passing[order[: self.biggest]]
        sizes, offsets = frames.lengths[passing].tolist(), frames.offsets[passing].tolist()
        more = [(size, offset, run.segment.base_offset) for size, offset in zip(sizes, offsets, strict=True)]
        return sorted([*known, *more], key=lambda one: (-one[0], one[1]))[: self.biggest]


class _Counter:
    """How many there are of each size."""

    def __init__(self) -> None:
        self._dense = np.zeros(_DENSE, np.int64)
        self._large: defaultdict[int, int] = defaultdict(int)

    def add(self, sizes: NDArray[np.int64]) -> None:
        if not len(sizes):
            return
        if int(sizes.max()) >= _DENSE:
            found, counts = np.unique(rounded(sizes[sizes >= _DENSE]), return_counts=True)
            for size, count in zip(found.tolist(), counts.tolist(), strict=True):
                self._large[size] += count
            sizes = sizes[sizes < _DENSE]
        counted = np.bincount(sizes)
        self._dense[: len(counted)] += counted

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        small = np.flatnonzero(self._dense)
        sizes = np.append(small, np.array(sorted(self._large), np.int64))
        return sizes, np.append(self._dense[small], [self._large[size] for size in sorted(self._large)]).astype(
            np.int64
        )


def rounded(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(sizes > _ROUNDED, -(-sizes // KIB) * KIB, sizes)


def _measured(run: Run) -> dict[Part, NDArray[np.int64]]:
    """The sizes of all messages."""
    frames, real = run.frames, run.real
    lengths, keys = frames.lengths, frames.key_lengths
    values = scan.column(frames.buffer, ">u4", frame.AT_VALUE_LENGTH)[frames.positions].astype(np.int64)
    if run.dropped is not None:
        lengths, keys, values = lengths[real], keys[real], values[real]
    headers = lengths - keys - values - FRAME_HEADER_BYTES
    headers[headers == len(frame.NO_HEADERS)] = 0
    return {"frame": lengths, "value": values, "key": keys, "headers": headers}


def _compressed(run: Run) -> Iterator[tuple[int, int]]:
    """Size as it is and as it was of each compressed value; one that does not say what it was counts as it is."""
    frames = run.frames
    compressed = (frames.flags & frame.COMPRESSED) != 0
    places = np.flatnonzero(compressed if run.dropped is None else compressed & run.real)
    if not len(places):
        return
    from zstandard import ZstdError, frame_content_size  # noqa: PLC0415 - for compressed values alone

    starts = frames.positions[places] + FRAME_HEADER_BYTES + frames.key_lengths[places]
    sizes = scan.column(frames.buffer, ">u4", frame.AT_VALUE_LENGTH)[frames.positions[places]]
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        try:
            plain = frame_content_size(frames.buffer[start : start + min(size, _ZSTD_HEADER_BYTES)].tobytes())
        except ZstdError:
            plain = -1
        yield size, size if plain < 0 else plain


def _batch(split: Split, what: str, sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> pa.RecordBatch:
    count = len(sizes)
    nothing = pa.nulls(count, pa.int64())
    named = [pa.repeat(pa.scalar(split.topic), count), pa.repeat(pa.scalar(what), count), pa.array(sizes)]
    return pa.record_batch([*named, pa.nulls(count, pa.int32()), nothing, nothing, pa.array(counts)], schema=SCHEMA)


def _biggest_batch(split: Split, biggest: list[tuple[int, int, int]]) -> pa.RecordBatch:
    rows = [
        (split.topic, _BIGGEST, size, split.partition, offset, segment, 1)
        for size, offset, segment in biggest
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def measure(
    spark: "SparkSession", logs: Logs, splits: Sequence[Split], biggest: int = 10
) -> tuple[list[TopicSizes], list[Big]]:
    """The sizes of each topic, and the largest messages of all."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - loaded with the session

    if not splits:
        return [], []
    names = [name for name in SCHEMA.names if name not in ("messages", "size")]
    rows = as_frame(spark, splits, Look(logs, biggest), SCHEMA)
    is_sum = f.col("what").isin(_STORED, _PLAIN)
    one_size = f.when(is_sum, f.lit(None)).otherwise(f.col("size")).alias("one_size")
    summed = rows.groupBy(*names, one_size).agg(f.sum("messages").alias("messages"), f.sum("size").alias("total"))
    table = summed.toArrow()
    return _topics(table), _largest(table, biggest)


def _topics(table: pa.Table) -> list[TopicSizes]:
    topics, whats = np.array(table["topic"].to_pylist(), object), np.array(table["what"].to_pylist(), object)
    counts, totals = table["messages"].to_numpy(), table["total"].to_numpy()
    sizes = table["one_size"].fill_null(0).to_numpy()
    found = []
    for topic in sorted(set(topics)):
        one = TopicSizes(topic)
        for part in PARTS:
            chosen = np.flatnonzero((topics == topic) & (whats == part))
            chosen = chosen[np.argsort(sizes[chosen])]
            one.parts[part] = Sizes(sizes[chosen], counts[chosen])
        stored, plain = ((topics == topic) & (whats == what) for what in (_STORED, _PLAIN))
        one.compressed, one.stored_bytes = int(counts[stored].sum()), int(totals[stored].sum())
        one.plain_bytes = int(totals[plain].sum())
        found.append(one)
    return found


def _largest(table: pa.Table, biggest: int) -> list[Big]:
    rows: list[Mapping[str, int | str]] = table.filter(pc.equal(table["what"], _BIGGEST)).to_pylist()
    found = [
        Big(int(row["total"]), str(row["topic"]), int(row["partition"]), int(row["offset"]), int(row["segment"]))
        for row in rows
    ]
    return sorted(found, key=lambda one: (-one.size, one.topic, one.partition, one.offset))[:biggest]


def rows(topics: Iterable[TopicSizes]) -> list[Row]:
    return [
        {
            "topic": one.topic,
            "part": part,
            "messages": found.messages,
            "mean": found.mean,
            **{f"p{share}": found.percentile(share) for share in PERCENTILES},
            "max": found.largest,
            "bytes": found.bytes,
            "compressed": one.compressed if part == "value" else None,
            "ratio": one.ratio if part == "value" else None,
        }
        for one in topics
        for part, found in one.parts.items()
    ]


def steps(topics: Iterable[TopicSizes], part: Part) -> list[Row]:
    """The histograms."""
    return [
        {"topic": one.topic, "part": part, "from": start, "below": end, "messages": messages}
        for one in topics
        for start, end, messages in one.parts[part].histogram()
    ]


def largest(found: Iterable[Big]) -> list[Row]:
    return [asdict(one) for one in found]


def inspect(
    spark: "SparkSession", logs: Logs, plan: Plan, histogram: Part | None = None, biggest: int | None = None
) -> list[Row]:
    topics, found = measure(spark, logs, plan.splits(logs), biggest or 1)
    if biggest is not None:
        return largest(found)
    return rows(topics) if histogram is None else steps(topics, histogram)


_NUMBERS = ("max", "bytes", "compressed", "from", "below", "size")
INSPECTION = Inspection(
    inspect,
    schema(
        topic=pa.string(),
        part=pa.string(),
        messages=pa.int64(),
        mean=pa.float64(),
        **{f"p{share}": pa.int64() for share in PERCENTILES},
        **dict.fromkeys(_NUMBERS, pa.int64()),
        ratio=pa.float64(),
        partition=pa.int32(),
        offset=pa.int64(),
        segment=pa.int64(),
    ),
    {"histogram": parameters.one_of(*PARTS), "biggest": parameters.number(1000)},
    apart("histogram", "biggest"),
)
