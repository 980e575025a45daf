"""Producers with a serializer send what programs have, and refuse what it cannot hold."""

from dataclasses import dataclass
from typing import Any

import pytest

from goqueue.client import Client
from goqueue.errors import RequestInvalid


@dataclass
class Order:
    total: int


def read(client: Client) -> list[Any]:
    return [None if message.is_tombstone else message.json() for message in client.reader("t")]


def test_values_are_sent_as_json_and_none_deletes_its_key(connected: Client) -> None:
    connected.create_topic("t", 1)
    with connected.producer(serializer="json") as producer:
        producer.send("t", {"total": 4})
        producer.send("t", Order(5), delay=0)
        producer.send_many("t", ["text", [1, None], None], keys=["a", "b", "c"])
    assert read(connected) == [{"total": 4}, {"total": 5}, "text", [1, None], None]


def test_a_function_makes_bytes_or_text_in_transactions_too(connected: Client) -> None:
    connected.create_topic("t", 1)
    with (
        connected.producer(transactional_id="p", serializer=lambda order: str(order.total)) as producer,
        producer.transaction() as tx,
    ):
        tx.send("t", Order(4))
        tx.send_many("t", [Order(5)])
    assert read(connected) == [4, 5]


@pytest.mark.parametrize(
    ("serializer", "error", "sentence"),
    [
        ("json", RequestInvalid, "the value is object, which JSON cannot hold"),
        (lambda value: value, RequestInvalid, "the value is object, and must be bytes or text"),
        (lambda value: value.total, AttributeError, "total"),
    ],
    ids=["json", "type", "function"],
)
def test_a_value_that_cannot_be_serialized_is_refused_and_no_other_taken(
    connected: Client, serializer: Any, error: type[Exception], sentence: str
) -> None:
    connected.create_topic("t", 1)
    with connected.producer(serializer=serializer) as producer, pytest.raises(error, match=sentence):
        producer.send_many("t", ["taken?", object()])
    assert read(connected) == []
