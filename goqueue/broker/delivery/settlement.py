"""What becomes of messages that were handed out: done, to be tried again, a dead letter, given back, or kept longer.

What must stay true: who speaks of a message has a lease of it that stands; what was answered is durable.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from goqueue.broker.deadlines import Deadlines
from goqueue.broker.delivery.changes import (
    CursorChange,
    Departed,
    Extended,
    Place,
    Range,
    Requeued,
    Retry,
    Settled,
)
from goqueue.broker.delivery.claims import Statement, expired, lease_of, left_of
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.deadletter import Undertaker
from goqueue.broker.delivery.lease import Lease
from goqueue.broker.delivery.receipt import parse_receipt
from goqueue.broker.delivery.rules import Rules
from goqueue.broker.groups.ledger import Ledger
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import DeadLetterFinal, GoQueueError
from goqueue.limits import VISIBILITY_SECONDS_MAX
from goqueue.quantities import quoted

_AGAIN_NS = NANOSECONDS


@dataclass(slots=True)
class Outcome:
    """What came of a statement."""

    requeued: bool = False
    dead_letter_topic: str | None = None
    moved: list[tuple[str, Place, int]] = field(default_factory=list)
    """The group, place and offset of messages that are on their way to the dead letters."""
    until_ns: int | None = None


Verdict = Outcome | GoQueueError
Told = Callable[[list[Verdict] | GoQueueError], None]


@dataclass(slots=True)
class Counts:
    """Since the broker started."""

    acks: int = 0
    nacks: int = 0
    rejects: int = 0
    releases: int = 0
    extensions: int = 0
    expiries: int = 0
    dead_letters: int = 0


class Settlement:
    """Takes statements, and speaks for those who say nothing in time."""

    def __init__(
        self, ledger: Ledger, clock: Clock, deadlines: Deadlines, rules: Rules, undertaker: Undertaker
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._deadlines = deadlines
        self._rules = rules
        self._undertaker = undertaker
        self.counts = Counts()
        self.on_room: Callable[[Cursor, str], None] = lambda _, __: None
        """Called when a member has less in hand, with the place and the member."""
        self.on_due: Callable[[Cursor], None] = lambda _: None
        """Called when messages of a place may be handed out again."""
        self.on_progress: Callable[[Cursor, int], None] = lambda _, __: None
        """Called when messages are done, with how many."""
        self._attention = deadlines.kind(self._attend)

    # --- what consumers say ---

    def settle(self, group: str, member: str, statements: Sequence[Statement], told: Told) -> None:
        """Of leases of one group: each statement is taken or refused for itself."""
        verdicts: list[Verdict] = []
        for statement in statements:
            cursor = self._ledger.cursor(group, (statement.topic, statement.partition))
            try:
                verdicts.append(self._take(cursor, member, statement))
            except GoQueueError as error:
                verdicts.append(error)
        self._ledger.record(group, [], lambda error: told(error or verdicts))

    def settle_receipts(self, receipts: Sequence[str], member: str | None, template: Statement, told: Told) -> None:
        """Of single messages, whatever group they were handed to."""
        verdicts: list[Verdict] = []
        groups: dict[str, None] = {}
        for text in receipts:
            try:
                cursor, statement = self._understood(text, template)
                verdicts.append(self._take(cursor, member, statement))
                groups[cursor.group] = None
            except GoQueueError as error:
                verdicts.append(error)
        self._ledger.when_durable(groups, lambda error: told(error or verdicts))

    def _understood(self, text: str, template: Statement) -> tuple[Cursor, Statement]:
        receipt = parse_receipt(text)
        found = self._ledger.lease(receipt.lease)
        if found is None:
            raise expired(f"message {receipt.topic}/{receipt.partition}@{receipt.offset}")
        cursor, lease = found
        said = (cursor.topic, cursor.partition, lease.grant.deliveries)
        if said != (receipt.topic, receipt.partition, receipt.deliveries) or not lease.left.get(receipt.offset):
            raise expired(f"message {receipt.topic}/{receipt.partition}@{receipt.offset}")
        ranges = ((receipt.offset, receipt.offset + 1),)
        return cursor, Statement(
            template.verb,
            receipt.topic,
            receipt.partition,
            receipt.lease,
            ranges,
            template.delay_ns,
            template.reason,
            template.timeout_ns,
        )

    def _take(self, cursor: Cursor | None, member: str | None, statement: Statement) -> Outcome:
        """Decide and record one statement."""
        lease = lease_of(self._ledger, cursor, member, statement, self._clock.now_ns())
        if cursor is None or lease is None:
            return Outcome()
        if statement.verb == "extend":
            return self._extend(cursor, lease, statement)
        ranges = left_of(cursor, lease, statement)
        return self._settled(cursor, lease, ranges, statement) if ranges else Outcome()

    def _settled(self, cursor: Cursor, lease: Lease, ranges: list[Range], statement: Statement) -> Outcome:
        counts, messages = self.counts, sum(lease.left.count_within(first, end) for first, end in ranges)
        match statement.verb:
            case "ack":
                counts.acks += messages
                self._record(cursor, lease, Settled(*_of(cursor), ranges=ranges, lease=lease.id))
                self.on_progress(cursor, messages)
                return Outcome()
            case "release":
                counts.releases += messages
                change = Requeued(
                    *_of(cursor), lease=lease.id, ranges=ranges, due_ns=self._clock.now_ns(), failed=False
                )
                self._record(cursor, lease, change)
                return Outcome(requeued=True)
            case "reject":
                if not self._undertaker.may_bury(cursor.topic):
                    raise DeadLetterFinal(
                        f"topic {quoted(cursor.topic)} holds dead letters: they have no dead letters of their own",
                        hint="acknowledge it, or send it back to where it came from",
                    )
                counts.rejects += messages
                return self._bury(cursor, lease, ranges, statement.reason or "rejected")
        counts.nacks += messages
        return self._fail(cursor, lease, ranges, statement.reason or "not acknowledged", statement.delay_ns)

    def _fail(self, cursor: Cursor, lease: Lease, ranges: list[Range], error: str, delay_ns: int | None) -> Outcome:
        """They are tried again later, or were tried often enough."""
        failures = lease.grant.failures
        if self._rules.is_last(failures) and self._undertaker.may_bury(cursor.topic):
            return self._bury(cursor, lease, ranges, error)
        delay_ns = self._rules.retry_delay_ns(failures + 1) if delay_ns is None else delay_ns
        due_ns = self._clock.now_ns() + delay_ns
        self._record(cursor, lease, Requeued(*_of(cursor), lease=lease.id, ranges=ranges, due_ns=due_ns))
        return Outcome(requeued=True)

    def _bury(self, cursor: Cursor, lease: Lease, ranges: list[Range], error: str) -> Outcome:
        change = self._undertaker.departure(cursor, lease.grant.tried, ranges, error, lease.id)
        offsets = change.offsets()
        self.counts.dead_letters += len(offsets)
        self._record(cursor, lease, change)
        moved = [(cursor.group, cursor.place, offset) for offset in offsets]
        return Outcome(dead_letter_topic=change.moves[0][2].topic, moved=moved)

    def _extend(self, cursor: Cursor, lease: Lease, statement: Statement) -> Outcome:
        now_ns = self._clock.now_ns()
        latest_ns = lease.grant.given_ns + round(VISIBILITY_SECONDS_MAX * NANOSECONDS)
        until_ns = min(now_ns + statement.timeout_ns, latest_ns)
        self.counts.extensions += 1
        self._record(cursor, lease, Extended(*_of(cursor), lease=lease.id, until_ns=until_ns))
        return Outcome(until_ns=until_ns)

    def _record(self, cursor: Cursor, lease: Lease, change: CursorChange) -> None:
        member = lease.grant.member
        self._ledger.record(cursor.group, [change])
        if isinstance(change, Departed):
            self._undertaker.call(cursor)
        self.attend(cursor)
        self.on_room(cursor, member)

    # --- what happens by itself ---

    def attend(self, cursor: Cursor) -> None:
        """Look at this place again when a lease of it ends, or a message is due."""
        moment = _next_moment(cursor)
        if moment is not None:
            self._attend_at(cursor, moment)

    def _attend_at(self, cursor: Cursor, moment: int) -> None:
        self._deadlines.add(moment, self._attention, f"{cursor.group}/{cursor.topic}/{cursor.partition}")

    def _attend(self, key: str) -> int | None:
        group, topic, partition = key.split("/")
        cursor = self._ledger.cursor(group, (topic, int(partition)))
        if cursor is None:
            return None
        now_ns = self._clock.now_ns()
        for lease in cursor.expired(now_ns):
            self.counts.expiries += lease.left.count
            self._fail(cursor, lease, lease.ranges(), "the visibility timeout has passed", 0)
        due = cursor.next_due()
        if due is None or due[0] > now_ns:
            return _next_moment(cursor)
        self.on_due(cursor)
        later = cursor.next_expiry()
        if self._ledger.ordered(group):  # what is due may have to wait for what is due later
            moments = [retry.due_ns for _, _, retry in cursor.waiting.runs() if retry.due_ns > now_ns]
            later = min([*moments, *([] if later is None else [later])], default=None)
        return later  # whoever is handed out what is due looks for the next

    def attend_again(self, group: str) -> None:
        """The disk has refused something: what was handed out before is leased still, and may be over meanwhile."""
        soon_ns = self._clock.now_ns() + _AGAIN_NS
        for cursor in self._ledger.cursors(group).values():
            if (moment := _next_moment(cursor)) is not None:
                self._attend_at(cursor, max(moment, soon_ns))

    def give_back(self, lease_id: str) -> None:
        """Whoever asked for these messages has left before they were handed out."""
        found = self._ledger.lease(lease_id)
        if found is not None:
            cursor, lease = found
            change = Requeued(
                *_of(cursor), lease=lease_id, ranges=lease.ranges(), due_ns=self._clock.now_ns(), failed=False
            )
            self._record(cursor, lease, change)

    def burials(self, cursor: Cursor, failed: Iterable[tuple[int, int, Retry]]) -> list[CursorChange]:
        """Of what has failed in a transaction, and stood so before, what was tried often enough leaves."""
        last: dict[Retry, list[Range]] = {}
        for first, end, tried in failed if self._undertaker.may_bury(cursor.topic) else ():
            if tried.deliveries and self._rules.is_last(tried.failures):
                last.setdefault(tried, []).append((first, end))
        changes: list[CursorChange] = []
        for tried, ranges in last.items():
            departed = self._undertaker.departure(cursor, tried, ranges, "its transaction was aborted")
            self.counts.dead_letters += len(departed.offsets())
            self._undertaker.call(cursor)
            changes.append(departed)
        return changes

    def release(self, cursor: Cursor, failed: bool) -> list[CursorChange]:
        """The records that take all that is in hand at a place from its member."""
        changes: list[CursorChange] = []
        now_ns = self._clock.now_ns()
        for lease in cursor.leases.values():
            if failed and self._rules.is_last(lease.grant.failures) and self._undertaker.may_bury(cursor.topic):
                tried, error = lease.grant.tried, "its consumer is gone"
                departed = self._undertaker.departure(cursor, tried, lease.ranges(), error, lease.id)
                self.counts.dead_letters += len(departed.offsets())
                changes.append(departed)
                self._undertaker.call(cursor)
            else:
                changes.append(
                    Requeued(*_of(cursor), lease=lease.id, ranges=lease.ranges(), due_ns=now_ns, failed=failed)
                )
        return changes


def _next_moment(cursor: Cursor) -> int | None:
    due = cursor.next_due()
    moments = [cursor.next_expiry(), due[0] if due else None]
    return min((moment for moment in moments if moment is not None), default=None)


def _of(cursor: Cursor) -> tuple[str, str, int]:
    return cursor.group, cursor.topic, cursor.partition
