"""Finding the first message at or after a time, in files: decided by the owner, done on any thread."""

from bisect import bisect_left
from dataclasses import dataclass

from goqueue.errors import PathInvalid
from goqueue.limits import FRAME_HEADER_BYTES
from goqueue.storage import frame
from goqueue.storage.disk import Disk, File
from goqueue.storage.index import Index
from goqueue.storage.segment import Segment, load_index
from goqueue.storage.survey import Damage, Stretch, believable, survey


@dataclass(frozen=True, slots=True)
class Moment:
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
        # Messages of that time may begin in the segment before the first one that starts at or after it.
        for segment in self.segments[max(0, number - 1) : number + 1]:
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
        header = bytearray(FRAME_HEADER_BYTES)
        file.read(0, memoryview(header))
        if believable(file, 0, frame.offset_at(header), segment.size):
            return frame.timestamp_at(header)
        pieces = survey(file, Stretch(0, segment.size, segment.base_offset))
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
        found = self._search(file, Stretch(start, min(near, end), first_offset))
        return found if found is not None or near >= end else self._search(file, Stretch(start, end, first_offset))

    def _search(self, file: File, stretch: Stretch) -> int | None:
        for piece in survey(file, stretch):
            if not isinstance(piece, Damage) and piece.timestamps[-1] >= self.time:
                return int(piece.offsets[bisect_left(piece.timestamps, self.time)])
        return None


def true_entry(file: File, index: Index, number: int, end: int) -> int:
    """The last entry, from this one down, whose frame is sound and has the offset and the time it says; or -1."""
    header = bytearray(FRAME_HEADER_BYTES)
    while number >= 0:
        position = index.positions[number]
        if believable(file, position, index.offsets[number], end):
            file.read(position, memoryview(header))
            if frame.timestamp_at(header) == index.times[number]:
                break
        number -= 1
    return number


def last_time(disk: Disk, segments: list[Segment]) -> int:
    """The time of the last sound frame in these segments; 0 where there is none."""
    return next((time for segment in reversed(segments) if (time := last_time_of(disk, segment))), 0)


def last_time_of(disk: Disk, segment: Segment) -> int:
    """The time of the last sound frame of a segment; 0 where there is none."""
    index = load_index(disk, segment) or Index()
    for number in range(len(index) - 1, -1, -1):
        start, first_offset = index.positions[number], index.offsets[number]
        newest = _newest(disk, segment, Stretch(start, segment.size, first_offset))
        if newest:
            return newest
    return _newest(disk, segment, Stretch(0, segment.size, segment.base_offset))


def _newest(disk: Disk, segment: Segment, stretch: Stretch) -> int:
    newest = 0
    for piece in survey(disk.open(segment.path, "read"), stretch):
        if not isinstance(piece, Damage):
            newest = int(piece.timestamps[-1])
    return newest
