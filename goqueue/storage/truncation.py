"""Cutting a log back to an offset, as a replica does when its leader has another history.

Every intermediate state is a shorter history of the same log: whole segments go newest first, each
durably before the next; then the index of the last one goes, then it ends earlier. When the disk
refuses a step, the log is fenced until it has been read again.
"""

from typing import Literal

from goqueue.errors import GoQueueError, OffsetOutOfRange
from goqueue.storage.compaction_progress import lower_progress
from goqueue.storage.disk import Disk, remove_files
from goqueue.storage.index import Index
from goqueue.storage.leader_epochs import EpochList, EpochNote, EpochStart, truncate_epochs
from goqueue.storage.log import Log
from goqueue.storage.recovery import RecoveredLog
from goqueue.storage.segment import Segment, last_time, last_time_of, store_index
from goqueue.storage.segment_copies import update_copies
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment, true_entry


def truncate(log: Log, disk: Disk, offset: int) -> None:
    """Remove all messages from this offset on. Needs the owner's thread, and all appends durable."""
    _refuse_unless_durable(log)
    if not log.first_offset <= offset <= log.next_offset:
        raise OffsetOutOfRange(
            f"log {log.name} cannot be cut back to {offset}: it holds {log.first_offset} up to {log.next_offset}",
            first=log.first_offset,
            next=log.next_offset,
        )
    if offset == log.next_offset:
        return
    try:
        lower_progress(disk, log.directory, offset)
        truncate_epochs(disk, log.directory, offset)
        recovered = _cut_back(log, disk, offset)
        if log.writer.keeps_copies:
            update_copies(disk, recovered.segments)
            recovered.has_copies = True
    except GoQueueError as error:
        log.fence_off(error)
        raise
    epochs = log.epochs
    log.adopt(recovered)
    epochs.cut(offset)
    log.epochs = epochs  # they need not be read again


def reset(log: Log, disk: Disk, start: int, rows: list[EpochStart]) -> None:
    """Remove all messages; the log goes on at this offset, in the epoch of `rows`. As for `truncate`."""
    _refuse_unless_durable(log)
    try:
        lower_progress(disk, log.directory, 0)
        for segment in reversed(log.segments):
            _remove(disk, segment, "log")
        EpochNote(log.directory, EpochList(list(rows)), start).store(disk)
        empty = Segment.beginning(log.directory, start)
        remove_files(disk, *empty.companions)  # of a segment whose log is lost
        for path in (empty.path, *empty.index_paths):
            disk.open(path, "create").close()
        disk.sync_directory(log.directory)
        recovered = RecoveredLog(log.directory, [empty], start, log.last_time if start else 0)
        if log.writer.keeps_copies:
            update_copies(disk, recovered.segments)
            recovered.has_copies = True
    except GoQueueError as error:
        log.fence_off(error)
        raise
    log.adopt(recovered)
    log.epochs.complete(EpochList(list(rows)))


def _refuse_unless_durable(log: Log) -> None:
    log.refuse_unless_open()
    assert log.job is None, "a truncation waits for the end of the log's job"
    assert log.is_settled, "a truncation waits until every append and roll is on disk"
    assert log.durable_end == log.next_offset, "a truncation waits until everything is durable"


def _cut_back(log: Log, disk: Disk, offset: int) -> RecoveredLog:
    segments = list(log.segments)
    while len(segments) > 1 and segments[-1].base_offset >= offset:
        _remove(disk, segments.pop(), "log")
    remove_files(disk, *(one.aborted_path for one in segments))  # what they say may follow from markers that go
    segments[-1] = _shortened(log, disk, segments[-1], offset)
    return RecoveredLog(log.directory, segments, offset, last_time(disk, segments))


def _shortened(log: Log, disk: Disk, old: Segment, offset: int) -> Segment:
    """First the index goes, so that nothing vouches for bytes that will be written anew."""
    index = log.index_of(old)
    position = position_of(disk, old, index, offset)
    index.cut(position)
    index.marked = (offset, position)
    _remove(disk, old, "index")
    file = disk.open(old.path, "write")
    file.truncate(position)
    file.sync()
    new = Segment(old.directory, old.base_offset, position, index=index)
    if len(index):
        new.first_time, new.last_time = index.times[0], last_time_of(disk, new)
    store_index(disk, new, index)
    disk.sync_directory(new.directory)  # without the name of an index, what a crash tears later would count as damage
    return new


def _remove(disk: Disk, segment: Segment, what: Literal["log", "index"]) -> None:
    """The index first and durably: an index with a mark but without its log is the proof of a loss."""
    remove_files(disk, *segment.companions)
    disk.sync_directory(segment.directory)
    if what == "log":
        disk.remove(segment.path)
        disk.sync_directory(segment.directory)


def position_of(disk: Disk, segment: Segment, index: Index, offset: int) -> int:
    """Where the first message with this offset or a greater one starts."""
    file = disk.open(segment.path, "read")
    entry = true_entry(file, index, index.before_offset(offset), segment.size)
    start, first_offset = (index.positions[entry], index.offsets[entry]) if entry >= 0 else (0, segment.base_offset)
    for piece in scan_segment(file, ScanRange(start, segment.size, first_offset), index):
        if isinstance(piece, Damage):
            if piece.next_offset >= offset:
                return piece.position
        elif (number := int(piece.offsets.searchsorted(offset))) < len(piece):
            return piece.origin + int(piece.positions[number])
    return segment.size
