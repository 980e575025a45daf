"""After a start: finds what is open in the range of a partition that is held."""

from functools import partial

from goqueue.broker.core.open_transactions import OpenTransactionScan, ProducerEpochs, epochs_in
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import Promise, Work
from goqueue.limits import READ_BYTES_MAX


def transactional_epochs(partition: Partition, since: int) -> Work[ProducerEpochs]:
    """Return the producers of transactional batches from this offset on, with their last epochs."""
    epochs: ProducerEpochs = {}
    offset = max(since, partition.earliest)
    while offset < partition.high_watermark:
        read = yield from partition.read_uncommitted(offset, READ_BYTES_MAX, skip_damage=True)
        epochs |= yield partial(epochs_in, read)
        offset = read.next_offset
    return epochs


def find_open(partition: Partition) -> Work[None]:
    """Find the open transactions in the range that is held. Who needs them while another search runs waits for it."""
    while (held := partition.open.held) is not None:
        if partition.open.waiting is None:
            yield from _search(partition, *held)
        else:
            found: Promise[None] = Promise()
            partition.open.waiting.append(found)
            yield found


def _search(partition: Partition, offset: int, end: int) -> Work[None]:
    opened = partition.open
    scan, waiting = OpenTransactionScan(dict(opened.sought), end), list[Promise[None]]()
    opened.waiting = waiting
    try:
        while (offset := max(offset, partition.earliest)) < end:
            read = yield from partition.read_uncommitted(offset, READ_BYTES_MAX, skip_damage=True)
            yield partial(scan.look, read)
            if read.next_offset == offset:
                break
            offset = read.next_offset
        opened.restore(scan.opened)
    finally:
        opened.waiting = None
        for found in waiting:
            found(None)
    partition.wake()
