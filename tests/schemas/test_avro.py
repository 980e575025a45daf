"""Avro: what is refused, canonical texts, what payloads are told, what follows a version."""

import io
import json
from typing import Any

import fastavro
import pytest

from goqueue.errors import SchemaInvalid
from goqueue.schemas import limits
from goqueue.schemas.avro.avro_format import AvroFormat, AvroSchema
from goqueue.schemas.schema_format import SchemaReference

AVRO = AvroFormat()


def record(name: str, *fields: Any, **more: Any) -> dict[str, Any]:
    listed = [field if isinstance(field, dict) else {"name": field[0], "type": field[1]} for field in fields]
    return {"type": "record", "name": name, "fields": listed, **more}


def enum(name: str, symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def parsed(schema: Any, *references: SchemaReference) -> AvroSchema:
    return AVRO.parse(json.dumps(schema), references)


def reasons(reader: Any, writer: Any) -> list[str]:
    return [str(found) for found in AVRO.incompatibilities(parsed(reader), parsed(writer))]


CHAIN = record("Top", *((f"f{i}", record(f"R{i}", ("x", f"R{i - 1}" if i else "int"))) for i in range(120)))
TREE = record("Tree", ("value", "int"), ("children", {"type": "array", "items": "Tree"}))
ORDER = record(
    "Order",
    ("id", "long"),
    ("status", enum("Status", "NP")),
    ("lines", {"type": "array", "items": record("Line", ("sku", "string"), ("note", ["null", "string"]))}),
    ("prices", {"type": "map", "values": "double"}),
    ("hash", fixed("Hash", 2)),
    ("paid", "boolean"),
    namespace="shop",
)


@pytest.mark.parametrize(
    ("schema", "path", "reason"),
    [
        ("text", "#", "the type 'text' is not defined"),
        ({"type": "record", "name": "A"}, "#", "'fields' is missing"),
        (record("A", ("b", "B")), "#/fields/0/type", "'B' is not defined"),
        (record("A", ("b", "int"), ("b", "int")), "#/fields/1", "'b' twice"),
        (record("A", ("1b", "int")), "#/fields/0", "'1b' is not a name"),
        (record("a.B-c"), "#/name", "'B-c' is not a name"),
        (record("A", ("b", record("A"))), "#/fields/0/type", "'A' is defined twice"),
        (
            record("A", {"name": "b", "type": "int", "default": "1"}),
            "#/fields/0/default",
            "is not a value of",
        ),
        (record("A", {"name": "b", "type": "int", "order": "up"}), "#/fields/0/order", "'up' is not one of"),
        (["int", ["string"]], "#/1", "may not contain a union"),
        (["int", "string", "int"], "#/2", "'int' twice"),
        (enum("E", "AA"), "#/symbols", "repeated"),
        (enum("E", "AB", default="C"), "#/default", "'C' is not a symbol"),
        (fixed("F", -1), "#/size", "-1 is not a number of bytes"),
        ({"type": "array"}, "#", "'items' is missing"),
        ({"type": 1}, "#", "1 is not a type"),
        (7, "#", "not 7"),
        (CHAIN, "#/fields/99/type", "types inside each other"),
    ],
)
def test_invalid_schema_is_refused_with_path_and_reason(schema: Any, path: str, reason: str) -> None:
    with pytest.raises(SchemaInvalid) as caught:
        parsed(schema)
    assert caught.value.details["path"] == path
    assert reason in caught.value.details["reason"]


def test_canonical_text_keeps_all_but_whitespace_and_order_of_keys() -> None:
    one = AVRO.parse(
        """{"fields": [{"type": {"type": "string"}, "name": "a", "doc": "d", "aliases": ["x"], "custom": 1},
            {"name": "b", "type": {"type": "enum", "name": "shop.E", "symbols": ["A"]}, "default": "A"},
            {"name": "c", "type": "shop.E"},
            {"name": "d", "type": {"type": "long", "logicalType": "timestamp-millis"}}],
            "aliases": ["Old"], "name": "R", "namespace": "shop", "type": "record", "owner": "me"}"""
    )
    assert one.text == (
        '{"type":"record","name":"R","namespace":"shop","fields":[{"name":"a","type":"string","doc":"d","aliases":["x"],'
        '"custom":1},{"name":"b","type":{"type":"enum","name":"E","symbols":["A"]},"default":"A"},{"name":"c","type":"E"},'
        '{"name":"d","type":{"type":"long","logicalType":"timestamp-millis"}}],"owner":"me","aliases":["Old"]}'
    )
    assert AVRO.parse(one.text).text == one.text
    assert AVRO.parse(one.text).fingerprint == one.fingerprint
    assert AVRO.parse(one.normalized_text).normalized_text == one.normalized_text
    assert one.names == ("shop.R", "shop.E")
    assert one.parsing_canonical_form == fastavro.schema.to_parsing_canonical_form(json.loads(one.text))


def test_fingerprint_is_the_one_of_the_specification() -> None:
    for schema in ("int", ORDER, TREE, ["null", "string"], {"type": "map", "values": "bytes"}):
        one = parsed(schema)
        assert one.parsing_canonical_form == fastavro.schema.to_parsing_canonical_form(json.loads(one.text))
        told = fastavro.schema.fingerprint(one.parsing_canonical_form, "CRC-64-AVRO")
        assert one.parsing_fingerprint.to_bytes(8, "little").hex() == told


def test_references_define_types_by_name() -> None:
    line = parsed(record("shop.Line", ("sku", "string")))
    order = parsed(record("shop.Order", ("first", "Line"), ("second", "shop.Line")), SchemaReference("shop.Line", line))
    assert order.text.count('"sku"') == order.normalized_text.count('"sku"') == 0
    assert order.names == ("shop.Order",)
    assert AVRO.validator(order).problems(b"\x02a\x02b") == []
    other = parsed(record("shop.Line", ("sku", "int")))
    reference = SchemaReference("shop.Line", other)
    other_order = parsed(record("shop.Order", ("first", "Line"), ("second", "shop.Line")), reference)
    assert other_order.text == order.text
    assert other_order.fingerprint != order.fingerprint
    assert [found.path for found in AVRO.incompatibilities(order, other_order)] == ["#/first/sku"]
    with pytest.raises(SchemaInvalid, match=r"defined twice"):
        parsed(record("shop.Line"), SchemaReference("shop.Line", line))


def encoded(schema: Any, value: Any) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), value)
    return target.getvalue()


