"""The growth of topics: made-up pasts whose future is known."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from goqueue.broker.core.topic import TopicSettings
from goqueue.spark.inspections.forecast import (
    DAY_HOURS,
    HORIZON_HOURS,
    HourlyCounts,
    HourScan,
    TopicForecast,
    fit_trend,
    forecast_disk_full,
    forecast_topics,
    sum_forecasts,
)
from goqueue.spark.inspections.internal_logs import TopicConfiguration
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.logs.splits import Split
from goqueue.spark.reading.plan import PartitionRange, ReadPlan, TopicSelection, make_plan
from goqueue.storage.log_view import LogView, SegmentView
from tests.spark import naive
from tests.spark.stock import made

_HOUR_NS = 3600 * 10**9
_MONDAY = 20_003 * 24
"""The first hour of one: day 20,003 since 1970 is 2024-10-07."""


def outlook(past: list[int], *, first: int = 5, **settings: int | str | None) -> TopicForecast:
    """Forecast a topic at the end of these hours, before which there was another one.

    With a `first` offset of 0 nothing of it has gone yet.
    """
    now = _MONDAY
    counts = Counter({now - len(past) + number: count for number, count in enumerate(past)})
    counts[now - len(past) - 1] += 1
    hours = HourlyCounts(Counter(dict.fromkeys(counts, 1)), counts)
    view = LogView((SegmentView(0, 10, sum(past) + 1),))
    split = Split("t", 0, first, 10, 0, ())
    facts = TopicConfiguration(TopicSettings(**{"retention_hours": None, **settings}), 1)  # type: ignore[arg-type]
    (found,) = forecast_topics(
        ReadPlan((PartitionRange(("t", 0), first, 10, view),)), [(split, hours)], {"t": facts}, now * _HOUR_NS
    )
    return found


def test_hours_are_counted_as_the_messages_are(tmp_path: Path) -> None:
    stock = made(tmp_path / "data", partitions=1)
    logs = DirectoryLogs.at(str(stock.path))
    found = HourlyCounts()
    for split in make_plan(logs, TopicSelection()).splits(logs, split_bytes=4096):
        found.join(HourScan(logs)(split))
    expected: Counter[int] = Counter()
    for _, _, message in naive.frames(stock.path, "orders"):
        expected[message.timestamp_ns // _HOUR_NS] += not message.flags & 0x08
    assert found.messages == expected
    assert found.bytes.total() == sum(path.stat().st_size for path in stock.segments("orders"))


def test_nothing_is_foreseen_of_less_than_two_hours() -> None:
    found = outlook([5])
    assert found.sizes is None
    assert found.size_in(30) is None
    assert forecast_disk_full(found, 100) is None


def test_the_first_hour_counts_where_nothing_has_gone() -> None:
    assert outlook([5], first=0).whole_hours == 2
    assert outlook([5], first=0).bytes_a_day == 3 * DAY_HOURS


def test_what_is_kept_for_ever_grows_as_it_did() -> None:
    found = outlook([100] * 10 * DAY_HOURS)
    assert found.bytes_a_day == 2400
    assert found.balance is None
    assert found.size_in(30) == (found.bytes + 72_000,) * 3


def test_what_is_kept_for_two_days_is_two_days_large() -> None:
    found = outlook([100] * 2 * DAY_HOURS, retention_hours=48)
    assert found.balance == 4800
    assert found.size_in(30) == (4800, 4800, 4800)
    assert forecast_disk_full(found, 10_000) is not None
    assert forecast_disk_full(found, 10_000).likely is None  # type: ignore[union-attr]


def test_a_young_topic_grows_up_to_its_balance() -> None:
    found = outlook([100] * DAY_HOURS, retention_hours=72)
    assert found.sizes is not None
    likely = found.sizes[1]
    assert likely[DAY_HOURS - 1] == pytest.approx(4801)
    assert likely[20 * DAY_HOURS] == pytest.approx(7200)


def test_a_partition_grows_no_larger_than_it_may() -> None:
    found = outlook([100] * 5 * DAY_HOURS, retention_bytes=13_000)
    assert found.balance == 13_000
    assert found.size_in(30) == (13_000, 13_000, 13_000)


def test_a_rise_goes_on() -> None:
    rising = [100 + 24 * day for day in range(10) for _ in range(DAY_HOURS)]
    trend = outlook(rising).trend
    assert trend is not None
    assert trend.is_rising
    assert trend.slope == pytest.approx(1)
    assert trend.ahead(1, _MONDAY, 0)[0] == pytest.approx(100 + 24 * 9.5 + 1 + 0, abs=1)


def test_chance_is_no_trend() -> None:
    noise = np.random.default_rng(5).poisson(1000, 12 * DAY_HOURS).tolist()
    trend = outlook(noise).trend
    assert trend is not None
    assert trend.is_rising is None
    assert trend.level == pytest.approx(1000, rel=0.02)
    assert trend.ahead(48, _MONDAY, -1).max() < trend.level < trend.ahead(48, _MONDAY, 1).min()


def test_days_of_the_week_have_their_share_after_two_weeks() -> None:
    weeks = [(0 if day % 7 >= 5 else 70) for day in range(21) for _ in range(DAY_HOURS)]
    trend = fit_trend(np.array(weeks, np.float64), _MONDAY - 1)
    assert trend is not None
    days = trend.ahead(7 * DAY_HOURS - 1, _MONDAY, 0)
    assert days[: 5 * DAY_HOURS - 1] == pytest.approx(70)
    assert days[5 * DAY_HOURS :].max() == 0
    assert fit_trend(np.array(weeks[: 13 * DAY_HOURS], np.float64), _MONDAY - 1).shares == (1.0,) * 7  # type: ignore[union-attr]


def test_the_disk_is_full_when_all_topics_together_are_too_large() -> None:
    one, other = outlook([100] * 10 * DAY_HOURS), outlook([50] * 10 * DAY_HOURS, retention_hours=24)
    whole = sum_forecasts([one, other])
    found = forecast_disk_full(whole, 10_000 - other.bytes)
    assert whole.bytes == one.bytes + other.bytes
    assert found is not None
    assert found.likely == found.earliest == found.latest
    assert found.likely == pytest.approx((10_000 - 1200) / 100, abs=1)


def test_doubt_makes_the_worst_earlier_and_the_best_later() -> None:
    noise = np.random.default_rng(7).poisson(1000, 5 * DAY_HOURS).tolist()
    found = forecast_disk_full(outlook(noise), 1000 * DAY_HOURS * 100)
    assert found is not None
    assert found.earliest is not None
    assert found.likely is not None
    assert found.latest is not None
    assert found.earliest < found.likely < found.latest < HORIZON_HOURS
