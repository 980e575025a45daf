"""An order with eight lines, in each format: its schema, a value, and the value as a payload."""

import io
import json
from typing import Any

import fastavro

from goqueue.schemas.formats import schema_format
from goqueue.schemas.protobuf.protobuf_format import ProtobufSchema
from goqueue.schemas.schema_format import ParsedSchema, SchemaKind

NOTE_CHARACTERS = {SchemaKind.JSON: 400, SchemaKind.AVRO: 800, SchemaKind.PROTOBUF: 760}
"""So that a payload has about 1 KiB in each format."""

TEXT = {"type": "string"}
JSON_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["id", "customer", "lines"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "customer": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": TEXT, "email": {"type": "string", "pattern": "^[^@]+@[^@]+$"}, "city": TEXT},
        },
        "status": {"enum": ["new", "paid", "shipped"]},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["sku", "quantity"],
                "properties": {"sku": TEXT, "quantity": {"type": "integer", "minimum": 1}, "price": {"type": "number"}},
            },
        },
        "note": TEXT,
    },
}


def _record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


AVRO_SCHEMA = _record(
    "Order",
    id="long",
    customer=_record("Customer", name="string", email=["null", "string"], city="string"),
    status={"type": "enum", "name": "Status", "symbols": ["new", "paid", "shipped"]},
    lines={"type": "array", "items": _record("Line", sku="string", quantity="int", price="double")},
    note="string",
)
PROTOBUF_SCHEMA = """
syntax = "proto3";
message Order {
  int64 id = 1;
  Customer customer = 2;
  Status status = 3;
  repeated Line lines = 4;
  string note = 5;
  message Customer { string name = 1; optional string email = 2; string city = 3; }
  message Line { string sku = 1; int32 quantity = 2; double price = 3; }
  enum Status { NEW = 0; PAID = 1; SHIPPED = 2; }
}
"""
TEXTS = {
    SchemaKind.JSON: json.dumps(JSON_SCHEMA),
    SchemaKind.AVRO: json.dumps(AVRO_SCHEMA),
    SchemaKind.PROTOBUF: PROTOBUF_SCHEMA,
}


def parsed(kind: SchemaKind) -> ParsedSchema:
    return schema_format(kind).parse(TEXTS[kind])


def payload(kind: SchemaKind) -> bytes:
    """Return the order as a producer would send it, without the schema id."""
    order = {
        "id": 12_345,
        "customer": {"name": "Ada Lovelace", "email": "ada@example.com", "city": "London"},
        "status": "paid",
        "lines": [{"sku": f"SKU-{number:06}", "quantity": number + 1, "price": 19.5 + number} for number in range(8)],
        "note": "x" * NOTE_CHARACTERS[kind],
    }
    if kind is SchemaKind.JSON:
        return json.dumps(order).encode()
    if kind is SchemaKind.AVRO:
        target = io.BytesIO()
        fastavro.schemaless_writer(target, fastavro.parse_schema(AVRO_SCHEMA), order)
        return target.getvalue()
    schema = parsed(kind)
    assert isinstance(schema, ProtobufSchema)
    message: bytes = schema.message_class("Order")(**order | {"status": 1}).SerializeToString()
    return b"\0" + message
