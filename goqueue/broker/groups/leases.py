"""The leases of one cursor."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from goqueue.broker.core.ranges import RangeMap
from goqueue.broker.groups.records import LeaseGrant, Range

_STALE_ENTRIES_MAX = 64  # in a heap, before it is rebuilt


class Lease:
    """Messages delivered to one member until a deadline. `left` holds those that are not settled.

    Invariant: `gaps` do not change once the lease was delivered.
    """

    __slots__ = ("gaps", "grant", "left", "until_ns")

    def __init__(
        self, grant: LeaseGrant, until_ns: int, left: Iterable[Range] | None = None, gaps: tuple[Range, ...] = ()
    ) -> None:
        self.grant = grant
        self.until_ns = until_ns
        self.gaps = gaps
        """Offsets within the grant that were not leased."""
        self.left: RangeMap[bool]
        if left is None:
            self.left = RangeMap.of(*grant.edges(), True)
        else:
            self.left = RangeMap((first, end, True) for first, end in left)

    @property
    def id(self) -> str:
        return self.grant.id

    def leave_out(self, ranges: Iterable[Range]) -> None:
        """Exclude offsets from the lease, before it is delivered."""
        excluded = tuple((one, other) for first, end in ranges for one, other, _ in self.left.cut(first, end))
        if excluded:
            self.gaps += excluded

    def messages(self) -> RangeMap[bool]:
        """Return all leased offsets, including the settled ones."""
        found = RangeMap[bool].of(*self.grant.edges(), True)
        for first, end in self.gaps:
            found.cut(first, end)
        return found

    def ranges(self) -> list[Range]:
        return [(first, end) for first, end, _ in self.left.runs()]

    def __repr__(self) -> str:
        grant = self.grant
        return f"<Lease {grant.id} {grant.first}..{grant.end} of {grant.member}, {self.left.count} left>"


class LeaseTable(dict[str, Lease]):
    """Leases by id, indexed by deadline and, behind the cursor's position, by first offset.

    Invariant: what is left of a lease in the table changes by `cut` only. Entries of the two heaps may be stale;
    lookups drop stale entries, and a heap with too many of them is rebuilt.
    """

    __slots__ = ("_deadlines", "_firsts", "count", "run_count")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        """Messages left in all leases."""
        self.run_count = 0
        """Ranges left in all leases."""
        self._deadlines: list[tuple[int, str]] = []
        self._firsts: list[tuple[int, str]] = []

    def enter(self, lease: Lease, position: int | None) -> None:
        """Add a lease. `position` is given when lanes are read separately."""
        self[lease.id], left = lease, lease.left
        self.count += left.count
        self.run_count += len(left)
        self.index_deadline(lease)
        if position is not None and (first := left.first) is not None and first >= position:
            self._index_first(first, lease.id, position)

    def cut(self, lease: Lease, first: int, end: int) -> list[Range]:
        left = lease.left
        runs, count = len(left), left.count
        removed = [(start, stop) for start, stop, _ in left.cut(first, end)]
        self.run_count += len(left) - runs
        self.count += left.count - count
        return removed

    def clear(self) -> None:
        super().clear()
        self._deadlines.clear()
        self._firsts.clear()
        self.count = self.run_count = 0

    def expired(self, now_ns: int) -> list[Lease]:
        found: dict[str, Lease] = {}
        while (first := self.next_expiry()) is not None and first <= now_ns:
            _, lease_id = heappop(self._deadlines)
            found[lease_id] = self[lease_id]
        for lease in found.values():
            heappush(self._deadlines, (lease.until_ns, lease.id))  # they stay until their expiry is recorded
        return list(found.values())

    def next_expiry(self) -> int | None:
        while self._deadlines:
            until_ns, lease_id = self._deadlines[0]
            lease = self.get(lease_id)
            if lease is not None and lease.until_ns == until_ns:
                return until_ns
            heappop(self._deadlines)
        return None

    def index_deadline(self, lease: Lease) -> None:
        if len(self._deadlines) > 2 * len(self) + _STALE_ENTRIES_MAX:
            self._deadlines = [(one.until_ns, one.id) for one in self.values()]
            heapify(self._deadlines)
        else:
            heappush(self._deadlines, (lease.until_ns, lease.id))

    def first_behind_position(self) -> int | None:
        """Return the first leased offset behind the cursor's position."""
        while self._firsts:
            first, lease_id = self._firsts[0]
            lease = self.get(lease_id)
            now = lease.left.first if lease is not None else None
            if now == first:
                return first
            heappop(self._firsts)
            if now is not None:
                heappush(self._firsts, (now, lease_id))
        return None

    def drop_firsts(self) -> None:
        """Forget the index by first offset: lanes are read as one again."""
        self._firsts.clear()

    def _index_first(self, first: int, lease_id: str, position: int) -> None:
        if len(self._firsts) > 2 * len(self) + _STALE_ENTRIES_MAX:
            firsts = ((one.left.first, one.id) for one in self.values())
            self._firsts = [(first, one) for first, one in firsts if first is not None and first >= position]
            heapify(self._firsts)
        else:
            heappush(self._firsts, (first, lease_id))
