"""What the broker counts, and how Prometheus reads it.

Counting is done by the event loop alone (and of flushes by the thread that does them, alone), in plain attributes and
dictionaries: no lock, no call into a library. A scrape takes a copy of all that, on the loop's thread; to make it a
text, which takes longer, is a matter for any thread.

What must stay true: every metric stands in `METRICS`, numbers only grow where the table says counter, and no label has
more values than a bound allows.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from goqueue.observe.group_metrics import GroupMetrics
from goqueue.observe.label import OTHERS, VALUES_MAX, bounded
from goqueue.observe.transaction_metrics import SECONDS as TRANSACTION_SECONDS
from goqueue.observe.transaction_metrics import TransactionNumbers

Kind = Literal["counter", "gauge", "histogram", "info"]


@dataclass(frozen=True, slots=True)
class Description:
    """One row of the table from which the text for Prometheus and docs/metrics.md are made."""

    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


_REQUEST = ("endpoint", "method", "status")
METRICS: Mapping[str, Description] = {
    "goqueue_build": Description("info", "The version that runs.", ("version",)),
    "goqueue_http_requests": Description("counter", "Requests answered, by the template of their path.", _REQUEST),
    "goqueue_http_request_seconds": Description(
        "histogram", "From the first byte of a request to the last of its answer.", ("endpoint", "method")
    ),
    "goqueue_connections_open": Description("gauge", "Connections that are open now."),
    "goqueue_connections": Description("counter", "Connections accepted."),
    "goqueue_connections_refused": Description(
        "counter", "Connections closed before a request, by reason.", ("reason",)
    ),
    "goqueue_messages_published": Description("counter", "Messages made durable.", ("topic",)),
    "goqueue_bytes_published": Description("counter", "Bytes of frames made durable.", ("topic",)),
    "goqueue_messages_read": Description("counter", "Messages given to readers.", ("topic",)),
    "goqueue_bytes_read": Description("counter", "Bytes of frames given to readers.", ("topic",)),
    "goqueue_publish_seconds": Description("histogram", "From the arrival of a batch until it is durable."),
    "goqueue_flush_seconds": Description("histogram", "Rounds of writing and syncing; the count is that of rounds."),
    "goqueue_sync_failures": Description("counter", "Writes and syncs that failed. Anything but 0 needs a person."),
    "goqueue_logs_refused": Description(
        "gauge", "Logs whose last write the disk refused, mostly since it is full. Fenced logs are not among them."
    ),
    "goqueue_loop_lag_seconds": Description("gauge", "How late the event loop was when it last looked."),
    "goqueue_loop_delay_seconds": Description("histogram", "How late the event loop was, over time."),
    "goqueue_stalls": Description("counter", "Times that the broker stood still: it was paused, or held up."),
    "goqueue_stalled_seconds": Description("counter", "How long the broker stood still, all together."),
    "goqueue_in_flight_bytes": Description("gauge", "Bytes of requests that have arrived and are not answered."),
    "goqueue_tail_bytes": Description("gauge", "Bytes of the newest frames held in memory."),
    "goqueue_log_size_bytes": Description("gauge", "Bytes on disk of a topic's logs.", ("topic",)),
    "goqueue_groups": Description("gauge", "Groups by what they are at.", ("state",)),
    "goqueue_group_members": Description("gauge", "Members of a group.", ("group",)),
    "goqueue_group_lag_messages": Description(
        "gauge", "Offsets between what a group has done with and the end of a topic.", ("group", "topic")
    ),
    "goqueue_group_in_flight_messages": Description("gauge", "Messages that the members of a group have.", ("group",)),
    "goqueue_group_lost_messages": Description(
        "counter", "Messages that retention removed before a group had them.", ("group",)
    ),
    "goqueue_messages_settled": Description(
        "counter", "What became of messages that were handed to members.", ("outcome",)
    ),
    "goqueue_rebalances": Description("counter", "Rebalances that began, by their reasons.", ("reason",)),
    "goqueue_rebalance_seconds": Description(
        "histogram", "From what made a rebalance necessary until it was complete and durable."
    ),
    "goqueue_revocation_timeouts": Description(
        "counter", "Rebalances in which somebody did not give up in time what was asked for."
    ),
    "goqueue_delayed_pending_messages": Description("gauge", "Messages that wait for their time.", ("topic",)),
    "goqueue_delayed_messages": Description("counter", "What became of messages that waited.", ("outcome",)),
    "goqueue_delayed_late_seconds": Description("histogram", "How late delayed messages stood in their topic."),
    "goqueue_priority_delivered_messages": Description("counter", "Messages handed to groups.", ("priority",)),
    "goqueue_priority_leases": Description("counter", "Leases in which they were handed out.", ("priority",)),
    "goqueue_priority_wait_seconds": Description(
        "counter", "From the append to the lease, of the first message of each lease, all together.", ("priority",)
    ),
    "goqueue_transactions_open": Description("gauge", "Transactions that have not ended, by state.", ("state",)),
    "goqueue_transaction_oldest_seconds": Description("gauge", "Since the oldest of them has begun."),
    "goqueue_transactions_committed": Description("counter", "Transactions that were committed."),
    "goqueue_transactions_aborted": Description("counter", "Transactions that were aborted, by reason.", ("reason",)),
    "goqueue_transaction_seconds": Description("histogram", "From the beginning of a transaction to its end."),
    "goqueue_transaction_held_back_messages": Description(
        "gauge", "Offsets that readers do not see behind open transactions.", ("topic", "partition")
    ),
}
"""Counters are named without the `_total`, and the build without the `_info`, that Prometheus sees at the end."""

Handed = tuple[int, int, float]
"""Messages and leases that groups were handed, and how long their first messages had waited, in seconds."""

_SECONDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)


class Histogram:
    """How often which duration was seen. A bound belongs to the bucket below it, as Prometheus has it."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...] = _SECONDS) -> None:
        assert list(bounds) == sorted(set(bounds)), "bounds rise"
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds

    def observe_many(self, counts: Sequence[int], seconds: float) -> None:
        """So many in each bucket, and what they are together."""
        self.counts = [known + more for known, more in zip(self.counts, counts, strict=True)]
        self.sum += seconds

    @property
    def count(self) -> int:
        return sum(self.counts)

    def buckets(self) -> list[tuple[str, float]]:
        """What Prometheus wants: each bucket with all that is below it."""
        total, buckets = 0, []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return buckets


