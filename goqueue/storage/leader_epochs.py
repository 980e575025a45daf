"""The leader epochs of a log, and the note beside it that caches them.

The log says where each epoch begins, with an epoch frame (`epoch_frame`). What stands before the first one has epoch 0.

`LeaderEpochs` follows the appends of an open log. What was there before is read from the note and from the log behind
it, and given to `complete`, before a log is replicated. Nothing is known until then, and a log without epochs costs
nothing.

What must stay true:

* a log with epoch frames has a note, which is made before the first of them. Retention relies on it: without a note
  it does not look for epochs in what it removes;
* the note speaks of durable messages alone, and a truncation cuts it before the log;
* the epoch of the oldest message is known, though its frame may be gone: of the epochs that began before the
  log's start, the last one stays in the note.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter

from goqueue.errors import FrameInvalid
from goqueue.storage import frame
from goqueue.storage.disk import Disk, read_all
from goqueue.storage.epoch_frame import decode_epoch_frame, epoch_messages
from goqueue.storage.layout import decode_checkpoint, write_checkpoint
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment

NOTE = "epochs"

EpochStart = tuple[int, int]
"""An epoch, and the offset of its epoch frame."""

_epoch, _start = itemgetter(0), itemgetter(1)


@dataclass(slots=True)
class EpochList:
    """Epochs with their starts; both rise."""

    rows: list[EpochStart] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The greatest epoch; 0 if there is none."""
        return self.rows[-1][0] if self.rows else 0

    def add(self, message: frame.StoredMessage, first_offset: int) -> None:
        """Add an epoch frame of a log that begins at this offset. One that says nothing possible is as good as none."""
        try:
            began = decode_epoch_frame(message)
        except FrameInvalid:
            return
        if began.epoch <= self.last:
            return
        if began.previous > self.last:
            # Its frame is lost. It is taken to begin as early as possible: what a replica removes without need it
            # gets again, what it keeps wrongly it keeps.
            start = self.rows[-1][1] + 1 if self.rows else max(0, first_offset - 1)
            if start < message.offset:
                self.rows.append((began.previous, start))
        self.rows.append((began.epoch, message.offset))

    def cut(self, end: int) -> bool:
        """Remove the epochs that begin at this offset or later. Return whether there were any."""
        number = bisect_right(self.rows, end - 1, key=_start)
        had_more = number < len(self.rows)
        del self.rows[number:]
        return had_more

    def forget_below(self, first_offset: int) -> None:
        """Remove the epochs that are not needed in a log that begins at this offset.

        The last one that began before it stays: should another one begin right there, a truncation may remove that.
        """
        del self.rows[: max(0, bisect_left(self.rows, first_offset, key=_start) - 1)]

    def own(self, first_offset: int) -> list[EpochStart]:
        """Return the epochs of a log that begins at this offset, each with its first offset there."""
        number = bisect_right(self.rows, first_offset, key=_start)
        return [(self.rows[number - 1][0] if number else 0, first_offset), *self.rows[number:]]


