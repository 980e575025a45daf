"""The sparse index of a segment: where to start looking for an offset, a position or a time.

There is an entry for the first frame that starts in each block of 4 KiB, so an index follows
from its log alone and can be rebuilt to the same bytes. On disk two files hold it: `.index` with
(offset, position) and `.timeindex` with (time, offset), pairs of big-endian 64-bit numbers.

`.index` ends with a mark: the offset and position at which the synced part of the log ends, with
a checksum of its own. It is written after each sync and so vouches for every byte before it: what
is bad below the mark is damage, not a torn write. The next entries overwrite it.

What must stay true: an index is a cache. Every user of an entry checks that the frame there has
the offset that the entry says.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from crc32c import crc32c

from goqueue.limits import INDEX_BLOCK_BYTES
from goqueue.storage.scan import Frames, Positions

PAIR_BYTES = 16
MARK_BYTES = 24
MARK_MAGIC = b"GQIX"


def _column() -> "array[int]":
    return array("q")


@dataclass(slots=True)
class Index:
    """Entries as three columns; `marked` is the synced end, as (offset, position)."""

    offsets: "array[int]" = field(default_factory=_column)
    positions: "array[int]" = field(default_factory=_column)
    times: "array[int]" = field(default_factory=_column)
    marked: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, offset: int, position: int, time: int) -> None:
        self.offsets.append(offset)
        self.positions.append(position)
        self.times.append(time)

    @property
    def last_block(self) -> int:
        """The block that the last entry stands for, and with it the last frame."""
        return self.positions[-1] // INDEX_BLOCK_BYTES if self.positions else -1

    def note(self, first_offset: int, origin: int, positions: Sequence[int] | Positions, time: int) -> int:
        """Enter what is due of frames with rising offsets and one append time; return how many entries."""
        block = self.last_block
        if len(positions) == 1 or (origin + int(positions[-1])) // INDEX_BLOCK_BYTES == block:
            due = [0] if (origin + int(positions[0])) // INDEX_BLOCK_BYTES != block else []
        else:
            blocks = (np.asarray(positions, np.int64) + origin) // INDEX_BLOCK_BYTES
            due = np.flatnonzero(np.diff(blocks, prepend=block)).tolist()
        for number in due:
            self.add(first_offset + number, origin + int(positions[number]), time)
        return len(due)

    def note_frames(self, frames: Frames) -> None:
        """Enter what is due of frames that were read from a log."""
        self.note_many(frames.offsets, frames.positions + frames.origin, frames.timestamps)

    def note_many(self, offsets: Positions, places: Positions, times: Positions) -> int:
        """Enter what is due of frames given as columns; return how many entries."""
        due = np.flatnonzero(np.diff(places // INDEX_BLOCK_BYTES, prepend=self.last_block))
        self.offsets.extend(offsets[due].tolist())
        self.positions.extend(places[due].tolist())
        self.times.extend(times[due].tolist())
        return len(due)

    def before_offset(self, offset: int) -> int:
        """The number of the last entry at or before this offset; -1 if there is none."""
        return bisect_right(self.offsets, offset) - 1

    def before_position(self, position: int) -> int:
        """The number of the last entry at or before this position; -1 if there is none."""
        return bisect_right(self.positions, position) - 1

    def before_time(self, time: int) -> int:
        """The number of the last entry that is older than this time; -1 if there is none."""
        return bisect_left(self.times, time) - 1

    def before(self, number: int) -> "Index":
        """The entries before this one."""
        return Index(self.offsets[:number], self.positions[:number], self.times[:number])

    def start_for(self, number: int) -> tuple[int, int]:
        """The offset and position of this entry; those of the beginning, whose offset is not known, for -1."""
        return (self.offsets[number], self.positions[number]) if number >= 0 else (-1, 0)

    def cut(self, position: int) -> None:
        """Forget all entries from this position on."""
        count = bisect_left(self.positions, position)
        del self.offsets[count:], self.positions[count:], self.times[count:]

    def dump(self, first: int = 0) -> bytes:
        """The bytes of `.index` from entry `first` on, without the mark."""
        return _pairs(self.offsets[first:], self.positions[first:])

    def dump_times(self, first: int = 0) -> bytes:
        return _pairs(self.times[first:], self.offsets[first:])


def mark(offset: int, position: int) -> bytes:
    """Encode the synced mark at the end of `.index`."""
    pair = offset.to_bytes(8, "big") + position.to_bytes(8, "big")
    return pair + crc32c(pair).to_bytes(4, "big") + MARK_MAGIC


def read_mark(content: bytes) -> tuple[int, int] | None:
    """The mark at the end of these bytes, if it was written whole."""
    offset, position = int.from_bytes(content[-24:-16], "big"), int.from_bytes(content[-16:-8], "big")
    whole = len(content) >= MARK_BYTES and content[-MARK_BYTES:] == mark(offset, position)
    return (offset, position) if whole else None


def _pairs(one: "array[int]", other: "array[int]") -> bytes:
    table = np.empty((len(one), 2), ">i8")
    table[:, 0], table[:, 1] = one, other
    return table.tobytes()


def _table(content: bytes) -> Positions:
    return np.frombuffer(content[: len(content) // PAIR_BYTES * PAIR_BYTES], ">i8").reshape(-1, 2).astype(np.int64)


def load(content: bytes, times: bytes, base_offset: int, size: int) -> Index | None:
    """The index in these bytes, or None where they cannot be one for a log of this base and size.

    Entries beyond the end of the log are left out; the mark may say more than the log has.
    """
    marked = read_mark(content)
    # A write that was torn leaves no mark, and the last entry may be half of the mark that was there before.
    table = _table(content[:-MARK_BYTES]) if marked else _table(content)[:-1]
    table = table[: _plausible(table, size)]
    stamps = _table(times)[: len(table)]
    table = table[: len(stamps)]
    if len(table) and (table[0, 0] < base_offset or stamps[0, 0] <= 0):  # zeros are no entry
        return None
    if len(table) and table[0, 1] != 0 and table[0, 0] == base_offset:  # before a later one there may be damage
        return None
    if not np.array_equal(stamps[:, 1], table[:, 0]) or (stamps[1:, 0] < stamps[:-1, 0]).any():
        return None
    if not len(table) and marked is None:
        return None
    index = Index(marked=marked)
    for column, values in ((index.offsets, table[:, 0]), (index.positions, table[:, 1]), (index.times, stamps[:, 0])):
        column.frombytes(values.tobytes())
    return index


def _plausible(table: Positions, size: int) -> int:
    """Count the entries that lie within the log, with rising offsets and each in a later block than the one before."""
    offsets, positions = table[:, 0], table[:, 1]
    blocks = positions // INDEX_BLOCK_BYTES
    wrong = (positions < 0) | (positions >= size)
    wrong[1:] |= (offsets[1:] <= offsets[:-1]) | (blocks[1:] <= blocks[:-1])
    return int(np.argmax(wrong)) if wrong.any() else len(table)
