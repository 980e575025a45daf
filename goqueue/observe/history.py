"""The last minutes of the broker: one number per second and series, oldest first.

Each sample stores how much the counters grew. Current rates are means over the last few seconds, of all topics
together or of one.

What must stay true: all series have the same length, and each number stands for one second, so a late sample fills
the seconds that it missed. No number is negative, although a deleted topic takes its counts with it.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from goqueue.limits import HISTORY_SECONDS, RATE_SECONDS
from goqueue.observe.history_rings import HistoryRings
from goqueue.observe.history_row import SERIES, GroupPoint, Values
from goqueue.observe.metrics import TopicCounts

TopicSample = tuple[TopicCounts, Sequence[int]]
"""The counters of a topic, and their values: messages and bytes published, messages and bytes read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySample:
    """All counters and gauges at one moment. Counts are since startup."""

    monotonic: float
    """Seconds."""
    now_ns: int = 0
    topics: Mapping[str, TopicSample] = field(default_factory=dict)
    """Topics with counters of their own."""
    unnamed: TopicCounts = field(default_factory=TopicCounts)
    """All other topics, deleted ones included."""
    settled: int = 0
    requests: int = 0
    bounds: Sequence[float] = ()
    """Bounds of both histograms in seconds."""
    publish_counts: Sequence[int] = ()
    flush_counts: Sequence[int] = ()
    loop_lag_seconds: float = 0.0
    total_lag: int = 0
    disk_used_bytes: int = 0
    stored_bytes: int = 0
    """The size of all logs, those of the broker itself included."""
    in_flight_bytes: int = 0
    connections: int = 0
    groups: Mapping[bytes, GroupPoint] = field(default_factory=dict)
    """Lag and rate of groups, those with the most lag."""

    def totals(self) -> list[int]:
        """Return messages and bytes published, messages and bytes read, of all topics."""
        rows = [self.unnamed.values(), *(values for _, values in self.topics.values())]
        return [sum(column) for column in zip(*rows, strict=True)]


def sample_topic(counts: TopicCounts) -> TopicSample:
    return counts, counts.values()


@dataclass(frozen=True, slots=True)
class TopicRates:
    """Current rates of a topic, per second."""

    published: float = 0.0
    published_bytes: float = 0.0
    read: float = 0.0


class History:
    """The series of the last `seconds` seconds, and the rings of the time before. Its owner calls `sample` once a
    second.
    """

    def __init__(self, read: Callable[[], HistorySample], seconds: int = HISTORY_SECONDS) -> None:
        self._read = read
        self._series: dict[str, deque[float]] = {name: deque(maxlen=seconds) for name in SERIES}
        self._lately: deque[HistorySample] = deque(maxlen=RATE_SECONDS + 1)
        self._totals = [0, 0, 0, 0]
        self.rings = HistoryRings()

    def sample(self) -> None:
        reading = self._read()
        totals = reading.totals()
        if self._lately:
            before = self._lately[-1]
            seconds = max(reading.monotonic - before.monotonic, 0.001)
            values = self._values(before, reading, totals, seconds)
            self.rings.add(reading.now_ns, seconds, values, reading.groups)
            for name, value in zip(SERIES, values, strict=True):
                series = self._series[name]
                series.extend([value] * min(max(1, round(seconds)), series.maxlen or 1))
        self._totals = totals
        self._lately.append(reading)

    def _values(self, before: HistorySample, reading: HistorySample, totals: Sequence[int], seconds: float) -> Values:
        published = _increase(before.publish_counts, reading.publish_counts)
        flushed = _increase(before.flush_counts, reading.flush_counts)
        counts = (
            *_increase(self._totals, totals),
            reading.settled - before.settled,
            reading.requests - before.requests,
        )
        return (
            *(round(max(0, count) / seconds, 3) for count in counts),
            _milliseconds(percentile(reading.bounds, published, 0.5)),
            _milliseconds(percentile(reading.bounds, published, 0.99)),
            _milliseconds(percentile(reading.bounds, flushed, 0.99)),
            _milliseconds(reading.loop_lag_seconds),
            reading.total_lag,
            reading.disk_used_bytes,
            reading.stored_bytes,
            reading.in_flight_bytes,
            reading.connections,
        )

    @property
    def end_ns(self) -> int | None:
        """End of the last second; None before there is one."""
        return self._lately[-1].now_ns if len(self._lately) > 1 else None

    def last(self, seconds: int) -> dict[str, list[float]]:
        """Return up to `seconds` seconds of each series."""
        return {name: list(islice(one, max(0, len(one) - seconds), None)) for name, one in self._series.items()}

    def rate(self, name: str) -> float:
        """Return the mean of a series over the last few seconds."""
        series = self._series[name]
        lately = list(islice(series, max(0, len(series) - RATE_SECONDS), None))
        return round(sum(lately) / len(lately), 3) if lately else 0.0

    def topic_rates(self, topic: str) -> TopicRates | None:
        """Return the rates of a topic; None if it has no counters of its own."""
        if len(self._lately) < 2:
            return None
        first, last = self._lately[0], self._lately[-1]
        now = last.topics.get(topic)
        if now is None:
            return None
        then = first.topics.get(topic)
        values = then[1] if then is not None and then[0] is now[0] else (0, 0, 0, 0)  # it was created again since
        seconds = max(last.monotonic - first.monotonic, 0.001)
        published, size, read, _ = (round((two - one) / seconds, 3) for one, two in zip(values, now[1], strict=True))
        return TopicRates(published, size, read)


def _increase(before: Sequence[int], now: Sequence[int]) -> list[int]:
    return [max(0, two - one) for one, two in zip(before, now, strict=True)]


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def percentile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float:
    """Estimate a percentile from histogram buckets; 0 without any counts.

    Values are taken to be evenly distributed within a bucket; beyond the last bound, to equal it.
    """
    wanted, below = sum(counts) * share, 0
    for number, count in enumerate(counts[: len(bounds)]):
        if count and below + count >= wanted:
            low = bounds[number - 1] if number else 0.0
            return min(bounds[number], low + (bounds[number] - low) * (wanted - below) / count)
        below += count
    return bounds[-1] if sum(counts) else 0.0
