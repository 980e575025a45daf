"""Groups that read, fail and give up, for tests of the commands that look at them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from goqueue.client import Client, Consumer, Delivered
from tests.brokers import create, publish


def settle(url: str, decide: Callable[[Delivered], Any], *, group: str = "billing", topic: str = "orders") -> None:
    """Have a member of the group decide about every message that there is, and leave."""
    with (
        Client(url) as client,
        client.consumer(group, [topic], start="earliest", until_idle="50ms", wait="50ms") as consumer,
    ):
        for message in consumer:
            decide(message)


def give_up(url: str, *values: str, reason: str, topic: str = "orders", group: str = "billing", **fields: Any) -> None:
    """Publish messages that become dead letters at once."""
    publish(url, topic, *values, **fields)
    settle(url, lambda message: message.reject(reason), group=group, topic=topic)


def failed(url: str) -> None:
    """Topic `orders` with three dead letters: two that timed out, and one without a customer."""
    create(url, "orders")
    give_up(
        url,
        '{"id": 17, "total": 1.50}',
        '{"id": 18}',
        reason="timeout after 30 s",
        key="k1",
        headers={"source": "shop"},
    )
    give_up(url, "plain", reason="no such customer", key="k2")


@contextmanager
def at_work(url: str, group: str = "billing", *topics: str) -> Iterator[Consumer]:
    """A member of the group, with its places."""
    with Client(url) as client, client.consumer(group, topics or ["orders"], start="earliest", wait="50ms") as consumer:
        yield consumer
