"""Carries out decided ends: control records in every enlisted partition, then offset commits of groups, then
completion.

It may run again at any time: a partition where nothing is open gets no second control record. So after a crash all
prepared transactions are completed once more, and ongoing ones are aborted.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from goqueue.broker.core.open_search import find_open
from goqueue.broker.core.open_transactions import TransactionEnd
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.work import Promise, Work
from goqueue.broker.groups.shards import GroupEnd, GroupShards
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.transactions.records import OPEN, PREPARED, TransactionMetadata
from goqueue.broker.transactions.refusals import RESTART
from goqueue.errors import (
    BrokerUnreachable,
    GoQueueError,
    LeadershipLost,
    LeaderUnavailable,
    NotCoordinator,
    NotLeader,
    TransactionPending,
)
from goqueue.events import Signal

MOVING = (LeaderUnavailable, LeadershipLost, NotLeader, NotCoordinator, BrokerUnreachable)
"""Obstacles that end when a partition has its next leader: who waits for the end waits on."""


class _PendingWrite(NamedTuple):
    """A write to one log that ends some transactions."""

    names: list[str]
    on_device: Promise[None]
    """Kept when it is on the device: after the completion is recorded, a crash must not lose any of it."""


class TransactionCompleter:
    """Completes the transactions whose end is decided."""

    def __init__(self, coordinator: TransactionCoordinator, groups: GroupShards) -> None:
        self.obstacles: dict[str, GoQueueError] = {}
        """Why a decided end could not be carried out yet, by id."""
        self.on_obstacle: Signal[[str, GoQueueError]] = Signal()
        """Emitted with the id and error when a first attempt fails."""
        self._coordinator = coordinator
        self._port = coordinator.lookup.port
        self._groups = groups
        self._under_way: set[str] = set()

    def recover(self) -> Work[None]:
        """After a start: abort ongoing transactions and complete prepared ones. Reopened, complete prepared ones."""
        coordinator = self._coordinator
        ongoing = [record for record in coordinator.register.open_ones() if coordinator.was_ongoing_at_start(record)]
        unfinished = [record for record in coordinator.register.open_ones() if record.state in PREPARED] + ongoing
        if ongoing:
            prepared = [self._prepared(record) for record in ongoing]
            durable: Promise[None] = Promise()
            try:
                coordinator.record(prepared, durable)
                yield durable
            except GoQueueError as error:
                for record in ongoing:
                    coordinator.resolve(record.id, error)
                raise
        if unfinished:
            yield from self._complete_all([record.id for record in unfinished])
        for partition in coordinator.lost.unknown:
            yield from self._abort_unknown(partition)

    def _abort_unknown(self, partition: Partition) -> Work[None]:
        """Abort what is open there and belongs to no known transaction, since its records are lost.

        If the transaction log cannot be read, its records may come back: then it stays open.
        """
        try:
            partition.log.refuse_unless_open()
            yield from find_open(partition)
        except GoQueueError:  # a fenced log is read again at the next start
            return
        directory = self._coordinator.directory
        if not directory.is_complete:
            return
        ends: list[TransactionEnd] = []
        for producer, opened in partition.open:
            known = directory.known(producer)
            if known is None or known.state not in OPEN or known.epochs.get(producer) != opened.epoch:
                ends.append(TransactionEnd(producer, opened.epoch, is_commit=False))
        log_ref = LogRef(partition.topic, partition.number, partition.is_delayed)
        with suppress(GoQueueError):
            yield (yield from self._port.end_transactions(log_ref, ends))

    def _prepared(self, record: TransactionMetadata) -> TransactionMetadata:
        """Return an ongoing transaction as aborted, or committed if that decision is in a lost record."""
        coordinator = self._coordinator
        is_commit = record.id in coordinator.lost.hit and coordinator.lookup.has_commit(record)
        return coordinator.prepared(record, is_commit=is_commit, reason="" if is_commit else RESTART)

    def complete(self, name: str) -> Work[None]:
        yield from self._complete_all([name])

    def _complete_all(self, names: Iterable[str]) -> Work[None]:
        by_id = self._coordinator.register.by_id
        found = (by_id.get(name) for name in names if name not in self._under_way)
        decided = [record for record in found if record is not None and record.state in PREPARED]
        records = [record for record in decided if self._coordinator.is_recorded(record)]
        chosen = {record.id for record in records}
        self._under_way |= chosen
        failures: dict[str, GoQueueError] = {}
        try:
            yield from self._coordinator.journal.partition.synced()  # the decision, before any control record
            failures = yield from self._end_everywhere(records)
            yield from self._record_completed([record for record in records if record.id not in failures])
        except GoQueueError as error:
            failures = dict.fromkeys(chosen, error)
        finally:
            self._under_way -= chosen
        if self._coordinator.journal.is_closed:  # the next open completes them
            return
        for name, failure in failures.items():
            if name not in self.obstacles:
                self.on_obstacle.emit(name, failure)
            self.obstacles[name] = failure
            is_moving = isinstance(failure, MOVING)
            self._coordinator.timeouts.retry_later(name, soon=is_moving)
            if not is_moving:
                self._coordinator.resolve(name, _pending(name, failure))

    # --- markers ---

    def _end_everywhere(self, records: Sequence[TransactionMetadata]) -> Work[dict[str, GoQueueError]]:
        """Write the control records; return the failures by id."""
        ends = {record.id: _producer_ends(record) for record in records}
        names: dict[LogRef, list[str]] = {}
        for record in records:
            for enlisted in record.partitions:
                if self._coordinator.lookup.is_there(enlisted):
                    names.setdefault(enlisted.log_ref, []).append(record.id)
        failures: dict[str, GoQueueError] = {}
        written: list[_PendingWrite] = []
        for log_ref, here in names.items():
            try:
                here_ends = [end for name in here for end in ends[name]]
                ended = yield from self._port.end_transactions(log_ref, here_ends, self._coordinator.journal.partition)
                written.append(_PendingWrite(here, ended))
            except GoQueueError as error:
                failures |= dict.fromkeys(here, error)
        for one in (*written, *self._settle_group_acks(records)):
            try:
                yield one.on_device
            except GoQueueError as error:
                failures |= dict.fromkeys(one.names, error)
        return failures

    def _settle_group_acks(self, records: Sequence[TransactionMetadata]) -> list[_PendingWrite]:
        """Apply or release the acks that groups hold for these transactions."""
        redeemed: list[_PendingWrite] = []
        for record in records:
            is_commit, failed = record.state == "prepare_commit", record.reason not in ("", RESTART)
            for group in record.groups:
                on_device, by = Promise[None](), self._coordinator.journal.partition
                self._groups.end_transaction(GroupEnd(group, record.whose, is_commit, failed), on_device, by)
                redeemed.append(_PendingWrite([record.id], on_device))
        return redeemed

    # --- the end ---

    def _record_completed(self, records: Sequence[TransactionMetadata]) -> Work[None]:
        coordinator = self._coordinator
        completed: list[TransactionMetadata] = []
        for record in records:
            whose = yield from coordinator.next_whose(record)
            completed.append(coordinator.completed(record, whose))
        if not completed:
            return
        # The answer need not wait for this record if the next epoch stays the same when it is repeated.
        renamed = [record for record in completed if record.last is not None and record.epoch == 0]

        def settled(error: GoQueueError | None) -> None:
            for record in completed if error is not None else renamed:
                if error is None:
                    coordinator.finish(record)
                else:  # it has ended; completing it again finds that out
                    coordinator.timeouts.retry_later(record.id)
                    coordinator.resolve(record.id, _pending(record.id, error))

        coordinator.record(completed, settled)
        for record in completed:
            self.obstacles.pop(record.id, None)
            if record not in renamed:
                coordinator.finish(record)

    def __repr__(self) -> str:
        return f"<TransactionCompleter {len(self._under_way)} under way>"


def _producer_ends(record: TransactionMetadata) -> list[TransactionEnd]:
    is_commit = record.state == "prepare_commit"
    counted = set(record.members if record.counted is None else record.counted)
    members = [TransactionEnd(member, 0, is_commit and member in counted) for member in record.members]
    return [TransactionEnd(*record.whose, is_commit), *members]


def _pending(name: str, error: GoQueueError) -> TransactionPending:
    return TransactionPending(
        f"the end of the transaction of {name} is decided but not carried out in all partitions yet: {error.sentence}",
        hint="retry in a moment; if this lasts, look at the log that refuses writes",
        retry_after=1,
    )
