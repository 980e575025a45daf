"""Exported metrics, decoded by OpenTelemetry's classes and compared with what Prometheus gets of the same snapshot."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, HistogramDataPoint, Metric
from prometheus_client.parser import text_string_to_metric_families

from goqueue.observe.metrics import METRICS, Metrics, Scrape
from goqueue.observe.metrics_protobuf import encode_metrics
from goqueue.wire.trace_context import derived_trace_id
from tests.observe.test_metrics import busy

START, NOW = 1_700_000_000_000_000_000, 1_700_000_060_000_000_000
Labels = frozenset[tuple[str, str]]


def exported(scrape: Scrape) -> dict[str, Metric]:
    body = encode_metrics(scrape, {"service.name": "goqueue"}, "goqueue", start_ns=START, time_ns=NOW)
    [resource] = ExportMetricsServiceRequest.FromString(body).resource_metrics
    assert labels_of(resource.resource.attributes) == {("service.name", "goqueue")}
    [scope] = resource.scope_metrics
    assert (scope.scope.name, scope.scope.version) == ("goqueue", "1.2.3")
    found = {metric.name: metric for metric in scope.metrics}
    assert len(found) == len(scope.metrics), "each metric is there once"
    return found


def labels_of(attributes: Sequence[KeyValue]) -> Labels:
    return frozenset((one.key, one.value.string_value) for one in attributes)


def as_prometheus(metric: Metric) -> Iterator[tuple[str, Labels, float]]:
    """Yield the samples that Prometheus makes of a metric."""
    kind = metric.WhichOneof("data")
    assert kind is not None
    for point in getattr(metric, kind).data_points:
        assert (point.start_time_unix_nano, point.time_unix_nano) == (START, NOW)
        labels = labels_of(point.attributes)
        if kind == "histogram":
            yield from histogram_samples(metric.name, labels, point)
        else:
            assert point.WhichOneof("value") == "as_double"
            yield metric.name + ("_total" if kind == "sum" else ""), labels, point.as_double


def histogram_samples(name: str, labels: Labels, point: HistogramDataPoint) -> Iterator[tuple[str, Labels, float]]:
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    bounds = [*map(str, point.explicit_bounds), "+Inf"]
    for bound, count in zip(bounds, accumulate(point.bucket_counts), strict=True):
        yield f"{name}_bucket", labels | {("le", bound)}, count
    yield f"{name}_count", labels, point.count
    yield f"{name}_sum", labels, point.sum


def test_exported_metrics_are_those_of_prometheus_with_the_same_labels_and_numbers() -> None:
    metrics = busy()
    for seconds in (0.003, 0.003, 0.7, 100.0):
        metrics.flush_seconds.observe(seconds)
    scrape = metrics.scrape()
    found = exported(scrape)
    sent = {(name, labels): value for metric in found.values() for name, labels, value in as_prometheus(metric)}
    text, _ = scrape.render()
    scraped = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }
    assert sent.keys() == scraped.keys()
    broker = [key for key in scraped if key[0].startswith("goqueue_")]
    assert {key: sent[key] for key in broker} == {key: scraped[key] for key in broker}
    assert sent["process_start_time_seconds", frozenset()] == scraped["process_start_time_seconds", frozenset()]
    for name, metric in found.items():
        if name in METRICS:
            described = METRICS[name]
            assert metric.WhichOneof("data") == {"counter": "sum"}.get(described.kind, described.kind)
            assert metric.description == described.help
        if metric.HasField("sum"):
            assert metric.sum.is_monotonic
            assert metric.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        if metric.HasField("histogram"):
            cumulative = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
            assert metric.histogram.aggregation_temporality == cumulative
    assert found["goqueue_build_info"].gauge.data_points[0].as_double == 1
    units = {name: found[name].unit for name in ("goqueue_flush_seconds", "goqueue_tail_bytes", "goqueue_stalls")}
    assert units == {"goqueue_flush_seconds": "s", "goqueue_tail_bytes": "By", "goqueue_stalls": ""}


def test_exemplars_name_the_trace_of_a_message() -> None:
    metrics = Metrics("1.2.3")
    metrics.publish_seconds.observe_batch(0.002, ("orders", 0, 7, NOW - 5))
    [point] = exported(metrics.scrape())["goqueue_publish_seconds"].histogram.data_points
    [exemplar] = point.exemplars
    assert (exemplar.as_double, exemplar.time_unix_nano) == (0.002, NOW - 5)
    assert exemplar.trace_id == derived_trace_id("orders", 0, 7)
