"""Lanes are served by their weights, and none waits for ever."""

from collections.abc import Sequence

import hypothesis
import pytest
from hypothesis import strategies as st

from goqueue.broker.core.lane_scheduler import LanePolicy, LaneScheduler
from goqueue.limits import LANE_WEIGHTS, PRIORITY_COUNT

PLENTY = (10**9,) * PRIORITY_COUNT
READY = st.lists(st.integers(0, 300), min_size=PRIORITY_COUNT, max_size=PRIORITY_COUNT)
WEIGHTS = st.tuples(*[st.integers(1, 60)] * PRIORITY_COUNT)
NEVER = LanePolicy(boost_ns=2**62)


class OneByOne:
    """The same, message by message, as the words say it."""

    def __init__(self, weights: Sequence[int]) -> None:
        self.weights = weights
        self.credits = [0] * PRIORITY_COUNT

    def divide(self, ready: Sequence[int], wanted: int) -> list[int]:
        taken = [0] * PRIORITY_COUNT
        while sum(taken) < wanted and (busy := [lane for lane in range(PRIORITY_COUNT) if taken[lane] < ready[lane]]):
            lane = next((lane for lane in busy if self.credits[lane]), None)
            if lane is None:
                left = min(wanted, sum(ready)) - sum(taken)
                factor = max(1, left // sum(self.weights[lane] for lane in busy))
                usual = max(1, left // sum(self.weights))
                factors = [factor if lane in busy else usual for lane in range(PRIORITY_COUNT)]
                self.credits = [weight * one for weight, one in zip(self.weights, factors, strict=True)]
            else:
                taken[lane] += 1
                self.credits[lane] -= 1
        return taken


def given(shares: LaneScheduler, rules: LanePolicy, ready: Sequence[int], wanted: int, now_ns: int) -> list[int]:
    """All of what it was given is taken."""
    taken = shares.divide(rules, ready, wanted, now_ns)
    shares.note(ready, taken, now_ns)
    return taken


@hypothesis.given(WEIGHTS, st.lists(st.tuples(READY, st.integers(1, 500)), max_size=10))
def test_lane_shares_match_naive_model(weights: tuple[int, ...], polls: list[tuple[list[int], int]]) -> None:
    shares, twin = LaneScheduler(), OneByOne(weights)
    for ready, wanted in polls:
        taken = shares.divide(LanePolicy(weights, 2**62), ready, wanted, 0)
        assert taken == twin.divide(ready, wanted)
        assert sum(taken) == min(wanted, sum(ready))


@pytest.mark.parametrize("wanted", [1, 7, 100, 500, 1000, 10_000])
def test_busy_lanes_are_served_by_weight(wanted: int) -> None:
    shares = LaneScheduler()
    totals = [0] * PRIORITY_COUNT
    while sum(totals) < 100_000:
        for lane, count in enumerate(shares.divide(NEVER, PLENTY, wanted, 0)):
            totals[lane] += count
    for total, weight in zip(totals, LANE_WEIGHTS, strict=True):
        assert total / sum(totals) == pytest.approx(weight / 100, rel=0.05)


def test_lane_starved_too_long_is_served_first_once() -> None:
    shares, rules = LaneScheduler(), LanePolicy((1000, 1000, 1000, 1000, 1), boost_ns=30)
    ready = (10**6, 0, 0, 0, 10)
    assert [given(shares, rules, ready, 1, now)[4] for now in (0, 10, 29, 30, 31, 59, 60)] == [0, 0, 0, 1, 0, 0, 1]


def test_empty_lane_does_not_wait() -> None:
    shares, rules = LaneScheduler(), LanePolicy((1000, 1000, 1000, 1000, 1), boost_ns=30)
    for now in range(0, 100, 10):
        given(shares, rules, (10**6, 0, 0, 0, 0), 1, now)
    assert given(shares, rules, (10**6, 0, 0, 0, 1), 1, 100)[4] == 0


def test_share_that_was_not_used_is_returned() -> None:
    shares = LaneScheduler()
    taken = shares.divide(NEVER, PLENTY, 100, 0)
    for lane, count in enumerate(taken):
        shares.give_back(lane, count)
    assert shares.divide(NEVER, PLENTY, 100, 0) == taken


def test_lane_that_received_nothing_counts_as_starved() -> None:
    shares, rules, ready = LaneScheduler(), LanePolicy(boost_ns=30), (10**6, 0, 0, 0, 10)
    for now in range(0, 30, 10):
        assert shares.divide(rules, ready, 1000, now)[4] > 0
        shares.note(ready, (1, 0, 0, 0, 0), now)
    assert shares.starved(rules, ready, 30) == [4]
