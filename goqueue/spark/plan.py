"""What a job reads: which partitions, from where to where, and in what pieces."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from goqueue.config.problem import nearest
from goqueue.errors import OffsetOutOfRange, PartitionNotFound, RequestInvalid, SegmentNotFound, TopicNotFound
from goqueue.limits import MIB
from goqueue.quantities import quoted
from goqueue.spark.logs.port import Logs
from goqueue.spark.points import EARLIEST, LATEST, Bound, Place
from goqueue.spark.reading import Split
from goqueue.spark.stable import views_of
from goqueue.storage.visit import LogView, SegmentView

SPLIT_BYTES = 256 * MIB
"""What a task reads of a large log: less costs more in starting tasks, more leaves cores idle at the end."""
_SPLIT_BYTES_LEAST = 16 * MIB
_SPLITS_WANTED = 8  # where there is less to read, so that a few cores share it


@dataclass(frozen=True, slots=True)
class Selection:
    """Which partitions: topics by name or by pattern, or single partitions. Nothing means all topics of users."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None

    def places(self, logs: Logs) -> list[Place]:
        topics = logs.topics()
        if self.assigned is not None:
            return [place for topic, numbers in self.assigned.items() for place in _assigned(topics, topic, numbers)]
        for name in self.names:
            _check_topic(topics, name)
        wanted = self.names or tuple(name for name in topics if not name.startswith("__") and self._fits(name))
        if self.pattern is not None and not wanted:
            raise TopicNotFound(f"no topic matches {quoted(self.pattern)}", hint=_known(topics))
        return [(name, number) for name in dict.fromkeys(wanted) for number in topics[name]]

    def _fits(self, name: str) -> bool:
        return self.pattern is None or re.fullmatch(self.pattern, name) is not None


def _assigned(topics: dict[str, tuple[int, ...]], topic: str, numbers: tuple[int, ...]) -> list[Place]:
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
class Range:
    """The offsets of one partition that are read, and the log as it was seen when that was decided."""

    place: Place
    first: int
    end: int
    view: LogView


@dataclass(frozen=True, slots=True)
class Plan:
    """What is read. It is made once, so that whoever looks at it twice sees the same messages."""

    ranges: tuple[Range, ...]

    @property
    def messages(self) -> int:
        """About so many: what compaction has removed counts still."""
        return sum(one.end - one.first for one in self.ranges)

    @property
    def size(self) -> int:
        return sum(_bytes_between(one.view.segments, one.first, one.end) for one in self.ranges)

    def splits(self, logs: Logs, *, split_bytes: int | None = None, least: int | None = None) -> list[Split]:
        """Pieces of about `split_bytes`, and at least so many where there is enough to read."""
        size = self.size
        most = split_bytes or min(SPLIT_BYTES, max(_SPLIT_BYTES_LEAST, size // _SPLITS_WANTED))
        if least is not None:
            most = max(1, min(most, size // least))
        return [split for one in self.ranges for split in _cut(logs, one, most)]


def make_plan(
    logs: Logs, selection: Selection, start: Bound = EARLIEST, end: Bound = LATEST, *, is_strict: bool = False
) -> Plan:
    """Resolve all ends now. `is_strict` refuses offsets that are not there; otherwise what is there is read."""
    ranges = []
    for place, view in views_of(logs, selection.places(logs)).items():
        first, last = start.offset(logs, place, view), end.offset(logs, place, view)
        if is_strict and not view.earliest <= first <= view.end:
            raise OffsetOutOfRange(
                f"offset {first} of {place[0]}/{place[1]} is not there: it holds {view.earliest} to {view.end}",
                hint="failOnDataLoss=false begins with what is there",
            )
        first = min(max(first, view.earliest), view.end)
        ranges.append(Range(place, first, max(first, min(last, view.readable_end)), view))
    return Plan(tuple(ranges))


def gathered(splits: Sequence[Split], most: int = _SPLIT_BYTES_LEAST) -> list[tuple[Split, ...]]:
    """Neighbours that are small together: thousands of partitions with little in them need not be as many tasks."""
    groups: list[list[Split]] = []
    room = 0
    for split in splits:
        if not groups or split.size > room:
            groups.append([])
            room = most
        groups[-1].append(split)
        room -= split.size
    return [tuple(group) for group in groups]


def _cut(logs: Logs, given: Range, most: int) -> list[Split]:
    """Cut at segments, and large segments at entries of their index."""
    if given.first >= given.end:
        return []
    edges, gathered = [given.first], 0
    for segment in _overlapping(given.view.segments, given.first, given.end):
        if segment.size > most:
            edges += _inner_edges(logs, given.place, segment, most)
            edges.append(segment.next_offset)
            gathered = 0
            continue
        if gathered and gathered + segment.size > most:
            edges.append(segment.base_offset)
            gathered = 0
        gathered += segment.size
    inner = sorted({edge for edge in edges if given.first < edge < given.end})
    return [_split(given, first, end) for first, end in pairwise([given.first, *inner, given.end])]


def _inner_edges(logs: Logs, place: Place, segment: SegmentView, most: int) -> list[int]:
    try:
        opened = logs.open(*place, segment)
    except SegmentNotFound:  # it has been replaced since it was viewed, and whoever reads looks again
        return [segment.base_offset]
    opened.file.close()
    index = opened.index
    pieces = min(-(-segment.size // most), len(index) + 1)
    numbers = [index.before_position(segment.size * piece // pieces) for piece in range(1, pieces)]
    return [segment.base_offset, *(index.offsets[number] for number in numbers if number >= 0)]


def _split(given: Range, first: int, end: int) -> Split:
    segments = tuple(_overlapping(given.view.segments, first, end))
    size = _bytes_between(segments, first, end)
    return Split(*given.place, first, end, size, segments, first == given.first, given.view.end)


def _overlapping(segments: Iterable[SegmentView], first: int, end: int) -> list[SegmentView]:
    return [one for one in segments if one.base_offset < end and one.next_offset > first]


def _bytes_between(segments: Iterable[SegmentView], first: int, end: int) -> int:
    """As if messages were of one size within a segment."""
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
