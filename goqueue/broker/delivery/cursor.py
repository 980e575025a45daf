"""What one group has read of one partition.

    floor         everything below is done with
    position      everything from here on was never handed out

Between the two each offset is in exactly one place: `acked` (done with), `waiting` (to be handed out again, or held
back), a lease (a member works on it), or `moving` (on its way to another topic). All are kept as ranges, so what
this costs grows with the exceptions and not with the messages.

What must stay true: only `apply` changes it; the floor never falls but by `Rewound`; a delivery count never falls.
"""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from goqueue.broker.delivery.changes import (
    Change,
    Committed,
    Departed,
    Extended,
    Grant,
    Held,
    Leased,
    Move,
    Opened,
    Place,
    Range,
    Requeued,
    Retry,
    Rewound,
    Settled,
    Stands,
)
from goqueue.broker.ranges import RangeMap

_SPARE = 64  # entries of a heap that are no longer true, before they are swept out
_HELD_BACK = Retry(0, 0, 0, 0)


class Lease:
    """Messages that a member works on; `left` are those it has not answered for."""

    __slots__ = ("grant", "left", "until_ns")

    def __init__(self, grant: Grant, left: Iterable[Range], until_ns: int) -> None:
        self.grant = grant
        self.left: RangeMap[bool] = RangeMap((first, end, True) for first, end in left)
        self.until_ns = until_ns

    @property
    def id(self) -> str:
        return self.grant.id

    def ranges(self) -> list[Range]:
        return [(first, end) for first, end, _ in self.left.runs()]

    def __repr__(self) -> str:
        grant = self.grant
        return f"<Lease {grant.id} {grant.first}..{grant.end} of {grant.member}, {self.left.count} left>"


