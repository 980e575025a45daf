"""What a log holds, partition by partition, every byte of it verified on the way."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from goqueue.spark.inspections.inspection import TIME, Inspection, Row, schema
from goqueue.spark.jobs import on_each
from goqueue.spark.logs.port import Logs
from goqueue.spark.outcomes import read_messages
from goqueue.spark.plan import Plan
from goqueue.spark.points import Place
from goqueue.spark.reading import Broken, Removed, Run, Split
from goqueue.storage import frame, scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class Holding:
    """What was found in a partition, or in a part of one."""

    messages: int = 0
    bytes: int = 0
    """Of whole frames, as they stand on disk."""
    value_bytes: int = 0
    without_key: int = 0
    with_headers: int = 0
    compressed: int = 0
    tombstones: int = 0
    control_records: int = 0
    uncommitted: int = 0
    """Messages of transactions that were aborted or are open: nobody's."""
    first_time: int | None = None
    last_time: int | None = None
    damages: int = 0
    lost: int = 0
    """Offsets in damage, and those that were removed while they were to be read."""

    def add(self, run: Run) -> None:
        frames = run.frames
        flags, times = frames.flags, frames.timestamps
        controls = int(np.count_nonzero(flags & frame.CONTROL))
        real = len(frames) if run.dropped is None else int(np.count_nonzero(run.real))
        self.messages += real
        self.control_records += controls
        self.uncommitted += len(frames) - controls - real
        self.bytes += int(frames.lengths.sum())
        values = scan.column(frames.buffer, ">u4", frame.AT_VALUE_LENGTH)[frames.positions]
        self.value_bytes += int(values.sum(dtype=np.int64))
        self.without_key += int(np.count_nonzero(frames.key_lengths == 0))
        for name, flag in _FLAGS.items():
            setattr(self, name, getattr(self, name) + int(np.count_nonzero(flags & flag)))
        self.first_time = int(times[0]) if self.first_time is None else self.first_time
        self.last_time = int(times[-1])

    def join(self, other: "Holding") -> None:
        """What was found behind this."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.first_time = other.first_time if self.first_time is None else self.first_time
        self.last_time = self.last_time if other.last_time is None else other.last_time


_FLAGS = {"with_headers": frame.HAS_HEADERS, "compressed": frame.COMPRESSED, "tombstones": frame.TOMBSTONE}
_COUNTS = (
    "messages", "bytes", "value_bytes", "without_key", "with_headers", "compressed", "tombstones",
    "control_records", "uncommitted", "damages", "lost",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Look:
    """The work of a task."""

    logs: Logs

    def __call__(self, split: Split) -> Holding:
        found = Holding()
        for piece in read_messages(self.logs, split):
            match piece:
                case Run():
                    found.add(piece)
                case Broken(damage=damage):
                    found.damages += 1
                    found.lost += damage.next_offset - damage.first_offset
                case Removed(first=first, next_offset=end):
                    found.lost += end - first
        return found


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the summary."""

    topic: str
    partition: int
    segments: int
    first_offset: int
    next_offset: int
    holding: Holding = field(default_factory=Holding)


def summarise(plan: Plan, splits: Iterable[Split], found: Iterable[Holding]) -> list[Part]:
    """The parts of each partition put together, those without anything included."""
    total: defaultdict[Place, Holding] = defaultdict(Holding)
    for split, holding in zip(splits, found, strict=True):
        total[split.topic, split.partition].join(holding)
    return [Part(*one.place, len(one.view.segments), one.first, one.end, total[one.place]) for one in plan.ranges]


def rows(parts: Iterable[Part]) -> list[Row]:
    return [
        {
            "topic": part.topic,
            "partition": part.partition,
            "segments": part.segments,
            "first_offset": part.first_offset,
            "next_offset": part.next_offset,
            **asdict(part.holding),
        }
        for part in parts
    ]


def inspect(spark: "SparkSession", logs: Logs, plan: Plan) -> list[Row]:
    splits = plan.splits(logs)
    return rows(summarise(plan, splits, on_each(spark, splits, Look(logs))))


INSPECTION = Inspection(
    inspect,
    schema(
        topic=pa.string(),
        partition=pa.int32(),
        segments=pa.int64(),
        first_offset=pa.int64(),
        next_offset=pa.int64(),
        messages=pa.int64(),
        bytes=pa.int64(),
        value_bytes=pa.int64(),
        without_key=pa.int64(),
        with_headers=pa.int64(),
        compressed=pa.int64(),
        tombstones=pa.int64(),
        control_records=pa.int64(),
        uncommitted=pa.int64(),
        first_time=TIME,
        last_time=TIME,
        damages=pa.int64(),
        lost=pa.int64(),
    ),
)
