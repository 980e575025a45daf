"""Latencies beside their naive twin, a sorted list."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue_cli.bench.latencies import Latencies, bars, bounds_of, index_of

TIMES = st.lists(st.integers(0, 10**12), min_size=1, max_size=200)


def filled(times: list[int]) -> Latencies:
    latencies = Latencies()
    for time in times:
        latencies.add(time)
    return latencies


@given(TIMES, st.sampled_from([0.1, 1, 50, 90, 99, 99.9, 100]))
def test_a_percentile_is_that_of_the_sorted_list_and_at_most_1_percent_more(times: list[int], percent: float) -> None:
    exact = sorted(times)[max(1, math.ceil(round(len(times) * percent / 100, 6))) - 1]
    assert exact <= filled(times).percentile(percent) <= exact * 1.01


@given(TIMES)
def test_counts_ends_and_mean_are_exact(times: list[int]) -> None:
    latencies = filled(times)
    assert (latencies.count, latencies.most) == (len(times), max(times))
    assert latencies.mean == sum(times) / len(times)
    assert latencies.percentile(100) == max(times)
    assert sum(bucket.times for bucket in latencies.buckets()) == len(times)


@given(st.integers(0, 2**62))
def test_buckets_lie_side_by_side(time: int) -> None:
    first, end = bounds_of(index_of(time))
    assert first <= time < end
    assert index_of(end) == index_of(time) + 1
    assert end - first <= max(1, first / 128)


def test_no_times_are_no_failure() -> None:
    assert (Latencies().percentile(99), Latencies().mean, list(bars(Latencies()))) == (0, 0.0, [])


@pytest.mark.parametrize("width", [None, 20, 80])
def test_bars_show_every_time_once(width: int | None) -> None:
    lines = list(bars(filled([0, 10**6, 10**6, 5 * 10**6, 10**15]), width))
    shares = [float(share.removesuffix("%")) for line in lines for share in line.split() if share.endswith("%")]
    assert sum(shares) == pytest.approx(100)
    assert "below" in lines[0]
    assert "or more" in lines[-1]
    assert max(line.count("█") for line in lines) == next(line for line in lines if "40.0%" in line).count("█")
