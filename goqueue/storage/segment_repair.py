"""Replacing what is damaged in a sealed segment by the same frames from another replica.

The sound frames of the segment and those that were fetched are put together by their offsets into a new file, which is
read once more as a whole before it takes the place of the old one, as compaction does it. Readers keep the files that
they have open. A crash leaves the old segment or the new one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from goqueue.errors import GoQueueError, RangeDamaged
from goqueue.storage import scan
from goqueue.storage.compaction import SealedSegment
from goqueue.storage.compaction_progress import raise_gaps
from goqueue.storage.disk import Disk, File, remove_files
from goqueue.storage.index import Index
from goqueue.storage.log import Log
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment, SegmentReader, store_index
from goqueue.storage.segment_copies import update_copies
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment
from goqueue.storage.swap import apply_swap, cleaned_path, commit_swap, is_swap_committed


@dataclass(frozen=True, slots=True)
class FetchedRange:
    """The frames of a range of offsets, as another replica has them."""

    first_offset: int
    next_offset: int
    content: bytes
    gaps_below: int = 0
    """Offsets may be missing below this one: compaction has removed them there."""

    def by_offset(self) -> Iterator[tuple[int, bytes]]:
        """Yield each frame with its offset. Raises RangeDamaged as `frames`."""
        frames = self.frames()
        edges = [*frames.positions.tolist(), frames.end]
        for offset, (start, end) in zip(frames.offsets.tolist(), pairwise(edges), strict=True):
            yield offset, self.content[start:end]

    def frames(self) -> Frames:
        """Raises RangeDamaged unless they are sound, in order, and all that should be there."""
        frames = scan.walk(bytearray(self.content))
        first, after = self.first_offset, self.next_offset
        is_sound = frames.end == len(self.content) and scan.verify(frames) == len(frames)
        if not is_sound or scan.in_order(frames, first - 1, 0) < len(frames):
            raise RangeDamaged(f"what was fetched of offsets {first} to {after - 1} is not sound")
        edges = [first - 1, *frames.offsets.tolist(), after]
        if edges[-2] >= after:
            raise RangeDamaged(f"what was fetched of offsets {first} to {after - 1} goes on behind them")
        jumps = np.flatnonzero(np.diff(edges) > 1)
        if len(jumps) and edges[int(jumps[-1]) + 1] > max(self.gaps_below, first):
            raise RangeDamaged(f"what was fetched of offsets {first} to {after - 1} is not whole")
        return frames


@dataclass(slots=True)
class SegmentRepair:
    """The job: `run` it on any thread, then `apply` on the owner's, after a `run` that raised as well."""

    log: Log
    disk: Disk
    sealed: SealedSegment
    fetched: list[FetchedRange]
    failure: GoQueueError | None = None
    """What ended `run` between the decision for the replacement and its end."""
    _new: Segment = field(init=False)
    _is_replaced: bool = False

    def __post_init__(self) -> None:
        old = self.sealed.segment
        self._new = Segment(old.directory, old.base_offset)
        self.log.begin_job(self)

    def run(self) -> None:
        """Write the new segment, read it again, and put it in the place of the old one."""
        self.log.refuse_unless_open()  # it may have been deleted meanwhile
        segment, disk = self.sealed.segment, self.disk
        path = cleaned_path(segment.directory, segment.base_offset)
        remove_files(disk, path)
        index, file = Index(), disk.open(path, "create")
        try:
            for frames in self._merged():
                self._write(file, index, frames)
            file.sync()
            self._refuse_unless_sound(path)
        except GoQueueError:
            file.close()
            disk.remove(path)
            raise
        file.close()
        index.marked = (self.sealed.next_offset, self._new.size)
        if len(index):
            self._new.first_time = index.times[0]
        raise_gaps(disk, segment.directory, max((one.gaps_below for one in self.fetched), default=0))
        if disk.kind(segment.path) != "absent":
            segment.pinned = SegmentReader(disk, segment)
        self._swap()
        if self.log.writer.keeps_copies:
            update_copies(disk, [self._new])
        store_index(disk, self._new, index)

    def _merged(self) -> Iterator[Frames]:
        """Yield the sound frames that are here, and the fetched ones where they belong."""
        fetched = [frames for one in self.fetched if len(frames := one.frames())]
        for piece in pieces_of(self.sealed, self.disk):
            if isinstance(piece, Damage):
                continue
            start = 0
            while fetched and fetched[0].first_offset <= piece.last_offset:
                frames = fetched.pop(0)
                count = int(frames.offsets.searchsorted(piece.last_offset, "right"))
                if count < len(frames):
                    fetched.insert(0, _part(frames, count, len(frames)))
                for at, lacking in _lacking(piece, _part(frames, 0, count)):
                    if at > start:
                        yield _part(piece, start, at)
                    yield lacking
                    start = at
            if start < len(piece):
                yield _part(piece, start, len(piece))
        yield from fetched

    def _write(self, file: File, index: Index, frames: Frames) -> None:
        new = self._new
        places = frames.positions - frames.positions[0] + new.size
        start = int(frames.positions[0])
        file.write(new.size, [frames.buffer.data[start : frames.end]])
        index.note_many(frames.offsets, places, frames.timestamps)
        new.size += frames.end - start
        new.last_time = frames.last_timestamp

    def _refuse_unless_sound(self, path: str) -> None:
        stretch = ScanRange(0, self._new.size, self._new.base_offset, self.sealed.next_offset)
        for piece in scan_segment(self.disk.open(path, "read"), stretch):
            if isinstance(piece, Damage):
                raise RangeDamaged(
                    f"segment {self._new.path} cannot be repaired: what was fetched does not fit there: {piece.reason}"
                )

    def _swap(self) -> None:
        place = self.disk, self._new.directory, self._new.base_offset
        replaced = [self._new.base_offset]
        try:
            commit_swap(*place, replaced)
        except GoQueueError as error:
            self.failure = error  # should the disk not even answer the next question
            if not is_swap_committed(*place):
                self.failure = None
            raise
        try:
            apply_swap(*place, replaced)
        except GoQueueError as error:
            self.failure = error
            raise
        self._is_replaced = True

    def apply(self) -> None:
        """Let the log know its new segment."""
        self.log.job = None
        if self._is_replaced:
            self.log.replace_segments([self.sealed.segment], [self._new])
        self.sealed.segment.pinned = None
        if self.failure is not None:
            self.log.fence_off(self.failure)


