"""Key compaction: of all sealed messages with one key only the latest stays, at its own offset.

Two passes. The first remembers the latest offset of every key in the segments that are new since
the last time, the second rewrites segments from the oldest on without what has been superseded, and
joins small ones. Messages without a key and control records stay. A tombstone stays until it is
older than the grace period.

What must stay true:

* the active segment is never touched, and readers keep the files that they have open;
* segments are replaced oldest first, each time durably before the next: a tombstone never goes
  before the values that it deletes;
* a damaged segment stays as it is, and as it may hide values, tombstones behind it stay too.

The file `compacted` in the log's directory says how far that has come: `clean`, below which
every key has been compared with all others, and `gaps`, below which missing offsets are no loss.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.limits import COMPACTION_KEYS_MAX, FRAME_HEADER_BYTES, TOMBSTONE_GRACE_SECONDS
from goqueue.storage import frame
from goqueue.storage.disk import Disk, read_all, replace
from goqueue.storage.index import Index
from goqueue.storage.log import Log
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Reader, Segment, store_index
from goqueue.storage.survey import Damage, Stretch, survey
from goqueue.storage.swap import cleaned_path, swap

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the compaction of a log has come, as offsets."""

    clean: int = 0
    gaps: int = 0


def load_progress(disk: Disk, directory: str) -> Progress:
    """What the `compacted` file says; without it nothing has been compacted."""
    try:
        note = json.loads(read_all(disk, _progress_path(directory)))
        clean, gaps = note["clean"], note["gaps"]
    except (GoQueueError, ValueError, TypeError, KeyError):
        return Progress()
    return Progress(clean, gaps) if type(clean) is int and type(gaps) is int else Progress()


def _store_progress(disk: Disk, directory: str, progress: Progress) -> None:
    note = {"format": 1, "clean": progress.clean, "gaps": progress.gaps}
    replace(disk, _progress_path(directory), json.dumps(note).encode())


def _progress_path(directory: str) -> str:
    return f"{directory}/compacted"


@dataclass(frozen=True, slots=True)
class Sealed:
    """A segment to compact, with where it ends; its file is open and so cannot vanish."""

    segment: Segment
    next_offset: int
    reader: Reader

    def pieces(self) -> Iterator[Frames | Damage]:
        stretch = Stretch(0, self.segment.size, self.segment.base_offset, self.next_offset)
        return survey(self.reader.file, stretch, self.reader.index)


@dataclass(slots=True)
class Replacement:
    """Neighbours, and the one segment that takes their place."""

    old: list[Segment]
    new: Segment


@dataclass(slots=True)
class Compaction:
    """The job: `plan_compaction` and `apply` on the owner's thread, `run` on any."""

    log: Log
    disk: Disk
    sealed: list[Sealed]
    tombstones_before: int
    segment_bytes: int
    keys_max: int = COMPACTION_KEYS_MAX
    replacements: list[Replacement] = field(default_factory=list)
    messages_removed: int = 0

    def run(self) -> None:
        """Compact on disk."""
        directory = self.log.directory
        progress = load_progress(self.disk, directory)
        latest, through = self._latest_offsets(progress.clean)
        in_reach = [one for one in self.sealed if one.next_offset <= through]
        if not in_reach:
            return
        _store_progress(self.disk, directory, Progress(progress.clean, max(progress.gaps, through)))
        clean = self._rewrite(in_reach, latest)
        _store_progress(self.disk, directory, Progress(clean, max(progress.gaps, through)))

    def apply(self) -> None:
        """Let the log know its new segments."""
        for replacement in self.replacements:
            self.log.replace_segments(replacement.old, [replacement.new])

    def _latest_offsets(self, clean: int) -> tuple[dict[bytes, int], int]:
        """The latest offset of each key in what is not clean yet, and how far that looked."""
        latest: dict[bytes, int] = {}
        through = clean
        for one in self.sealed:
            if one.next_offset <= clean:
                continue
            if len(latest) >= self.keys_max:
                break
            for frames in one.pieces():
                if not isinstance(frames, Damage):
                    latest.update(zip(_keys(frames), frames.offsets.tolist(), strict=True))
            through = one.next_offset
        latest.pop(b"", None)
        return latest, through

    def _rewrite(self, in_reach: list[Sealed], latest: dict[bytes, int]) -> int:
        """Rewrite what can be; return the offset below which nothing was damaged."""
        output: _Output | None = None
        clean, tombstones_before = in_reach[-1].next_offset, self.tombstones_before
        for one in in_reach:
            if output is not None and output.size + one.segment.size > self.segment_bytes:
                self._finish(output)
                output = None
            output = output or _Output(self.disk, one.segment)
            if not output.add(one, latest, tombstones_before):
                self._finish(output)
                output = None
                clean, tombstones_before = min(clean, one.segment.base_offset), 0
        self._finish(output)
        return clean

    def _finish(self, output: "_Output | None") -> None:
        if output is None:
            return
        if output.sources and (output.removed or len(output.sources) > 1):
            self.replacements.append(Replacement([one.segment for one in output.sources], output.commit()))
            self.messages_removed += output.removed
        else:
            output.discard()


