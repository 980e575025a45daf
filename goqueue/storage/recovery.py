"""What a log's directory holds, when it is opened.

After a clean stop the state is known and nothing is read, unless an index is gone. Otherwise only the
last segment can have been in the middle of a write: a segment is synced before its successor is created.
It is surveyed from the last index entry that can be trusted.

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
from goqueue.storage.copies import Healed, has_copies, heal, renew, restore_lost_segments
from goqueue.storage.disk import Disk, Entry, replace
from goqueue.storage.index import MARK_BYTES, Index, read_mark
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Reader, Segment, base_offset_of, last_time, load_index, store_index
from goqueue.storage.survey import Damage, Stretch, is_torn, survey, true_entry
from goqueue.storage.swap import finish_swap


@dataclass(frozen=True, slots=True)
class CleanState:
    """What a clean stop knew of a log."""

    base_offset: int
    """Of the active segment."""
    next_offset: int
    last_time: int
    first_time: int | None
    """Of the active segment."""
    size: int
    """Of the active segment."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Bytes that were removed from the end of a segment."""

    path: str
    position: int
    end: int
    reason: str
    kept_in: str | None = None


@dataclass(slots=True)
class Recovered:
    """A log as its directory has it."""

    directory: str
    segments: list[Segment]
    next_offset: int
    last_time: int
    damages: list[Damage] = field(default_factory=list)
    cut: Cut | None = None
    was_clean: bool = False
    healed: list[Healed] = field(default_factory=list)
    """Damage that was written back from copies."""
    has_copies: bool = False


def recover(disk: Disk, directory: str, clean: CleanState | None = None, known_end: int = 0) -> Recovered:
    """Open a log's directory, and leave it as a log should be. The offsets below `known_end` had been given out."""
    entries = disk.entries(directory)
    if finish_swap(disk, directory, entries):
        entries = disk.entries(directory)
    if not has_copies(entries):
        return _recover(disk, directory, entries, clean, known_end)
    healed = restore_lost_segments(disk, directory, entries)
    if healed:
        entries = disk.entries(directory)
    healed += heal(disk, find_segments(directory, entries))
    recovered = _recover(disk, directory, disk.entries(directory), clean, known_end)
    renew(disk, recovered.segments)
    recovered.healed, recovered.has_copies = healed, True
    return recovered


def _recover(disk: Disk, directory: str, entries: list[Entry], clean: CleanState | None, known_end: int) -> Recovered:
    segments = find_segments(directory, entries)
    if not segments:
        segments = [Segment(directory, 0, index=Index())]
        disk.open(segments[0].path, "create").close()
        disk.sync_directory(directory)
        return Recovered(directory, segments, 0, 0)
    active = segments[-1]
    is_clean = clean is not None and (clean.base_offset, clean.size) == (active.base_offset, active.size)
    _rebuild_lost_indexes(disk, segments, entries, read_marks=not is_clean)
    if clean is not None and is_clean:
        active.first_time, active.last_time = clean.first_time, clean.last_time
        return Recovered(directory, segments, clean.next_offset, clean.last_time, was_clean=True)
    stopped_at = clean.next_offset if clean is not None else 0
    lost_end = end_of_lost_segments(disk, segments, entries)
    return _Survey(disk, segments).recovered(max(known_end, stopped_at, lost_end))


def end_of_lost_segments(disk: Disk, segments: list[Segment], entries: list[Entry]) -> int:
    """What the marks say that stand behind the last segment: an index goes before its log does, so that log is lost."""
    if not segments:
        return 0
    bases = [base for entry in entries if (base := base_offset_of(entry.name, "index")) is not None]
    orphans = [Segment(segments[0].directory, base) for base in bases if base > segments[-1].base_offset]
    marks = [index.marked for orphan in orphans if (index := load_index(disk, orphan)) is not None and index.marked]
    return max((offset for offset, _ in marks), default=0)


