"""Payloads that serializers of `confluent-kafka` 2.16 made with this broker's registry: ours make and read the same."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from goqueue.client import (
    AvroDeserializer,
    AvroSerializer,
    JsonDeserializer,
    JsonSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaDeserializer,
    SchemaSerializer,
)
from goqueue.client.schema_requests import RegisteredSchema
from goqueue.client.serializers.deserializer import read_framed
from goqueue.client.serializers.known_schemas import KnownSchemas
from goqueue.client.serializers.serializer import TopicEncoder
from goqueue.schemas.formats import schema_format
from goqueue.schemas.schema_format import ParsedSchema


def _record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


AVRO = _record(
    "Order",
    id="long",
    at={"type": "long", "logicalType": "timestamp-millis"},
    total={"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    day={"type": "int", "logicalType": "date"},
    lines={"type": "array", "items": _record("Line", sku="string", n="int")},
    note=["null", "string"],
    status={"type": "enum", "name": "Status", "symbols": ["NEW", "PAID"]},
    extra={"type": "map", "values": "double"},
    raw={"type": "fixed", "name": "Raw", "size": 1},
)
AVRO_VALUE = {
    "id": 7,
    "at": datetime(2026, 1, 1, tzinfo=UTC),
    "total": Decimal("12.50"),
    "day": date(2026, 1, 2),
    "lines": [{"sku": "a", "n": 2}],
    "note": None,
    "status": "PAID",
    "extra": {"k": 1.5},
    "raw": b"\xff",
}
PROTOBUF = """
syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
enum Status { NEW = 0; PAID = 1; }
message Order {
  int64 id = 1; string customer = 2; Money total = 3; repeated Line lines = 4; map<string, int32> counts = 5;
  optional string note = 6; Status status = 7; google.protobuf.Timestamp at = 8;
  oneof paid_with { string card = 9; bytes token = 10; }
  message Line { string sku = 1; uint32 quantity = 2; } }
message Refund { int64 order_id = 1; }
message Money { string currency = 1; int64 units = 2; }
"""
ORDER = {
    "id": 7,
    "customer": "Ada",
    "total": {"currency": "", "units": 5},
    "lines": [{"sku": "a", "quantity": 2}],
    "counts": {"a": 1},
    "note": "x",
    "status": "PAID",
    "at": datetime(2026, 1, 1, tzinfo=UTC),
    "token": b"\xff",
}
PAYLOADS: list[tuple[str, SchemaSerializer, SchemaDeserializer, Any]] = [
    (
        "00000000080e80a0d5edee660404e2cebf020202610400000202026b000000000000f83f00ff",
        AvroSerializer(AVRO),
        AvroDeserializer(),
        AVRO_VALUE,
    ),
    (
        "00000000097b226964223a372c226c696e6573223a5b7b22736b75223a2261227d5d2c226e6f7465223a22636166c3a9227d",
        JsonSerializer({"title": "Order", "type": "object"}),
        JsonDeserializer(),
        {"id": 7, "lines": [{"sku": "a"}], "note": "café"},
    ),
    ("0000000004226b22", JsonSerializer({"type": "string"}), JsonDeserializer(), "k"),
    (
        "000000000200080712034164611a02100522050a016110022a050a01611001320178380142060880f2d6ca065201ff",
        ProtobufSerializer(PROTOBUF, message="shop.Order"),
        ProtobufDeserializer(),
        ORDER,
    ),
    (
        "00000000020400020a01611002",
        ProtobufSerializer(PROTOBUF, message="shop.Order.Line"),
        ProtobufDeserializer(),
        {"sku": "a", "quantity": 2},
    ),
    (
        "000000000202020803",
        ProtobufSerializer(PROTOBUF, message="shop.Refund"),
        ProtobufDeserializer(),
        {"order_id": 3},
    ),
]


IN_HEADERS: list[tuple[str, str, SchemaSerializer, SchemaDeserializer, Any]] = [
    (
        "1661206c6f6e672074657874",
        "8",
        AvroSerializer(_record("S", a="string"), id_in="header"),
        AvroDeserializer(),
        {"a": "a long text"},
    ),
    (
        "0a0b61206c6f6e672074657874",
        "4:0,1",
        ProtobufSerializer(PROTOBUF, message="shop.Order.Line", id_in="header"),
        ProtobufDeserializer(),
        {"sku": "a long text", "quantity": 0},
    ),
    (
        "08808080808080808040",
        "4:1",
        ProtobufSerializer(PROTOBUF, message="shop.Refund", id_in="header"),
        ProtobufDeserializer(),
        {"order_id": 2**62},
    ),
]
"""Made with the two functions of the page about the registry, which put ids in a header."""


def bound(serializer: SchemaSerializer, number: int) -> tuple[TopicEncoder, ParsedSchema]:
    """Return the encoder of a topic, as after a registration, and the schema that was sent."""
    binding = serializer.bind(KnownSchemas(), "orders", "value")
    request = next(binding)
    assert request.path == "/subjects/orders-value/versions"
    with pytest.raises(StopIteration) as ended:
        binding.send(RegisteredSchema(number, 1))
    body = json.loads(b"".join(map(bytes, request.body)))
    return ended.value.value, schema_format(body["schemaType"]).parse(body["schema"])


@pytest.mark.parametrize(("payload", "header", "serializer", "deserializer", "value"), IN_HEADERS)
def test_ids_in_headers_are_those_that_confluents_serializers_can_use(
    payload: str, header: str, serializer: SchemaSerializer, deserializer: SchemaDeserializer, value: Any
) -> None:
    content = bytes.fromhex(payload)
    framed = read_framed(content, header.encode())
    encoder, schema = bound(serializer, framed.id)
    assert (encoder.payload(value, "value"), encoder.header) == (content, ("schema-id", header))
    assert deserializer.decode(framed, schema) == value


@pytest.mark.parametrize(("payload", "serializer", "deserializer", "value"), PAYLOADS)
def test_bytes_are_those_of_confluents_serializers(
    payload: str, serializer: SchemaSerializer, deserializer: SchemaDeserializer, value: Any
) -> None:
    content = bytes.fromhex(payload)
    framed = read_framed(content, None)
    encoder, schema = bound(serializer, framed.id)
    assert encoder.payload(value, "value") == content
    assert deserializer.decode(framed, schema) == value
