"""Reads of segments by offset and by time: decided on the owner's thread, done on any thread.

What must stay true: no frame is returned without a verified checksum, and an index entry counts only if the frame that
it points to has the offset that it says. Whatever looks wrong makes the reader examine the whole segment once; only
then is it called damaged.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from goqueue.errors import DiskFailed, OffsetOutOfRange, PathInvalid, RangeDamaged
from goqueue.limits import OFFSET_MAX
from goqueue.storage import frame, scan
from goqueue.storage.disk import Disk, File
from goqueue.storage.index import Index
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment, SegmentReader, load_index
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment, sound_frame, true_entry


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Whole frames, in order, ready to be sent on: the views are not copies."""

    buffers: tuple[memoryview, ...]
    next_offset: int
    """Where the next read goes on."""
    skipped: tuple[Damage, ...] = ()

    @property
    def size(self) -> int:
        return sum(map(len, self.buffers))


@dataclass(frozen=True, slots=True)
class PendingRead:
    """A read that has been decided but not done."""

    reader: SegmentReader
    offset: int
    limit: int
    """The first offset that must not be read."""
    end: int
    """The first position that must not be read."""
    next_offset: int
    """The offset that comes at that position."""
    max_bytes: int
    skip_damage: bool = False
    hint: tuple[int, int] | None = None
    """An offset at or before the one wanted, and where its frame starts."""

    def load(self) -> ReadResult:
        """Read and verify; always at least one whole frame where there is one."""
        read = self._attempt(self.hint) if self.hint else None
        if read is None:
            index = self.reader.examine(self.end, self.next_offset)
            read = self._attempt(index.start_for(index.before_offset(self.offset)))
        if read is None:
            raise RangeDamaged(f"{self.reader.segment.path} changed while it was read", hint="read again")
        return read

    def _attempt(self, hint: tuple[int, int]) -> ReadResult | None:
        """Return the frames, or None where something is wrong."""
        damages = self.reader.damages
        offset, skipped = self._beyond(damages)
        expected, position = hint
        allowed = range(expected, expected + 1) if expected >= 0 else range(OFFSET_MAX)
        behind = max((damage.end for damage in damages if damage.next_offset <= offset), default=0)
        if behind > position:
            allowed, position = range(OFFSET_MAX), behind
        stop = min((damage.position for damage in damages if damage.position >= position), default=self.end)
        room = self.max_bytes + 2 * scan.PLAIN_BYTES
        while position < stop:
            content = np.empty(min(room, stop - position), np.uint8)
            try:
                if self.reader.file.read(position, content.data) < len(content):
                    return None
            except DiskFailed:
                return None
            frames = scan.walk(content)
            announced = scan.announced(content, frames.end, stop - position)
            if not announced or not _trustworthy(frames, allowed):
                return None
            read = self._chosen(frames, offset, skipped)
            if read is not None:
                return read
            position += frames.end
            room = max(room, announced)
            if len(frames):
                allowed = range(frames.last_offset + 1, OFFSET_MAX)
        next_offset = next((damage.first_offset for damage in damages if damage.position == stop), self.next_offset)
        return ReadResult((), max(offset, next_offset), skipped)

    def _beyond(self, damages: tuple[Damage, ...]) -> tuple[int, tuple[Damage, ...]]:
        """The offset to start from, and the damage that was skipped to get there."""
        offset, skipped = self.offset, []
        for damage in damages:
            if damage.first_offset <= offset < damage.next_offset:
                if not self.skip_damage:
                    raise damage_error(self.reader.segment.path, damage)
                offset = damage.next_offset
                skipped.append(damage)
        return offset, tuple(skipped)

    def _chosen(self, frames: Frames, offset: int, skipped: tuple[Damage, ...]) -> ReadResult | None:
        """Return those of these frames that were asked for, or None."""
        offsets = frames.offsets
        first, last = np.searchsorted(offsets, (offset, self.limit)).tolist()
        if first == len(offsets):
            return None
        if first >= last:
            return ReadResult((), max(offset, self.limit), skipped)
        start = int(frames.positions[first])
        ends = frames.positions + frames.lengths
        last = min(last, max(first + 1, int(np.searchsorted(ends, start + self.max_bytes, "right"))))
        view = frames.buffer.data[start : int(ends[last - 1])]
        return ReadResult((view,), int(offsets[last - 1]) + 1, skipped)


