"""The cursor: a group's progress in one partition.

    floor         the committed offset: everything below is settled
    position      everything from here on was never delivered, unless the head of its lane is further

Between the two each offset is in exactly one place: `acked` (settled), `waiting` (to be delivered, again or when it is
no longer held back), a lease (in flight), `moving` (moving to another topic), or `transactional` (acknowledged in an
open transaction). All are kept as ranges, so memory grows with the exceptions, not with the messages.

When messages have several priorities, their lanes are read separately. Each lane then has a head: the offset from
which on nothing of it was delivered. Behind `position`, a message below the head of its lane that is in none of the
places above is settled. So messages settled there need no ranges, however the lanes alternate.

Invariants: only `apply` changes a cursor. The floor falls only with `CursorReset`; the position also with an aborted
transaction. A delivery count never falls. While lanes have heads, no lease spans `position`.
"""

from collections.abc import Callable, Iterable
from typing import Any

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.ranges import RangeMap
from goqueue.broker.groups.leases import Lease, LeaseTable
from goqueue.broker.groups.records import (
    CursorOpened,
    CursorRecord,
    CursorReset,
    CursorSnapshot,
    LanesMerged,
    LeaseExtended,
    LeaseGrant,
    LeasesGranted,
    LeaseSnapshot,
    MessageMove,
    MessagesRequeued,
    MessagesSettled,
    MoveStarted,
    OffsetCommitted,
    Range,
    RetryState,
    TransactionAck,
    TransactionAcked,
    TransactionAcksEnded,
)
from goqueue.broker.groups.retries import RetryQueue
from goqueue.storage.lanes import NO_LANE

_NEVER_DELIVERED = RetryState(0, 0, 0, 0, NO_LANE)


