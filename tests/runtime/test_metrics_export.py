"""A broker that exports its metrics: to a collector that takes them, and to one that never answers."""

import socket
from collections.abc import Callable
from pathlib import Path

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint

from goqueue import __version__
from goqueue.client import Client
from goqueue.runtime.exporter import Exporter, stop_exporters
from goqueue.runtime.metrics_export import CollectorMetricsTarget
from goqueue.runtime.otlp_sender import OtlpSender, compress
from goqueue.testing.broker import LocalBroker
from tests.runtime.collectors import OK, SECONDS, Collector, collecting

AGAIN = (503, {"retry-after": "0"}, b"")
PARTIAL = ExportMetricsServiceResponse(
    partial_success=ExportMetricsPartialSuccess(rejected_data_points=3, error_message="too many series")
).SerializeToString()


def next_request(collector: Collector) -> ExportMetricsServiceRequest:
    path, headers, body = collector.requests.get(timeout=SECONDS)
    assert path == "/v1/metrics"
    assert (headers["content-type"], headers["x-team"]) == ("application/x-protobuf", "a")
    return ExportMetricsServiceRequest.FromString(body)


def point(request: ExportMetricsServiceRequest, name: str, label: str) -> NumberDataPoint | None:
    """Return the data point of a counter with one label of this value."""
    for metric in request.resource_metrics[0].scope_metrics[0].metrics:
        if metric.name == name:
            for found in metric.sum.data_points:
                if found.attributes[0].value.string_value == label:
                    return found
    return None


def wait_for(collector: Collector, name: str, label: str, is_enough: Callable[[float], bool]) -> NumberDataPoint:
    for _ in range(300):
        found = point(next_request(collector), name, label)
        if found is not None and is_enough(found.as_double):
            return found
    raise AssertionError(f"{name} of {label} is never enough")


def test_newer_snapshot_replaces_one_that_would_be_sent_again() -> None:
    with collecting(AGAIN) as collector:
        target = CollectorMetricsTarget(OtlpSender(f"http://127.0.0.1:{collector.port}", SECONDS, {}))
        exporter = Exporter("c", target, subject="metrics", queue_max=1, batch_max=1, interval=0.0, sends_newest=True)
        newer = [compress(b"second"), compress(b"third")]

        def offer_newer() -> None:
            while newer:
                exporter.offer([newer.pop(0)])

        collector.before_answer = offer_newer
        exporter.start()
        exporter.offer([compress(b"first")])
        assert [collector.requests.get(timeout=SECONDS)[2] for _ in range(2)] == [b"first", b"third"]
        stop_exporters([exporter], SECONDS)
        assert collector.requests.empty()
    assert (exporter.counts.exported, exporter.counts.failed, exporter.counts.dropped) == (1, 0, 2)


def test_broker_exports_its_metrics_and_a_collector_that_hangs_disturbs_nothing(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("x-team: a\n")
    with collecting(AGAIN, (200, {}, PARTIAL), OK) as collector, socket.create_server(("127.0.0.1", 0)) as hanging:
        taken, stuck = (
            f"otlp:http://127.0.0.1:{port}/v1/metrics" for port in (collector.port, hanging.getsockname()[1])
        )
        settings = {"metrics__export": f"{taken}, {stuck}", "metrics__export_headers_file": str(headers)}
        settings |= {"metrics__export_interval": "100ms", "metrics__export_timeout": "2m"}
        with LocalBroker(str(tmp_path / "data"), **settings) as broker, Client(broker.url) as client:
            resource = next_request(collector).resource_metrics[0].resource
            told = {one.key: one.value.string_value for one in resource.attributes}
            assert (told["service.name"], told["service.version"]) == ("goqueue", __version__)
            assert told["service.instance.id"] == told["host.name"] == socket.gethostname()
            client.create_topic("orders", partitions=1)
            with client.producer() as producer:
                producer.send_many("orders", [b"one", b"two"]).result(30)
                first = wait_for(collector, "goqueue_messages_published", "orders", lambda value: value == 2)
                producer.send("orders", b"three").result(30)
                second = wait_for(collector, "goqueue_messages_published", "orders", lambda value: value == 3)
            assert first.start_time_unix_nano == second.start_time_unix_nano < first.time_unix_nano
            assert first.time_unix_nano < second.time_unix_nano
            wait_for(collector, "goqueue_metric_snapshots_dropped", stuck, lambda value: value >= 2)
            connection, _ = hanging.accept()
        with connection:
            counts = broker.daemon.service.metrics.metric_exports
            assert counts[taken].exported >= 3
            assert counts[taken].failed == 1, "the collector refused some data points; 503 is retried"
            assert (counts[stuck].exported, counts[stuck].failed) == (0, 0), "its first request still waits"
