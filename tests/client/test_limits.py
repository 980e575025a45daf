"""Size limits of a topic: the client counts as the broker does, so no batch fails for one of its messages."""

from collections.abc import Iterator
from typing import Any

import pytest

from goqueue.client import Client, Producer
from goqueue.errors import MessageTooLarge
from goqueue.limits import FRAME_HEADER_BYTES
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker

MOST = 1024
SHAPES: list[dict[str, Any]] = [
    {},
    {"key": b"k" * 10},
    {"key": "k" * 10, "headers": {"a": "b"}},
    {"headers": {"a": "b"}, "priority": "high"},
    {"delay": "1h"},
    {"key": "k" * 10, "headers": {"a": "b"}, "deliver_at": "2026-01-01T00:00:00Z"},
]


@pytest.fixture
def producer(module_broker: LocalBroker) -> Iterator[Producer]:
    with Client(module_broker.url) as client:
        client.create_topic("t", partitions=1, max_message_bytes=MOST)
        with client.producer(linger=60) as made:
            yield made
        client.delete_topic("t")


def longest(shape: dict[str, Any]) -> int:
    """Return the length limit of a value with this key and these headers."""
    headers = frame.encode_headers([(name, value.encode()) for name, value in shape.get("headers", {}).items()])
    key = shape.get("key", b"")
    empty = frame.encode(b"", key if isinstance(key, bytes) else key.encode(), headers)
    return MOST - (len(empty) - FRAME_HEADER_BYTES)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_largest_message_is_taken_wherever_it_stands(producer: Producer, shape: dict[str, Any]) -> None:
    value = bytes(longest(shape))
    deliveries = [producer.send("t", content, **shape) for content in (value, b"x", value)]
    assert [delivery.result().offset for delivery in deliveries] == [0, 1, 2]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_larger_one_is_refused_alone(producer: Producer, shape: dict[str, Any]) -> None:
    first = producer.send("t", b"first", **shape)
    with pytest.raises(MessageTooLarge, match=f"{MOST + 1} together, topic t takes {MOST}"):
        producer.send("t", bytes(longest(shape) + 1), **shape)
    last = producer.send("t", b"last", **shape)
    assert [first.result().offset, last.result().offset] == [0, 1]


@pytest.mark.parametrize("shape", SHAPES)
def test_of_many_messages_none_is_taken_when_one_is_too_large(producer: Producer, shape: dict[str, Any]) -> None:
    given = {**shape}
    keys = [given.pop("key")] * 3 if "key" in given else None
    largest = longest(shape)
    with pytest.raises(MessageTooLarge, match=f"{MOST + 1} together"):
        producer.send_many("t", [b"x", bytes(largest + 1), b"y"], keys, **given)
    assert producer.buffered_bytes == 0
    receipts = producer.send_many("t", [bytes(largest)] * 3, keys, **given).result()
    assert [receipt.offset for receipt in receipts] == [0, 1, 2]


def test_a_long_key_and_a_long_value_of_two_messages_do_not_count_together(producer: Producer) -> None:
    receipts = producer.send_many("t", [bytes(1000), b""], [b"k", b"k" * 1000]).result()
    assert [receipt.offset for receipt in receipts] == [0, 1]


def test_what_counts_is_the_compressed_value(blocking: Client) -> None:
    blocking.create_topic("t", partitions=1, max_message_bytes=MOST)
    with blocking.producer(compression="zstd") as producer:
        assert producer.send("t", bytes(10_000)).result().offset == 0
        assert producer.send_many("t", [bytes(10_000)]).result()[0].offset == 1