class Cursor:
    """One group's place in one partition."""

    # fmt: off
    __slots__ = (
        "_pieces", "acked", "by_lease", "due", "ends", "floor", "group", "leased", "leases", "lost", "moving",
        "partition", "position", "revision", "topic", "topic_ns", "waiting",
    )
    # fmt: on

    def __init__(self, opened: Opened | Stands, by_lease: "dict[str, Cursor]") -> None:
        """`by_lease` is where the cursor of a lease is looked up; this one enters its own."""
        self.group, self.topic, self.partition = opened.group, opened.topic, opened.partition
        self.topic_ns = opened.topic_ns
        self.floor = self.position = opened.floor
        self.acked: RangeMap[bool] = RangeMap()
        self.waiting: RangeMap[Retry] = RangeMap()
        self.leases: dict[str, Lease] = {}
        self.moving: RangeMap[Move] = RangeMap()
        self.leased = 0
        """Messages in all leases."""
        self._pieces = 0
        """Ranges that are left in all leases."""
        self.revision = 0
        """Counts what may have changed who waits for whom: all but the handing out of what waited."""
        self.lost = 0
        """Messages that retention removed before anybody saw them."""
        self.due: list[tuple[int, int]] = []
        """When which waiting range is due, as a heap; entries that are no longer true are passed over."""
        self.ends: list[tuple[int, str]] = []
        """When which lease ends, in the same way."""
        self.by_lease = by_lease
        if isinstance(opened, Stands):
            self._stand(opened)

    @property
    def place(self) -> Place:
        return self.topic, self.partition

    @property
    def run_count(self) -> int:
        """How many ranges it takes to tell all of it."""
        return len(self.acked) + len(self.waiting) + self._pieces + len(self.moving)

    def next_due(self) -> tuple[int, Range, Retry] | None:
        """The waiting range that is due first, and when."""
        while self.due:
            due_ns, first = self.due[0]
            run = self.waiting.run_at(first)
            if run is not None and run[2].due_ns == due_ns:
                return due_ns, (run[0], run[1]), run[2]
            heappop(self.due)
        return None

    def expired(self, now_ns: int) -> list[Lease]:
        """Leases whose time is over."""
        found: dict[str, Lease] = {}
        while (first := self.next_expiry()) is not None and first <= now_ns:
            _, lease_id = heappop(self.ends)
            found[lease_id] = self.leases[lease_id]
        for lease in found.values():
            heappush(self.ends, (lease.until_ns, lease.id))  # they stand until that is recorded
        return list(found.values())

    def next_expiry(self) -> int | None:
        """When the first lease ends."""
        while self.ends:
            until_ns, lease_id = self.ends[0]
            lease = self.leases.get(lease_id)
            if lease is not None and lease.until_ns == until_ns:
                return until_ns
            heappop(self.ends)
        return None

    def _note_end(self, lease: Lease) -> None:
        """Leases mostly go before their end comes up, so now and then those that are gone are swept out."""
        if len(self.ends) > 2 * len(self.leases) + _SPARE:
            self.ends = [(one.until_ns, one.id) for one in self.leases.values()]
            heapify(self.ends)
        else:
            heappush(self.ends, (lease.until_ns, lease.id))

    def is_settled(self, first: int, end: int) -> bool:
        return end <= self.floor or self.acked.covers(max(first, self.floor), end)

    def settled(self) -> list[Range]:
        """What is done with above the floor."""
        return [(first, end) for first, end, _ in self.acked.runs()]

    # --- apply ---

    def apply(self, change: Change) -> None:
        self.revision += not isinstance(change, Leased) or bool(change.held or change.gaps)
        _APPLY[type(change)](self, change)

    def _lease(self, change: Leased) -> None:
        for grant in change.grants:
            if grant.first < self.position:
                self._unwait(grant.first, grant.end)
            self.position = max(self.position, grant.end)
            lease = self.leases[grant.id] = Lease(grant, [(grant.first, grant.end)], grant.until_ns)
            for first, end in (*change.held, *change.gaps):
                lease.left.cut(first, end)
            self._enter(lease)
        for first, end in change.held:
            self.position = max(self.position, end)
            self._wait(first, end, _HELD_BACK)
        for first, end in change.gaps:
            self.position = max(self.position, end)
            self._unwait(first, end)
            self.acked.set(max(first, self.floor), end, True)
        if change.gaps:
            self._advance()

    def _settle(self, change: Settled) -> None:
        for first, end in change.ranges:
            self._remove(change.lease, first, end)
            if first == self.floor and not self.acked:
                self.floor = end
            else:
                self.acked.set(first, end, True)
        self._let_go(change.lease)
        self._advance()

    def _requeue(self, change: Requeued) -> None:
        lease = self.leases[change.lease]
        grant = lease.grant
        retry = Retry(grant.deliveries, grant.failures + change.failed, grant.first_ns or grant.given_ns, change.due_ns)
        for first, end in change.ranges:
            self._cut(lease, first, end)
            self._wait(first, end, retry)
        self._let_go(change.lease)

    def _extend(self, change: Extended) -> None:
        lease = self.leases[change.lease]
        lease.until_ns = change.until_ns
        self._note_end(lease)

    def _depart(self, change: Departed) -> None:
        for first, end, move in change.moves:
            self.position = max(self.position, end)
            self._remove(change.lease, first, end)
            self.moving.set(first, end, move)
        self._let_go(change.lease)

    def _commit(self, change: Committed) -> None:
        floor = change.floor
        for lease in list(self.leases.values()):
            self._cut(lease, 0, floor)
            self._let_go(lease.id)
        self._unwait(0, floor)
        self.acked.cut(0, floor)
        first, behind = floor, None
        for start, end, _ in self.moving.within(0, floor):  # they have yet to arrive
            if behind is None:
                first = start
            elif behind < start:
                self.acked.set(behind, start, True)
            behind = end
        if behind is not None and behind < floor:
            self.acked.set(behind, floor, True)
        self.floor = max(self.floor, first)
        self.position = max(self.position, floor)
        self.lost += change.lost
        self._advance()

    def _rewind(self, change: Rewound) -> None:
        self.forget_leases()
        self.acked.clear()
        self.waiting.clear()
        self.moving.clear()
        self.due.clear()
        self.floor = self.position = change.floor

    def _stand(self, change: Stands) -> None:
        self.forget_leases()
        self.topic_ns, self.floor, self.position, self.lost = (
            change.topic_ns,
            change.floor,
            change.position,
            change.lost,
        )
        self.acked = RangeMap((first, end, True) for first, end in change.acked)
        self.waiting = RangeMap(change.waiting)
        self.due = [(retry.due_ns, first) for first, _, retry in change.waiting]
        heapify(self.due)
        self.moving = RangeMap(change.moving)
        for held in change.leases:
            lease = Lease(*held)
            self.leases[lease.id] = lease
            self._enter(lease)

    def stands(self) -> Stands:
        """All of it as a record."""
        return Stands(
            self.group,
            self.topic,
            self.partition,
            topic_ns=self.topic_ns,
            floor=self.floor,
            position=self.position,
            acked=self.settled(),
            waiting=list(self.waiting.runs()),
            leases=[Held(lease.grant, lease.ranges(), lease.until_ns) for lease in self.leases.values()],
            moving=list(self.moving.runs()),
            lost=self.lost,
        )

    def forget_leases(self) -> None:
        for lease_id in self.leases:
            self.by_lease.pop(lease_id, None)
        self.leases.clear()
        self.ends.clear()
        self.leased = self._pieces = 0

    def _enter(self, lease: Lease) -> None:
        self.leased += lease.left.count
        self._pieces += len(lease.left)
        self.by_lease[lease.id] = self
        self._note_end(lease)

    def _cut(self, lease: Lease, first: int, end: int) -> None:
        """So much of the lease is in it no more."""
        left = lease.left
        self._pieces -= len(left)
        self.leased -= _count(left.cut(first, end))
        self._pieces += len(left)

    def _wait(self, first: int, end: int, retry: Retry) -> None:
        self.waiting.set(first, end, retry)
        run = self.waiting.run_at(first)
        self._note_due(retry.due_ns, first if run is None else run[0])

    def _unwait(self, first: int, end: int) -> None:
        if self.waiting and self.waiting.cut(first, end) and (rest := self.waiting.run_at(end)) is not None:
            self._note_due(rest[2].due_ns, rest[0])

    def _note_due(self, due_ns: int, first: int) -> None:
        """What was due goes by other ways as well, so now and then what is left of it is swept out."""
        if len(self.due) > 2 * len(self.waiting) + _SPARE:
            self.due = [(retry.due_ns, start) for start, _, retry in self.waiting.runs()]
            heapify(self.due)
        else:
            heappush(self.due, (due_ns, first))

    def _remove(self, lease_id: str | None, first: int, end: int) -> None:
        """From wherever it is; a lease that is named is the only place."""
        if lease_id is not None:
            self._cut(self.leases[lease_id], first, end)
            return
        if _count(self.moving.cut(first, end)) == end - first:  # as it mostly is: then it is nowhere else
            return
        self._unwait(first, end)
        for lease in self.leases.values():
            self._cut(lease, first, end)

    def _let_go(self, lease_id: str | None) -> None:
        """Forget a lease of which nothing is left."""
        if lease_id is not None and not self.leases[lease_id].left:
            del self.leases[lease_id]
            self.by_lease.pop(lease_id, None)

    def _advance(self) -> None:
        if self.acked and (run := self.acked.run_at(self.floor)) is not None:
            self.floor = run[1]
            self.acked.cut(run[0], run[1])

    def __repr__(self) -> str:
        return (
            f"<Cursor {self.group} {self.topic}/{self.partition} {self.floor}..{self.position}"
            f" {self.leased} leased, {self.waiting.count} waiting>"
        )


def _count(pieces: Iterable[tuple[int, int, object]]) -> int:
    return sum(end - first for first, end, _ in pieces)


_APPLY: dict[type[Change], Callable[[Cursor, Any], None]] = {
    Leased: Cursor._lease,
    Settled: Cursor._settle,
    Requeued: Cursor._requeue,
    Extended: Cursor._extend,
    Departed: Cursor._depart,
    Committed: Cursor._commit,
    Rewound: Cursor._rewind,
    Stands: Cursor._stand,
}
