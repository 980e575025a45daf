"""Statements of consumers about messages: whether who speaks may, and what of it is to be done.

What must stay true: who speaks of a message has a lease of it that stands, or says again what is done already. In a
transaction only what the same transaction has acknowledged of the same delivery is said again: what another lease has
settled has been worked on there, and would count twice if this transaction were committed as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from goqueue.broker.delivery.changes import Grant, Pledge, Range
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.lease import Lease
from goqueue.broker.groups.ledger import Ledger
from goqueue.broker.ranges import RangeMap
from goqueue.broker.transactions.whose import Whose
from goqueue.errors import LeaseExpired
from goqueue.quantities import quoted

Verb = Literal["ack", "nack", "reject", "release", "extend"]


@dataclass(frozen=True, slots=True)
class Statement:
    """What a consumer says of messages of one lease."""

    verb: Verb
    topic: str
    partition: int
    lease: str
    ranges: tuple[Range, ...] = ()
    delay_ns: int | None = None
    reason: str | None = None
    timeout_ns: int = 0

    @property
    def place_name(self) -> str:
        return f"{self.topic}/{self.partition}"


def lease_of(
    ledger: Ledger, cursor: Cursor | None, member: str | None, statement: Statement, now_ns: int
) -> Lease | None:
    """The lease that a statement speaks of; None for an ack of what is done already, by whichever lease."""
    lease = standing_lease(cursor, member, statement, now_ns)
    if lease is None:
        lane = ledger.lane_of(statement.lease)
        if cursor is None or statement.verb != "ack" or not _all_settled(cursor, statement.ranges, lane):
            raise expired(statement.place_name)
    return lease


def standing_lease(cursor: Cursor | None, member: str | None, statement: Statement, now_ns: int) -> Lease | None:
    """The lease that a statement speaks of, which must be the member's; None where it is gone, or its time is over."""
    lease = cursor.leases.get(statement.lease) if cursor is not None else None
    if lease is None or lease.until_ns <= now_ns:
        return None
    if member is not None and lease.grant.member != member:
        raise LeaseExpired(
            f"these messages of {statement.place_name} are not leased to {quoted(member)}",
            hint="they belong to another member now; leave them to it",
        )
    return lease


def left_of(cursor: Cursor, lease: Lease, statement: Statement) -> list[Range]:
    """What of these ranges is to be settled; an ack may speak once more of what is done."""
    grant = lease.grant
    if statement.ranges == ((grant.first, grant.end),) and lease.left.count == grant.messages:
        return [(grant.first, grant.end)] if statement.verb == "ack" else lease.ranges()
    found: RangeMap[bool] = RangeMap()
    meant: RangeMap[bool] | None = None
    for first, end in statement.ranges:
        if not grant.first <= first < end <= grant.end:
            raise _not_granted(statement, grant, first, end)
        pieces = [(one, other) for one, other, _ in lease.left.within(first, end)]
        wanted = [(first, end)]
        if grant.runs and pieces != wanted:  # some of it is not meant, or not left
            meant = RangeMap[bool].of(*grant.edges(), True) if meant is None else meant
            wanted = [(one, other) for one, other, _ in meant.within(first, end)]
        if pieces != wanted and not (statement.verb == "ack" and _is_done(cursor, wanted, pieces)):
            raise expired(f"{statement.place_name}@{first}")
        if pieces and grant.runs and statement.verb == "ack":
            pieces = [(first, end)]  # what lies between is not of this lease, and a range is shorter to tell
        for one, other in pieces:  # a statement may name a message twice
            found.set(one, other, True)
    return [(first, end) for first, end, _ in found.runs()]


def left_to_pledge(
    cursor: Cursor, lease: Lease, statement: Statement, whose: Whose, *, is_standing: bool
) -> list[Range]:
    """What of an ack is left for this transaction to pledge. It must have pledged the rest before: where another
    transaction or an ack outside has settled any of it, all of it is refused.

    How a pledged message stood before tells of which delivery it was pledged.
    """
    grant, pledge = lease.grant, Pledge(whose, lease.grant.tried)
    left = lease.left if is_standing else RangeMap[bool]()
    if statement.ranges == ((grant.first, grant.end),) and left.count == grant.messages:
        return [(grant.first, grant.end)]
    messages = lease.messages()
    found: RangeMap[bool] = RangeMap()
    for first, end in statement.ranges:
        if not grant.first <= first < end <= grant.end:
            raise _not_granted(statement, grant, first, end)
        missing = RangeMap(messages.within(first, end))
        for one, other, of in cursor.pledged.within(first, end):
            if of == pledge:
                missing.cut(one, other)
        for one, other, _ in left.within(first, end):
            missing.cut(one, other)
            found.set(one, other, True)
        if missing:
            raise expired(f"{statement.place_name}@{missing.first}")
    return [(first, end) for first, end, _ in found.runs()]


def _not_granted(statement: Statement, grant: Grant, first: int, end: int) -> LeaseExpired:
    return LeaseExpired(
        f"offsets {first} to {end} of {statement.place_name} are not of this lease,"
        f" which is of {grant.first} to {grant.end}",
        hint="settle what the poll gave",
    )


def expired(what: str) -> LeaseExpired:
    return LeaseExpired(
        f"{what} is not leased to whoever says this: too late, done already, or never handed out so",
        hint="if it was settled before, nothing is left to be done; else it is handed out again, or another has it",
    )


def _all_settled(cursor: Cursor, ranges: Sequence[Range], lane: int | None) -> bool:
    return bool(ranges) and all(cursor.is_settled(first, end, lane) for first, end in ranges)


def _is_done(cursor: Cursor, wanted: list[Range], pieces: list[Range]) -> bool:
    """Whether all that was wanted is settled, but for these pieces."""
    done = RangeMap((first, end, True) for first, end in wanted)
    for first, end in pieces:
        done.cut(first, end)
    return all(cursor.is_settled(first, end) for first, end, _ in done.runs())
