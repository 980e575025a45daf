"""A map from offset ranges to values, whose size grows with the number of runs and not of offsets.

Invariant: runs are sorted, not empty and disjoint, and adjacent runs have different values. So one content has one
form.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Generic, Self, TypeVar

V = TypeVar("V")


class RangeMap(Generic[V]):
    """A map of half-open offset ranges.

    A lookup is a binary search; a change moves the list entries behind it. Do not change the map while iterating
    over `runs` or `within`.
    """

    __slots__ = ("_count", "_ends", "_starts", "_values")

    def __init__(self, runs: Iterable[tuple[int, int, V]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._values: list[V] = []
        self._count = 0
        for first, end, value in runs:
            self.set(first, end, value)

    @classmethod
    def of(cls, starts: list[int], ends: list[int], value: V) -> Self:
        """Make a map from sorted, non-adjacent runs with one value."""
        made = cls()
        made._starts, made._ends, made._values = starts, ends, [value] * len(starts)
        made._count = sum(ends) - sum(starts)
        return made

    def __len__(self) -> int:
        return len(self._starts)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeMap):
            return NotImplemented
        return (self._starts, self._ends, self._values) == (other._starts, other._ends, other._values)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"RangeMap({list(self.runs())})"

    def __contains__(self, offset: int) -> bool:
        place = bisect_right(self._starts, offset) - 1
        return place >= 0 and offset < self._ends[place]

    @property
    def count(self) -> int:
        return self._count

    @property
    def first(self) -> int | None:
        return self._starts[0] if self._starts else None

    @property
    def end(self) -> int | None:
        return self._ends[-1] if self._ends else None

    # --- reading ---

    def get(self, offset: int) -> V | None:
        place = bisect_right(self._starts, offset) - 1
        return self._values[place] if place >= 0 and offset < self._ends[place] else None

    def run_at(self, offset: int) -> tuple[int, int, V] | None:
        place = bisect_right(self._starts, offset) - 1
        if place < 0 or offset >= self._ends[place]:
            return None
        return self._starts[place], self._ends[place], self._values[place]

    def covers(self, first: int, end: int) -> bool:
        place = bisect_right(self._ends, first)
        while first < end:
            if place == len(self._starts) or self._starts[place] > first:
                return False
            first = self._ends[place]
            place += 1
        return True

    def within(self, first: int, end: int) -> Iterator[tuple[int, int, V]]:
        """Yield the runs in the range, clipped to it."""
        if first < end:
            for place in range(bisect_right(self._ends, first), bisect_left(self._starts, end)):
                yield max(first, self._starts[place]), min(end, self._ends[place]), self._values[place]

    def count_within(self, first: int, end: int) -> int:
        if not self._starts or (first <= self._starts[0] and end >= self._ends[-1]):
            return self._count
        return sum(stop - start for start, stop, _ in self.within(first, end))

    def runs(self) -> Iterator[tuple[int, int, V]]:
        return zip(self._starts, self._ends, self._values, strict=True)

    # --- changing ---

    def clear(self) -> None:
        self._starts.clear()
        self._ends.clear()
        self._values.clear()
        self._count = 0

    def set(self, first: int, end: int, value: V) -> None:
        assert 0 <= first < end, f"from {first} to {end} is not a range of offsets"
        ends = self._ends
        if ends and first < ends[-1]:
            self._overwrite(first, end, value)
            return
        self._count += end - first
        if ends and first == ends[-1] and self._values[-1] == value:
            ends[-1] = end
        else:
            self._starts.append(first)
            ends.append(end)
            self._values.append(value)

    def cut(self, first: int, end: int) -> list[tuple[int, int, V]]:
        """Remove a range, and return its runs clipped to it."""
        starts, ends = self._starts, self._ends
        if not starts or first >= end or end <= starts[0] or first >= ends[-1]:
            return []
        low = bisect_right(ends, first)
        high = bisect_left(starts, end, low)
        if high - low == 1:
            return [self._cut_one(low, first, end)]
        if first <= starts[0] and end >= ends[-1]:
            removed = list(self.runs())
            self.clear()
            return removed
        removed = list(self.within(first, end))
        if removed:
            kept = []
            if starts[low] < first:
                kept.append((starts[low], first, self._values[low]))
            if ends[high - 1] > end:
                kept.append((end, ends[high - 1], self._values[high - 1]))
            self._replace(low, high, kept)
        return removed

    def _cut_one(self, place: int, first: int, end: int) -> tuple[int, int, V]:
        start, behind, value = self._starts[place], self._ends[place], self._values[place]
        if first <= start:
            first = start
            if end >= behind:
                end = behind
                del self._starts[place], self._ends[place], self._values[place]
            else:
                self._starts[place] = end
        else:
            self._ends[place] = first
            if end >= behind:
                end = behind
            else:
                self._starts.insert(place + 1, end)
                self._ends.insert(place + 1, behind)
                self._values.insert(place + 1, value)
        self._count -= end - first
        return first, end, value

    def _overwrite(self, first: int, end: int, value: V) -> None:
        """Overwrite a range. Adjacent runs with the same value are joined."""
        low = bisect_left(self._ends, first)
        high = bisect_right(self._starts, end, low)
        runs = []
        behind = None
        if low < high:
            start, stop = self._starts[low], self._ends[high - 1]
            if start < first:
                if self._values[low] == value:
                    first = start
                else:
                    runs.append((start, first, self._values[low]))
            if stop > end:
                if self._values[high - 1] == value:
                    end = stop
                else:
                    behind = (end, stop, self._values[high - 1])
        runs.append((first, end, value))
        if behind is not None:
            runs.append(behind)
        self._replace(low, high, runs)

    def _replace(self, low: int, high: int, runs: list[tuple[int, int, V]]) -> None:
        starts = [start for start, _, _ in runs]
        ends = [end for _, end, _ in runs]
        self._count += sum(ends) - sum(starts) - sum(self._ends[low:high]) + sum(self._starts[low:high])
        self._starts[low:high] = starts
        self._ends[low:high] = ends
        self._values[low:high] = [value for _, _, value in runs]
