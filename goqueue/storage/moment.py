"""Finding the first message at or after a time, in files: decided by the owner, done on any thread."""

from bisect import bisect_left
from dataclasses import dataclass

from goqueue.errors import PathInvalid
from goqueue.storage import frame
from goqueue.storage.disk import Disk, File
from goqueue.storage.index import Index
from goqueue.storage.segment import Segment, load_index
from goqueue.storage.survey import Damage, Stretch, sound_frame, survey, true_entry


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
            if not isinstance(piece, Damage) and piece.last_timestamp >= self.time:
                return int(piece.offsets[bisect_left(piece.timestamps, self.time)])
        return None
