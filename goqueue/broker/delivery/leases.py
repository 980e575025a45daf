"""The leases of one place: when which of them ends, and where those begin that lie behind the position.

What must stay true: what is left of a lease that stands here changes by `cut` alone.
"""

from heapq import heapify, heappop, heappush

from goqueue.broker.delivery.changes import Range
from goqueue.broker.delivery.lease import Lease

_SPARE = 64  # entries of a heap that are no longer true, before they are swept out


class Leases(dict[str, Lease]):
    """By their ids."""

    __slots__ = ("_ends", "_fronts", "count", "run_count")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        """Messages that are left in all of them."""
        self.run_count = 0
        """Ranges that are left in all of them."""
        self._ends: list[tuple[int, str]] = []
        """When which of them ends, as a heap; entries that are no longer true are passed over."""
        self._fronts: list[tuple[int, str]] = []
        """Where each begins that lies behind the position, as a heap; an entry is put right when it comes up."""

    def enter(self, lease: Lease, position: int | None) -> None:
        """With the position where lanes are read one by one."""
        self[lease.id], left = lease, lease.left
        self.count += left.count
        self.run_count += len(left)
        self.note_end(lease)
        if position is not None and (first := left.first) is not None and first >= position:
            self._note_front(first, lease.id, position)

    def cut(self, lease: Lease, first: int, end: int) -> list[Range]:
        """So much of the lease is in it no more; what that was."""
        left = lease.left
        runs, count = len(left), left.count
        removed = [(start, stop) for start, stop, _ in left.cut(first, end)]
        self.run_count += len(left) - runs
        self.count += left.count - count
        return removed

    def clear(self) -> None:
        super().clear()
        self._ends.clear()
        self._fronts.clear()
        self.count = self.run_count = 0

    # --- when they end ---

    def expired(self, now_ns: int) -> list[Lease]:
        """Those whose time is over."""
        found: dict[str, Lease] = {}
        while (first := self.next_expiry()) is not None and first <= now_ns:
            _, lease_id = heappop(self._ends)
            found[lease_id] = self[lease_id]
        for lease in found.values():
            heappush(self._ends, (lease.until_ns, lease.id))  # they stand until that is recorded
        return list(found.values())

    def next_expiry(self) -> int | None:
        """When the first one ends."""
        while self._ends:
            until_ns, lease_id = self._ends[0]
            lease = self.get(lease_id)
            if lease is not None and lease.until_ns == until_ns:
                return until_ns
            heappop(self._ends)
        return None

    def note_end(self, lease: Lease) -> None:
        """Leases mostly go before their end comes up, so now and then those that are gone are swept out."""
        if len(self._ends) > 2 * len(self) + _SPARE:
            self._ends = [(one.until_ns, one.id) for one in self.values()]
            heapify(self._ends)
        else:
            heappush(self._ends, (lease.until_ns, lease.id))

    # --- where they begin ---

    def first_behind(self) -> int | None:
        """The first message in one that lies behind the position."""
        while self._fronts:
            first, lease_id = self._fronts[0]
            lease = self.get(lease_id)
            now = lease.left.first if lease is not None else None
            if now == first:
                return first
            heappop(self._fronts)
            if now is not None:
                heappush(self._fronts, (now, lease_id))
        return None

    def forget_fronts(self) -> None:
        """Lanes are read as one again."""
        self._fronts.clear()

    def _note_front(self, first: int, lease_id: str, position: int) -> None:
        """They are swept as the ends are: as long as the floor stays where it is, none of them comes up."""
        if len(self._fronts) > 2 * len(self) + _SPARE:
            firsts = ((one.left.first, one.id) for one in self.values())
            self._fronts = [(first, one) for first, one in firsts if first is not None and first >= position]
            heapify(self._fronts)
        else:
            heappush(self._fronts, (first, lease_id))