class Cursor:
    """The progress of one group in one partition."""

    # fmt: off
    __slots__ = (
        "acked", "by_lease", "floor", "group", "heads", "leases", "lost", "moving", "partition", "position", "ref",
        "revision", "topic", "topic_ns", "transactional", "waiting",
    )
    # fmt: on

    def __init__(self, opened: CursorOpened | CursorSnapshot, by_lease: "dict[str, Cursor]") -> None:
        """`by_lease` finds the cursor of a lease id; the cursor enters its own leases there."""
        self.group, self.topic, self.partition = opened.group, opened.topic, opened.partition
        self.ref: PartitionRef = opened.ref
        self.topic_ns = opened.topic_ns
        self.floor = self.position = opened.floor
        self.heads: list[int] | None = None
        """The head of each lane, while lanes are read separately."""
        self.acked: RangeMap[bool] = RangeMap()
        self.waiting = RetryQueue()
        self.leases = LeaseTable()
        self.moving: RangeMap[MessageMove] = RangeMap()
        self.transactional: RangeMap[TransactionAck] = RangeMap()
        self.revision = 0
        """Counts changes that may block or unblock a key: all but the delivery of waiting messages."""
        self.lost = 0
        """Messages that retention removed before the group received them."""
        self.by_lease = by_lease
        if isinstance(opened, CursorSnapshot):
            self._restore(opened)

    @property
    def leased(self) -> int:
        return self.leases.count

    @property
    def run_count(self) -> int:
        maps = len(self.acked) + len(self.waiting) + len(self.moving) + len(self.transactional)
        return maps + self.leases.run_count

    @property
    def reach(self) -> int:
        """The offset from which on nothing was delivered in any lane."""
        return max(self.position, *self.heads) if self.heads is not None else self.position

    @property
    def unread(self) -> int:
        """The first offset that may not have been delivered."""
        return min(self.heads) if self.heads is not None else self.position

    def lost_before(self, earliest: int) -> int:
        """Return how many messages before this offset, the earliest one that is left, the group has lost.

        Those in leases were delivered. Lanes of removed messages are not known any more, so what was settled behind
        the first head counts as lost as well.
        """
        reached = max(self.unread, self.floor)
        delivered = sum(end - first for first, end in self.open_from(reached, earliest))
        return max(0, earliest - reached - delivered) + self.waiting.count_within(0, earliest)

    def is_settled(
        self, first: int, end: int, lane: int | None = None, transaction_id: TransactionId | None = None
    ) -> bool:
        """True when the range, or one lane of it, is settled; acks of the given transaction count as well.

        When lanes have heads and no lane is given, the messages are taken for some that were delivered.
        """
        first = max(first, self.floor)
        if end <= first:
            return True
        if lane is not None:
            head = self.position if self.heads is None else self.heads[lane]
            return end <= head and not any(self.open_from(first, end, lane, transaction_id))
        if self.heads is None or end <= self.position:
            return self._is_acked(first, end, transaction_id)
        if first < self.position and not self._is_acked(first, self.position, transaction_id):
            return False
        return end <= self.reach and not any(self.open_from(max(first, self.position), end, None, transaction_id))

    def _is_acked(self, first: int, end: int, transaction_id: TransactionId | None) -> bool:
        if transaction_id is None:
            return self.acked.covers(first, end)
        acks = self.transactional.within(first, end)
        transactional = sum(stop - start for start, stop, ack in acks if ack.transaction_id == transaction_id)
        return self.acked.count_within(first, end) + transactional == end - first

    def settled(self) -> list[Range]:
        """Return the settled ranges above the floor, up to where lanes are read separately."""
        return [(first, end) for first, end, _ in self.acked.runs()]

    def acked_in(self, transaction_id: TransactionId) -> list[tuple[int, int, RetryState]]:
        """Return the ranges acknowledged in a transaction, with their delivery history before it."""
        runs = self.transactional.runs()
        return [(first, end, ack.history) for first, end, ack in runs if ack.transaction_id == transaction_id]

    def open_from(
        self, first: int, end: int, lane: int | None = None, transaction_id: TransactionId | None = None
    ) -> Iterable[Range]:
        """Yield, in no order, what was delivered of the range or of one of its lanes and is not settled.

        Acks of the given transaction count as settled. The lane of moving messages is not known.
        """
        for start, stop, history in self.waiting.within(first, end):
            if lane is None or history.lane in (lane, NO_LANE):
                yield start, stop
        for start, stop, ack in self.transactional.within(first, end):
            if ack.transaction_id != transaction_id and (lane is None or ack.history.lane in (lane, NO_LANE)):
                yield start, stop
        maps: list[RangeMap[Any]] = [self.moving]
        maps += (lease.left for lease in self.leases.values() if lane in (None, lease.grant.lane))
        for one in maps:
            for start, stop, _ in one.within(first, end):
                yield start, stop

    # --- apply ---

    def apply(self, record: CursorRecord) -> None:
        self.revision += not isinstance(record, LeasesGranted) or bool(record.held or record.gaps)
        _APPLY[type(record)](self, record)

    def _grant_leases(self, record: LeasesGranted) -> None:
        if record.heads:
            self._grant_lane_leases(record)
            return
        for grant in record.grants:
            if grant.first < self.position:
                self.waiting.cut(grant.first, grant.end)
            self.position = max(self.position, grant.end)
            self._enter_grant(grant, record)
        for first, end in record.held:
            self.position = max(self.position, end)
            self.waiting.set(first, end, RetryState(0, 0, 0, 0, record.lane))
        for first, end in record.gaps:
            self.position = max(self.position, end)
            self.waiting.cut(first, end)
            self.acked.set(max(first, self.floor), end, True)
        if record.gaps:
            self._advance()

    def _grant_lane_leases(self, record: LeasesGranted) -> None:
        """Behind `position`, the offsets between the leased messages keep their state."""
        self.heads = list(map(max, record.heads, self.heads or record.heads))
        for grant in record.grants:
            if self.waiting:
                for first, end in grant.ranges():
                    self.waiting.cut(first, end)
            self._enter_grant(grant, record)
        for first, end in record.held:
            self.waiting.set(first, end, RetryState(0, 0, 0, 0, record.lane))
        for first, end in record.gaps:
            self.waiting.cut(first, end)
        self._advance()

    def _merge_lanes(self, record: LanesMerged) -> None:
        """Store as ranges what is settled behind `position` without one."""
        first = max(self.position, self.floor)
        taken = sorted(self.open_from(first, record.position))
        self.position, self.heads = record.position, None
        self.leases.drop_firsts()
        for start, end in (*taken, (record.position, record.position)):
            if first < start:
                self.acked.set(first, start, True)
            first = max(first, end)
        self._advance()

    def _settle(self, record: MessagesSettled) -> None:
        for first, end in record.ranges:
            pieces = self._remove(record.lease, first, end)
            # Behind `position`, settled messages have no ranges while lanes have heads.
            limit = end if self.heads is None else min(end, self.position)
            if record.lease is None or not self.leases[record.lease].grant.runs:
                pieces = [(first, end)]
            for start, stop in pieces:
                self._add_acked(max(start, self.floor), min(stop, limit))
        self._drop_if_empty(record.lease)
        self._advance()

    def _add_acked(self, first: int, end: int) -> None:
        if first == self.floor and not self.acked:
            self.floor = max(first, end)
        elif first < end:
            self.acked.set(first, end, True)

    def _requeue(self, record: MessagesRequeued) -> None:
        lease = self.leases[record.lease]
        history = lease.grant.history
        history = history._replace(failures=history.failures + record.failed, due_ns=record.due_ns)
        for first, end in record.ranges:
            self.leases.cut(lease, first, end)
            self.waiting.set(first, end, history)
        self._drop_if_empty(record.lease)

    def _extend(self, record: LeaseExtended) -> None:
        lease = self.leases[record.lease]
        lease.until_ns = record.until_ns
        self.leases.index_deadline(lease)

    def _ack_in_transaction(self, record: TransactionAcked) -> None:
        leases = list(self.leases.values()) if record.lease is None else [self.leases[record.lease]]
        for first, end in record.ranges:
            for lease in leases:
                for start, stop in self.leases.cut(lease, first, end):
                    self.transactional.set(start, stop, TransactionAck(record.transaction_id, lease.grant.history))
            if record.lease is None:
                for start, stop, history in self.waiting.cut(first, end):
                    ack = TransactionAck(record.transaction_id, history._replace(due_ns=0))
                    self.transactional.set(start, stop, ack)
                if self.heads is None and end > self.position:
                    ack = TransactionAck(record.transaction_id, _NEVER_DELIVERED)
                    self.transactional.set(self.position, end, ack)
                    self.position = end
        for lease in leases:
            self._drop_if_empty(lease.id)

    def _end_transaction(self, record: TransactionAcksEnded) -> None:
        acked = self.acked_in(record.transaction_id)
        self.transactional = RangeMap(
            run for run in self.transactional.runs() if run[2].transaction_id != record.transaction_id
        )
        if not record.is_commit:
            for first, end, history in reversed(acked):
                self._return_aborted(first, end, history, record)
            return
        limit = acked[-1][1] if acked and self.heads is None else self.position
        for first, end, _ in acked:
            self._add_acked(max(first, self.floor), min(end, limit))
        self._advance()

    def _return_aborted(self, first: int, end: int, history: RetryState, record: TransactionAcksEnded) -> None:
        """Return undelivered messages right before the position as new, so that their lanes and keys count."""
        if history.deliveries:
            history = history._replace(failures=history.failures + record.failed, due_ns=record.due_ns)
        elif end == self.position and self.heads is None:
            self.position = first
            return
        self.waiting.set(first, end, history)

    def _start_move(self, record: MoveStarted) -> None:
        for first, end, move in record.moves:
            if self.heads is None:
                self.position = max(self.position, end)
            self._remove(record.lease, first, end)
            self.moving.set(first, end, move)
        self._drop_if_empty(record.lease)

    def _commit(self, record: OffsetCommitted) -> None:
        floor = record.floor
        for lease in list(self.leases.values()):
            self.leases.cut(lease, 0, floor)
            self._drop_if_empty(lease.id)
        self.waiting.cut(0, floor)
        self.acked.cut(0, floor)
        first, settled_from = floor, None
        undecided = (run[:2] for one in (self.moving, self.transactional) for run in one.within(0, floor))
        for start, end in sorted(undecided):
            if settled_from is None:
                first = start
            elif settled_from < start:
                self.acked.set(settled_from, start, True)
            settled_from = end
        if settled_from is not None and settled_from < floor:
            self.acked.set(settled_from, floor, True)
        self.floor = max(self.floor, first)
        self.position = max(self.position, floor)
        if self.heads is not None:
            self.heads = [max(head, floor) for head in self.heads]
        self.lost += record.lost
        self._advance()

    def _reset(self, record: CursorReset) -> None:
        self.drop_leases()
        self.acked.clear()
        self.waiting.clear()
        self.moving.clear()
        self.transactional.clear()
        self.heads = None
        self.floor = self.position = record.floor

    def _restore(self, record: CursorSnapshot) -> None:
        self.drop_leases()
        self.topic_ns, self.floor, self.position = record.topic_ns, record.floor, record.position
        self.lost = record.lost
        self.acked = RangeMap((first, end, True) for first, end in record.acked)
        self.heads = list(record.heads) or None
        self.waiting = RetryQueue(record.waiting)
        self.moving = RangeMap(record.moving)
        self.transactional = RangeMap(record.transactional)
        for lease in record.leases:
            self._enter(Lease(lease.grant, lease.until_ns, lease.left, lease.gaps))

    def snapshot(self) -> CursorSnapshot:
        return CursorSnapshot(
            self.group,
            self.topic,
            self.partition,
            topic_ns=self.topic_ns,
            floor=self.floor,
            position=self.position,
            acked=self.settled(),
            waiting=list(self.waiting.runs()),
            leases=[LeaseSnapshot(one.grant, one.ranges(), one.until_ns, one.gaps) for one in self.leases.values()],
            moving=list(self.moving.runs()),
            lost=self.lost,
            heads=self.heads or [],
            transactional=list(self.transactional.runs()),
        )

    def drop_leases(self) -> None:
        for lease_id in self.leases:
            self.by_lease.pop(lease_id, None)
        self.leases.clear()

    def _enter_grant(self, grant: LeaseGrant, record: LeasesGranted) -> None:
        lease = Lease(grant, grant.until_ns)
        lease.leave_out((*record.held, *record.gaps))
        self._enter(lease)

    def _enter(self, lease: Lease) -> None:
        self.by_lease[lease.id] = self
        self.leases.enter(lease, None if self.heads is None else self.position)

    def _remove(self, lease_id: str | None, first: int, end: int) -> list[Range]:
        """Remove a range from the named lease and return what was in it, or remove it from everywhere."""
        if lease_id is not None:
            return self.leases.cut(self.leases[lease_id], first, end)
        if sum(stop - start for start, stop, _ in self.moving.cut(first, end)) < end - first:
            self.waiting.cut(first, end)
            self.transactional.cut(first, end)
            for lease in self.leases.values():
                self.leases.cut(lease, first, end)
        return []

    def _drop_if_empty(self, lease_id: str | None) -> None:
        if lease_id is not None and not self.leases[lease_id].left:
            del self.leases[lease_id]
            self.by_lease.pop(lease_id, None)

    def _advance(self) -> None:
        if self.acked and (run := self.acked.run_at(self.floor)) is not None:
            self.floor = run[1]
            self.acked.cut(run[0], run[1])
        if self.heads is not None and self.floor >= self.position:
            self.floor = max(self.floor, self._first_open(self.heads))

    def _first_open(self, heads: list[int]) -> int:
        """Return the first offset behind `position` that may not be settled."""
        firsts = (self.waiting.first, self.moving.first, self.transactional.first, self.leases.first_behind_position())
        return min(*heads, *(first for first in firsts if first is not None))

    def __repr__(self) -> str:
        return (
            f"<Cursor {self.group} {self.ref} {self.floor}..{self.position}"
            f" {self.leased} leased, {self.waiting.count} waiting>"
        )


_APPLY: dict[type[CursorRecord], Callable[[Cursor, Any], None]] = {
    LeasesGranted: Cursor._grant_leases,
    LanesMerged: Cursor._merge_lanes,
    MessagesSettled: Cursor._settle,
    MessagesRequeued: Cursor._requeue,
    LeaseExtended: Cursor._extend,
    MoveStarted: Cursor._start_move,
    TransactionAcked: Cursor._ack_in_transaction,
    TransactionAcksEnded: Cursor._end_transaction,
    OffsetCommitted: Cursor._commit,
    CursorReset: Cursor._reset,
    CursorSnapshot: Cursor._restore,
}
