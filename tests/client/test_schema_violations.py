"""A producer whose messages break the schemas of their topic: only those fail, the others are stored in their order."""

import json

import pytest

from goqueue.client import AvroSerializer, Client, Delivery, JsonSerializer
from goqueue.client.violations import errors_by_message
from goqueue.errors import SchemaViolation
from goqueue.schemas.subject_names import SubjectNaming
from goqueue.testing.broker import LocalBroker
from tests.brokers import read

SCHEMA = json.dumps({"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}})


@pytest.fixture
def url(broker: LocalBroker) -> str:
    with Client(broker.url) as client:
        client.register_schema("orders-value", SCHEMA, "JSON")
        client.create_topic("orders", 2, value_validation="payload")
    return broker.url


def good(number: int) -> bytes:
    return b'{"id":%d}' % number


def bad(number: int) -> bytes:
    return b'{"id":"%d"}' % number


def stored(url: str, partition: int = 0) -> list[str]:
    return [one["value"] for one in read(url, "orders", partition, "limit=1000")]


def test_only_invalid_messages_of_a_batch_fail(url: str) -> None:
    sent: list[tuple[int, Delivery]] = []
    with Client(url) as client:
        producer = client.producer(batch_messages=100, linger=5)
        for number in range(300):
            value = bad(number) if number % 7 == 3 else good(number)
            sent.append((number, producer.send("orders", value, partition=number % 2)))
        for number, delivery in sent:
            if number % 7 != 3:
                assert delivery.result().partition == number % 2
                continue
            error = delivery.exception()
            assert isinstance(error, SchemaViolation)
            if "/id" in error.sentence:  # the details of more than 20 are not named
                assert error.sentence == f'the value at /id: "{number}" is not of type "integer"'
                assert error.details["problems"][0]["place"] == "value"
        producer.close()
    for partition in range(2):
        numbers = [number for number in range(300) if number % 2 == partition and number % 7 != 3]
        assert stored(url, partition) == [good(number).decode() for number in numbers]


def test_flush_counts_invalid_messages_that_were_not_looked_at(url: str) -> None:
    with Client(url) as client, client.producer(linger=5) as producer:
        deliveries = producer.send_many("orders", [good(1), bad(2), good(3), bad(4)], partition=0)
        producer.send("orders", bad(5), partition=0)
        assert sorted(deliveries.exceptions()) == [1, 3]
        with pytest.raises(SchemaViolation, match="1 message was not delivered: the value at /id") as caught:
            producer.flush()
        assert caught.value.details["failed"] == 1
        producer.send("orders", good(6), partition=0, delay=0.01).result()
        with pytest.raises(SchemaViolation):
            producer.send("orders", bad(7), partition=0, delay=0.01).result()
    assert stored(url)[:2] == ['{"id":1}', '{"id":3}']


def test_transaction_with_an_invalid_message_publishes_nothing(url: str) -> None:
    with Client(url) as client, client.producer(transactional_id="t") as producer:
        with pytest.raises(SchemaViolation), producer.transaction() as transaction:
            transaction.send_many("orders", [good(1), bad(2)], partition=0)
        with producer.transaction() as transaction:
            transaction.send("orders", good(3), partition=0)
    assert stored(url) == ['{"id":3}']


def test_refusal_that_does_not_fit_the_batch_fails_all_of_it() -> None:
    for details in ({}, {"invalid_indexes": [0, 9]}, {"problems": [{"problem": "?"}]}, {"invalid_indexes": "all"}):
        assert errors_by_message(SchemaViolation("no", **details), 3) == {}


@pytest.mark.parametrize("naming", ["topic", "record", "topic-record"])
def test_what_serializers_send_passes_the_check_in_each_form(broker: LocalBroker, naming: SubjectNaming) -> None:
    avro = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"}]}'
    titled = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}
    with Client(broker.url) as client:
        for kind, schema in ((AvroSerializer, avro), (JsonSerializer, titled)):
            for place in ("prefix", "header"):
                topic = f"{kind.__name__}-{place}"
                client.create_topic(topic, 1, value_validation="payload", value_subject=naming)
                serializer = kind(schema, naming=naming, id_in=place)
                with client.producer(serializer=serializer) as producer:
                    producer.send(topic, {"id": 1}).result()
                with client.producer() as plain, pytest.raises(SchemaViolation):
                    plain.send(topic, b"\0\0\0\0\x63{}").result()
