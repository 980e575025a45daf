"""Reads for the replicas of a log: also of what readers do not see yet, and of what is still being written.

Only the leader's owner asks, in its turn. What is in memory is returned at once and must not be changed.
"""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import chain
from operator import attrgetter

from goqueue.limits import OFFSET_MAX
from goqueue.storage.disk import Disk
from goqueue.storage.log import Log
from goqueue.storage.reads import PendingRead, ReadResult, range_error
from goqueue.storage.truncation import position_of
from goqueue.storage.writer import PendingAppend

_base_offset = attrgetter("base_offset")


def locate_stored(
    log: Log, offset: int, max_bytes: int, limit: int = OFFSET_MAX, *, skip_damage: bool = False
) -> ReadResult | PendingRead:
    """Return the frames from this offset on, or where to load them from; none at the end of the log or at `limit`."""
    visible = log.visible
    if offset < visible.offset:
        return log.locate(offset, max_bytes, skip_damage=skip_damage, limit=limit)
    log.refuse_unless_readable()
    if not log.first_offset <= offset <= log.next_offset:
        raise range_error(log, offset)
    if visible.hidden is not None and offset < visible.hidden[0]:
        return _locate_hidden(log, offset, max_bytes, min(limit, visible.hidden[0]), skip_damage=skip_damage)
    return _read_appends(log, offset, max_bytes, limit)


def _locate_hidden(log: Log, offset: int, max_bytes: int, limit: int, *, skip_damage: bool) -> PendingRead | ReadResult:
    """Locate frames that the disk held when the log was opened, and that readers do not see."""
    assert log.visible.hidden is not None
    if offset >= limit:
        return ReadResult((), offset)
    end, (last, size) = log.visible.hidden
    number = bisect_right(log.segments, offset, key=_base_offset) - 1
    segment = log.segments[number]
    stop, next_offset = (size, end) if segment is last else (segment.size, log.segments[number + 1].base_offset)
    if not stop:
        return ReadResult((), next_offset)
    reader = log.reader(segment)
    index = segment.index if segment.index is not None else reader.index
    hint = index.start_for(index.before_offset(offset)) if index is not None else None
    return PendingRead(reader, offset, limit, stop, next_offset, max_bytes, skip_damage, hint)


def _read_appends(log: Log, offset: int, max_bytes: int, limit: int) -> ReadResult:
    """Return frames that were appended since, whether they are on the disk already or not."""
    buffers: list[memoryview] = []
    for append in _appends_from(log, offset):
        frames, first = append.frames, max(offset - append.first_offset, 0)
        end = min(append.next_offset, limit)
        if end <= append.first_offset + first or (buffers and append.size > max_bytes):
            break
        start, last = int(frames.positions[first]), end - append.first_offset
        if frames.end - start > max_bytes:
            last = min(last, max(first + 1, int(frames.positions.searchsorted(start + max_bytes, "right")) - 1))
            end = append.first_offset + last
        stop = int(frames.positions[last]) if last < len(frames) else frames.end
        buffers.append(frames.buffer.data[start:stop])
        max_bytes -= stop - start
        offset = end
    return ReadResult(tuple(buffers), offset)


def _appends_from(log: Log, offset: int) -> Iterator[PendingAppend]:
    """Yield the appends from the one with this offset on. The newest are asked for the most often."""
    waiting, unsettled = log.visible.waiting, log.unsettled
    skipped = len(waiting) + len(unsettled)
    for append in chain(reversed(unsettled), reversed(waiting)):
        if append.next_offset <= offset:
            break
        skipped -= 1
    for number, append in enumerate(chain(waiting, unsettled)):
        if number >= skipped and append.frames.end:
            yield append


def hide(log: Log, disk: Disk, offset: int) -> None:
    """Hide from readers what the disk holds from this offset on, right after the log was opened or cut back."""
    if offset >= log.readable_end:
        return
    offset = max(offset, log.first_offset)
    number = bisect_right(log.segments, offset, key=_base_offset) - 1
    segment = log.segments[number]
    position = position_of(disk, segment, log.index_of(segment), offset) if segment.size else 0
    log.visible.hide(offset, (segment, position))
