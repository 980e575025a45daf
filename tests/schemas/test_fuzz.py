"""Texts and payloads that make no sense: refused with the error for it, whatever they are."""

import json
import re

from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.errors import SchemaInvalid
from goqueue.schemas import limits
from goqueue.schemas.formats import schema_format
from goqueue.schemas.schema_format import ParsedSchema, SchemaKind
from tests.schemas.test_avro import ORDER as AVRO_ORDER
from tests.schemas.test_json_schema import ORDER as JSON_ORDER
from tests.schemas.test_protobuf import EVERYTHING as PROTO_FILE

JSON_WORDS = (
    "type", "properties", "items", "$ref", "#", "anyOf", "allOf", "not", "$id", "id", "$schema", "enum", "required",
    "definitions", "object", "array", "string", "http://json-schema.org/draft-04/schema#", "additionalProperties",
    "dependencies", "pattern", "$anchor", "name", "record", "fields", "int", "null", "symbols", "size", "values",
    "namespace", "default", "aliases", "logicalType", "decimal", "precision", "A", "",
)  # fmt: skip
PROTO_WORDS = (
    "syntax", "=", '"proto3"', '"proto2"', ";", "message", "A", "{", "}", "int32", "a", "1", "2", "optional",
    "repeated", "oneof", "map", "<", ">", ",", "enum", "E", "0", "reserved", "to", "max", "option", "(", ")", "[", "]",
    "default", "extend", "extensions", "group", "service", "rpc", "returns", "stream", "import", "package",
    ".", "-", "inf",
    "0x1F", "'\\x41'", "\\", "//", "/*", "json_name", "deprecated", "true", "string", "1.5e3", "9" * 23,
)  # fmt: skip
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(JSON_WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(JSON_WORDS), inner, max_size=4),
    max_leaves=12,
)
SEEDS = (json.dumps(AVRO_ORDER), json.dumps(JSON_ORDER), PROTO_FILE)


@st.composite
def changed(draw: st.DrawFn) -> str:
    """A valid text in which some words are others."""
    words = re.findall(r'\w+|\s+|"[^"]*"|.', draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(words) - 1))
        words[at : at + draw(st.integers(0, 2))] = [
            draw(st.sampled_from([*words, *map(json.dumps, JSON_WORDS), *PROTO_WORDS]))
        ]
    return "".join(words)


texts = changed() | values.map(json.dumps) | st.text() | st.lists(st.sampled_from(PROTO_WORDS)).map(" ".join)


@given(texts, st.binary(max_size=40))
@example("-0", b"")
@example('{"type":"array","items":"null"}', b"\x01\x80\x80")
@example('{"enum":[1e400]}', b"1")
@example('syntax = "proto3"; message A { int32 a = 1 [json_name = "\\377"]; }', b"\0")
@example('{"multipleOf":1e-320}', b"1e300")
def test_any_text_and_payload_is_answered_without_another_error(text: str, payload: bytes) -> None:
    for kind in SchemaKind:
        rules = schema_format(kind)
        try:
            schema: ParsedSchema = rules.parse(text)
        except SchemaInvalid:
            continue
        assert rules.parse(schema.text).text == schema.text
        assert rules.parse(schema.normalized_text).normalized_text == schema.normalized_text
        assert rules.incompatibilities(schema, schema) == []
        assert len(rules.validator(schema).problems(payload)) <= limits.PAYLOAD_PROBLEMS_MAX
        assert all(schema.names)
