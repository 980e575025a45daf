"""A broker with payloads in all formats: framed, named by headers, plain, and broken."""

import io
import json
from dataclasses import dataclass
from typing import Any

import fastavro

from goqueue.client import Client
from goqueue.schemas.formats import schema_format
from goqueue.schemas.framing import encode_prefix
from goqueue.schemas.schema_format import SchemaKind


def order(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


OLD = order({"name": "id", "type": "int"}, {"name": "customer", "type": "string"})
NEW = order({"name": "id", "type": "long"}, {"name": "total", "type": "double", "default": 1.5})
PAYMENT = '{"type":"object","properties":{"cents":{"type":"integer"},"note":{"type":["string","null"]}}}'
EVENT = """syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto";
message Event {
  int64 id = 1; repeated string tags = 2; map<string, int32> counts = 3; Place place = 4; Event parent = 5;
  google.protobuf.Timestamp at = 6; uint64 large = 7; Kind kind = 8; optional bool seen = 9;
  message Place { double x = 1; }
  enum Kind { NONE = 0; SEEN = 1; }
}"""


def avro(schema: str, value: dict[str, Any]) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(json.loads(schema)), value)
    return written.getvalue()


@dataclass(frozen=True)
class TypedIds:
    """The ids of the registered schemas."""

    old: int
    new: int
    payment: int
    event: int


def publish_typed(url: str) -> TypedIds:
    """Register the schemas, and publish a message of each kind to the topics orders, payments and events."""
    with Client(url) as client:
        for topic in ("orders", "payments", "events"):
            client.create_topic(topic, partitions=1)
        old = client.register_schema("orders-value", OLD).id
        client.set_schema_config("orders-value", compatibility="NONE")
        new = client.register_schema("orders-value", NEW).id
        payment = client.register_schema("payments-value", PAYMENT, "JSON").id
        event = client.register_schema("events-value", EVENT, "PROTOBUF").id
        client.register_schema("orders-key", '"string"')
        ids = TypedIds(old, new, payment, event)
        first, header = avro(OLD, {"id": 1, "customer": "a"}), {"schema-id": str(old)}
        with client.producer() as producer:
            send = producer.send
            send("orders", encode_prefix(old) + first, key=avro('"string"', "k1"))  # type: ignore[arg-type]
            send("orders", encode_prefix(new) + avro(NEW, {"id": 2, "total": 2.5}))
            send("orders", first, headers=header)
            send("orders", avro(NEW, {"id": 3, "total": 3.5}))
            send("orders", None, key="gone")
            send("orders", encode_prefix(99) + first)
            send("orders", encode_prefix(payment) + b"{}")
            send("orders", b"\x01")
            send("orders", first, headers={"schema-id": "x"})
            send("payments", b'{"cents":5,"more":[1]}')
            send("payments", encode_prefix(payment) + b'{"cents":6.0,"note":"n"}')
            send("payments", b'{"cents":"x"}')
            message = _event()
            send("events", encode_prefix(event, (0,)) + message)
            send("events", message, headers={"schema-id": str(event)})
            send("events", encode_prefix(event, (0, 1)) + b"")
    return ids


def _event() -> bytes:
    parsed: Any = schema_format(SchemaKind.PROTOBUF).parse(EVENT)
    kind = parsed.message_class("shop.Event")
    message = kind(id=5, tags=["a"], counts={"b": 1}, place={"x": 2.5}, parent={"id": 4}, large=2**64 - 1, kind="SEEN")
    message.at.FromJsonString("2026-01-01T00:00:00.5Z")
    encoded: bytes = message.SerializeToString()
    return encoded
