"""Scan of a range of a segment for what it really holds: verified frames, and damage between them.

Recovery, `fsck`, compaction and the repair of an index all go through `scan_segment`.

The rules for going on behind damage, which must not accept a forged frame inside a value:

* damage holds at least one message, so the next offset is at least two above the last good one;
* times do not fall, and offsets stay below the ceiling (the next trusted index entry, or what follows
  the stretch);
* candidates are accepted backward from the far end. Real frames lead there in falling offsets; a
  forged one would have to use an offset that the real frames behind it already have;
* where the far end is nowhere in particular, candidates count only if they start so far before it that
  the frames around them are whole in the window: a sound frame hides what is inside it.

Where no mark says how far a segment was synced, the bytes tell a torn write from damage. A write that was not synced
when the power failed is on the device in part: each of its sectors has its first bytes up to some point and zeros
behind them, since file systems never show what was on the device before. So a torn write has zeros up to the end of a
sector, or ends with the file. Damage to synced bytes leaves the others as they were. A sector then rarely ends with
zero; where it does, one turned bit still tells: the checksum of a frame says which bit would make it sound.

What must stay true: a length that was read never makes this read more than `FRAME_BYTES_MAX`, and no frame is returned
with a wrong checksum or out of order.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from crc32c import crc32c

from goqueue.errors import DiskFailed, FrameInvalid
from goqueue.limits import FRAME_BYTES_MAX, FRAME_HEADER_BYTES, OFFSET_MAX, SCAN_CHUNK_BYTES, SECTOR_BYTES
from goqueue.storage import checksum, frame, scan
from goqueue.storage.disk import File
from goqueue.storage.index import Index
from goqueue.storage.scan import Bytes, Frames

_BLOCK_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes from `position` to `end` that are not frames in order.

    The messages from `first_offset` up to, not including, `next_offset` were there or may have been.
    """

    position: int
    end: int
    first_offset: int
    next_offset: int
    reason: str

    @property
    def size(self) -> int:
        return self.end - self.position


@dataclass(frozen=True, slots=True)
class ScanRange:
    """A range of a segment to scan, and the bounds of its offsets and times."""

    start: int
    end: int
    first_offset: int
    """No frame in it has a smaller offset."""
    ceiling: int = OFFSET_MAX
    """No frame in it has this offset or a greater one."""
    first_time: int = 0


@dataclass(slots=True)
class _ScanPosition:
    """The progress of a scan."""

    position: int
    offset: int
    """The offset of the last good frame."""
    time: int


_Span = tuple[int, int]
"""Where a frame starts and ends."""


def scan_segment(file: File, stretch: ScanRange, index: Index | None = None) -> Iterator[Frames | Damage]:
    """Yield verified frames in order, and damage. A yielded buffer is reused once the next is asked for."""
    place = _ScanPosition(stretch.start, stretch.first_offset - 1, stretch.first_time)
    buffer = np.empty(min(SCAN_CHUNK_BYTES, max(1, stretch.end - stretch.start)), np.uint8)
    while place.position < stretch.end:
        size = min(SCAN_CHUNK_BYTES, stretch.end - place.position)
        content, good = _read(file, buffer, place, size, index)
        if not len(good) and (longer := scan.announced(content, 0, stretch.end - place.position)) > len(content):
            content, good = _read(file, np.empty(longer, np.uint8), place, longer, index)
        if len(good):
            yield from _pass(place, good)
            continue
        yield from _salvage(file, place, stretch, index)


def _read(file: File, buffer: Bytes, place: _ScanPosition, size: int, index: Index | None) -> tuple[Bytes, Frames]:
    """A chunk, and the verified frames in order that it starts with."""
    content = buffer[: _fill(file, place.position, buffer[:size])]
    entries = None
    if index is not None:
        first = index.before_position(place.position)
        last = index.before_position(place.position + len(content))
        entries = np.array(index.positions[max(first, 0) : last + 1], np.int64) - place.position
    frames = replace(scan.walk(content, 0, entries), origin=place.position)
    good = frames.first(scan.verify(frames))
    return content, good.first(scan.in_order(good, place.offset, place.time))


