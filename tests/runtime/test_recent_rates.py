"""Recent rates: from the seconds of the history to the facts of the doctor."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.limits import HISTORY_SECONDS
from goqueue.observe.histogram import Histogram
from goqueue.observe.history import History, HistorySample
from goqueue.runtime.doctor_facts import RecentRates, growth, recent_rates


class Told:
    """The values that the history reads, second by second."""

    def __init__(self) -> None:
        self.second = 0
        self.lag = 0.0
        self.used = 0
        self.connections = 0
        self.flushes = Histogram()

    def read(self) -> HistorySample:
        self.second += 1
        return HistorySample(
            monotonic=float(self.second),
            loop_lag_seconds=self.lag,
            disk_used_bytes=self.used,
            connections=self.connections,
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
    return recent_rates(history).loop_seconds


def test_rates_are_unknown_without_enough_samples(told: Told, history: History) -> None:
    assert recent_rates(history) == RecentRates()
    assert lags(told, history, [9.0] * 4) is None


def test_limit_counts_as_near_after_ten_seconds(told: Told, history: History) -> None:
    for told.connections in [9] * 9:
        history.sample()
    assert recent_rates(history).connections == 0
    history.sample()
    assert recent_rates(history).connections == 9
    told.connections = 3
    history.sample()
    assert recent_rates(history).connections == 3


def test_single_pause_does_not_change_loop_lag(told: Told, history: History) -> None:
    assert lags(told, history, [0.001] * 58 + [2.0] * 2) == 0.001
    assert lags(told, history, [0.5] * 4) == 0.5


def test_loop_lag_covers_one_minute(told: Told, history: History) -> None:
    assert lags(told, history, [2.0] * 100 + [0.001] * 60) == 0.001


def test_flush_time_ignores_seconds_without_flush(told: Told, history: History) -> None:
    for second in range(60):
        if second % 10 == 0:
            told.flushes.observe(0.3)
        history.sample()
    found = recent_rates(history).flush_seconds
    assert found is not None
    assert 0.25 < found <= 0.5


def fill(told: Told, history: History, seconds: int, size: int) -> float:
    for _ in range(seconds):
        told.used += size
        history.sample()
    return recent_rates(history).disk_growth


def test_disk_growth_needs_five_minutes_of_samples(told: Told, history: History) -> None:
    assert fill(told, history, HISTORY_SECONDS - 1, 1000) == 0.0
    assert fill(told, history, 1, 1000) == 1000.0


def test_short_burst_is_not_disk_growth(told: Told, history: History) -> None:
    fill(told, history, 100, 10)
    fill(told, history, 60, 1_000_000)
    assert fill(told, history, HISTORY_SECONDS - 160, 10) == 10.0
    fill(told, history, HISTORY_SECONDS, 10)
    assert fill(told, history, 1, 10**9) == 10.0, "a file that was copied"


@given(st.lists(st.integers(1, 2**50), min_size=HISTORY_SECONDS, max_size=HISTORY_SECONDS))
def test_growth_is_limited_by_total_growth(used: list[int]) -> None:
    assert growth(sorted(used)) <= (max(used) - min(used)) / (len(used) - 1) * 1.01
