"""Serializers and deserializers with a broker: from a value over the registry and the log to a value again."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import (
    AsyncClient,
    AvroDeserializer,
    AvroSerializer,
    Client,
    JsonDeserializer,
    JsonSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaDeserializer,
    SchemaReferenceInfo,
)
from goqueue.errors import (
    RequestInvalid,
    SchemaIncompatible,
    SchemaNotFound,
    SchemaViolation,
    SubjectNotFound,
    ValueUnreadable,
)
from goqueue.schemas.protobuf.protobuf_format import ProtobufFormat
from goqueue.schemas.schema_format import SchemaReference
from goqueue.testing.broker import LocalBroker

ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
ORDER_2 = ORDER.replace("]", ',{"name":"note","type":"string","default":"-"}]')
READER = ORDER_2.replace('"long"', '"double"')


@dataclass
class Line:
    sku: str
    number: int = 1


def decoded(client: Client, topic: str, deserializer: SchemaDeserializer) -> list[Any]:
    found = []
    for message in client.reader(topic, deserializer=deserializer):
        try:
            found.append(message.decode())
        except ValueUnreadable as error:
            found.append(error.sentence.partition(" of ")[2])
    return found


def test_values_of_avro_evolve_and_wrong_ones_stop_no_consumer(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker, Client(broker.url) as client:
        client.create_topic("t", 1)
        with client.producer(
            serializer=AvroSerializer(ORDER), key_serializer=JsonSerializer('{"type":"string"}')
        ) as one:
            one.send("t", {"id": 1}, key="k")
            one.send("t", None, key="k")
            with pytest.raises(
                SchemaViolation, match="the value of message 1 does not match schema 1 of t-value at /id"
            ) as no:
                one.send_many("t", [{"id": 1}, {"id": "2"}])
            assert no.value.details["invalid_indexes"] == [1]
        with (
            client.producer(transactional_id="x", serializer=AvroSerializer(ORDER_2, id_in="header")) as two,
            two.transaction() as tx,
        ):
            tx.send("t", {"id": 2, "note": "n"}, headers={"own": "1"})
        client.publish("t", b"plain")
        client.publish("t", b"\0\0\0\0\x63later")
        assert decoded(client, "t", AvroDeserializer(schema=READER)) == [
            {"id": 1.0, "note": "-"},
            None,
            {"id": 2.0, "note": "n"},
            "t/0@4 names no schema: the first byte is 112, with a schema id it is 0",
            "t/0@5 has schema 99, which cannot be read: Schema 99 not found",
        ]
        consumed = []
        options: dict[str, Any] = {"deserializer": AvroDeserializer(), "key_deserializer": JsonDeserializer()}
        with client.consumer("g", ["t"], until_idle="200ms", max_retries=0, **options) as consumer:
            for message in consumer:
                try:
                    with message:
                        consumed.append((message.decode(), message.decode_key()))
                except ValueUnreadable:
                    continue
        assert consumed == [({"id": 1}, "k"), (None, "k"), ({"id": 2, "note": "n"}, None)]
        assert len(list(client.reader("t.dlq"))) == 2
        plain = next(iter(client.reader("t", start=2)))
        assert plain.headers == [("schema-id", b"3"), ("own", b"1")]
        with pytest.raises(RequestInvalid, match="has no deserializer"):
            plain.decode()
        unlike, absent = ORDER.replace("long", "string"), ORDER.replace("id", "other")
        with client.producer(serializer=AvroSerializer(unlike)) as wrong, pytest.raises(SchemaIncompatible):
            wrong.send("t", {"id": "3"})
        unregistered = AvroSerializer(absent, auto_register=False)
        with client.producer(serializer=unregistered) as unknown, pytest.raises(SchemaNotFound):
            unknown.send("t", {"other": 3})


def test_subjects_follow_the_naming_and_references_are_read(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker, Client(broker.url) as client:
        client.create_topic("t", 1)
        client.register_schema("order", ORDER)
        bill = '{"type":"record","name":"Bill","fields":[{"name":"order","type":"Order"}]}'
        order = SchemaReferenceInfo("Order", "order", 1)
        given: list[tuple[dict[str, Any], str]] = [
            ({"naming": "record"}, "Bill"),
            ({"naming": "topic-record"}, "t-Bill"),
            ({"subject": "own"}, "own"),
            ({}, "t-value"),
        ]
        for options, subject in given:
            with client.producer(serializer=AvroSerializer(bill, references=[order], **options)) as producer:
                producer.send("t", {"order": {"id": 5}})
            assert client.schema(subject).id == 2
        assert decoded(client, "t", AvroDeserializer()) == [{"order": {"id": 5}}] * 4
        with client.producer(serializer=AvroSerializer(schema_id=2)) as by_id:
            by_id.send("t", {"order": {"id": 6}})
        with client.producer(serializer=AvroSerializer(use_latest=True)) as latest:
            latest.send("t", {"order": {"id": 7}})
            client.create_topic("u", 1)
            with pytest.raises(SubjectNotFound):
                latest.send("u", {})
        assert [one["order"]["id"] for one in decoded(client, "t", AvroDeserializer())] == [5, 5, 5, 5, 6, 7]
        refused: list[dict[str, Any]] = [{}, {"schema_id": 1, "use_latest": True}, {"schema": ORDER, "naming": "both"}]
        for wrong_options in refused:
            with pytest.raises(RequestInvalid):
                AvroSerializer(**wrong_options)


def test_json_and_protobuf_go_through_both_clients(tmp_path: Path) -> None:
    files = ProtobufFormat()
    money = files.parse('syntax = "proto3"; package p; message Money { int64 units = 1; }')
    text = (
        'syntax = "proto3"; package p; import "money.proto"; message A { Money sum = 1; message B { string b = 1; } }'
    )
    kind = files.parse(text, [SchemaReference("money.proto", money)])
    a, b = kind.message_class("p.A"), kind.message_class("p.A.B")  # as generated ones

    async def with_a_loop(url: str) -> list[Any]:
        async with AsyncClient(url) as client:
            async with client.producer(serializer=JsonSerializer(Line, id_in="header")) as producer:
                await producer.send_many("j", [Line("a"), Line("b", 2), None], keys=["a", "b", "a"])
            options: Any = {"deserializer": JsonDeserializer(Line), "until_idle": "200ms"}
            async with client.consumer("g", ["j"], **options) as consumer:
                found = []
                async for message in consumer:
                    with message:
                        found.append(message.decode())
            return found

    with LocalBroker(str(tmp_path / "data")) as broker, Client(broker.url) as client:
        for topic in ("j", "p"):
            client.create_topic(topic, 1)
        assert asyncio.run(with_a_loop(broker.url)) == [Line("a"), Line("b", 2), None]
        with client.producer(serializer=ProtobufSerializer(a)) as producer:
            producer.send("p", a(sum={"units": 3}))
        with client.producer(serializer=ProtobufSerializer(b, id_in="header", auto_register=False)) as producer:
            producer.send("p", b(b="x"))
        with client.producer(serializer=ProtobufSerializer(use_latest=True, message="p.A.B")) as producer:
            producer.send("p", {"b": "y"})
        assert client.subjects() == ["j-value", "money.proto", "p-value"]
        assert decoded(client, "p", ProtobufDeserializer()) == [{"sum": {"units": 3}}, {"b": "x"}, {"b": "y"}]
        assert decoded(client, "p", ProtobufDeserializer(b))[1:] == [b(b="x"), b(b="y")]
        assert decoded(client, "p", SchemaDeserializer(as_json=True))[0] == {"sum": {"units": "3"}}
        assert decoded(client, "p", AvroDeserializer())[0].endswith(
            "does not match schema 3: its schema is of the format PROTOBUF, and must be AVRO"
        )
        assert [message.value[:8] for message in client.reader("p") if message.value] == [
            b"\0\0\0\0\x03\0\n\x02", b"\n\x01x", b"\0\0\0\0\x03\x04\0\0",
        ]  # fmt: skip
