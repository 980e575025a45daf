"""The transactions of all shards: which shard has a transactional id or a producer, and what is known of all ids."""

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import chain

from goqueue.broker.core.catalog import ProducerIdAllocator
from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.shards import Shards
from goqueue.broker.core.work import Work
from goqueue.broker.groups.shards import GroupShards
from goqueue.broker.transactions.basis import TransactionBasis
from goqueue.broker.transactions.completion import TransactionCompleter
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.transactions.partitions import PartitionLookup
from goqueue.broker.transactions.records import OPEN, TransactionMetadata
from goqueue.broker.transactions.refusals import unnamed_transaction
from goqueue.broker.transactions.registry import TransactionCounts
from goqueue.clock import Clock, SteadyClock
from goqueue.limits import TRANSACTION_LOGS
from goqueue.storage.disk import Disk


class TransactionShard(TransactionCoordinator):
    """A transaction coordinator, and what carries its decisions out."""

    def __init__(self, partition: Partition, basis: TransactionBasis, groups: GroupShards) -> None:
        super().__init__(partition, basis)
        self.completer = TransactionCompleter(self, groups)


class TransactionShards(Shards[TransactionShard]):
    """The transaction coordinators, one for each transaction log."""

    def __init__(
        self,
        partitions: Sequence[Partition],
        disk: Disk,
        lookup: PartitionLookup,
        clock: Clock,
        ids: ProducerIdAllocator,
        groups: GroupShards,
        trusted_ns: Callable[[], int],
    ) -> None:
        self._is_replicated = ids.is_shared = groups.settings.is_replicated
        """Whether the nodes of a cluster coordinate transactions, each those whose log it leads."""
        self.lookup = lookup
        self.clock = SteadyClock(clock, max(one.log.last_time for one in partitions))
        self.counts = TransactionCounts()
        self.ongoing_at_start: dict[str, TransactionId] = {}
        self.by_producer: dict[int, str] = {}
        """The transactional ids of producers in all open shards."""
        basis = TransactionBasis(
            disk=disk,
            lookup=lookup,
            clock=self.clock,
            trusted_ns=trusted_ns,
            ids=ids,
            directory=self,
        )
        super().__init__(partitions, lambda partition: TransactionShard(partition, basis, groups))

    def open_all(self) -> None:
        """Open all shards. In a cluster none is open until its log is led here."""
        if self._is_replicated:
            self.is_started = True
        else:
            super().open_all()

    def open(self, number: int) -> TransactionShard:
        self.clock.pass_by(self.partitions[number].log.last_time)
        return super().open(number)

    # --- lookup ---

    def of_transaction(self, whose: TransactionId, name: str | None = None) -> TransactionShard:
        """Return the shard of the transactional id or, without one, of the producer. It refuses an unknown one."""
        if name is None and (name := self._name(whose.producer)) is None:
            if self._is_replicated and len(list(self)) < len(self.partitions):
                raise unnamed_transaction(whose)
            return self.at(0)
        return self.of(name)

    def known(self, producer: int) -> TransactionMetadata | None:
        """Return the id to which this producer belongs or belonged, as its own or as a member."""
        name = self._name(producer)
        return None if name is None else self.record(name)

    def is_open(self, whose: TransactionId) -> bool:
        """Return whether a shard that is open here has this transaction open, as that of a producer or of a member."""
        known = self.by_producer.get(whose.producer)
        record = None if known is None else self.of(known).register.by_id.get(known)
        return record is not None and record.state in OPEN and record.epochs.get(whose.producer) == whose.epoch

    def was_committed(self, whose: TransactionId) -> bool:
        """Return whether this is the last transaction of an id that is known here, and was committed."""
        return any(one.register.was_committed(whose) for one in self)

    def record(self, name: str) -> TransactionMetadata | None:
        return self.of(name).register.by_id.get(name)

    def _name(self, producer: int) -> str | None:
        name = self.by_producer.get(producer)
        if name is None and not self._is_replicated:
            self.refuse_unless_all_open()
        return name

    def refuse_outside(self, mark: ProducerMark) -> None:
        """Refuse a publish outside a transaction by a producer with a transactional id."""
        if (name := self._name(mark.producer)) is not None:
            self.of(name).refuse_outside(mark)

    # --- all ids ---

    @property
    def id_count(self) -> int:
        return sum(len(one.register) for one in self)

    @property
    def open_count(self) -> int:
        return sum(len(one.register.opened) for one in self)

    @property
    def is_complete(self) -> bool:
        return all(one.log.fence is None for one in self.partitions) and len(list(self)) == len(self.partitions)

    def open_ones(self) -> Iterator[TransactionMetadata]:
        """Yield the ids with an open transaction, oldest first. Nothing may change meanwhile."""
        found = chain.from_iterable(one.register.open_ones() for one in self)
        return iter(sorted(found, key=lambda record: record.began_ns))

    def closed_ones(self) -> Iterator[TransactionMetadata]:
        """Yield the ids without an open transaction, the one changed last first. Nothing may change meanwhile."""
        found = (one.register.closed_ones() for one in self)
        return merge(*found, key=lambda record: record.changed_ns, reverse=True)

    def commit(self) -> None:
        for coordinator in self:
            coordinator.commit()

    def forget_unused(self) -> None:
        for coordinator in self:
            coordinator.forget_unused()

    def recover(self) -> Work[None]:
        """After a start: end what was open, in one shard after the other."""
        for coordinator in self:
            yield from coordinator.completer.recover()

    def end_lost(self, groups: GroupShards) -> None:
        """Resolve acks of groups in transactions whose end is lost."""
        for group in [one.group for one in groups.groups()]:
            acks, cursors = groups.of(group).transaction_acks, groups.cursors(group).values()
            for whose in {one.transaction_id for cursor in cursors for _, _, one in cursor.transactional.runs()}:
                register = self.of_transaction(whose).register
                if not register.is_open(whose):
                    acks.end_transaction(group, whose, register.was_committed(whose), False, lambda _: None)
        groups.commit()


def count_transaction_logs(disk: Disk, path: str) -> int:
    """Return how many transaction logs a data directory has if that is not recorded.

    The number says where each id is, so it stays as it was at the first start. A crash may have taken the record of it:
    then the directories tell, because that of the last log is created first. Earlier versions had one log.
    """
    names = [one.name for one in disk.entries(path)] if disk.kind(path) == "directory" else []
    return max((int(name) + 1 for name in names if name.isdecimal()), default=TRANSACTION_LOGS)
