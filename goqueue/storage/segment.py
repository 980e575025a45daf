"""One file of frames and the index beside it.

A segment is named by its base offset and holds the offsets from there up to the next segment's
base. Only a log's last segment, the active one, grows; the others are sealed and never change
in place.

What must stay true: a `Reader` pairs a file with an index of that same file. It keeps the file open,
so neither removal nor replacement of the name disturbs whoever still reads.
"""

from collections import OrderedDict
from dataclasses import dataclass

from goqueue.errors import DiskFailed, GoQueueError, PathInvalid
from goqueue.limits import OFFSET_MAX, READERS_MAX
from goqueue.storage.aborted import EMPTY, Aborted
from goqueue.storage.census import Census
from goqueue.storage.disk import Disk, File, discard, read_all, replace
from goqueue.storage.index import Index, load, mark
from goqueue.storage.lanes import Digest, Lanes
from goqueue.storage.survey import Damage, Stretch, survey

NAME_DIGITS = 20


@dataclass(slots=True, eq=False)
class Segment:
    """What the owner of a log knows of one of its files."""

    directory: str
    base_offset: int
    size: int = 0
    first_time: int | None = None
    last_time: int | None = None
    index: Index | None = None
    """Of the active segment, and of a sealed one while it is needed."""
    pinned: "Reader | None" = None
    """Set while the file goes: readers that come in the meantime still get what was in it."""
    is_dense: bool | None = None
    """Whether every offset is taken to hold a message; None until somebody asks what compaction has done."""
    census: Census | None = None
    """Of one that is not dense, once its messages were counted."""
    lanes: Lanes | None = None
    """Of the active segment those of what was appended since the start; of a sealed one once somebody has asked."""
    digest: Digest | None = None
    """Of lanes that are whole and are in the file beside the segment."""
    aborted: Aborted | None = None
    """What is known of aborted messages in it."""
    has_aborted_file: bool = False
    """Whether that is whole and in the file beside the segment, too."""

    @classmethod
    def beginning(cls, directory: str, base_offset: int) -> "Segment":
        """One that nothing was appended to yet, so all is known of it."""
        lanes = Lanes(base_offset)
        return cls(directory, base_offset, index=Index(), is_dense=True, lanes=lanes, aborted=EMPTY)

    @property
    def stem(self) -> str:
        return f"{self.directory}/{self.base_offset:0{NAME_DIGITS}d}"

    @property
    def path(self) -> str:
        return f"{self.stem}.log"

    @property
    def index_path(self) -> str:
        return f"{self.stem}.index"

    @property
    def timeindex_path(self) -> str:
        return f"{self.stem}.timeindex"

    @property
    def lanes_path(self) -> str:
        return f"{self.stem}.lanes"

    @property
    def aborted_path(self) -> str:
        return f"{self.stem}.aborted"

    @property
    def copy_path(self) -> str:
        """The same bytes again, for logs that have copies."""
        return f"{self.stem}.copy"

    @property
    def index_paths(self) -> tuple[str, str]:
        return self.index_path, self.timeindex_path

    @property
    def caches(self) -> tuple[str, str, str, str]:
        """The files that may be removed at any time."""
        return self.index_path, self.timeindex_path, self.lanes_path, self.aborted_path

    @property
    def companions(self) -> tuple[str, ...]:
        """The files that go before the log does, and before it is cut or replaced."""
        return *self.caches, self.copy_path

    @property
    def paths(self) -> tuple[str, str, str]:
        return self.path, self.index_path, self.timeindex_path

    def __repr__(self) -> str:
        return f"<Segment {self.path} {self.size} bytes>"


def base_offset_of(name: str, suffix: str) -> int | None:
    """The base offset in a file's name, if it is the name of such a file."""
    stem, dot, end = name.partition(".")
    if dot and end == suffix and len(stem) == NAME_DIGITS and stem.isascii() and stem.isdecimal():
        base = int(stem)
        return base if base <= OFFSET_MAX else None
    return None


def store_index(disk: Disk, segment: Segment, index: Index) -> None:
    """`write_index`, if there is room: otherwise none stands there, and it is made again when it is needed.

    An older one must not stay. Later entries would be written behind it at places that it does not reach.
    """
    try:
        write_index(disk, segment, index)
    except GoQueueError:
        discard(disk, *segment.index_paths)


def write_index(disk: Disk, segment: Segment, index: Index) -> None:
    """Write both files anew. What a loss of power leaves of them is not believed."""
    end = mark(*index.marked) if index.marked else b""
    replace(disk, segment.timeindex_path, index.dump_times(), durable=False)
    replace(disk, segment.index_path, index.dump() + end, durable=False)


def load_index(disk: Disk, segment: Segment) -> Index | None:
    """The index as the files have it; None where they are missing or cannot be right."""
    try:
        content, times = read_all(disk, segment.index_path), read_all(disk, segment.timeindex_path)
    except (PathInvalid, DiskFailed):
        return None
    return load(content, times, segment.base_offset, segment.size)


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
            newest = piece.last_timestamp
    return newest


class Reader:
    """An open segment, good for any thread, and what is known of its content. It writes nothing: its file may have
    lost its name to another one.
    """

    def __init__(self, disk: Disk, segment: Segment) -> None:
        self.segment = segment
        self.file: File = disk.open(segment.path, "read")
        self.index = load_index(disk, segment) if segment.index is None else None
        self.damages: tuple[Damage, ...] = ()
        marked = self.index.marked if self.index is not None else None
        self._was_cut = marked is not None and marked[1] > segment.size
        if self._was_cut:
            self.index = None

    def examine(self, end: int, next_offset: int) -> Index:
        """Read all of it: afterwards the damage is known, and the index cannot be wrong."""
        index, damages, expected = Index(), [], self.segment.base_offset
        for piece in survey(self.file, Stretch(0, end, self.segment.base_offset, next_offset), self.index):
            if isinstance(piece, Damage):
                damages.append(piece)
                expected = piece.next_offset
            else:
                index.note_frames(piece)
                expected = piece.last_offset + 1
        if self._was_cut and expected < next_offset:
            damages.append(Damage(end, end, expected, next_offset, "the file ends before what had been synced"))
        self.index, self.damages = index, tuple(damages)
        return index

    def __repr__(self) -> str:
        return f"<Reader {self.segment.path}, {len(self.damages)} damages>"


class Readers:
    """The readers used last. One that is dropped closes when nobody holds it any more."""

    def __init__(self, disk: Disk, most: int = READERS_MAX) -> None:
        self._disk = disk
        self._most = most
        self._held: OrderedDict[Segment, Reader] = OrderedDict()

    def get(self, segment: Segment) -> Reader:
        if segment.pinned is not None:
            return segment.pinned
        reader = self._held.get(segment)
        if reader is None:
            reader = self._held[segment] = Reader(self._disk, segment)
            if len(self._held) > self._most:
                self._held.popitem(last=False)
        else:
            self._held.move_to_end(segment)
        return reader

    def damages(self) -> list[tuple[Segment, Damage]]:
        """What those that are held have come upon."""
        return [(segment, damage) for segment, reader in self._held.items() for damage in reader.damages]

    def drop(self, *segments: Segment) -> None:
        """Close these files, unless a read still has them open."""
        for segment in segments:
            self._held.pop(segment, None)