def _fill(file: File, position: int, content: Bytes) -> int:
    """`file.read`, with zeros for what the device cannot read: one bad block must not cost its neighbours."""
    try:
        return file.read(position, content.data)
    except DiskFailed:
        first = -position % _BLOCK_BYTES or _BLOCK_BYTES  # the device's blocks begin at multiples of their size
        edges = [0, *range(first, len(content), _BLOCK_BYTES), len(content)]
        return sum(_fill_block(file, position + start, content[start:end]) for start, end in pairwise(edges))


def _fill_block(file: File, position: int, block: Bytes) -> int:
    try:
        return file.read(position, block.data)
    except DiskFailed:
        block[:] = 0
        return len(block)


def _pass(place: _ScanPosition, good: Frames) -> Iterator[Frames]:
    place.position = good.origin + good.end
    place.offset, place.time = good.last_offset, good.last_timestamp
    yield good


def _salvage(file: File, place: _ScanPosition, stretch: ScanRange, index: Index | None) -> Iterator[Frames | Damage]:
    """Damage starts here. Find the healthy frames up to the next place that can be trusted, or for one window."""
    start, known_end, reason = place.position, False, ""
    while True:
        end, ceiling, known_end = _boundary(file, place, stretch, index)
        content = np.empty(end - place.position, np.uint8)
        content = content[: _fill(file, place.position, content)]
        reason = reason or _reason(content, place)  # what is wrong where it begins
        healthy = _healthy(content, place, ceiling, len(content) if known_end else FRAME_BYTES_MAX)
        if healthy or known_end:
            break
        place.position += FRAME_BYTES_MAX
    origin, done = place.position, start
    for run in _runs(content, healthy, origin):
        yield Damage(done, origin + int(run.positions[0]), place.offset + 1, int(run.offsets[0]), reason)
        done = origin + run.end
        yield from _pass(place, run)
        reason = _reason(content[run.end :], place)
    if known_end and done < end:
        next_offset = ceiling if ceiling < OFFSET_MAX else place.offset + 2
        yield Damage(done, end, place.offset + 1, next_offset, reason)
        place.position, place.offset = end, next_offset - 1


def _boundary(file: File, place: _ScanPosition, stretch: ScanRange, index: Index | None) -> tuple[int, int, bool]:
    """Where the window ends, the offset that comes there, and whether frames really end there.

    A window that ends anywhere is long enough to hold whole each frame that starts in its first half.
    """
    index = index or Index()
    for number in range(index.before_position(place.position) + 1, len(index)):
        position, offset = index.positions[number], index.offsets[number]
        if position >= stretch.end or position - place.position > FRAME_BYTES_MAX:
            break
        if offset > place.offset + 1 and _starts(file, position, offset, stretch.end):
            return position, offset, True
    if stretch.end - place.position <= 2 * FRAME_BYTES_MAX:
        return stretch.end, stretch.ceiling, True
    return place.position + 2 * FRAME_BYTES_MAX, OFFSET_MAX, False


def _starts(file: File, position: int, offset: int, end: int) -> bool:
    found = sound_frame(file, position, end)
    return found is not None and frame.offset_at(found) == offset


def is_torn(file: File, damages: list[Damage], size: int) -> bool:
    """Return whether adjacent damages in a file of this size look like an unsynced write after a loss of power."""
    start, end = damages[0].position, damages[-1].end
    content = np.zeros(end - start, np.uint8)
    _fill(file, start, content)
    return is_torn_write(content, start, is_file_end=end == size)


