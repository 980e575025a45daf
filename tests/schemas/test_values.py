"""Values of JSON and Protobuf: round trips, and mismatches with the path of the value."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.client.serializers import messages
from goqueue.client.serializers.derived import convert_to, decode_json_as, json_schema_of
from goqueue.errors import RequestInvalid
from goqueue.schemas.json_schema.json_format import JsonFormat
from goqueue.schemas.json_schema.values import JsonDecoder, JsonEncoder
from goqueue.schemas.protobuf.protobuf_format import ProtobufFormat
from goqueue.schemas.protobuf.values import MessageDecoder, MessageEncoder, to_json
from goqueue.schemas.values import ValueMismatch

JSON, PROTOBUF = JsonFormat(), ProtobufFormat()

FILE = """
syntax = "proto3"; package p;
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
message Order {
  int64 id = 1; Line line = 2; repeated Line lines = 3; map<string, Line> by_name = 4; map<int32, string> names = 5;
  Kind kind = 6; repeated Kind kinds = 7; google.protobuf.Timestamp at = 8; google.protobuf.Struct more = 9;
  bytes raw = 10;
  optional string note = 11; google.protobuf.Duration takes = 12; oneof paid { string card = 13; bool cash = 14; }
  double price = 15; map<string, Kind> kinds_by_name = 16; }
