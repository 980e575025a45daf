"""Many frames at once: walk, verify and stamp, with numpy instead of a Python object per message.

Two ways to walk. Without help, every place with the magic bytes is a candidate, and those that
chain from the start are the frames (values may contain the magic: the chain decides). With the
entries of an index, one cursor an entry advances in lockstep with all others, and each must
land on the entry behind it, which proves the index on the way.

Two ways to verify. What a log holds is compared as a whole: one checksum over all of it with the
checksums of the frames, combined. A client's frames are compared one by one, because a client that
chooses the checksums can choose wrong ones that cancel each other out.

What must stay true: nothing here decides what is damage. A walk says how far plausible frames
reach, a verification how many of them have the right checksum; the caller knows what it expected.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from goqueue.errors import FrameInvalid
from goqueue.limits import FRAME_HEADER_BYTES, INDEX_BLOCK_BYTES, OFFSET_MAX, PRIORITY_COUNT, VALUE_BYTES_MAX
from goqueue.storage import checksum, frame

PLAIN_FRAMES = 40
"""Below this count the plain codec is faster: each numpy step costs a microsecond before it does anything."""
PLAIN_BYTES = 4096
COMBINED_FRAMES = 1024
"""From this count on, combining checksums is faster than computing one a frame."""
_PIECE_BYTES = 64 * 1024  # what a step makes of a piece this small stays in the cache, and its memory is reused
_GROUP_FRAMES = 512

_PREFIX = int.from_bytes(frame.MAGIC + bytes((frame.VERSION, 0)), "big")  # of a frame without flags
_VALUE_MASK, _HEADERS_MASK = np.uint64(0xFFFFFFFF), np.uint64(0xFFFF)
_FIRST_END = FRAME_HEADER_BYTES + len(frame.NO_HEADERS)
_STEPS_MAX = INDEX_BLOCK_BYTES // (FRAME_HEADER_BYTES + len(frame.NO_HEADERS)) + 1  # frames that start in one block

Bytes = NDArray[np.uint8]
Positions = NDArray[np.int64]
Buffer = bytes | bytearray | memoryview | Bytes


def column(buffer: Bytes, kind: str, at: int) -> NDArray[Any]:
    """A view in which item p is the field at byte `at` of a frame that starts at p."""
    count = len(buffer) - at - np.dtype(kind).itemsize + 1
    return np.ndarray((count,), kind, buffer.data, at, (1,)) if count > 0 else np.empty(0, kind)


@dataclass(frozen=True, slots=True)
class Frames:
    """Whole frames that follow each other in a buffer."""

    buffer: Bytes
    positions: Positions
    lengths: Positions
    end: int
    """Where the last frame ends: the first byte that the walk did not take."""
    origin: int = 0
    """Where the buffer itself starts in its file."""

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def offsets(self) -> Positions:
        return self._field(">u8", frame.AT_OFFSET).astype(np.int64)

    @property
    def timestamps(self) -> Positions:
        return self._field(">u8", frame.AT_TIMESTAMP).astype(np.int64)

    @property
    def first_offset(self) -> int:
        """Where there is a frame, as for the two that follow."""
        return frame.offset_at(self.buffer.data, int(self.positions[0]))

    @property
    def last_offset(self) -> int:
        return frame.offset_at(self.buffer.data, int(self.positions[-1]))

    @property
    def last_timestamp(self) -> int:
        return frame.timestamp_at(self.buffer.data, int(self.positions[-1]))

    @property
    def checksums(self) -> NDArray[np.uint32]:
        return self._field(">u4", frame.AT_CRC).astype(np.uint32)

    @property
    def flags(self) -> Bytes:
        return self._field("u1", frame.AT_FLAGS)

    @property
    def flags_of_any(self) -> int:
        """The flags that at least one of them has."""
        if len(self) >= PLAIN_FRAMES:
            return int(np.bitwise_or.reduce(self.flags))
        content, found = self.buffer.data, 0
        for position in self.positions.tolist():
            found |= content[position + frame.AT_FLAGS]
        return found

    @property
    def priorities(self) -> Bytes:
        return self._field("u1", frame.AT_PRIORITY)

    @property
    def key_lengths(self) -> Positions:
        return self._field(">u2", frame.AT_KEY_LENGTH).astype(np.int64)

    def record_positions(self) -> list[int]:
        """Where messages start, or the records of an internal log: all but control records."""
        positions: list[int] = self.positions[(self.flags & frame.CONTROL) == 0].tolist()
        return positions

    def _field(self, kind: str, at: int) -> NDArray[Any]:
        return column(self.buffer, kind, at)[self.positions]

    def first(self, count: int) -> "Frames":
        """The first `count` of them."""
        if count >= len(self):
            return self
        return replace(
            self, positions=self.positions[:count], lengths=self.lengths[:count], end=int(self.positions[count])
        )


def as_bytes(buffer: Buffer) -> Bytes:
    return buffer if isinstance(buffer, np.ndarray) else np.frombuffer(buffer, np.uint8)


def walk(buffer: Buffer, start: int = 0, entries: Positions | None = None) -> Frames:
    """The plausible whole frames from `start` on, as far as they chain.

    `entries` are places where frames are believed to start. A wrong one costs time, not truth.
    """
    content = as_bytes(buffer)
    if len(content) - start <= PLAIN_BYTES:
        return _steps(content, start, frame.measure)
    if entries is not None:
        found = _lockstep(content, np.append(start, entries[entries > start]))
        if found is not None:
            return _joined(content, found, _chain(content, found.end))
    return _chain(content, start)


def _steps(content: Bytes, start: int, length_at: Callable[[memoryview, int], int]) -> Frames:
    """The plain way, for little: as far as `length_at` finds frames."""
    positions, lengths, position = [], [], start
    while position < len(content):
        try:
            length = length_at(content.data, position)
        except FrameInvalid:
            break
        positions.append(position)
        lengths.append(length)
        position += length
    return Frames(content, np.array(positions, np.int64), np.array(lengths, np.int64), position)


def _joined(content: Bytes, one: Frames, other: Frames) -> Frames:
    positions = np.concatenate((one.positions, other.positions))
    return Frames(content, positions, np.concatenate((one.lengths, other.lengths)), other.end)


def _measured(content: Bytes, positions: Positions) -> Positions:
    """The length of a frame at each place that has a whole header; 0 where none can be."""
    lengths = column(content, ">u2", frame.AT_KEY_LENGTH)[positions].astype(np.int64)
    values = column(content, ">u4", frame.AT_VALUE_LENGTH)[positions]
    headers = column(content, ">u2", frame.AT_HEADERS_LENGTH)[positions]
    lengths += values
    lengths += headers
    lengths += FRAME_HEADER_BYTES
    priority_and_reserved = column(content, ">u2", frame.AT_PRIORITY)[positions]
    impossible = priority_and_reserved >= PRIORITY_COUNT << 8
    impossible |= (priority_and_reserved & 0xFF) != 0
    impossible |= column(content, "u1", frame.AT_FLAGS)[positions] > frame.FLAGS_ALL
    impossible |= values > VALUE_BYTES_MAX
    impossible |= headers < len(frame.NO_HEADERS)
    impossible |= lengths > len(content) - positions
    lengths[impossible] = 0
    return lengths


def announced(content: Bytes, position: int, left: int) -> int:
    """Return the claimed length of the frame at `position`, if it is possible; 1 where too little is there to tell.

    `left` is how far the file goes on, counted from the start of `content`.
    """
    if len(content) - position < FRAME_HEADER_BYTES:
        return 1 if position in (len(content), left) or left - position >= FRAME_HEADER_BYTES else 0
    try:
        return frame.measure(content.data, position, left - position)
    except FrameInvalid:
        return 0


def candidates(content: Bytes, start: int = 0) -> Positions:
    """Every place from `start` on that has the magic, the version and room for a header."""
    last = len(content) - FRAME_HEADER_BYTES + 1
    if start >= last:
        return np.empty(0, np.int64)
    magic, version = frame.MAGIC, frame.VERSION
    pieces = []
    for first in range(start, last, _PIECE_BYTES):
        end = min(last, first + _PIECE_BYTES)
        found = content[first:end] == magic[0]
        found &= content[first + 1 : end + 1] == magic[1]
        found &= content[first + 2 : end + 2] == version
        pieces.append(np.flatnonzero(found) + first)
    return np.concatenate(pieces)


def _chain(content: Bytes, start: int) -> Frames:
    positions = candidates(content, start)
    if not len(positions) or positions[0] != start:
        return Frames(content, np.empty(0, np.int64), np.empty(0, np.int64), start)
    lengths = _measured(content, positions)
    ends = positions + lengths
    if np.array_equal(ends[:-1], positions[1:]):  # no magic inside a value, no gap: all are frames
        whole = len(positions) if lengths[-1] else len(positions) - 1
        return Frames(content, positions[:whole], lengths[:whole], int(ends[-1]))
    chosen = _orbit(np.searchsorted(positions, ends), positions, ends, lengths)
    positions, lengths = positions[chosen], lengths[chosen]
    return Frames(content, positions, lengths, int(positions[-1] + lengths[-1]) if len(positions) else start)


def _orbit(following: Positions, positions: Positions, ends: Positions, lengths: Positions) -> Positions:
    """The indices met when going from the first candidate to the one at its end, and so on."""
    following[following == len(positions)] = -1
    following[(following >= 0) & (positions[following] != ends)] = -1
    steps, whole = following.tolist(), (lengths > 0).tolist()
    chosen, index = [], 0
    while index >= 0 and whole[index]:
        chosen.append(index)
        index = steps[index]
    return np.array(chosen, np.int64)


def _lockstep(content: Bytes, entries: Positions) -> Frames | None:
    """The frames from the first entry to the last, or None where that is not the way of an index.

    A step takes nothing but lengths; what else must hold of a header is asked of all frames at once.
    """
    if len(entries) < 2 or not _FIRST_END <= int(entries[-1]) <= len(content):
        return None
    sizes = column(content, ">u8", frame.AT_KEY_LENGTH)  # the lengths of key, value and headers, as one number
    cursors, goals, lanes = entries[:-1], entries[1:], np.arange(len(entries) - 1)
    rows: list[tuple[Positions, Positions]] = []
    while len(cursors):
        if len(rows) == _STEPS_MAX or int(cursors.max()) >= len(sizes):
            return None
        rows.append((lanes, cursors))
        ends = cursors + _lengths(sizes[cursors])
        going = ends < goals
        if going.all():  # of most steps
            cursors = ends
            continue
        if not np.array_equal(ends[~going], goals[~going]):
            return None
        cursors, goals, lanes = ends[going], goals[going], lanes[going]
    table = np.full((len(entries) - 1, len(rows)), -1, np.int64)
    for step, (taken, places) in enumerate(rows):
        table[taken, step] = places
    positions = table[table >= 0]
    if not _are_headers(content, positions, sizes[positions].astype(np.uint64)):
        return None
    return Frames(content, positions, np.diff(positions, append=entries[-1]), int(entries[-1]))


def _lengths(sizes: NDArray[np.uint64]) -> Positions:
    """Compute the lengths of whole frames from the eight bytes with the lengths of their parts."""
    three = sizes.astype(np.uint64)
    total = (three >> np.uint64(16)) & _VALUE_MASK
    total += three >> np.uint64(48)
    total += three & _HEADERS_MASK
    total += np.uint64(FRAME_HEADER_BYTES)
    return total.view(np.int64)


def _are_headers(content: Bytes, positions: Positions, sizes: NDArray[np.uint64]) -> bool:
    """Return whether each position has a possible header."""
    flags = column(content, ">u4", 0)[positions].astype(np.uint32) - np.uint32(_PREFIX)  # wraps below the magic
    priority_and_reserved = column(content, ">u2", frame.AT_PRIORITY)[positions]
    values = (sizes >> np.uint64(16)) & _VALUE_MASK
    return bool(
        flags.max() <= frame.FLAGS_ALL
        and priority_and_reserved.max() < PRIORITY_COUNT << 8
        and not (priority_and_reserved & 0xFF).any()
        and values.max() <= VALUE_BYTES_MAX
        and (sizes & _HEADERS_MASK).min() >= len(frame.NO_HEADERS)
    )


def verify(frames: Frames) -> int:
    """Count the frames from the first on with the right checksum. Needs a writable buffer."""
    if len(frames) < COMBINED_FRAMES:
        return _verify_each(frames)
    field, checksums = column(frames.buffer, ">u4", frame.AT_CRC), frames.checksums
    field[frames.positions] = 0
    edges = np.append(frames.positions, frames.end)

    def sound(first: int, last: int) -> bool:
        found: int = crc32c(frames.buffer[edges[first] : edges[last]].data)
        return found == checksum.combine(checksums[first:last], frames.lengths[first:last])

    count = len(frames)
    good = count if sound(0, count) else _first_unsound(sound, count)
    field[frames.positions] = checksums
    return good


def _verify_each(frames: Frames) -> int:
    """Verify frame by frame: wrong checksums cannot cancel each other."""
    content = frames.buffer.data
    if len(frames) < PLAIN_FRAMES:
        for number, (position, length) in enumerate(_places(frames)):
            if frame.checksum_of(content, position, length) != frame.checksum_at(content, position):
                return number
        return len(frames)
    stored = frames.checksums
    starts, ends, flags = frames.positions, frames.positions + frames.lengths, frames.flags
    for first in range(0, len(frames), _GROUP_FRAMES):
        group = slice(first, first + _GROUP_FRAMES)
        found = frame.checksums_of(content, starts[group].tolist(), ends[group].tolist(), flags[group].tolist())
        if found != stored[group].tolist():
            return first + int(np.argmax(np.array(found, np.uint32) != stored[group]))
    return len(frames)


def _places(frames: Frames) -> Iterator[tuple[int, int]]:
    """Yield position and length of each frame."""
    return zip(frames.positions.tolist(), frames.lengths.tolist(), strict=True)


def _first_unsound(sound: Callable[[int, int], bool], count: int) -> int:
    """Bisect: the frames before `low` are sound, and there is a damaged one before `high`."""
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        if sound(low, middle):
            low = middle
        else:
            high = middle
    return low


def in_order(frames: Frames, last_offset: int, last_timestamp: int) -> int:
    """Count the frames from the first on with rising offsets and times that do not fall."""
    if not len(frames):
        return 0
    if len(frames) == 1:
        is_rising = last_offset < frames.first_offset <= OFFSET_MAX
        return int(is_rising and last_timestamp <= frames.last_timestamp <= OFFSET_MAX)
    offsets, timestamps = frames.offsets, frames.timestamps
    if offsets[0] <= last_offset or timestamps[0] < last_timestamp:
        return 0
    wrong = offsets[1:] <= offsets[:-1]  # not a difference, which could overflow
    wrong |= timestamps[1:] < timestamps[:-1]
    return int(np.argmax(wrong)) + 1 if wrong.any() else len(frames)


def stamp(frames: Frames, first_offset: int, timestamp: int) -> None:
    """Give frames that were verified their offsets, their append time and the checksums that follow.

    Only what changes enters the new checksum: the difference of the old and the new fields.
    """
    if len(frames) < PLAIN_FRAMES:
        for offset, (position, length) in enumerate(_places(frames), first_offset):
            frame.stamp(frames.buffer.data, position, length, offset, timestamp)
        return
    offset_field = column(frames.buffer, ">u8", frame.AT_OFFSET)
    time_field = column(frames.buffer, ">u8", frame.AT_TIMESTAMP)
    crc_field = column(frames.buffer, ">u4", frame.AT_CRC)
    positions = frames.positions
    offsets = np.arange(first_offset, first_offset + len(frames), dtype=np.uint64)
    offset_changes = offset_field[positions].astype(np.uint64) ^ offsets
    time_changes = time_field[positions].astype(np.uint64) ^ np.uint64(timestamp)
    stored = crc_field[positions].astype(np.uint32)
    stored ^= checksum.change(offset_changes, time_changes, frames.lengths - frame.AT_PRIORITY)
    offset_field[positions] = offsets
    time_field[positions] = timestamp
    crc_field[positions] = stored


def check_batch(content: bytearray | memoryview, walked: Frames | None = None) -> Frames:
    """Return a client's frames once all of them are found sound; the bytes may be stamped in place.

    `walked` is what `walk` has found in the same bytes, if it was asked before.
    """
    if len(content) <= PLAIN_BYTES:
        frames = _steps(as_bytes(content), 0, frame.verify)
        good = len(frames)
    else:
        frames = walk(content) if walked is None else walked
        good = _verify_each(frames)
    if good < len(frames) or frames.end < len(content):
        place = int(frames.positions[good]) if good < len(frames) else frames.end
        frame.verify(content, place)
    return frames
