"""A map from offsets to values that keeps runs, so that its size grows with what differs and not with what there is.

What must stay true: the runs are in order, none is empty, none reaches into another, and two that touch have
different values. So a given content has one form only, and the map is as small as it can be.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Generic, Self, TypeVar

V = TypeVar("V")


class RangeMap(Generic[V]):
    """Each range is half open: its first offset, and the one behind its last.

    Looking something up takes a search; a change moves what stands behind it in the lists. Nobody may change the map
    while he walks through `runs` or `within`.
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
        """Runs that rise and do not touch, all with one value, at once."""
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
        """How many offsets have a value."""
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
        """The whole run that holds the offset."""
        place = bisect_right(self._starts, offset) - 1
        if place < 0 or offset >= self._ends[place]:
            return None
        return self._starts[place], self._ends[place], self._values[place]

    def covers(self, first: int, end: int) -> bool:
        """Whether every offset of the range has a value, be it one or several."""
        place = bisect_right(self._ends, first)
        while first < end:
            if place == len(self._starts) or self._starts[place] > first:
                return False
            first = self._ends[place]
            place += 1
        return True

    def within(self, first: int, end: int) -> Iterator[tuple[int, int, V]]:
        """What lies in the range, clipped to it."""
        if first < end:
            for place in range(bisect_right(self._ends, first), bisect_left(self._starts, end)):
                yield max(first, self._starts[place]), min(end, self._ends[place]), self._values[place]

    def count_within(self, first: int, end: int) -> int:
        """How many offsets of the range have a value."""
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
        """Give the range this value, whatever was there."""
        assert 0 <= first < end, f"from {first} to {end} is no range of offsets"
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
        """Remove what lies in the range, and return it clipped to the range."""
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
        """The range meets this run alone."""
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
        """Runs that only touch the range are looked at as well: they grow if they have the same value."""
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
        """These runs stand where those from `low` to before `high` stood."""
        starts = [start for start, _, _ in runs]
        ends = [end for _, end, _ in runs]
        self._count += sum(ends) - sum(starts) - sum(self._ends[low:high]) + sum(self._starts[low:high])
        self._starts[low:high] = starts
        self._ends[low:high] = ends
        self._values[low:high] = [value for _, _, value in runs]