message Line { string sku = 1; Line inner = 2; }
enum Kind { NEW = 0; PAID = 1; }
"""
ORDER = PROTOBUF.parse(FILE).message_class("p.Order")
TO_DICT = messages.to_dict(ORDER)
text = st.text(max_size=3)
kinds = st.sampled_from(["NEW", "PAID"])
lines: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.builds(lambda sku: {"sku": sku}, text),
    lambda inner: st.builds(lambda sku, one: {"sku": sku, "inner": one}, text, inner),
    max_leaves=3,
)
orders = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "lines": st.lists(lines, max_size=2),
        "by_name": st.dictionaries(text, lines, max_size=2),
        "names": st.dictionaries(st.integers(-(2**31), 2**31 - 1), text, max_size=2),
        "kind": kinds | st.just(7),
        "kinds": st.lists(kinds, max_size=2),
        "raw": st.binary(max_size=3),
        "price": st.floats(allow_nan=False),
        "kinds_by_name": st.dictionaries(text, kinds, max_size=2),
    },
    optional={
        "line": lines,
        "at": st.datetimes(min_value=datetime(1, 1, 2), timezones=st.just(UTC)),  # noqa: DTZ001 - the zone follows
        "more": st.dictionaries(text, st.booleans() | text | st.none(), max_size=2),
        "note": text,
        "takes": st.timedeltas(timedelta(days=-1000), timedelta(days=1000)),
        "card": text,
    },
)


@given(orders)
def test_dicts_become_messages_and_dicts_again(order: dict[str, Any]) -> None:
    payload = MessageEncoder(ORDER).encode(order)
    assert MessageDecoder(ORDER, TO_DICT).decode(payload) == order
    as_json = MessageDecoder(ORDER, to_json).decode(payload)
    again = MessageEncoder(ORDER, is_json=True).encode(as_json)
    assert MessageDecoder(ORDER, TO_DICT).decode(again) == order


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        ({"id": "7"}, "/id", "'7' does not fit int64"),
        ({"id": 2**70}, "/id", "Value out of range"),
        ({"line": {"sku": 3}}, "/line/sku", "3 does not fit string"),
        ({"lines": [{}, {"inner": {"sky": "a"}}]}, "/lines/1/inner", "no field 'sky'; did you mean 'sku'?"),
        ({"by_name": {"a": {"sku": None}, "b": {"sku": 1.5}}}, "/by_name/b/sku", "1.5 does not fit string"),
        ({"names": {1: 2}}, "/names/1", "2 does not fit string"),
        ({"kinds": ["PAID", "LOST"]}, "/kinds/1", "'LOST' does not fit p.Kind: unknown enum label"),
        ({"lines": 3}, "/lines", "3 does not fit"),
        ({"nubmer": 1}, "", "the message p.Order has no field 'nubmer'; it has id, line"),
        ("text", "", "'text' is str, and must be a message p.Order"),
    ],
)
def test_mismatch_with_a_message_names_the_path(value: Any, path: str, reason: str) -> None:
    with pytest.raises(ValueMismatch) as refused:
        MessageEncoder(ORDER).encode(value)
    found = refused.value.problem
    assert found.path == path
    assert reason in found.reason


def test_messages_that_are_wrong_in_other_ways_are_refused() -> None:
    file = PROTOBUF.parse('syntax = "proto2"; message A { required int32 a = 1; optional A b = 2; }')
    kind = file.message_class("A")
    cases: list[tuple[Callable[[Any], Any], Any, str]] = [
        (MessageEncoder(kind).encode, {"a": 1, "b": {}}, "/b/a: the required field is missing"),
        (MessageEncoder(ORDER).encode, kind(a=1), "it is a message A, and must be p.Order"),
        (MessageEncoder(ORDER, is_json=True).encode, {"lines": [{"sku": 3}]}, "/lines/0/sku: 3 does not fit string"),
        (MessageEncoder(ORDER, is_json=True).encode, {"at": "x"}, "/at: 'x' does not fit google.protobuf.Timestamp"),
        (MessageEncoder(ORDER, is_json=True).encode, {"idd": 1}, "no field 'idd'; did you mean 'id'?"),
        (MessageDecoder(ORDER).decode, b"\xff", "not a message of p.Order"),
        (
            MessageDecoder(ORDER, TO_DICT).decode,
            ORDER(at={"seconds": 2**60}).SerializeToString(),
            "Timestamp is not valid",
        ),
    ]
    for encode, value, told in cases:
        with pytest.raises(ValueMismatch) as refused:
            encode(value)
        assert told in str(refused.value)


class Line(msgspec.Struct):
    sku: str
    next: "Line | None" = None


@dataclass
class Bill:
    id: int
    lines: list[Line]
    at: datetime
    note: str = ""


class Model(pydantic.BaseModel):
    id: int
    tags: list[str] = []


class OpenModel(pydantic.BaseModel):
    model_config = {"extra": "allow"}
    id: int


BILL = Bill(1, [Line("a", Line("b"))], datetime(2026, 1, 2, tzinfo=UTC))


@pytest.mark.parametrize(
    ("kind", "value", "title", "is_open"),
    [
        (Bill, BILL, "Bill", False),
        (Line, Line("a", Line("b")), "Line", False),
        (Model, Model(id=1, tags=["x"]), "Model", False),
        (OpenModel, OpenModel(id=1), "OpenModel", True),
    ],
)
def test_schemas_of_classes_accept_what_those_classes_encode(kind: Any, value: Any, title: str, is_open: bool) -> None:
    schema = JSON.parse(msgspec.json.encode(json_schema_of(kind)).decode())
    assert schema.names == (title,)
    validator = JSON.validator(schema)
    payload = JsonEncoder(validator).encode(value)
    assert JsonDecoder(validator, decode_json_as(kind)).decode(payload) == value
    assert convert_to(kind)(msgspec.json.decode(payload)) == value
    more = msgspec.json.encode(msgspec.json.decode(payload) | {"more": 1})
    assert (validator.problems(more) == []) is is_open


def test_mismatch_with_json_names_the_path() -> None:
    validator = JSON.validator(JSON.parse(msgspec.json.encode(json_schema_of(Bill)).decode()))
    for value, told in (
        ({"id": 1, "lines": [{"sku": 3}], "at": "2026-01-02T00:00:00Z"}, "/lines/0"),
        ({"id": "x", "lines": [], "at": None}, '/id: "x" is not of type "integer" (1 more)'),
        ({"id": object()}, "cannot be JSON"),
    ):
        with pytest.raises(ValueMismatch) as refused:
            JsonEncoder(validator).encode(value)
        assert told in str(refused.value)
    with pytest.raises(ValueMismatch, match="Expected `int`, got `str`"):
        JsonDecoder(None, decode_json_as(Bill)).decode(b'{"id":"x","lines":[],"at":"2026-01-02T00:00:00Z"}')
    with pytest.raises(RequestInvalid, match="no JSON Schema can be derived from"):
        json_schema_of(complex)
