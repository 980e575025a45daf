"""One file of frames and the index beside it.

A segment is named by its base offset and holds the offsets from there up to the next segment's
base. Only a log's last segment, the active one, grows; the others are sealed and never change
in place.

What must stay true: a `SegmentReader` pairs a file with an index of that same file. It keeps the file open,
so neither removal nor replacement of the name disturbs readers.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from goqueue.errors import DiskFailed, GoQueueError, PathInvalid
from goqueue.limits import KIB, MIB, OFFSET_MAX, READERS_MAX
from goqueue.storage import frame
from goqueue.storage.disk import Disk, File, read_all, remove_files, replace_file
from goqueue.storage.index import Index, load, mark
from goqueue.storage.lanes import LaneSummary, SegmentLanes
from goqueue.storage.scan import Frames, Positions
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment
from goqueue.storage.transaction_index import NONE_ABORTED, AbortedRanges

NAME_DIGITS = 20


OffsetSpan = tuple[int, int]
"""Offsets from the first up to, not including, the second."""

BLOCK_BYTES = 256 * KIB  # read in a fraction of a millisecond; a segment of 64 MiB needs 6 KiB of memory
STEP_BYTES = 16 * MIB  # surveyed in one go: a thread is not held for longer than some ten milliseconds


@dataclass(frozen=True, slots=True)
class MessageCount:
    """Messages that were counted, and the append time of the first of them."""

    messages: int
    first_ns: int | None


def _none() -> Positions:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class MessageCounts:
    """The counted messages of a segment below `next_offset`, which comes at the position `end`.

    Counted once, by a scan, it remembers how many messages precede the first frame of each block of 256 KiB.
    A count of any offsets then reads only the blocks of their edges. It belongs to a prefix of one file that never
    changes, and never changes itself, so any thread may use it.
    """

    next_offset: int
    end: int = 0
    messages: int = 0
    first_ns: int | None = None
    """The time of the first message."""
    last_time: int = 0
    is_sound: bool = True
    """Whether nothing was damaged."""
    block_bytes: int = BLOCK_BYTES
    offsets: Positions = field(default_factory=_none)
    """Of the first frame in each block."""
    positions: Positions = field(default_factory=_none)
    before: Positions = field(default_factory=_none)
    """How many messages come before that frame."""

    def extended(
        self, file: File, end: int, next_offset: int, index: Index | None = None, step_bytes: int = STEP_BYTES
    ) -> "MessageCounts":
        """The same for a step more of the file, or up to where `next_offset` comes at the position `end`."""
        message_counts = self
        for piece in scan_segment(file, ScanRange(self.end, end, self.next_offset, next_offset, self.last_time), index):
            if isinstance(piece, Damage):
                message_counts = replace(message_counts, end=piece.end, next_offset=piece.next_offset, is_sound=False)
            else:
                message_counts = message_counts._with(piece)
            if self.end + step_bytes <= message_counts.end < end:
                return message_counts
        return replace(message_counts, end=end, next_offset=next_offset)

    def _with(self, frames: Frames) -> "MessageCounts":
        offsets, times, places = frames.offsets, frames.timestamps, frames.positions + frames.origin
        counts = (frames.flags & frame.CONTROL) == 0
        totals = self.messages + np.cumsum(counts)
        last_block = int(self.positions[-1]) // self.block_bytes if len(self.positions) else -1
        due = np.flatnonzero(np.diff(places // self.block_bytes, prepend=last_block))
        first_ns = self.first_ns
        if first_ns is None and counts.any():
            first_ns = int(times[np.argmax(counts)])
        return replace(
            self,
            next_offset=int(offsets[-1]) + 1,
            end=frames.origin + frames.end,
            messages=int(totals[-1]),
            first_ns=first_ns,
            last_time=int(times[-1]),
            offsets=np.append(self.offsets, offsets[due]),
            positions=np.append(self.positions, places[due]),
            before=np.append(self.before, (totals - counts)[due]),
        )

    def whole(self) -> MessageCount:
        return MessageCount(self.messages, self.first_ns)

    def tally(self, file: File, spans: Sequence[OffsetSpan] | Positions) -> MessageCount:
        """Those in these spans, which are in order and do not overlap."""
        edges = self._before(file, np.array(spans, np.int64).ravel())
        found = edges[1::2] - edges[::2]
        if not found.any():
            return MessageCount(0, None)
        return MessageCount(int(found.sum()), self._time(file, int(edges[::2][np.argmax(found > 0)])))

    def _before(self, file: File, edges: Positions) -> Positions:
        """Count the messages before each of these offsets."""
        blocks = np.searchsorted(self.offsets, edges, "right") - 1
        counts = np.append(self.before, 0)[blocks]  # there are none before the first frame
        open_ones = (blocks >= 0) & (edges < self.next_offset)
        open_ones[open_ones] = self.offsets[blocks[open_ones]] != edges[open_ones]
        counts[edges >= self.next_offset] = self.messages
        for block in np.unique(blocks[open_ones]).tolist():
            here = open_ones & (blocks == block)
            counts[here] += np.searchsorted(self._block(file, block)[0], edges[here])
        return counts

    def _time(self, file: File, number: int) -> int | None:
        """The time of the message before which there are so many; if it was lost since then, of one behind it."""
        if number == 0:
            return self.first_ns
        first = int(np.searchsorted(self.before, number, "right")) - 1
        for block in range(first, len(self.before)):
            times = self._block(file, block)[1]
            place = max(0, number - int(self.before[block]))
            if place < len(times):
                return int(times[place])
        return self.last_time

    def _block(self, file: File, block: int) -> tuple[Positions, Positions]:
        """The offsets and times of the messages in a block, as many as were counted there."""
        is_last = block + 1 == len(self.offsets)
        end, ceiling = (
            (self.end, self.next_offset) if is_last else (int(self.positions[block + 1]), int(self.offsets[block + 1]))
        )
        most = (self.messages if is_last else int(self.before[block + 1])) - int(self.before[block])
        offsets, times = [_none()], [_none()]
        for piece in scan_segment(file, ScanRange(int(self.positions[block]), end, int(self.offsets[block]), ceiling)):
            if not isinstance(piece, Damage):
                counts = (piece.flags & frame.CONTROL) == 0
                offsets.append(piece.offsets[counts])
                times.append(piece.timestamps[counts])
        return np.concatenate(offsets)[:most], np.concatenate(times)[:most]

    def __repr__(self) -> str:
        return f"<MessageCounts of {self.messages} messages below {self.next_offset}, {len(self.offsets)} blocks>"


@dataclass(slots=True, eq=False)
class Segment:
    """The log owner's state of one file."""

    directory: str
    base_offset: int
    size: int = 0
    first_time: int | None = None
    last_time: int | None = None
    index: Index | None = None
    """Of the active segment, and of a sealed one while it is needed."""
    pinned: "SegmentReader | None" = None
    """Set while the file goes: readers that come in the meantime still get what was in it."""
    is_dense: bool | None = None
    """Whether every offset is taken to hold a message; None until it is asked for."""
    message_counts: MessageCounts | None = None
    """Of one that is not dense, once its messages were counted."""
    lanes: SegmentLanes | None = None
    """Of the active segment those of what was appended since the start; of a sealed one once it was asked for."""
    digest: LaneSummary | None = None
    """Of lanes that are whole and are in the file beside the segment."""
    aborted: AbortedRanges | None = None
    """What is known of aborted messages in it."""
    has_aborted_file: bool = False
    """Whether that is whole and in the file beside the segment, too."""

    @classmethod
    def beginning(cls, directory: str, base_offset: int) -> "Segment":
        """One that nothing was appended to yet, so all is known of it."""
        lanes = SegmentLanes(base_offset)
        return cls(directory, base_offset, index=Index(), is_dense=True, lanes=lanes, aborted=NONE_ABORTED)

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
        remove_files(disk, *segment.index_paths)


