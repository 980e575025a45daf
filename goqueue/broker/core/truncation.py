"""Cutting a partition back to an offset, as a replica does when its leader has another history.

Everything that follows from the log is undone with it: producers, open and aborted transactions, lanes, and what others
derive from the log. What is left is what a log would have that never had the messages behind the offset.

Caches of the removed part go first, durably: otherwise a crash could leave one that fits the log once it has grown
again.
"""

from functools import partial

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.producer_checkpoint import forget_producers, note_tear, read_stored, rewind_producers
from goqueue.broker.core.transaction_tracker import TransactionTracker
from goqueue.broker.core.work import Work
from goqueue.limits import READ_BYTES_MAX
from goqueue.storage import scan
from goqueue.storage.disk import Disk
from goqueue.storage.leader_epochs import EpochStart
from goqueue.storage.reads import ReadResult
from goqueue.storage.replica_reads import hide
from goqueue.storage.transaction_marker import markers_in
from goqueue.storage.truncation import reset, truncate


def truncate_partition(
    partition: Partition, disk: Disk, offset: int, transactions: TransactionTracker | None = None
) -> Work[None]:
    """Remove everything from this offset on. All appends must be durable, and nothing may be appended meanwhile.

    `transactions` is what tracks them, if anything does.

    The log has no other job. What is left above `commits.replicated_end` stays hidden from readers.
    """
    log = partition.log
    log.begin_job(partition)
    try:
        undecided = yield from _first_undecided(partition, offset)
        yield from rewind_producers(partition, disk, offset)
        for state in partition.derived:
            state.drop_caches(offset)
    finally:
        log.job = None
    truncate(log, disk, offset)
    hide(log, disk, partition.commits.replicated_end)
    partition.derive()
    yield from note_tear(partition, disk)  # the cut may go through a batch
    yield from (transactions or TransactionTracker(partition)).look_anew(undecided)
    for state in partition.derived:
        state.rebuild()
    partition.wake()


def reset_partition(
    partition: Partition,
    disk: Disk,
    start: int,
    rows: list[EpochStart],
    transactions: TransactionTracker | None = None,
) -> Work[None]:
    """Remove everything; the log goes on at this offset, in the epoch of `rows`. As for `truncate_partition`."""
    log = partition.log
    log.begin_job(partition)
    try:
        for state in partition.derived:
            state.drop_caches(0)
        yield partial(forget_producers, disk, log.directory)
    finally:
        log.job = None
    reset(log, disk, start, rows)
    partition.derive()
    if transactions is not None:
        transactions.begin_anew()
    for state in partition.derived:
        state.rebuild()
    partition.wake()


def _first_undecided(partition: Partition, offset: int) -> Work[int]:
    """Return where the oldest transaction begins that is open, or that ends only in the part to be removed."""
    first = partition.open.first_offset
    found = [offset] if first is None else [first, offset]
    while offset < partition.log_end:
        read = yield from read_stored(partition, offset, READ_BYTES_MAX)
        found.append((yield partial(_first_ended, read)))
        offset = read.next_offset
    return min(found)


def _first_ended(read: ReadResult) -> int:
    """Return the first offset of the transactions that end here."""
    markers = (marker for buffer in read.buffers for _, marker in markers_in(scan.walk(buffer)))
    return min((marker.ranges[0][0] for marker in markers), default=read.next_offset)
