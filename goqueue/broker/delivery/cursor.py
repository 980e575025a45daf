"""What one group has read of one partition.

    floor         everything below is done with
    position      everything from here on was never handed out, unless its lane's head is further

Between the two each offset is in exactly one place: `acked` (done with), `waiting` (to be handed out again, or held
back), a lease (a member works on it), or `moving` (on its way to another topic). All are kept as ranges, so what
this costs grows with the exceptions and not with the messages.

Where messages have several priorities, their lanes are read one by one. Then each lane has a head from which on
nothing of it was ever handed out, and behind `position` a message below the head of its lane is done with if it is
nowhere else: so what is done there takes no ranges, however the lanes alternate.

What must stay true: only `apply` changes it; the floor never falls but by `Rewound`; a delivery count never falls; a
lease reaches over `position` to neither side while lanes have heads.
"""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from goqueue.broker.delivery.changes import (
    Change,
    Committed,
    Departed,
    Extended,
    Held,
    Joined,
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
from goqueue.broker.delivery.lease import Lease
from goqueue.broker.delivery.waiting import Due, Waiting
from goqueue.broker.ranges import RangeMap

_SPARE = 64  # entries of a heap that are no longer true, before they are swept out


class Cursor:
    """One group's place in one partition."""

    # fmt: off
    __slots__ = (
        "_fronts", "_pieces", "acked", "by_lease", "ends", "floor", "group", "heads", "leased", "leases", "lost",
        "moving", "partition", "position", "revision", "topic", "topic_ns", "waiting",
    )
    # fmt: on

    def __init__(self, opened: Opened | Stands, by_lease: "dict[str, Cursor]") -> None:
        """`by_lease` is where the cursor of a lease is looked up; this one enters its own."""
        self.group, self.topic, self.partition = opened.group, opened.topic, opened.partition
        self.topic_ns = opened.topic_ns
        self.floor = self.position = opened.floor
        self.heads: list[int] | None = None
        """Of each lane, where they are read one by one."""
        self.acked: RangeMap[bool] = RangeMap()
        self.waiting = Waiting()
        self.leases: dict[str, Lease] = {}
        self.moving: RangeMap[Move] = RangeMap()
        self.leased = 0
        """Messages in all leases."""
        self._pieces = 0
        """Ranges that are left in all leases."""
        self._fronts: list[tuple[int, str]] = []
        """Where each lease begins that lies behind `position`, as a heap; an entry is put right when it comes up."""
        self.revision = 0
        """Counts what may have changed who waits for whom: all but the handing out of what waited."""
        self.lost = 0
        """Messages that retention removed before anybody saw them."""
        self.ends: list[tuple[int, str]] = []
        """When which lease ends, as a heap; entries that are no longer true are passed over."""
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

    @property
    def reach(self) -> int:
        """The offset from which on nothing was ever handed out, in whatever lane."""
        return max(self.position, *self.heads) if self.heads is not None else self.position

    @property
    def unread(self) -> int:
        """The first offset that may never have been handed out."""
        return min(self.heads) if self.heads is not None else self.position

    def next_due(self) -> Due | None:
        """The waiting range that is due first, and when."""
        return self.waiting.next_due()

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

    def is_settled(self, first: int, end: int, lane: int | None = None) -> bool:
        """Whether all of it is done with. Where lanes have heads and it is not said whose messages these are, they are
        taken for some that were handed out."""
        first = max(first, self.floor)
        if end <= first:
            return True
        if self.heads is None or end <= self.position:
            return self.acked.covers(first, end)
        if first < self.position and not self.acked.covers(first, self.position):
            return False
        head = self.reach if lane is None else self.heads[lane]
        return end <= head and not any(self.open_from(max(first, self.position), end))

    def settled(self) -> list[Range]:
        """What is done with above the floor, up to where lanes are read one by one."""
        return [(first, end) for first, end, _ in self.acked.runs()]

    def open_from(self, first: int, end: int) -> Iterable[Range]:
        """What was handed out of this range and is not done with, in no order."""
        maps: list[RangeMap[Any]] = [self.waiting, self.moving, *(lease.left for lease in self.leases.values())]
        for one in maps:
            for start, stop, _ in one.within(first, end):
                yield start, stop

    # --- apply ---

    def apply(self, change: Change) -> None:
        self.revision += not isinstance(change, Leased) or bool(change.held or change.gaps)
        _APPLY[type(change)](self, change)

    def _lease(self, change: Leased) -> None:
        if change.heads:
            self._lease_lanes(change)
            return
        for grant in change.grants:
            if grant.first < self.position:
                self.waiting.cut(grant.first, grant.end)
            self.position = max(self.position, grant.end)
            lease = self.leases[grant.id] = Lease(grant, grant.until_ns)
            for first, end in (*change.held, *change.gaps):
                lease.left.cut(first, end)
            self._enter(lease)
        for first, end in change.held:
            self.position = max(self.position, end)
            self.waiting.set(first, end, _held_back(change))
        for first, end in change.gaps:
            self.position = max(self.position, end)
            self.waiting.cut(first, end)
            self.acked.set(max(first, self.floor), end, True)
        if change.gaps:
            self._advance()

    def _lease_lanes(self, change: Leased) -> None:
        """Behind `position`: nothing is said of the messages in between."""
        self.heads = list(map(max, change.heads, self.heads or change.heads))
        for grant in change.grants:
            lease = self.leases[grant.id] = Lease(grant, grant.until_ns)
            if self.waiting:
                for first, end in grant.ranges():
                    self.waiting.cut(first, end)
            for first, end in (*change.held, *change.gaps):
                lease.left.cut(first, end)
            self._enter(lease)
        for first, end in change.held:
            self.waiting.set(first, end, _held_back(change))
        for first, end in change.gaps:
            self.waiting.cut(first, end)
        self._advance()

    def _join(self, change: Joined) -> None:
        """What was done behind `position` without saying so is said now."""
        first = max(self.position, self.floor)
        taken = sorted(self.open_from(first, change.position))
        self.position, self.heads = change.position, None
        self._fronts.clear()
        for start, end in (*taken, (change.position, change.position)):
            if first < start:
                self.acked.set(first, start, True)
            first = max(first, end)
        self._advance()

    def _settle(self, change: Settled) -> None:
        for first, end in change.ranges:
            pieces = self._remove(change.lease, first, end)
            if self.heads is not None and first >= self.position:
                continue
            if change.lease is None or not self.leases[change.lease].grant.runs:
                pieces = [(first, end)]
            for start, stop in pieces:
                self._note_done(start, stop)
        self._let_go(change.lease)
        self._advance()

    def _note_done(self, first: int, end: int) -> None:
        if first == self.floor and not self.acked:
            self.floor = end
        else:
            self.acked.set(first, end, True)

    def _requeue(self, change: Requeued) -> None:
        lease = self.leases[change.lease]
        grant = lease.grant
        first_ns = grant.first_ns or grant.given_ns
        retry = Retry(grant.deliveries, grant.failures + change.failed, first_ns, change.due_ns, grant.lane)
        for first, end in change.ranges:
            self._cut(lease, first, end)
            self.waiting.set(first, end, retry)
        self._let_go(change.lease)

    def _extend(self, change: Extended) -> None:
        lease = self.leases[change.lease]
        lease.until_ns = change.until_ns
        self._note_end(lease)

    def _depart(self, change: Departed) -> None:
        for first, end, move in change.moves:
            if self.heads is None:
                self.position = max(self.position, end)
            self._remove(change.lease, first, end)
            self.moving.set(first, end, move)
        self._let_go(change.lease)

    def _commit(self, change: Committed) -> None:
        floor = change.floor
        for lease in list(self.leases.values()):
            self._cut(lease, 0, floor)
            self._let_go(lease.id)
        self.waiting.cut(0, floor)
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
        if self.heads is not None:
            self.heads = [max(head, floor) for head in self.heads]
        self.lost += change.lost
        self._advance()

    def _rewind(self, change: Rewound) -> None:
        self.forget_leases()
        self.acked.clear()
        self.waiting.clear()
        self.moving.clear()
        self.heads = None
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
        self.heads = list(change.heads) or None
        self.waiting = Waiting(change.waiting)
        self.moving = RangeMap(change.moving)
        for held in change.leases:
            lease = Lease(held.grant, held.until_ns, held.left)
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
            heads=self.heads or [],
        )

    def forget_leases(self) -> None:
        for lease_id in self.leases:
            self.by_lease.pop(lease_id, None)
        self.leases.clear()
        self.ends.clear()
        self._fronts.clear()
        self.leased = self._pieces = 0

    def _enter(self, lease: Lease) -> None:
        self.leased += lease.left.count
        self._pieces += len(lease.left)
        self.by_lease[lease.id] = self
        self._note_end(lease)
        if self.heads is not None and (first := lease.left.first) is not None and first >= self.position:
            heappush(self._fronts, (first, lease.id))

    def _cut(self, lease: Lease, first: int, end: int) -> list[Range]:
        """So much of the lease is in it no more; what that was."""
        left = lease.left
        self._pieces -= len(left)
        removed = [(start, stop) for start, stop, _ in left.cut(first, end)]
        self.leased -= _count(removed)
        self._pieces += len(left)
        return removed

    def _remove(self, lease_id: str | None, first: int, end: int) -> list[Range]:
        """From wherever it is; a lease that is named is the only place, and what it had of that is told."""
        if lease_id is not None:
            return self._cut(self.leases[lease_id], first, end)
        if _count((start, stop) for start, stop, _ in self.moving.cut(first, end)) < end - first:
            self.waiting.cut(first, end)
            for lease in self.leases.values():
                self._cut(lease, first, end)
        return []

    def _let_go(self, lease_id: str | None) -> None:
        """Forget a lease of which nothing is left."""
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
        """The first offset behind `position` that may not be done with."""
        firsts = (self.waiting.first, self.moving.first, self._first_leased())
        return min(*heads, *(first for first in firsts if first is not None))

    def _first_leased(self) -> int | None:
        """Of leases behind `position`."""
        while self._fronts:
            first, lease_id = self._fronts[0]
            lease = self.leases.get(lease_id)
            now = lease.left.first if lease is not None else None
            if now == first:
                return first
            heappop(self._fronts)
            if now is not None:
                heappush(self._fronts, (now, lease_id))
        return None

    def __repr__(self) -> str:
        return (
            f"<Cursor {self.group} {self.topic}/{self.partition} {self.floor}..{self.position}"
            f" {self.leased} leased, {self.waiting.count} waiting>"
        )


def _held_back(change: Leased) -> Retry:
    return Retry(0, 0, 0, 0, change.lane)


def _count(pieces: Iterable[Range]) -> int:
    return sum(end - first for first, end in pieces)


_APPLY: dict[type[Change], Callable[[Cursor, Any], None]] = {
    Leased: Cursor._lease,
    Joined: Cursor._join,
    Settled: Cursor._settle,
    Requeued: Cursor._requeue,
    Extended: Cursor._extend,
    Departed: Cursor._depart,
    Committed: Cursor._commit,
    Rewound: Cursor._rewind,
    Stands: Cursor._stand,
}