@dataclass(slots=True)
class TopicCounts:
    """Bumped in place by whoever publishes or reads."""

    messages_published: int = 0
    bytes_published: int = 0
    messages_read: int = 0
    bytes_read: int = 0

    def __add__(self, other: "TopicCounts") -> "TopicCounts":
        return TopicCounts(
            self.messages_published + other.messages_published,
            self.bytes_published + other.bytes_published,
            self.messages_read + other.messages_read,
            self.bytes_read + other.bytes_read,
        )


@dataclass(slots=True)
class EndpointCounts:
    """Of one method and path template."""

    seconds: Histogram = field(default_factory=Histogram)
    by_status: dict[int, int] = field(default_factory=dict)

    def observe(self, status: int, seconds: float) -> None:
        self.by_status[status] = self.by_status.get(status, 0) + 1
        self.seconds.observe(seconds)


class Metrics:
    """All numbers of one broker. Attributes are public: hot paths bump them where they stand."""

    def __init__(self, version: str, *, log_sizes: Callable[[], Mapping[str, int]] = dict) -> None:
        """`log_sizes` is asked at each scrape for bytes on disk by topic."""
        self.version = version
        self.log_sizes = log_sizes
        self.groups = GroupMetrics()
        self.rebalance_seconds = Histogram()
        self.delayed_late_seconds = Histogram()
        self.delayed_pending: Mapping[str, int] = {}
        """By topic, put here before each scrape; and what became of those that wait no more."""
        self.delayed_outcomes: Mapping[str, int] = {}
        self.priorities: Mapping[str, Handed] = {}
        """What groups were handed of each, put here before each scrape."""
        self.transactions = TransactionNumbers()
        """Those of now, put here before each scrape."""
        self.transaction_seconds = Histogram(TRANSACTION_SECONDS)
        self.connections = 0
        self.connections_open = 0
        self.connections_refused: dict[str, int] = {}
        self.publish_seconds = Histogram()
        self.flush_seconds = Histogram()
        self.sync_failures = 0
        self.stalls = 0
        self.stalled_seconds = 0.0
        self.logs_refused = 0
        self.loop_lag = 0.0
        self._lag_peak = 0.0
        self.loop_delay = Histogram()
        self.in_flight_bytes = 0
        self.tail_bytes = 0
        self._endpoints: dict[tuple[str, str], EndpointCounts] = {}
        self._topics: dict[str, TopicCounts] = {}
        self._others = TopicCounts()
        self._gone = TopicCounts()

    def endpoint(self, method: str, template: str) -> EndpointCounts:
        """To be asked for once, by whoever holds the table of endpoints; never by a path that a client wrote."""
        counts = self._endpoints.get((method, template))
        if counts is None:
            counts = self._endpoints[method, template] = EndpointCounts()
        return counts

    def topic(self, name: str) -> TopicCounts:
        """The counts of a topic, or those of all others once there are too many. Ask again after a deletion."""
        counts = self._topics.get(name)
        if counts is not None:
            return counts
        if len(self._topics) >= VALUES_MAX:
            return self._others
        counts = self._topics[name] = TopicCounts()
        return counts

    def forget_topic(self, name: str) -> None:
        """A deleted topic has no numbers any more, and its place is free for another."""
        self._gone += self._topics.pop(name, TopicCounts())

    @property
    def named_topics(self) -> Mapping[str, TopicCounts]:
        """Those that are counted by name."""
        return self._topics

    @property
    def names_all_topics(self) -> bool:
        """Whether there is room to count another topic by name."""
        return len(self._topics) < VALUES_MAX

    def unnamed(self) -> TopicCounts:
        """What is not among those: of the topics beyond the bound, and of those that were deleted."""
        return self._others + self._gone

    def refuse_connection(self, reason: str) -> None:
        """`reason` is one of few that the program knows."""
        self.connections_refused[reason] = self.connections_refused.get(reason, 0) + 1

    def observe_lag(self, seconds: float) -> None:
        self.loop_lag = seconds
        self._lag_peak = max(self._lag_peak, seconds)
        self.loop_delay.observe(seconds)

    def take_lag_peak(self) -> float:
        """The worst since this was asked last, which the history does."""
        peak, self._lag_peak = self._lag_peak, 0.0
        return peak

    def scrape(self) -> "Scrape":
        return Scrape(_Numbers(self).collect())

    def endpoints(self) -> Iterator[tuple[str, str, EndpointCounts]]:
        for (method, template), counts in self._endpoints.items():
            yield template, method, counts

    def topics(self) -> Iterator[tuple[str, TopicCounts]]:
        yield from self._topics.items()
        if self._others != TopicCounts():
            yield OTHERS, self._others


