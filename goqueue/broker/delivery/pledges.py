"""What groups have acknowledged or committed in transactions that have not come to their end.

A group is a participant of a transaction as a partition is. What is pledged is neither in hand nor waiting, so no
timeout and no rebalance gives it to anybody; and it is not done either, until the transaction says how it ends.

What must stay true: what was answered is durable; a message is pledged by one transaction at a time.
"""

from collections.abc import Iterable, Mapping, Sequence

from goqueue.broker.delivery.changes import CursorChange, Place, Pledged, Redeemed, Retry
from goqueue.broker.delivery.claims import Statement, expired, lease_of, left_of
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.receipt import Receipt, parse_receipt
from goqueue.broker.delivery.settlement import Outcome, Settlement, Told, Verdict
from goqueue.broker.groups.ledger import Ledger
from goqueue.broker.groups.offsets import Offsets
from goqueue.broker.groups.presence import Left
from goqueue.broker.transactions.whose import Whose
from goqueue.clock import Clock
from goqueue.errors import GoQueueError, ReceiptInvalid, TransactionPending


class Pledges:
    """Takes what consumers say in transactions, and carries out how these end."""

    def __init__(self, ledger: Ledger, clock: Clock, offsets: Offsets, settlement: Settlement) -> None:
        self._ledger = ledger
        self._clock = clock
        self._offsets = offsets
        self._settlement = settlement
        self._groups: dict[str, str] = {}
        """Of leases of which something was pledged: a receipt does not say of which group it is."""
        self._leases: dict[tuple[str, Whose], list[str]] = {}
        """The same leases, to be forgotten with the transaction."""

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

    def groups_of(self, receipts: Iterable[str]) -> list[str]:
        """Where what these receipts speak of would be pledged; those that say nothing are passed over."""
        groups: dict[str, None] = {}
        for text in receipts:
            try:
                found = self._group_of(parse_receipt(text).lease)
            except ReceiptInvalid:
                continue
            if found is not None:
                groups[found] = None
        return list(groups)

    def _group_of(self, lease: str) -> str | None:
        found = self._ledger.lease(lease)
        return found[0].group if found is not None else self._groups.get(lease)

    def _understood(self, receipt: Receipt, whose: Whose) -> str:
        """The group, if this is the delivery that its lease stands for, or stood for when it was pledged."""
        group = self._group_of(receipt.lease)
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
            lease = lease_of(self._ledger, cursor, member, statement, self._clock.now_ns(), whose)
            ranges = left_of(cursor, lease, statement, whose) if cursor is not None and lease is not None else []
        except GoQueueError as error:
            return error
        if cursor is not None and lease is not None and ranges:
            if lease.id not in self._groups:
                self._groups[lease.id] = group
                self._leases.setdefault((group, whose), []).append(lease.id)
            change = Pledged(group, *cursor.place, whose=whose, ranges=ranges, lease=lease.id)
            self._ledger.record(group, [change])
            self._settlement.attend(cursor)
            self._settlement.on_room(cursor, lease.grant.member)
        return Outcome()

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
                holders[place] = _holders(cursor, offset)
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
        for lease in self._leases.pop((group, whose), ()):
            del self._groups[lease]
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
        return f"<Pledges of {len(self._leases)} transactions>"


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


def _holders(cursor: Cursor | None, offset: int) -> set[str]:
    """Who has something below the offset in hand."""
    leases = cursor.leases.values() if cursor is not None else ()
    return {lease.grant.member for lease in leases if lease.left.count_within(0, offset)}