class LeaderEpochs:
    """The epochs of an open log; in its owner's hands."""

    def __init__(self, first_offset: int, since: int) -> None:
        self.is_complete = False
        """Whether the epochs of all messages are known."""
        self.since = since
        """The offset from which on they are noted; what stands below it is the business of `complete`."""
        self.stored: tuple[list[EpochStart], int] | None = None
        """The rows and the offset of the note, as far as it was read or written."""
        self._first_offset = first_offset
        self._list = EpochList()
        self._noted: list[frame.StoredMessage] = []

    def note(self, frames: Frames) -> None:
        """Follow an append that has control records."""
        for message in epoch_messages(frames):
            if self.is_complete:
                self._list.add(message, self._first_offset)
            else:
                self._noted.append(message)

    def cut(self, end: int) -> None:
        """Forget what began at this offset or later: the messages from there on are gone."""
        self._list.cut(end)
        self._noted = [message for message in self._noted if message.offset < end]
        self.since = min(self.since, end)
        self.stored = None

    def begin_behind_gap(self, epoch: int, start: int) -> EpochList:
        """Note that what comes from this offset on is of an epoch whose first message the log does not have."""
        rows = self._complete.rows
        if epoch > self.last:
            rows.append((epoch, start - 1))
        self.stored = None
        return EpochList(list(rows))

    def complete(self, older: EpochList) -> None:
        """Take over the epochs that begin below `since`."""
        older.cut(self.since)
        self._list = older
        for message in self._noted:
            older.add(message, self._first_offset)
        self._noted.clear()
        self.is_complete = True

    @property
    def has_any(self) -> bool:
        """Return whether an epoch is known to have begun: then the log is replicated."""
        return bool(self._list.rows or self._noted)

    @property
    def last(self) -> int:
        """The epoch of what is appended next, until another one begins; 0 if none ever began."""
        return self._complete.last

    def epoch_of(self, offset: int) -> int:
        """Return the epoch of a message of the log."""
        rows = self._complete.rows
        number = bisect_right(rows, offset, key=_start)
        return rows[number - 1][0] if number else 0

    def end_of(self, epoch: int, first_offset: int, next_offset: int) -> EpochStart | None:
        """Return the greatest epoch of this log that is not above the given one, and where it ends.

        The log holds these offsets: the last epoch ends where the log does. None if the given epoch is older than all
        that the log holds.
        """
        own = self._complete.own(first_offset)
        number = bisect_right(own, epoch, key=_epoch)
        if not number:
            return None
        return own[number - 1][0], own[number][1] if number < len(own) else next_offset

    def rows_below(self, first_offset: int, end: int) -> list[EpochStart]:
        """Return what a note says of a log from one offset to another."""
        kept = EpochList(list(self._complete.rows))
        kept.cut(end)
        kept.forget_below(first_offset)
        return kept.rows

    @property
    def _complete(self) -> EpochList:
        assert self.is_complete, "the epochs are loaded before a log is replicated"
        return self._list

    def __repr__(self) -> str:
        return f"<LeaderEpochs {self._list.rows[-8:]}{'' if self.is_complete else f', known from {self.since}'}>"


@dataclass(slots=True)
class EpochNote:
    """The note `epochs` beside a log: the epochs that begin below an offset."""

    directory: str
    epochs: EpochList = field(default_factory=EpochList)
    offset: int = 0

    @classmethod
    def load(cls, disk: Disk, directory: str) -> "EpochNote | None":
        """Read the note, or return None if there is none. One that is damaged says nothing."""
        path = f"{directory}/{NOTE}"
        if disk.kind(path) != "file":
            return None
        facts = decode_checkpoint(read_all(disk, path)) or {}
        offset, rows = facts.get("offset"), facts.get("epochs")
        if not isinstance(offset, int) or offset < 0 or not isinstance(rows, list) or not _is_rising(rows):
            return cls(directory)
        return cls(directory, EpochList([(epoch, start) for epoch, start in rows]), offset)

    def store(self, disk: Disk) -> None:
        """Write it in one step."""
        write_checkpoint(disk, f"{self.directory}/{NOTE}", offset=self.offset, epochs=self.epochs.rows)

    def add(self, frames: Frames, first_offset: int) -> None:
        """Add the epoch frames among these, which stand behind all that it knows."""
        for message in epoch_messages(frames):
            self.epochs.add(message, first_offset)

    def cut(self, end: int) -> bool:
        """Forget all from this offset on. Return whether the note spoke of it."""
        had_more = self.epochs.cut(end) or self.offset > end
        self.offset = min(self.offset, end)
        return had_more

    def cover(self, disk: Disk, segment: Segment, end: int) -> None:
        """Before a segment that ends at this offset is removed: make the note speak of all epochs in it."""
        if self.offset >= end:
            return
        known = self.epochs.last
        stretch = ScanRange(0, segment.size, segment.base_offset, end)
        for piece in scan_segment(disk.open(segment.path, "read"), stretch):
            if not isinstance(piece, Damage):
                self.add(piece, segment.base_offset)
        self.epochs.forget_below(segment.base_offset)  # not the end: a crash may come before the removal
        self.offset = end
        if self.epochs.last > known:  # else nothing is written: the disk may be full
            self.store(disk)


def _is_number(fact: object) -> bool:
    return type(fact) is int and fact >= 0


def _is_rising(rows: list[object]) -> bool:
    pairs = [row for row in rows if isinstance(row, list) and len(row) == 2 and all(map(_is_number, row))]
    return len(pairs) == len(rows) and all(
        one[0] < other[0] and one[1] < other[1] for one, other in pairwise([[0, -1], *pairs])
    )


def truncate_epochs(disk: Disk, directory: str, end: int) -> None:
    """Before a log is cut back to this offset: let the note say nothing of what follows."""
    note = EpochNote.load(disk, directory)
    if note is not None and (note.cut(end) or not note.offset):  # one that cannot be read now may be whole later
        note.store(disk)