def _rebuild_lost_indexes(disk: Disk, segments: list[Segment], entries: list[Entry], *, read_marks: bool) -> None:
    """Of sealed segments, whose readers would have to survey them: deleted, or lost with the power.

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
        index = Reader(disk, segment).examine(segment.size, successor.base_offset)
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


def find_segments(directory: str, entries: list[Entry]) -> list[Segment]:
    """The segments in a directory; other files are none of our business."""
    found = [
        Segment(directory, base, entry.size)
        for entry in entries
        if entry.kind == "file" and (base := base_offset_of(entry.name, "log")) is not None
    ]
    return sorted(found, key=lambda segment: segment.base_offset)


class _Survey:
    """The recovery of a log that was not stopped cleanly."""

    def __init__(self, disk: Disk, segments: list[Segment]) -> None:
        self._disk = disk
        self._segments = segments
        self._segment = segments[-1]
        self._file = disk.open(self._segment.path, "write")
        self._file.forget_cache()  # what a failed sync left in memory is not on the device
        self._known = load_index(disk, self._segment)
        if self._known is None and disk.kind(self._segment.index_path) == "file":
            self._known = Index()  # its writes were lost, and nothing is vouched for
        self._index = Index()
        self._end, self._next_offset, self._last_time = 0, self._segment.base_offset, 0
        self._damages: list[Damage] = []

    def recovered(self, known_end: int) -> Recovered:
        """What is there. The offsets below `known_end` had been given out, whatever became of them."""
        segment = self._segment
        if self._known is not None:
            self._skip_to_last_entry(self._known)
            self._take_vouched(self._known)
        cut = self._take_rest()
        self._note_loss(known_end)
        self._file.sync()
        segment.size, segment.index = self._end, self._index
        self._index.marked = (self._next_offset, self._end)
        if len(self._index):
            segment.first_time, segment.last_time = self._index.times[0], self._last_time
        if self._index != self._known:
            store_index(self._disk, segment, self._index)
        self._disk.sync_directory(segment.directory)
        self._last_time = self._last_time or last_time(self._disk, self._segments[:-1])
        return Recovered(segment.directory, self._segments, self._next_offset, self._last_time, self._damages, cut)

    def _skip_to_last_entry(self, known: Index) -> None:
        """Begin at the last frame that the index knows and that is sound."""
        number = true_entry(self._file, known, len(known) - 1, self._segment.size)
        if number >= 0:
            self._index = known.before(number)
            self._end, self._next_offset = known.positions[number], known.offsets[number]
            self._last_time = known.times[number]

    def _take_vouched(self, known: Index) -> None:
        """What had been synced: bad bytes in it are damage, and its offsets have been given out."""
        offset, position = known.marked or (0, 0)
        if position < self._end or not _near(known, position):
            return
        stretch = Stretch(self._end, min(position, self._segment.size), self._next_offset, offset, self._last_time)
        for piece in survey(self._file, stretch, known):
            self._take(piece)
        self._end = stretch.end
        self._note_loss(offset)

    def _note_loss(self, known_end: int) -> None:
        """Offsets that had been given out, and whose messages are nowhere."""
        if self._next_offset < known_end:
            reason = "what had been synced is missing"
            self._take(Damage(self._end, self._end, self._next_offset, known_end, reason))

    def _take_rest(self) -> Cut | None:
        """What nobody vouches for: it ends at the first torn write."""
        size, pending, is_sound_behind = self._segment.size, [], False
        for piece in survey(self._file, Stretch(self._end, size, self._next_offset, first_time=self._last_time)):
            if isinstance(piece, Damage):
                pending.append(piece)
                continue
            if pending and self._known is not None and is_torn(self._file, pending, size):
                is_sound_behind = True
                break
            self._take_all(pending)
            self._take(piece)
            pending = []
        if pending and not is_torn(self._file, pending, size):
            self._take_all(pending)
            pending = []
        if not pending:
            return None
        self._refuse_unreadable(size)
        kept_in = self._keep(size) if is_sound_behind else None
        self._file.truncate(self._end)
        return Cut(self._segment.path, self._end, size, pending[0].reason, kept_in)

    def _refuse_unreadable(self, size: int) -> None:
        """What the device does not give now is not known to be torn, and may be given later: raises then."""
        content = bytearray(min(SCAN_CHUNK_BYTES, size - self._end))
        for position in range(self._end, size, len(content) or 1):
            self._file.read(position, memoryview(content)[: size - position])

    def _take_all(self, damages: list[Damage]) -> None:
        for damage in damages:
            self._take(damage)

    def _take(self, piece: Frames | Damage) -> None:
        if isinstance(piece, Damage):
            self._damages.append(piece)
            self._end, self._next_offset = piece.end, piece.next_offset
        else:
            self._index.note_frames(piece)
            self._end, self._next_offset = piece.origin + piece.end, piece.last_offset + 1
            self._last_time = piece.last_timestamp

    def _keep(self, size: int) -> str:
        """Put what will be cut beside the log."""
        path = f"{self._segment.stem}.{self._end}.cut"
        content = bytearray(size - self._end)
        self._file.read(self._end, memoryview(content))
        replace(self._disk, path, content)
        return path


def _near(known: Index, position: int) -> bool:
    """Whether a mark can belong to these entries: behind the last one there is at most a block and a frame."""
    last_position = known.positions[-1] if len(known) else 0
    return position - last_position <= INDEX_BLOCK_BYTES + FRAME_BYTES_MAX
