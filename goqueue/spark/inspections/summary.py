"""Count what logs hold, partition by partition, and verify every byte."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from goqueue.quantities import format_count
from goqueue.spark.inspections.inspection import InspectionContext, Report, Row
from goqueue.spark.logs.port import LogSource, PartitionRef
from goqueue.spark.logs.splits import DamagedBytes, FrameRun, RemovedRange, Split
from goqueue.spark.logs.visibility import read_messages
from goqueue.spark.reading.plan import ReadPlan
from goqueue.storage import frame, scan

if TYPE_CHECKING:
    pass


@dataclass(slots=True)
class PartitionContent:
    """The content of a partition, or of a part of one."""

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
    """Messages of aborted and open transactions."""
    first_time: int | None = None
    last_time: int | None = None
    damages: int = 0
    lost: int = 0
    """Offsets in damage, and those that were removed while they were to be read."""

    def add(self, run: FrameRun) -> None:
        frames = run.frames
        times, chosen = frames.timestamps, slice(None) if run.dropped is None else run.real
        controls = int(np.count_nonzero(frames.flags & frame.CONTROL))
        flags = frames.flags[chosen]
        self.messages += len(flags)
        self.control_records += controls
        self.uncommitted += len(frames) - controls - len(flags)
        self.bytes += int(frames.lengths.sum())
        values = scan.column(frames.buffer, ">u4", frame.AT_VALUE_LENGTH)[frames.positions]
        self.value_bytes += int(values[chosen].sum(dtype=np.int64))
        self.without_key += int(np.count_nonzero(frames.key_lengths[chosen] == 0))
        for name, flag in _FLAGS.items():
            setattr(self, name, getattr(self, name) + int(np.count_nonzero(flags & flag)))
        self.first_time = int(times[0]) if self.first_time is None else self.first_time
        self.last_time = int(times[-1])

    def join(self, other: "PartitionContent") -> None:
        """Add the part that follows."""
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
class SummaryScan:
    """The work of a task."""

    logs: LogSource

    def __call__(self, split: Split) -> PartitionContent:
        found = PartitionContent()
        for piece in read_messages(self.logs, split):
            match piece:
                case FrameRun():
                    found.add(piece)
                case DamagedBytes(damage=damage):
                    found.damages += 1
                    found.lost += damage.next_offset - damage.first_offset
                case RemovedRange(first=first, next_offset=end):
                    found.lost += end - first
        return found


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """One line of the summary."""

    topic: str
    partition: int
    segments: int
    first_offset: int
    next_offset: int
    content: PartitionContent = field(default_factory=PartitionContent)


def summarize(plan: ReadPlan, found: Iterable[tuple[Split, PartitionContent]]) -> list[PartitionSummary]:
    """Join the parts of each partition; partitions without messages are included."""
    total: defaultdict[PartitionRef, PartitionContent] = defaultdict(PartitionContent)
    for split, content in found:
        total[split.topic, split.partition].join(content)
    return [
        PartitionSummary(*one.ref, len(one.view.segments), one.first, one.end, total[one.ref]) for one in plan.ranges
    ]


def rows(parts: Iterable[PartitionSummary]) -> list[Row]:
    return [
        {
            "topic": part.topic,
            "partition": part.partition,
            "segments": part.segments,
            "first_offset": part.first_offset,
            "next_offset": part.next_offset,
            **asdict(part.content),
            "offsets": f"{part.first_offset}-{part.next_offset - 1}" if part.next_offset > part.first_offset else None,
        }
        for part in parts
    ]


def inspect(context: InspectionContext) -> Report:
    plan = context.plan
    parts = summarize(plan, context.scan(plan, SummaryScan(context.logs)))
    report = Report(rows(parts), plan)
    if damages := sum(part.content.damages for part in parts):
        report.warnings.append(f"{format_count(damages, 'damage')}; `goqueue spark-inspect verify` lists the ranges")
    return report
