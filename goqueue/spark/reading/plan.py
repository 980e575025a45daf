"""Plan what a job reads: the partitions, the offsets, and the splits."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np

from goqueue.errors import OffsetOutOfRange, PartitionNotFound, RequestInvalid, SegmentNotFound, TopicNotFound
from goqueue.limits import MIB
from goqueue.nearest import nearest
from goqueue.quantities import quoted
from goqueue.spark.logs.port import LogSource, PartitionRef
from goqueue.spark.logs.splits import FrameRun, Split, read_split
from goqueue.spark.logs.visibility import stable_views
from goqueue.storage.log_view import LogView, SegmentView


@dataclass(frozen=True, slots=True)
class TimePoint:
    """The first message at or after it."""

    time_ns: int


ReadPoint = int | TimePoint | Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True)
class ReadBound:
    """One end of what is read, for every partition."""

    otherwise: ReadPoint
    given: Mapping[PartitionRef, ReadPoint] = field(default_factory=dict)

    def offset(self, logs: LogSource, ref: PartitionRef, view: LogView) -> int:
        """Return the offset in this partition, which may not exist any more, or not yet."""
        match self.given.get(ref, self.otherwise):
            case "earliest":
                return view.earliest
            case "latest":
                return view.readable_end
            case TimePoint(time_ns):
                return find_offset_at(logs, ref, view, time_ns)
            case offset:
                return offset


EARLIEST = ReadBound("earliest")
LATEST = ReadBound("latest")


def find_offset_at(logs: LogSource, ref: PartitionRef, view: LogView, time_ns: int) -> int:
    """Return the first offset with this time or a later one; the end where there is none."""
    segments = [segment for segment in view.segments if segment.size]
    low, high = 0, len(segments)
    while low < high:  # the last segment that begins before the moment holds it, or the one behind begins with it
        middle = (low + high) // 2
        first = next(_times(logs, ref, segments[middle], segments[middle].base_offset), None)
        if first is not None and int(first[1][0]) < time_ns:
            low = middle + 1
        else:
            high = middle
    for segment in segments[max(0, low - 1) :]:
        for offsets, times in _times(logs, ref, segment, _offset_before(logs, ref, segment, time_ns)):
            if int(times[-1]) >= time_ns:
                return int(offsets[np.searchsorted(times, time_ns)])
    return view.end


def _offset_before(logs: LogSource, ref: PartitionRef, segment: SegmentView, time_ns: int) -> int:
    """Return an offset in a segment before which all messages are older."""
    try:
        opened = logs.open(*ref, segment)
    except SegmentNotFound:  # it has been removed or replaced since it was viewed: reading finds what there is
        return segment.base_offset
    try:
        index = opened.index
        number = opened.entry(index.before_time(time_ns), segment.size)
        return max(segment.base_offset, index.start_for(number)[0])
    finally:
        opened.file.close()


def _times(
    logs: LogSource, ref: PartitionRef, segment: SegmentView, first: int
) -> "Iterator[tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]]":
    """Yield the offsets and times in a segment from an offset on."""
    for piece in read_split(logs, Split(*ref, first, segment.next_offset, segment.size, (segment,))):
        if isinstance(piece, FrameRun):
            yield piece.frames.offsets, piece.frames.timestamps


SPLIT_BYTES = 256 * MIB
"""What a task reads of a large log: less costs more in starting tasks, more leaves cores idle at the end."""
_SPLIT_BYTES_LEAST = 16 * MIB
_SPLITS_WANTED = 8  # where there is less to read, so that a few cores share it


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Which partitions: topics by name or by pattern, or single partitions. Nothing means all topics of users."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None

    def places(self, logs: LogSource) -> list[PartitionRef]:
        topics = logs.topics()
        if self.assigned is not None:
            return [ref for topic, numbers in self.assigned.items() for ref in _assigned(topics, topic, numbers)]
        for name in self.names:
            _check_topic(topics, name)
        wanted = self.names or tuple(name for name in topics if not name.startswith("__") and self._fits(name))
        if self.pattern is not None and not wanted:
            raise TopicNotFound(f"no topic matches {quoted(self.pattern)}", hint=_known(topics))
        return [(name, number) for name in dict.fromkeys(wanted) for number in topics[name]]

    def _fits(self, name: str) -> bool:
        return self.pattern is None or re.fullmatch(self.pattern, name) is not None


def _assigned(topics: dict[str, tuple[int, ...]], topic: str, numbers: tuple[int, ...]) -> list[PartitionRef]:
    _check_topic(topics, topic)
    for number in numbers:
        if number not in topics[topic]:
            raise PartitionNotFound(
                f"topic {quoted(topic)} has no partition {number}",
                hint=f"it has the partitions {', '.join(map(str, topics[topic]))}",
            )
    return [(topic, number) for number in dict.fromkeys(numbers)]


def _check_topic(topics: dict[str, tuple[int, ...]], name: str) -> None:
    if name not in topics:
        guess = nearest(name, [topic for topic in topics if not topic.startswith("__")])
        hint = f"did you mean {guess}?" if guess else _known(topics)
        raise TopicNotFound(f"there is no topic {quoted(name)}", hint=hint)


def _known(topics: Iterable[str]) -> str:
    names = [name for name in topics if not name.startswith("__")]
    return f"there are: {', '.join(names[:5])}{', …' if len(names) > 5 else ''}" if names else "there are none at all"


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """The offsets of one partition that are read, and the log as it was seen when that was decided."""

    ref: PartitionRef
    first: int
    end: int
    view: LogView


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The ranges that are read. A plan is made once, so that reading it twice gives the same messages."""

    ranges: tuple[PartitionRange, ...]

    @property
    def messages(self) -> int:
        """About so many: what compaction has removed counts still."""
        return sum(one.end - one.first for one in self.ranges)

    @property
    def size(self) -> int:
        return sum(_bytes_between(one.view.segments, one.first, one.end) for one in self.ranges)

    def splits(self, logs: LogSource, *, split_bytes: int | None = None, least: int | None = None) -> list[Split]:
        """Cut into splits of about `split_bytes`, and at least so many where there is enough to read."""
        size = self.size
        most = split_bytes or min(SPLIT_BYTES, max(_SPLIT_BYTES_LEAST, size // _SPLITS_WANTED))
        if least is not None:
            most = max(1, min(most, size // least))
        return [split for one in self.ranges for split in _cut(logs, one, most)]


def make_plan(
    logs: LogSource,
    selection: TopicSelection,
    start: ReadBound = EARLIEST,
    end: ReadBound = LATEST,
    *,
    is_strict: bool = False,
) -> ReadPlan:
    """Resolve all ends now. `is_strict` refuses offsets that are not there; otherwise what is there is read."""
    ranges = []
    for ref, view in stable_views(logs, selection.places(logs)).items():
        first, last = start.offset(logs, ref, view), end.offset(logs, ref, view)
        if is_strict and not view.earliest <= first <= view.end:
            raise OffsetOutOfRange(
                f"offset {first} of {ref[0]}/{ref[1]} is not there: it holds {view.earliest} to {view.end}",
                hint="failOnDataLoss=false begins with what is there",
            )
        first = min(max(first, view.earliest), view.end)
        ranges.append(PartitionRange(ref, first, max(first, min(last, view.readable_end)), view))
    return ReadPlan(tuple(ranges))


def group_small_splits(splits: Sequence[Split], most: int = _SPLIT_BYTES_LEAST) -> list[tuple[Split, ...]]:
    """Group small neighboring splits: thousands of small partitions need not be as many tasks."""
    groups: list[list[Split]] = []
    room = 0
    for split in splits:
        if not groups or split.size > room:
            groups.append([])
            room = most
        groups[-1].append(split)
        room -= split.size
    return [tuple(group) for group in groups]


def _cut(logs: LogSource, given: PartitionRange, most: int) -> list[Split]:
    """Cut a range at segments, and at index entries in large segments."""
    if given.first >= given.end:
        return []
    edges, gathered = [given.first], 0
    for segment in _overlapping(given.view.segments, given.first, given.end):
        if segment.size > most:
            edges += _inner_edges(logs, given.ref, segment, most)
            edges.append(segment.next_offset)
            gathered = 0
            continue
        if gathered and gathered + segment.size > most:
            edges.append(segment.base_offset)
            gathered = 0
        gathered += segment.size
    inner = sorted({edge for edge in edges if given.first < edge < given.end})
    return [_split(given, first, end) for first, end in pairwise([given.first, *inner, given.end])]


def _inner_edges(logs: LogSource, ref: PartitionRef, segment: SegmentView, most: int) -> list[int]:
    try:
        opened = logs.open(*ref, segment)
    except SegmentNotFound:  # it has been replaced since it was viewed; readers look again
        return [segment.base_offset]
    opened.file.close()
    index = opened.index
    pieces = min(-(-segment.size // most), len(index) + 1)
    numbers = [index.before_position(segment.size * piece // pieces) for piece in range(1, pieces)]
    return [segment.base_offset, *(index.offsets[number] for number in numbers if number >= 0)]


def _split(given: PartitionRange, first: int, end: int) -> Split:
    segments = tuple(_overlapping(given.view.segments, first, end))
    size = _bytes_between(segments, first, end)
    return Split(*given.ref, first, end, size, segments, first == given.first, given.view.end)


def _overlapping(segments: Iterable[SegmentView], first: int, end: int) -> list[SegmentView]:
    return [one for one in segments if one.base_offset < end and one.next_offset > first]


def _bytes_between(segments: Iterable[SegmentView], first: int, end: int) -> int:
    """Estimate bytes as if all messages of a segment had the same size."""
    total = 0
    for one in _overlapping(segments, first, end):
        share = min(end, one.next_offset) - max(first, one.base_offset)
        total += one.size * share // max(1, one.next_offset - one.base_offset)
    return total


def check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise RequestInvalid(
            f"{quoted(pattern)} is not a pattern: {error}", hint="write it as in 'orders-.*'"
        ) from None