def write_index(disk: Disk, segment: Segment, index: Index) -> None:
    """Write both files anew. What a loss of power leaves of them is not believed."""
    end = mark(*index.marked) if index.marked else b""
    replace_file(disk, segment.timeindex_path, index.dump_times(), durable=False)
    replace_file(disk, segment.index_path, index.dump() + end, durable=False)


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
        newest = _newest(disk, segment, ScanRange(start, segment.size, first_offset))
        if newest:
            return newest
    return _newest(disk, segment, ScanRange(0, segment.size, segment.base_offset))


def _newest(disk: Disk, segment: Segment, stretch: ScanRange) -> int:
    newest = 0
    for piece in scan_segment(disk.open(segment.path, "read"), stretch):
        if not isinstance(piece, Damage):
            newest = piece.last_timestamp
    return newest


class SegmentReader:
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
        for piece in scan_segment(self.file, ScanRange(0, end, self.segment.base_offset, next_offset), self.index):
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


class SegmentReaderCache:
    """The readers used last. One that is dropped closes when its last user lets go."""

    def __init__(self, disk: Disk, most: int = READERS_MAX) -> None:
        self._disk = disk
        self._most = most
        self._held: OrderedDict[Segment, SegmentReader] = OrderedDict()

    def get(self, segment: Segment) -> SegmentReader:
        if segment.pinned is not None:
            return segment.pinned
        reader = self._held.get(segment)
        if reader is None:
            reader = self._held[segment] = SegmentReader(self._disk, segment)
            if len(self._held) > self._most:
                self._held.popitem(last=False)
        else:
            self._held.move_to_end(segment)
        return reader

    def damages(self) -> list[tuple[Segment, Damage]]:
        """Return the damage that open readers have found."""
        return [(segment, damage) for segment, reader in self._held.items() for damage in reader.damages]

    def drop(self, *segments: Segment) -> None:
        """Close these files, unless a read still has them open."""
        for segment in segments:
            self._held.pop(segment, None)