def _trustworthy(frames: Frames, allowed: range) -> bool:
    """Return whether these frames are sound and in order, and the first has an allowed offset."""
    if not len(frames):
        return True
    first = int(frames.offsets[0])
    return (
        first in allowed and scan.verify(frames) == len(frames) and scan.in_order(frames, first - 1, 0) == len(frames)
    )


def damage_error(path: str, damage: Damage) -> RangeDamaged:
    return RangeDamaged(
        f"{path} is damaged from byte {damage.position} to {damage.end}: {damage.reason}",
        hint=f"skip the damage, or read on from offset {damage.next_offset}",
        path=path,
        position=damage.position,
        end=damage.end,
        first_offset=damage.first_offset,
        next_offset=damage.next_offset,
    )


class OffsetBounds(Protocol):
    """The positions of a log that a wrong offset is compared with."""

    name: str
    next_offset: int

    @property
    def first_offset(self) -> int: ...

    @property
    def readable_end(self) -> int: ...


def range_error(log: OffsetBounds, offset: int) -> OffsetOutOfRange:
    return OffsetOutOfRange(
        f"log {log.name} has no offset {offset}: it holds {log.first_offset} up to {log.next_offset}",
        hint=f"read from {log.first_offset}, the earliest, or {log.readable_end}, the latest",
        first=log.first_offset,
        next=log.readable_end,
    )


@dataclass(frozen=True, slots=True)
class TimeSearch:
    """A search by time that has been decided but not done."""

    disk: Disk
    segments: tuple[Segment, ...]
    """Those with something in them."""
    limit: int
    """The answer where no file holds anything so late."""
    readable: tuple[Segment, int]
    time: int

    def load(self) -> int:
        """The offset of the first message that is not older than the time."""
        number = bisect_left(self.segments, self.time, key=self._first_time)
        # Messages of that time may begin in the segment before the first one that starts at or after it; and
        # a segment that is gone or damaged leaves it to those behind it.
        for segment in self.segments[max(0, number - 1) :]:
            found = self._find(segment)
            if found is not None:
                return min(found, self.limit)
        return self.limit

    def _first_time(self, segment: Segment) -> int:
        """The time of the segment's first frame; a segment that is gone counts as older than anything."""
        try:
            file = self.disk.open(segment.path, "read")
        except PathInvalid:
            return 0
        first = sound_frame(file, 0, segment.size)
        if first is not None:
            return frame.timestamp_at(first)
        pieces = scan_segment(file, ScanRange(0, segment.size, segment.base_offset))
        return next((int(piece.timestamps[0]) for piece in pieces if not isinstance(piece, Damage)), 0)

    def _find(self, segment: Segment) -> int | None:
        index = load_index(self.disk, segment) or Index()
        end = self.readable[1] if segment is self.readable[0] else segment.size
        try:
            file = self.disk.open(segment.path, "read")
        except PathInvalid:
            return None
        entry = true_entry(file, index, index.before_time(self.time), end)
        start, first_offset = (index.positions[entry], index.offsets[entry]) if entry >= 0 else (0, segment.base_offset)
        # If the index is right, the message is in the block of this entry or is the next entry itself.
        near = index.positions[entry + 2] if entry + 2 < len(index) else end
        found = self._search(file, ScanRange(start, min(near, end), first_offset))
        return found if found is not None or near >= end else self._search(file, ScanRange(start, end, first_offset))

    def _search(self, file: File, stretch: ScanRange) -> int | None:
        for piece in scan_segment(file, stretch):
            if not isinstance(piece, Damage) and piece.last_timestamp >= self.time:
                return int(piece.offsets[bisect_left(piece.timestamps, self.time)])
        return None