class Scrape(Collector):
    """All numbers of one moment. Nothing changes them any more, so any thread may have the text made."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The text and its content type: OpenMetrics for whoever accepts it."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        ProcessCollector(registry=registry)
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type


class _Numbers:
    """Those of this moment as prometheus-client's families."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        yield InfoMetricFamily("goqueue_build", METRICS["goqueue_build"].help, {"version": self._metrics.version})
        yield from self._requests()
        yield from self._topics()
        yield from self._groups_and_transactions()
        yield from self._delayed()
        yield from self._priorities()
        yield from self._plain()

    def _requests(self) -> Iterator[Metric]:
        requests, seconds = _counter("goqueue_http_requests"), _histogram("goqueue_http_request_seconds")
        for template, method, counts in self._metrics.endpoints():
            for status, count in counts.by_status.items():
                requests.add_metric((template, method, str(status)), count)
            seconds.add_metric((template, method), counts.seconds.buckets(), counts.seconds.sum)
        refused = _counter("goqueue_connections_refused")
        for reason, count in self._metrics.connections_refused.items():
            refused.add_metric((reason,), count)
        yield from (requests, seconds, refused)

    def _topics(self) -> Iterator[Metric]:
        for name in ("messages_published", "bytes_published", "messages_read", "bytes_read"):
            family = _counter(f"goqueue_{name}")
            for topic, counts in self._metrics.topics():
                family.add_metric((topic,), getattr(counts, name))
            yield family
        sizes = _gauge("goqueue_log_size_bytes")
        for topic, size in bounded(self._metrics.log_sizes(), OTHERS).items():
            sizes.add_metric((topic,), size)
        yield sizes

    def _groups_and_transactions(self) -> Iterator[Metric]:
        for name, samples in chain(self._metrics.groups.collect(), self._metrics.transactions.collect()):
            family = _counter(name) if METRICS[name].kind == "counter" else _gauge(name)
            for labels, value in samples:
                family.add_metric(labels, value)
            yield family

    def _delayed(self) -> Iterator[Metric]:
        pending, outcomes = _gauge("goqueue_delayed_pending_messages"), _counter("goqueue_delayed_messages")
        for topic, count in bounded(self._metrics.delayed_pending, OTHERS).items():
            pending.add_metric((topic,), count)
        for outcome, count in self._metrics.delayed_outcomes.items():
            outcomes.add_metric((outcome,), count)
        yield from (pending, outcomes)

    def _priorities(self) -> Iterator[Metric]:
        families = [_counter(f"goqueue_priority_{name}") for name in ("delivered_messages", "leases", "wait_seconds")]
        for priority, handed in self._metrics.priorities.items():
            for family, value in zip(families, handed, strict=True):
                family.add_metric((priority,), value)
        yield from families

    def _plain(self) -> Iterator[Metric]:
        """What has no labels."""
        metrics = self._metrics
        counters = {
            "connections": metrics.connections,
            "sync_failures": metrics.sync_failures,
            "stalls": metrics.stalls,
            "stalled_seconds": metrics.stalled_seconds,
        }
        gauges = {
            "connections_open": metrics.connections_open,
            "loop_lag_seconds": metrics.loop_lag,
            "in_flight_bytes": metrics.in_flight_bytes,
            "logs_refused": metrics.logs_refused,
            "tail_bytes": metrics.tail_bytes,
        }
        histograms = {
            "publish_seconds": metrics.publish_seconds,
            "flush_seconds": metrics.flush_seconds,
            "loop_delay_seconds": metrics.loop_delay,
            "rebalance_seconds": metrics.rebalance_seconds,
            "delayed_late_seconds": metrics.delayed_late_seconds,
            "transaction_seconds": metrics.transaction_seconds,
        }
        for name, count in counters.items():
            counter = _counter(f"goqueue_{name}")
            counter.add_metric((), count)
            yield counter
        for name, value in gauges.items():
            gauge = _gauge(f"goqueue_{name}")
            gauge.add_metric((), value)
            yield gauge
        for name, seen in histograms.items():
            histogram = _histogram(f"goqueue_{name}")
            histogram.add_metric((), seen.buckets(), seen.sum)
            yield histogram


def _counter(name: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, METRICS[name].help, labels=METRICS[name].labels)


def _gauge(name: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, METRICS[name].help, labels=METRICS[name].labels)


def _histogram(name: str) -> HistogramMetricFamily:
    return HistogramMetricFamily(name, METRICS[name].help, labels=METRICS[name].labels)
