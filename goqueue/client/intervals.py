"""Offsets as ranges: what of a lease is settled. State grows with the exceptions, not with the messages."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

Range = tuple[int, int]
"""From the first offset up to, and not with, the second."""


class Intervals:
    """A set of offsets. Ranges that touch are one; none is empty."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for first, end in ranges:
            self.add(first, end)

    def add(self, first: int, end: int) -> list[Range]:
        """The ranges of it that were not there yet."""
        if first >= end:
            return []
        starts, ends = self._starts, self._ends
        low, high = bisect_left(ends, first), bisect_right(starts, end)
        fresh, at = [], first
        for index in range(low, high):
            if at < starts[index]:
                fresh.append((at, starts[index]))
            at = max(at, ends[index])
        if at < end:
            fresh.append((at, end))
        if low < high:
            first, end = min(first, starts[low]), max(end, ends[high - 1])
        starts[low:high] = [first]
        ends[low:high] = [end]
        return fresh

    def covers(self, first: int, end: int) -> bool:
        """Whether all of a range is there."""
        index = bisect_right(self._starts, first) - 1
        return first >= end or (index >= 0 and self._ends[index] >= end)

    def ranges(self) -> list[Range]:
        return list(zip(self._starts, self._ends, strict=True))

    def __len__(self) -> int:
        """How many ranges, not how many offsets."""
        return len(self._starts)

    def __repr__(self) -> str:
        return f"<Intervals {self.ranges()}>"


def count(ranges: Iterable[Range]) -> int:
    """How many offsets."""
    return sum(end - first for first, end in ranges)


def missing(ranges: Iterable[Range], first: int, end: int) -> list[Range]:
    """What rising ranges leave out of another one that holds them all."""
    found = []
    for low, high in ranges:
        if first < low:
            found.append((first, low))
        first = high
    return [*found, (first, end)] if first < end else found