def sound_frame(file: File, position: int, end: int) -> bytes | None:
    """The frame that starts there, if one does and it is sound."""
    header = np.zeros(min(FRAME_HEADER_BYTES, max(0, end - position)), np.uint8)
    _fill(file, position, header)
    length = scan.announced(header, 0, end - position)
    if length < FRAME_HEADER_BYTES:
        return None
    whole = np.zeros(length, np.uint8)
    _fill(file, position, whole)
    return whole.tobytes() if _sound(whole, 0) == length else None


def true_entry(file: File, index: Index, number: int, end: int) -> int:
    """The last entry, from this one down, whose frame is sound and has the offset and the time that it says; or -1."""
    while number >= 0:
        found = sound_frame(file, index.positions[number], end)
        said = (index.offsets[number], index.times[number])
        if found is not None and (frame.offset_at(found), frame.timestamp_at(found)) == said:
            break
        number -= 1
    return number


def _healthy(content: Bytes, place: _ScanPosition, ceiling: int, last: int) -> list[_Span]:
    """The healthy frames that start up to `last`, behind the damage that `content` begins with."""
    places = scan.candidates(content, 1)
    offsets = scan.column(content, ">u8", frame.AT_OFFSET)[places]
    times = scan.column(content, ">u8", frame.AT_TIMESTAMP)[places]
    plausible = (offsets >= place.offset + 2) & (offsets < ceiling) & (times >= place.time) & (places <= last)
    sound, end = [], 0
    for position in places[plausible].tolist():
        if position >= end and (length := _sound(content, position)):
            end = position + length
            sound.append((position, end))
    accepted: list[_Span] = []
    bound, time, follower = ceiling, OFFSET_MAX, len(content)
    for position, end in reversed(sound):
        offset, stamped = frame.offset_at(content.data, position), frame.timestamp_at(content.data, position)
        if offset < bound - (1 if end < follower else 0) and stamped <= time:
            accepted.append((position, end))
            bound, time, follower = offset, stamped, position
    return accepted[::-1]


def _runs(content: Bytes, spans: list[_Span], origin: int) -> Iterator[Frames]:
    """Frames that follow each other without a gap, together."""
    table = np.array(spans, np.int64).reshape(-1, 2)
    for run in np.split(table, np.flatnonzero(table[1:, 0] != table[:-1, 1]) + 1):
        if len(run):
            yield Frames(content, run[:, 0], run[:, 1] - run[:, 0], int(run[-1, 1]), origin)


def _sound(content: Bytes, position: int) -> int:
    try:
        return frame.verify(content.data, position)
    except FrameInvalid:
        return 0


def _reason(content: Bytes, place: _ScanPosition) -> str:
    if not len(content):
        return "the file ends before"
    if not content.any():
        return "zeros"
    try:
        frame.verify(content.data)
    except FrameInvalid as error:
        return error.sentence
    offset = frame.offset_at(content.data)
    return f"offset {offset} or its time is out of order after offset {place.offset}"


def is_torn_write(content: Bytes, position: int, *, is_file_end: bool) -> bool:
    """Return whether these bytes at `position` of a file, which are no frames, are an unfinished write."""
    if _has_one_bad_bit(content):
        return False
    return is_file_end or _has_zeros_before_sector_end(content, position)


def _has_zeros_before_sector_end(content: Bytes, position: int) -> bool:
    last_bytes = content[(-position - 1) % SECTOR_BYTES :: SECTOR_BYTES]
    return bool((last_bytes == 0).any())


def _has_one_bad_bit(content: Bytes) -> bool:
    """Return whether this is one frame with a single wrong bit."""
    if not FRAME_HEADER_BYTES <= len(content) <= FRAME_BYTES_MAX:
        return False
    excess = abs(len(content) - frame.length_at(content.data))
    if excess & (excess - 1):  # one bit of a length changes it by a power of two
        return False
    covered = np.concatenate((content[: frame.AT_CRC], np.zeros(4, np.uint8), content[frame.AT_OFFSET :]))
    return checksum.is_one_bit_off(crc32c(covered.data) ^ frame.checksum_at(content.data), len(content))
