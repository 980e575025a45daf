"""What partitions tell of transactions whose records are lost: marks of producers, and markers of ends.

A transaction lasts at most `TRANSACTION_SECONDS_MAX`. So what was open when its record was lost has nothing older than
that in any partition. All of this is read at the start, and only where records are lost.
"""

from collections.abc import Iterable, Iterator

from goqueue.broker.journal import Journal
from goqueue.broker.partition import Partition
from goqueue.broker.producers import marks_in
from goqueue.broker.transactions.finding import Epochs
from goqueue.broker.transactions.records import Record, Registered
from goqueue.broker.transactions.register import Register
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


class Remains:
    """What a start has lost of transactional ids, and where transactions may be of which nothing is known."""

    def __init__(self) -> None:
        self.hit: list[str] = []
        """Ids of which the latest record may be lost."""
        self.unknown: dict[Partition, Epochs] = {}
        """Where there may be something of transactions whose records are all lost, and whose it may be."""
        self._lost = 0
        """How many records of `hit` at most: so many epochs may have been given out."""

    def mend(self, register: Register, journal: Journal[Record]) -> list[Record]:
        """Records that give each id that was hit an epoch that no lost record can have given out."""
        if not journal.losses:
            return []
        durable = journal.durable
        assert isinstance(durable, Register)
        self.hit, self._lost = sorted(durable.doubtful), durable.lost
        return register.with_epochs_raised(self.hit, self._lost)

    def epochs_lost(self, known: Registered | None) -> int:
        """How many epochs of an id lost records may have given out."""
        return self._lost if known is not None and known.id in self.hit else 0

    def hold_unknown(self, journal: Journal[Record], partitions: Iterable[Partition]) -> None:
        """Hold each partition that may have a transaction of which nothing is known.

        Such a transaction was open when a record was lost, or, where the log cannot be read, at the end of each log.
        """
        if not journal.losses and journal.log.fence is None:
            return
        since_ns = min((one.since_ns for one in journal.losses), default=None)
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
                self.unknown[partition] = epochs


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
