"""Verify every frame, with the same findings as `goqueue fsck`, also while a broker uses the directory.

Frames are read in splits, as all inspections read them. Indexes are compared segment by segment with what the log
makes of them, by the engine of `fsck` itself; that of a segment which still grows is left alone.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from goqueue.quantities import format_count, format_size
from goqueue.spark.inspections.gaps import GapKind, GapScan, OffsetGap, compacted_below, find_gaps
from goqueue.spark.inspections.inspection import InspectionContext, Report, Row
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.logs.port import PartitionRef
from goqueue.spark.logs.splits import Split
from goqueue.spark.reading.plan import ReadPlan, TopicSelection
from goqueue.spark.reading.tasks import run_on_splits
from goqueue.storage import check
from goqueue.storage.disk import SystemDisk
from goqueue.storage.recovery import read_clean_shutdown
from goqueue.storage.segment import Segment

if TYPE_CHECKING:
    pass

FaultCode = Literal[check.FsckCode, "removed"]

_CODES: dict[GapKind, FaultCode] = {
    "damaged": "range_damaged",
    "missing": "messages_missing",
    "times_fall": "order_broken",
}


@dataclass(frozen=True, slots=True)
class LogFault:
    """Something that is not as it should be."""

    code: FaultCode
    topic: str
    partition: int
    path: str
    reason: str
    position: int | None = None
    end: int | None = None
    first_offset: int | None = None
    next_offset: int | None = None

    @property
    def is_damage(self) -> bool:
        return self.code in check.DAMAGE

    @property
    def offsets(self) -> str | None:
        """The offsets as text, where they are known."""
        if self.first_offset is None or self.next_offset is None:
            return None
        return check.format_offsets(self.first_offset, self.next_offset).partition(" ")[2].replace(" to ", "-")


def faults_of(gaps: Iterable[OffsetGap]) -> list[LogFault]:
    """Return the gaps that nothing explains, as faults."""
    return [
        LogFault(
            _CODES[gap.what],
            gap.topic,
            gap.partition,
            gap.path,
            gap.reason,
            gap.position,
            gap.end,
            gap.first_offset,
            gap.next_offset,
        )
        for gap in gaps
        if not gap.is_explained
    ]


def lost_ends(logs: DirectoryLogs, plan: ReadPlan, *, is_whole: bool) -> list[LogFault]:
    """Find logs that end before the offset of the last clean stop; with `is_whole` also missing logs."""
    disk = SystemDisk()
    if disk.is_locked(f"{logs.name}/lock"):
        return []
    clean = read_clean_shutdown(disk, logs.name).logs
    read_ends: dict[str, tuple[PartitionRef, int, bool]] = {
        f"{one.ref[0]}/{one.ref[1]}": (one.ref, one.view.end, one.end == one.view.end) for one in plan.ranges
    }
    faults = []
    for name, state in clean.items():
        topic, _, number = name.rpartition("/")
        if name in read_ends:
            ref, end, is_read = read_ends[name]
        elif is_whole and number.isdecimal() and not topic.startswith("__"):
            ref, end, is_read = (topic, int(number)), 0, True
        else:
            continue
        if is_read and end < state.next_offset:
            reason = f"the log ends before offset {state.next_offset}, where a clean stop left it"
            path = f"{logs.name}/logs/{name}"
            faults.append(
                LogFault("messages_missing", *ref, path, reason, first_offset=end, next_offset=state.next_offset)
            )
    return faults


def whole_segments(logs: DirectoryLogs, plan: ReadPlan) -> list[Split]:
    """Return a split for each segment whose index can be compared; an active segment has none."""
    is_live = SystemDisk().is_locked(f"{logs.name}/lock")
    return [
        Split(*one.ref, segment.base_offset, segment.next_offset, segment.size, (segment,))
        for one in plan.ranges
        for segment in (one.view.segments[:-1] if is_live else one.view.segments)
        if segment.base_offset < one.end and segment.next_offset > one.first
    ]


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """The work of a task: the index of one segment."""

    logs: DirectoryLogs
    active: frozenset[tuple[PartitionRef, int]]
    """The segments that nothing follows, each named by its base."""

    def __call__(self, split: Split) -> list[LogFault]:
        ref, (segment,) = (split.topic, split.partition), split.segments
        disk, directory = SystemDisk(), f"{self.logs.name}/logs/{split.topic}/{split.partition}"
        is_active = (ref, segment.base_offset) in self.active
        file = Segment(directory, segment.base_offset, segment.size)
        report = check.check_segment(disk, check.SegmentTask(directory, file, None if is_active else split.end, 0))
        faults = [
            LogFault(finding.code, *ref, finding.path, finding.sentence)
            for finding in report.findings
            if finding.code in ("index_wrong", "index_missing", "aborted_wrong", "file_unusable")
        ]
        return faults if segment in self.logs.view(*ref).segments else []


def active_segments(plan: ReadPlan) -> frozenset[tuple[PartitionRef, int]]:
    return frozenset((one.ref, one.view.segments[-1].base_offset) for one in plan.ranges if one.view.segments)


def in_order(faults: Iterable[LogFault], plan: ReadPlan) -> list[LogFault]:
    """Sort faults by partition as in the plan, then by file and position."""
    rank = {one.ref: number for number, one in enumerate(plan.ranges)}
    return sorted(
        faults,
        key=lambda one: (
            rank.get((one.topic, one.partition), len(rank)),
            one.path,
            one.first_offset or 0,
            one.position or 0,
        ),
    )


def rows(faults: Iterable[LogFault]) -> list[Row]:
    return [
        {
            **asdict(fault),
            "damage": fault.is_damage,
            "offsets": fault.offsets,
            "range": None if fault.position is None else f"{fault.position}-{fault.end}",
        }
        for fault in faults
    ]


def inspect(context: InspectionContext, index: bool) -> Report:
    logs, plan = context.logs, context.plan
    found = context.scan(plan, GapScan(logs, compacted_below(logs, plan)), action="verifying")
    faults = faults_of(find_gaps(logs, plan, found, compacted_below(logs, plan)))
    if isinstance(logs, DirectoryLogs):
        is_whole = {one.ref for one in plan.ranges} >= set(TopicSelection().places(logs))
        faults += lost_ends(logs, plan, is_whole=is_whole)
        if index:
            check_index = IndexCheck(logs, active_segments(plan))
            with context.session(plan, action="comparing indexes") as spark:
                for one in run_on_splits(spark, whole_segments(logs, plan), check_index):
                    faults += one
    traces = [trace for _, trace in found]
    unnamed = sum(trace.unnamed for trace in traces)
    damages = sum(fault.is_damage for fault in faults) + unnamed
    frames, size = sum(trace.messages for trace in traces), sum(trace.bytes for trace in traces)
    verdict = format_count(damages, "damage") if damages else "no damage"
    report = Report(rows(in_order(faults, plan)), plan, is_failure=damages > 0)
    report.notes.append(f"{format_count(frames, 'frame')}, {format_size(size)} verified: {verdict}")
    if unnamed:
        report.warnings.append(f"{format_count(unnamed, 'gap')} more than are listed one by one")
    return report
