"""A broker with a collector: which spans it exports, and that a collector which is away harms nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import Client
from goqueue.client.api_request import ApiRequest
from goqueue.testing.broker import LocalBroker
from goqueue.wire.trace_context import derived_trace_id

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
OTHER = "f" * 32
SENDERS = {(TRACE, SPAN), (OTHER, SPAN)}


def exported(path: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, path.read_text().splitlines())
    return [
        span | {"attributes": {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}}
        for line in lines
        for span in line["resourceSpans"][0]["scopeSpans"][0]["spans"]
    ]


Spans = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> Spans:
    """The spans of a little traffic by name, as a file got them beside two collectors that are away."""
    place = tmp_path_factory.mktemp("export")
    path = place / "spans.jsonl"
    targets = f"file:{path}, otlp:http://127.0.0.1:1, jaeger:udp://127.0.0.1:9"
    with LocalBroker(str(place / "data"), tracing__export=targets) as broker, Client(broker.url) as client:
        publish_some(client)
        with client.consumer("billing", ["orders"], start="earliest", until_idle="0.2s") as consumer:
            for message in consumer:
                message.reject("no such order") if message.value == b"three" else message.ack()
        assert client.topic("orders").name == "orders", "collectors that are away disturb no request"
        scrape = client.call(ApiRequest("GET", "/metrics", lambda answer: answer.body.decode()))
        assert f'goqueue_trace_spans_dropped_total{{target="file:{path}"}} 0.0' in scrape
    found = exported(path)
    counts = broker.daemon.service.metrics.span_exports
    everything = len(found)
    assert [(one.exported, one.failed) for one in counts.values()] == [
        (everything, 0),
        (0, everything),
        (everything, 0),
    ]
    by_name: Spans = {}
    for span in found:
        by_name.setdefault(span["name"], []).append(span)
    return by_name


def publish_some(client: Client) -> None:
    client.create_topic("orders", partitions=1)
    client.create_topic("bulk", partitions=1)
    with client.producer() as producer:
        producer.send("orders", b"one", headers={"traceparent": PARENT, "tracestate": "a=1"}).result(30)
        producer.send_many("orders", [b"two", b"three"]).result(30)
        producer.send_many("bulk", [b"x"] * 300, headers={"traceparent": PARENT}).result(30)
        first = producer.send("orders", b"four", headers={"traceparent": PARENT})
        producer.send("orders", b"five", headers={"traceparent": PARENT.replace(TRACE, OTHER)}).result(30)
        first.result(30)


def test_each_batch_has_a_span(spans: Spans) -> None:
    expected = {"publish bulk", "publish orders", "deliver orders", "dead_letter orders", "publish orders.dlq"}
    assert spans.keys() == expected
    single, two, *_ = spans["publish orders"]
    assert (single["traceId"], single["parentSpanId"], single["traceState"]) == (TRACE, SPAN, "a=1")
    assert single["attributes"] == {
        "messaging.system": "goqueue",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.message.id": "0",
    }
    assert two["traceId"] == derived_trace_id("orders", 0, 1).hex()
    assert (two["parentSpanId"], two["links"]) == ("", [])
    assert two["attributes"]["messaging.batch.message_count"] == "2"
    [moved] = spans["dead_letter orders"]
    assert moved["attributes"]["messaging.goqueue.target"] == "orders.dlq/0"


def test_no_sender_of_a_batch_is_privileged(spans: Spans) -> None:
    _, _, *both = spans["publish orders"]
    if len(both) == 1:  # sent together: no sender is the parent
        assert both[0]["parentSpanId"] == ""
        assert {(link["traceId"], link["spanId"]) for link in both[0]["links"]} == SENDERS
    else:
        assert {(span["traceId"], span["parentSpanId"]) for span in both} == SENDERS
    bulk = spans["publish bulk"]
    assert sum(int(span["attributes"]["messaging.batch.message_count"]) for span in bulk) == 300
    assert {(span["traceId"], span["parentSpanId"]) for span in bulk} == {(TRACE, SPAN)}, "one span sent them all"


def test_deliveries_are_linked_to_their_senders(spans: Spans) -> None:
    delivered = spans["deliver orders"]
    assert {span["attributes"]["messaging.consumer.group.name"] for span in delivered} == {"billing"}
    [rejected] = [span for span in delivered if span["status"]["code"] == 2]
    assert rejected["status"]["message"] == "no such order"
    assert rejected["attributes"]["messaging.message.id"] == "2"
    assert all(int(span["startTimeUnixNano"]) < int(span["endTimeUnixNano"]) for span in delivered)
    linked = {(link["traceId"], link["spanId"]) for span in delivered for link in span["links"]}
    assert linked | {(span["traceId"], span["parentSpanId"]) for span in delivered} >= SENDERS


@pytest.mark.parametrize("targets", ["otlp", "file:", "otlp:http://a:b@host"])
def test_broker_refuses_an_invalid_target(tmp_path: Path, targets: str) -> None:
    with pytest.raises(Exception, match=r"tracing\.export"), LocalBroker(str(tmp_path), tracing__export=targets):
        pass
