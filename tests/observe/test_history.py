"""The history: what grew in each second, one number for each, and how fast it goes now."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.limits import RATE_SECONDS
from goqueue.observe.histogram import Histogram
from goqueue.observe.history import History, HistorySample, TopicRates, percentile, sample_topic
from goqueue.observe.history_row import SERIES
from goqueue.observe.metrics import Metrics, TopicCounts

BOUNDS = (0.001, 0.01, 0.1)


class World:
    """A broker's counters and its clock, moved by hand."""

    def __init__(self, seconds: int = 10) -> None:
        self.metrics = Metrics("1")
        self.at = 100.0
        self.gauges: dict[str, float] = {}
        self.publish_seconds = Histogram(BOUNDS)
        self.history = History(self.read, seconds)
        self.history.sample()

    def read(self) -> HistorySample:
        return HistorySample(
            monotonic=self.at,
            now_ns=round(self.at * 1e9),
            topics={name: sample_topic(one) for name, one in self.metrics.named_topics.items()},
            unnamed=self.metrics.unnamed(),
            bounds=BOUNDS,
            publish_counts=tuple(self.publish_seconds.counts),
            flush_counts=(0,) * 4,
            **self.gauges,  # type: ignore[arg-type]
        )

    def publish(self, topic: str, count: int) -> None:
        counts = self.metrics.topic(topic)
        counts.messages_published += count
        counts.bytes_published += 100 * count

    def second(self, *published: int, topic: str = "orders", seconds: float = 1.0) -> None:
        for count in published:
            self.publish(topic, count)
        self.at += seconds
        self.history.sample()

    def series(self, name: str) -> list[float]:
        return self.history.last(1000)[name]


def test_series_has_one_value_per_second() -> None:
    world = World()
    for count in (5, 0, 7):
        world.second(count)
    assert world.series("published") == [5, 0, 7]
    assert world.series("published_bytes") == [500, 0, 700]
    assert world.history.last(2)["published"] == [0, 7]
    assert {len(one) for one in world.history.last(1000).values()} == {3}
    assert world.history.end_ns == 103_000_000_000


def test_history_is_empty_before_the_first_second() -> None:
    history = World().history
    assert history.last(10) == {name: [] for name in SERIES}
    assert (history.end_ns, history.rate("published"), history.topic_rates("orders")) == (None, 0.0, None)


def test_history_length_is_limited() -> None:
    world = World(seconds=3)
    for count in range(10):
        world.second(count)
    assert world.series("published") == [7, 8, 9]


def test_late_sample_is_spread_over_missed_seconds() -> None:
    world = World()
    world.second(5)
    world.second(12, seconds=3.0)
    world.second(1, seconds=0.99)
    assert world.series("published") == [5, 4, 4, 4, round(1 / 0.99, 3)]
    world.second(0, seconds=86_400.0)
    assert world.series("published") == [0] * 10


def test_deleted_topic_does_not_reduce_the_series() -> None:
    world = World()
    world.second(50)
    world.metrics.forget_topic("orders")
    world.second(0)
    world.second(3)
    assert world.series("published") == [50, 0, 3]


def test_current_rate_covers_the_last_seconds() -> None:
    world = World(seconds=60)
    for _ in range(20):
        world.second(1000)
    for _ in range(RATE_SECONDS):
        world.second(10)
    assert world.history.rate("published") == 10
    assert world.history.topic_rates("orders") == TopicRates(10, 1000, 0)


def test_topic_rates_are_separate() -> None:
    world = World()
    for _ in range(3):
        world.publish("payments", 4)
        world.second(2)
    assert (world.history.topic_rates("payments"), world.history.topic_rates("orders")) == (
        TopicRates(4, 400),
        TopicRates(2, 200),
    )
    assert world.history.topic_rates("unknown") is None


def test_recreated_topic_starts_a_new_rate() -> None:
    world = World()
    for _ in range(5):
        world.second(100)
    world.metrics.forget_topic("orders")
    world.second(10)
    assert world.history.topic_rates("orders") == TopicRates(2, 200)


def test_gauges_and_latencies_are_sampled() -> None:
    world = World()
    world.gauges = {
        "loop_lag_seconds": 0.25,
        "total_lag": 17,
        "disk_used_bytes": 4096,
        "stored_bytes": 512,
        "connections": 3,
    }
    for seconds in (0.002, 0.003, 0.05):
        world.publish_seconds.observe(seconds)
    world.second()
    world.second()
    assert [world.series(name) for name in ("loop_lag_ms", "total_lag", "disk_used_bytes", "stored_bytes")] == [
        [250] * 2,
        [17] * 2,
        [4096] * 2,
        [512] * 2,
    ]
    assert world.series("publish_p99_ms") == [pytest.approx(97.3), 0.0]  # of the first second alone


@given(st.lists(st.floats(0.0, 0.2), min_size=1), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_percentile_lies_in_the_expected_bucket(seen: list[float], share: float) -> None:
    histogram = Histogram(BOUNDS)
    for seconds in seen:
        histogram.observe(seconds)
    found = percentile(BOUNDS, histogram.counts, share)
    meant = sorted(seen)[max(0, _ceiling(len(seen) * share) - 1)]
    low, high = next(_bucket(BOUNDS, meant))
    assert low <= found <= high


def _ceiling(number: float) -> int:
    return int(number) + (number > int(number))


def _bucket(bounds: Sequence[float], seconds: float) -> Iterator[tuple[float, float]]:
    number = bisect_left(bounds, seconds)
    edges = (0.0, *bounds, bounds[-1])
    yield edges[number], edges[number + 1]


def test_percentile_without_samples_is_zero() -> None:
    assert percentile(BOUNDS, [0, 0, 0, 0], 0.99) == 0.0


def test_loop_lag_peak_is_reset_when_read() -> None:
    metrics = Metrics("1")
    for seconds in (0.01, 0.3, 0.02):
        metrics.observe_loop_lag(seconds)
    assert [metrics.take_loop_lag_peak(), metrics.take_loop_lag_peak()] == [0.3, 0.0]


def test_topics_beyond_the_limit_are_summed() -> None:
    metrics = Metrics("1")
    for number in range(1001):
        metrics.topic(f"t{number}").messages_read += 1
    metrics.forget_topic("t0")
    assert metrics.unnamed() == TopicCounts(messages_read=2)
    assert metrics.names_all_topics
