"""Cutting a log back to an offset, as a replica does when its leader has another history.

Every intermediate state is a shorter history of the same log: whole segments go newest first, each
durably before the next; then the index says less, then the last segment ends earlier.
"""

from goqueue.errors import OffsetOutOfRange
from goqueue.storage.disk import Disk
from goqueue.storage.index import PAIR_BYTES, mark
from goqueue.storage.log import Log
from goqueue.storage.moment import last_time
from goqueue.storage.recovery import Recovered
from goqueue.storage.segment import Segment
from goqueue.storage.survey import Damage, Stretch, survey


def truncate(log: Log, disk: Disk, offset: int) -> None:
    """Remove all messages from this offset on. Needs the owner's thread, and all appends durable."""
    assert log.durable_end == log.next_offset, "a truncation waits until everything is durable"
    if not log.first_offset <= offset <= log.next_offset:
        raise OffsetOutOfRange(
            f"log {log.name} cannot be cut back to {offset}: it holds {log.first_offset} up to {log.next_offset}",
            first=log.first_offset,
            next=log.next_offset,
        )
    if offset == log.next_offset:
        return
    segments = list(log.segments)
    while len(segments) > 1 and segments[-1].base_offset >= offset:
        _remove(disk, segments.pop())
    position = _position_of(log, disk, segments[-1], offset)
    _shorten(log, disk, segments[-1], offset, position)
    time = segments[-1].last_time or (last_time(disk, segments[-2]) if len(segments) > 1 else 0)
    log.adopt(Recovered(log.directory, segments, offset, time))


def _remove(disk: Disk, segment: Segment) -> None:
    for path in segment.paths:
        if disk.kind(path) != "absent":
            disk.remove(path)
    disk.sync_directory(segment.directory)


def _position_of(log: Log, disk: Disk, segment: Segment, offset: int) -> int:
    """Where the first message with this offset or a greater one starts."""
    index = log.index_of(segment)
    entry = index.before_offset(offset)
    start, first_offset = (index.positions[entry], index.offsets[entry]) if entry >= 0 else (0, segment.base_offset)
    file = disk.open(segment.path, "read")
    for piece in survey(file, Stretch(start, segment.size, first_offset), index):
        if isinstance(piece, Damage):
            if piece.next_offset >= offset:
                return piece.position
        elif (number := int(piece.offsets.searchsorted(offset))) < len(piece):
            return piece.origin + int(piece.positions[number])
    return segment.size


def _shorten(log: Log, disk: Disk, segment: Segment, offset: int, position: int) -> None:
    """First the index, so that no mark vouches for bytes that will be written anew."""
    index = log.index_of(segment)
    index.cut(position)
    files = [disk.open(path, "write") for path in (segment.index_path, segment.timeindex_path, segment.path)]
    for file, size in zip(files, (len(index) * PAIR_BYTES, len(index) * PAIR_BYTES, position), strict=True):
        file.truncate(size)
        file.sync()
    files[0].write(len(index) * PAIR_BYTES, [mark(offset, position)])
    segment.size, segment.index = position, index
    segment.last_time = last_time(disk, segment) or None
    segment.first_time = index.times[0] if len(index) else None
