"""Transactions: who may do what in which, what has to be durable before what, and how each comes to its end.

Silent and synchronous. The shell's duties: call `commit` soon after `on_gathered`, and `deadlines.call_due` when the
moment of `deadlines.next_ns` has come; carry out `ending.recover()` after the start, and `ending.carry_out(name)`
after `on_decided`; keep what `on_wait` is called with a moment later.

What must stay true: what a transaction is about to touch is durable here before it touches it; a call changes
something only with the epoch of the transaction that it means; what was decided stays so.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, takewhile

from msgspec.structs import replace

from goqueue.broker.journal import Journal
from goqueue.broker.producer_ids import ProducerIds
from goqueue.broker.producers import Mark, never_given
from goqueue.broker.sync import all_synced, synced
from goqueue.broker.transactions import refusals
from goqueue.broker.transactions.counts import Counts
from goqueue.broker.transactions.patience import Patience
from goqueue.broker.transactions.places import Places
from goqueue.broker.transactions.records import (
    Ended,
    Forgotten,
    Record,
    Registered,
    Spot,
    Touched,
    check_transactional_id,
    decode_record,
    encode_record,
)
from goqueue.broker.transactions.register import Register
from goqueue.broker.transactions.remains import Remains
from goqueue.broker.transactions.states import OPEN, PREPARED, following
from goqueue.broker.transactions.whose import Whose
from goqueue.broker.work import Promise, Work
from goqueue.clock import NANOSECONDS, Clock, SteadyClock
from goqueue.errors import GoQueueError
from goqueue.limits import (
    EPOCH_MAX,
    TRANSACTION_PARTICIPANTS_MAX,
    TRANSACTION_RETENTION_SECONDS,
    TRANSACTIONAL_IDS_FORGOTTEN,
    TRANSACTIONAL_IDS_MAX,
)
from goqueue.storage.chunk import Acknowledge
from goqueue.storage.disk import Disk
from goqueue.storage.log import Log

_KEPT_NS = TRANSACTION_RETENTION_SECONDS * NANOSECONDS


class TransactionCoordinator:
    """The transactions of one broker."""

    def __init__(self, log: Log, disk: Disk, places: Places, clock: Clock, ids: ProducerIds) -> None:
        self.register = Register()
        self.places = places
        self.clock = SteadyClock(clock, log.last_time)
        self.trusted_ns = self.clock.now_ns
        """Wall time as far as it is believed: no id is forgotten for a clock that has jumped ahead."""
        self.counts = Counts()
        self.on_gathered: Callable[[], object] = lambda: None
        """Called when something waits for `commit`."""
        self.on_decided: Callable[[str], None] = lambda _: None
        """Called with the id of a transaction whose end is decided durably: it is to be carried out."""
        self.on_ended: Callable[[Ended], None] = lambda _: None
        self.on_wait: Callable[[Promise[None]], None] = lambda promise: promise(None)
        """Called with what is to be kept in a moment: then it is looked again whether something was synced."""
        # A snapshot is all ids, so what a crash has to read is bounded by compaction instead.
        self.journal: Journal[Record] = Journal(log, disk, self.register, encode_record, decode_record, snapshots=False)
        self.patience = Patience(self.register, self.clock, self._give_up, self._go_on)
        self.deadlines = self.patience.deadlines
        self._ids = ids
        self._closing: set[str] = set()
        """Those that are about to be committed."""
        self._left_over: dict[str, Whose] = {}
        """Those that were ongoing at the start: nothing can commit them any more."""
        self._waiting: dict[str, list[Promise[Ended]]] = {}
        """Those who want to know how it ended, when it has everywhere."""
        self.remains = Remains()

    def open(self) -> None:
        """Make the state from the log; where something may be open that is not found yet, nobody reads on."""
        self.journal.open()
        if records := self.remains.mend(self.register, self.journal):
            self.record(records, self.journal.fence_where_refused)
            self.commit()
        for record in self.register.open_ones():
            if record.state == "ongoing":
                self._left_over[record.id] = record.whose
            for touched in record.partitions:
                partition = self.places.partition(touched)
                if partition is not None:
                    end = partition.log_end
                    partition.open.hold(min(touched.since, end), end)
        self.remains.hold_unknown(self.journal, self.places.partitions())

    def close(self) -> None:
        """Write the snapshot that makes the next start quick."""
        self.journal.snapshot()

    def commit(self) -> None:
        self.journal.commit()

    # --- producers ---

    def init(self, name: str, timeout_ns: int, former: Whose | None = None) -> Work[Registered]:
        """A producer with this id. Whoever had it before is fenced, and what it has left open is aborted.

        With what it had itself it goes on, unless it is the one that was fenced meanwhile.
        """
        check_transactional_id(name)
        while True:
            known = self.register.by_id.get(name)
            if known is not None and former is not None:
                if known.former == former and known.state == "empty":  # its answer was lost
                    yield self._durable([])
                    return known
                refusals.refuse_unless_former(known, former)
            if known is None and former is not None and not self._ids.has_given(former.producer):
                raise never_given(former.producer)
            if known is not None and known.state in OPEN:
                yield from self._end_of(known, refusals.FENCED)
                continue
            if known is None and len(self.register) >= TRANSACTIONAL_IDS_MAX:
                raise refusals.too_many_ids()
            record = yield from self._raised(name, known, timeout_ns, former)
            if self.register.by_id.get(name) is known:
                yield self._durable([record])
                yield from self._synced()  # an epoch is given out once, whatever a crash takes
                return record

    def _end_of(self, known: Registered, reason: str) -> Work[None]:
        """Abort it, unless it is ending already; go on when it has ended."""
        ended = self._completion(known.id)
        if known.state == "ongoing":
            self.prepare(known, is_commit=False, reason=reason)
        yield ended

    def _raised(self, name: str, known: Registered | None, timeout_ns: int, former: Whose | None) -> Work[Registered]:
        """As it is after `init`.

        What was registered before the start may have gone on in another copy of the directory, if this one was
        restored: none of those epochs may be given out here once more.
        """
        last = known.last if known is not None else None
        is_followed = known is not None and self._ids.is_of_start(known.producer)
        whose = yield from self.next_whose(known if is_followed else None)
        earlier = known.before(whose) if known is not None else []
        now_ns = self.clock.now_ns()
        return Registered(name, *whose, "empty", timeout_ns, now_ns, last=last, former=former, earlier=earlier)

    def next_whose(self, known: Registered | None) -> Work[Whose]:
        """The next epoch; with the largest one the producer's numbers are used up, and it gets another."""
        step = 1 + self.remains.epochs_lost(known)
        if known is not None and known.epoch + step <= EPOCH_MAX:
            return Whose(known.producer, known.epoch + step)
        given: Promise[int] = Promise()
        self._ids.give(given)
        producer: int = yield given
        return Whose(producer, 0)

    def heartbeat(self, whose: Whose, name: str | None) -> None:
        """It is alive."""
        self.current(whose, name)

    def refuse_outside(self, mark: Mark) -> None:
        """A producer with a transactional id publishes in transactions."""
        known = self.register.of_producer(mark.producer)
        if known is not None:
            raise refusals.outside(known, mark.producer)

    # --- while it is open ---

    def begin(self, whose: Whose, name: str) -> Work[Registered]:
        return (yield from self.enlist(whose, (), name=name, begin=True))

    def enlist(
        self,
        whose: Whose,
        spots: Iterable[Spot],
        *,
        name: str | None = None,
        begin: bool = False,
        groups: Sequence[str] = (),
        members: Sequence[int] = (),
    ) -> Work[Registered]:
        """Go on when it is durable that the transaction touches all of this; what then follows at once is in time."""
        known = self.current(whose, name)
        record = self._begun(known) if begin and known.state not in OPEN else known
        self._refuse_unless_ongoing(record)
        touched = self._touched_anew(record, spots)
        groups = [group for group in dict.fromkeys(groups) if group not in record.groups]
        if touched or groups or members:
            record = replace(
                record,
                partitions=[*record.partitions, *touched],
                groups=[*record.groups, *groups],
                members=[*record.members, *members],
            )
            if len(record.partitions) + len(record.groups) + len(record.members) > TRANSACTION_PARTICIPANTS_MAX:
                raise refusals.too_large(record)
        if record is not known:
            yield self._durable([record])
        elif not self.is_recorded(record):
            yield self._durable([])
        yield from self._synced()
        return self.ongoing(whose)

    def _begun(self, known: Registered) -> Registered:
        now_ns = self.clock.now_ns()
        self.patience.begin(known, now_ns)
        return Registered(
            known.id,
            *known.whose,
            following(known.state, "begin"),
            known.timeout_ns,
            now_ns,
            began_ns=now_ns,
            last=known.last,
            earlier=known.earlier,
        )

    def _touched_anew(self, record: Registered, spots: Iterable[Spot]) -> list[Touched]:
        """What of this it has not touched yet. A topic that was made anew meanwhile is another one."""
        found = ((spot, *self.places.find(spot)) for spot in dict.fromkeys(spots))
        wanted = {(spot, topic_ns): partition for spot, partition, topic_ns in found}
        for touched in record.partitions if wanted else ():
            wanted.pop((touched.spot, touched.topic_ns), None)
        for partition in wanted.values():
            partition.log.refuse_unless_open()
        return [Touched(*place, partition.log_end) for place, partition in wanted.items()]

    def join(self, whose: Whose, name: str | None, *, begin: bool) -> Work[tuple[Registered, int]]:
        """Another producer, whose messages are of this transaction if they count at its end."""
        self.current(whose, name)
        given: Promise[int] = Promise()
        self._ids.give(given)
        member: int = yield given
        record = yield from self.enlist(whose, (), name=name, begin=begin, members=[member])
        return record, member

    def current(self, whose: Whose, name: str | None = None) -> Registered:
        """What is known of it, once it is sure that this call is not too late; it is a sign of life."""
        known = self.register.of_producer(whose.producer)
        if known is None or known.producer != whose.producer:
            had = known if known is not None and whose.producer in known.earlier else None
            known = self.register.by_id.get(name) if name is not None else had
            raise self._unknown(whose, name, known)
        if name is not None and name != known.id:
            raise self._unknown(whose, name, self.register.by_id.get(name))
        if known.epoch != whose.epoch:
            raise refusals.of_another_epoch(known, whose)
        self.patience.hear(known.id)
        return known

    def _unknown(self, whose: Whose, name: str | None, known: Registered | None) -> GoQueueError:
        """Tells first of the producer that has taken the name over: only that ends the one that had it before."""
        if known is None and not self._ids.has_given(whose.producer):
            return never_given(whose.producer)
        return refusals.unknown(whose, name, known)

    def ongoing(self, whose: Whose) -> Registered:
        """The transaction, as long as it is open."""
        known = self.current(whose)
        self._refuse_unless_ongoing(known)
        if known.id in self._closing:
            raise refusals.closing(known)
        return known

    def _refuse_unless_ongoing(self, known: Registered) -> None:
        if self.is_left_over(known):
            raise refusals.aborted(known.whose, refusals.RESTART)
        refusals.refuse_unless_ongoing(known)

    def is_left_over(self, known: Registered) -> bool:
        """Whether a start has found it ongoing: a crash may have taken a part of it, so it is as good as aborted."""
        return known.state == "ongoing" and self._left_over.get(known.id) == known.whose

    def check_mark(self, whose: Whose, mark: Mark) -> None:
        """Refuse a batch of somebody who does not belong to it."""
        record = self.ongoing(whose)
        is_member = mark.epoch == 0 and mark.producer in record.members
        if (mark.producer, mark.epoch) != whose and not is_member:
            raise refusals.foreign_mark(whose, mark)

    # --- the end ---

    def end(
        self,
        whose: Whose,
        name: str,
        *,
        is_commit: bool,
        counted: list[int] | None = None,
        note: str = "",
        reason: str = refusals.ASKED,
    ) -> Work[Ended]:
        """Decide it, and go on when it has ended everywhere; asked again, the answer is the same."""
        known = self._to_end(whose, name, is_commit=is_commit)
        if is_commit and isinstance(known, Registered) and known.state == "ongoing":
            if counted is not None and (strangers := set(counted) - set(known.members)):
                raise refusals.no_members(known, sorted(strangers))
            yield from self._secure(known)
            known = self._to_end(whose, name, is_commit=is_commit)
        if isinstance(known, Ended):
            return known
        ended = self._completion(name)
        if known.state == "ongoing":
            self.prepare(known, is_commit=is_commit, counted=counted, note=note, reason="" if is_commit else reason)
        result: Ended = yield ended
        return result

    def _to_end(self, whose: Whose, name: str, *, is_commit: bool) -> Registered | Ended:
        """The transaction while it is open, or how it has ended if that is what is asked for."""
        known = self.register.by_id.get(name)
        if known is None:
            raise self._unknown(whose, name, None)
        if known.last is not None and known.last.whose == whose:
            return refusals.answered_again(known.last, is_commit=is_commit)
        if known.whose != whose:
            raise refusals.of_another_epoch(known, whose)
        if known.state in PREPARED and (known.state == "prepare_commit") != is_commit:
            raise refusals.decided_otherwise(known)
        if known.state not in OPEN:
            raise refusals.not_open(known)
        if is_commit and self.is_left_over(known):
            raise refusals.aborted(known.whose, refusals.RESTART)
        return known

    def _secure(self, known: Registered) -> Work[None]:
        """What is to be committed is on the device before the decision can be, else a crash behind that could take a
        part of it; nothing more comes to it meanwhile."""
        self._closing.add(known.id)
        self.patience.hear(known.id)
        try:
            yield from all_synced(self.places.logs(known), self.on_wait)
        finally:
            self._closing.discard(known.id)

    def _synced(self) -> Work[None]:
        """What was recorded is on the device."""
        yield from synced(self.journal.log, self.journal.log.readable_end, self.on_wait)

    def prepare(
        self,
        known: Registered,
        *,
        is_commit: bool,
        counted: list[int] | None = None,
        note: str = "",
        reason: str = "",
    ) -> None:
        """Decide how it ends."""
        record = self.prepared(known, is_commit=is_commit, counted=counted, note=note, reason=reason)

        def settled(error: GoQueueError | None) -> None:
            if error is None:
                self.on_decided(known.id)
            else:
                self.tell(known.id, error)

        try:
            self.record([record], settled)
        except GoQueueError as error:
            self.tell(known.id, error)
            raise

    def prepared(
        self,
        known: Registered,
        *,
        is_commit: bool,
        counted: list[int] | None = None,
        note: str = "",
        reason: str = "",
    ) -> Registered:
        return replace(
            known,
            state=following(known.state, "commit" if is_commit else "abort"),
            changed_ns=self.clock.now_ns(),
            counted=counted,
            note=note,
            reason=reason,
        )

    def completed(self, prepared: Registered, following_one: Whose) -> Registered:
        """As it is when it has ended everywhere."""
        now_ns = self.clock.now_ns()
        state = following(prepared.state, "complete")
        last = Ended(prepared.whose, state, prepared.began_ns, now_ns, prepared.reason, prepared.note)
        earlier = prepared.before(following_one)
        return Registered(prepared.id, *following_one, state, prepared.timeout_ns, now_ns, last=last, earlier=earlier)

    def has_ended(self, record: Registered) -> None:
        """Count it, and tell those who wait for it."""
        assert record.last is not None, "one has just ended"
        self.patience.end(record.id)
        self.counts.note(record.last)
        self.on_ended(record.last)
        self.tell(record.id, record.last)

    def _completion(self, name: str) -> Promise[Ended]:
        promise: Promise[Ended] = Promise()
        self._waiting.setdefault(name, []).append(promise)
        return promise

    def tell(self, name: str, result: Ended | GoQueueError) -> None:
        for promise in self._waiting.pop(name, ()):
            promise(result)

    def _give_up(self, known: Registered) -> None:
        self.prepare(known, is_commit=False, reason=refusals.TIMEOUT)

    def _go_on(self, name: str) -> None:
        self.on_decided(name)

    def forget_unused(self) -> None:
        """Some of the ids that have not been used for long, for a clock that may have jumped ahead as well."""
        before = min(self.clock.now_ns(), self.trusted_ns()) - _KEPT_NS
        old = takewhile(lambda one: one.changed_ns < before, self.register.by_id.values())
        unused = islice((one for one in old if one.state not in OPEN), TRANSACTIONAL_IDS_FORGOTTEN)
        if forgotten := [Forgotten(one.id) for one in unused]:
            self.record(forgotten, lambda _: None)

    # --- record ---

    def record(self, records: Sequence[Record], done: Acknowledge) -> None:
        """They hold from now on; `done` hears when they are durable, or that they were taken back."""
        self.journal.log.refuse_unless_open()
        if self.journal.add(records, done):
            self.on_gathered()

    def _durable(self, records: Sequence[Record]) -> Promise[None]:
        durable: Promise[None] = Promise()
        self.record(records, durable)
        return durable

    def is_recorded(self, record: Registered) -> bool:
        """Whether nothing can take it back: what was decided holds for whoever asks, and is not carried out before."""
        durable = self.journal.durable
        assert isinstance(durable, Register)
        return durable.by_id.get(record.id) is record

    def __repr__(self) -> str:
        return f"<TransactionCoordinator {len(self.register)} ids, {len(self.register.opened)} open>"
