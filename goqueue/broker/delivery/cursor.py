"""What one group has read of one partition.

    floor         everything below is done with
    position      everything from here on was never handed out, unless its lane's head is further

Between the two each offset is in exactly one place: `acked` (done with), `waiting` (to be handed out again, or held
back), a lease (a member works on it), `moving` (on its way to another topic), or `pledged` (a transaction decides). All
are kept as ranges, so what this costs grows with the exceptions and not with the messages.

Where messages have several priorities, their lanes are read one by one. Then each lane has a head from which on
nothing of it was ever handed out, and behind `position` a message below the head of its lane is done with if it is
nowhere else: so what is done there takes no ranges, however the lanes alternate.

What must stay true: only `apply` changes it; the floor never falls but by `Rewound`, the position but by that and by a
transaction that is aborted; a delivery count never falls; a lease reaches over `position` to neither side while lanes
have heads.
"""

from collections.abc import Callable, Iterable
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
    Pledge,
    Pledged,
    Range,
    Redeemed,
    Requeued,
    Retry,
    Rewound,
    Settled,
    Stands,
)
from goqueue.broker.delivery.lease import Lease
from goqueue.broker.delivery.leases import Leases
from goqueue.broker.delivery.waiting import Due, Waiting
from goqueue.broker.ranges import RangeMap
from goqueue.broker.transactions.whose import Whose
from goqueue.storage.lanes import NO_LANE

_NEVER = Retry(0, 0, 0, 0, NO_LANE)
"""How stands what was never handed out: nobody has looked what it is."""


