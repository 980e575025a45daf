"""The map of runs, and a naive twin that holds every offset by itself."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from goqueue.broker.ranges import RangeMap


def test_an_empty_map_knows_nothing() -> None:
    ranges: RangeMap[str] = RangeMap()
    assert (len(ranges), ranges.count, ranges.first, ranges.end) == (0, 0, None, None)
    assert (ranges.get(0), ranges.run_at(0), ranges.cut(0, 100)) == (None, None, [])
    assert not ranges
    assert not ranges.covers(0, 1)


def test_a_range_ends_before_its_end() -> None:
    ranges = RangeMap([(3, 5, "a")])
    assert [ranges.get(offset) for offset in range(2, 6)] == [None, "a", "a", None]


def test_neighbours_of_one_value_become_one_run() -> None:
    ranges = RangeMap([(0, 3, "a"), (6, 9, "a")])
    ranges.set(3, 6, "a")
    assert list(ranges.runs()) == [(0, 9, "a")]


def test_neighbours_of_different_values_stay_apart() -> None:
    assert list(RangeMap([(0, 3, "a"), (3, 6, "b"), (6, 9, "a")]).runs()) == [(0, 3, "a"), (3, 6, "b"), (6, 9, "a")]


def test_a_value_set_within_a_run_splits_it() -> None:
    ranges = RangeMap([(0, 9, "a")])
    ranges.set(3, 6, "b")
    assert list(ranges.runs()) == [(0, 3, "a"), (3, 6, "b"), (6, 9, "a")]
    assert ranges.count == 9


def test_what_is_overwritten_with_its_own_value_stays_one_run() -> None:
    ranges = RangeMap([(0, 9, "a")])
    ranges.set(3, 6, "a")
    assert list(ranges.runs()) == [(0, 9, "a")]


def test_a_cut_returns_what_it_removed_and_leaves_the_rest() -> None:
    ranges = RangeMap([(0, 4, "a"), (4, 6, "b"), (8, 12, "c")])
    assert ranges.cut(2, 10) == [(2, 4, "a"), (4, 6, "b"), (8, 10, "c")]
    assert list(ranges.runs()) == [(0, 2, "a"), (10, 12, "c")]
    assert ranges.count == 4


def test_a_cut_in_the_middle_of_a_run_leaves_two() -> None:
    ranges = RangeMap([(0, 9, "a")])
    assert ranges.cut(4, 5) == [(4, 5, "a")]
    assert list(ranges.runs()) == [(0, 4, "a"), (5, 9, "a")]


def test_a_range_of_nothing_holds_nothing_and_lacks_nothing() -> None:
    ranges = RangeMap([(0, 9, "a")])
    assert (ranges.cut(4, 4), list(ranges.within(4, 4)), ranges.covers(4, 4)) == ([], [], True)
    assert list(ranges.runs()) == [(0, 9, "a")]


def test_several_values_without_a_gap_cover_a_range_together() -> None:
    ranges = RangeMap([(0, 4, "a"), (4, 6, "b"), (7, 9, "b")])
    assert ranges.covers(1, 6)
    assert not ranges.covers(1, 7)


def test_the_size_does_not_grow_with_the_offsets() -> None:
    ranges = RangeMap([(0, 2**63, "a")])
    ranges.cut(2**62, 2**62 + 1)
    assert (len(ranges), ranges.count) == (2, 2**63 - 1)


def test_maps_of_one_content_are_equal_however_it_came_about() -> None:
    ranges = RangeMap([(0, 9, "b")])
    ranges.set(0, 4, "a")
    ranges.cut(6, 9)
    assert ranges == RangeMap([(4, 6, "b"), (2, 4, "a"), (0, 2, "a")])
    assert ranges != RangeMap([(0, 4, "a")])


def test_a_map_shows_its_runs() -> None:
    assert repr(RangeMap([(0, 4, "a"), (6, 7, "b")])) == "RangeMap([(0, 4, 'a'), (6, 7, 'b')])"


@pytest.mark.parametrize(("first", "end"), [(3, 3), (4, 3), (-1, 3)])
def test_what_is_no_range_cannot_be_given_a_value(first: int, end: int) -> None:
    with pytest.raises(AssertionError):
        RangeMap([(first, end, "a")])


def test_a_very_long_map_is_taken_apart_from_both_ends_and_the_middle() -> None:
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