def test_payload_problem_names_path_and_reason() -> None:
    validator = AVRO.validator(parsed(ORDER))
    lines = [{"sku": "ä" * 80, "note": None}, {"sku": "b", "note": "ok"}]
    order = {"id": 2**40, "status": "P", "lines": lines, "prices": {"EUR": 1.5}, "hash": b"ab", "paid": True}
    good = encoded(ORDER, order)
    assert validator.problems(good) == []
    assert [str(problem.reason) for problem in validator.problems(good + b"x")] == ["1 bytes follow the value"]
    for end in range(len(good)):
        assert len(validator.problems(good[:end])) == 1
    head = b"\x02\x00"
    for payload, path, reason in (
        (b"\xff" * 11, "/id", "more than 64 bits"),
        (b"\x02\x05", "/status", "the symbol -3 of shop.Status"),
        (head + b"\x02\x02a\x04", "/lines/0/note", "the branch 2 of a union of 2"),
        (head + b"\x02\x02\xff", "/lines/0/sku", "not UTF-8 (byte 0)"),
        (head + b"\x02\x81\x80\x80\x80\x01", "/lines/0/sku", "a length of -"),
        (head + b"\x80\x80\x80\x80\x80\x01", "/lines", "items, for which 0 bytes are left"),
        (head + b"\x00\x00ab\x02", "/paid", "a boolean is 0 or 1, not 2"),
    ):
        problem = validator.problems(payload)[0]
        assert (problem.path, reason in problem.reason) == (path, True), problem


