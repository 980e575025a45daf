"""The library `fastavro` as a judge: of payloads, and of data that a compatible schema must read."""

import io
import json
from typing import Any

import fastavro
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from goqueue.errors import SchemaInvalid
from goqueue.schemas.avro.avro_format import AvroFormat

AVRO = AvroFormat()
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
DEFAULTS = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 1,
    "float": 1.0,
    "double": 1.0,
    "bytes": "a",
    "string": "a",
}


@st.composite
def types(draw: st.DrawFn, path: str = "t", depth: int = 2) -> Any:
    """A type whose names come from its place, so that two schemas often have the same."""
    kind = draw(
        st.sampled_from([*PRIMITIVES] if depth == 0 else [*PRIMITIVES, "record", "enum", "array", "map", "union"])
    )
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABC"), min_size=1, unique=True))
        return {"type": kind, "name": f"E_{path}", "symbols": symbols} | (
            {"default": symbols[0]} if draw(st.booleans()) else {}
        )
    if kind == "record":
        names = draw(st.lists(st.sampled_from("abc"), unique=True))
        fields = [draw(field(name, f"{path}_{name}", depth - 1)) for name in names]
        return {"type": kind, "name": f"R_{path}", "fields": fields}
    if kind in {"array", "map"}:
        return {"type": kind, "items" if kind == "array" else "values": draw(types(f"{path}_i", depth - 1))}
    if kind == "union":
        found = [draw(types(f"{path}_{index}", depth - 1)) for index in range(draw(st.integers(1, 3)))]
        kinds = [one["name"] if "name" in one else one["type"] if isinstance(one, dict) else one for one in found]
        assume(not any(isinstance(one, list) for one in found) and len(set(kinds)) == len(kinds))
        return found
    return kind


@st.composite
def field(draw: st.DrawFn, name: str, path: str, depth: int) -> Any:
    kind = draw(types(path, depth))
    found = {"name": name, "type": kind}
    if isinstance(kind, str) and draw(st.booleans()):
        found["default"] = DEFAULTS[kind]
    return found


@st.composite
def changed(draw: st.DrawFn, schema: Any) -> Any:
    """A copy in which one place differs."""
    text = json.dumps(schema)
    old = draw(st.sampled_from([*(f'"{name}"' for name in PRIMITIVES), '"A"', '"B", ', '"A", ']))
    new = draw(st.sampled_from([f'"{name}"' for name in PRIMITIVES])) if old.strip('"') in PRIMITIVES else ""
    made = json.loads(text.replace(old, new, 1)) if new or old.endswith(", ") else schema
    return draw(st.sampled_from([made, ["null", made] if made != "null" and not isinstance(made, list) else made]))


@st.composite
def values(draw: st.DrawFn, schema: Any) -> Any:
    """A value of a type, as fastavro takes it; a union's with the name of its branch where that matters."""
    if isinstance(schema, list):
        one = draw(st.sampled_from(schema))
        name = one["name"] if isinstance(one, dict) and "name" in one else one["type"] if isinstance(one, dict) else one
        return (name, draw(values(one)))
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return {one["name"]: draw(values(one["type"])) for one in schema["fields"]}
    if kind == "enum":
        return draw(st.sampled_from(schema["symbols"]))
    if kind == "array":
        return draw(st.lists(values(schema["items"]), max_size=2))
    if kind == "map":
        return draw(st.dictionaries(st.text(max_size=2), values(schema["values"]), max_size=2))
    return draw(PLAIN[kind])


PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "bytes": st.sampled_from([b"", b"ab"]),  # text, since others cannot be promoted
    "string": st.text(st.characters(codec="ascii"), max_size=3),
}


def written(schema: Any, value: Any) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), value)
    return target.getvalue()


@given(st.data())
def test_data_of_the_writer_is_read_with_a_compatible_schema(data: st.DataObject) -> None:
    writer = data.draw(types())
    reader = data.draw(changed(writer) | types())
    value = data.draw(values(writer))
    payload = written(writer, value)
    assert AVRO.validator(AVRO.parse(json.dumps(writer))).problems(payload) == []
    try:
        parsed_reader = AVRO.parse(json.dumps(reader))
    except SchemaInvalid:  # the change made a union with a type twice, or a default that does not fit
        reject()
    if not AVRO.incompatibilities(parsed_reader, AVRO.parse(json.dumps(writer))):
        parsed = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
        fastavro.schemaless_reader(io.BytesIO(payload), *parsed)


@given(st.data())
def test_payload_that_is_accepted_can_be_decoded(data: st.DataObject) -> None:
    schema = data.draw(types())
    good = written(schema, data.draw(values(schema)))
    payload = bytearray(good)
    for at in data.draw(st.lists(st.integers(0, max(0, len(good) - 1)), max_size=2)):
        payload[at : at + 1] = data.draw(st.binary(max_size=2))
    if not AVRO.validator(AVRO.parse(json.dumps(schema))).problems(bytes(payload)):
        source = io.BytesIO(payload)
        fastavro.schemaless_reader(source, fastavro.parse_schema(schema))
        assert source.read() == b""
