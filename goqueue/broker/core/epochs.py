"""The leader epochs of a log in its owner's hands: loaded before the log is replicated, begun, and saved by upkeep."""

from contextlib import suppress
from functools import partial

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import Work
from goqueue.errors import OffsetOutOfRange
from goqueue.limits import READ_BYTES_MAX
from goqueue.storage import scan
from goqueue.storage.disk import Disk
from goqueue.storage.epoch_frame import EpochFrame
from goqueue.storage.leader_epochs import EpochList, EpochNote, LeaderEpochs
from goqueue.storage.log import AppendResult, Log
from goqueue.storage.reads import PendingRead, ReadResult
from goqueue.storage.replica_reads import locate_stored
from goqueue.storage.writer import AppendCallback


def load_epochs(log: Log, disk: Disk) -> Work[LeaderEpochs]:
    """Complete what is known of a log's epochs, from the note and from the log behind it; make the note if there is
    none.

    To be done before a log is replicated, and again when it was read anew from the disk.
    """
    while not log.epochs.is_complete:
        epochs, first_offset = log.epochs, log.first_offset
        note: EpochNote | None = yield partial(EpochNote.load, disk, log.directory)
        if note is None:
            note = EpochNote(log.directory)
            yield partial(note.store, disk)
        note.cut(epochs.since)
        with suppress(OffsetOutOfRange):  # retention was faster; what it removed is in the note now
            yield from _read_on(log, note, epochs.since)
            if log.first_offset == first_offset:
                epochs.complete(note.epochs)
    return log.epochs


def _read_on(log: Log, note: EpochNote, end: int) -> Work[None]:
    """Bring the note up to an offset below which everything is durable."""
    offset = max(note.offset, log.first_offset)
    while offset < end:
        found = locate_stored(log, offset, READ_BYTES_MAX, end, skip_damage=True)
        read: ReadResult = (yield found.load) if isinstance(found, PendingRead) else found
        yield partial(_add, note, read, log.first_offset)
        offset = read.next_offset
    note.offset = max(note.offset, end)


def _add(note: EpochNote, read: ReadResult, first_offset: int) -> None:
    for buffer in read.buffers:
        note.add(scan.walk(buffer), first_offset)


def begin_epoch(partition: Partition, epoch: int, node: str, now_ns: int, done: AppendCallback) -> AppendResult:
    """Append the first frame of a leader in its epoch; `done` is called when it is committed, or with the error.

    Nothing else appends epoch frames of its own making. The epochs of the log are loaded before.
    """
    last = partition.log.epochs.last
    assert epoch > last, f"epoch {epoch} follows epoch {last}"
    return partition.append(scan.check_batch(bytearray(EpochFrame(epoch, node, now_ns, last).encode())), done)


def save_epochs(log: Log, disk: Disk) -> Work[None]:
    """Write the note if there is an epoch that it does not have, or much to read behind it."""
    epochs, end = log.epochs, log.durable_end
    if not epochs.is_complete or log.job is not None:
        return
    rows = epochs.rows_below(log.first_offset, end)
    if epochs.stored is not None and epochs.stored[0] == rows and epochs.stored[1] >= log.active.base_offset:
        return
    log.begin_job(epochs)  # retention writes it, too
    try:
        yield partial(EpochNote(log.directory, EpochList(rows), end).store, disk)
        epochs.stored = rows, end
    finally:
        log.job = None
