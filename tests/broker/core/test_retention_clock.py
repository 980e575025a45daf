"""Retention and the wall clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.upkeep import RetentionClock
from goqueue.clock import NANOSECONDS
from goqueue.limits import CLOCK_JUMP_HOLD_SECONDS, CLOCK_JUMP_SECONDS
from goqueue.testing.clock import ManualClock

DAY = 24 * 3600


def seconds(nanoseconds: int) -> float:
    return nanoseconds / NANOSECONDS


def test_clock_that_runs_as_it_should_is_believed() -> None:
    clock = ManualClock()
    watch = RetentionClock(clock, 10, last_seen_ns=clock.now_ns())
    clock.advance(400 * DAY)
    assert watch.allowance("t", 1000) is None
    assert watch.trusted_ns() == clock.now_ns()


def test_jump_forward_is_in_doubt_for_an_hour() -> None:
    clock = ManualClock()
    watch = RetentionClock(clock, 10)
    clock.jump(400 * DAY)
    watch.look()
    assert watch.is_in_doubt
    assert seconds(watch.ahead_ns) == 400 * DAY
    clock.advance(CLOCK_JUMP_HOLD_SECONDS - 1)
    assert watch.allowance("t", 1000) is not None
    clock.advance(1)
    assert watch.allowance("t", 1000) is None
    assert watch.trusted_ns() == clock.now_ns()


def test_share_of_a_topic_is_granted_once_for_a_jump() -> None:
    clock = ManualClock()
    watch = RetentionClock(clock, 10)
    clock.jump(DAY)
    first = watch.allowance("t", 1000)
    assert first is not None
    assert first.bytes_left == 100
    first.bytes_left, first.is_used_up = 0, True
    clock.jump(DAY)
    assert watch.allowance("t", 1000) is first
    assert watch.held_back() == ["t"]


@pytest.mark.parametrize("step", [CLOCK_JUMP_SECONDS, -DAY])
def test_clock_that_is_set_a_little_or_back_is_believed(step: float) -> None:
    clock = ManualClock()
    watch = RetentionClock(clock, 10)
    clock.jump(step)
    watch.look()
    assert not watch.is_in_doubt


def test_many_small_steps_forward_are_a_jump() -> None:
    clock = ManualClock()
    watch = RetentionClock(clock, 10)
    for _ in range(3):
        clock.jump(CLOCK_JUMP_SECONDS / 2)
        watch.look()
    assert watch.is_in_doubt


def test_jump_that_is_taken_back_leaves_nothing_in_doubt_and_grants_no_second_share() -> None:
    clock = ManualClock()
    watch = RetentionClock(clock, 10)
    for _ in range(3):
        clock.jump(DAY)
        allowance = watch.allowance("t", 1000)
        assert allowance is not None
        assert allowance.bytes_left in (100, 0)
        allowance.bytes_left = 0
        clock.jump(-DAY)
        watch.look()
        assert watch.ahead_ns == 0


def test_long_downtime_is_in_doubt() -> None:
    clock = ManualClock()
    watch = RetentionClock(clock, 10, last_seen_ns=clock.now_ns() - 2 * DAY * NANOSECONDS)
    assert seconds(watch.ahead_ns) == 2 * DAY
    assert watch.jumped_ns == 0


def test_clock_that_was_ahead_at_the_start_and_is_put_right_is_believed_as_far() -> None:
    clock = ManualClock()
    known = clock.now_ns()
    clock.jump(400 * DAY)
    watch = RetentionClock(clock, 10, last_seen_ns=known)
    clock.advance(5)
    clock.jump(-400 * DAY)
    watch.look()
    assert watch.ahead_ns == 0
    assert watch.trusted_ns() == clock.now_ns()


def test_doubt_goes_on_after_a_restart() -> None:
    clock = ManualClock()
    watch = RetentionClock(clock, 10)
    clock.jump(400 * DAY)
    watch.look()
    after = RetentionClock(clock, 10, last_seen_ns=clock.now_ns(), ahead_ns=watch.ahead_ns)
    assert after.ahead_ns == watch.ahead_ns
    assert after.seconds_left == CLOCK_JUMP_HOLD_SECONDS


def test_every_clock_is_trusted_when_the_whole_topic_may_go() -> None:
    clock = ManualClock()
    watch = RetentionClock(clock, 100, last_seen_ns=1, ahead_ns=DAY * NANOSECONDS)
    clock.jump(DAY)
    assert watch.allowance("t", 1000) is None
    assert watch.trusted_ns() == clock.now_ns()


STEPS = st.lists(st.tuples(st.sampled_from(["pass", "jump"]), st.integers(-10 * DAY, 10 * DAY)), max_size=40)


@given(steps=STEPS)
def test_trusted_time_never_runs_ahead_of_real_time_within_the_hour(steps: list[tuple[str, int]]) -> None:
    clock = ManualClock()
    began = clock.now_ns()
    watch = RetentionClock(clock, 10, last_seen_ns=began)
    lived = 0.0
    for kind, size in steps:
        if kind == "jump":
            clock.jump(size)
        else:
            lived += abs(size) % CLOCK_JUMP_HOLD_SECONDS
            clock.advance(abs(size) % CLOCK_JUMP_HOLD_SECONDS)
        watch.look()
        assert watch.ahead_ns >= 0
        assert watch.trusted_ns() <= clock.now_ns()
        if lived < CLOCK_JUMP_HOLD_SECONDS:  # no doubt can be over yet
            assert watch.trusted_ns() <= began + (lived + CLOCK_JUMP_SECONDS) * NANOSECONDS
