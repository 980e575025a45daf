"""The transaction coordinator: which calls are allowed, what must be durable before what, and how transactions end.

Synchronous. The runner calls `commit` soon after `on_gathered`, `deadlines.call_due` at `deadlines.next_ns`,
`completer.recover()` after the start, and `completer.complete(name)` after `on_decided`.

Invariants: a transaction writes to a partition only after that partition is durably enlisted here; a call needs the
epoch of its transaction; a decision is never changed.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from goqueue.broker.core.journal import Journal
from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.producers import ProducerMark, unknown_producer_id
from goqueue.broker.core.work import Promise, Work
from goqueue.broker.transactions.basis import TransactionBasis
from goqueue.broker.transactions.partitions import LostTransactions, all_synced
from goqueue.broker.transactions.records import (
    OPEN,
    PREPARED,
    EndedTransaction,
    EnlistedLog,
    TransactionMetadata,
    TransactionRecord,
    check_transactional_id,
    decode_transaction_record,
    encode_transaction_record,
    next_state,
)
from goqueue.broker.transactions.refusals import (
    ASKED,
    FENCED,
    RESTART,
    TIMEOUT,
    aborted,
    answered_again,
    closing,
    decided_otherwise,
    foreign_mark,
    not_members,
    not_open,
    outside_transaction,
    refuse_unless_former,
    refuse_unless_ongoing,
    too_many_ids,
    transaction_too_large,
    unknown_transaction,
    wrong_epoch,
)
from goqueue.broker.transactions.registry import TransactionRegistry
from goqueue.broker.transactions.timeouts import TransactionTimeouts
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.events import Signal
from goqueue.limits import EPOCH_MAX, TRANSACTION_PARTICIPANTS_MAX, TRANSACTION_RETENTION_SECONDS, TRANSACTIONAL_IDS_MAX
from goqueue.storage.writer import AppendCallback

_KEPT_NS = TRANSACTION_RETENTION_SECONDS * NANOSECONDS


class TransactionCoordinator:
    """The transactions of one shard."""

    def __init__(self, partition: Partition, basis: TransactionBasis) -> None:
        self.directory = basis.directory
        self.register = TransactionRegistry(self.directory.by_producer)
        self.lookup = basis.lookup
        self.clock = basis.clock
        self._trusted_ns = basis.trusted_ns
        self.counts = self.directory.counts
        self.on_gathered: Signal[[]] = Signal()
        """Emitted when records wait for `commit`."""
        self.on_decided: Signal[[str]] = Signal()
        """Emitted with the id of a transaction whose end is durably decided and must be carried out."""
        self.on_ended: Signal[[EndedTransaction]] = Signal()
        # No snapshots, which would hold all ids: compaction bounds what a start has to read.
        self.journal: Journal[TransactionRecord] = Journal(
            partition, basis.disk, self.register, encode_transaction_record, decode_transaction_record, snapshots=False
        )
        self.timeouts = TransactionTimeouts(self.register, self.clock, self._abort_expired, self.on_decided.emit)
        self.deadlines = self.timeouts.deadlines
        self._ids = basis.ids
        self._closing: set[str] = set()
        """Ids whose commit is about to be decided."""
        self._waiting: dict[str, list[Promise[EndedTransaction]]] = {}
        """Promises that wait for the end of a transaction, by id."""
        self.lost = LostTransactions()

    def open(self) -> None:
        """Rebuild the state from the log.

        At a start, hold committed reads where transactions may be open. Later, partitions know what is open in them,
        and open transactions continue.
        """
        self.journal.open()
        if records := self.lost.raise_epochs(self.register, self.journal):
            self.record(records, self.journal.fence_where_refused)
            self.commit()
        for record in self.register.open_ones():
            if not self.directory.is_started:
                self._expect_open(record)
            elif record.state == "ongoing" and not self.was_ongoing_at_start(record):
                self.timeouts.begin(record, self.clock.now_ns())
        self.lost.hold_unknown_transactions(self.journal, self.lookup.partitions())

    def _expect_open(self, record: TransactionMetadata) -> None:
        if record.state == "ongoing":
            self.directory.ongoing_at_start[record.id] = record.whose
        for enlisted in record.partitions:
            partition = self.lookup.partition(enlisted)
            if partition is not None:
                end = partition.log_end
                partition.open.hold(min(enlisted.since, end), end, record.epochs)

    def close(self, error: GoQueueError) -> Promise[None]:
        """Answer all who wait with this error, and decide nothing more. Open transactions stay open."""
        settled = self.journal.close(error)
        self.register.release()
        self.deadlines.clear()
        for name in list(self._waiting):
            self.resolve(name, error)
        return settled

    def commit(self) -> None:
        self.journal.commit()

    # --- producers ---

    def init(self, name: str, timeout_ns: int, former: TransactionId | None = None) -> Work[TransactionMetadata]:
        """Register a producer with this id. The previous one is fenced, and its open transaction is aborted.

        `former` is the producer's own last id: it continues from there, unless it was fenced.
        """
        check_transactional_id(name)
        while True:
            self.journal.refuse_when_closed()
            known = self.register.by_id.get(name)
            if known is not None and former is not None:
                if known.former == former and known.state == "empty":  # a repeated call: its answer was lost
                    yield self._durable([])
                    return known
                refuse_unless_former(known, former)
            if known is None and former is not None and not self._ids.has_given(former.producer):
                raise unknown_producer_id(former.producer)
            if known is not None and known.state in OPEN:
                yield from self._end_of(known, FENCED)
                continue
            if known is None and self.directory.id_count >= TRANSACTIONAL_IDS_MAX:
                raise too_many_ids()
            record = yield from self._with_next_epoch(name, known, timeout_ns, former)
            if self.register.by_id.get(name) is known:
                yield self._durable([record])
                yield from self._synced()  # an epoch is given out once, even after a crash
                return record

    def _end_of(self, known: TransactionMetadata, reason: str) -> Work[None]:
        """Abort the transaction unless it is already ending; wait for the end."""
        ended = self._completion(known.id)
        if known.state == "ongoing":
            self.prepare(known, is_commit=False, reason=reason)
        yield ended

    def _with_next_epoch(
        self, name: str, known: TransactionMetadata | None, timeout_ns: int, former: TransactionId | None
    ) -> Work[TransactionMetadata]:
        """Return the metadata after `init`.

        An id that was registered before the start may have continued in another copy of a restored directory, so it
        gets a new producer and none of those epochs again.
        """
        last = known.last if known is not None else None
        is_followed = known is not None and self._ids.is_of_start(known.producer)
        whose = yield from self.next_whose(known if is_followed else None)
        earlier = known.before(whose) if known is not None else []
        now_ns = self.clock.now_ns()
        return TransactionMetadata(name, *whose, "empty", timeout_ns, now_ns, last=last, former=former, earlier=earlier)

    def next_whose(self, known: TransactionMetadata | None) -> Work[TransactionId]:
        """Return the next epoch, with a new producer after the largest epoch."""
        step = 1 + self.lost.epochs_lost(known)
        if known is not None and known.epoch + step <= EPOCH_MAX:
            return TransactionId(known.producer, known.epoch + step)
        given: Promise[int] = Promise()
        self._ids.give(given)
        producer: int = yield given
        return TransactionId(producer, 0)

    def refuse_outside(self, mark: ProducerMark) -> None:
        """Refuse a publish outside a transaction by a producer with a transactional id."""
        if self.register.of_producer(mark.producer) is not None:
            raise outside_transaction(mark.producer)

    # --- while it is open ---

    def begin(self, whose: TransactionId, name: str) -> Work[TransactionMetadata]:
        return (yield from self.enlist(whose, (), name=name, begin=True))

    def enlist(
        self,
        whose: TransactionId,
        log_refs: Iterable[LogRef],
        *,
        name: str | None = None,
        begin: bool = False,
        groups: Sequence[str] = (),
        members: Sequence[int] = (),
    ) -> Work[TransactionMetadata]:
        """Record durably which logs, groups and members the transaction uses; what follows at once is in time."""
        known = self.current(whose, name)
        record = self._begun(known) if begin and known.state not in OPEN else known
        self._refuse_unless_ongoing(record)
        enlisted = self._not_yet_enlisted(record, log_refs)
        groups = [group for group in dict.fromkeys(groups) if group not in record.groups]
        if enlisted or groups or members:
            record = replace(
                record,
                partitions=[*record.partitions, *enlisted],
                groups=[*record.groups, *groups],
                members=[*record.members, *members],
            )
            if len(record.partitions) + len(record.groups) + len(record.members) > TRANSACTION_PARTICIPANTS_MAX:
                raise transaction_too_large(record)
        if record is not known:
            yield self._durable([record])
        elif not self.is_recorded(record):
            yield self._durable([])
        yield from self._synced()
        return self.ongoing(whose)

    def _begun(self, known: TransactionMetadata) -> TransactionMetadata:
        now_ns = self.clock.now_ns()
        self.timeouts.begin(known, now_ns)
        return TransactionMetadata(
            known.id,
            *known.whose,
            next_state(known.state, "begin"),
            known.timeout_ns,
            now_ns,
            began_ns=now_ns,
            last=known.last,
            earlier=known.earlier,
        )

    def _not_yet_enlisted(self, record: TransactionMetadata, log_refs: Iterable[LogRef]) -> list[EnlistedLog]:
        """Return the logs that are not enlisted yet. A recreated topic is another one."""
        found = ((log_ref, *self.lookup.find(log_ref)) for log_ref in dict.fromkeys(log_refs))
        wanted = {(log_ref, topic_ns): partition for log_ref, partition, topic_ns in found}
        for enlisted in record.partitions if wanted else ():
            wanted.pop((enlisted.log_ref, enlisted.topic_ns), None)
        for partition in wanted.values():
            if partition.leadership is None:
                partition.log.refuse_unless_open()
        ends = {place: 0 if one.leadership is not None else one.log_end for place, one in wanted.items()}
        return [EnlistedLog(*place, end) for place, end in ends.items()]

    def join(self, whose: TransactionId, name: str | None, *, begin: bool) -> Work[tuple[TransactionMetadata, int]]:
        """Add another producer to the transaction; its messages count if the commit lists it."""
        self.current(whose, name)
        given: Promise[int] = Promise()
        self._ids.give(given)
        member: int = yield given
        record = yield from self.enlist(whose, (), name=name, begin=begin, members=[member])
        return record, member

    def current(self, whose: TransactionId, name: str | None = None) -> TransactionMetadata:
        """Return the metadata of this transaction; refuse a call that is too late. Counts as a sign of life."""
        self.journal.refuse_when_closed()
        known = self.register.of_producer(whose.producer)
        if known is None or known.producer != whose.producer:
            had = known if known is not None and whose.producer in known.earlier else None
            known = self.register.by_id.get(name) if name is not None else had
            raise self._unknown(whose, name, known)
        if name is not None and name != known.id:
            raise self._unknown(whose, name, self.register.by_id.get(name))
        if known.epoch != whose.epoch:
            raise wrong_epoch(known, whose)
        self.timeouts.record_activity(known.id)
        return known

    def _unknown(self, whose: TransactionId, name: str | None, known: TransactionMetadata | None) -> GoQueueError:
        """Return the error for an unknown producer; one that took over the id comes first."""
        if known is None and not self._ids.has_given(whose.producer):
            return unknown_producer_id(whose.producer)
        return unknown_transaction(whose, name, known)

    def ongoing(self, whose: TransactionId) -> TransactionMetadata:
        known = self.current(whose)
        self._refuse_unless_ongoing(known)
        if known.id in self._closing:
            raise closing(known)
        return known

    def _refuse_unless_ongoing(self, known: TransactionMetadata) -> None:
        if self.was_ongoing_at_start(known):
            raise aborted(known.whose, RESTART)
        refuse_unless_ongoing(known)

    def was_ongoing_at_start(self, known: TransactionMetadata) -> bool:
        """Return whether it was ongoing at the start: a crash may have lost a part, so it will be aborted."""
        return known.state == "ongoing" and self.directory.ongoing_at_start.get(known.id) == known.whose

    def check_mark(self, whose: TransactionId, mark: ProducerMark) -> None:
        record = self.ongoing(whose)
        is_member = mark.epoch == 0 and mark.producer in record.members
        if (mark.producer, mark.epoch) != whose and not is_member:
            raise foreign_mark(whose, mark)

    # --- the end ---

    def end(
        self,
        whose: TransactionId,
        name: str,
        *,
        is_commit: bool,
        counted: list[int] | None = None,
        note: str = "",
        reason: str = ASKED,
    ) -> Work[EndedTransaction]:
        """Commit or abort, and wait until it has ended in all partitions. A repeated call gets the same answer."""
        known = self._to_end(whose, name, is_commit=is_commit)
        if is_commit and isinstance(known, TransactionMetadata) and known.state == "ongoing":
            if counted is not None and (strangers := set(counted) - set(known.members)):
                raise not_members(known, sorted(strangers))
            yield from self._secure(known)
            known = self._to_end(whose, name, is_commit=is_commit)
        if isinstance(known, EndedTransaction):
            return known
        ended = self._completion(name)
        if known.state == "ongoing":
            self.prepare(known, is_commit=is_commit, counted=counted, note=note, reason="" if is_commit else reason)
        result: EndedTransaction = yield ended
        return result

    def _to_end(self, whose: TransactionId, name: str, *, is_commit: bool) -> TransactionMetadata | EndedTransaction:
        """Return the open transaction, or its end if this call is repeated."""
        self.journal.refuse_when_closed()
        known = self.register.by_id.get(name)
        if known is None:
            raise self._unknown(whose, name, None)
        if known.last is not None and known.last.whose == whose:
            return answered_again(known.last, is_commit=is_commit)
        if known.whose != whose:
            raise wrong_epoch(known, whose)
        if known.state in PREPARED and (known.state == "prepare_commit") != is_commit:
            raise decided_otherwise(known)
        if known.state not in OPEN:
            raise not_open(known)
        if is_commit and self.was_ongoing_at_start(known):
            raise aborted(known.whose, RESTART)
        return known

    def _secure(self, known: TransactionMetadata) -> Work[None]:
        """Wait until everything to be committed is on the device, so that a crash after the decision loses nothing of
        it.
        """
        self._closing.add(known.id)
        self.timeouts.record_activity(known.id)
        try:
            yield from all_synced(self.lookup.partitions_of(known))
        finally:
            self._closing.discard(known.id)

    def _synced(self) -> Work[None]:
        yield from self.journal.partition.synced()

    def prepare(
        self,
        known: TransactionMetadata,
        *,
        is_commit: bool,
        counted: list[int] | None = None,
        note: str = "",
        reason: str = "",
    ) -> None:
        record = replace(self.prepared(known, is_commit=is_commit, reason=reason), counted=counted, note=note)

        def settled(error: GoQueueError | None) -> None:
            if error is None:
                self.on_decided.emit(known.id)
            else:
                self.resolve(known.id, error)

        try:
            self.record([record], settled)
        except GoQueueError as error:
            self.resolve(known.id, error)
            raise

    def prepared(self, known: TransactionMetadata, *, is_commit: bool, reason: str = "") -> TransactionMetadata:
        state = next_state(known.state, "commit" if is_commit else "abort")
        return replace(known, state=state, changed_ns=self.clock.now_ns(), counted=None, note="", reason=reason)

    def completed(self, prepared: TransactionMetadata, following_one: TransactionId) -> TransactionMetadata:
        now_ns = self.clock.now_ns()
        state = next_state(prepared.state, "complete")
        last = EndedTransaction(prepared.whose, state, prepared.began_ns, now_ns, prepared.reason, prepared.note)
        earlier = prepared.before(following_one)
        return TransactionMetadata(
            prepared.id, *following_one, state, prepared.timeout_ns, now_ns, last=last, earlier=earlier
        )

    def finish(self, record: TransactionMetadata) -> None:
        """Count an end, and answer those who wait for it."""
        assert record.last is not None, "one has just ended"
        self.timeouts.end(record.id)
        self.counts.note(record.last)
        self.on_ended.emit(record.last)
        self.resolve(record.id, record.last)

    def _completion(self, name: str) -> Promise[EndedTransaction]:
        promise: Promise[EndedTransaction] = Promise()
        self._waiting.setdefault(name, []).append(promise)
        return promise

    def resolve(self, name: str, result: EndedTransaction | GoQueueError) -> None:
        for promise in self._waiting.pop(name, ()):
            promise(result)

    def _abort_expired(self, known: TransactionMetadata) -> None:
        self.prepare(known, is_commit=False, reason=TIMEOUT)

    def forget_unused(self) -> None:
        before_ns = min(self.clock.now_ns(), self._trusted_ns()) - _KEPT_NS
        if forgotten := self.register.forget_unused(before_ns):
            self.record(forgotten, lambda _: None)

    # --- record ---

    def record(self, records: Sequence[TransactionRecord], done: AppendCallback) -> None:
        """Apply records; `done` is called when they are durable, or with the error when they were taken back."""
        self.journal.refuse_unless_open()
        if self.journal.add(records, done):
            self.on_gathered.emit()

    def _durable(self, records: Sequence[TransactionRecord]) -> Promise[None]:
        durable: Promise[None] = Promise()
        self.record(records, durable)
        return durable

    def is_recorded(self, record: TransactionMetadata) -> bool:
        """Return whether this metadata is durable. Nothing is carried out before."""
        durable = self.journal.durable
        assert isinstance(durable, TransactionRegistry)
        return durable.by_id.get(record.id) is record
