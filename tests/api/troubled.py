"""A message with a troubled life: delayed, retried twice, given up, redriven and acknowledged at last."""

from typing import Any

from goqueue.testing.broker import LocalBroker
from tests.api.members import PATIENCE, Member, told
from tests.brokers import ask

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
SETTINGS = {"groups__retry_delay": "10ms", "groups__max_retries": "2"}
"""Of a broker for `live_troubled_life`."""

LIFE = [
    "publish.received", "publish.partitioned", "publish.persisted", "delay.scheduled", "delay.ready",
    "publish.persisted", "consume.fetched", "consume.nacked", "consume.fetched", "consume.nacked", "consume.fetched",
    "consume.nacked", "dlq.routed", "publish.persisted", "dlq.redriven", "publish.persisted", "consume.fetched",
    "consume.acked",
]  # fmt: skip


def live_troubled_life(broker: LocalBroker, topic: str = "orders", flags: str = "01") -> None:
    """Publish one message to a topic, and do all of this with it; it is at offset 1 at the end."""
    url = broker.url
    headers = {"traceparent": f"00-{TRACE}-{SPAN}-{flags}", "tracestate": "till=3"}
    message = {"value": "tea", "key": "k", "delay": "50ms", "headers": headers}
    told(ask(url, "POST", f"/topics/{topic}/messages", {"messages": [message]}))
    member = Member(url, topics=[topic]).join()
    for number in range(3):
        (found,) = member.poll(timeout=PATIENCE)
        settle(url, "nack", found["receipt_handle"], reason=f"failure {number}")
    assert told(ask(url, "POST", f"/topics/{topic}/redrive", {}))["moved"] == 1
    (found,) = member.poll(timeout=PATIENCE)
    settle(url, "ack", found["receipt_handle"])


def settle(url: str, verb: str, receipt: str, **more: str) -> None:
    told(ask(url, "POST", f"/messages/{verb}", {"receipt_handle": receipt, **more}))


def trace_of(url: str, offset: int, topic: str = "orders", query: str = "") -> Any:
    """Return the trace of a message in the first partition."""
    return told(ask(url, "GET", f"/topics/{topic}/partitions/0/messages/{offset}/trace{query}"))
