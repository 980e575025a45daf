"""Recovery of a log's directory when it is opened.

After a clean stop the state is known and nothing is read, unless an index is gone. Otherwise only the
last segment can have been in the middle of a write: a segment is synced before its successor is created.
It is scanned from the last index entry that can be trusted.

The mark in the index says how far it had been synced. Below the mark, bad bytes are damage:
they stay, readers are told, and the offsets behind them are not given out again. The index is not
synced, so after a loss of power its mark may be old or gone. From the mark on the bytes decide, as
`torn_write` says: damage is kept there as well, and at the first torn write the segment is cut. Should
frames be sound behind that, what is cut is kept beside the log in a `.cut` file.

An index file is made together with the log. Where there is none, it was removed, and nothing in front
of the last sound frame is cut.
"""

from dataclasses import dataclass, field
from itertools import pairwise

from goqueue.errors import DiskFailed, PathInvalid
from goqueue.limits import FRAME_BYTES_MAX, INDEX_BLOCK_BYTES, SCAN_CHUNK_BYTES
from goqueue.storage.disk import DirectoryEntry, Disk, File, read_all, replace_file
from goqueue.storage.index import MARK_BYTES, Index, read_mark
from goqueue.storage.layout import decode_checkpoint
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment, SegmentReader, base_offset_of, last_time, load_index, store_index
from goqueue.storage.segment_copies import has_copies, restore_damage, restore_lost_segments, update_copies
from goqueue.storage.segment_scan import Damage, ScanRange, is_torn, scan_segment, true_entry
from goqueue.storage.swap import finish_swap


@dataclass(frozen=True, slots=True)
class CleanLogState:
    """The state of a log at a clean stop."""

    base_offset: int
    """Of the active segment."""
    next_offset: int
    last_time: int
    first_time: int | None
    """Of the active segment."""
    size: int
    """Of the active segment."""


@dataclass(frozen=True, slots=True)
class RemovedTail:
    """Bytes that were removed from the end of a segment."""

    path: str
    position: int
    end: int
    reason: str
    kept_in: str | None = None

    @property
    def size(self) -> int:
        return self.end - self.position


@dataclass(slots=True)
class RecoveredLog:
    """A log as recovery found it."""

    directory: str
    segments: list[Segment]
    next_offset: int
    last_time: int
    damages: list[Damage] = field(default_factory=list)
    cut: RemovedTail | None = None
    was_clean: bool = False
    restored: list[Damage] = field(default_factory=list)
    """Damage that was written back from copies."""
    has_copies: bool = False


def recover(disk: Disk, directory: str, clean: CleanLogState | None = None, known_end: int = 0) -> RecoveredLog:
    """Open a log's directory, and leave it as a log should be. The offsets below `known_end` had been given out."""
    entries = disk.entries(directory)
    if finish_swap(disk, directory, entries):
        entries = disk.entries(directory)
    if not has_copies(entries):
        return _recover(disk, directory, entries, clean, known_end)
    restored = restore_lost_segments(disk, directory, entries)
    if restored:
        entries = disk.entries(directory)
    restored += restore_damage(disk, find_segments(directory, entries))
    recovered = _recover(disk, directory, disk.entries(directory), clean, known_end)
    update_copies(disk, recovered.segments)
    recovered.restored, recovered.has_copies = restored, True
    return recovered


def _recover(
    disk: Disk, directory: str, entries: list[DirectoryEntry], clean: CleanLogState | None, known_end: int
) -> RecoveredLog:
    segments = find_segments(directory, entries)
    if not segments:
        segments = [Segment(directory, 0, index=Index())]
        disk.open(segments[0].path, "create").close()
        disk.sync_directory(directory)
        return RecoveredLog(directory, segments, 0, 0)
    active = segments[-1]
    is_clean = clean is not None and (clean.base_offset, clean.size) == (active.base_offset, active.size)
    _rebuild_lost_indexes(disk, segments, entries, read_marks=not is_clean)
    if clean is not None and is_clean:
        active.first_time, active.last_time = clean.first_time, clean.last_time
        return RecoveredLog(directory, segments, clean.next_offset, clean.last_time, was_clean=True)
    stopped_at = clean.next_offset if clean is not None else 0
    lost_end = end_of_lost_segments(disk, segments, entries)
    return _recover_unclean(disk, segments, max(known_end, stopped_at, lost_end))


