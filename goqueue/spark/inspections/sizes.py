"""Measure message sizes: keys, values, headers and whole frames.

Sizes are counted, one counter a size, so percentiles are exact; above a MiB they are rounded up to whole KiB, so
that the counters of any log fit into memory. Values are counted as they stand on disk, compressed where they are.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from goqueue.limits import FRAME_HEADER_BYTES, KIB, MIB
from goqueue.quantities import format_count, format_size
from goqueue.spark.inspections.inspection import Chart, InspectionContext, Report, Row, Table, names
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import FrameRun, Split
from goqueue.spark.logs.visibility import read_messages
from goqueue.spark.reading.tasks import splits_to_frame
from goqueue.storage import frame, scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MessagePart = Literal["frame", "value", "key", "headers"]
PARTS: tuple[MessagePart, ...] = ("frame", "value", "key", "headers")

_HISTOGRAM_TABLE = names("topic part from below messages")
_LARGEST_TABLE = names("size topic partition offset segment")
_BIGGEST_SHOWN = 10
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
class LargeMessage:
    """One of the largest frames, and where it stands."""

    size: int
    topic: str
    partition: int
    offset: int
    segment: int


@dataclass(frozen=True, slots=True)
class SizeCounts:
    """The number of messages of each size; sizes rise."""

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
        """Return the smallest size that so many in a hundred do not exceed."""
        if not len(self.sizes):
            return 0
        reached = np.cumsum(self.counts)
        wanted = max(1, int(np.ceil(share * self.messages / 100 - 1e-9)))
        return int(self.sizes[np.searchsorted(reached, wanted)])

    def histogram(self) -> list[tuple[int, int, int]]:
        """Count sizes from one power of two to the next, without gaps from the smallest on."""
        if not len(self.sizes):
            return []
        powers = np.where(self.sizes > 0, np.frexp(np.maximum(self.sizes, 1))[1], 0)
        counts = np.bincount(powers, self.counts).astype(np.int64).tolist()
        steps = range(int(powers[0]), len(counts))
        return [(0 if step == 0 else 1 << (step - 1), max(1, 1 << step), counts[step]) for step in steps]


@dataclass(slots=True)
class TopicSizes:
    """The sizes of the messages of a topic."""

    topic: str
    parts: dict[MessagePart, SizeCounts] = field(default_factory=dict)
    compressed: int = 0
    stored_bytes: int = 0
    """Of compressed values, as they are."""
    plain_bytes: int = 0
    """Of the same, as they were."""

    @property
    def ratio(self) -> float | None:
        """The original size of compressed values divided by their stored size."""
        return self.plain_bytes / self.stored_bytes if self.stored_bytes else None


@dataclass(frozen=True, slots=True)
class SizeScan:
    """The work of a task."""

    logs: LogSource
    biggest: int

    def __call__(self, split: Split) -> Iterator[pa.RecordBatch]:
        counts = {part: _SizeCounter() for part in PARTS}
        squeezed = {_STORED: 0, _PLAIN: 0}
        compressed = 0
        biggest: list[tuple[int, int, int]] = []
        for piece in read_messages(self.logs, split):
            if not isinstance(piece, FrameRun):
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

    def _bigger(self, known: list[tuple[int, int, int]], run: FrameRun) -> list[tuple[int, int, int]]:
        """Return the largest frames so far, as size, offset and segment; the first ones of the same size."""
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


class _SizeCounter:
    """A counter for each size."""

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


def _measured(run: FrameRun) -> dict[MessagePart, NDArray[np.int64]]:
    frames, real = run.frames, run.real
    lengths, keys = frames.lengths, frames.key_lengths
    values = scan.column(frames.buffer, ">u4", frame.AT_VALUE_LENGTH)[frames.positions].astype(np.int64)
    if run.dropped is not None:
        lengths, keys, values = lengths[real], keys[real], values[real]
    headers = lengths - keys - values - FRAME_HEADER_BYTES
    headers[headers == len(frame.NO_HEADERS)] = 0
    return {"frame": lengths, "value": values, "key": keys, "headers": headers}


def _compressed(run: FrameRun) -> Iterator[tuple[int, int]]:
    """Yield the stored and original size of each compressed value; an unknown original size counts as the stored."""
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


def measure_sizes(
    spark: "SparkSession", logs: LogSource, splits: Sequence[Split], biggest: int = 10
) -> tuple[list[TopicSizes], list[LargeMessage]]:
    """Return the sizes of each topic, and the largest messages of all."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - loaded with the session

    if not splits:
        return [], []
    names = [name for name in SCHEMA.names if name not in ("messages", "size")]
    rows = splits_to_frame(spark, splits, SizeScan(logs, biggest), SCHEMA)
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
            one.parts[part] = SizeCounts(sizes[chosen], counts[chosen])
        stored, plain = ((topics == topic) & (whats == what) for what in (_STORED, _PLAIN))
        one.compressed, one.stored_bytes = int(counts[stored].sum()), int(totals[stored].sum())
        one.plain_bytes = int(totals[plain].sum())
        found.append(one)
    return found


def _largest(table: pa.Table, biggest: int) -> list[LargeMessage]:
    rows: list[Mapping[str, int | str]] = table.filter(pc.equal(table["what"], _BIGGEST)).to_pylist()
    found = [
        LargeMessage(
            int(row["total"]), str(row["topic"]), int(row["partition"]), int(row["offset"]), int(row["segment"])
        )
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


def histogram_rows(topics: Iterable[TopicSizes], part: MessagePart) -> list[Row]:
    return [
        {"topic": one.topic, "part": part, "from": start, "below": end, "messages": messages}
        for one in topics
        for start, end, messages in one.parts[part].histogram()
    ]


def largest_rows(found: Iterable[LargeMessage]) -> list[Row]:
    return [asdict(one) for one in found]


def inspect(context: InspectionContext, histogram: MessagePart | None, biggest: int | None) -> Report:
    plan = context.plan
    splits = plan.splits(context.logs)
    topics: list[TopicSizes] = []
    largest: list[LargeMessage] = []
    if splits:
        with context.session(plan) as spark:
            topics, largest = measure_sizes(spark, context.logs, splits, biggest or _BIGGEST_SHOWN)
    chart = _chart(topics, histogram or "frame")
    notes = [
        f"{one.topic}: {format_count(one.compressed, 'value')} compressed, "
        f"{format_size(one.plain_bytes)} to {format_size(one.stored_bytes)}, {one.ratio:.2f} to 1"
        for one in topics
        if one.ratio is not None
    ]
    if biggest is not None:
        return Report(largest_rows(largest), plan, _LARGEST_TABLE, notes=notes, chart=chart)
    if histogram is not None:
        steps = histogram_rows(topics, histogram)
        return Report(steps, plan, _HISTOGRAM_TABLE, bar="messages", notes=notes, chart=chart)
    more = (
        Table(histogram_rows(topics, "frame"), _HISTOGRAM_TABLE, "messages"),
        Table(largest_rows(largest), _LARGEST_TABLE),
    )
    return Report(rows(topics), plan, more=more if topics else (), notes=notes, chart=chart)


def _chart(topics: Iterable[TopicSizes], part: MessagePart) -> Chart:
    counts: Counter[int] = Counter()
    for one in topics:
        for _, below, messages in one.parts[part].histogram():
            counts[below] += messages
    ends = sorted(counts)
    labels = [f"below {format_size(end)}" for end in ends]
    return Chart(f"Sizes: {part}", labels, [counts[end] for end in ends], "messages")
