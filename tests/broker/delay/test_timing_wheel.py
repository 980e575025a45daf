"""The wheel drains what is due, and never before: held against a list."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.delay import timing_wheel as wheel_module
from goqueue.broker.delay.timing_wheel import TimingWheel, sort_due
from goqueue.limits import DELAY_TICK_NS

BEGIN = 1_700_000_000 * 10**9 + 3_333_333
DAY = 86_400 * 10**9
AHEADS = st.one_of(
    st.integers(-10 * DELAY_TICK_NS, 3 * DELAY_TICK_NS),
    st.integers(0, 300 * DELAY_TICK_NS),
    st.integers(0, 3 * 10**12),
    st.integers(0, 9 * DAY),
)
STEPS = st.one_of(
    st.integers(0, 3 * DELAY_TICK_NS), st.integers(0, 6 * 10**9), st.integers(0, 10**13), st.integers(0, 9 * DAY)
)


@pytest.fixture(autouse=True, params=[2, 20_000], scope="module")
def at_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """The number spread at once changes nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wheel_module, "DELAY_SPREAD_ENTRIES", request.param)
        yield


def drained(wheel: TimingWheel, now_ns: int) -> list[tuple[int, int]]:
    due = wheel.drain(now_ns)
    while wheel.is_spreading:
        assert not len(due[0])
        due = wheel.drain(now_ns)
    dues, numbers = sort_due(due)
    return list(zip(dues.tolist(), numbers.tolist(), strict=True))


class Naive:
    """The same as a list: what is due is what a whole tick has gone by for."""

    def __init__(self, now_ns: int) -> None:
        self.tick = now_ns // DELAY_TICK_NS
        self.entries: list[tuple[int, int, int]] = []

    def add(self, due_ns: int, number: int) -> None:
        self.entries.append((max(due_ns // DELAY_TICK_NS, self.tick), due_ns, number))

    def drain(self, now_ns: int) -> list[tuple[int, int]]:
        self.tick = max(self.tick, now_ns // DELAY_TICK_NS)
        due = [(due_ns, number) for tick, due_ns, number in self.entries if tick < self.tick]
        self.entries = [entry for entry in self.entries if entry[0] >= self.tick]
        return sorted(due)


def entries(wheel: TimingWheel) -> int:
    return sum(count for _, _, count in wheel.levels())


def add(wheel: TimingWheel, due_ns: int, number: int) -> bool:
    """Add one deadline; return False if it is beyond the horizon."""
    before = entries(wheel)
    wheel.add_many(np.array([due_ns], np.int64), np.array([number], np.int64))
    return entries(wheel) > before


@given(st.lists(st.tuples(st.lists(AHEADS, max_size=30), st.booleans(), STEPS), max_size=30))
def test_drain_matches_naive_model(turns: list[tuple[list[int], bool, int]]) -> None:
    now_ns, number = BEGIN, 0
    wheel, naive = TimingWheel(now_ns), Naive(now_ns)
    for aheads, together, step in turns:
        dues = [now_ns + ahead for ahead in aheads if now_ns + ahead < wheel.horizon_ns]
        numbers = list(range(number, number + len(dues)))
        number += len(dues)
        for due_ns, one in zip(dues, numbers, strict=True):
            naive.add(due_ns, one)
            assert together or add(wheel, due_ns, one)
        if together:
            wheel.add_many(np.array(dues, np.int64), np.array(numbers, np.int64))
        now_ns += step
        assert drained(wheel, now_ns) == naive.drain(now_ns)
        assert entries(wheel) == len(naive.entries)


@given(st.lists(AHEADS, min_size=1, max_size=30))
def test_draining_at_the_next_moment_returns_all_due_within_a_tick(aheads: list[int]) -> None:
    wheel = TimingWheel(BEGIN)
    left = {number for number, ahead in enumerate(aheads) if add(wheel, BEGIN + ahead, number)}
    while (now_ns := wheel.next_ns) is not None:
        for due_ns, number in drained(wheel, now_ns):
            assert due_ns <= now_ns
            assert now_ns - max(due_ns, BEGIN) <= DELAY_TICK_NS
            left.remove(number)
    assert not left


def test_deadline_beyond_the_horizon_is_not_added() -> None:
    wheel = TimingWheel(BEGIN)
    assert not add(wheel, wheel.horizon_ns, 1)
    assert add(wheel, wheel.horizon_ns - 1, 2)
    wheel.add_many(np.array([wheel.horizon_ns + DAY]), np.array([3]))
    assert entries(wheel) == 1


def test_within_horizon_time_of_a_far_deadline() -> None:
    wheel, due_ns = TimingWheel(BEGIN), BEGIN + 30 * DAY
    moment = wheel.within_horizon_ns(due_ns)
    wheel.drain(moment - 1)
    assert not add(wheel, due_ns, 1)
    wheel.drain(moment)
    assert add(wheel, due_ns, 1)


def test_drain_returns_nothing_after_clock_is_set_back() -> None:
    wheel = TimingWheel(BEGIN)
    add(wheel, BEGIN, 1)
    assert drained(wheel, BEGIN - DAY) == []
    assert drained(wheel, BEGIN + DAY) == [(BEGIN, 1)]


def test_duplicate_entries_are_drained_once() -> None:
    wheel = TimingWheel(BEGIN)
    add(wheel, BEGIN, 1)
    add(wheel, BEGIN, 1)
    assert drained(wheel, BEGIN + DAY) == [(BEGIN, 1)]


@pytest.mark.parametrize("seconds", [0.01, 2.56, 163.84, 10_485.76])
def test_entry_at_a_level_edge_is_not_early(seconds: float) -> None:
    begin = BEGIN // (2**20 * DELAY_TICK_NS) * 2**20 * DELAY_TICK_NS
    wheel, due_ns = TimingWheel(begin), begin + round(seconds * 10**9)
    add(wheel, due_ns, 1)
    assert drained(wheel, due_ns - 1) == []
    assert drained(wheel, due_ns + DELAY_TICK_NS) == [(due_ns, 1)]
