"""Which lane each message of a segment is in. A lane is all messages of one priority; it is kept as runs of offsets.

Like an index this follows from the log alone: it is a cache, noted while messages are appended, written beside a
segment once that is sealed, and made again by a survey where it is missing. The file `.lanes` is described in
`docs/format.md`.

What must stay true: a message between `first` and `end` is in exactly one run, and runs of a lane rise. An offset
without a message may be in a run, or in none. What is damaged counts as `NORMAL`: readers of that lane are told.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from goqueue.limits import OFFSET_MAX, PRIORITY_COUNT
from goqueue.storage import frame
from goqueue.storage.disk import Disk, File, read_all, replace_file
from goqueue.storage.index import Index
from goqueue.storage.scan import PLAIN_FRAMES, Bytes, Frames, Positions
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment

LANES = range(PRIORITY_COUNT)
NO_LANE = -1

_MAGIC, _VERSION = b"GQLN", 1
_HEADER = struct.Struct(f">4sHHQQQ{PRIORITY_COUNT}I")
_CRC = struct.Struct(">I")

_NARROW, _WIDE = "I", "Q"
_NARROW_MAX = 2**32 - 1

Span = tuple[int, int]
"""Offsets from the first up to, not including, the second."""


class OffsetRuns:
    """The messages of one lane, by how far they are from a base: so four bytes a number are enough, as a rule."""

    __slots__ = ("_base", "_ends", "_starts")

    def __init__(self, base: int) -> None:
        self._base = base
        self._starts = array(_NARROW)
        self._ends = array(_NARROW)

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def first(self) -> int:
        """Where there is a run, as for the one that follows."""
        return self._base + self._starts[0]

    @property
    def end(self) -> int:
        return self._base + self._ends[-1]

    def columns(self) -> tuple[Positions, Positions]:
        """Where runs begin, and where they end."""
        return np.array(self._starts, np.int64) + self._base, np.array(self._ends, np.int64) + self._base

    def add(self, start: int, end: int, *, joins: bool) -> None:
        """`joins` where nothing of another lane lies between the last run and this one."""
        self._make_room(end)
        if joins:
            self._ends[-1] = end - self._base
        else:
            self._starts.append(start - self._base)
            self._ends.append(end - self._base)

    def add_many(self, starts: Positions, ends: Positions, *, joins: bool) -> None:
        """`add` of each; the first may join."""
        if not len(starts):
            return
        self._make_room(int(ends[-1]))
        if joins:
            self._ends[-1] = int(ends[0]) - self._base
            starts, ends = starts[1:], ends[1:]
        for column, values in ((self._starts, starts), (self._ends, ends)):
            column.frombytes((values - self._base).astype(column.typecode).tobytes())

    def _make_room(self, end: int) -> None:
        """Widen the columns: compaction may join segments further apart than four bytes reach."""
        if end - self._base > _NARROW_MAX and self._starts.typecode == _NARROW:
            self._starts, self._ends = array(_WIDE, self._starts), array(_WIDE, self._ends)

    def cut(self, offset: int) -> None:
        """Forget all from this offset on."""
        keep = bisect_left(self._starts, offset - self._base)
        del self._starts[keep:], self._ends[keep:]
        if keep:
            self._ends[-1] = min(self._ends[-1], offset - self._base)

    def next(self, offset: int) -> int | None:
        """The first offset of the lane from this one on."""
        place = bisect_right(self._ends, offset - self._base)
        return max(offset, self._base + self._starts[place]) if place < len(self._starts) else None

    def count(self, first: int, end: int, most: int = OFFSET_MAX) -> int:
        """Count the messages in this range, up to a limit; those that compaction removed from runs still count."""
        low, high = self._places(first, end, most)
        if low == high:
            return 0
        starts, ends = np.array(self._starts[low:high], np.int64), np.array(self._ends[low:high], np.int64)
        starts[0], ends[-1] = max(starts[0], first - self._base), min(ends[-1], end - self._base)
        return min(most, int(ends.sum() - starts.sum()))

    def count_in(self, ranges: Positions) -> int:
        """The same of many ranges together: a row for each, its first offset and the one behind its last."""
        starts, ends = self.columns()
        before = np.append(0, np.cumsum(ends - starts))
        places = np.searchsorted(ends, ranges, "right")
        below = before[places] + np.maximum(0, ranges - np.append(starts, OFFSET_MAX)[places])
        return int((below[:, 1] - below[:, 0]).sum())

    def within(self, first: int, end: int, most: int = OFFSET_MAX) -> list[Span]:
        """The runs of this range, clipped to it; so many of them at the most."""
        low, high = self._places(first, end, most)
        base = self._base
        spans = [
            (base + start, base + stop)
            for start, stop in zip(self._starts[low:high], self._ends[low:high], strict=True)
        ]
        if spans:
            spans[0] = max(first, spans[0][0]), spans[0][1]
            spans[-1] = spans[-1][0], min(end, spans[-1][1])
        return spans

    def _places(self, first: int, end: int, most: int) -> tuple[int, int]:
        """Which runs reach into a range; each has a message, so no more than so many need to be looked at."""
        if first >= end:
            return 0, 0
        low = bisect_right(self._ends, first - self._base)
        return low, min(bisect_left(self._starts, end - self._base, low), low + most)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OffsetRuns):
            return NotImplemented
        return all(np.array_equal(one, two) for one, two in zip(self.columns(), other.columns(), strict=True))

    __hash__ = None  # type: ignore[assignment]  # it changes


class SegmentLanes:
    """The lanes of a segment, from one offset up to another."""

    __slots__ = ("_last", "end", "first", "runs")

    def __init__(self, first: int) -> None:
        self.first = self.end = first
        self.runs = tuple(OffsetRuns(first) for _ in LANES)
        self._last = NO_LANE

    @property
    def last(self) -> int:
        """Return the lane of the last message."""
        return self._last

    @property
    def run_count(self) -> int:
        return sum(map(len, self.runs))

    def add(self, lane: int, start: int, end: int) -> None:
        """Messages of one lane behind all others."""
        self.runs[lane].add(start, end, joins=lane == self._last)
        self._last, self.end = lane, end

    def add_many(self, lanes: Bytes, offsets: Positions) -> int:
        """Messages with rising offsets, each in its lane; returns where the last run of them begins."""
        edges = np.flatnonzero(lanes[1:] != lanes[:-1]) + 1
        if not len(edges):
            self.add(int(lanes[0]), int(offsets[0]), int(offsets[-1]) + 1)
            return int(offsets[0])
        starts, ends = offsets[np.append(0, edges)], offsets[np.append(edges - 1, len(offsets) - 1)] + 1
        kinds = lanes[np.append(0, edges)]
        for lane in np.unique(kinds).tolist():
            chosen = kinds == lane
            self.runs[lane].add_many(starts[chosen], ends[chosen], joins=bool(chosen[0]) and lane == self._last)
        self._last, self.end = int(kinds[-1]), int(ends[-1])
        return int(starts[-1])

    def cut(self, offset: int) -> None:
        """Forget all from this offset on."""
        for runs in self.runs:
            runs.cut(offset)
        self.end = max(self.first, min(self.end, offset))
        self._last = max((lane for lane in LANES if len(self.runs[lane])), key=self._end_of, default=NO_LANE)

    def _end_of(self, lane: int) -> int:
        return self.runs[lane].end

    def followed_by(self, later: "SegmentLanes") -> "SegmentLanes":
        """Both as one; nothing lies between the two."""
        whole = SegmentLanes(self.first)
        used = [lane for lane in LANES if len(later.runs[lane])]
        following = min(used, key=lambda lane: later.runs[lane].first, default=NO_LANE)
        for lane, runs in enumerate(whole.runs):
            for one, joins in ((self.runs[lane], False), (later.runs[lane], lane == following == self._last)):
                runs.add_many(*one.columns(), joins=joins)
        whole.end = later.end
        whole._last = later._last if used else self._last
        return whole

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SegmentLanes):
            return NotImplemented
        return (self.first, self.end, self.runs) == (other.first, other.end, other.runs)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"<Lanes {self.first}..{self.end}, {self.run_count} runs>"


@dataclass(frozen=True, slots=True)
class LaneSummary:
    """The first and last offset of each lane in a sealed segment; its runs stay on disk."""

    firsts: tuple[int, ...]
    """As `ends`, both 0 where a lane has nothing."""
    ends: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, lanes: SegmentLanes) -> "LaneSummary":
        return cls(
            tuple(runs.first if len(runs) else 0 for runs in lanes.runs),
            tuple(runs.end if len(runs) else 0 for runs in lanes.runs),
            tuple(runs.count(lanes.first, lanes.end) for runs in lanes.runs),
        )

    def is_beside(self, lane: int, offset: int) -> bool:
        """Return whether all messages of the lane, or none, lie from this offset on."""
        return offset <= self.firsts[lane] or offset >= self.ends[lane]


def lanes_of(frames: Frames, last: int = NO_LANE) -> Bytes:
    """The lane of each frame. What ends a transaction is no message, and parts no run: it is in the lane before it."""
    lanes = frames.priorities
    control = (frames.flags & frame.CONTROL) != 0
    if control.any():
        places = np.where(control, -1, np.arange(len(lanes)))
        known = np.maximum.accumulate(places)
        before = lanes[0] if last == NO_LANE else last
        lanes = np.where(known < 0, before, lanes[np.maximum(known, 0)]).astype(np.uint8)
    return lanes


class AppendedLanes:
    """The lanes of a log's messages since it was opened.

    From `since` on, every message is in `lane`. Before it there may be others, or it is unknown.
    """

    __slots__ = ("appended", "lane", "since")

    def __init__(self, next_offset: int) -> None:
        self.since = next_offset
        self.lane = NO_LANE
        self.appended = [0] * PRIORITY_COUNT
        """How many of each lane came since the log was opened."""

    def note(self, lanes: SegmentLanes, frames: Frames, first_offset: int, *, has_control: bool = False) -> None:
        """These are appended to the segment of which `lanes` tells."""
        if len(frames) < PLAIN_FRAMES and not has_control:
            content = frames.buffer.data
            found = {content[place + frame.AT_PRIORITY] for place in frames.positions.tolist()}
            if len(found) == 1:
                self._note_alike(lanes, found.pop(), first_offset, len(frames))
                return
        kinds = lanes_of(frames, self.lane)
        lane = int(kinds[0])
        if (kinds == lane).all():
            self._note_alike(lanes, lane, first_offset, len(kinds))
            return
        begins = lanes.add_many(kinds, np.arange(first_offset, first_offset + len(kinds)))
        self.since, self.lane = begins, lanes.last
        for number, count in enumerate(np.bincount(kinds, minlength=PRIORITY_COUNT).tolist()):
            self.appended[number] += count

    def _note_alike(self, lanes: SegmentLanes, lane: int, first_offset: int, count: int) -> None:
        lanes.add(lane, first_offset, first_offset + count)
        if lane != self.lane:
            self.since, self.lane = first_offset, lane
        self.appended[lane] += count

    def cut(self, lanes: SegmentLanes, offset: int) -> None:
        """Forget everything from this offset on."""
        for lane in LANES:
            self.appended[lane] -= lanes.runs[lane].count(offset, lanes.end)
        lanes.cut(offset)
        self.since, self.lane = offset, NO_LANE


# --- segments whose lanes are unknown ---


def scan_lanes(file: File, stretch: ScanRange, index: Index | None = None) -> SegmentLanes:
    """The lanes of a stretch of a segment, by reading it."""
    lanes = SegmentLanes(stretch.first_offset)
    for piece in scan_segment(file, stretch, index):
        if isinstance(piece, Damage):
            if piece.first_offset < piece.next_offset:
                lanes.add(frame.NORMAL, piece.first_offset, piece.next_offset)
        else:
            lanes.add_many(lanes_of(piece, lanes.last), piece.offsets)
    return lanes


# --- the file ---


def dump(lanes: SegmentLanes, size: int) -> bytes:
    """The bytes of `.lanes`; `size` is that of the log that they follow from."""
    head = _HEADER.pack(_MAGIC, _VERSION, 0, lanes.first, lanes.end, size, *map(len, lanes.runs))
    columns = [column.astype(">i8").tobytes() for runs in lanes.runs for column in runs.columns()]
    content = b"".join((head, *columns))
    return content + _CRC.pack(crc32c(content))


def load(content: bytes, first: int, end: int, size: int) -> SegmentLanes | None:
    """The lanes in these bytes, or None where they are not those of a segment with this beginning, end and size."""
    body = content[: -_CRC.size]
    if len(content) < _HEADER.size + _CRC.size or _CRC.pack(crc32c(body)) != content[-_CRC.size :]:
        return None
    magic, version, _, *facts = _HEADER.unpack_from(body)
    counts = facts[3:]
    if (magic, version, *facts[:3]) != (_MAGIC, _VERSION, first, end, size):
        return None
    if len(body) != _HEADER.size + 2 * sum(counts) * 8:
        return None
    lanes = SegmentLanes(first)
    columns: NDArray[np.int64] = np.frombuffer(body, ">i8", offset=_HEADER.size).astype(np.int64)
    place = 0
    for runs, count in zip(lanes.runs, counts, strict=True):
        runs.add_many(columns[place : place + count], columns[place + count : place + 2 * count], joins=False)
        place += 2 * count
    lanes.end = end
    lanes.cut(end)
    return lanes


def store_lanes(disk: Disk, path: str, lanes: SegmentLanes, size: int) -> None:
    """Write the file anew. What a loss of power leaves of it is not believed."""
    replace_file(disk, path, dump(lanes, size), durable=False)


def load_lanes(disk: Disk, path: str, first: int, end: int, size: int) -> SegmentLanes | None:
    return load(read_all(disk, path), first, end, size) if disk.kind(path) == "file" else None
