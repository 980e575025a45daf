"""Where offsets are missing and order is broken: the look of `gaps` and of `verify`.

The rules are those of `goqueue fsck`. A gap is a loss unless it lies below the offset up to which compaction has
removed messages; it is judged segment by segment, since each segment begins with a base that vouches for the one
before it. Offsets that do not rise, and times that fall within a segment, are damage, because readers refuse them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from goqueue.quantities import format_count
from goqueue.spark.inspections import repeats
from goqueue.spark.inspections.inspection import InspectionContext, Report, Row
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.port import LogSource, PartitionRef
from goqueue.spark.logs.splits import DamagedBytes, FrameRun, RemovedRange, Split, read_split
from goqueue.spark.reading.plan import PartitionRange, ReadPlan
from goqueue.storage.segment_scan import Damage

if TYPE_CHECKING:
    pass

ROWS_SHOWN = 100
"""Rows, unless it is said."""
GAPS_MAX = 10_000
"""Named one by one in what a task reads; the others are counted."""

GapKind = Literal["damaged", "missing", "times_fall", "removed", "compacted"]
OffsetInterval = tuple[int, int]
"""Offsets from the first up to, not including, the second."""


@dataclass(slots=True)
class SequenceFindings:
    """Gaps, damage and falling times in the part of a log that a task has read."""

    messages: int = 0
    bytes: int = 0
    damages: list[tuple[str, Damage]] = field(default_factory=list)
    missing: list[OffsetInterval] = field(default_factory=list)
    compacted: list[OffsetInterval] = field(default_factory=list)
    removed: list[OffsetInterval] = field(default_factory=list)
    falls: list[int] = field(default_factory=list)
    """Offsets whose message is older than the one before it."""
    unnamed: int = 0
    """Gaps beyond those that are named: all of them are losses."""
    unnamed_compacted: int = 0
    first_time: int | None = None
    first_offset: int | None = None
    last_time: int = 0

    def note_gap(self, first: int, end: int, compacted_below: int) -> None:
        is_explained = end <= compacted_below
        named = self.compacted if is_explained else self.missing
        if len(named) < GAPS_MAX:
            named.append((first, end))
        elif is_explained:
            self.unnamed_compacted += 1
        else:
            self.unnamed += 1

    def note_run(self, run: FrameRun, expected: int, compacted_below: int) -> int:
        """Take in a run that should begin with the offset `expected`; the offset that is expected behind it."""
        offsets, times = run.frames.offsets, run.frames.timestamps
        first, end = int(offsets[0]), int(offsets[-1]) + 1
        if end - expected != len(offsets):
            steps = np.diff(offsets, prepend=expected - 1)
            for number in np.flatnonzero(steps > 1).tolist():
                after = int(offsets[number])
                self.note_gap(after - int(steps[number]) + 1, after, compacted_below)
        if self.first_time is None:
            self.first_time, self.first_offset = int(times[0]), first
        elif int(times[0]) < self.last_time:
            self.falls.append(first)
        self.last_time = int(times[-1])
        self.messages += len(offsets)
        self.bytes += int(run.frames.lengths.sum())
        return end


@dataclass(frozen=True, slots=True)
class GapScan:
    """The work of a task."""

    logs: LogSource
    compacted_below: Mapping[PartitionRef, int]

    def __call__(self, split: Split) -> SequenceFindings:
        trace, expected = SequenceFindings(), split.first
        below = self.compacted_below.get((split.topic, split.partition), 0)
        for piece in read_split(self.logs, split):
            match piece:
                case FrameRun():
                    expected = trace.note_run(piece, expected, below)
                case DamagedBytes(path=path, damage=damage):
                    is_gap = damage.position == damage.end  # no bytes are wrong: those that should follow are gone
                    end = min(damage.next_offset, split.end) if is_gap else damage.first_offset
                    if end > expected:
                        trace.note_gap(expected, end, below)
                    if not is_gap:
                        trace.damages.append((path, damage))
                    expected = max(expected, damage.next_offset)
                case RemovedRange(first=first, next_offset=end):
                    trace.removed.append((first, end))
                    expected = max(expected, end)
        if expected < split.end:
            trace.note_gap(expected, split.end, below)
        return trace


@dataclass(frozen=True, slots=True)
class OffsetGap:
    """A range of offsets that is not as it should be, or that needs to be explained."""

    what: GapKind
    topic: str
    partition: int
    path: str
    first_offset: int
    next_offset: int
    reason: str
    position: int | None = None
    end: int | None = None

    @property
    def is_explained(self) -> bool:
        """True where compaction or retention removed the messages."""
        return self.what in ("compacted", "removed")


_REASONS: Mapping[GapKind, str] = {
    "missing": "no message has these offsets, and no compaction explains it",
    "compacted": "compaction removed them, or kept none of them",
    "removed": "retention removed them while they were to be read",
    "times_fall": "begins with an earlier time than what stands before it",
}


def compacted_below(logs: LogSource, plan: ReadPlan) -> dict[PartitionRef, int]:
    """Return the offset below which missing messages are no loss. A broker only says which topics are compacted."""
    if not isinstance(logs, BrokerLogs):
        return {one.ref: progress.gaps for one in plan.ranges if (progress := logs.compaction(*one.ref)) is not None}
    known = {topic.name: str(topic.config.get("cleanup", "")) for topic in logs.client.topic_details()}
    return {
        one.ref: one.view.segments[-1].base_offset
        for one in plan.ranges
        if one.view.segments and "compact" in known.get(one.ref[0], "compact")
    }


def find_gaps(
    logs: LogSource,
    plan: ReadPlan,
    found: Iterable[tuple[Split, SequenceFindings]],
    below: Mapping[PartitionRef, int],
) -> list[OffsetGap]:
    """Join the findings of the tasks partition by partition, in the order of offsets."""
    read_of: defaultdict[PartitionRef, list[tuple[Split, SequenceFindings]]] = defaultdict(list)
    for split, trace in found:
        read_of[split.topic, split.partition].append((split, trace))
    return [gap for one in plan.ranges for gap in _of_range(logs, one, read_of[one.ref], below.get(one.ref, 0))]


def _of_range(
    logs: LogSource, given: PartitionRange, found: list[tuple[Split, SequenceFindings]], below: int
) -> list[OffsetGap]:
    damages = [pair for _, trace in found for pair in trace.damages]
    broken = [(damage.first_offset, damage.next_offset) for _, damage in damages]
    gone = [span for _, trace in found for span in trace.missing + trace.compacted]
    gaps = [
        OffsetGap("damaged", *given.ref, path, one.first_offset, one.next_offset, one.reason, one.position, one.end)
        for path, one in damages
    ]
    for first, end in _cut(_without(_joined(gone), broken), [one.base_offset for one in given.view.segments]):
        gaps.append(_gap(logs, given, "compacted" if end <= below else "missing", first, end))
    for first, end in _joined([span for _, trace in found for span in trace.removed]):
        gaps.append(_gap(logs, given, "removed", first, end))
    gaps += [_gap(logs, given, "times_fall", offset, offset + 1) for offset in _falls(found)]
    return sorted(gaps, key=lambda gap: (gap.first_offset, gap.next_offset))


def _gap(logs: LogSource, given: PartitionRange, what: GapKind, first: int, end: int) -> OffsetGap:
    segments = given.view.segments
    holder = next((one for one in reversed(segments) if one.base_offset <= first), segments[0])
    return OffsetGap(what, *given.ref, logs.path(*given.ref, holder), first, end, _REASONS[what])


def _falls(found: list[tuple[Split, SequenceFindings]]) -> Iterator[int]:
    last_time = 0
    for _, trace in found:
        if trace.first_time is not None and trace.first_offset is not None:
            if trace.first_time < last_time:
                yield trace.first_offset
            yield from trace.falls
            last_time = trace.last_time


def _joined(spans: Iterable[OffsetInterval]) -> list[OffsetInterval]:
    """Join spans that touch: a split may end within a gap."""
    joined: list[OffsetInterval] = []
    for first, end in sorted(spans):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((first, end))
    return joined


def _without(spans: Iterable[OffsetInterval], taken: Iterable[OffsetInterval]) -> Iterator[OffsetInterval]:
    """Yield the parts of rising spans that are not taken: damage in one split may reach into the next."""
    others = _joined(taken)
    number = 0
    for span in spans:
        first, end = span
        while number < len(others) and others[number][1] <= first:
            number += 1
        for start, stop in others[number:]:
            if start >= end:
                break
            if first < start:
                yield first, start
            first = max(first, stop)
        if first < end:
            yield first, end


def _cut(spans: Iterable[OffsetInterval], bases: Sequence[int]) -> Iterator[OffsetInterval]:
    """Cut spans where a segment begins."""
    for first, end in spans:
        edges = [first, *(base for base in bases if first < base < end), end]
        yield from pairwise(edges)


def rows(found: Sequence[OffsetGap], most: int) -> list[Row]:
    """Make rows of the first gaps in their order; explained ones are left out first."""
    chosen = sorted(range(len(found)), key=lambda number: (found[number].is_explained, number))[:most]
    return [_row(found[number]) for number in sorted(chosen)]


def _row(gap: OffsetGap) -> Row:
    return {
        **asdict(gap),
        "last_offset": gap.next_offset - 1,
        "count": 0 if gap.what == "times_fall" else gap.next_offset - gap.first_offset,
        "explained": gap.is_explained,
    }


def inspect(context: InspectionContext, max: int, content: bool) -> Report:  # noqa: A002 - the name of the option
    if content:
        return repeats.inspect(context, max)
    logs, plan = context.logs, context.plan
    scanned = context.scan(plan, GapScan(logs, compacted_below(logs, plan)))
    found = find_gaps(logs, plan, scanned, compacted_below(logs, plan))
    traces = [trace for _, trace in scanned]
    listed = rows(found, max)
    unnamed = sum(trace.unnamed + trace.unnamed_compacted for trace in traces)
    losses = sum(not gap.is_explained for gap in found) + sum(trace.unnamed for trace in traces)
    report = Report(listed, plan, is_failure=losses > 0)
    report.notes.append(
        f"{format_count(losses, 'gap')} without an explanation, {len(found) + unnamed - losses:,} explained"
    )
    if left := len(found) - len(listed) + unnamed:
        report.warnings.append(f"{format_count(left, 'row')} more; --max prints up to {max + left}")
    return report