def end_of_lost_segments(disk: Disk, segments: list[Segment], entries: list[DirectoryEntry]) -> int:
    """Return the end in the marks behind the last segment: an index is removed before its log, so that log is lost."""
    if not segments:
        return 0
    bases = [base for entry in entries if (base := base_offset_of(entry.name, "index")) is not None]
    orphans = [Segment(segments[0].directory, base) for base in bases if base > segments[-1].base_offset]
    marks = [index.marked for orphan in orphans if (index := load_index(disk, orphan)) is not None and index.marked]
    return max((offset for offset, _ in marks), default=0)


def _rebuild_lost_indexes(
    disk: Disk, segments: list[Segment], entries: list[DirectoryEntry], *, read_marks: bool
) -> None:
    """Rebuild the missing indexes of sealed segments, whose readers would have to scan them.

    The sizes in the directory tell most of it. Only after an unclean stop is each mark read as well.
    """
    sizes = {entry.name: entry.size for entry in entries}
    for segment, successor in pairwise(segments):
        if not segment.size:
            continue
        size, times_size = (sizes.get(path.rpartition("/")[2], 0) for path in segment.index_paths)
        fits = size - MARK_BYTES == times_size > 0
        if fits and not read_marks:
            continue
        marked_end = _marked_end(disk, segment, size)
        if marked_end > segment.size or (fits and marked_end == segment.size):
            continue  # a mark that is ahead of the log is the proof of a loss, and stays
        index = SegmentReader(disk, segment).examine(segment.size, successor.base_offset)
        index.marked = (successor.base_offset, segment.size)
        store_index(disk, segment, index)


def _marked_end(disk: Disk, segment: Segment, index_size: int) -> int:
    """The position up to which the mark of the index vouches for the segment; 0 without one."""
    content = bytearray(MARK_BYTES)
    try:
        disk.open(segment.index_path, "read").read(max(0, index_size - MARK_BYTES), memoryview(content))
    except (PathInvalid, DiskFailed):
        return 0
    marked = read_mark(bytes(content))
    return marked[1] if marked is not None else 0


def find_segments(directory: str, entries: list[DirectoryEntry]) -> list[Segment]:
    """The segments in a directory; other files are none of our business."""
    found = [
        Segment(directory, base, entry.size)
        for entry in entries
        if entry.kind == "file" and (base := base_offset_of(entry.name, "log")) is not None
    ]
    return sorted(found, key=lambda segment: segment.base_offset)


def _recover_unclean(disk: Disk, segments: list[Segment], known_end: int) -> RecoveredLog:
    """Find the end of the last segment, and cut what is behind it."""
    segment = segments[-1]
    file = disk.open(segment.path, "write")
    file.drop_cache()  # what a failed sync left in memory is not on the device
    end = SegmentEnd(disk, segment, file)
    end.find(known_end)
    cut = end.cut()
    file.sync()
    segment.size, segment.index = end.position, end.index
    end.index.marked = (end.next_offset, end.position)
    if len(end.index):
        segment.first_time, segment.last_time = end.index.times[0], end.last_time
    if end.index != end.known:
        store_index(disk, segment, end.index)
    disk.sync_directory(segment.directory)
    newest = end.last_time or last_time(disk, segments[:-1])
    return RecoveredLog(segment.directory, segments, end.next_offset, newest, end.damages, cut)


