"""What groups have acknowledged or committed in transactions that have not come to their end.

A group is a participant of a transaction as a partition is. What is pledged is neither in hand nor waiting, so no
timeout and no rebalance gives it to anybody; and it is not done either, until the transaction says how it ends.

What must stay true: what was answered is durable; a message is pledged by one transaction at a time, and for one
delivery of it, so that no transaction is committed for a message that another delivery has settled.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from goqueue.broker.delivery.changes import CursorChange, Place, Pledged, Redeemed, Retry
from goqueue.broker.delivery.claims import Statement, expired, left_to_pledge, standing_lease
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.lease import Lease
from goqueue.broker.delivery.receipt import Receipt, parse_receipt
from goqueue.broker.delivery.settlement import Outcome, Settlement, Told, Verdict
from goqueue.broker.groups.ledger import Ledger
from goqueue.broker.groups.offsets import Offsets
from goqueue.broker.groups.presence import Left
from goqueue.broker.transactions.whose import Whose
from goqueue.clock import Clock
from goqueue.errors import GoQueueError, ReceiptInvalid, TransactionPending


class _PledgedLease(NamedTuple):
    """A lease of which a transaction has pledged something. Once it is gone, that may still be said again."""

    group: str
    place: Place
    lease: Lease


class Pledges:
    """Takes what consumers say in transactions, and carries out how these end."""

    def __init__(self, ledger: Ledger, clock: Clock, offsets: Offsets, settlement: Settlement) -> None:
        self._ledger = ledger
        self._clock = clock
        self._offsets = offsets
        self._settlement = settlement
        self._leases: dict[tuple[Whose, str], _PledgedLease] = {}
        """By open transaction and the id of the lease. A start aborts what is open, so this needs no record."""
        self._by_group: dict[tuple[str, Whose], list[str]] = {}
        """The ids of the same leases, to be forgotten with the transaction."""

    # --- acknowledge ---

    def acks(self, group: str, member: str, statements: Sequence[Statement], whose: Whose, told: Told) -> None:
        """Of leases of one group: each statement is taken or refused for itself."""
        verdicts = [self._verdict(group, member, statement, whose) for statement in statements]
        self._ledger.record(group, [], lambda error: told(error or verdicts))

    def receipts(self, receipts: Sequence[str], member: str | None, whose: Whose, told: Told) -> None:
        """Of single messages, whatever group they were handed to."""
        verdicts: list[Verdict] = []
        groups: dict[str, None] = {}
        for text in receipts:
            try:
                receipt = parse_receipt(text)
                group = self._understood(receipt, whose)
                ranges = ((receipt.offset, receipt.offset + 1),)
                statement = Statement("ack", receipt.topic, receipt.partition, receipt.lease, ranges)
                verdicts.append(self._verdict(group, member, statement, whose))
                groups[group] = None
            except GoQueueError as error:
                verdicts.append(error)
        self._ledger.when_durable(groups, lambda error: told(error or verdicts))

    def groups_of(self, receipts: Iterable[str], whose: Whose) -> list[str]:
        """Where what these receipts speak of would be pledged; those that say nothing are passed over."""
        groups: dict[str, None] = {}
        for text in receipts:
            try:
                found = self._group_of(parse_receipt(text).lease, whose)
            except ReceiptInvalid:
                continue
            if found is not None:
                groups[found] = None
        return list(groups)

    def _group_of(self, lease: str, whose: Whose) -> str | None:
        found = self._ledger.lease(lease)
        if found is not None:
            return found[0].group
        pledged = self._leases.get((whose, lease))
        return pledged.group if pledged is not None else None

    def _understood(self, receipt: Receipt, whose: Whose) -> str:
        """The group, if this is the delivery that its lease stands for, or stood for when it was pledged."""
        group = self._group_of(receipt.lease, whose)
        cursor = self._ledger.cursor(group, (receipt.topic, receipt.partition)) if group is not None else None
        lease = cursor.leases.get(receipt.lease) if cursor is not None else None
        deliveries = 0
        if lease is not None and receipt.offset in lease.left:
            deliveries = lease.grant.deliveries
        elif cursor is not None and (pledge := cursor.pledged.get(receipt.offset)) is not None:
            deliveries = pledge.tried.deliveries if pledge.whose == whose else 0
        if group is None or deliveries != receipt.deliveries:
            raise expired(f"message {receipt.topic}/{receipt.partition}@{receipt.offset}")
        return group

    def _verdict(self, group: str, member: str | None, statement: Statement, whose: Whose) -> Verdict:
        cursor = self._ledger.cursor(group, (statement.topic, statement.partition))
        try:
            standing = standing_lease(cursor, member, statement, self._clock.now_ns())
            lease = standing or self._pledged_lease(group, statement, whose)
            if cursor is None or lease is None:
                raise expired(statement.place_name)
            ranges = left_to_pledge(cursor, lease, statement, whose, is_standing=standing is not None)
        except GoQueueError as error:
            return error
        if ranges:
            self._remember(cursor, lease, whose)
            change = Pledged(group, *cursor.place, whose=whose, ranges=ranges, lease=lease.id)
            self._ledger.record(group, [change])
            self._settlement.attend(cursor)
            self._settlement.on_room(cursor, lease.grant.member)
        return Outcome()

    def _pledged_lease(self, group: str, statement: Statement, whose: Whose) -> Lease | None:
        """The lease of a statement, if the transaction has pledged something of it before it was gone."""
        found = self._leases.get((whose, statement.lease))
        said = (group, statement.topic, statement.partition)
        return found.lease if found is not None and (found.group, *found.place) == said else None

    def _remember(self, cursor: Cursor, lease: Lease, whose: Whose) -> None:
        if (whose, lease.id) not in self._leases:
            self._leases[whose, lease.id] = _PledgedLease(cursor.group, cursor.place, lease)
            self._by_group.setdefault((cursor.group, whose), []).append(lease.id)

    # --- commit offsets ---

    def offsets(
        self,
        group: str,
        member: str | None,
        generation: int | None,
        offsets: Mapping[Place, int],
        whose: Whose,
        told: Left,
    ) -> None:
        """Everything below them. All of them are taken, or none; who names no member need not have joined."""
        if member is not None:
            self._offsets.check(group, member, generation, offsets)
        cursors = self._ledger.cursors(group)
        for place, offset in offsets.items():
            _check_free(cursors.get(place), offset, whose)
        if member is None:
            self._offsets.open(group, offsets)
        holders: dict[Place, set[str]] = {}
        for place, offset in offsets.items():
            cursor = self._ledger.cursors(group)[place]
            if not cursor.is_settled(cursor.floor, offset, None, whose):
                held = [lease for lease in cursor.leases.values() if lease.left.count_within(0, offset)]
                holders[place] = {lease.grant.member for lease in held}
                for lease in held:
                    self._remember(cursor, lease, whose)
                change = Pledged(group, *place, whose=whose, ranges=[(cursor.floor, offset)])
                self._ledger.record(group, [change])
                self._settlement.attend(cursor)
        self._ledger.record(group, [], told)
        for place, members in holders.items():
            for one in members:
                self._settlement.on_room(self._ledger.cursors(group)[place], one)

    # --- how it ends ---

    def redeem(self, group: str, whose: Whose, is_commit: bool, failed: bool, told: Left) -> None:
        """Done with, or to be handed out again; `told` hears when that is durable, or what kept it from it."""
        changes: list[CursorChange] = []
        redeemed: list[tuple[Cursor, list[tuple[int, int, Retry]]]] = []
        for cursor in self._ledger.cursors(group).values():
            if mine := cursor.pledged_by(whose):
                redeemed.append((cursor, mine))
                changes += [] if is_commit or not failed else self._settlement.burials(cursor, mine)
                due_ns = 0 if is_commit else self._clock.now_ns()
                changes.append(Redeemed(group, *cursor.place, whose, is_commit, failed, due_ns))
        try:
            self._ledger.record(group, changes, told)
        except GoQueueError as error:  # a log that takes nothing now
            told(error)
            return
        for lease_id in self._by_group.pop((group, whose), ()):
            del self._leases[whose, lease_id]
        for cursor, mine in redeemed:
            self._tell(cursor, mine, is_commit)

    def _tell(self, cursor: Cursor, mine: list[tuple[int, int, Retry]], is_commit: bool) -> None:
        """Those who wait for it."""
        self._settlement.attend(cursor)
        if is_commit:
            self._settlement.counts.acks += sum(end - first for first, end, tried in mine if tried.deliveries)
            self._settlement.on_progress(cursor, sum(end - first for first, end, _ in mine))
        else:
            self._settlement.on_due(cursor)
        group = self._ledger.group(cursor.group)
        owner = group.owners().get(cursor.place) if group is not None else None
        if owner is not None:
            self._settlement.on_room(cursor, owner)

    # --- look up ---

    def count(self, group: str, whose: Whose) -> int:
        """How many messages the transaction has pledged there."""
        cursors = self._ledger.cursors(group).values()
        return sum(end - first for cursor in cursors for first, end, _ in cursor.pledged_by(whose))

    def standing(self, group: str) -> set[Whose]:
        """The transactions that have pledged something there."""
        cursors = self._ledger.cursors(group).values()
        return {pledge.whose for cursor in cursors for _, _, pledge in cursor.pledged.runs()}

    def __repr__(self) -> str:
        return f"<Pledges of {len(self._by_group)} transactions>"


def _check_free(cursor: Cursor | None, offset: int, whose: Whose) -> None:
    """Whether nothing below the offset waits for the end of another transaction."""
    if cursor is None:
        return
    for first, _, pledge in cursor.pledged.within(0, offset):
        if pledge.whose != whose:
            raise TransactionPending(
                f"offset {first} of {cursor.topic}/{cursor.partition} is acknowledged in transaction {pledge.whose},"
                " which has not come to its end",
                hint="ask again when it has",
            )
