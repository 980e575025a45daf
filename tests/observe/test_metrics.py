"""Metrics: what is counted comes out as Prometheus reads it, is bounded, and stands in the documentation."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from goqueue.observe.export_counts import ExportCounts
from goqueue.observe.histogram import Histogram
from goqueue.observe.metrics import METRICS, Metrics
from goqueue.observe.state_metrics import (
    LABEL_VALUES_MAX,
    OTHER_LABEL,
    GroupMetricsInput,
    GroupMetricValues,
    TransactionMetricsInput,
)
from goqueue.observe.tenant_metrics import TenantMetricValues
from goqueue.wire.trace_context import derived_trace_id

PAGE = Path(__file__).resolve().parent.parent.parent / "docs/metrics.md"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def busy() -> Metrics:
    """Metrics of a broker to which everything has happened once."""
    groups = GroupMetricsInput(
        {"billing": GroupMetricValues("stable", 2, 5, {"orders": 7}, {("orders", 0, 1): 3})},
        {"acked": 11},
        {"join": 4},
        1,
    )
    metrics = Metrics("1.2.3", log_sizes=lambda: {"orders": 4096})
    metrics.groups.numbers = groups
    metrics.transactions = TransactionMetricsInput(
        {"ongoing": 2, "prepare_abort": 0, "prepare_commit": 1}, 42.5, 9, {"timeout": 3}, {("orders", "0"): 17}
    )
    metrics.transaction_seconds.observe(600.0)
    metrics.connections += 2
    metrics.connections_open += 1
    metrics.refuse_connection("too_many")
    metrics.endpoint("POST", "/topics/{topic}/messages").observe(201, 0.003)
    counts = metrics.topic("orders")
    counts.messages_published += 3
    counts.bytes_published += 300
    counts.messages_read += 2
    counts.bytes_read += 200
    metrics.publish_seconds.observe(0.002)
    metrics.flush_seconds.observe(0.001)
    metrics.sync_failures += 1
    metrics.stalls, metrics.stalled_seconds = 2, 41.5
    metrics.observe_loop_lag(0.25)
    metrics.in_flight_bytes += 10
    metrics.tail_bytes += 20
    metrics.disk_space = 100, 400
    metrics.rebalance_seconds.observe(0.5)
    metrics.trace_records = {"consume.acked": 5}
    metrics.schema_checked_messages, metrics.schema_refused_messages = 8, {"payload": 3}
    metrics.span_exports = {"otlp:http://collector:4318/v1/traces": ExportCounts(7, 2, 1)}
    return metrics


def families(metrics: Metrics) -> dict[str, Metric]:
    text, _ = metrics.scrape().render()
    return {family.name: family for family in parse_text(text.decode())}


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """The one sample of this name with these labels."""
    found = [
        sample.value
        for family in families(metrics).values()
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    assert len(found) <= 1
    return found[0] if found else None


def test_counters_are_scraped() -> None:
    metrics = busy()
    request = {"endpoint": "/topics/{topic}/messages", "method": "POST"}
    assert value(metrics, "goqueue_build_info", version="1.2.3") == 1
    assert value(metrics, "goqueue_http_requests_total", status="201", **request) == 1
    assert value(metrics, "goqueue_http_request_seconds_count", **request) == 1
    assert value(metrics, "goqueue_http_request_seconds_bucket", le="0.0025", **request) == 0
    assert value(metrics, "goqueue_http_request_seconds_bucket", le="0.005", **request) == 1
    assert value(metrics, "goqueue_connections_total") == 2
    assert value(metrics, "goqueue_connections_open") == 1
    assert value(metrics, "goqueue_connections_refused_total", reason="too_many") == 1
    assert value(metrics, "goqueue_messages_published_total", topic="orders") == 3
    assert value(metrics, "goqueue_bytes_published_total", topic="orders") == 300
    assert value(metrics, "goqueue_messages_read_total", topic="orders") == 2
    assert value(metrics, "goqueue_bytes_read_total", topic="orders") == 200
    assert value(metrics, "goqueue_publish_seconds_sum") == 0.002
    assert value(metrics, "goqueue_flush_seconds_count") == 1
    assert value(metrics, "goqueue_sync_failures_total") == 1
    assert value(metrics, "goqueue_stalls_total") == 2
    assert value(metrics, "goqueue_stalled_seconds_total") == 41.5
    assert value(metrics, "goqueue_loop_lag_seconds") == 0.25
    assert value(metrics, "goqueue_loop_delay_seconds_sum") == 0.25
    assert value(metrics, "goqueue_in_flight_bytes") == 10
    assert value(metrics, "goqueue_tail_bytes") == 20
    assert value(metrics, "goqueue_trace_records_total", event="consume.acked") == 5
    assert value(metrics, "goqueue_schema_checked_messages_total") == 8
    assert value(metrics, "goqueue_schema_refused_messages_total", reason="payload") == 3
    assert value(metrics, "goqueue_log_size_bytes", topic="orders") == 4096


def test_tenant_counters_never_fall_and_labels_are_bounded() -> None:
    metrics = Metrics("1")
    many = [TenantMetricValues(tenant=f"t{number:04}", published_messages=1) for number in range(LABEL_VALUES_MAX)]
    busy = TenantMetricValues(
        tenant="z", published_messages=7, storage_bytes=9, percents={"max_topics": 50}, violations={"max_topics": 2}
    )
    metrics.tenants.numbers = [*many, busy]
    assert value(metrics, "goqueue_tenant_published_messages_total", tenant="t0000") == 1
    assert value(metrics, "goqueue_tenant_published_messages_total", tenant=OTHER_LABEL) == 7
    violations = {"tenant": OTHER_LABEL, "quota": "max_topics"}
    assert value(metrics, "goqueue_tenant_quota_violations_total", **violations) == 2
    metrics.tenants.numbers = [*many, TenantMetricValues(tenant="zz", published_messages=1)]
    assert value(metrics, "goqueue_tenant_published_messages_total", tenant=OTHER_LABEL) == 8
    metrics.tenants.numbers = [busy]
    assert value(metrics, "goqueue_tenant_quota_percent", tenant="z", quota="max_topics") == 50
    assert value(metrics, "goqueue_tenant_storage_bytes", tenant="z") == 9
    assert value(metrics, "goqueue_tenant_published_messages_total", tenant="t0000") is None


def test_group_metrics_are_scraped() -> None:
    metrics = busy()
    assert value(metrics, "goqueue_groups", state="stable") == 1
    assert value(metrics, "goqueue_groups", state="empty") == 0
    assert value(metrics, "goqueue_group_members", group="billing") == 2
    assert value(metrics, "goqueue_group_lag_messages", group="billing", topic="orders") == 7
    assert value(metrics, "goqueue_group_in_flight_messages", group="billing") == 5
    assert value(metrics, "goqueue_group_lost_messages_total", group="billing") == 3
    assert value(metrics, "goqueue_messages_settled_total", outcome="acked") == 11
    assert value(metrics, "goqueue_rebalances_total", reason="join") == 4
    assert value(metrics, "goqueue_rebalance_seconds_sum") == 0.5
    assert value(metrics, "goqueue_revocation_timeouts_total") == 1


def test_settled_messages_of_a_group_never_fall_when_a_topic_is_deleted() -> None:
    metrics = Metrics("0")
    found = []
    for settled in (5, 2, 4):
        metrics.groups.numbers = GroupMetricsInput({"g": GroupMetricValues("stable", settled=settled)})
        found.append(value(metrics, "goqueue_group_settled_messages_total", group="g"))
    assert found == [5, 5, 7]


def test_transaction_metrics_are_scraped() -> None:
    metrics = busy()
    assert value(metrics, "goqueue_transactions_open", state="ongoing") == 2
    assert value(metrics, "goqueue_transactions_open", state="prepare_commit") == 1
    assert value(metrics, "goqueue_transaction_oldest_seconds") == 42.5
    assert value(metrics, "goqueue_transactions_committed_total") == 9
    assert value(metrics, "goqueue_transactions_aborted_total", reason="timeout") == 3
    assert value(metrics, "goqueue_transaction_seconds_bucket", le="300.0") == 0
    assert value(metrics, "goqueue_transaction_seconds_bucket", le="900.0") == 1
    assert value(metrics, "goqueue_transaction_held_back_messages", topic="orders", partition="0") == 17


def test_held_back_partitions_beyond_the_limit_are_summed() -> None:
    metrics = Metrics("0")
    metrics.transactions = TransactionMetricsInput(
        held_back={("t", str(number)): number for number in range(LABEL_VALUES_MAX + 3)}
    )
    assert value(metrics, "goqueue_transaction_held_back_messages", topic="t", partition="1002") == 1002
    assert (
        value(metrics, "goqueue_transaction_held_back_messages", topic=OTHER_LABEL, partition=OTHER_LABEL) == 0 + 1 + 2
    )


def test_process_metrics_are_scraped() -> None:
    names = families(busy()).keys()
    assert {"process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds"} <= names


def test_idle_broker_can_be_scraped() -> None:
    assert value(Metrics("0"), "goqueue_publish_seconds_count") == 0


@pytest.mark.parametrize("accept", ["", "*/*", "text/html", "text/plain;version=0.0.4"])
def test_text_format_is_the_default(accept: str) -> None:
    text, content_type = busy().scrape().render(accept)
    assert content_type.startswith("text/plain")
    assert {family.name for family in parse_text(text.decode())} >= METRICS.keys() - {"goqueue_build"}


def test_openmetrics_is_returned_if_accepted() -> None:
    text, content_type = busy().scrape().render(OPENMETRICS + ";q=0.8,*/*;q=0.1")
    assert content_type.startswith("application/openmetrics-text")
    kinds = {family.name: family.type for family in parse_openmetrics(text.decode())}  # type: ignore[no-untyped-call]
    assert {name: kinds[name] for name in METRICS} == {name: row.kind for name, row in METRICS.items()}


def test_scraped_labels_match_the_metric_table() -> None:
    text, _ = busy().scrape().render(OPENMETRICS)
    for family in parse_openmetrics(text.decode()):  # type: ignore[no-untyped-call]
        for sample in family.samples if family.name in METRICS else ():
            assert set(sample.labels) - {"le"} == set(METRICS[family.name].labels)


def test_publish_buckets_have_the_trace_of_their_last_message() -> None:
    metrics = Metrics("0")
    for offset in (7, 8):
        metrics.publish_seconds.observe_batch(0.002, ("orders", 3, offset, 5_500_000_000))
    metrics.publish_seconds.observe_batch(9.0, None)
    text, _ = metrics.scrape().render(OPENMETRICS)
    families = parse_openmetrics(text.decode())  # type: ignore[no-untyped-call]
    samples = next(family.samples for family in families if family.name == "goqueue_publish_seconds")
    found = {sample.labels.get("le"): sample.exemplar for sample in samples if sample.exemplar}
    assert list(found) == ["0.0025"]
    assert found["0.0025"].labels == {"trace_id": derived_trace_id("orders", 3, 8).hex()}
    assert (found["0.0025"].value, float(found["0.0025"].timestamp)) == (0.002, 5.5)
    assert "trace_id" not in metrics.scrape().render()[0].decode()


def test_topic_label_is_escaped() -> None:
    metrics = Metrics("0")
    metrics.topic('a"\n\\b').messages_read += 1
    assert value(metrics, "goqueue_messages_read_total", topic='a"\n\\b') == 1


def test_topics_beyond_the_limit_share_a_label() -> None:
    sizes = {f"t{number}": number for number in range(LABEL_VALUES_MAX + 3)}
    metrics = Metrics("0", log_sizes=lambda: sizes)
    for topic in sizes:
        metrics.topic(topic).messages_published += 1
    found = families(metrics)
    assert len(found["goqueue_messages_published"].samples) == LABEL_VALUES_MAX + 1
    assert value(metrics, "goqueue_messages_published_total", topic=OTHER_LABEL) == 3
    assert len(found["goqueue_log_size_bytes"].samples) == LABEL_VALUES_MAX + 1
    assert value(metrics, "goqueue_log_size_bytes", topic=OTHER_LABEL) == 0 + 1 + 2


def test_deleted_topic_frees_its_label() -> None:
    metrics = Metrics("0")
    for number in range(LABEL_VALUES_MAX):
        metrics.topic(f"t{number}").messages_read += 1
    metrics.forget_topic("t0")
    metrics.forget_topic("never-there")
    metrics.topic("new").messages_read += 1
    assert value(metrics, "goqueue_messages_read_total", topic="t0") is None
    assert value(metrics, "goqueue_messages_read_total", topic="new") == 1
    assert value(metrics, "goqueue_messages_read_total", topic=OTHER_LABEL) is None


def test_repeated_lookups_return_the_same_counters() -> None:
    metrics = Metrics("0")
    assert metrics.topic("a") is metrics.topic("a")
    assert metrics.endpoint("GET", "/") is metrics.endpoint("GET", "/")
    assert metrics.endpoint("GET", "/") is not metrics.endpoint("POST", "/")


@given(st.lists(st.floats(0, 100)))
def test_histogram_buckets_are_cumulative(seen: list[float]) -> None:
    histogram = Histogram((0.001, 0.1, 10.0))
    for seconds in seen:
        histogram.observe(seconds)
    below = [sum(seconds <= bound for seconds in seen) for bound in (0.001, 0.1, 10.0, math.inf)]
    assert [count for _, count in histogram.buckets()] == below
    assert [bound for bound, _ in histogram.buckets()] == ["0.001", "0.1", "10.0", "+Inf"]
    assert histogram.count == len(seen)
    assert histogram.sum == pytest.approx(math.fsum(seen))


def test_metric_names_follow_conventions() -> None:
    for name, row in METRICS.items():
        assert re.fullmatch(r"goqueue_[a-z_]+", name)
        assert not name.endswith("_total")
        assert row.kind != "histogram" or name.endswith("_seconds")
        assert row.help.endswith(".")


def test_documentation_lists_every_metric() -> None:
    suffixes = {"counter": "_total", "info": "_info"}
    expected = [
        f"| `{name}{suffixes.get(row.kind, '')}` | {row.kind} | {', '.join(f'`{label}`' for label in row.labels)} "
        f"| {row.help} |".replace("|  |", "| |")
        for name, row in METRICS.items()
    ]
    assert re.findall(r"^\| `goqueue_\w+` \| .*$", PAGE.read_text(), re.MULTILINE) == expected
