"""How the broker did lately: from the seconds that its history remembers to what the doctor judges."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.limits import HISTORY_SECONDS
from goqueue.observe.history import History, Reading
from goqueue.observe.metrics import Histogram
from goqueue.runtime.speeds import Speeds, growth, speeds


class Told:
    """What the history reads, a second after the other."""

    def __init__(self) -> None:
        self.second = 0
        self.lag = 0.0
        self.used = 0
        self.flushes = Histogram()

    def read(self) -> Reading:
        self.second += 1
        return Reading(
            monotonic=float(self.second),
            loop_lag_seconds=self.lag,
            disk_used_bytes=self.used,
            bounds=self.flushes.bounds,
            publish_counts=tuple(self.flushes.counts),
            flush_counts=tuple(self.flushes.counts),
        )


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def history(told: Told) -> History:
    made = History(told.read)
    made.sample()
    return made


def lags(told: Told, history: History, seconds: Iterable[float]) -> float | None:
    for told.lag in seconds:
        history.sample()
    return speeds(history).loop_seconds


def test_nothing_is_said_before_there_is_enough_to_tell_from(told: Told, history: History) -> None:
    assert speeds(history) == Speeds()
    assert lags(told, history, [9.0] * 4) is None


def test_one_pause_in_a_minute_is_nobodys_concern(told: Told, history: History) -> None:
    assert lags(told, history, [0.001] * 58 + [2.0] * 2) == 0.001
    assert lags(told, history, [0.5] * 4) == 0.5


def test_what_was_more_than_a_minute_ago_is_over(told: Told, history: History) -> None:
    assert lags(told, history, [2.0] * 100 + [0.001] * 60) == 0.001


def test_seconds_without_a_flush_say_nothing_of_flushes(told: Told, history: History) -> None:
    for second in range(60):
        if second % 10 == 0:
            told.flushes.observe(0.3)
        history.sample()
    found = speeds(history).flush_seconds
    assert found is not None
    assert 0.25 < found <= 0.5


def fill(told: Told, history: History, seconds: int, size: int) -> float:
    for _ in range(seconds):
        told.used += size
        history.sample()
    return speeds(history).disk_growth


def test_a_disk_grows_once_five_minutes_tell_so(told: Told, history: History) -> None:
    assert fill(told, history, HISTORY_SECONDS - 1, 1000) == 0.0
    assert fill(told, history, 1, 1000) == 1000.0


def test_a_disk_that_fills_for_a_while_only_does_not_grow(told: Told, history: History) -> None:
    fill(told, history, 100, 10)
    fill(told, history, 60, 1_000_000)
    assert fill(told, history, HISTORY_SECONDS - 160, 10) == 10.0
    fill(told, history, HISTORY_SECONDS, 10)
    assert fill(told, history, 1, 10**9) == 10.0, "a file that was copied"


@given(st.lists(st.integers(1, 2**50), min_size=HISTORY_SECONDS, max_size=HISTORY_SECONDS))
def test_growth_is_never_more_than_from_the_first_to_the_last(used: list[int]) -> None:
    assert growth(sorted(used)) <= (max(used) - min(used)) / (len(used) - 1) * 1.01


@given(st.lists(st.integers(1, 2**50), max_size=HISTORY_SECONDS - 1))
def test_before_that_there_is_no_growth(used: list[int]) -> None:
    assert growth(used) == 0
