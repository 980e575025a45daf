"""The way into logs of others: copies of messages, and the control records of transactions.

Dead letters, redriven messages and ends of transactions go to partitions that belong to no group and no transactional
id. Their writers name a log, and get no hold of it: they ask where it ends, look for what they have written already,
and write.

A writer that was interrupted writes again, so each makes sure that it writes once. A copy says where its original is,
and the writer searches for it from the end that it has recorded before. A transaction that is not open in a log any
more gets no control record there.
"""

from collections.abc import Callable, Sequence

from goqueue.broker.core.copies import Copy, CopyStore
from goqueue.broker.core.open_search import find_open
from goqueue.broker.core.open_transactions import TransactionEnd
from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.partition_ref import LogRef, PartitionRef
from goqueue.broker.core.work import Promise, Work
from goqueue.limits import READ_BYTES
from goqueue.storage.reads import ReadResult


class PublishPort:
    """Finds logs by reference, and writes into them. Everything raises when a log cannot be reached."""

    def __init__(self, find: Callable[[LogRef], Partition]) -> None:
        self._find = find
        self._copies = CopyStore(find)
        self.send_copies: Callable[[str, PartitionRef, Sequence[Copy]], Work[None]] | None = None
        """Has the node of this id store copies, in a cluster."""
        self.send_ends: Callable[[Partition, LogRef, Sequence[TransactionEnd], Partition], Promise[None]] | None = None
        """Has the leader of a log write control records, in a cluster."""

    def is_replicated(self, target: PartitionRef) -> bool:
        """True if the leader of the target searches for copies itself."""
        return self._at(target).leadership is not None

    def end(self, target: PartitionRef) -> int:
        """Return an offset below which nothing will be written any more."""
        return self._at(target).log_end

    def refuse_unless_open(self, target: PartitionRef) -> None:
        """Raise when the log takes no messages now, and will not soon. In a cluster its leader says so later."""
        partition = self._at(target)
        if partition.leadership is None:
            partition.log.refuse_unless_open()

    def read(self, target: PartitionRef, offset: int) -> Work[ReadResult]:
        """Read on from an offset, transactions that are open or aborted included; nothing at the end."""
        partition = self._at(target)
        offset = max(offset, partition.earliest)
        if offset >= partition.high_watermark:
            return ReadResult((), offset)
        return (yield from partition.read_uncommitted(offset, READ_BYTES, skip_damage=True))

    def store(self, target: PartitionRef, copies: Sequence[Copy]) -> Work[None]:
        """Publish copies that are not there; they are committed when this returns."""
        partition = self._at(target)
        leadership = partition.leadership
        if leadership is None:  # the caller has searched for them
            placed: Promise[Placement] = Promise()
            if partition.offer([copy.frame for copy in copies], placed):
                partition.commit()
            yield from placed.kept()
        elif leadership.leader in ("", leadership.node) or self.send_copies is None:
            yield from self._copies.store(target, copies)
        else:
            yield from self.send_copies(leadership.leader, target, copies)

    def store_here(self, target: PartitionRef, copies: Sequence[Copy]) -> Work[None]:
        """Store copies for another node, as the leader of the target."""
        return self._copies.store(target, copies)

    def end_transactions(
        self, log: LogRef, ends: Sequence[TransactionEnd], by: Partition | None = None
    ) -> Work[Promise[None]]:
        """Write the control records of these transactions, where they are open. The promise is kept when they are on
        the device; in a cluster, when they are committed. `by` is the log of their coordinator.
        """
        partition, on_device = self._at(PartitionRef(log.topic, log.partition)), Promise[None]()
        leadership = partition.leadership
        if leadership is not None and leadership.is_elsewhere and self.send_ends is not None and by is not None:
            return self.send_ends(partition, log, ends, by)
        if leadership is not None and not leadership.knows_end:
            raise leadership.refusal()
        partition = self._find(log)
        if (leadership := partition.leadership) is not None and not leadership.knows_end:
            raise leadership.refusal()
        partition.log.refuse_unless_open()
        if partition.open.held is not None:
            yield from find_open(partition)
        partition.end_transactions(ends, partition.then_synced(on_device))
        return on_device

    def _at(self, ref: PartitionRef) -> Partition:
        return self._find(LogRef(*ref))
