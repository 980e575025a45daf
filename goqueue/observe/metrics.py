"""The broker's counters and gauges, and their Prometheus exposition.

Only the event loop counts (and the flusher thread counts flushes), in plain attributes and dictionaries without a
lock. A scrape copies all numbers on the loop; any thread may render the copy.

What must stay true: every metric is in `METRICS`, counters only grow, and each label has a bounded number of values.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from goqueue.observe.cluster_metrics import CLUSTER_METRICS, ClusterMetricValues, collect_cluster
from goqueue.observe.export_counts import ExportCounts, collect_export_counts
from goqueue.observe.histogram import Bucket, Histogram, PublishHistogram
from goqueue.observe.process_metrics import PROCESS_METRICS
from goqueue.observe.scrub_metrics import SCRUB_METRICS, ScrubMetricValues, collect_scrub
from goqueue.observe.state_metrics import (
    LABEL_VALUES_MAX,
    OTHER_LABEL,
    TRANSACTION_SECONDS_BOUNDS,
    GroupMetrics,
    TransactionMetricsInput,
    limit_label_values,
    name_samples,
)
from goqueue.observe.tenant_metrics import TENANT_METRICS, TenantMetrics

MetricKind = Literal["counter", "gauge", "histogram", "info"]


@dataclass(frozen=True, slots=True)
class MetricDescription:
    """One row of `METRICS`, the source of the exposition and of docs/metrics.md."""

    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()


_REQUEST = ("endpoint", "method", "status")
METRICS: Mapping[str, MetricDescription] = {
    "goqueue_build": MetricDescription("info", "Version of the broker.", ("version",)),
    "goqueue_http_requests": MetricDescription("counter", "Answered requests by path template.", _REQUEST),
    "goqueue_http_request_seconds": MetricDescription(
        "histogram", "Time from the first byte of a request to the last byte of its answer.", ("endpoint", "method")
    ),
    "goqueue_connections_open": MetricDescription("gauge", "Open connections, without refused ones."),
    "goqueue_connections_limit": MetricDescription("gauge", "Maximum number of open connections."),
    "goqueue_connections": MetricDescription("counter", "Accepted connections."),
    "goqueue_grpc_calls_open": MetricDescription("gauge", "Calls of gRPC under way, with streams that wait."),
    "goqueue_connections_refused": MetricDescription(
        "counter", "Connections closed before their first request, by reason.", ("reason",)
    ),
    "goqueue_backup_newest_timestamp_seconds": MetricDescription(
        "gauge", "The moment of the newest backup, as Unix time; 0 without any, missing without a target."
    ),
    "goqueue_backup_verified_timestamp_seconds": MetricDescription(
        "gauge", "The same of the newest backup whose verification found nothing."
    ),
    "goqueue_backup_failures": MetricDescription("counter", "Failed backups and verifications."),
    "goqueue_tls_certificate_expiry_timestamp_seconds": MetricDescription(
        "gauge", "When the TLS certificate expires, as Unix time; missing without TLS."
    ),
    "goqueue_messages_published": MetricDescription("counter", "Durably published messages.", ("topic",)),
    "goqueue_bytes_published": MetricDescription("counter", "Durably published bytes, as frames.", ("topic",)),
    "goqueue_messages_read": MetricDescription("counter", "Messages returned to readers.", ("topic",)),
    "goqueue_bytes_read": MetricDescription("counter", "Bytes returned to readers, as frames.", ("topic",)),
    "goqueue_publish_seconds": MetricDescription("histogram", "Time from the arrival of a batch until it is durable."),
    "goqueue_fetch_seconds": MetricDescription(
        "histogram", "Time to find and read the messages of a read or a poll that returns some, without waiting."
    ),
    "goqueue_flush_seconds": MetricDescription(
        "histogram", "Duration of flushes: writing and syncing once. The count is the number of flushes."
    ),
    "goqueue_sync_failures": MetricDescription(
        "counter",
        "Failed writes and syncs, without writes refused by a full disk. Any value above 0 needs an operator.",
    ),
    "goqueue_logs_refused": MetricDescription(
        "gauge", "Logs whose last write failed, usually because the disk is full. Fenced logs are not counted."
    ),
    "goqueue_logs_fenced": MetricDescription("gauge", "Logs that accept no messages until the broker restarts."),
    "goqueue_disk_free_bytes": MetricDescription("gauge", "Free bytes of the disk with the data directory."),
    "goqueue_disk_size_bytes": MetricDescription("gauge", "Size of that disk."),
    "goqueue_loop_lag_seconds": MetricDescription("gauge", "Event loop latency at the last measurement."),
    "goqueue_loop_delay_seconds": MetricDescription("histogram", "Event loop latency over time."),
    "goqueue_stalls": MetricDescription("counter", "Pauses of the whole broker process."),
    "goqueue_stalled_seconds": MetricDescription("counter", "Total time of these pauses."),
    "goqueue_in_flight_bytes": MetricDescription("gauge", "Bytes of requests that are being processed."),
    "goqueue_in_flight_limit_bytes": MetricDescription(
        "gauge", "Maximum of these bytes; beyond, requests are refused."
    ),
    "goqueue_tail_bytes": MetricDescription("gauge", "Bytes of the newest frames in memory."),
    "goqueue_log_size_bytes": MetricDescription("gauge", "Bytes on disk per topic.", ("topic",)),
    "goqueue_groups": MetricDescription("gauge", "Consumer groups by state.", ("state",)),
    "goqueue_group_members": MetricDescription("gauge", "Members per group.", ("group",)),
    "goqueue_group_lag_messages": MetricDescription(
        "gauge", "Lag of a group in a topic: offsets it has not finished.", ("group", "topic")
    ),
    "goqueue_group_in_flight_messages": MetricDescription(
        "gauge", "Messages delivered to members of a group and not settled yet.", ("group",)
    ),
    "goqueue_group_lost_messages": MetricDescription(
        "counter", "Messages that retention deleted before a group received them.", ("group",)
    ),
    "goqueue_group_settled_messages": MetricDescription("counter", "Messages that a group has finished.", ("group",)),
    "goqueue_messages_settled": MetricDescription("counter", "Settled messages by outcome.", ("outcome",)),
    "goqueue_rebalances": MetricDescription("counter", "Started rebalances by reason.", ("reason",)),
    "goqueue_rebalance_seconds": MetricDescription(
        "histogram", "Time from the cause of a rebalance until the new assignment is complete and durable."
    ),
    "goqueue_revocation_timeouts": MetricDescription(
        "counter", "Rebalances in which a member did not revoke its partitions in time."
    ),
    "goqueue_delayed_pending_messages": MetricDescription("gauge", "Delayed messages that are pending.", ("topic",)),
    "goqueue_delayed_overdue_seconds": MetricDescription(
        "gauge", "How long ago the oldest pending delayed message was due; 0 if none is overdue."
    ),
    "goqueue_delayed_messages": MetricDescription(
        "counter", "Delayed messages that are no longer pending, by outcome.", ("outcome",)
    ),
    "goqueue_delayed_late_seconds": MetricDescription(
        "histogram", "Time from the due time of a delayed message until it is in its topic."
    ),
    "goqueue_priority_delivered_messages": MetricDescription(
        "counter", "Messages delivered to groups, by priority.", ("priority",)
    ),
    "goqueue_priority_leases": MetricDescription("counter", "Leases of these messages.", ("priority",)),
    "goqueue_priority_wait_seconds": MetricDescription(
        "counter", "Total time from append to lease of the first message of each lease.", ("priority",)
    ),
    "goqueue_alerts_firing": MetricDescription(
        "gauge", "Alerts that the broker sends itself, by severity.", ("severity",)
    ),
    "goqueue_alert_deliveries": MetricDescription("counter", "Deliveries to the webhook, by outcome.", ("outcome",)),
    "goqueue_transactions_open": MetricDescription("gauge", "Open transactions by state.", ("state",)),
    "goqueue_transaction_oldest_seconds": MetricDescription("gauge", "Age of the oldest open transaction."),
    "goqueue_transactions_committed": MetricDescription("counter", "Committed transactions."),
    "goqueue_transactions_aborted": MetricDescription("counter", "Aborted transactions by reason.", ("reason",)),
    "goqueue_transaction_seconds": MetricDescription("histogram", "Duration of transactions from begin to end."),
    "goqueue_schema_checked_messages": MetricDescription(
        "counter", "Messages that were checked against schemas when they were published."
    ),
    "goqueue_schema_refused_messages": MetricDescription(
        "counter", "Those that were invalid, by the reason of their first problem.", ("reason",)
    ),
    **{
        f"goqueue_tenant_{name}": MetricDescription(kind, text, ("tenant", *more))
        for name, kind, text, more in TENANT_METRICS
    },
    **{f"goqueue_cluster_{one[0]}": MetricDescription(*one[1:]) for one in CLUSTER_METRICS},
    **{f"goqueue_scrub_{one[0]}": MetricDescription(*one[1:]) for one in SCRUB_METRICS},
    "goqueue_trace_spans_exported": MetricDescription(
        "counter", "Spans that a target of exported traces has taken.", ("target",)
    ),
    "goqueue_trace_spans_failed": MetricDescription(
        "counter", "Spans that a target has refused, or that did not reach it in several attempts.", ("target",)
    ),
    "goqueue_trace_spans_dropped": MetricDescription(
        "counter", "Spans dropped because too many waited for a target.", ("target",)
    ),
    "goqueue_metric_snapshots_exported": MetricDescription(
        "counter", "Snapshots of all metrics that a target of exported metrics has taken.", ("target",)
    ),
    "goqueue_metric_snapshots_failed": MetricDescription(
        "counter",
        "Snapshots that a target has refused in whole or in part, or that did not reach it in several attempts.",
        ("target",),
    ),
    "goqueue_metric_snapshots_dropped": MetricDescription(
        "counter", "Snapshots dropped because a newer one waited for a target.", ("target",)
    ),
    "goqueue_trace_records": MetricDescription("counter", "Trace records by event.", ("event",)),
    "goqueue_trace_records_sampled_out": MetricDescription("counter", "Trace records that sampling has left out."),
    "goqueue_trace_records_dropped": MetricDescription(
        "counter", "Trace records that the disk refused or was too slow for."
    ),
    "goqueue_trace_file_bytes": MetricDescription("gauge", "Size of the trace files."),
    "goqueue_transaction_held_back_messages": MetricDescription(
        "gauge", "Offsets that readers cannot see behind open transactions.", ("topic", "partition")
    ),
}
"""Prometheus adds `_total` to the names of counters and `_info` to that of the build."""

PriorityCounts = tuple[int, int, float]
"""Delivered messages, leases, and seconds that the first message of each lease waited."""


@dataclass(slots=True)
class TopicCounts:
    """Counters of one topic, incremented in place on publish and read."""

    messages_published: int = 0
    bytes_published: int = 0
    messages_read: int = 0
    bytes_read: int = 0

    def values(self) -> tuple[int, int, int, int]:
        return self.messages_published, self.bytes_published, self.messages_read, self.bytes_read

    def __add__(self, other: "TopicCounts") -> "TopicCounts":
        return TopicCounts(*map(sum, zip(self.values(), other.values(), strict=True)))


@dataclass(slots=True)
class EndpointCounts:
    """Counters of one method and path template."""

    seconds: Histogram = field(default_factory=Histogram)
    by_status: dict[int, int] = field(default_factory=dict)

    def observe(self, status: int, seconds: float) -> None:
        self.by_status[status] = self.by_status.get(status, 0) + 1
        self.seconds.observe(seconds)


class Metrics:
    """All metrics of one broker. Hot paths increment the public attributes directly."""

    cluster: Callable[[], ClusterMetricValues | None] = staticmethod(lambda: None)
    schema_checked_messages = 0
    schema_refused_messages: Mapping[str, int] = {}
    """By reason; like the one before, set before each scrape."""

    def __init__(self, version: str, *, log_sizes: Callable[[], Mapping[str, int]] = dict) -> None:
        """`log_sizes` returns bytes on disk by topic; each scrape calls it."""
        self.version = version
        self.log_sizes = log_sizes
        self.groups, self.tenants = GroupMetrics(), TenantMetrics()
        self.rebalance_seconds = Histogram()
        self.delayed_late_seconds = Histogram()
        self.delayed_pending: Mapping[str, int] = {}
        self.delayed_overdue_seconds = 0.0
        """By topic; like `delayed_outcomes`, set before each scrape."""
        self.delayed_outcomes: Mapping[str, int] = {}
        self.priorities: Mapping[str, PriorityCounts] = {}
        """Set before each scrape."""
        self.alerts_firing: Mapping[str, int] = {}
        self.alert_deliveries = {"delivered": 0, "failed": 0}
        self.transactions = TransactionMetricsInput()
        """Set before each scrape."""
        self.span_exports: Mapping[str, ExportCounts] = {}
        self.metric_exports: Mapping[str, ExportCounts] = {}
        """Counts by target, which change while spans and metrics are exported."""
        self.trace_records: Mapping[str, int] = {}
        """By event; like the next three, set before each scrape."""
        self.trace_records_sampled_out = self.trace_records_dropped = self.trace_file_bytes = 0
        self.transaction_seconds = Histogram(TRANSACTION_SECONDS_BOUNDS)
        self.tls_expiry_seconds: Callable[[], float | None] = lambda: None
        """Returns the Unix time at which the certificate expires."""
        self.backups: Callable[[], tuple[float, float, int] | None] = lambda: None
        """Returns the next three metrics; None without a target for backups."""
        self.connections = self.connections_open = self.grpc_calls_open = 0
        self.connections_limit = 0
        self.connections_refused: dict[str, int] = {}
        self.publish_seconds = PublishHistogram()
        self.fetch_seconds = Histogram()
        self.flush_seconds = Histogram()
        self.sync_failures = 0
        self.stalls, self.stalled_seconds, self.scrub = 0, 0.0, ScrubMetricValues()
        self.logs_refused = 0
        self.logs_fenced = 0
        self.disk_space: tuple[int, int] | None = None
        """Free and total bytes of the disk; None until they are known."""
        self.loop_lag_seconds = 0.0
        self._lag_peak = 0.0
        self.loop_delay_seconds = Histogram()
        self.in_flight_bytes = 0
        self.in_flight_limit_bytes = 0
        self.tail_bytes = 0
        self._endpoints: dict[tuple[str, str], EndpointCounts] = {}
        self._topics: dict[str, TopicCounts] = {}
        self._others = TopicCounts()
        self._gone = TopicCounts()

    def endpoint(self, method: str, template: str) -> EndpointCounts:
        """Return the counters of an endpoint. `template` is from the endpoint table, never a path sent by a client."""
        counts = self._endpoints.get((method, template))
        if counts is None:
            counts = self._endpoints[method, template] = EndpointCounts()
        return counts

    def topic(self, name: str) -> TopicCounts:
        """Return the counters of a topic, or the shared ones if there are too many. Ask again after a deletion."""
        counts = self._topics.get(name)
        if counts is not None:
            return counts
        if len(self._topics) >= LABEL_VALUES_MAX:
            return self._others
        counts = self._topics[name] = TopicCounts()
        return counts

    def forget_topic(self, name: str) -> None:
        """Remove the counters of a deleted topic, which makes room for another name."""
        self._gone += self._topics.pop(name, TopicCounts())

    @property
    def named_topics(self) -> Mapping[str, TopicCounts]:
        """Topics with counters of their own."""
        return self._topics

    @property
    def names_all_topics(self) -> bool:
        """True while another topic can get counters of its own."""
        return len(self._topics) < LABEL_VALUES_MAX

    def unnamed(self) -> TopicCounts:
        """Return the counts of topics without counters of their own, deleted ones included."""
        return self._others + self._gone

    def refuse_connection(self, reason: str) -> None:
        """`reason` is one of a fixed few."""
        self.connections_refused[reason] = self.connections_refused.get(reason, 0) + 1

    def observe_loop_lag(self, seconds: float) -> None:
        self.loop_lag_seconds = seconds
        self._lag_peak = max(self._lag_peak, seconds)
        self.loop_delay_seconds.observe(seconds)

    def take_loop_lag_peak(self) -> float:
        """Return the largest latency since the last call. Only the history calls this."""
        peak, self._lag_peak = self._lag_peak, 0.0
        return peak

    def scrape(self) -> "Scrape":
        return Scrape(self)

    def endpoints(self) -> Iterator[tuple[str, str, EndpointCounts]]:
        for (method, template), counts in self._endpoints.items():
            yield template, method, counts

    def topics(self) -> Iterator[tuple[str, TopicCounts]]:
        yield from self._topics.items()
        if self._others != TopicCounts():
            yield OTHER_LABEL, self._others


Sample = tuple[tuple[str, ...], float | tuple[list[Bucket], float]]
"""Label values, and a number, or the buckets and the sum of a histogram."""


class Scrape(Collector):
    """A copy of all metrics at one moment. Any thread may render it, which takes most of the time."""

    def __init__(self, metrics: Metrics) -> None:
        self.version = metrics.version
        self.samples: Sequence[tuple[str, Sequence[Sample]]] = [
            (name, _copied(samples)) for name, samples in _collect(metrics)
        ]

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("goqueue_build", METRICS["goqueue_build"].help, {"version": self.version})
        for name, samples in self.samples:
            yield _family(name, samples)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return the exposition and its content type: OpenMetrics if `accept` allows it."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        registry.register(PROCESS_METRICS)
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type


def _collect(metrics: Metrics) -> Iterator[tuple[str, Iterable[tuple[tuple[str, ...], float | Histogram]]]]:
    """Yield each metric but the build with its samples: label values, and a number or a histogram."""
    endpoints = list(metrics.endpoints())
    yield (
        "goqueue_http_requests",
        [((path, method, str(status)), n) for path, method, one in endpoints for status, n in one.by_status.items()],
    )
    yield "goqueue_http_request_seconds", [((path, method), one.seconds) for path, method, one in endpoints]
    expiry = metrics.tls_expiry_seconds()
    yield "goqueue_tls_certificate_expiry_timestamp_seconds", [] if expiry is None else [((), expiry)]
    backups = metrics.backups()
    for number, name in enumerate(("newest_timestamp_seconds", "verified_timestamp_seconds", "failures")):
        yield f"goqueue_backup_{name}", [] if backups is None else [((), backups[number])]
    yield "goqueue_connections_refused", name_samples(metrics.connections_refused)
    for name in ("messages_published", "bytes_published", "messages_read", "bytes_read"):
        yield f"goqueue_{name}", [((topic,), getattr(counts, name)) for topic, counts in metrics.topics()]
    yield "goqueue_log_size_bytes", name_samples(limit_label_values(metrics.log_sizes(), OTHER_LABEL))
    yield from metrics.groups.collect()
    yield from metrics.transactions.collect()
    yield from metrics.tenants.collect()
    yield from collect_cluster(metrics.cluster())
    yield from collect_scrub(metrics.scrub)
    yield "goqueue_delayed_pending_messages", name_samples(limit_label_values(metrics.delayed_pending, OTHER_LABEL))
    yield "goqueue_alerts_firing", name_samples(metrics.alerts_firing)
    yield "goqueue_alert_deliveries", name_samples(metrics.alert_deliveries)
    yield "goqueue_delayed_messages", name_samples(metrics.delayed_outcomes)
    yield "goqueue_schema_refused_messages", name_samples(metrics.schema_refused_messages)
    for number, name in enumerate(("delivered_messages", "leases", "wait_seconds")):
        yield (
            f"goqueue_priority_{name}",
            [((priority,), counts[number]) for priority, counts in metrics.priorities.items()],
        )
    yield from collect_export_counts("goqueue_trace_spans", metrics.span_exports)
    yield from collect_export_counts("goqueue_metric_snapshots", metrics.metric_exports)
    yield "goqueue_trace_records", name_samples(metrics.trace_records)
    for name in ("trace_records_sampled_out", "trace_records_dropped", "trace_file_bytes"):
        yield f"goqueue_{name}", [((), getattr(metrics, name))]
    free, size = ([], []) if metrics.disk_space is None else ([((), one)] for one in metrics.disk_space)
    yield "goqueue_disk_free_bytes", free
    yield "goqueue_disk_size_bytes", size
    for name in _UNLABELED:
        yield f"goqueue_{name}", [((), getattr(metrics, name))]


_UNLABELED = (
    *("connections", "sync_failures", "stalls", "stalled_seconds", "connections_open", "loop_lag_seconds"),
    *("connections_limit", "in_flight_bytes", "in_flight_limit_bytes", "logs_refused", "logs_fenced", "tail_bytes"),
    *("publish_seconds", "fetch_seconds", "flush_seconds", "loop_delay_seconds", "grpc_calls_open"),
    *("schema_checked_messages", "rebalance_seconds", "delayed_late_seconds", "delayed_overdue_seconds"),
    "transaction_seconds",
)
"""Metrics that are attributes of `Metrics`."""


def _copied(samples: Iterable[tuple[tuple[str, ...], float | Histogram]]) -> list[Sample]:
    return [
        (labels, (value.exposed_buckets(), value.sum) if isinstance(value, Histogram) else value)
        for labels, value in samples
    ]


def _family(name: str, samples: Iterable[Sample]) -> Metric:
    described = METRICS[name]
    histogram = HistogramMetricFamily(name, described.help, labels=described.labels)
    kind = CounterMetricFamily if described.kind == "counter" else GaugeMetricFamily
    family = kind(name, described.help, labels=described.labels)
    for labels, value in samples:
        if isinstance(value, tuple):
            histogram.add_metric(labels, *value)
        else:
            family.add_metric(labels, value)
    return histogram if described.kind == "histogram" else family
