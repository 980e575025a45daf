"""Settle commands of consumers (ack, nack, reject, release, extend), and the checks that accept or refuse them.

Invariant: a command needs an active lease of its messages, or repeats an ack. In a transaction, only an ack of the same
delivery in the same transaction can be repeated: messages that another lease has settled were processed there, and
would count twice if this transaction were committed as well.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.ranges import RangeMap
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.leases import Lease
from goqueue.broker.groups.records import LeaseGrant, Range, TransactionAck
from goqueue.broker.groups.store import GroupStore
from goqueue.errors import LeaseExpired, ReceiptInvalid
from goqueue.quantities import quoted
from goqueue.wire.leases import receipt_handle

SettleAction = Literal["ack", "nack", "reject", "release", "extend"]

_RECEIPT = re.compile(
    r"([A-Za-z0-9._-]{1,255}):(0|[1-9]\d{0,8}):(0|[1-9]\d{0,18}):([1-9]\d{0,8}):([0-9a-z]{33})", re.ASCII
)


class ReceiptHandle(NamedTuple):
    """The name of one delivery of one message: `topic:partition:offset:deliveries:lease`.

    The lease id cannot be guessed. The other fields must match the delivery that it stands for.
    """

    topic: str
    partition: int
    offset: int
    deliveries: int
    lease: str

    @property
    def ref(self) -> PartitionRef:
        return PartitionRef(self.topic, self.partition)

    @property
    def ranges(self) -> tuple[Range, ...]:
        return ((self.offset, self.offset + 1),)

    def __str__(self) -> str:
        return receipt_handle(*self)


def parse_receipt_handle(text: str) -> ReceiptHandle:
    found = _RECEIPT.fullmatch(text)
    if found is None:
        raise ReceiptInvalid(
            f"{quoted(text[:120])} is not a receipt handle",
            hint="send the receipt_handle of a message as the poll returned it",
        )
    topic, partition, offset, deliveries, lease = found.groups()
    return ReceiptHandle(topic, int(partition), int(offset), int(deliveries), lease)


@dataclass(frozen=True, slots=True)
class SettleCommand:
    """A consumer's request about messages of one lease."""

    action: SettleAction
    topic: str
    partition: int
    lease: str
    ranges: tuple[Range, ...] = ()
    delay_ns: int | None = None
    reason: str | None = None
    timeout_ns: int = 0

    @property
    def ref(self) -> PartitionRef:
        return PartitionRef(self.topic, self.partition)


def lease_for_command(
    store: GroupStore, cursor: Cursor | None, member: str | None, command: SettleCommand, now_ns: int
) -> Lease | None:
    """Return the lease of a command; None for an ack of messages that are settled already, by whatever lease."""
    lease = active_lease(cursor, member, command, now_ns)
    if lease is None:
        lane = store.lane_of(command.lease)
        if cursor is None or command.action != "ack" or not _all_settled(cursor, command.ranges, lane):
            raise lease_expired(str(command.ref))
    return lease


def active_lease(cursor: Cursor | None, member: str | None, command: SettleCommand, now_ns: int) -> Lease | None:
    """Return the lease of a command, which must be the member's; None when it has ended."""
    lease = cursor.leases.get(command.lease) if cursor is not None else None
    if lease is None or lease.until_ns <= now_ns:
        return None
    if member is not None and lease.grant.member != member:
        raise LeaseExpired(
            f"these messages of {command.ref} are not leased to {quoted(member)}",
            hint="another member has them now; do not settle them",
        )
    return lease


def ranges_to_settle(cursor: Cursor, lease: Lease, command: SettleCommand) -> list[Range]:
    """Return what is left to settle of the ranges; an ack may name settled messages again."""
    grant = lease.grant
    if command.ranges == ((grant.first, grant.end),) and lease.left.count == grant.messages:
        return [(grant.first, grant.end)] if command.action == "ack" else lease.ranges()
    found: RangeMap[bool] = RangeMap()
    leased: RangeMap[bool] | None = None
    for first, end in command.ranges:
        if not grant.first <= first < end <= grant.end:
            raise _outside_lease(command, grant, first, end)
        pieces = [(one, other) for one, other, _ in lease.left.within(first, end)]
        wanted = [(first, end)]
        if grant.runs and pieces != wanted:  # some of the range is of other leases, or settled
            leased = RangeMap[bool].of(*grant.edges(), True) if leased is None else leased
            wanted = [(one, other) for one, other, _ in leased.within(first, end)]
        if pieces != wanted and not (command.action == "ack" and _is_rest_settled(cursor, wanted, pieces)):
            raise lease_expired(f"{command.ref}@{first}")
        if pieces and grant.runs and command.action == "ack":
            pieces = [(first, end)]  # offsets in between are not in the lease, and one range is a shorter record
        for one, other in pieces:  # a command may name a message twice
            found.set(one, other, True)
    return [(first, end) for first, end, _ in found.runs()]


def ranges_to_acknowledge(
    cursor: Cursor, lease: Lease, command: SettleCommand, transaction_id: TransactionId, *, is_active: bool
) -> list[Range]:
    """Return what an ack adds to a transaction. The transaction must have acknowledged the rest before.

    When another transaction or a plain ack has settled any of it, all of it is refused. The delivery history that was
    kept with an ack tells which delivery it was of.
    """
    grant, ack = lease.grant, TransactionAck(transaction_id, lease.grant.history)
    left = lease.left if is_active else RangeMap[bool]()
    if command.ranges == ((grant.first, grant.end),) and left.count == grant.messages:
        return [(grant.first, grant.end)]
    messages = lease.messages()
    found: RangeMap[bool] = RangeMap()
    for first, end in command.ranges:
        if not grant.first <= first < end <= grant.end:
            raise _outside_lease(command, grant, first, end)
        missing = RangeMap(messages.within(first, end))
        for one, other, known in cursor.transactional.within(first, end):
            if known == ack:
                missing.cut(one, other)
        for one, other, _ in left.within(first, end):
            missing.cut(one, other)
            found.set(one, other, True)
        if missing:
            raise lease_expired(f"{command.ref}@{missing.first}")
    return [(first, end) for first, end, _ in found.runs()]


def lease_expired(what: str) -> LeaseExpired:
    return LeaseExpired(
        f"{what} is not leased to the caller: the lease has expired, is settled, or never existed",
        hint="nothing is left to do if it was settled before; otherwise it is delivered again",
    )


def _outside_lease(command: SettleCommand, grant: LeaseGrant, first: int, end: int) -> LeaseExpired:
    return LeaseExpired(
        f"offsets {first} to {end} of {command.ref} are not in this lease, which has {grant.first} to {grant.end}",
        hint="settle only offsets that the poll returned",
    )


def _all_settled(cursor: Cursor, ranges: Sequence[Range], lane: int | None) -> bool:
    return bool(ranges) and all(cursor.is_settled(first, end, lane) for first, end in ranges)


def _is_rest_settled(cursor: Cursor, wanted: list[Range], pieces: list[Range]) -> bool:
    """True when everything wanted but these pieces is settled."""
    rest = RangeMap((first, end, True) for first, end in wanted)
    for first, end in pieces:
        rest.cut(first, end)
    return all(cursor.is_settled(first, end) for first, end, _ in rest.runs())
