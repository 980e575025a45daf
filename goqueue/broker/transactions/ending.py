"""Carrying out what was decided: markers in every partition that was touched, pledges of every group, then the end.

It may be done again at any time: a partition in which nothing is open any more gets no second marker. So after a
crash all that was prepared is carried out once more, and what was ongoing is aborted.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from goqueue.broker.groups.coordinator import Coordinator
from goqueue.broker.partition import Partition
from goqueue.broker.sync import synced
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.transactions.finding import Epochs
from goqueue.broker.transactions.opened import End
from goqueue.broker.transactions.records import Registered
from goqueue.broker.transactions.refusals import RESTART
from goqueue.broker.transactions.states import OPEN, PREPARED
from goqueue.broker.work import Promise, Work
from goqueue.errors import GoQueueError, TransactionPending
from goqueue.storage.log import Log


class _Written(NamedTuple):
    """What ends some transactions in one log, on its way to the disk."""

    log: Log
    names: list[str]
    promise: Promise[None]


class Ending:
    """Of all transactions."""

    def __init__(self, coordinator: TransactionCoordinator, groups: Coordinator) -> None:
        self.obstacles: dict[str, GoQueueError] = {}
        """Why what is decided could not be carried out yet, by the id."""
        self.on_obstacle: Callable[[str, GoQueueError], None] = lambda _, __: None
        """Called when there is one where there was none."""
        self._coordinator = coordinator
        self._groups = groups
        self._finding: set[Partition] = set()
        self._under_way: set[str] = set()
        self._unfound: dict[Partition, Epochs] = {}
        """What has not been found again since the start."""

    def recover(self) -> Work[None]:
        """After a start: abort what was ongoing, and finish everything."""
        coordinator = self._coordinator
        left_over = [record for record in coordinator.register.open_ones() if coordinator.is_left_over(record)]
        unfinished = [record for record in coordinator.register.open_ones() if record.state in PREPARED] + left_over
        self._unfound = {partition: dict(epochs) for partition, epochs in coordinator.remains.unknown.items()}
        self._note_unfound(unfinished)
        if left_over:
            prepared = [self._prepared(record) for record in left_over]
            durable: Promise[None] = Promise()
            try:
                coordinator.record(prepared, durable)
                yield durable
            except GoQueueError as error:
                for record in left_over:
                    coordinator.tell(record.id, error)
                raise
        if unfinished:
            yield from self._carry_out([record.id for record in unfinished])
        for partition in coordinator.remains.unknown:
            yield from self._abort_unknown(partition)

    def _abort_unknown(self, partition: Partition) -> Work[None]:
        """End what is open there and belongs to no transaction that is known, since its records are lost.

        While the log of transactions cannot be read, its records may still come back: then it stays open.
        """
        try:
            yield from self._be_sure(partition)
        except GoQueueError:  # a log that takes nothing; it is read again at the next start
            return
        register = self._coordinator.register
        if self._coordinator.journal.log.fence is not None:
            return
        ends: list[End] = []
        for producer, opened in partition.open:
            known = register.of_producer(producer)
            if known is None or known.state not in OPEN or known.epochs.get(producer) != opened.epoch:
                ends.append(End(producer, opened.epoch, is_commit=False))
        promise: Promise[None] = Promise()
        partition.end_transactions(ends, promise)
        with suppress(GoQueueError):
            yield promise

    def _prepared(self, record: Registered) -> Registered:
        """What was ongoing is aborted, unless its commit was decided in a record that is lost."""
        coordinator = self._coordinator
        is_commit = record.id in coordinator.remains.hit and coordinator.places.has_commit(record)
        return coordinator.prepared(record, is_commit=is_commit, reason="" if is_commit else RESTART)

    def carry_out(self, name: str) -> Work[None]:
        yield from self._carry_out([name])

    def _carry_out(self, names: Iterable[str]) -> Work[None]:
        by_id = self._coordinator.register.by_id
        found = (by_id.get(name) for name in names if name not in self._under_way)
        decided = [record for record in found if record is not None and record.state in PREPARED]
        records = [record for record in decided if self._coordinator.is_recorded(record)]
        chosen = {record.id for record in records}
        self._under_way |= chosen
        failures: dict[str, GoQueueError] = {}
        try:
            log = self._coordinator.journal.log  # no marker may outlive the decision
            yield from synced(log, log.readable_end, self._coordinator.on_wait)
            failures = yield from self._end_everywhere(records)
            yield from self._complete([record for record in records if record.id not in failures])
        except GoQueueError as error:
            failures = dict.fromkeys(chosen, error)
        finally:
            self._under_way -= chosen
        for name, failure in failures.items():
            if name not in self.obstacles:
                self.on_obstacle(name, failure)
            self.obstacles[name] = failure
            self._coordinator.patience.try_again(name)
            self._coordinator.tell(name, _pending(name, failure))

    # --- markers ---

    def _end_everywhere(self, records: Sequence[Registered]) -> Work[dict[str, GoQueueError]]:
        """Write the markers; whose were refused, and why."""
        ends = {record.id: _ends(record) for record in records}
        names: dict[Partition, list[str]] = {}
        for record in records:
            for touched in record.partitions:
                partition = self._coordinator.places.partition(touched)
                if partition is not None:
                    names.setdefault(partition, []).append(record.id)
        failures: dict[str, GoQueueError] = {}
        written: list[_Written] = []
        for partition, here in names.items():
            try:
                yield from self._be_sure(partition)
                promise: Promise[None] = Promise()
                partition.end_transactions([end for name in here for end in ends[name]], promise)
                written.append(_Written(partition.log, here, promise))
            except GoQueueError as error:
                failures |= dict.fromkeys(here, error)
        for one in (*written, *self._redeemed(records)):
            try:
                yield one.promise
                # On the device as well: behind an end that is recorded nobody looks for what a crash has taken.
                yield from synced(one.log, one.log.readable_end, self._coordinator.on_wait)
            except GoQueueError as error:
                failures |= dict.fromkeys(one.names, error)
        return failures

    def _redeemed(self, records: Sequence[Registered]) -> list[_Written]:
        """What groups have pledged is done with, or is to be handed out again."""
        redeemed: list[_Written] = []
        for record in records:
            is_commit, failed = record.state == "prepare_commit", record.reason not in ("", RESTART)
            for group in record.groups:
                promise: Promise[None] = Promise()
                self._groups.pledges.redeem(group, record.whose, is_commit, failed, promise)
                redeemed.append(_Written(self._groups.ledger.shelf(group).log, [record.id], promise))
        return redeemed

    def _be_sure(self, partition: Partition) -> Work[None]:
        """Know what is open there, after a start. Of a log that takes nothing nobody knows what a crash would leave."""
        partition.log.refuse_unless_open()
        if partition.open.held is None:
            return
        if partition in self._finding:
            raise TransactionPending(f"what is open in {partition.log.name} is being looked for")
        self._finding.add(partition)
        try:
            yield from partition.find_open(self._unfound.get(partition, {}))
        finally:
            self._finding.discard(partition)
        self._unfound.pop(partition, None)

    def _note_unfound(self, unfinished: Sequence[Registered]) -> None:
        """Whose messages have to be found again where."""
        for record in unfinished:
            for touched in record.partitions:
                partition = self._coordinator.places.partition(touched)
                if partition is not None:
                    self._unfound.setdefault(partition, {}).update(record.epochs)

    # --- the end ---

    def _complete(self, records: Sequence[Registered]) -> Work[None]:
        coordinator = self._coordinator
        completed: list[Registered] = []
        for record in records:
            whose = yield from coordinator.next_whose(record)
            completed.append(coordinator.completed(record, whose))
        if not completed:
            return
        # Whoever goes on with the next epoch may hear it at once, since it is the same if this has to be done again.
        renamed = [record for record in completed if record.last is not None and record.epoch == 0]

        def settled(error: GoQueueError | None) -> None:
            for record in completed if error is not None else renamed:
                if error is None:
                    coordinator.has_ended(record)
                else:  # it has ended all the same, and that is found out when it is done again
                    coordinator.patience.try_again(record.id)
                    coordinator.tell(record.id, _pending(record.id, error))

        coordinator.record(completed, settled)
        for record in completed:
            self.obstacles.pop(record.id, None)
            if record not in renamed:
                coordinator.has_ended(record)

    def __repr__(self) -> str:
        return f"<Ending {len(self._under_way)} under way>"


def _ends(record: Registered) -> list[End]:
    is_commit = record.state == "prepare_commit"
    counted = set(record.members if record.counted is None else record.counted)
    members = [End(member, 0, is_commit and member in counted) for member in record.members]
    return [End(*record.whose, is_commit), *members]


def _pending(name: str, error: GoQueueError) -> TransactionPending:
    return TransactionPending(
        f"how the transaction of {name} ends is decided, and cannot be carried out everywhere yet: {error.sentence}",
        hint="ask again in a moment; an operator may have to look at the log that takes nothing",
        retry_after=1,
    )
