"""The producer checkpoint of a partition: the producers' last batches, in a file beside the log.

It is a cache of what the log says, with one exception: once something follows a batch that a crash has torn, only the
checkpoint shows where the torn batch ended.
"""

from functools import partial
from typing import Any

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.producers import ProducerMark, ProducerTable, marks_in
from goqueue.broker.core.work import Work
from goqueue.limits import READ_BYTES_MAX
from goqueue.storage.disk import Disk, read_all, remove_files
from goqueue.storage.layout import decode_checkpoint, write_checkpoint
from goqueue.storage.reads import ReadResult


def load_producers(partition: Partition, disk: Disk) -> Work[None]:
    """After a start: restore the producers from their checkpoint and the log behind it."""
    note = yield partial(_read_note, disk, _path(partition))
    # The log does not show a producer whose batches were all removed.
    is_whole = not partition.earliest and partition.is_dense(0, partition.high_watermark)
    producers, offset = ProducerTable(is_complete=is_whole), partition.earliest
    if note is not None and partition.earliest <= note["offset"] <= partition.high_watermark:
        offset, is_whole = note["offset"], note.get("complete", True)
        producers = ProducerTable.from_facts(note["producers"], is_complete=is_whole)
    while offset < (end := partition.high_watermark):
        start = max(offset, partition.earliest)
        read = yield from partition.read_uncommitted(start, READ_BYTES_MAX, skip_damage=True)
        for mark, first_offset, time_ns in (yield partial(_marks, read)):
            producers.replay(mark, first_offset, time_ns, end)
        offset = read.next_offset
    if partition.producers is None:
        partition.producers = producers


def save_producers(partition: Partition, disk: Disk, *, even_none: bool = False) -> Work[None]:
    """Write the producer checkpoint, so that the next start reads less of the log."""
    end, producers = partition.durable_end, partition.producers
    if producers is None or partition.producers_saved == end:
        return
    facts = producers.facts(end)
    if facts or partition.producers_saved >= 0 or even_none:
        yield partial(
            write_checkpoint,
            disk,
            _path(partition),
            offset=end,
            complete=producers.is_complete,
            producers=facts,
        )
    partition.producers_saved = end


def drop_producers(partition: Partition, disk: Disk, offset: int) -> None:
    """Remove a checkpoint that covers this offset or later ones: the log is about to be cut back there."""
    note = _read_note(disk, _path(partition))
    if note is not None and note["offset"] > offset:
        remove_files(disk, _path(partition))
        disk.sync_directory(partition.log.directory)


def note_tear(partition: Partition, disk: Disk) -> Work[None]:
    """After a crash, before any append: record where a torn last batch ends."""
    offset = yield from partition.offset_for_time(partition.log.last_time)
    last: tuple[ProducerMark, int, int] | None = None
    while offset < partition.log_end:
        read = yield from partition.read_uncommitted(offset, READ_BYTES_MAX, skip_damage=True)
        marks: list[tuple[ProducerMark, int, int]] = yield partial(_marks, read)
        last = marks[-1] if marks else last
        offset = read.next_offset
    if last is not None and last[1] + last[0].count > partition.log_end:
        yield from load_producers(partition, disk)
        yield from save_producers(partition, disk)


def _path(partition: Partition) -> str:
    return f"{partition.log.directory}/producers"


def _read_note(disk: Disk, path: str) -> dict[str, Any] | None:
    """Return None if there is no checkpoint. A read error is raised: the checkpoint may be all that is left of the
    marks.
    """
    return decode_checkpoint(read_all(disk, path)) if disk.kind(path) == "file" else None


def _marks(read: ReadResult) -> list[tuple[ProducerMark, int, int]]:
    return [found for buffer in read.buffers for found in marks_in(buffer)]
