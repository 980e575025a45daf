"""The map of runs, and a naive twin that holds every offset by itself."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from goqueue.broker.core.ranges import RangeMap


def test_maps_with_equal_runs_are_equal() -> None:
    ranges = RangeMap([(0, 9, "b")])
    ranges.set(0, 4, "a")
    ranges.cut(6, 9)
    assert ranges == RangeMap([(4, 6, "b"), (2, 4, "a"), (0, 2, "a")])
    assert ranges != RangeMap([(0, 4, "a")])


def test_range_map_repr() -> None:
    assert repr(RangeMap([(0, 4, "a"), (6, 7, "b")])) == "RangeMap([(0, 4, 'a'), (6, 7, 'b')])"


@pytest.mark.parametrize(("first", "end"), [(3, 3), (4, 3), (-1, 3)])
def test_invalid_range_cannot_be_set(first: int, end: int) -> None:
    with pytest.raises(AssertionError):
        RangeMap([(first, end, "a")])


def test_long_map_can_be_cut_at_both_ends() -> None:
    count = 100_000
    ranges = RangeMap((3 * number, 3 * number + 2, number) for number in range(count))
    assert (len(ranges), ranges.count) == (count, 2 * count)
    middle = 3 * (count // 2)
    assert ranges.run_at(middle + 1) == (middle, middle + 2, count // 2)
    assert ranges.cut(0, 3) == [(0, 2, 0)]
    assert len(ranges.cut(3, middle)) == count // 2 - 1
    assert ranges.cut(3 * count - 2, 3 * count) == [(3 * count - 2, 3 * count - 1, count - 1)]
    assert (ranges.first, ranges.end, ranges.count) == (middle, 3 * count - 2, count - 1)


# --- the twin ---

OFFSETS = 24
bounds = st.tuples(st.integers(0, OFFSETS), st.integers(0, OFFSETS))
values = st.sampled_from("abc")


class MapAndTwin(RuleBasedStateMachine):
    """Whatever is done to the map, a dictionary of single offsets says the same."""

    @initialize(base=st.sampled_from([0, 1000, 2**63 - OFFSETS]))
    def begin(self, base: int) -> None:
        self.base = base
        self.ranges: RangeMap[str] = RangeMap()
        self.twin: dict[int, str] = {}
        self.looked = (base, base + OFFSETS)

    def look(self, range_: tuple[int, int]) -> tuple[int, int]:
        self.looked = (self.base + min(range_), self.base + max(range_))
        return self.looked

    def pieces(self, first: int, end: int) -> list[tuple[int, int, str]]:
        """The twin's offsets in the range, put together where neighbours are the same."""
        found: list[tuple[int, int, str]] = []
        for offset in range(first, end):
            if offset in self.twin:
                value = self.twin[offset]
                start = found.pop()[0] if found and found[-1][1:] == (offset, value) else offset
                found.append((start, offset + 1, value))
        return found

    def offsets(self) -> Iterator[int]:
        return iter(range(max(0, self.base - 2), self.base + OFFSETS + 2))

    @rule(range_=bounds.filter(lambda pair: pair[0] != pair[1]), value=values)
    def set(self, range_: tuple[int, int], value: str) -> None:
        first, end = self.look(range_)
        self.ranges.set(first, end, value)
        self.twin |= dict.fromkeys(range(first, end), value)

    @rule(length=st.integers(1, 4), gap=st.integers(0, 1), value=values)
    def append(self, length: int, gap: int, value: str) -> None:
        first = (self.base if self.ranges.end is None else self.ranges.end) + gap
        end = min(first + length, self.base + OFFSETS)
        if first < end:
            self.set((first - self.base, end - self.base), value)

    @rule(range_=bounds)
    def cut(self, range_: tuple[int, int]) -> None:
        first, end = self.look(range_)
        assert self.ranges.cut(first, end) == self.pieces(first, end)
        for offset in range(first, end):
            self.twin.pop(offset, None)

    @rule(place=st.integers(0, OFFSETS))
    def cut_a_whole_run(self, place: int) -> None:
        runs = list(self.ranges.runs())
        if runs:
            first, end, _ = runs[place % len(runs)]
            self.cut((first - self.base, end - self.base))

    @rule(range_=bounds)
    def look_elsewhere(self, range_: tuple[int, int]) -> None:
        self.look(range_)

    @rule()
    def clear(self) -> None:
        self.ranges.clear()
        self.twin.clear()

    @invariant()
    def the_runs_are_in_order_disjoint_and_merged(self) -> None:
        runs = list(self.ranges.runs())
        assert all(first < end for first, end, _ in runs)
        for (_, end, value), (start, _, following) in pairwise(runs):
            assert end < start or (end == start and value != following)

    @invariant()
    def the_map_says_what_the_twin_says(self) -> None:
        runs = self.pieces(self.base, self.base + OFFSETS)
        assert list(self.ranges.runs()) == runs
        assert (len(self.ranges), bool(self.ranges), self.ranges.count) == (len(runs), bool(runs), len(self.twin))
        assert (self.ranges.first, self.ranges.end) == ((runs[0][0], runs[-1][1]) if runs else (None, None))
        assert self.ranges == RangeMap(reversed(runs))

    @invariant()
    def every_offset_has_its_value_and_its_run(self) -> None:
        for offset in self.offsets():
            holding = [run for run in self.ranges.runs() if run[0] <= offset < run[1]]
            assert self.ranges.get(offset) == self.twin.get(offset)
            assert (offset in self.ranges) == (offset in self.twin)
            assert self.ranges.run_at(offset) == (holding[0] if holding else None)

    @invariant()
    def ranges_around_the_last_one_hold_the_same(self) -> None:
        for first in (self.looked[0] - 1, self.looked[0], self.looked[0] + 1):
            for end in (self.looked[1] - 1, self.looked[1], self.looked[1] + 1):
                assert list(self.ranges.within(first, end)) == self.pieces(first, end)
                assert self.ranges.covers(first, end) == all(offset in self.twin for offset in range(first, end))


TestMapAndTwin = MapAndTwin.TestCase
