"""Key compaction: of all sealed messages with one key only the latest stays, at its own offset.

Two passes. The first remembers the latest offset of every key in the segments that are new since
the last time, the second rewrites segments from the oldest on without what has been superseded, and
joins small ones. Messages without a key and control records stay. A tombstone stays until it is
older than the grace period.

What must stay true:

* the active segment is never touched, and readers keep the files that they have open;
* segments are replaced oldest first, each time durably before the next: a tombstone never goes
  before the values that it deletes;
* when the disk refuses, a segment is the old one still; or, when a replacement has been decided and
  not carried out, the log is fenced until it has been read again;
* a damaged segment stays as it is, and as it may hide values, tombstones behind it stay too.

How far that has come is noted in the log's directory (`compaction_progress.py`).
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import compress, pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.limits import COMPACTION_KEYS_MAX, FRAME_HEADER_BYTES, PINNED_SEGMENTS_MAX, TOMBSTONE_GRACE_SECONDS
from goqueue.storage import frame
from goqueue.storage.compaction_progress import change_progress, load_progress, raise_gaps
from goqueue.storage.disk import Disk, remove_files
from goqueue.storage.index import Index
from goqueue.storage.log import Log
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment, SegmentReader, load_index, store_index
from goqueue.storage.segment_copies import update_copies
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment
from goqueue.storage.swap import apply_swap, cleaned_path, commit_swap, is_swap_committed
from goqueue.storage.transaction_index import NONE_ABORTED, AbortedRanges

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SealedSegment:
    """A segment to compact, with where it ends."""

    segment: Segment
    next_offset: int

    def pieces(self, disk: Disk) -> Iterator[Frames | Damage]:
        stretch = ScanRange(0, self.segment.size, self.segment.base_offset, self.next_offset)
        return scan_segment(disk.open(self.segment.path, "read"), stretch, load_index(disk, self.segment))


class CompactionRule(Protocol):
    """The choice of messages to keep, asked for one segment after the other, oldest first."""

    def applies_to(self, one: SealedSegment) -> bool:
        """Return whether to rewrite this segment; otherwise it stays as it is."""
        ...

    def staying(self, frames: Frames) -> Mask:
        """Return which of these messages to keep."""
        ...

    def leave(self, one: SealedSegment) -> None:
        """Note that this segment stays as it is because it is damaged."""
        ...


@dataclass(slots=True)
class SegmentReplacement:
    """Neighbours, and the one segment that takes their place."""

    old: list[Segment]
    new: Segment


@dataclass(slots=True)
class Compaction:
    """The job: until it `is_done`, `run` it on any thread and then `apply` on the owner's.

    `apply` is due after a `run` that raised as well: what it did until then is on disk. In between, the
    segments that were replaced are pinned for readers, so a `run` ends when those are many.
    """

    log: Log
    disk: Disk
    sealed: list[SealedSegment]
    tombstones_before: int
    segment_bytes: int
    keys_max: int = COMPACTION_KEYS_MAX
    aborted: AbortedRanges | None = None
    """All of them in these segments, to be removed; None where that is not what this job is for."""
    replacements: list[SegmentReplacement] = field(default_factory=list)
    messages_removed: int = 0
    failure: GoQueueError | None = None
    """What ended `run` between the decision for a replacement and its end."""
    is_done: bool = False
    interrupted: bool = False
    """Set by the owner to have `run` end at the next segment."""
    _oldest_tombstone: int = 0
    _steps: Iterator[None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._steps = self._compact()

    def run(self) -> None:
        """Compact on disk."""
        self.is_done = True
        for _ in self._steps:
            pinned = sum(len(replacement.old) for replacement in self.replacements)
            if pinned >= PINNED_SEGMENTS_MAX or self.interrupted:
                self.is_done = False
                return

    def apply(self) -> None:
        """Let the log know its new segments."""
        for replacement in self.replacements:
            self.log.replace_segments(replacement.old, [replacement.new])
            for segment in replacement.old:
                segment.pinned = None
        self.replacements.clear()
        if self.failure is not None:
            self.log.fence_off(self.failure)
        if self.is_done:
            self.log.job = None

    def _compact(self) -> Iterator[None]:
        """A step for each replacement."""
        directory = self.log.directory
        progress = load_progress(self.disk, directory)
        aborted = self.aborted or NONE_ABORTED
        latest, through = self._latest_offsets(progress.clean, aborted)
        in_reach = [one for one in self.sealed if one.next_offset <= through]
        is_due = through > progress.clean or 0 < progress.tombstone < self.tombstones_before
        if not in_reach or not is_due:
            return
        raise_gaps(self.disk, directory, through)
        clean = yield from self._rewrite(in_reach, _LatestPerKey(latest, self.tombstones_before, aborted))
        # Behind damage tombstones stay however old they are: there is nothing to come back for.
        tombstone = self._oldest_tombstone if clean == through else 0
        change_progress(self.disk, directory, lambda now: replace(now, clean=clean, tombstone=tombstone))

    def _latest_offsets(self, clean: int, aborted: AbortedRanges) -> tuple[dict[bytes, int], int]:
        """The latest offset of each key in what is not clean yet, and how far that looked.

        What was aborted never took the place of anything.
        """
        latest: dict[bytes, int] = {}
        through = clean
        for one in self.sealed:
            if one.next_offset <= clean:
                continue
            if len(latest) >= self.keys_max:
                break
            for frames in one.pieces(self.disk):
                if not isinstance(frames, Damage):
                    found = zip(_keys(frames), frames.offsets.tolist(), strict=True)
                    latest.update(compress(found, (~aborted.mask(frames)).tolist()) if len(aborted) else found)
            through = one.next_offset
        latest.pop(b"", None)
        return latest, through

    def _rewrite(self, in_reach: list[SealedSegment], rule: CompactionRule) -> Generator[None, None, int]:
        """Rewrite what can be, a step for each replacement; return the offset below which nothing was damaged."""
        output: _Output | None = None
        clean = in_reach[-1].next_offset
        try:
            for one in in_reach:
                self.log.refuse_unless_open()  # it may have been deleted meanwhile
                is_left = not rule.applies_to(one)
                if output is not None and (is_left or not output.has_room_for(one, self.segment_bytes)):
                    self._finish(output)
                    output = None
                    yield
                if is_left:
                    continue
                output = output or _Output(self.disk, one.segment)
                if not output.add(one, rule.staying):
                    self._finish(output)
                    output = None
                    yield
                    clean = min(clean, one.segment.base_offset)
                    rule.leave(one)
            if output is not None:
                self._finish(output)
        except GoQueueError:
            if output is not None and self.failure is None:
                with suppress(GoQueueError):  # recovery would remove it; a full disk cannot wait for that
                    output.discard()
            raise
        return clean

    def _finish(self, output: "_Output") -> None:
        times = [time for time in (self._oldest_tombstone, output.oldest_tombstone) if time]
        self._oldest_tombstone = min(times, default=0)
        if not output.sources or (not output.removed and len(output.sources) == 1):
            output.discard()
            return
        output.complete()
        old = [one.segment for one in output.sources]
        for segment in old:
            segment.pinned = SegmentReader(self.disk, segment)
        if self.aborted is not None:
            output.segment.aborted = NONE_ABORTED
        self._swap(output.segment, [segment.base_offset for segment in old])
        self.replacements.append(SegmentReplacement(old, output.segment))
        self.messages_removed += output.removed
        if self.log.writer.keeps_copies:
            update_copies(self.disk, [output.segment])
        store_index(self.disk, output.segment, output.index)

    def _swap(self, new: Segment, replaced: list[int]) -> None:
        place = self.disk, new.directory, new.base_offset
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


class _Output:
    """The segment that is being written in place of others."""

    def __init__(self, disk: Disk, first: Segment) -> None:
        self._disk = disk
        self._path = cleaned_path(first.directory, first.base_offset)
        remove_files(disk, self._path)
        self._file = disk.open(self._path, "create")
        self.segment = Segment(first.directory, first.base_offset)
        self.index = Index()
        self.sources: list[SealedSegment] = []
        self.removed = 0
        self.oldest_tombstone = 0

    @property
    def size(self) -> int:
        return self.segment.size

    def has_room_for(self, one: SealedSegment, segment_bytes: int) -> bool:
        return self.size + one.segment.size <= segment_bytes and len(self.sources) < PINNED_SEGMENTS_MAX

    def add(self, one: SealedSegment, staying: Callable[[Frames], Mask]) -> bool:
        """Append what stays of a segment, byte for byte; nothing of it if it is damaged."""
        size, removed = self.size, 0
        for frames in one.pieces(self._disk):
            if isinstance(frames, Damage):
                self._file.truncate(size)
                self.index.cut(size)
                self.segment.size = size
                return False
            stays = staying(frames)
            removed += len(frames) - int(stays.sum())
            tombstones = frames.timestamps[stays & ((frames.flags & frame.TOMBSTONE) != 0)]
            if len(tombstones) and not self.oldest_tombstone:
                self.oldest_tombstone = int(tombstones[0])
            if stays.any():
                self._append(frames, stays)
        self.sources.append(one)
        self.removed += removed
        return True

    def _append(self, frames: Frames, stays: Mask) -> None:
        segment = self.segment
        starts, lengths, times = frames.positions[stays], frames.lengths[stays], frames.timestamps[stays]
        places = segment.size + np.cumsum(lengths) - lengths
        breaks = np.flatnonzero(starts[1:] != starts[:-1] + lengths[:-1]) + 1
        edges = [0, *breaks.tolist(), len(starts)]
        content = frames.buffer.data
        runs = [content[starts[one] : starts[two - 1] + lengths[two - 1]] for one, two in pairwise(edges)]
        self._file.write(segment.size, runs)
        self.index.note_many(frames.offsets[stays], places, times)
        segment.size += int(lengths.sum())
        segment.last_time = int(times[-1])

    def complete(self) -> None:
        """Bring its content to the device."""
        self._file.sync()
        self._file.close()
        if len(self.index):
            self.segment.first_time = self.index.times[0]
        self.index.marked = (self.sources[-1].next_offset, self.size)

    def discard(self) -> None:
        self._file.close()
        self._disk.remove(self._path)


@dataclass(slots=True)
class LogRewrite(Compaction):
    """The same with another rule for what stays, on some of the oldest segments; no key is looked at."""

    rule: CompactionRule | None = None

    def _compact(self) -> Iterator[None]:
        assert self.rule is not None, "a rewrite needs a rule"
        if not self.sealed:
            return
        raise_gaps(self.disk, self.log.directory, self.sealed[-1].next_offset)
        yield from self._rewrite(self.sealed, self.rule)


def plan_rewrite(log: Log, disk: Disk, segments: list[Segment], rule: CompactionRule) -> LogRewrite:
    """A job over these segments, which are sealed and the oldest."""
    log.refuse_unless_open()
    assert log.sealed()[: len(segments)] == segments, "from the oldest on, without a gap"
    ends = [segment.base_offset for segment in log.segments[1:]]
    sealed = [SealedSegment(segment, end) for segment, end in zip(segments, ends, strict=False)]
    job = LogRewrite(log, disk, sealed, 0, log.settings.segment_bytes, rule=rule)
    log.begin_job(job)
    return job


def plan_compaction(
    log: Log,
    disk: Disk,
    *,
    now_ns: int,
    tombstone_grace_seconds: float = TOMBSTONE_GRACE_SECONDS,
    below: int | None = None,
    aborted: AbortedRanges = NONE_ABORTED,
) -> Compaction:
    """A job over all that is sealed now, as far as it is `below` an offset; what was `aborted` goes."""
    log.refuse_unless_open()
    ends = [segment.base_offset for segment in log.segments[1:]]
    places = zip(log.sealed(), ends, strict=False)
    sealed = [SealedSegment(segment, end) for segment, end in places if below is None or end <= below]
    before = now_ns - round(tombstone_grace_seconds * NANOSECONDS)
    job = Compaction(log, disk, sealed, before, log.settings.segment_bytes, aborted=aborted)
    log.begin_job(job)
    return job


def _keys(frames: Frames) -> list[bytes]:
    """The keys; empty where there is none, or where a control record has its own use for it."""
    starts = frames.positions + FRAME_HEADER_BYTES
    ends = starts + np.where(frames.flags & frame.CONTROL, 0, frames.key_lengths)
    content = frames.buffer.tobytes()
    return [content[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


@dataclass(slots=True)
class _LatestPerKey:
    """Keeps the latest message of each key and young tombstones, and no aborted message."""

    latest: dict[bytes, int]
    tombstones_before: int
    aborted: AbortedRanges

    def applies_to(self, _: SealedSegment) -> bool:
        return True

    def leave(self, _: SealedSegment) -> None:
        """It may hide values, so tombstones behind it stay."""
        self.tombstones_before = 0

    def staying(self, frames: Frames) -> Mask:
        superseding = [self.latest.get(key, -1) for key in _keys(frames)]
        stays: Mask = np.array(superseding, np.int64) <= frames.offsets
        outdated = (frames.flags & frame.TOMBSTONE) != 0
        outdated &= (frames.flags & frame.CONTROL) == 0
        outdated &= frames.key_lengths > 0
        outdated &= frames.timestamps < self.tombstones_before
        stays &= ~outdated
        stays &= ~self.aborted.mask(frames)
        return stays
