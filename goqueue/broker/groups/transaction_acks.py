"""Acks and offset commits of groups in open transactions.

A group takes part in a transaction as a partition does. Messages acknowledged in it are neither in flight nor waiting,
so no timeout and no rebalance delivers them again; they are not settled either until the transaction ends.

Invariants: an answered ack is durable; a message is acknowledged in one transaction at a time, and for one delivery of
it, so that no transaction is committed for a message that another delivery has settled.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.ranges import RangeMap
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.leases import Lease
from goqueue.broker.groups.offsets import CommittedOffsets
from goqueue.broker.groups.records import AnyCursorRecord, RetryState, TransactionAcked, TransactionAcksEnded
from goqueue.broker.groups.sessions import DoneCallback
from goqueue.broker.groups.settle_commands import (
    ReceiptHandle,
    SettleCommand,
    active_lease,
    lease_expired,
    parse_receipt_handle,
    ranges_to_acknowledge,
)
from goqueue.broker.groups.settlement import SettleCallback, SettleCommandResult, Settlement, reply_of
from goqueue.broker.groups.store import GroupRules, GroupServices
from goqueue.errors import GoQueueError, ReceiptInvalid, TransactionNotOpen, TransactionPending
from goqueue.limits import PRODUCERS_MAX


class _AckedLease(NamedTuple):
    """A lease that a transaction has acknowledged in part. The ack can be repeated after the lease has ended."""

    group: str
    ref: PartitionRef
    lease: Lease


class TransactionAckRules(GroupRules):
    """Acks, offset commits and their ends, in transactions."""

    def __init__(self, services: GroupServices, offsets: CommittedOffsets, settlement: Settlement) -> None:
        super().__init__(services)
        self._offsets = offsets
        self._settlement = settlement
        self._leases: dict[tuple[TransactionId, str], _AckedLease] = {}
        """By open transaction and lease id. A restart aborts open transactions, so this is not recorded."""
        self._lease_ids: dict[tuple[str, TransactionId], list[str]] = {}
        """The ids of the same leases by group, dropped when the transaction ends."""
        self._ended: OrderedDict[int, int] = OrderedDict()
        """The last epoch of each producer whose transaction has ended here: requests that come later are refused."""

    # --- acks ---

    def acks(
        self,
        group: str,
        member: str,
        commands: Sequence[SettleCommand],
        transaction_id: TransactionId,
        callback: SettleCallback,
    ) -> None:
        """Acknowledge leases of one group. Each command is accepted or refused alone."""
        replies = [reply_of(self._acknowledge, group, member, command, transaction_id) for command in commands]
        self._store.record(group, [], lambda error: callback(error or replies))

    def receipts(
        self, receipts: Sequence[str], member: str | None, transaction_id: TransactionId, callback: SettleCallback
    ) -> None:
        """Acknowledge single messages of any groups of this shard by their receipt handles."""
        is_any = False

        def acknowledge(text: str) -> SettleCommandResult:
            nonlocal is_any
            receipt = parse_receipt_handle(text)
            group = self._group_of_receipt(receipt, transaction_id)
            is_any = True
            command = SettleCommand("ack", receipt.topic, receipt.partition, receipt.lease, receipt.ranges)
            return self._acknowledge(group, member, command, transaction_id)

        replies = [reply_of(acknowledge, text) for text in receipts]
        if is_any:
            self._store.when_durable(lambda error: callback(error or replies))
        else:
            callback(replies)

    def groups_of(self, receipts: Iterable[str], transaction_id: TransactionId) -> list[str]:
        """Return the groups of receipt handles; invalid ones are ignored."""
        groups: dict[str, None] = {}
        for text in receipts:
            try:
                found = self._group_of_lease(parse_receipt_handle(text).lease, transaction_id)
            except ReceiptInvalid:
                continue
            if found is not None:
                groups[found] = None
        return list(groups)

    def _group_of_lease(self, lease_id: str, transaction_id: TransactionId) -> str | None:
        found = self._store.lease(lease_id)
        if found is not None:
            return found[0].group
        acked = self._leases.get((transaction_id, lease_id))
        return acked.group if acked is not None else None

    def _group_of_receipt(self, receipt: ReceiptHandle, transaction_id: TransactionId) -> str:
        """Return the group when the receipt names the delivery of its lease, or of an earlier ack."""
        group = self._group_of_lease(receipt.lease, transaction_id)
        cursor = self._store.cursor(group, receipt.ref) if group is not None else None
        lease = cursor.leases.get(receipt.lease) if cursor is not None else None
        deliveries = 0
        if lease is not None and receipt.offset in lease.left:
            deliveries = lease.grant.deliveries
        elif cursor is not None and (ack := cursor.transactional.get(receipt.offset)) is not None:
            deliveries = ack.history.deliveries if ack.transaction_id == transaction_id else 0
        if group is None or deliveries != receipt.deliveries:
            raise lease_expired(f"message {receipt.ref}@{receipt.offset}")
        return group

    def _acknowledge(
        self, group: str, member: str | None, command: SettleCommand, transaction_id: TransactionId
    ) -> SettleCommandResult:
        cursor = self._store.cursor(group, command.ref)
        active = active_lease(cursor, member, command, self._clock.now_ns())
        lease = active or self._acked_lease(group, command, transaction_id)
        is_new_here = (group, transaction_id) not in self._lease_ids
        if cursor is not None and lease is None and is_new_here and _are_acked(cursor, command.ranges, transaction_id):
            return SettleCommandResult()  # repeated, after the former coordinator of the group has recorded it
        if cursor is None or lease is None:
            raise lease_expired(str(command.ref))
        ranges = ranges_to_acknowledge(cursor, lease, command, transaction_id, is_active=active is not None)
        if ranges:
            self._remember(cursor, lease, transaction_id)
            record = TransactionAcked(group, *cursor.ref, transaction_id, ranges, lease.id)
            self._store.record(group, [record])
            self._settlement.arm_deadline(cursor)
            self._settlement.on_room.emit(cursor, lease.grant.member)
        return SettleCommandResult()

    def _acked_lease(self, group: str, command: SettleCommand, transaction_id: TransactionId) -> Lease | None:
        """Return a lease that has ended, if the transaction acknowledged some of it before."""
        found = self._leases.get((transaction_id, command.lease))
        return found.lease if found is not None and (found.group, found.ref) == (group, command.ref) else None

    def _remember(self, cursor: Cursor, lease: Lease, transaction_id: TransactionId) -> None:
        if (transaction_id, lease.id) not in self._leases:
            self._leases[transaction_id, lease.id] = _AckedLease(cursor.group, cursor.ref, lease)
            self._lease_ids.setdefault((cursor.group, transaction_id), []).append(lease.id)

    # --- offsets ---

    def offsets(
        self,
        group: str,
        member: str | None,
        generation: int | None,
        offsets: Mapping[PartitionRef, int],
        transaction_id: TransactionId,
        callback: DoneCallback,
    ) -> None:
        """Commit all offsets in a transaction, or none. A caller that names no member need not have joined."""
        if member is not None:
            self._offsets.check(group, member, generation, offsets)
        cursors = self._store.cursors(group)
        for ref, offset in offsets.items():
            _check_no_other_transaction(cursors.get(ref), offset, transaction_id)
        if member is None:
            self._offsets.open_cursors(group, offsets)
        holders: dict[PartitionRef, set[str]] = {}
        for ref, offset in offsets.items():
            cursor = self._store.cursors(group)[ref]
            if not cursor.is_settled(cursor.floor, offset, None, transaction_id):
                leases = [lease for lease in cursor.leases.values() if lease.left.count_within(0, offset)]
                holders[ref] = {lease.grant.member for lease in leases}
                for lease in leases:
                    self._remember(cursor, lease, transaction_id)
                self._store.record(group, [TransactionAcked(group, *ref, transaction_id, [(cursor.floor, offset)])])
                self._settlement.arm_deadline(cursor)
        self._store.record(group, [], callback)
        for ref, members in holders.items():
            for one in members:
                self._settlement.on_room.emit(self._store.cursors(group)[ref], one)

    # --- end of the transaction ---

    def end_transaction(
        self, group: str, transaction_id: TransactionId, is_commit: bool, failed: bool, callback: DoneCallback
    ) -> None:
        """Settle the messages acknowledged in a transaction, or deliver them again."""
        self._ended[transaction_id.producer] = max(transaction_id.epoch, self._ended.get(transaction_id.producer, -1))
        self._ended.move_to_end(transaction_id.producer)
        if len(self._ended) > PRODUCERS_MAX:
            self._ended.popitem(last=False)
        records: list[AnyCursorRecord] = []
        ended: list[tuple[Cursor, list[tuple[int, int, RetryState]]]] = []
        for cursor in self._store.cursors(group).values():
            if acked := cursor.acked_in(transaction_id):
                ended.append((cursor, acked))
                records += [] if is_commit or not failed else self._settlement.dead_letter_aborted(cursor, acked)
                due_ns = 0 if is_commit else self._clock.now_ns()
                records.append(TransactionAcksEnded(group, *cursor.ref, transaction_id, is_commit, failed, due_ns))
        try:
            self._store.record(group, records, callback)
        except GoQueueError as error:  # the log accepts nothing now
            callback(error)
            return
        for lease_id in self._lease_ids.pop((group, transaction_id), ()):
            del self._leases[transaction_id, lease_id]
        for cursor, acked in ended:
            self._notify(cursor, acked, is_commit)

    def _notify(self, cursor: Cursor, acked: list[tuple[int, int, RetryState]], is_commit: bool) -> None:
        self._settlement.arm_deadline(cursor)
        if is_commit:
            self._settlement.counts.acks += sum(end - first for first, end, history in acked if history.deliveries)
            self._settlement.on_progress.emit(cursor, sum(end - first for first, end, _ in acked))
        else:
            self._settlement.on_due.emit(cursor)
        owner = self._store.owner(cursor.group, cursor.ref)
        if owner is not None:
            self._settlement.on_room.emit(cursor, owner)

    def refuse_over(self, whose: TransactionId) -> None:
        """Refuse what comes late, in a cluster: the transaction has ended here."""
        if self._ended.get(whose.producer, -1) >= whose.epoch:
            raise TransactionNotOpen(
                f"transaction {whose} is over", hint="ask how it ended; this came too late and was not recorded"
            )

    # --- lookup ---

    def count(self, group: str, transaction_id: TransactionId) -> int:
        """Return how many messages the transaction has acknowledged in the group."""
        cursors = self._store.cursors(group).values()
        return sum(end - first for cursor in cursors for first, end, _ in cursor.acked_in(transaction_id))


def _are_acked(cursor: Cursor, ranges: Iterable[tuple[int, int]], transaction_id: TransactionId) -> bool:
    acked = RangeMap[bool]()
    for first, end, _ in cursor.acked_in(transaction_id):
        acked.set(first, end, True)
    wanted = list(ranges)
    return bool(wanted) and all(acked.count_within(first, end) == end - first for first, end in wanted)


def _check_no_other_transaction(cursor: Cursor | None, offset: int, transaction_id: TransactionId) -> None:
    """Raise when a message below the offset is acknowledged in another open transaction."""
    if cursor is None:
        return
    for first, _, ack in cursor.transactional.within(0, offset):
        if ack.transaction_id != transaction_id:
            raise TransactionPending(
                f"offset {first} of {cursor.ref} is acknowledged in transaction {ack.transaction_id}, which is open",
                hint="retry when that transaction has ended",
            )
