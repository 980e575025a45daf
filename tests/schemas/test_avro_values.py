"""Values of Avro with the library `fastavro` as a judge, and what is refused."""

import io
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from goqueue.client.serializers.logical_types import READ, WRITE, WRITE_JSON
from goqueue.errors import SchemaInvalid
from goqueue.schemas.avro.avro_format import AvroFormat
from goqueue.schemas.avro.decoding import AvroDecoder
from goqueue.schemas.avro.encoding import AvroEncoder, WriteRules
from goqueue.schemas.avro.types import AvroType
from goqueue.schemas.values import ValueMismatch
from tests.schemas.test_avro_twin import changed, types, values, written

AVRO = AvroFormat()


def root(schema: Any) -> AvroType:
    return AVRO.parse(schema if isinstance(schema, str) and schema[:1] in "{[" else json.dumps(schema)).root


def read_by_judge(payload: bytes, *schemas: Any) -> Any:
    parsed: list[Any] = [fastavro.parse_schema(schema) for schema in schemas]
    return fastavro.schemaless_reader(io.BytesIO(payload), *parsed)


@given(st.data())
def test_values_have_the_bytes_that_the_judge_writes_and_are_read_back(data: st.DataObject) -> None:
    schema = data.draw(types())
    value = data.draw(values(schema))
    payload = written(schema, value)
    assert AvroEncoder(root(schema)).encode(value) == payload
    plain = AvroDecoder(root(schema)).decode(payload)
    assert plain == read_by_judge(payload, schema)
    again = AvroEncoder(root(schema)).encode(plain)
    assert AVRO.validator(AVRO.parse(json.dumps(schema))).problems(again) == []


@given(st.data())
def test_values_are_resolved_as_by_the_judge(data: st.DataObject) -> None:
    writer = data.draw(types())
    reader = data.draw(changed(writer) | types())
    payload = written(writer, data.draw(values(writer)))
    try:
        wanted = root(reader)
    except SchemaInvalid:  # the change made a union with a type twice, or a default that does not fit
        reject()
    is_compatible = not AVRO.incompatibilities(AVRO.parse(json.dumps(reader)), AVRO.parse(json.dumps(writer)))
    try:
        found = AvroDecoder(root(writer), wanted).decode(payload)
    except ValueMismatch:
        assert not is_compatible
        return
    if is_compatible:
        assert without_bytes(found) == without_bytes(read_by_judge(payload, writer, reader))


