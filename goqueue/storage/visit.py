"""A log as a visitor sees it: nothing is written and nothing is locked, and a broker may be at work meanwhile.

What must stay true: where a broker is at work, a view ends where the mark says that all is synced, so it never
holds what a crash could take back. Where none is, it ends where the next start would let the log end.
"""

from dataclasses import dataclass
from itertools import pairwise

from goqueue.storage.disk import Disk, Entry
from goqueue.storage.index import Index
from goqueue.storage.recovery import end_of_lost_segments, find_segments
from goqueue.storage.segment import Segment, base_offset_of, load_index
from goqueue.storage.survey import Damage, Stretch, is_torn, survey, true_entry
from goqueue.storage.swap import decisions

_MARK_ATTEMPTS = 5  # a mark that is just being written can look torn, once
_LISTING_ATTEMPTS = 5  # each one means that a segment was made, removed or replaced in between


@dataclass(frozen=True, slots=True)
class SegmentView:
    """So much of a segment as may be read."""

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
    """From here on transactions are open, where somebody knows that and minds it."""

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


def visit(disk: Disk, directory: str, *, is_live: bool) -> LogView:
    """What a log's directory holds at this moment."""
    entries = _listing(disk, directory) if is_live else disk.entries(directory)
    segments = _segments(disk, directory, entries)
    if not segments:
        return LogView()
    sealed = [SegmentView(one.base_offset, other.base_offset, one.size) for one, other in pairwise(segments)]
    active = segments[-1]
    end = _synced_end(disk, active) if is_live else _end_after_a_start(disk, active)
    lost = 0 if is_live else end_of_lost_segments(disk, segments, entries)
    return LogView((*sealed, SegmentView(active.base_offset, max(end[0], lost), end[1])))


def _segments(disk: Disk, directory: str, entries: list[Entry]) -> list[Segment]:
    """As they are once all that has been decided is carried out: a crash may leave the old files there, or some."""
    found = {segment.base_offset: segment for segment in find_segments(directory, entries)}
    cleaned = {base_offset_of(entry.name, "cleaned"): entry.size for entry in entries}
    for base, replaced in decisions(disk, directory, entries).items():
        if base in cleaned:
            found[base] = Segment(directory, base, cleaned[base])
        for other in replaced[1:]:
            found.pop(other, None)
    return [found[base] for base in sorted(found)]


def _listing(disk: Disk, directory: str) -> list[Entry]:
    """The entries at one moment: listing takes a while, and a replacement in between must not be seen by half."""
    entries = disk.entries(directory)
    for _ in range(_LISTING_ATTEMPTS):
        before, entries = entries, disk.entries(directory)
        if _at_rest(before) == _at_rest(entries):
            break
    return entries


def _at_rest(entries: list[Entry]) -> tuple[list[tuple[str, int]], list[str]]:
    """What only a change of segments changes: all but the size of the last one, and the marks of what is replaced."""
    logs = [(entry.name, entry.size) for entry in entries if entry.name.endswith(".log")]
    return [*logs[:-1], *((name, 0) for name, _ in logs[-1:])], [
        entry.name for entry in entries if entry.name.endswith((".swap", ".cleaned"))
    ]


def _synced_end(disk: Disk, segment: Segment) -> tuple[int, int]:
    """The offset and the position that the mark vouches for."""
    for _ in range(_MARK_ATTEMPTS):
        index = load_index(disk, segment)
        if index is not None and index.marked is not None:
            return index.marked
    return segment.base_offset, 0


def _end_after_a_start(disk: Disk, segment: Segment) -> tuple[int, int]:
    """Where recovery would let the segment end: what nobody vouches for ends at the first torn write."""
    known = load_index(disk, segment)
    vouched_offset, vouched_end = (known.marked if known is not None else None) or (segment.base_offset, 0)
    if vouched_end > segment.size:
        return vouched_offset, segment.size
    file = disk.open(segment.path, "read")
    try:
        index = known or Index()
        offset, position = index.start_for(true_entry(file, index, len(index) - 1, segment.size))
        offset = max(offset, segment.base_offset)
        if position < vouched_end:
            offset, position = vouched_offset, vouched_end
        is_guessed = known is None and disk.kind(segment.index_path) != "file"
        pending: list[Damage] = []
        for piece in survey(file, Stretch(position, segment.size, offset)):
            if isinstance(piece, Damage):
                pending.append(piece)
                continue
            if pending and not is_guessed and is_torn(file, pending, segment.size):
                break
            offset, position, pending = piece.last_offset + 1, piece.origin + piece.end, []
        if pending and not is_torn(file, pending, segment.size):
            offset, position = pending[-1].next_offset, pending[-1].end
    finally:
        file.close()
    return max(offset, vouched_offset), position
