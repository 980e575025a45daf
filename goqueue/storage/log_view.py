"""A read-only view of a log: nothing is written or locked, and a broker may be at work meanwhile.

What must stay true: where a broker is at work, a view ends where the mark says that all is synced, so it never
holds what a crash could take back. Where none is, it ends where the next start would let the log end.
"""

from dataclasses import dataclass
from itertools import pairwise

from goqueue.storage.disk import DirectoryEntry, Disk
from goqueue.storage.recovery import SegmentEnd, end_of_lost_segments, find_segments
from goqueue.storage.segment import Segment, base_offset_of, load_index
from goqueue.storage.swap import committed_swaps

_MARK_ATTEMPTS = 5  # a mark that is just being written can look torn, once
_LISTING_ATTEMPTS = 5  # each one means that a segment was made, removed or replaced in between


@dataclass(frozen=True, slots=True)
class SegmentView:
    """The readable part of a segment."""

    base_offset: int
    next_offset: int
    """The first offset that it cannot hold."""
    size: int
    version: str | None = None
    """Of its bytes, where a broker says it: after a compaction others may stand under the same base."""


@dataclass(frozen=True, slots=True)
class LogView:
    """The segments of a log, oldest first. Without any it is empty, and begins and ends at 0."""

    segments: tuple[SegmentView, ...] = ()
    stable: int | None = None
    """The last stable offset, where it is known and wanted."""

    @property
    def earliest(self) -> int:
        return self.segments[0].base_offset if self.segments else 0

    @property
    def end(self) -> int:
        return self.segments[-1].next_offset if self.segments else 0

    @property
    def readable_end(self) -> int:
        """Where messages end that are as they will stay."""
        return self.end if self.stable is None else max(self.earliest, min(self.stable, self.end))

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)


def view_log(disk: Disk, directory: str, *, is_live: bool) -> LogView:
    """Return what a log's directory holds at this moment."""
    entries = _listing(disk, directory) if is_live else disk.entries(directory)
    segments = _segments(disk, directory, entries)
    if not segments:
        return LogView()
    sealed = [SegmentView(one.base_offset, other.base_offset, one.size) for one, other in pairwise(segments)]
    active = segments[-1]
    if is_live:
        next_offset, size = _synced_end(disk, active)
    else:
        next_offset, size = _end_after_a_start(disk, active, end_of_lost_segments(disk, segments, entries))
    return LogView((*sealed, SegmentView(active.base_offset, next_offset, size)))


def _segments(disk: Disk, directory: str, entries: list[DirectoryEntry]) -> list[Segment]:
    """Return the segments as committed swaps will leave them: a crash may have left old files."""
    found = {segment.base_offset: segment for segment in find_segments(directory, entries)}
    cleaned = {base_offset_of(entry.name, "cleaned"): entry.size for entry in entries}
    for base, replaced in committed_swaps(disk, directory, entries).items():
        if base in cleaned:
            found[base] = Segment(directory, base, cleaned[base])
        for other in replaced[1:]:
            found.pop(other, None)
    return [found[base] for base in sorted(found)]


def _listing(disk: Disk, directory: str) -> list[DirectoryEntry]:
    """List the directory until two listings agree, so that no replacement is seen half done."""
    entries = disk.entries(directory)
    for _ in range(_LISTING_ATTEMPTS):
        before, entries = entries, disk.entries(directory)
        if _at_rest(before) == _at_rest(entries):
            break
    return entries


def _at_rest(entries: list[DirectoryEntry]) -> tuple[list[tuple[str, int]], list[str]]:
    """Return what only a change of segments changes: all sizes but the last, and the files of replacements."""
    logs = [(entry.name, entry.size) for entry in entries if entry.name.endswith(".log")]
    return [*logs[:-1], *((name, 0) for name, _ in logs[-1:])], [
        entry.name for entry in entries if entry.name.endswith((".swap", ".cleaned"))
    ]


def _synced_end(disk: Disk, segment: Segment) -> tuple[int, int]:
    """Return the offset and the position of the synced mark."""
    for _ in range(_MARK_ATTEMPTS):
        index = load_index(disk, segment)
        if index is not None and index.marked is not None:
            return index.marked
    return segment.base_offset, 0


def _end_after_a_start(disk: Disk, segment: Segment, known_end: int) -> tuple[int, int]:
    """Return the offset and the position where recovery would end the segment."""
    file = disk.open(segment.path, "read")
    try:
        end = SegmentEnd(disk, segment, file)
        end.find(known_end)
    finally:
        file.close()
    return end.next_offset, end.position
