"""Reads of raw segment bytes, for clients that copy a log or decode it themselves.

The owner decides what may be read, any thread reads it. Frames are not looked at here: what a disk has damaged is
returned as it is, and the decoder finds out.

What must stay true: no byte at or behind the high watermark leaves here; a segment is opened when its read is decided,
so that what takes its place later does not show in the answer; and a caller that names the version of a segment gets
bytes of that version or none. Frames of one size would hide that a file was replaced between two reads.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from crc32c import crc32c

from goqueue.errors import GoQueueError, OffsetOutOfRange, RangeDamaged, SegmentNotFound
from goqueue.storage.disk import Disk
from goqueue.storage.index import PAIR_BYTES, Index
from goqueue.storage.log import Log
from goqueue.storage.segment import Segment, SegmentReader

ENTRY_FIELDS = 3
"""Offset, position and time, of 8 bytes each."""


class SegmentOutline(NamedTuple):
    """The visible part of a segment; nothing of it is read from its file."""

    base_offset: int
    next_offset: int
    size: int
    first_time: int | None
    last_time: int | None
    is_active: bool
    """Whether it is the last one: it may grow, and all others do not."""
    version: str


@dataclass(frozen=True, slots=True)
class RawContent:
    """Bytes ready to be sent on."""

    content: memoryview
    checksum: int
    """CRC-32C of all of it."""


@dataclass(frozen=True, slots=True)
class PendingRawRead:
    """A read of a segment that has been decided but not done."""

    reader: SegmentReader
    position: int
    end: int
    """The first position that must not be read."""

    def load(self) -> RawContent:
        content = np.empty(self.end - self.position, np.uint8)
        count = self.reader.file.read(self.position, content.data)
        if count < len(content):
            path, found = self.reader.segment.path, self.position + count
            raise RangeDamaged(
                f"{path} ends at byte {found}, before what it had at byte {self.end}",
                hint="read its messages instead, which can skip damage",
                path=path,
                position=found,
                end=self.end,
            )
        return _raw(content.data)


@dataclass(frozen=True, slots=True)
class PendingIndexRead:
    """A read of an index that has been decided but not done."""

    reader: SegmentReader
    index: Index | None
    """None where it has to be made from the segment."""
    end: int
    next_offset: int

    def load(self) -> RawContent:
        """The entries below `end`."""
        index = self.reader.examine(self.end, self.next_offset) if self.index is None else self.index
        count = bisect_left(index.positions, self.end)
        table = np.empty((count, ENTRY_FIELDS), ">i8")
        for number, column in enumerate((index.offsets, index.positions, index.times)):
            table[:, number] = column[:count]
        return _raw(memoryview(table.tobytes()))


def _raw(content: memoryview) -> RawContent:
    return RawContent(content, crc32c(content))


NO_CONTENT = RawContent(memoryview(b""), 0)


def visible_segments(log: Log) -> list[Segment]:
    """The segments that readers may know of. Behind them may be one of which nothing is on disk yet."""
    log.refuse_unless_readable()
    return log.segments[: len(log.sealed()) + 1]


def outline_segments(log: Log, first_times: Mapping[Segment, int]) -> list[SegmentOutline]:
    """All visible segments, oldest first. `first_times` are of those that the log does not know it of."""
    segments = visible_segments(log)
    ends = [segment.base_offset for segment in segments[1:]]
    sealed = [
        SegmentOutline(
            segment.base_offset,
            end,
            segment.size,
            (segment.first_time or first_times.get(segment)) if segment.size else None,
            segment.last_time if segment.size else None,
            False,
            log.version(segment),
        )
        for segment, end in zip(segments, ends, strict=False)
    ]
    return [*sealed, _last(log, len(sealed))]


def _last(log: Log, number: int) -> SegmentOutline:
    """It ends where readers do; the time of what comes last there is known when nothing follows."""
    segment, (size, next_offset) = log.segments[number], log.bounds(number)
    first_time = segment.first_time if size else None
    last_time = segment.last_time if size and size == segment.size else None
    return SegmentOutline(segment.base_offset, next_offset, size, first_time, last_time, True, log.version(segment))


def first_times(disk: Disk, segments: Sequence[Segment]) -> dict[Segment, int]:
    """When these segments begin, as their indexes say; those are left out of which that cannot be told so."""
    found, entry = {}, bytearray(PAIR_BYTES)
    for segment in segments:
        try:
            count = disk.open(segment.timeindex_path, "read").read(0, memoryview(entry))
        except GoQueueError:  # it is only a cache
            continue
        time, offset = int.from_bytes(entry[:8], "big", signed=True), int.from_bytes(entry[8:], "big")
        if count == PAIR_BYTES and time > 0 and offset >= segment.base_offset:
            found[segment] = time
    return found


def locate_bytes(
    log: Log, base_offset: int, position: int, max_bytes: int, version: str | None = None
) -> PendingRawRead | RawContent:
    """Return the read of a segment from this position on; no content at its visible end."""
    number = _find(log, base_offset, version)
    end, _ = log.bounds(number)
    if position >= end:
        return NO_CONTENT
    return PendingRawRead(_reader(log, number), position, min(position + max_bytes, end))


def locate_index(log: Log, base_offset: int, version: str | None = None) -> PendingIndexRead | RawContent:
    """Return the read of a segment's index."""
    number = _find(log, base_offset, version)
    end, next_offset = log.bounds(number)
    if not end:
        return NO_CONTENT
    reader, index = _reader(log, number), log.segments[number].index
    if index is None:
        return PendingIndexRead(reader, reader.index, end, next_offset)
    return PendingIndexRead(
        reader, index.before(len(index)), end, next_offset
    )  # a copy: the owner goes on writing to it


_base_offset = attrgetter("base_offset")


def _find(log: Log, base_offset: int, version: str | None) -> int:
    segments = visible_segments(log)
    number = bisect_left(segments, base_offset, key=_base_offset)
    if number == len(segments) or segments[number].base_offset != base_offset:
        raise segment_not_found(f"log {log.name} has no segment {base_offset}: it was removed, or joined with another")
    if version is not None and version != log.version(segments[number]):
        raise segment_not_found(f"segment {base_offset} of log {log.name} was replaced since it was listed")
    return number


def _reader(log: Log, number: int) -> SegmentReader:
    segment = log.segments[number]
    try:
        return log.reader(segment)
    except OffsetOutOfRange:  # retention has its file, and the log will hear of it
        raise segment_not_found(f"segment {segment.base_offset} of log {log.name} is being removed") from None


def segment_not_found(sentence: str) -> SegmentNotFound:
    return SegmentNotFound(sentence, hint="list the segments again")