def without_bytes(value: Any) -> Any:
    """Make text of bytes: the judge leaves defaults of bytes as the text of the schema."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, dict):
        return {name: without_bytes(one) for name, one in value.items()}
    return [without_bytes(one) for one in value] if isinstance(value, list) else value


@given(types(), st.binary(max_size=40))
def test_any_bytes_are_decoded_or_refused(schema: Any, payload: bytes) -> None:
    try:
        found = AvroDecoder(root(schema), logical=READ).decode(payload)
    except ValueMismatch:
        return
    assert AvroEncoder(root(schema)).encode(found) is not None


def field(name: str, kind: Any, **further: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **further}


def record(name: str, *fields: dict[str, Any], **further: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **further}


LOGICAL = record(
    "R",
    field("day", {"type": "int", "logicalType": "date"}),
    field("at", {"type": "long", "logicalType": "timestamp-micros"}),
    field("local", {"type": "long", "logicalType": "local-timestamp-millis"}),
    field("hour", {"type": "int", "logicalType": "time-millis"}),
    field("id", {"type": "string", "logicalType": "uuid"}),
    field("raw", {"type": "fixed", "size": 16, "name": "U", "logicalType": "uuid"}),
    field("sum", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}),
    field("less", {"type": "fixed", "size": 3, "name": "D", "logicalType": "decimal", "precision": 6}),
    field("blob", "bytes"),
    field("union", ["null", "string", {"type": "long", "logicalType": "timestamp-millis"}]),
)
IN_PYTHON = {
    "day": date(2026, 1, 2),
    "at": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    "local": datetime(2026, 1, 2, 3, 4, 5),  # noqa: DTZ001 - local ones have no zone
    "hour": time(23, 59, 59, 999_000),
    "id": UUID(int=7),
    "raw": UUID(int=8),
    "sum": Decimal("-1234.50"),
    "less": Decimal(-5),
    "blob": b"\xff",
    "union": datetime(2026, 1, 2, tzinfo=UTC),
}
IN_JSON = {
    "day": "2026-01-02",
    "at": "1969-12-31T23:59:59.999999Z",
    "local": "2026-01-02T03:04:05",
    "hour": "23:59:59.999",
    "id": str(UUID(int=7)),
    "raw": str(UUID(int=8)),
    "sum": -1234.5,
    "less": "-5",
    "blob": "/w==",
    "union": 1767312000000,
}


def test_logical_types_are_values_of_python_and_of_json() -> None:
    payload = AvroEncoder(root(LOGICAL), WriteRules(WRITE)).encode(IN_PYTHON)
    assert payload == written(LOGICAL, IN_PYTHON | {"raw": UUID(int=8).bytes})  # it has no UUIDs of bytes
    assert AvroDecoder(root(LOGICAL), logical=READ).decode(payload) == IN_PYTHON
    assert AvroEncoder(root(LOGICAL), WriteRules(WRITE_JSON, is_json=True)).encode(IN_JSON) == payload


@dataclass
class Line:
    sku: str
    number: int


def test_records_may_be_objects_and_defaults_are_filled_in_anew_for_each() -> None:
    line = record("Line", field("sku", "string"), field("number", "int"))
    schema = record(
        "Order",
        field("lines", {"type": "array", "items": line}),
        field("tags", {"type": "array", "items": "bytes"}, default=["\u00ff"]),
        field("first", ["null", "Line"], default=None),
    )
    payload = AvroEncoder(root(schema)).encode({"lines": [Line("a", 1), {"sku": "b", "number": 2}]})
    decoder = AvroDecoder(root(record("Order")), root(record("Order", schema["fields"][1])))
    first, second = decoder.decode(b""), decoder.decode(b"")
    first["tags"].append("changed")
    assert second == {"tags": [b"\xff"]}
    assert AvroDecoder(root(schema)).decode(payload) == {
        "lines": [{"sku": "a", "number": 1}, {"sku": "b", "number": 2}],
        "tags": [b"\xff"],
        "first": None,
    }


ORDER = record(
    "Order",
    field("id", "long"),
    field("ok", "boolean", default=True),
    field("lines", {"type": "array", "items": record("Line", field("sku", "string"))}, default=[]),
    field("by_name", {"type": "map", "values": "int"}, default={}),
    field("kind", {"type": "enum", "name": "Kind", "symbols": ["NEW", "PAID"]}, default="NEW"),
    field("one", ["int", "Line"], default=0),
    field("at", {"type": "long", "logicalType": "timestamp-millis"}, default=0),
    field("float", "float", default=0),
)


@pytest.mark.parametrize(
    ("change", "path", "reason"),
    [
        ({"id": "7"}, "/id", "'7' is str, and must be a long"),
        ({"id": True}, "/id", "True is bool, and must be a long"),
        ({"id": 1.5}, "/id", "1.5 is float, and must be a long"),
        ({"id": 2**63}, "/id", "must be a long: a whole number of 64 bits"),
        ({"ok": 1}, "/ok", "1 is int, and must be True or False"),
        ({"lines": [{"sku": "a"}, {"sku": None}]}, "/lines/1/sku", "None is None, and must be a string"),
        ({"lines": {"sku": "a"}}, "/lines", "and must be a list"),
        ({"by_name": {"a/b": "x"}}, "/by_name/a~1b", "'x' is str, and must be an int"),
        ({"kind": "LOST"}, "/kind", "'LOST' is str, and must be one of NEW, PAID"),
        ({"one": {"sku": 3}}, "/one/sku", "3 is int, and must be a string"),
        ({"one": "x"}, "/one", "'x' is str, and must be one of int, Line"),
        ({"at": datetime(2026, 1, 1)}, "/at", "is no timestamp-millis: it has no time zone"),  # noqa: DTZ001
        ({"float": 1e300}, "/float", "a float, which has 32 bits"),
        ({"nubmer": 1}, "", "the record Order has no field 'nubmer'"),
        ({"lins": []}, "", "did you mean 'lines'?"),
    ],
)
def test_mismatch_names_the_path_the_value_and_what_is_wanted(change: dict[str, Any], path: str, reason: str) -> None:
    encoder = AvroEncoder(root(ORDER), WriteRules(WRITE))
    with pytest.raises(ValueMismatch) as refused:
        encoder.encode({"id": 1} | change)
    found = refused.value.problem
    assert found.path == path
    assert reason in found.reason


def test_values_inside_each_other_without_end_are_refused() -> None:
    node = root(record("Node", field("next", ["null", "Node"])))
    endless: dict[str, Any] = {}
    endless["next"] = endless
    with pytest.raises(ValueMismatch, match="nested too deep"):
        AvroEncoder(node).encode(endless)
    with pytest.raises(ValueMismatch, match="nested more than 100 levels"):
        AvroDecoder(node).decode(b"\x02" * 100_000 + b"\x00")


def test_what_a_reader_cannot_resolve_is_an_error_of_that_value_alone() -> None:
    writer = record(
        "R", field("a", ["int", "string"]), field("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]})
    )
    reader = record("R", field("a", "long"), field("e", {"type": "enum", "name": "E", "symbols": ["A"]}))
    decoder = AvroDecoder(root(writer), root(reader))
    assert decoder.decode(written(writer, {"a": 1, "e": "A"})) == {"a": 1, "e": "A"}
    for value, problem in (
        ({"a": "x", "e": "A"}, ("/a", "the writer's string cannot be read as long")),
        ({"a": 1, "e": "B"}, ("/e", "the reader's enum E has no 'B', and no default")),
    ):
        with pytest.raises(ValueMismatch) as refused:
            decoder.decode(written(writer, value))
        assert refused.value.problem == problem


def test_records_of_very_many_fields_are_resolved_and_name_the_path() -> None:
    fields = [field(f"f{number}", "string") for number in range(1_100)]
    writer, reader = (
        record("R", *fields),
        record("R", field("new", "int", default=3), *fields[1:-1], field("f0", "bytes")),
    )
    value = {f"f{number}": "x" for number in range(1_100)}
    payload = AvroEncoder(root(writer)).encode(value)
    assert AvroDecoder(root(writer)).decode(payload) == value
    found = AvroDecoder(root(writer), root(reader)).decode(payload)
    assert list(found) == ["new", *(f"f{number}" for number in range(1, 1_099)), "f0"]
    assert (found["new"], found["f1"], found["f0"]) == (3, "x", b"x")
    fixed = AvroDecoder(root(writer), root(record("R", field("f7", "int"))))
    with pytest.raises(ValueMismatch) as refused:
        fixed.decode(payload)
    assert refused.value.problem.path == "/f7"