class SegmentEnd:
    """The end of a segment that was not stopped cleanly. Only `cut` changes anything."""

    def __init__(self, disk: Disk, segment: Segment, file: File) -> None:
        self._disk = disk
        self._segment = segment
        self._file = file
        self.known = load_index(disk, segment)
        if self.known is None and disk.kind(segment.index_path) == "file":
            self.known = Index()  # its writes were lost, and nothing is vouched for
        self.index = Index()
        self.position, self.next_offset, self.last_time = 0, segment.base_offset, 0
        self.damages: list[Damage] = []
        self._torn: list[Damage] = []
        self._is_sound_behind = False

    def find(self, known_end: int) -> None:
        """Scan from the last index entry on. Offsets below `known_end` had been given out and stay used."""
        if self.known is not None:
            self._skip_to_last_entry(self.known)
            self._take_vouched(self.known)
        self._take_rest()
        self._note_loss(known_end)

    def cut(self) -> RemovedTail | None:
        """Remove the torn write at the end, if there is one."""
        if not self._torn:
            return None
        size = self._segment.size
        self._refuse_unreadable(size)
        kept_in = self._keep(size) if self._is_sound_behind else None
        self._file.truncate(self.position)
        return RemovedTail(self._segment.path, self.position, size, self._torn[0].reason, kept_in)

    def _skip_to_last_entry(self, known: Index) -> None:
        """Begin at the last frame that the index knows and that is sound."""
        number = true_entry(self._file, known, len(known) - 1, self._segment.size)
        if number >= 0:
            self.index = known.before(number)
            self.position, self.next_offset = known.positions[number], known.offsets[number]
            self.last_time = known.times[number]

    def _take_vouched(self, known: Index) -> None:
        """Take what had been synced: bad bytes in it are damage, and its offsets have been given out."""
        offset, position = known.marked or (0, 0)
        if position < self.position or not _near(known, position):
            return
        stretch = ScanRange(self.position, min(position, self._segment.size), self.next_offset, offset, self.last_time)
        for piece in scan_segment(self._file, stretch, known):
            self._take(piece)
        self.position = stretch.end
        self._note_loss(offset)

    def _note_loss(self, known_end: int) -> None:
        """Note the offsets that had been given out and whose messages are missing."""
        if self.next_offset < known_end:
            reason = "what had been synced is missing"
            self._take(Damage(self.position, self.position, self.next_offset, known_end, reason))

    def _take_rest(self) -> None:
        """Take what comes after the synced mark: it ends at the first torn write."""
        size, pending = self._segment.size, list[Damage]()
        for piece in scan_segment(
            self._file, ScanRange(self.position, size, self.next_offset, first_time=self.last_time)
        ):
            if isinstance(piece, Damage):
                pending.append(piece)
                continue
            if pending and self.known is not None and is_torn(self._file, pending, size):
                self._is_sound_behind = True
                break
            self._take_all(pending)
            self._take(piece)
            pending = []
        if pending and is_torn(self._file, pending, size):
            self._torn = pending
        else:
            self._take_all(pending)

    def _refuse_unreadable(self, size: int) -> None:
        """Raise where the device cannot read now: such bytes may be sound later."""
        content = bytearray(min(SCAN_CHUNK_BYTES, size - self.position))
        for position in range(self.position, size, len(content) or 1):
            self._file.read(position, memoryview(content)[: size - position])

    def _take_all(self, damages: list[Damage]) -> None:
        for damage in damages:
            self._take(damage)

    def _take(self, piece: Frames | Damage) -> None:
        if isinstance(piece, Damage):
            self.damages.append(piece)
            self.position, self.next_offset = piece.end, piece.next_offset
        else:
            self.index.note_frames(piece)
            self.position, self.next_offset = piece.origin + piece.end, piece.last_offset + 1
            self.last_time = piece.last_timestamp

    def _keep(self, size: int) -> str:
        """Put what will be cut beside the log."""
        path = f"{self._segment.stem}.{self.position}.cut"
        content = bytearray(size - self.position)
        self._file.read(self.position, memoryview(content))
        replace_file(self._disk, path, content)
        return path


def _near(known: Index, position: int) -> bool:
    """Return whether a mark can belong to these entries: behind the last one is at most a block and a frame."""
    last_position = known.positions[-1] if len(known) else 0
    return position - last_position <= INDEX_BLOCK_BYTES + FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True)
class CleanShutdown:
    """The last clean stop."""

    time_ns: int = 0
    """When it was; 0: not known."""
    logs: dict[str, CleanLogState] = field(default_factory=dict)


def read_clean_shutdown(disk: Disk, path: str) -> CleanShutdown:
    """Read the clean-stop marker; without a readable one every log is scanned."""
    note = decode_checkpoint(read_all(disk, f"{path}/clean")) if disk.kind(f"{path}/clean") == "file" else None
    if note is None:
        return CleanShutdown()
    logs = {name: CleanLogState(*state) for name, state in note.get("logs", {}).items()}
    return CleanShutdown(note.get("stopped_ns", 0), logs)
