"""What partitions tell of transactions whose records are lost: marks of producers, and markers of ends.

A transaction lasts at most `TRANSACTION_SECONDS_MAX`. So what was open when its record was lost has nothing older than
that in any partition. All of this is read at the start, and only where records are lost.
"""

from collections.abc import Iterable, Iterator

from goqueue.broker.partition import Partition
from goqueue.broker.producers import marks_in
from goqueue.broker.transactions.finding import Epochs
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.limits import TRANSACTION_SECONDS_MAX
from goqueue.storage import scan
from goqueue.storage.log import Log
from goqueue.storage.marker import markers_in, of_transactions

_READ_BYTES = 1024 * 1024
_LONGEST_NS = round(TRANSACTION_SECONDS_MAX * NANOSECONDS)


def has_commit(partition: Partition, since: int, epochs: Epochs) -> bool:
    """Whether a marker from this offset on commits what these producers have written."""
    return any(
        marker.is_commit and epochs.get(marker.producer) == marker.epoch
        for buffer in _buffers(partition.log, since)
        for _, marker in markers_in(scan.walk(buffer))
    )


def hold_unknown(partitions: Iterable[Partition], since_ns: int | None) -> dict[Partition, Epochs]:
    """Hold each partition that may have a transaction of which nothing is known; return whose it may be.

    Such a transaction was open at `since_ns` or later; None: at the end of each log.
    """
    found: dict[Partition, Epochs] = {}
    for partition in partitions:
        log = partition.log
        try:
            before_ns = (log.last_time if since_ns is None else since_ns) - _LONGEST_NS
            since = log.offset_for_time(max(0, before_ns))
            epochs = _epochs_in(log, since)
        except GoQueueError:  # a log that cannot be read is not served
            continue
        if epochs:
            partition.open.hold(since, partition.log_end)
            found[partition] = epochs
    return found


def _epochs_in(log: Log, since: int) -> Epochs:
    """The producers of transactional batches, each with its last epoch: the ones before had to end for that."""
    epochs: Epochs = {}
    for buffer in _buffers(log, since):
        frames = scan.walk(buffer)
        transactional = set(frames.offsets[of_transactions(frames)[0]].tolist())
        epochs |= {mark.producer: mark.epoch for mark, offset, _ in marks_in(buffer) if offset in transactional}
    return epochs


def _buffers(log: Log, offset: int) -> Iterator[memoryview]:
    offset = max(offset, log.first_offset)
    while offset < log.readable_end:
        read = log.read(offset, _READ_BYTES, skip_damage=True)
        yield from read.buffers
        offset = read.next_offset
