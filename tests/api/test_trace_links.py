"""Traces across transactions, delay, and messages that a consumer produces from others."""

from typing import Any

from goqueue.testing.broker import LocalBroker
from tests.api.members import told
from tests.api.troubled import SPAN, TRACE, trace_of
from tests.brokers import ask, create, publish
from tests.cli.transactions import Producer

OTHER = "1" * 31 + "2"


def sent(trace_id: str, span_id: str = SPAN, flags: str = "00") -> dict[str, str]:
    return {"traceparent": f"00-{trace_id}-{span_id}-{flags}"}


def events(trace: Any) -> list[tuple[str, str]]:
    return [(one["topic"], one["event_type"]) for one in trace["events"]]


def test_trace_has_what_a_consumer_produces_in_a_transaction(broker: LocalBroker) -> None:
    url = broker.url
    for topic in ("orders", "invoices"):
        create(url, topic)
    publish(url, "orders", "tea", partition=0, headers=sent(TRACE))
    app = Producer(url, "app")
    app.ack("billing", "orders", 1)
    app.put("invoices", headers=sent(TRACE, "a" * 16))
    pending = told(ask(url, "GET", f"/traces/{TRACE}"))
    assert [(one["topic"], one["relation"], one["state"], one["groups"]) for one in pending["messages"]] == [
        ("orders", "start", "stored", {"billing": "in_transaction"}),
        ("invoices", "same_trace", "in_transaction", {}),
    ]
    assert pending["status"] == "pending"
    app.commit()
    trace = trace_of(url, 0, "invoices")
    assert (trace["trace_id"], trace["status"]) == (TRACE, "completed")
    assert {one for one in events(trace) if one[1].startswith(("transaction", "consume"))} == {
        ("orders", "consume.fetched"),
        ("orders", "consume.acked"),
        ("orders", "transaction.committed"),
        ("invoices", "transaction.committed"),
    }
    marker = ask(url, "GET", "/topics/invoices/partitions/0/messages/1/trace")
    assert (marker.status, marker.json["hint"]) == (404, "offset 1 is the marker of a transaction's end, not a message")
    publish(url, "orders", "milk", partition=0, headers=sent(OTHER))
    app.begin()
    app.put("invoices", headers=sent(OTHER))
    app.abort()
    aborted = trace_of(url, 1)
    assert (aborted["status"], aborted["messages"][1]["state"]) == ("error", "aborted")
    assert events(aborted)[-1] == ("invoices", "transaction.aborted")
    assert [one["trace_id"] for one in told(ask(url, "GET", "/traces"))["traces"]] == [OTHER, TRACE]


def test_trace_id_is_found_behind_many_newer_batches_with_headers(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", "first", partition=0, headers=sent(TRACE))
    for number in range(150):
        publish(broker.url, "orders", "x" * 20_000, partition=0, headers=sent(f"{number:032x}".replace("0", "f")))
    trace = told(ask(broker.url, "GET", f"/traces/{TRACE}"))
    assert [(one["offset"], one["relation"]) for one in trace["messages"]] == [(0, "start")]


def test_trace_of_a_delayed_message_ends_where_it_is_cancelled(broker: LocalBroker) -> None:
    url = broker.url
    create(url, "orders")
    unknown = [f"/topics/orders/partitions/0/messages/7/trace?delayed={text}" for text in ("true", "false")]
    publish(url, "orders", "a", delay="1h")
    assert [ask(url, "GET", one).json["hint"] for one in unknown] == [
        "the delayed log of the partition has the offsets 0 to 0",
        "the partition has no messages",
    ]
    scheduled = trace_of(url, 0, query="?delayed=true")
    assert (scheduled["status"], scheduled["messages"][0]["state"]) == ("pending", "scheduled")
    told(ask(url, "PATCH", "/topics/orders/delayed/0/0", {"delay": "2h"}))
    told(ask(url, "DELETE", "/topics/orders/delayed/0/0"))
    cancelled = trace_of(url, 0, query="?delayed=true")
    assert (cancelled["status"], cancelled["messages"][0]["state"]) == ("completed", "cancelled")
    names = [name for _, name in events(cancelled)]
    assert names[3:] == ["delay.scheduled", "delay.rescheduled", "delay.cancelled"]
    assert cancelled["trace_id"] == told(ask(url, "GET", f"/traces/{cancelled['trace_id']}"))["trace_id"]


def test_sampled_flag_keeps_a_trace_that_sampling_leaves_out(broker: LocalBroker) -> None:
    url = broker.url
    for topic, flags in (("asked", "01"), ("plain", "00")):
        create(url, topic, trace_sampling=0)
        publish(url, topic, "a", headers=sent(TRACE if topic == "asked" else OTHER, flags=flags))
    assert [one["topic"] for one in told(ask(url, "GET", "/traces"))["traces"]] == ["asked"]
    assert [trace_of(url, 0, topic)["sampled"] for topic in ("asked", "plain")] == [True, False]
