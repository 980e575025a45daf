"""Clocks: what is steady, and what leaves out the time in which the process stood still."""

from collections.abc import Callable

import pytest

from goqueue.clock import NANOSECONDS, StallFreeClock, SteadyClock
from goqueue.limits import LOOP_HEARTBEAT_SECONDS, STALL_SECONDS
from goqueue.testing.clock import ManualClock


class Process:
    """A clock with its beats: a process that runs, stands still, and runs on."""

    def __init__(self) -> None:
        self.machine = ManualClock()
        self.clock = StallFreeClock(self.machine)
        self.clock.beat()

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / LOOP_HEARTBEAT_SECONDS)):
            self.machine.advance(LOOP_HEARTBEAT_SECONDS)
            self.clock.beat()

    def elapsed(self, act: Callable[[], object]) -> float:
        before = self.clock.monotonic_ns()
        act()
        return (self.clock.monotonic_ns() - before) / NANOSECONDS


def test_time_passes_as_on_the_machine_while_the_process_runs() -> None:
    process = Process()
    assert process.elapsed(lambda: process.run(60)) == 60
    assert process.clock.stalled_ns == 0


def test_a_clock_without_beats_is_that_of_the_machine() -> None:
    machine = ManualClock()
    clock = StallFreeClock(machine)
    machine.advance(3600)
    assert clock.monotonic_ns() == machine.monotonic_ns()


@pytest.mark.parametrize("seconds", [STALL_SECONDS + 0.001, 40.0, 86_400.0])
def test_a_stall_does_not_count(seconds: float) -> None:
    process = Process()
    assert process.elapsed(lambda: process.machine.advance(seconds)) == 0
    process.clock.beat()
    process.run(1)
    assert process.elapsed(lambda: process.run(5)) == 5
    assert process.clock.stalled_ns == pytest.approx((seconds + LOOP_HEARTBEAT_SECONDS) * NANOSECONDS)


def test_time_stands_still_after_a_stall_until_the_loop_has_come_round() -> None:
    process = Process()
    process.machine.advance(40)
    process.clock.beat()
    assert process.elapsed(lambda: process.machine.advance(LOOP_HEARTBEAT_SECONDS)) == 0
    process.clock.beat()
    assert process.elapsed(lambda: process.machine.advance(LOOP_HEARTBEAT_SECONDS)) == LOOP_HEARTBEAT_SECONDS


def test_time_passes_on_where_every_beat_is_late() -> None:
    """Otherwise members that are gone would be members for ever."""
    process = Process()

    def limp() -> None:
        for _ in range(100):
            process.machine.advance(STALL_SECONDS * 0.9)
            process.clock.monotonic_ns()
            process.machine.advance(STALL_SECONDS)
            process.clock.beat()

    assert process.elapsed(limp) >= 100 * STALL_SECONDS / 4


def test_time_never_goes_back_around_a_stall() -> None:
    process = Process()
    process.machine.advance(STALL_SECONDS * 0.9)
    assert process.elapsed(lambda: process.machine.advance(40)) == 0
    assert process.elapsed(process.clock.beat) == 0
    assert process.elapsed(lambda: process.run(LOOP_HEARTBEAT_SECONDS)) >= 0


def test_a_stall_is_told_once_with_how_long_it_was() -> None:
    process = Process()
    told: list[float] = []
    process.clock.on_stall.subscribe(lambda stall_ns: told.append(stall_ns / NANOSECONDS))
    process.run(5)
    process.machine.advance(40)
    process.clock.beat()
    process.run(5)
    assert told == [40]


def test_a_jump_of_the_wall_clock_is_no_stall() -> None:
    process = Process()
    process.machine.jump(86_400)
    assert process.elapsed(lambda: process.run(5)) == 5
    assert process.clock.now_ns() == process.machine.now_ns()


def test_a_steady_clock_goes_on_behind_a_stall_where_it_stood() -> None:
    process = Process()
    steady = SteadyClock(process.clock)
    before_ns = steady.now_ns()
    process.machine.advance(40)
    process.clock.beat()
    process.run(LOOP_HEARTBEAT_SECONDS)
    process.machine.advance(0.1)
    assert steady.now_ns() - before_ns == 0.1 * NANOSECONDS