def test_payload_cannot_exhaust_stack_memory_or_time() -> None:
    tree = AVRO.validator(parsed(TREE))
    assert tree.problems(b"\x02\x02" * 50 + b"\x02\x00" + b"\x00" * 50) == []
    assert "levels deep" in tree.problems(b"\x02\x02" * 1_000_000)[0].reason
    nulls = AVRO.validator(parsed({"type": "array", "items": "null"}))
    assert nulls.problems(b"\x06\x00") == []
    assert "take no bytes" in nulls.problems(b"\xfe" + b"\xff" * 8 + b"\x01" + b"\x00")[0].reason
    assert len(AVRO.validator(parsed("int")).problems(b"\x80\x80\x80\x80\x40")) == 1


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
COMPATIBLE = {
    "numbers widen": ("double", ["int", "long", "float"]),
    "text and bytes": ("string", "bytes"),
    "a field with a default is added": (record("A", {"name": "b", "type": "int", "default": 1}), record("A")),
    "a field is removed": (record("A"), record("A", ("b", "int"))),
    "a field is renamed with an alias": (
        record("A", {"name": "c", "type": "int", "aliases": ["b"]}),
        record("A", ("b", "int")),
    ),
    "a record is renamed with an alias": (record("B", aliases=["A"]), record("A")),
    "a namespace changes": (record("x.A"), record("y.A")),
    "a field becomes optional": (record("A", ("b", ["null", "int"])), record("A", ("b", "int"))),
    "a union has a branch for each": (["null", "long", "string"], ["int", "null"]),
    "an enum grows": (enum("E", "AB"), enum("E", "A")),
    "an enum has a default for removed symbols": (enum("E", "A", default="A"), enum("E", "AB")),
    "a recursive record": (TREE, TREE),
    "a decimal with more digits": ({**DECIMAL, "precision": 12}, DECIMAL),
    "a logical type is dropped": ("bytes", DECIMAL),
    "an unknown logical type": ({"type": "int", "logicalType": "x"}, {"type": "int", "logicalType": "date"}),
}


def test_reader_with_a_compatible_schema_has_no_incompatibilities() -> None:
    assert {name: found for name, (reader, writer) in COMPATIBLE.items() if (found := reasons(reader, writer))} == {}


INCOMPATIBLE = [
    ("int", "long", "#: the writer has long, which the reader cannot read as int"),
    (record("A", ("b", "int")), record("A"), "#/b: the writer does not have this field"),
    (record("B"), record("A"), "#: the writer's record is A, the reader's B"),
    (record("A", ("b", "int")), record("A", ("b", ["null", "int"])), "#/b/null: the writer has null"),
    (["null", "int"], "string", "#: no branch of the reader's union accepts string"),
    (["null", record("A", ("b", "int"))], record("A", ("b", "string")), "#/b: the writer has string"),
    (enum("E", "A"), enum("E", "AB"), "#: the reader's enum E does not have B"),
    (fixed("F", 4), fixed("F", 8), "#: the writer's F has 8 bytes, the reader's 4"),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "string"}, "#/items: "),
    ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}, "#: the writer has array"),
    (DECIMAL, {**DECIMAL, "scale": 3}, "#: the writer's decimal has the scale 3"),
    ({**DECIMAL, "precision": 5}, DECIMAL, "#: the writer's decimal has 9 digits"),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        {"type": "long", "logicalType": "timestamp-micros"},
        "#: the writer has timestamp-micros",
    ),
    (
        record("Tree", ("value", "int"), ("children", {"type": "array", "items": "Tree"})),
        record("Tree", ("value", "long"), ("children", {"type": "array", "items": "Tree"})),
        "#/value: the writer has long",
    ),
]


def test_incompatible_schema_is_told_with_path_and_reason() -> None:
    found = [(reasons(reader, writer), expected) for reader, writer, expected in INCOMPATIBLE]
    assert [(told, expected) for told, expected in found if not any(one.startswith(expected) for one in told)] == []


def test_limit_of_references() -> None:
    many = [SchemaReference(f"R{i}", parsed(record(f"R{i}"))) for i in range(limits.SCHEMA_REFERENCES_MAX + 1)]
    with pytest.raises(SchemaInvalid, match="more than 200 schemas"):
        parsed("int", *many)
