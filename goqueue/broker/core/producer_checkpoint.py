"""The producer checkpoint of a partition: the producers' last batches, in a file beside the log.

It is a cache of what the log says, with one exception: once something follows a batch that a crash has torn, only the
checkpoint shows where the torn batch ended.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.producers import ProducerMark, ProducerTable, marks_in
from goqueue.broker.core.work import Job, Work
from goqueue.limits import READ_BYTES_MAX
from goqueue.storage.disk import Disk, read_all, remove_files
from goqueue.storage.layout import decode_checkpoint, write_checkpoint
from goqueue.storage.reads import PendingRead, ReadResult
from goqueue.storage.replica_reads import locate_stored


def load_producers(partition: Partition, disk: Disk) -> Work[None]:
    """After a start, and before a replica leads: restore the producers from their checkpoint and the log behind it."""
    producers = yield from _read_producers(partition, disk)
    if partition.producers is None:
        partition.producers = producers


def _read_producers(partition: Partition, disk: Disk) -> Work[ProducerTable]:
    """Return the producers of everything in the log; nothing is appended between the last look and the return."""
    note = yield partial(_read_note, disk, _path(partition))
    is_whole = _shows_all(partition, partition.log_end)
    producers, offset = ProducerTable(is_complete=is_whole), partition.earliest
    if note is not None and partition.earliest <= note["offset"] <= partition.log_end:
        offset, is_whole = note["offset"], note.get("complete", True)
        producers = ProducerTable.from_facts(note["producers"], is_complete=is_whole)
    while offset < (end := partition.log_end):
        yield from _replay(partition, producers, offset, end, {})
        offset = end
    return producers


def save_followed_producers(partition: Partition, disk: Disk) -> Work[None]:
    """Write the producer checkpoint of a replica that another node leads.

    Its table of producers, if it has one, does not follow the log: a publish has loaded it that came too late.
    """
    producers = yield from _read_producers(partition, disk)
    end = partition.durable_end
    yield _written(partition, disk, end, producers)
    partition.producers_saved = end


def save_producers(partition: Partition, disk: Disk, *, even_none: bool = False) -> Work[None]:
    """Write the producer checkpoint, so that the next start reads less of the log."""
    end, producers = partition.durable_end, partition.producers
    if producers is None or partition.producers_saved == end:
        return
    facts = producers.facts(end)
    if facts or partition.producers_saved >= 0 or even_none:
        yield _written(partition, disk, end, producers)
    partition.producers_saved = end


def rewind_producers(partition: Partition, disk: Disk, end: int) -> Work[None]:
    """Bring the checkpoint back to an offset where the log is about to be cut back.

    It keeps what the log does not show: where torn batches ended, and batches that retention has removed.
    """
    note = yield partial(_read_note, disk, _path(partition))
    if note is None or note["offset"] <= end:
        return
    known = [
        (number, batch) for number, batches in note["producers"] for batch in batches if batch[3] + batch[2] <= end
    ]
    tears = {offset: offset + count for _, (_, _, count, offset, _, is_torn) in known if is_torn}
    removed: dict[int, list[Any]] = {}
    for number, batch in known:
        if batch[3] < partition.earliest:
            removed.setdefault(number, []).append(batch)
    producers = ProducerTable.from_facts(list(removed.items()), is_complete=_shows_all(partition, end))
    yield from _replay(partition, producers, partition.earliest, end, tears)
    yield _written(partition, disk, end, producers)


def read_stored(partition: Partition, offset: int, max_bytes: int) -> Work[ReadResult]:
    """Read what the log holds from this offset on, committed or not, and pass over damage; none only at its end."""
    while True:
        found = locate_stored(partition.log, offset, max_bytes, skip_damage=True)
        read: ReadResult = (yield found.load) if isinstance(found, PendingRead) else found
        if read.buffers or read.next_offset == offset:
            return read
        offset = read.next_offset


def forget_producers(disk: Disk, directory: str) -> None:
    """Remove the checkpoint of a log that begins anew."""
    remove_files(disk, f"{directory}/producers")
    disk.sync_directory(directory)


def _shows_all(partition: Partition, end: int) -> bool:
    """Return whether the log shows all producers. It does not when all batches of one were removed."""
    return not partition.earliest and partition.is_dense(0, end)


def _replay(
    partition: Partition, producers: ProducerTable, offset: int, end: int, tears: Mapping[int, int]
) -> Work[None]:
    """Add the batches of the log in this range. `tears` has the ends of torn batches by their first offsets."""
    while offset < end:
        start = max(offset, partition.earliest)
        read = yield from read_stored(partition, start, READ_BYTES_MAX)
        for mark, first_offset, time_ns in (yield partial(_marks, read)):
            if first_offset < end:
                producers.replay(mark, first_offset, time_ns, tears.get(first_offset, end))
        offset = read.next_offset


def note_tear(partition: Partition, disk: Disk) -> Work[None]:
    """After a crash, before any append: record where a torn last batch ends."""
    offset = yield from partition.offset_for_time(partition.log.last_time)
    last: tuple[ProducerMark, int, int] | None = None
    while offset < partition.log_end:
        read = yield from read_stored(partition, offset, READ_BYTES_MAX)
        marks: list[tuple[ProducerMark, int, int]] = yield partial(_marks, read)
        last = marks[-1] if marks else last
        offset = read.next_offset
    if last is not None and last[1] + last[0].count > partition.log_end:
        yield from load_producers(partition, disk)
        yield from save_producers(partition, disk)


def _written(partition: Partition, disk: Disk, end: int, producers: ProducerTable) -> Job:
    """Return the job that writes what is known now."""
    facts, is_complete = producers.facts(end), producers.is_complete
    return partial(write_checkpoint, disk, _path(partition), offset=end, complete=is_complete, producers=facts)


def _path(partition: Partition) -> str:
    return f"{partition.log.directory}/producers"


def _read_note(disk: Disk, path: str) -> dict[str, Any] | None:
    """Return None if there is no checkpoint. A read error is raised: the checkpoint may be all that is left of the
    marks.
    """
    return decode_checkpoint(read_all(disk, path)) if disk.kind(path) == "file" else None


def _marks(read: ReadResult) -> list[tuple[ProducerMark, int, int]]:
    return [found for buffer in read.buffers for found in marks_in(buffer)]
