"""Settlement: what happens to delivered messages. Acked, retried, moved to the dead-letter queue, released, extended.

Here nacks and expired leases become retries (`_retry_or_dead_letter`); the policy is in `retries.py`.

Invariants: a command needs an active lease; an answer is given when its records are durable.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ParamSpec

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.dead_letters import DeadLetterMover
from goqueue.broker.groups.leases import Lease
from goqueue.broker.groups.policies import DeliveryPolicies
from goqueue.broker.groups.records import (
    AnyCursorRecord,
    CursorKey,
    LeaseExtended,
    MessagesRequeued,
    MessagesSettled,
    MoveStarted,
    Range,
    RetryState,
    SettleCause,
)
from goqueue.broker.groups.retries import DeliveryPolicy
from goqueue.broker.groups.settle_commands import (
    SettleCommand,
    lease_expired,
    lease_for_command,
    parse_receipt_handle,
    ranges_to_settle,
)
from goqueue.broker.groups.store import GroupRules, GroupServices
from goqueue.clock import NANOSECONDS
from goqueue.errors import DeadLetterFinal, GoQueueError
from goqueue.events import Signal
from goqueue.limits import REASON_CHARACTERS_MAX, VISIBILITY_SECONDS_MAX
from goqueue.quantities import quoted

_RETRY_NS = NANOSECONDS

P = ParamSpec("P")


@dataclass(slots=True)
class SettleCommandResult:
    requeued: bool = False
    dead_letter_topic: str | None = None
    moved: list[tuple[str, PartitionRef, int]] = field(default_factory=list)
    """Group, partition and offset of messages that are moving to the dead-letter queue."""
    dropped: int = 0
    """Messages that failed for the last time where there is no dead-letter topic."""
    until_ns: int | None = None


SettleCommandReply = SettleCommandResult | GoQueueError
SettleCallback = Callable[[list[SettleCommandReply] | GoQueueError], None]


@dataclass(slots=True)
class SettlementCounts:
    """Messages since the broker started."""

    acks: int = 0
    nacks: int = 0
    rejects: int = 0
    releases: int = 0
    extensions: int = 0
    expiries: int = 0
    dead_letters: int = 0
    drops: int = 0


@dataclass(frozen=True, slots=True)
class DroppedMessages:
    """Messages that were settled without being processed, as the settings of their group or topic say."""

    group: str
    ref: PartitionRef
    ranges: list[Range]
    error: str
    deliveries: int


class Settlement(GroupRules):
    """Settles messages as consumers ask, and when leases expire."""

    def __init__(
        self,
        services: GroupServices,
        policies: DeliveryPolicies,
        dead_letter_mover: DeadLetterMover,
        counts: SettlementCounts,
    ) -> None:
        """`counts` has the messages of all groups."""
        super().__init__(services)
        self._policies = policies
        self._dead_letter_mover = dead_letter_mover
        self.counts = counts
        self.on_room: Signal[[Cursor, str]] = Signal()
        """Called with cursor and member when a member has fewer messages in flight."""
        self.on_due: Signal[[Cursor]] = Signal()
        """Called when messages may be delivered again."""
        self.on_progress: Signal[[Cursor, int]] = Signal()
        """Called with the number of messages that were settled."""
        self.on_dropped: Signal[[DroppedMessages]] = Signal()
        """Called when it is durable that messages were dropped."""
        self._cursor_deadline = self._deadlines.kind(self._handle_deadline)

    # --- commands ---

    def settle(self, group: str, member: str, commands: Sequence[SettleCommand], callback: SettleCallback) -> None:
        """Settle leases of one group. Each command is accepted or refused alone."""
        replies = [
            reply_of(self._execute, self._store.cursor(group, command.ref), member, command) for command in commands
        ]
        self._store.record(group, [], lambda error: callback(error or replies))

    def settle_receipts(
        self, receipts: Sequence[str], member: str | None, template: SettleCommand, callback: SettleCallback
    ) -> None:
        """Settle single messages of any groups of this shard by their receipt handles."""
        is_any = False

        def settle(text: str) -> SettleCommandResult:
            nonlocal is_any
            cursor, command = self._command_for_receipt(text, template)
            is_any = True
            return self._execute(cursor, member, command)

        replies = [reply_of(settle, text) for text in receipts]
        if is_any:
            self._store.when_durable(lambda error: callback(error or replies))
        else:
            callback(replies)

    def _command_for_receipt(self, text: str, template: SettleCommand) -> tuple[Cursor, SettleCommand]:
        receipt = parse_receipt_handle(text)
        found = self._store.lease(receipt.lease)
        if found is None:
            raise lease_expired(f"message {receipt.ref}@{receipt.offset}")
        cursor, lease = found
        expected = (cursor.topic, cursor.partition, lease.grant.deliveries)
        if expected != (receipt.topic, receipt.partition, receipt.deliveries) or not lease.left.get(receipt.offset):
            raise lease_expired(f"message {receipt.ref}@{receipt.offset}")
        delay_ns, reason = template.delay_ns, template.reason
        return cursor, SettleCommand(
            template.action, *receipt.ref, receipt.lease, receipt.ranges, delay_ns, reason, template.timeout_ns
        )

    def _execute(self, cursor: Cursor | None, member: str | None, command: SettleCommand) -> SettleCommandResult:
        lease = lease_for_command(self._store, cursor, member, command, self._clock.now_ns())
        if cursor is None or lease is None:
            return SettleCommandResult()
        if command.action == "extend":
            return self._extend(cursor, lease, command)
        ranges = ranges_to_settle(cursor, lease, command)
        return self._settle_ranges(cursor, lease, ranges, command) if ranges else SettleCommandResult()

    def _settle_ranges(
        self, cursor: Cursor, lease: Lease, ranges: list[Range], command: SettleCommand
    ) -> SettleCommandResult:
        counts, messages = self.counts, sum(lease.left.count_within(first, end) for first, end in ranges)
        match command.action:
            case "ack":
                counts.acks += messages
                self._record(cursor, lease, MessagesSettled(*_key(cursor), ranges=ranges, lease=lease.id))
                self.on_progress.emit(cursor, messages)
                return SettleCommandResult()
            case "release":
                counts.releases += messages
                self._record(cursor, lease, self._requeued(cursor, lease, ranges, self._clock.now_ns(), failed=False))
                return SettleCommandResult(requeued=True)
            case "reject":
                policy = self._policy_of(cursor)
                if policy.is_final:
                    raise DeadLetterFinal(
                        f"topic {quoted(cursor.topic)} is a dead-letter queue, which has no dead-letter queue itself",
                        hint="acknowledge the message, or redrive it to its topic",
                    )
                counts.rejects += messages
                reason = command.reason or "rejected"
                return self._dead_letter_or_drop(cursor, lease, ranges, reason, policy, "reject")
        counts.nacks += messages
        reason = command.reason or "not acknowledged"
        return self._retry_or_dead_letter(cursor, lease, ranges, reason, command.delay_ns, "nack")

    def _retry_or_dead_letter(
        self,
        cursor: Cursor,
        lease: Lease,
        ranges: list[Range],
        error: str,
        delay_ns: int | None,
        cause: SettleCause,
    ) -> SettleCommandResult:
        """Retry failed messages after a backoff, or after the given delay; dead-letter them after the last attempt."""
        failures, policy = lease.grant.failures, self._policy_of(cursor)
        if policy.is_last_attempt(failures):
            return self._dead_letter_or_drop(cursor, lease, ranges, error, policy, cause)
        delay_ns = policy.retry_delay_ns(failures + 1) if delay_ns is None else delay_ns
        due_ns, reason = self._clock.now_ns() + delay_ns, error[:REASON_CHARACTERS_MAX] if cause == "nack" else ""
        requeued = MessagesRequeued(
            *_key(cursor), lease=lease.id, ranges=ranges, due_ns=due_ns, cause=cause, reason=reason
        )
        self._record(cursor, lease, requeued)
        return SettleCommandResult(requeued=True)

    def _requeued(
        self,
        cursor: Cursor,
        lease: Lease,
        ranges: list[Range],
        due_ns: int,
        *,
        failed: bool,
        cause: SettleCause = "",
    ) -> MessagesRequeued:
        return MessagesRequeued(*_key(cursor), lease=lease.id, ranges=ranges, due_ns=due_ns, failed=failed, cause=cause)

    def _policy_of(self, cursor: Cursor) -> DeliveryPolicy:
        return self._policies.of(cursor.group, cursor.topic)

    def _dead_letter_or_drop(
        self,
        cursor: Cursor,
        lease: Lease,
        ranges: list[Range],
        error: str,
        policy: DeliveryPolicy,
        cause: SettleCause,
    ) -> SettleCommandResult:
        """Move messages to the dead-letter topic, or drop them where the policy says so."""
        record = self._last_record(cursor, lease.grant.history, ranges, error, policy, cause, lease.id)
        self._record(cursor, lease, record)
        if not isinstance(record, MoveStarted):
            return SettleCommandResult(dropped=count_offsets(ranges))
        moved = [(cursor.group, cursor.ref, offset) for offset in record.offsets()]
        return SettleCommandResult(dead_letter_topic=record.moves[0][2].topic, moved=moved)

    def _last_record(
        self,
        cursor: Cursor,
        history: RetryState,
        ranges: list[Range],
        error: str,
        policy: DeliveryPolicy,
        cause: SettleCause,
        lease_id: str | None = None,
    ) -> MoveStarted | MessagesSettled:
        """Return the record that ends the deliveries of failed messages."""
        if policy.dead_letter_topic is None:
            self._report_when_durable(DroppedMessages(cursor.group, cursor.ref, ranges, error, history.deliveries))
            reason = error[:REASON_CHARACTERS_MAX]
            return MessagesSettled(*_key(cursor), ranges=ranges, lease=lease_id, cause=cause, reason=reason)
        target = policy.dead_letter_topic
        record = self._dead_letter_mover.start_move(cursor, target, history, ranges, error, lease_id, cause)
        self.counts.dead_letters += len(record.offsets())
        return record

    def _report_when_durable(self, dropped: DroppedMessages) -> None:
        """Count dropped messages, and report them, with the record that comes next."""

        def durable(error: GoQueueError | None) -> None:
            if error is None:
                self.counts.drops += count_offsets(dropped.ranges)
                self.on_dropped.emit(dropped)

        with suppress(GoQueueError):  # the log accepts nothing now, and they are not dropped either
            self._store.record(dropped.group, [], durable)

    def _extend(self, cursor: Cursor, lease: Lease, command: SettleCommand) -> SettleCommandResult:
        latest_ns = lease.grant.given_ns + round(VISIBILITY_SECONDS_MAX * NANOSECONDS)
        until_ns = min(self._clock.now_ns() + command.timeout_ns, latest_ns)
        self.counts.extensions += 1
        self._record(cursor, lease, LeaseExtended(*_key(cursor), lease=lease.id, until_ns=until_ns))
        return SettleCommandResult(until_ns=until_ns)

    def _record(self, cursor: Cursor, lease: Lease, record: AnyCursorRecord) -> None:
        member = lease.grant.member
        self._store.record(cursor.group, [record])
        if isinstance(record, MoveStarted):
            self._dead_letter_mover.queue(cursor)
        self.arm_deadline(cursor)
        self.on_room.emit(cursor, member)

    # --- deadlines ---

    def arm_deadline(self, cursor: Cursor) -> None:
        """Handle the cursor when its next lease expires or its next retry is due."""
        moment = _next_moment(cursor)
        if moment is not None:
            self._deadlines.add(moment, self._cursor_deadline, (cursor.group, cursor.ref))

    def _handle_deadline(self, key: CursorKey) -> int | None:
        group, ref = key
        cursor = self._store.cursor(group, ref)
        if cursor is None:
            return None
        now_ns = self._clock.now_ns()
        for lease in cursor.leases.expired(now_ns):
            self.counts.expiries += lease.left.count
            error = "the visibility timeout has passed"
            self._retry_or_dead_letter(cursor, lease, lease.ranges(), error, 0, "timeout")
        due = cursor.waiting.next_due()
        if due is None or due[0] > now_ns:
            return _next_moment(cursor)
        self.on_due.emit(cursor)
        later = cursor.leases.next_expiry()
        if self._store.keeps_key_order(group):  # a due retry may have to wait for a later one
            moments = [history.due_ns for _, _, history in cursor.waiting.runs() if history.due_ns > now_ns]
            later = min([*moments, *([] if later is None else [later])], default=None)
        return later  # the poll that gets the due messages arms the next deadline

    def rearm_deadlines(self, group: str) -> None:
        """After the disk refused records: leases that were undone to active may have expired meanwhile."""
        soon_ns = self._clock.now_ns() + _RETRY_NS
        for cursor in self._store.cursors(group).values():
            if (moment := _next_moment(cursor)) is not None:
                self._deadlines.add(max(moment, soon_ns), self._cursor_deadline, (cursor.group, cursor.ref))

    # --- leases that end otherwise ---

    def return_lease(self, lease_id: str) -> None:
        """Release a lease whose poll was cancelled before it was answered."""
        found = self._store.lease(lease_id)
        if found is not None:
            cursor, lease = found
            self._record(
                cursor, lease, self._requeued(cursor, lease, lease.ranges(), self._clock.now_ns(), failed=False)
            )

    def dead_letter_aborted(
        self, cursor: Cursor, acked: Iterable[tuple[int, int, RetryState]]
    ) -> list[AnyCursorRecord]:
        """Return records that give up messages of an aborted transaction that were on their last attempt."""
        last: dict[RetryState, list[Range]] = {}
        policy = self._policy_of(cursor)
        for first, end, history in acked:
            if history.deliveries and policy.is_last_attempt(history.failures):
                last.setdefault(history, []).append((first, end))
        records: list[AnyCursorRecord] = []
        for history, ranges in last.items():
            records.append(self._last_record(cursor, history, ranges, "its transaction was aborted", policy, "aborted"))
            self._dead_letter_mover.queue(cursor)
        return records

    def release_leases(self, cursor: Cursor, failed: bool) -> list[AnyCursorRecord]:
        """Return records that end all leases of a cursor, as failures or not."""
        records: list[AnyCursorRecord] = []
        policy, cause = self._policy_of(cursor), _gone(failed=failed)
        now_ns = self._clock.now_ns()  # the same for all, so that they come again in the order of their offsets
        for lease in cursor.leases.values():
            if failed and policy.is_last_attempt(lease.grant.failures):
                error, history = "its consumer is gone", lease.grant.history
                records.append(self._last_record(cursor, history, lease.ranges(), error, policy, cause, lease.id))
                self._dead_letter_mover.queue(cursor)
            else:
                records.append(self._requeued(cursor, lease, lease.ranges(), now_ns, failed=failed, cause=cause))
        return records


def reply_of(settle: Callable[P, SettleCommandResult], *args: P.args, **kwargs: P.kwargs) -> SettleCommandReply:
    """Return the result of a command, or the error that refuses it."""
    try:
        return settle(*args, **kwargs)
    except GoQueueError as error:
        return error


def count_offsets(ranges: Iterable[Range]) -> int:
    return sum(end - first for first, end in ranges)


def _gone(*, failed: bool) -> SettleCause:
    return "member_gone" if failed else ""


def _next_moment(cursor: Cursor) -> int | None:
    due = cursor.waiting.next_due()
    moments = [cursor.leases.next_expiry(), due[0] if due else None]
    return min((moment for moment in moments if moment is not None), default=None)


def _key(cursor: Cursor) -> tuple[str, str, int]:
    return cursor.group, cursor.topic, cursor.partition
