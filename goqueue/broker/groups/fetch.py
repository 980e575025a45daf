"""Reads messages from a partition for delivery: slices of a read, and messages of one lane.

A slice holds whole messages of a range of offsets, and knows which offsets have none.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from operator import itemgetter

import numpy as np

from goqueue.broker.core.lane_scheduler import LanePolicy, LaneScheduler
from goqueue.broker.core.view import PartitionView
from goqueue.broker.core.work import Work
from goqueue.broker.groups.records import Range
from goqueue.errors import RangeDamaged
from goqueue.limits import LANE_GAP_BYTES, LANE_READS_MAX, LANE_SPANS_MAX, OFFSET_MAX
from goqueue.storage import frame, scan
from goqueue.storage.lanes import LANES
from goqueue.storage.reads import ReadResult

_VIEWS_MAX = 16  # in a slice: each costs the sender of the response


@dataclass(frozen=True, slots=True)
class MessageSlice:
    """Whole messages of a range of offsets."""

    buffers: tuple[memoryview, ...]
    first: int
    end: int
    gaps: tuple[Range, ...] = ()
    """Offsets without a message."""
    count: int = field(init=False)

    def __post_init__(self) -> None:
        missing = sum(end - first for first, end in self.gaps) if self.gaps else 0
        object.__setattr__(self, "count", self.end - self.first - missing)

    @property
    def size(self) -> int:
        return sum(map(len, self.buffers))

    def ranges(self) -> list[Range]:
        """Return the offsets with messages."""
        edges = [self.first, *(edge for gap in self.gaps for edge in gap), self.end]
        return [(first, end) for first, end in zip(edges[::2], edges[1::2], strict=True) if first < end]


def slice_read(read: ReadResult, first: int, end: int, most: int, *, dense: bool) -> MessageSlice:
    """Return at most so many messages from `first` up to `end`.

    When offsets are known to be dense, frames are only walked to find where to cut.
    """
    end = min(end, read.next_offset)
    if dense and end == read.next_offset and end - first <= most:
        return MessageSlice(read.buffers, first, end)
    buffers: list[memoryview] = []
    gaps: list[Range] = []
    expected, left = first, most
    for buffer in read.buffers:
        frames = scan.walk(buffer)
        offsets = frames.offsets
        plain = (frames.flags & frame.CONTROL) == 0
        wanted = int(np.searchsorted(offsets, end))
        chosen = np.flatnonzero(plain[:wanted])[:left]
        if len(chosen):
            last = int(chosen[-1]) + 1
            buffers.append(buffer[: int(frames.positions[last - 1] + frames.lengths[last - 1])])
            gaps += _gaps(offsets[chosen], expected)
            expected = int(offsets[last - 1]) + 1
            left -= len(chosen)
        if not left:
            return MessageSlice(tuple(buffers), first, expected, tuple(gaps))
        if wanted < len(offsets):
            break
    if expected < end:
        gaps.append((expected, end))
    return MessageSlice(tuple(buffers), first, end, tuple(gaps))


def pick_spans(read: ReadResult, spans: Sequence[Range]) -> tuple[list[memoryview], list[Range]]:
    """Return the messages in ascending spans, and their offsets as ranges."""
    starts, ends = np.array(spans, np.int64).T
    views: list[memoryview] = []
    ranges: list[Range] = []
    for buffer in read.buffers:
        frames = scan.walk(buffer)
        offsets = frames.offsets
        indexes = np.searchsorted(starts, offsets, "right") - 1
        wanted = (indexes >= 0) & (offsets < ends[indexes]) & ((frames.flags & frame.CONTROL) == 0)
        edges = np.flatnonzero(np.diff(wanted, prepend=False, append=False))
        bounds = np.append(frames.positions, frames.end)
        for first, end in edges.reshape(-1, 2).tolist():
            views.append(buffer[bounds[first] : bounds[end]])
        ranges += _as_ranges(offsets[wanted])
    return views, ranges


def _as_ranges(offsets: scan.Positions) -> list[Range]:
    breaks = np.flatnonzero(np.diff(offsets) > 1)
    firsts = offsets[np.append(0, breaks + 1)] if len(offsets) else offsets
    lasts = offsets[np.append(breaks, len(offsets) - 1)] if len(offsets) else offsets
    return list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def assemble_slice(views: list[memoryview], ranges: list[Range]) -> MessageSlice:
    """Return one slice of messages in ascending ranges. Many small views are copied into one."""
    gaps = [(one[1], two[0]) for one, two in pairwise(ranges) if one[1] < two[0]]
    if len(views) > _VIEWS_MAX:
        views = [memoryview(b"".join(views))]
    return MessageSlice(tuple(views), ranges[0][0], ranges[-1][1], tuple(gaps))


def _gaps(offsets: scan.Positions, expected: int) -> list[Range]:
    """Return the ranges that are missing before these offsets."""
    before = np.concatenate(([expected - 1], offsets[:-1])) + 1
    missing = np.flatnonzero(before < offsets)
    return [(int(before[index]), int(offsets[index])) for index in missing]


def first_lane_of(content: MessageSlice) -> MessageSlice:
    """Return the first messages, up to one of another lane."""
    lane: int | None = None
    for number, buffer in enumerate(content.buffers):
        frames = scan.walk(buffer)
        plain = np.flatnonzero((frames.flags & frame.CONTROL) == 0)
        priorities = frames.priorities[plain]
        if lane is None and len(plain):
            lane = int(priorities[0])
        if len(others := plain[priorities != lane]):
            before = [*content.buffers[:number], buffer[: int(frames.positions[others[0]])]]
            return _stretch(content, before, content.first, int(frames.offsets[others[0]]))
    return content


def without_blocked_keys(
    content: MessageSlice, blocked: dict[bytes, int], most: int
) -> tuple[list[MessageSlice], list[Range]]:
    """Return slices without messages whose key is blocked by an earlier message, and the ranges left out.

    Each range that is left out begins a new slice; the result ends at the limit.
    """
    if not blocked:
        return [content], []
    stretches: list[MessageSlice] = []
    held: list[Range] = []
    first, buffers = content.first, list[memoryview]()
    for buffer in content.buffers:
        start = position = 0
        while position < len(buffer):
            after, offset = position + frame.measure(buffer, position), frame.offset_at(buffer, position)
            if _is_blocked(buffer, position, offset, blocked):
                stretches.append(_stretch(content, [*buffers, buffer[start:position]], first, offset))
                if len(stretches) == most:
                    return stretches, held
                held.append((offset, offset + 1))
                first, buffers, start = offset + 1, [], after
            position = after
        buffers.append(buffer[start:])
    stretches.append(_stretch(content, buffers, first, content.end))
    return [one for one in stretches if one.first < one.end], held


def _is_blocked(buffer: memoryview, position: int, offset: int, blocked: dict[bytes, int]) -> bool:
    key = frame.key_at(buffer, position)
    is_control = buffer[position + frame.AT_FLAGS] & frame.CONTROL
    return bool(key) and not is_control and blocked.get(key, OFFSET_MAX) < offset


def _stretch(content: MessageSlice, buffers: list[memoryview], first: int, end: int) -> MessageSlice:
    gaps = tuple((one, other) for one, other in content.gaps if first <= one < end)
    return MessageSlice(tuple(buffer for buffer in buffers if len(buffer)), first, end, gaps)


# --- lanes ---


@dataclass(frozen=True, slots=True)
class LaneFetch:
    """The result of reading some spans of a lane."""

    content: MessageSlice | None
    through: int
    """Offsets of the spans below this one that are not in the content have no message."""

    def head(self, view: PartitionView, lane: int, spans: list[Range], end: int) -> Work[int]:
        """Return where the lane continues after the spans: at `end` when nothing of it is left before that.

        It is looked up, because compaction may have removed messages since they were counted.
        """
        if spans and self.through < spans[-1][1]:
            return self.through
        following = (yield from view.partition.lanes.next(lane, spans[-1][1], end)) if spans else None
        return end if following is None else following


def fetch_lane(view: PartitionView, spans: list[Range], max_bytes: int, *, skip_damage: bool) -> Work[LaneFetch]:
    """Read the messages in these spans, up to the size limit.

    Small gaps between spans are read as well; damage in a gap is no error.
    """
    views: list[memoryview] = []
    ranges: list[Range] = []
    room, average, through = max_bytes, view.partition.message_bytes, spans[0][0] if spans else view.end
    for group in islice(_neighbors(spans, LANE_GAP_BYTES // average), LANE_READS_MAX):
        offset, stop = max(group[0][0], through), group[-1][1]
        while view.earliest <= offset < stop and room > 0:
            size = min(room, 2 * (stop - offset) * average)
            try:
                read = yield from view.read(offset, size, skip_damage=skip_damage)
            except RangeDamaged:
                following = _next_span(group, offset)
                if following is None and not ranges:
                    raise
                if following is None:  # deliver the messages before the damage first
                    break
                offset = following
                continue
            if read.next_offset == offset:
                break
            start = frame.offset_at(read.buffers[0]) if read.buffers else stop
            offset = through = max(start, min(read.next_offset, stop))
            some, found = pick_spans(read, group)
            room -= sum(map(len, some))
            views += some
            ranges += found
        if offset < stop:
            break
    return LaneFetch(assemble_slice(views, ranges) if ranges else None, through)


def _next_span(group: list[Range], offset: int) -> int | None:
    """Return where the next span begins, for an offset between two spans."""
    index = bisect_right(group, offset, key=itemgetter(1))
    return group[index][0] if offset < group[index][0] else None


def _neighbors(spans: list[Range], gap: int) -> Iterator[list[Range]]:
    """Group spans with small gaps between them, which are read together."""
    group: list[Range] = []
    for span in spans:
        if group and span[0] - group[-1][1] > gap:
            yield group
            group = []
        group.append(span)
    if group:
        yield group


@dataclass(slots=True)
class LanePage:
    """The shares of all lanes in a read without a group, the most urgent first."""

    slices: list[MessageSlice]
    heads: list[int]
    """Where the next page continues in each lane."""


def read_lanes(
    view: PartitionView, heads: Sequence[int], messages: int, max_bytes: int, policy: LanePolicy, *, skip_damage: bool
) -> Work[LanePage]:
    """Read the next messages in the order of delivery, from one offset in each lane; changes nothing."""
    page, end, ready = LanePage([], list(heads)), view.end, [0] * len(LANES)
    lanes = view.partition.lanes
    for lane in LANES:
        ready[lane] = yield from lanes.count(lane, heads[lane], end, messages + 1)
    for lane, most in enumerate(LaneScheduler().divide(policy, ready, messages, 0)):
        if not ready[lane]:
            page.heads[lane] = max(heads[lane], end)
        room = max_bytes - sum(one.size for one in page.slices)
        if not most or room <= 0:
            continue
        spans = yield from lanes.spans(lane, heads[lane], end, most, LANE_SPANS_MAX)
        found = yield from fetch_lane(view, spans, room, skip_damage=skip_damage)
        page.heads[lane] = yield from found.head(view, lane, spans, end)
        page.slices += [found.content] if found.content is not None else []
    return page
