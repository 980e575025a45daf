"""Reading a split: verified frames, and what stands in their way.

What must stay true: a split is a range of offsets, so that whatever happens to files between planning and reading
(retention, compaction, a broker that starts anew), each message belongs to one split, and each damage to the
split that its first offset belongs to.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from goqueue.errors import GoQueueError, RangeDamaged, SegmentNotFound
from goqueue.spark.logs.port import LogSource, OpenSegment
from goqueue.storage.log_view import LogView, SegmentView
from goqueue.storage.scan import Frames
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment

ON_LOSS = "--skip-damage (skip_damage: true in a pipeline, failOnDataLoss=false in a job)"
_ATTEMPTS = 8  # to find a segment again; each one means that a compaction came in between


@dataclass(frozen=True, slots=True)
class Split:
    """The offsets from `first` up to, not including, `end` of one partition, and where they were seen."""

    topic: str
    partition: int
    first: int
    end: int
    size: int
    """About so many bytes."""
    segments: tuple[SegmentView, ...]
    begins: bool = True
    """Whether none is read before it: damage that reaches into its first offset is then its own to tell."""
    horizon: int | None = None
    """Where the log ended when this was planned: what is behind counts for nothing. None: wherever it ends."""


@dataclass(frozen=True, slots=True)
class FrameRun:
    """Verified frames that follow each other in a segment. Their buffer is reused for the next run."""

    segment: SegmentView
    frames: Frames
    dropped: NDArray[np.bool_] | None = None
    """The frames that are no messages; None for none of them, once `visibility` has decided."""

    @property
    def real(self) -> NDArray[np.bool_]:
        """Which of them are messages."""
        return np.ones(len(self.frames), np.bool_) if self.dropped is None else ~self.dropped

    def between(self, first: int, end: int) -> "FrameRun":
        """Return the frames from one number up to another."""
        if first == 0 and end >= len(self.frames):
            return self
        chosen = self.frames.first(end)
        frames = replace(chosen, positions=chosen.positions[first:], lengths=chosen.lengths[first:])
        return replace(self, frames=frames, dropped=None if self.dropped is None else self.dropped[first:end])


@dataclass(frozen=True, slots=True)
class DamagedBytes:
    """Bytes of a segment that are not frames in order."""

    path: str
    segment: SegmentView
    damage: Damage

    @property
    def error(self) -> RangeDamaged:
        damage = self.damage
        return RangeDamaged(
            f"{self.path} is damaged from byte {damage.position} to {damage.end}: {damage.reason}",
            hint=f"{ON_LOSS} reads on behind it",
        )


@dataclass(frozen=True, slots=True)
class RemovedRange:
    """Messages that retention or the deletion of the topic has removed between planning and reading."""

    topic: str
    partition: int
    first: int
    next_offset: int

    @property
    def error(self) -> GoQueueError:
        return SegmentNotFound(
            f"offsets {self.first} to {self.next_offset - 1} of {self.topic}/{self.partition} were removed "
            "while they were to be read",
            hint=f"{ON_LOSS} reads on behind them",
        )


ReadItem = FrameRun | DamagedBytes | RemovedRange


def read_split(logs: LogSource, split: Split) -> Iterator[ReadItem]:
    """Yield all of a split, in the order of offsets."""
    segments, offset, attempts = split.segments, split.first, 0
    while offset < split.end:
        segment = _covering(segments, offset)
        try:
            if segment is not None:
                for piece in _within(logs, split, segment, offset):
                    offset, attempts = max(offset, _next_offset(piece)), 0
                    yield piece
                offset = max(offset, segment.next_offset)
                continue
        except SegmentNotFound:
            attempts += 1
            if attempts >= _ATTEMPTS:
                raise
        view = logs.view(split.topic, split.partition)
        segments = view.segments
        if view.end <= offset and attempts < _ATTEMPTS:  # a mark that cannot be read for a moment hides a segment
            attempts += 1
            continue
        next_offset = view.earliest if view.end > offset else split.end
        if next_offset > offset:
            first, offset = offset, min(next_offset, split.end)
            yield RemovedRange(split.topic, split.partition, first, offset)


def _covering(segments: tuple[SegmentView, ...], offset: int) -> SegmentView | None:
    return next((one for one in segments if one.base_offset <= offset < one.next_offset), None)


def _next_offset(piece: ReadItem) -> int:
    match piece:
        case FrameRun():
            return piece.frames.last_offset + 1
        case DamagedBytes():
            return piece.damage.next_offset
        case RemovedRange():
            return piece.next_offset


def _within(logs: LogSource, split: Split, segment: SegmentView, offset: int) -> Iterator[ReadItem]:
    opened = logs.open(split.topic, split.partition, segment)
    try:
        stretch = _stretch(opened, segment, offset, split.end)
        next_offset = stretch.first_offset
        for piece in scan_segment(opened.file, stretch, opened.index):
            if isinstance(piece, Damage):
                yield from _broken(logs, split, segment, offset, piece)
                next_offset = piece.next_offset
                continue
            if len(frames := _between(piece, offset, split.end)):
                yield FrameRun(segment, frames)
            elif piece.first_offset >= split.end:
                return
            next_offset = piece.last_offset + 1
        if stretch.end == segment.size and (loss := _loss(opened, segment, next_offset)) is not None:
            yield from _broken(logs, split, segment, offset, loss)
    finally:
        opened.file.close()


def _broken(logs: LogSource, split: Split, segment: SegmentView, offset: int, damage: Damage) -> Iterator[DamagedBytes]:
    """Yield a damage that belongs to this split. One without messages belongs to the message before it."""
    home = min(damage.first_offset, segment.next_offset - 1)
    is_inherited = split.begins and offset == split.first < damage.next_offset
    if home < split.end and (home >= offset or is_inherited):
        path = logs.path(split.topic, split.partition, segment)
        if not _is_same(logs.view(split.topic, split.partition), segment):
            raise SegmentNotFound(f"{path} was replaced while it was read", hint="read again")
        yield DamagedBytes(path, segment, damage)


def _is_same(view: LogView, segment: SegmentView) -> bool:
    """Test if the segment is still the one that was seen: a segment replaced under a reader looks damaged.

    The last segment grows. Any other one that has another size or another end has been written anew.
    """
    found = _covering(view.segments, segment.base_offset)
    if found is None or (found.base_offset, found.version) != (segment.base_offset, segment.version):
        return False
    if found is view.segments[-1]:
        return found.size >= segment.size
    return (found.next_offset, found.size) == (segment.next_offset, segment.size)


def _loss(opened: OpenSegment, segment: SegmentView, next_offset: int) -> Damage | None:
    """Return the end of a segment that its mark has, and neither this file nor a later one holds.

    Without a mark nothing is known: offsets may be missing because compaction removed them.
    """
    if opened.index.marked is None or next_offset >= segment.next_offset:
        return None
    offset, position = opened.index.marked
    if position > opened.file.size():
        reason = "the file ends before what had been synced"
    elif offset < segment.next_offset:
        next_offset, reason = max(next_offset, offset), "what followed it is gone"
    else:
        return None
    return Damage(segment.size, segment.size, next_offset, segment.next_offset, reason)


def _stretch(opened: OpenSegment, segment: SegmentView, first: int, end: int) -> ScanRange:
    """Return the stretch from the last valid index entry before `first` to the first one from `end` on."""
    index = opened.index
    number = opened.entry(index.before_offset(first), segment.size)
    offset, position = index.start_for(number)
    stop, ceiling = segment.size, segment.next_offset
    following = index.before_offset(end - 1) + 1
    if following < len(index) and opened.entry(following, segment.size) == following:
        stop, ceiling = index.positions[following], index.offsets[following]
    return ScanRange(position, stop, max(offset, segment.base_offset), ceiling)


def _between(frames: Frames, first: int, end: int) -> Frames:
    if first <= frames.first_offset and frames.last_offset < end:
        return frames
    offsets = frames.offsets
    start, stop = np.searchsorted(offsets, (first, end)).tolist()
    chosen = frames.first(stop)
    return replace(chosen, positions=chosen.positions[start:], lengths=chosen.lengths[start:])
