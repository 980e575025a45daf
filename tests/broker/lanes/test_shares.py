"""Whose turn it is among lanes: shares, and that nobody waits for ever."""

from collections.abc import Sequence

import hypothesis
import pytest
from hypothesis import strategies as st

from goqueue.broker.lanes.shares import LaneRules, Shares
from goqueue.limits import LANE_WEIGHTS, PRIORITY_COUNT

PLENTY = (10**9,) * PRIORITY_COUNT
READY = st.lists(st.integers(0, 300), min_size=PRIORITY_COUNT, max_size=PRIORITY_COUNT)
WEIGHTS = st.tuples(*[st.integers(1, 60)] * PRIORITY_COUNT)
NEVER = LaneRules(boost_ns=2**62)


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


def given(shares: Shares, rules: LaneRules, ready: Sequence[int], wanted: int, now_ns: int) -> list[int]:
    """All of what it was given is taken."""
    taken = shares.divide(rules, ready, wanted, now_ns)
    shares.note(ready, taken, now_ns)
    return taken


@hypothesis.given(WEIGHTS, st.lists(st.tuples(READY, st.integers(1, 500)), max_size=10))
def test_it_does_what_a_count_message_by_message_does(
    weights: tuple[int, ...], polls: list[tuple[list[int], int]]
) -> None:
    shares, twin = Shares(), OneByOne(weights)
    for ready, wanted in polls:
        taken = shares.divide(LaneRules(weights, 2**62), ready, wanted, 0)
        assert taken == twin.divide(ready, wanted)
        assert sum(taken) == min(wanted, sum(ready))


@pytest.mark.parametrize("wanted", [1, 7, 100, 500, 1000, 10_000])
def test_busy_lanes_get_what_their_weights_say(wanted: int) -> None:
    shares = Shares()
    totals = [0] * PRIORITY_COUNT
    while sum(totals) < 100_000:
        for lane, count in enumerate(shares.divide(NEVER, PLENTY, wanted, 0)):
            totals[lane] += count
    for total, weight in zip(totals, LANE_WEIGHTS, strict=True):
        assert total / sum(totals) == pytest.approx(weight / 100, rel=0.05)


def test_what_a_lane_does_not_need_goes_to_the_others() -> None:
    assert Shares().divide(NEVER, (0, 0, 10, 0, 1000), 100, 0) == [0, 0, 10, 0, 90]


def test_a_lane_that_was_empty_is_served_at_once() -> None:
    shares = Shares()
    for _ in range(33):
        shares.divide(NEVER, (0, 0, 10**6, 0, 10**6), 1, 0)
    assert shares.divide(NEVER, (1, 0, 10**6, 0, 10**6), 1, 0) == [1, 0, 0, 0, 0]


def test_a_lane_that_was_empty_for_long_keeps_no_more_than_its_part() -> None:
    shares = Shares()
    for _ in range(10):
        shares.divide(NEVER, (0, 0, 0, 0, 10**6), 999, 0)
    taken = shares.divide(NEVER, (10**6, 0, 0, 0, 10**6), 999, 0)
    assert taken[4] / 999 == pytest.approx(3 / 53, rel=0.6)


def test_a_trickle_of_urgent_messages_does_not_keep_the_others_from_their_share() -> None:
    shares, totals = Shares(), [0] * PRIORITY_COUNT
    for _ in range(10_000):
        for lane, count in enumerate(shares.divide(NEVER, (1, 0, 10**6, 0, 0), 1, 0)):
            totals[lane] += count
    assert totals[2] / 10_000 == pytest.approx(15 / 65, rel=0.05)


def test_a_lane_that_was_passed_over_for_too_long_goes_first_once() -> None:
    shares, rules = Shares(), LaneRules((1000, 1000, 1000, 1000, 1), boost_ns=30)
    ready = (10**6, 0, 0, 0, 10)
    assert [given(shares, rules, ready, 1, now)[4] for now in (0, 10, 29, 30, 31, 59, 60)] == [0, 0, 0, 1, 0, 0, 1]


def test_the_time_of_a_lane_that_is_empty_does_not_count_as_waiting() -> None:
    shares, rules = Shares(), LaneRules((1000, 1000, 1000, 1000, 1), boost_ns=30)
    for now in range(0, 100, 10):
        given(shares, rules, (10**6, 0, 0, 0, 0), 1, now)
    assert given(shares, rules, (10**6, 0, 0, 0, 1), 1, 100)[4] == 0


def test_what_could_not_be_taken_is_not_lost() -> None:
    shares = Shares()
    taken = shares.divide(NEVER, PLENTY, 100, 0)
    for lane, count in enumerate(taken):
        shares.give_back(lane, count)
    assert shares.divide(NEVER, PLENTY, 100, 0) == taken


def test_who_was_given_something_and_could_not_take_it_has_been_passed_over() -> None:
    shares, rules, ready = Shares(), LaneRules(boost_ns=30), (10**6, 0, 0, 0, 10)
    for now in range(0, 30, 10):
        assert shares.divide(rules, ready, 1000, now)[4] > 0
        shares.note(ready, (1, 0, 0, 0, 0), now)
    assert shares.passed_over(rules, ready, 30) == [4]
