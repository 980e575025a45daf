"""Work on splits in Spark's workers: record batches for Spark, or results for the driver."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from goqueue.errors import FrameInvalid
from goqueue.limits import FRAME_BYTES_MAX
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import DamagedBytes, FrameRun, RemovedRange, Split, read_split
from goqueue.spark.logs.visibility import TransactionFilter
from goqueue.spark.reading.columns import DELAYED_ONLY_COLUMNS, batches, read_delayed_states
from goqueue.spark.reading.plan import group_small_splits
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from goqueue.spark.typed.columns import TypedPart


@dataclass(frozen=True, slots=True)
class Extract:
    """Which columns are wanted, and whether what is lost ends the reading."""

    logs: LogSource
    columns: tuple[str, ...]
    fails_on_loss: bool = True
    typed: "tuple[TypedPart, ...]" = ()
    """Values and keys that become columns by their schemas."""

    @property
    def reads_delayed_states(self) -> bool:
        """True where the records behind a split have to be read as well."""
        return not DELAYED_ONLY_COLUMNS.keys().isdisjoint(self.columns)

    def batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        names = list(self.columns)
        reads_damaged = "crc_ok" in names
        delayed = None
        if self.reads_delayed_states:
            delayed = read_delayed_states(self.logs, split, fails_on_loss=self.fails_on_loss)
        typed = {name: column for part in self.typed for name, column in part.columns().items()}
        outcomes = TransactionFilter(self.logs, split, fails_on_loss=self.fails_on_loss)
        for piece in read_split(self.logs, split):
            match piece:
                case FrameRun():
                    run = outcomes.judged(piece)
                    yield from batches(split.topic, split.partition, run, names, delayed=delayed, typed=typed)
                case DamagedBytes() if reads_damaged:
                    for frames in self._unsound(split, piece):
                        run = outcomes.judged(FrameRun(piece.segment, frames))
                        is_sound = _is_sound(frames)
                        yield from batches(
                            split.topic, split.partition, run, names, sound=is_sound, delayed=delayed, typed=typed
                        )
                case DamagedBytes() | RemovedRange():
                    if self.fails_on_loss:
                        raise piece.error

    def _unsound(self, split: Split, broken: DamagedBytes) -> Iterator[Frames]:
        """Yield the whole frames that a damaged range begins with, one by one."""
        position, damage = broken.damage.position, broken.damage
        opened = self.logs.open(split.topic, split.partition, broken.segment)
        buffer = np.empty(min(FRAME_BYTES_MAX, damage.end - position), np.uint8)
        try:
            while position < damage.end:
                found = opened.file.read(position, buffer[: damage.end - position].data)
                frames = replace(scan.walk(buffer[:found]), origin=position)
                if not len(frames):
                    return
                yield from _fitting(frames, max(damage.first_offset, split.first), min(damage.next_offset, split.end))
                position += frames.end
        finally:
            opened.file.close()


def _fitting(frames: Frames, first: int, end: int) -> Iterator[Frames]:
    """Yield the frames whose offsets can be right, each alone."""
    offsets = frames.offsets
    for number in np.flatnonzero((offsets >= first) & (offsets < end)).tolist():
        chosen = frames.first(number + 1)
        yield replace(chosen, positions=chosen.positions[number:], lengths=chosen.lengths[number:])


def _is_sound(frames: Frames) -> bool:
    """Test the checksum: a frame can be out of order, and whole."""
    try:
        return frame.verify(frames.buffer.data, int(frames.positions[0])) > 0
    except FrameInvalid:
        return False


T = TypeVar("T")


def run_on_splits(spark: "SparkSession", splits: Sequence[Split], look: Callable[[Split], T]) -> list[T]:
    """Return the result of `look` for each split, in their order. It runs on executors, so it must be picklable."""
    if not splits:
        return []
    if _is_remote(spark):
        return _through_frames(spark, splits, look)

    def task(group: tuple[Split, ...]) -> list[T]:
        return [look(split) for split in group]

    groups = group_small_splits(splits)
    found: list[T] = spark.sparkContext.parallelize(groups, len(groups)).flatMap(task).collect()
    return found


def splits_to_frame(
    spark: "SparkSession",
    splits: Sequence[Split],
    look: "Callable[[Split], Iterable[pa.RecordBatch]]",
    schema: "pa.Schema",
) -> "DataFrame":
    """Return the record batches that `look` makes of each split, as one frame."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - loaded with the session

    groups = group_small_splits(splits)

    def tasks(numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for split in groups[number]:
                    yield from look(split)

    numbered = spark.range(0, len(groups), 1, max(1, len(groups)))
    return numbered.mapInArrow(tasks, from_arrow_schema(schema))


def _through_frames(spark: "SparkSession", splits: Sequence[Split], look: Callable[[Split], T]) -> list[T]:
    """Return results as bytes in rows, because a Connect server has no RDDs."""
    import pickle  # noqa: PLC0415 - our own results, from executors of our own

    import pyarrow as pa  # noqa: PLC0415

    order = {split: number for number, split in enumerate(splits)}

    def pickled(split: Split) -> "Iterator[pa.RecordBatch]":
        yield pa.record_batch([pa.array([order[split]]), pa.array([pickle.dumps(look(split))])], names=["n", "result"])

    schema = pa.schema([pa.field("n", pa.int64()), pa.field("result", pa.binary())])
    rows = sorted(splits_to_frame(spark, splits, pickled, schema).collect(), key=lambda row: row["n"])
    return [pickle.loads(row["result"]) for row in rows]  # noqa: S301


def _is_remote(spark: "SparkSession") -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