class Cursor:
    """One group's place in one partition."""

    # fmt: off
    __slots__ = (
        "acked", "by_lease", "floor", "group", "heads", "leases", "lost", "moving", "partition", "pledged", "position",
        "revision", "topic", "topic_ns", "waiting",
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
        self.leases = Leases()
        self.moving: RangeMap[Move] = RangeMap()
        self.pledged: RangeMap[Pledge] = RangeMap()
        self.revision = 0
        """Counts what may have changed who waits for whom: all but the handing out of what waited."""
        self.lost = 0
        """Messages that retention removed before anybody saw them."""
        self.by_lease = by_lease
        if isinstance(opened, Stands):
            self._stand(opened)

    @property
    def place(self) -> Place:
        return self.topic, self.partition

    @property
    def leased(self) -> int:
        """Messages in all leases."""
        return self.leases.count

    @property
    def run_count(self) -> int:
        """How many ranges it takes to tell all of it."""
        maps = len(self.acked) + len(self.waiting) + len(self.moving) + len(self.pledged)
        return maps + self.leases.run_count

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
        return self.leases.expired(now_ns)

    def next_expiry(self) -> int | None:
        """When the first lease ends."""
        return self.leases.next_expiry()

    def is_settled(self, first: int, end: int, lane: int | None = None, whose: Whose | None = None) -> bool:
        """Whether all of it is done with, or all of one lane; what a transaction has pledged counts where it is named.
        Where lanes have heads and it is not said whose messages these are, they are taken for some that were handed
        out."""
        first = max(first, self.floor)
        if end <= first:
            return True
        if lane is not None:
            head = self.position if self.heads is None else self.heads[lane]
            return end <= head and not any(self.open_from(first, end, lane, whose))
        if self.heads is None or end <= self.position:
            return self._is_done(first, end, whose)
        if first < self.position and not self._is_done(first, self.position, whose):
            return False
        return end <= self.reach and not any(self.open_from(max(first, self.position), end, None, whose))

    def _is_done(self, first: int, end: int, whose: Whose | None) -> bool:
        """Of what lies before `position`."""
        if whose is None:
            return self.acked.covers(first, end)
        pledged = sum(stop - start for start, stop, one in self.pledged.within(first, end) if one.whose == whose)
        return self.acked.count_within(first, end) + pledged == end - first

    def settled(self) -> list[Range]:
        """What is done with above the floor, up to where lanes are read one by one."""
        return [(first, end) for first, end, _ in self.acked.runs()]

    def pledged_by(self, whose: Whose) -> list[tuple[int, int, Retry]]:
        """What this transaction has pledged, and how it stood before."""
        return [(first, end, one.tried) for first, end, one in self.pledged.runs() if one.whose == whose]

    def open_from(self, first: int, end: int, lane: int | None = None, whose: Whose | None = None) -> Iterable[Range]:
        """What was handed out of this range, or of one lane of it, and is not done with, nor pledged by this
        transaction, in no order. Of what is on its way to another topic nobody knows the lane any more."""
        for start, stop, retry in self.waiting.within(first, end):
            if lane is None or retry.lane in (lane, NO_LANE):
                yield start, stop
        for start, stop, pledge in self.pledged.within(first, end):
            if pledge.whose != whose and (lane is None or pledge.tried.lane in (lane, NO_LANE)):
                yield start, stop
        maps: list[RangeMap[Any]] = [self.moving]
        maps += (lease.left for lease in self.leases.values() if lane in (None, lease.grant.lane))
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
            lease = Lease(grant, grant.until_ns)
            lease.leave_out((*change.held, *change.gaps))
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
            lease = Lease(grant, grant.until_ns)
            if self.waiting:
                for first, end in grant.ranges():
                    self.waiting.cut(first, end)
            lease.leave_out((*change.held, *change.gaps))
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
        self.leases.forget_fronts()
        for start, end in (*taken, (change.position, change.position)):
            if first < start:
                self.acked.set(first, start, True)
            first = max(first, end)
        self._advance()

    def _settle(self, change: Settled) -> None:
        for first, end in change.ranges:
            pieces = self._remove(change.lease, first, end)
            # Behind `position` nothing is said of what is done while lanes have heads.
            behind = end if self.heads is None else min(end, self.position)
            if change.lease is None or not self.leases[change.lease].grant.runs:
                pieces = [(first, end)]
            for start, stop in pieces:
                self._note_done(max(start, self.floor), min(stop, behind))
        self._let_go(change.lease)
        self._advance()

    def _note_done(self, first: int, end: int) -> None:
        if first == self.floor and not self.acked:
            self.floor = max(first, end)
        elif first < end:
            self.acked.set(first, end, True)

    def _requeue(self, change: Requeued) -> None:
        lease = self.leases[change.lease]
        tried = lease.grant.tried
        retry = tried._replace(failures=tried.failures + change.failed, due_ns=change.due_ns)
        for first, end in change.ranges:
            self.leases.cut(lease, first, end)
            self.waiting.set(first, end, retry)
        self._let_go(change.lease)

    def _extend(self, change: Extended) -> None:
        lease = self.leases[change.lease]
        lease.until_ns = change.until_ns
        self.leases.note_end(lease)

    # --- transactions ---

    def _pledge(self, change: Pledged) -> None:
        leases = list(self.leases.values()) if change.lease is None else [self.leases[change.lease]]
        for first, end in change.ranges:
            for lease in leases:
                for start, stop in self.leases.cut(lease, first, end):
                    self.pledged.set(start, stop, Pledge(change.whose, lease.grant.tried))
            if change.lease is None:
                for start, stop, retry in self.waiting.cut(first, end):
                    self.pledged.set(start, stop, Pledge(change.whose, retry._replace(due_ns=0)))
                if self.heads is None and end > self.position:
                    self.pledged.set(self.position, end, Pledge(change.whose, _NEVER))
                    self.position = end
        for lease in leases:
            self._let_go(lease.id)

    def _redeem(self, change: Redeemed) -> None:
        mine = self.pledged_by(change.whose)
        self.pledged = RangeMap(run for run in self.pledged.runs() if run[2].whose != change.whose)
        if not change.is_commit:
            for first, end, tried in reversed(mine):
                self._bring_back(first, end, tried, change)
            return
        behind = mine[-1][1] if mine and self.heads is None else self.position
        for first, end, _ in mine:
            self._note_done(max(first, self.floor), min(end, behind))
        self._advance()

    def _bring_back(self, first: int, end: int, tried: Retry, change: Redeemed) -> None:
        """What was never handed out, and has nothing behind it that was, is before the group as if for the first time:
        there its lanes and keys count."""
        if tried.deliveries:
            tried = tried._replace(failures=tried.failures + change.failed, due_ns=change.due_ns)
        elif end == self.position and self.heads is None:
            self.position = first
            return
        self.waiting.set(first, end, tried)

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
            self.leases.cut(lease, 0, floor)
            self._let_go(lease.id)
        self.waiting.cut(0, floor)
        self.acked.cut(0, floor)
        first, behind = floor, None
        undecided = (run[:2] for one in (self.moving, self.pledged) for run in one.within(0, floor))
        for start, end in sorted(undecided):  # they have yet to arrive, or to be redeemed
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
        self.pledged.clear()
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
        self.pledged = RangeMap(change.pledged)
        for held in change.leases:
            self._enter(Lease(held.grant, held.until_ns, held.left, held.gaps))

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
            leases=[Held(one.grant, one.ranges(), one.until_ns, one.gaps) for one in self.leases.values()],
            moving=list(self.moving.runs()),
            lost=self.lost,
            heads=self.heads or [],
            pledged=list(self.pledged.runs()),
        )

    def forget_leases(self) -> None:
        for lease_id in self.leases:
            self.by_lease.pop(lease_id, None)
        self.leases.clear()

    def _enter(self, lease: Lease) -> None:
        self.by_lease[lease.id] = self
        self.leases.enter(lease, None if self.heads is None else self.position)

    def _remove(self, lease_id: str | None, first: int, end: int) -> list[Range]:
        """From wherever it is; a lease that is named is the only place, and what it had of that is told."""
        if lease_id is not None:
            return self.leases.cut(self.leases[lease_id], first, end)
        if sum(stop - start for start, stop, _ in self.moving.cut(first, end)) < end - first:
            self.waiting.cut(first, end)
            self.pledged.cut(first, end)
            for lease in self.leases.values():
                self.leases.cut(lease, first, end)
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
        firsts = (self.waiting.first, self.moving.first, self.pledged.first, self.leases.first_behind())
        return min(*heads, *(first for first in firsts if first is not None))

    def __repr__(self) -> str:
        return (
            f"<Cursor {self.group} {self.topic}/{self.partition} {self.floor}..{self.position}"
            f" {self.leased} leased, {self.waiting.count} waiting>"
        )


def _held_back(change: Leased) -> Retry:
    return Retry(0, 0, 0, 0, change.lane)


_APPLY: dict[type[Change], Callable[[Cursor, Any], None]] = {
    Leased: Cursor._lease,
    Joined: Cursor._join,
    Settled: Cursor._settle,
    Requeued: Cursor._requeue,
    Extended: Cursor._extend,
    Departed: Cursor._depart,
    Pledged: Cursor._pledge,
    Redeemed: Cursor._redeem,
    Committed: Cursor._commit,
    Rewound: Cursor._rewind,
    Stands: Cursor._stand,
}
