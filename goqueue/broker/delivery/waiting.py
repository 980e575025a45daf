"""Messages that wait to be handed out again, and when which of them are due, lane by lane."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from goqueue.broker.delivery.changes import Range, Retry
from goqueue.broker.ranges import RangeMap
from goqueue.limits import PRIORITY_COUNT

_SPARE = 64  # entries of the heaps that are no longer true, before they are swept out

Due = tuple[int, Range, Retry]
"""A moment, and what is due then."""


class Waiting(RangeMap[Retry]):
    """A range map whose runs are also found by their moments."""

    __slots__ = ("_heaps",)

    def __init__(self, runs: Iterable[tuple[int, int, Retry]] = ()) -> None:
        self._heaps: list[list[tuple[int, int]]] = [[] for _ in range(PRIORITY_COUNT)]
        """Of each lane: the moment and the first offset of a run; entries that are no longer true are passed over."""
        super().__init__(runs)

    def set(self, first: int, end: int, value: Retry) -> None:
        super().set(first, end, value)
        run = self.run_at(first)
        self._note(first if run is None else run[0], value)
        if (rest := self.run_at(end)) is not None:
            self._note(rest[0], rest[2])

    def cut(self, first: int, end: int) -> list[tuple[int, int, Retry]]:
        removed = super().cut(first, end)
        if removed and (rest := self.run_at(end)) is not None:
            self._note(rest[0], rest[2])
        return removed

    def clear(self) -> None:
        super().clear()
        for heap in self._heaps:
            heap.clear()

    def next_due(self) -> Due | None:
        """The run that is due first, and when."""
        if not self:
            return None
        found = [due for lane in range(PRIORITY_COUNT) if (due := self.next_due_of(lane)) is not None]
        return min(found, default=None)

    def next_due_of(self, lane: int) -> Due | None:
        """The same among those of one lane; what nobody has looked at goes with the normal ones."""
        heap = self._heaps[lane]
        while heap:
            due_ns, first = heap[0]
            run = self.run_at(first)
            if run is not None and run[2].due_ns == due_ns and run[2].turn == lane:
                return due_ns, (run[0], run[1]), run[2]
            heappop(heap)
        return None

    def _note(self, first: int, retry: Retry) -> None:
        """What was due goes by other ways as well, so now and then what is left of it is swept out."""
        heap = self._heaps[retry.turn]
        if len(heap) > 2 * len(self) + _SPARE:
            heap[:] = [(one.due_ns, start) for start, _, one in self.runs() if one.turn == retry.turn]
            heapify(heap)
        else:
            heappush(heap, (retry.due_ns, first))