class _Output:
    """The segment that is being written in place of others."""

    def __init__(self, disk: Disk, first: Segment) -> None:
        self._disk = disk
        self._path = cleaned_path(first.directory, first.base_offset)
        if disk.kind(self._path) != "absent":
            disk.remove(self._path)
        self._file = disk.open(self._path, "create")
        self._segment = Segment(first.directory, first.base_offset)
        self._index = Index()
        self.sources: list[Sealed] = []
        self.removed = 0

    @property
    def size(self) -> int:
        return self._segment.size

    def add(self, one: Sealed, latest: dict[bytes, int], tombstones_before: int) -> bool:
        """Append what stays of a segment, byte for byte; nothing of it if it is damaged."""
        size, removed = self.size, 0
        for frames in one.pieces():
            if isinstance(frames, Damage):
                self._file.truncate(size)
                self._index.cut(size)
                self._segment.size = size
                return False
            stays = _staying(frames, latest, tombstones_before)
            removed += len(frames) - int(stays.sum())
            if stays.any():
                self._append(frames, stays)
        self.sources.append(one)
        self.removed += removed
        return True

    def _append(self, frames: Frames, stays: Mask) -> None:
        segment = self._segment
        starts, lengths, times = frames.positions[stays], frames.lengths[stays], frames.timestamps[stays]
        places = segment.size + np.cumsum(lengths) - lengths
        breaks = np.flatnonzero(starts[1:] != starts[:-1] + lengths[:-1]) + 1
        edges = [0, *breaks.tolist(), len(starts)]
        content = frames.buffer.data
        runs = [content[starts[one] : starts[two - 1] + lengths[two - 1]] for one, two in pairwise(edges)]
        self._file.write(segment.size, runs)
        self._index.note_many(frames.offsets[stays], places, times)
        segment.size += int(lengths.sum())
        segment.last_time = int(times[-1])

    def commit(self) -> Segment:
        """Make it durable and put it in the place of its sources."""
        segment = self._segment
        self._file.sync()
        self._file.close()
        swap(self._disk, segment.directory, segment.base_offset, [one.segment.base_offset for one in self.sources])
        if len(self._index):
            segment.first_time = self._index.times[0]
        self._index.marked = (self.sources[-1].next_offset, segment.size)
        store_index(self._disk, segment, self._index)
        return segment

    def discard(self) -> None:
        self._file.close()
        self._disk.remove(self._path)


def plan_compaction(
    log: Log, disk: Disk, *, now_ns: int, tombstone_grace_seconds: float = TOMBSTONE_GRACE_SECONDS
) -> Compaction:
    """A job over all that is sealed now."""
    ends = [segment.base_offset for segment in log.segments[1:]]
    sealed = [Sealed(segment, end, log.reader(segment)) for segment, end in zip(log.sealed(), ends, strict=False)]
    before = now_ns - round(tombstone_grace_seconds * NANOSECONDS)
    return Compaction(log, disk, sealed, before, log.settings.segment_bytes)


def _keys(frames: Frames) -> list[bytes]:
    """The keys; empty where there is none, or where a control record has its own use for it."""
    starts = frames.positions + FRAME_HEADER_BYTES
    ends = starts + np.where(frames.flags & frame.CONTROL, 0, frames.key_lengths)
    content = frames.buffer.tobytes()
    return [content[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _staying(frames: Frames, latest: dict[bytes, int], tombstones_before: int) -> Mask:
    superseding = [latest.get(key, -1) for key in _keys(frames)]
    stays: Mask = np.array(superseding, np.int64) <= frames.offsets
    outdated = (frames.flags & frame.TOMBSTONE) != 0
    outdated &= frames.timestamps < tombstones_before
    stays &= ~outdated
    return stays