@dataclass(slots=True)
class DamageSearch:
    """Finds what is damaged or missing in a segment, whose pieces are noted in their order, and then its end."""

    sealed: SealedSegment
    gaps_below: int
    """Offsets may be missing below this one."""
    found: list[Damage] = field(default_factory=list)
    position: int = 0
    _expected: int = field(init=False)

    def __post_init__(self) -> None:
        self._expected = self.sealed.segment.base_offset

    def note(self, piece: Frames | Damage) -> None:
        if isinstance(piece, Damage):
            self.found.append(piece)
            self._expected, self.position = piece.next_offset, piece.end
            return
        offsets, starts = piece.offsets, piece.positions + piece.origin
        steps = np.diff(offsets, prepend=self._expected - 1)
        for number in np.flatnonzero(steps > 1).tolist():
            self._miss(int(starts[number]), int(offsets[number] - steps[number]) + 1, int(offsets[number]))
        self._expected, self.position = int(offsets[-1]) + 1, piece.origin + piece.end

    def end(self) -> None:
        self._miss(self.position, self._expected, self.sealed.next_offset)
        self._expected = self.sealed.next_offset

    def _miss(self, position: int, first: int, after: int) -> None:
        if first < after and after > self.gaps_below:
            self.found.append(Damage(position, position, first, after, "messages are missing"))


def pieces_of(sealed: SealedSegment, disk: Disk) -> Iterator[Frames | Damage]:
    """Yield what is in a segment; nothing if its file is gone."""
    if disk.kind(sealed.segment.path) != "absent":
        yield from sealed.pieces(disk)


def find_damage(disk: Disk, sealed: SealedSegment, gaps_below: int) -> list[Damage]:
    """Return what is damaged or missing in a sealed segment; below `gaps_below` offsets may be missing."""
    search = DamageSearch(sealed, gaps_below)
    for piece in pieces_of(sealed, disk):
        search.note(piece)
    search.end()
    return search.found


def sealed_segment(log: Log, offset: int) -> SealedSegment | None:
    """Return the sealed segment with this offset; None if it is in one that may still change, or gone."""
    ends = [segment.base_offset for segment in log.segments[1:]]
    for segment, end in zip(log.sealed(), ends, strict=False):
        if segment.base_offset <= offset < end:
            return SealedSegment(segment, end)
    return None


def _part(frames: Frames, first: int, last: int) -> Frames:
    """Return some of these frames."""
    start = int(frames.positions[first])
    end = int(frames.positions[last - 1] + frames.lengths[last - 1])
    return Frames(
        frames.buffer[start:end], frames.positions[first:last] - start, frames.lengths[first:last], end - start
    )


def _lacking(piece: Frames, frames: Frames) -> Iterator[tuple[int, Frames]]:
    """Yield the frames that a piece lacks, in runs, each with the number of the frame that it belongs before."""
    offsets = piece.offsets
    at = offsets.searchsorted(frames.offsets)
    lacks = offsets[at] != frames.offsets
    edges = np.flatnonzero(np.diff(np.where(lacks, at, -1), prepend=-1, append=-1)).tolist()
    for first, last in pairwise(edges):
        if lacks[first]:
            yield int(at[first]), _part(frames, first, last)
