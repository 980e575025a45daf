"""The last minutes of the broker in numbers: of each series one for each second, oldest first.

Once a second it is handed what the counters and gauges say, and keeps by how much they have grown. Who asks for a
rate of now gets that of the last few seconds, of all topics together or of one.

What must stay true: all series are of one length, and each number stands for one second. So a sample that comes late
stands for all the seconds that it missed. No number is below 0, although what was counted may go with a topic.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from goqueue.limits import HISTORY_SECONDS, RATE_SECONDS
from goqueue.observe.metrics import TopicCounts

SERIES = (
    "published",
    "published_bytes",
    "read",
    "read_bytes",
    "settled",
    "requests",
    "publish_p50_ms",
    "publish_p99_ms",
    "flush_p99_ms",
    "loop_lag_ms",
    "total_lag",
    "disk_used_bytes",
)

Counted = tuple[TopicCounts, int, int, int, int]
"""Of one topic: whose counts they are, and messages and bytes published and read as they stood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What everything says at one moment. Counts are since the start."""

    monotonic: float
    """In seconds."""
    now_ns: int = 0
    topics: Mapping[str, Counted] = field(default_factory=dict)
    """Of as many topics as are counted by name."""
    unnamed: TopicCounts = field(default_factory=TopicCounts)
    """Of the topics that are not counted by name, and of those that are gone."""
    settled: int = 0
    requests: int = 0
    bounds: Sequence[float] = ()
    """In seconds, of the buckets of both histograms."""
    publish_counts: Sequence[int] = ()
    flush_counts: Sequence[int] = ()
    loop_lag_seconds: float = 0.0
    total_lag: int = 0
    disk_used_bytes: int = 0

    def totals(self) -> tuple[int, int, int, int]:
        """Messages and bytes published and read, of all topics."""
        rest = self.unnamed
        published, published_bytes = rest.messages_published, rest.bytes_published
        read, read_bytes = rest.messages_read, rest.bytes_read
        for _, one, two, three, four in self.topics.values():
            published += one
            published_bytes += two
            read += three
            read_bytes += four
        return published, published_bytes, read, read_bytes


def counted(counts: TopicCounts) -> Counted:
    return counts, counts.messages_published, counts.bytes_published, counts.messages_read, counts.bytes_read


@dataclass(frozen=True, slots=True)
class TopicRates:
    """A second, lately."""

    published: float = 0.0
    published_bytes: float = 0.0
    read: float = 0.0


class History:
    """Remembers `seconds` of them. The owner's duty: call `sample` once a second."""

    def __init__(self, read: Callable[[], Reading], seconds: int = HISTORY_SECONDS) -> None:
        self._read = read
        self._series: dict[str, deque[float]] = {name: deque(maxlen=seconds) for name in SERIES}
        self._lately: deque[Reading] = deque(maxlen=RATE_SECONDS + 1)
        self._totals = (0, 0, 0, 0)

    def sample(self) -> None:
        reading = self._read()
        totals = reading.totals()
        if self._lately:
            before = self._lately[-1]
            seconds = max(reading.monotonic - before.monotonic, 0.001)
            for name, value in zip(SERIES, self._values(before, reading, totals, seconds), strict=True):
                series = self._series[name]
                series.extend([value] * min(max(1, round(seconds)), series.maxlen or 1))
        self._totals = totals
        self._lately.append(reading)

    def _values(
        self, before: Reading, reading: Reading, totals: tuple[int, int, int, int], seconds: float
    ) -> tuple[float, ...]:
        published = _grown(before.publish_counts, reading.publish_counts)
        flushed = _grown(before.flush_counts, reading.flush_counts)
        counts = (*_grown(self._totals, totals), reading.settled - before.settled, reading.requests - before.requests)
        return (
            *(round(max(0, count) / seconds, 3) for count in counts),
            _milliseconds(percentile(reading.bounds, published, 0.5)),
            _milliseconds(percentile(reading.bounds, published, 0.99)),
            _milliseconds(percentile(reading.bounds, flushed, 0.99)),
            _milliseconds(reading.loop_lag_seconds),
            reading.total_lag,
            reading.disk_used_bytes,
        )

    # --- what is asked ---

    @property
    def end_ns(self) -> int | None:
        """When the last second ended; None before there is one."""
        return self._lately[-1].now_ns if len(self._lately) > 1 else None

    def last(self, seconds: int) -> dict[str, list[float]]:
        """The series, as far back as is remembered."""
        return {name: list(islice(one, max(0, len(one) - seconds), None)) for name, one in self._series.items()}

    def rate(self, name: str) -> float:
        """The mean of a series over the last few seconds."""
        series = self._series[name]
        lately = list(islice(series, max(0, len(series) - RATE_SECONDS), None))
        return round(sum(lately) / len(lately), 3) if lately else 0.0

    def topic_rates(self, topic: str) -> TopicRates | None:
        """None of a topic that is not counted by name. One that has not been counted yet had no traffic."""
        if len(self._lately) < 2:
            return None
        first, last = self._lately[0], self._lately[-1]
        now = last.topics.get(topic)
        if now is None:
            return None
        then = first.topics.get(topic)
        if then is None or then[0] is not now[0]:  # counted anew since
            then = (now[0], 0, 0, 0, 0)
        seconds = max(last.monotonic - first.monotonic, 0.001)
        return TopicRates(
            round((now[1] - then[1]) / seconds, 3),
            round((now[2] - then[2]) / seconds, 3),
            round((now[3] - then[3]) / seconds, 3),
        )


def _grown(before: Sequence[int], now: Sequence[int]) -> list[int]:
    return [max(0, two - one) for one, two in zip(before, now, strict=True)]


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def percentile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float:
    """Below which this share of what was counted lies, as far as buckets tell; 0 where nothing was counted.

    Within a bucket all are taken to lie evenly, and beyond the last bound at it.
    """
    wanted, below = sum(counts) * share, 0
    for number, count in enumerate(counts[: len(bounds)]):
        if count and below + count >= wanted:
            low = bounds[number - 1] if number else 0.0
            return min(bounds[number], low + (bounds[number] - low) * (wanted - below) / count)
        below += count
    return bounds[-1] if sum(counts) else 0.0
