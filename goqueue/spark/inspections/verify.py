"""Whether every frame is what was written: the same findings as those of `goqueue fsck`, while a broker may be at work.

Frames are read in splits, as all inspections read them. Indexes are compared segment by segment with what the log
makes of them, by the engine of `fsck` itself; that of a segment which still grows is left alone.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from goqueue.spark.inspections import parameters
from goqueue.spark.inspections.gaps import Gap, Look, What, compacted_below, find_gaps
from goqueue.spark.inspections.inspection import Inspection, Row, schema
from goqueue.spark.jobs import on_each
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.logs.port import Logs
from goqueue.spark.plan import Plan, Selection
from goqueue.spark.points import Place
from goqueue.spark.reading import Split
from goqueue.storage import check
from goqueue.storage.clean_stop import read_clean_stop
from goqueue.storage.disk import SystemDisk
from goqueue.storage.segment import Segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Code = Literal[check.FindingCode, "removed"]

_CODES: dict[What, Code] = {"damaged": "range_damaged", "missing": "messages_missing", "times_fall": "order_broken"}


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it should be."""

    code: Code
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


def faults_of(gaps: Iterable[Gap]) -> list[Fault]:
    """Gaps that nobody wanted."""
    return [
        Fault(
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


def lost_ends(logs: DirectoryLogs, plan: Plan, *, is_whole: bool) -> list[Fault]:
    """What a clean stop had vouched for, and is not there: the end of a log, or with `is_whole` all of one."""
    disk = SystemDisk()
    if disk.is_locked(f"{logs.name}/lock"):
        return []
    clean = read_clean_stop(disk, logs.name).logs
    read_ends: dict[str, tuple[Place, int, bool]] = {
        f"{one.place[0]}/{one.place[1]}": (one.place, one.view.end, one.end == one.view.end) for one in plan.ranges
    }
    faults = []
    for name, state in clean.items():
        topic, _, number = name.rpartition("/")
        if name in read_ends:
            place, end, is_read = read_ends[name]
        elif is_whole and number.isdecimal() and not topic.startswith("__"):
            place, end, is_read = (topic, int(number)), 0, True
        else:
            continue
        if is_read and end < state.next_offset:
            reason = f"the log ends before offset {state.next_offset}, where a clean stop left it"
            path = f"{logs.name}/logs/{name}"
            faults.append(
                Fault("messages_missing", *place, path, reason, first_offset=end, next_offset=state.next_offset)
            )
    return faults


def whole_segments(logs: DirectoryLogs, plan: Plan) -> list[Split]:
    """A split for each segment whose index can be compared; one that still grows is none of them."""
    is_live = SystemDisk().is_locked(f"{logs.name}/lock")
    return [
        Split(*one.place, segment.base_offset, segment.next_offset, segment.size, (segment,))
        for one in plan.ranges
        for segment in (one.view.segments[:-1] if is_live else one.view.segments)
        if segment.base_offset < one.end and segment.next_offset > one.first
    ]


@dataclass(frozen=True, slots=True)
class IndexLook:
    """The work of a task: the index of one segment."""

    logs: DirectoryLogs
    active: frozenset[tuple[Place, int]]
    """The segments that nothing follows, each named by its base."""

    def __call__(self, split: Split) -> list[Fault]:
        place, (segment,) = (split.topic, split.partition), split.segments
        disk, directory = SystemDisk(), f"{self.logs.name}/logs/{split.topic}/{split.partition}"
        is_active = (place, segment.base_offset) in self.active
        file = Segment(directory, segment.base_offset, segment.size)
        report = check.check_segment(disk, check.SegmentTask(directory, file, None if is_active else split.end, 0))
        faults = [
            Fault(finding.code, *place, finding.path, finding.sentence)
            for finding in report.findings
            if finding.code in ("index_wrong", "index_missing", "aborted_wrong", "file_unusable")
        ]
        return faults if segment in self.logs.view(*place).segments else []


def active_segments(plan: Plan) -> frozenset[tuple[Place, int]]:
    return frozenset((one.place, one.view.segments[-1].base_offset) for one in plan.ranges if one.view.segments)


def in_order(faults: Iterable[Fault], plan: Plan) -> list[Fault]:
    """As the partitions stand in the plan, and in each by file and position."""
    rank = {one.place: number for number, one in enumerate(plan.ranges)}
    return sorted(
        faults,
        key=lambda one: (
            rank.get((one.topic, one.partition), len(rank)),
            one.path,
            one.first_offset or 0,
            one.position or 0,
        ),
    )


def index_faults(spark: "SparkSession", logs: DirectoryLogs, plan: Plan) -> list[Fault]:
    """Of all segments that can be compared."""
    look = IndexLook(logs, active_segments(plan))
    return [fault for faults in on_each(spark, whole_segments(logs, plan), look) for fault in faults]


def rows(faults: Iterable[Fault]) -> list[Row]:
    return [{**asdict(fault), "damage": fault.is_damage} for fault in faults]


def inspect(spark: "SparkSession", logs: Logs, plan: Plan, index: bool = False) -> list[Row]:
    splits = plan.splits(logs)
    traces = on_each(spark, splits, Look(logs, compacted_below(logs, plan)))
    faults = faults_of(find_gaps(logs, plan, splits, traces, compacted_below(logs, plan)))
    if isinstance(logs, DirectoryLogs):
        is_whole = {one.place for one in plan.ranges} >= set(Selection().places(logs))
        faults += lost_ends(logs, plan, is_whole=is_whole)
        faults += index_faults(spark, logs, plan) if index else []
    return rows(in_order(faults, plan))


INSPECTION = Inspection(
    inspect,
    schema(
        code=pa.string(),
        topic=pa.string(),
        partition=pa.int32(),
        path=pa.string(),
        reason=pa.string(),
        position=pa.int64(),
        end=pa.int64(),
        first_offset=pa.int64(),
        next_offset=pa.int64(),
        damage=pa.bool_(),
    ),
    {"index": parameters.switch()},
    of_files=frozenset({"index"}),
)
