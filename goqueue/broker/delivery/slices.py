"""The part of what was read that is handed out: so many messages, up to an offset, and which offsets have none."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from goqueue.broker.delivery.changes import Range
from goqueue.limits import OFFSET_MAX
from goqueue.storage import frame, scan
from goqueue.storage.extent import Read

_VIEWS_MAX = 16


@dataclass(frozen=True, slots=True)
class Slice:
    """Whole messages of a range of offsets."""

    buffers: tuple[memoryview, ...]
    first: int
    end: int
    gaps: tuple[Range, ...] = ()
    """Offsets of the range without a message."""
    count: int = field(init=False)

    def __post_init__(self) -> None:
        missing = sum(end - first for first, end in self.gaps) if self.gaps else 0
        object.__setattr__(self, "count", self.end - self.first - missing)

    @property
    def size(self) -> int:
        return sum(map(len, self.buffers))

    def ranges(self) -> list[Range]:
        """The offsets with messages."""
        edges = [self.first, *(edge for gap in self.gaps for edge in gap), self.end]
        return [(first, end) for first, end in zip(edges[::2], edges[1::2], strict=True) if first < end]


def cut(read: Read, first: int, end: int, most: int, *, dense: bool) -> Slice:
    """At most so many messages from `first` up to `end`. Where offsets are known to be dense, no frame is looked at
    but to cut."""
    end = min(end, read.next_offset)
    if dense and end == read.next_offset and end - first <= most:
        return Slice(read.buffers, first, end)
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
            return Slice(tuple(buffers), first, expected, tuple(gaps))
        if wanted < len(offsets):
            break
    if expected < end:
        gaps.append((expected, end))
    return Slice(tuple(buffers), first, end, tuple(gaps))


def picked(read: Read, spans: Sequence[Range]) -> tuple[list[memoryview], list[Range]]:
    """Those of the messages that lie in these spans, which rise, and their offsets as ranges."""
    starts, ends = np.array(spans, np.int64).T
    views: list[memoryview] = []
    ranges: list[Range] = []
    for buffer in read.buffers:
        frames = scan.walk(buffer)
        offsets = frames.offsets
        places = np.searchsorted(starts, offsets, "right") - 1
        wanted = (places >= 0) & (offsets < ends[places]) & ((frames.flags & frame.CONTROL) == 0)
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


def assembled(views: list[memoryview], ranges: list[Range]) -> Slice:
    """Messages of ranges that rise, as one. Many small views are copied into one: each costs whoever sends it."""
    gaps = [(one[1], two[0]) for one, two in pairwise(ranges) if one[1] < two[0]]
    if len(views) > _VIEWS_MAX:
        views = [memoryview(b"".join(views))]
    return Slice(tuple(views), ranges[0][0], ranges[-1][1], tuple(gaps))


def _gaps(offsets: scan.Positions, expected: int) -> list[Range]:
    """What is missing before each of these offsets."""
    before = np.concatenate(([expected - 1], offsets[:-1])) + 1
    missing = np.flatnonzero(before < offsets)
    return [(int(before[index]), int(offsets[index])) for index in missing]


def of_one_lane(content: Slice) -> Slice:
    """The first of these messages, up to one of another lane."""
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


def without(content: Slice, blocked: dict[bytes, int], most: int) -> tuple[list[Slice], list[Range]]:
    """What is left without those whose key has an earlier message that is not done, and what is left out.

    A slice is one stretch, so there are as many as what is left out makes, and at most so many; it ends there then.
    """
    if not blocked:
        return [content], []
    stretches: list[Slice] = []
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


def _stretch(content: Slice, buffers: list[memoryview], first: int, end: int) -> Slice:
    gaps = tuple((one, other) for one, other in content.gaps if first <= one < end)
    return Slice(tuple(buffer for buffer in buffers if len(buffer)), first, end, gaps)
