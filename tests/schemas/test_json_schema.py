"""JSON Schema: what is refused, what is equal, what payloads are told, what follows a version."""

import json
from typing import Any

import pytest

from goqueue.errors import SchemaInvalid
from goqueue.schemas import limits
from goqueue.schemas.formats import schema_format
from goqueue.schemas.json_schema.json_format import JsonFormat
from goqueue.schemas.schema_format import ParsedSchema, SchemaKind, SchemaReference

JSON = JsonFormat()
INTEGER, STRING = {"type": "integer"}, {"type": "string"}
ORDER = {
    "title": "Order",
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
    },
    "definitions": {
        "line": {
            "type": "object",
            "required": ["sku"],
            "properties": {"sku": STRING, "parts": {"$ref": "#/definitions/line"}},
        }
    },
}


def parsed(schema: Any, *references: SchemaReference) -> ParsedSchema:
    return JSON.parse(json.dumps(schema), references)


def reasons(reader: Any, writer: Any) -> list[str]:
    return [str(found) for found in JSON.incompatibilities(parsed(reader), parsed(writer))]


def nested(levels: int) -> Any:
    schema: Any = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    ("text", "path", "reason"),
    [
        ("{", "#", "not JSON"),
        ("[" * 100_000, "#", "levels deep"),
        ('{"a":1,"a":2}', "#", "the key 'a' is repeated"),
        ('{"minimum":NaN}', "#", "NaN is not a number"),
        ('{"minimum":1e999}', "#/minimum", "too large"),
        ('"text"', "#", "true or false, not str"),
        ('{"$schema":"http://json-schema.org/draft-03/schema#"}', "#/$schema", "is not a draft from 4"),
        ('{"properties":{"a":{"type":"text"}}}', "#/properties/a/type", "text"),
        ('{"properties":{"a":{"pattern":"(a"}}}', "#/properties/a/pattern", "regex"),
        ('{"items":{"$ref":"#/definitions/missing"}}', "#/items/$ref", "leads to no schema"),
        ('{"$ref":"http://127.0.0.1:1/order.json"}', "#/$ref", "never fetched"),
        ('{"$ref":"#"}', "#", "leads back to itself"),
        ('{"anyOf":[{"$ref":"#/definitions/a"}],"definitions":{"a":{"not":{"$ref":"#"}}}}', "#", "back to itself"),
        (json.dumps(nested(limits.SCHEMA_DEPTH_MAX + 1)), "#" + "/not" * (limits.SCHEMA_DEPTH_MAX + 1), "levels deep"),
        (json.dumps({"title": "x" * limits.SCHEMA_BYTES_MAX}), "#", "bytes, the limit is 1,048,576"),
        (json.dumps({"enum": list(range(limits.SCHEMA_NODES_MAX))}), "#", "more than 50,000"),
        ('{"title":"\\ud800"}', "#", "surrogate"),
    ],
)
def test_invalid_schema_is_refused_with_path_and_reason(text: str, path: str, reason: str) -> None:
    with pytest.raises(SchemaInvalid) as caught:
        JSON.parse(text)
    assert caught.value.details["path"] == path
    assert reason in caught.value.details["reason"]


def test_equal_schemas_have_equal_fingerprints_and_normalized_ones_ignore_the_order_of_keys() -> None:
    one = JSON.parse('{"type": "object",\n "title": "\\u0041\\u00e9"}')
    same = JSON.parse('{"type":"object","title":"Aé"}')
    turned = JSON.parse('{"title":"Aé","type":"object"}')
    assert one.text == '{"type":"object","title":"Aé"}'
    assert one.fingerprint == same.fingerprint != turned.fingerprint
    assert one.normalized_text == turned.normalized_text == '{"title":"Aé","type":"object"}'
    assert one.normalized_fingerprint == turned.normalized_fingerprint
    assert one.names == ("Aé",)


def test_references_are_found_by_name_by_identifier_and_through_other_references() -> None:
    sku = parsed({"$id": "http://shop.example/sku.json", "type": "string", "minLength": 3})
    line = parsed({"properties": {"sku": {"$ref": "http://shop.example/sku.json"}}}, SchemaReference("sku.json", sku))
    order = parsed(
        {"$id": "http://shop.example/orders/1.json", "items": {"$ref": "line.json"}}, SchemaReference("line.json", line)
    )
    validator = JSON.validator(order)
    assert validator.problems(b'[{"sku":"abc"}]') == []
    assert [problem.path for problem in validator.problems(b'[{"sku":"ab"}]')] == ["/0/sku"]
    looser = parsed({"$id": "http://shop.example/sku.json", "type": "string"})
    line2 = parsed(
        {"properties": {"sku": {"$ref": "http://shop.example/sku.json"}}}, SchemaReference("sku.json", looser)
    )
    order2 = parsed(
        {"$id": "http://shop.example/orders/1.json", "items": {"$ref": "line.json"}},
        SchemaReference("line.json", line2),
    )
    assert order.text == order2.text
    assert order.fingerprint != order2.fingerprint
    assert JSON.incompatibilities(order2, order) == []
    assert [found.path for found in JSON.incompatibilities(order, order2)] == ["#/items/properties/sku/minLength"]
    with pytest.raises(SchemaInvalid, match="two different schemas"):
        parsed(True, SchemaReference("sku.json", sku), SchemaReference("sku.json", looser))


def test_payload_problems_name_path_and_reason_and_are_bounded() -> None:
    validator = JSON.validator(parsed(ORDER))
    assert validator.problems(b'{"id":1,"lines":[{"sku":"a","parts":{"sku":"b"}}]}') == []
    assert [str(problem.path) for problem in validator.problems(b'{"id":0,"lines":[{"sku":"a","parts":{}}]}')] == [
        "/id",
        "/lines/0/parts",
    ]
    assert "required" in validator.problems(b"{}")[0].reason
    many = json.dumps({"id": 1, "lines": [{"sku": "x" * 5_000 and 1}] * 1_000}).encode()
    problems = validator.problems(many)
    assert len(problems) == limits.PAYLOAD_PROBLEMS_MAX
    assert all(len(problem.reason) < 400 for problem in problems)
    for broken in (b"", b"{", b"\xff", b"[" * 1_000_000, b'{"id":1}x'):
        assert validator.problems(broken)[0].path == ""


def test_payload_with_very_many_problems_is_refused_without_listing_them() -> None:
    validator = JSON.validator(parsed({"anyOf": [{"items": INTEGER}, {"items": {"type": "boolean"}}]}))
    for count in (10, 1_000, 100_000):
        assert 1 <= len(validator.problems(json.dumps(["x"] * count).encode())) <= limits.PAYLOAD_PROBLEMS_MAX


def test_alternatives_that_multiply_by_references_are_refused() -> None:
    definitions: Any = {f"d{level}": {"anyOf": [{"$ref": f"#/definitions/d{level + 1}"}] * 2} for level in range(30)}
    with pytest.raises(SchemaInvalid, match="schemas apply to one value"):
        parsed({"$ref": "#/definitions/d0", "definitions": {**definitions, "d30": INTEGER}})


def test_pattern_that_backtracks_without_end_is_stopped() -> None:
    validator = JSON.validator(parsed({"pattern": "^(?=a)(a|aa)+(?<!b)$"}))
    assert validator.problems(json.dumps("a" * 60 + "!").encode()) != []


CLOSED = {"type": "object", "additionalProperties": False}
COMPATIBLE = {
    "integers are numbers": ({"type": "number"}, INTEGER),
    "a type is added": ({"type": ["string", "null"]}, STRING),
    "an enumeration grows": ({"enum": ["a", "b"]}, {"enum": ["a"]}),
    "listed values fit a type": ({"type": "string", "maxLength": 2}, {"enum": ["a", "bc"]}),
    "a constant becomes listed": ({"enum": [1, 2]}, {"const": 1}),
    "limits become looser": ({"minimum": 0, "maxLength": 5}, {"minimum": 1, "maxLength": 4}),
    "an integer above an exclusive limit": (
        {"type": "integer", "minimum": 1},
        {"type": "integer", "exclusiveMinimum": 0},
    ),
    "multiples of a divisor": ({"multipleOf": 0.1}, {"multipleOf": 0.3}),
    "an optional property is added to a closed model": ({**CLOSED, "properties": {"a": INTEGER}}, CLOSED),
    "a property without conditions is added to an open model": ({"properties": {"a": {}}}, {"type": "object"}),
    "a property is removed from an open model": ({"type": "object"}, {"type": "object", "properties": {"a": INTEGER}}),
    "an added property is covered by a pattern": (
        {
            "properties": {"n_1": {"type": "number"}},
            "patternProperties": {"^n_": INTEGER},
            "additionalProperties": False,
        },
        {"type": "object", "patternProperties": {"^n_": INTEGER}, "additionalProperties": False},
    ),
    "a removed property is covered": (
        {"additionalProperties": {"type": "number"}},
        {**CLOSED, "properties": {"a": INTEGER}},
    ),
    "a closed model opens": ({"type": "object"}, CLOSED),
    "a required property has a default": ({"required": ["a"], "properties": {"a": {"default": 1}}}, {"type": "object"}),
    "an item is added to a closed tuple": (
        {"type": "array", "items": [INTEGER, STRING], "additionalItems": False},
        {"type": "array", "items": [INTEGER], "additionalItems": False},
    ),
    "items beyond the longest array do not count": (
        {"items": [INTEGER, STRING]},
        {"type": "array", "items": [INTEGER], "maxItems": 1},
    ),
    "a branch is added": ({"anyOf": [INTEGER, STRING, {"type": "null"}]}, {"anyOf": [STRING, INTEGER]}),
    "a type becomes a choice": ({"oneOf": [STRING, INTEGER]}, STRING),
    "several types become a choice": ({"oneOf": [{"type": "null"}, INTEGER]}, {"type": ["integer", "null"]}),
    "a conjunct is removed": ({"allOf": [{"minimum": 0}]}, {"allOf": [{"minimum": 1}, {"maximum": 5}]}),
    "what is refused becomes less": ({"not": {"type": "integer", "minimum": 5}}, {"not": INTEGER}),
    "a definition moves": (
        {"$ref": "#/definitions/b", "definitions": {"b": INTEGER}},
        {"items": {}, "allOf": [INTEGER]},
    ),
    "then and else both fit": (
        {"type": "object", "required": ["a"]},
        {"type": "object", "if": {"required": ["b"]}, "then": {"required": ["a"]}, "else": {"required": ["a", "c"]}},
    ),
    "a dependency follows from what is required": (
        {"dependencies": {"a": ["b"]}},
        {"type": "object", "required": ["b"]},
    ),
    "a recursive schema gains a property in a closed model": (
        {**CLOSED, "properties": {"next": {"$ref": "#"}, "note": STRING}},
        {**CLOSED, "properties": {"next": {"$ref": "#"}}},
    ),
    "annotations change": ({"title": "b", "format": "date", "default": 1, **STRING}, {"title": "a", **STRING}),
    "contained items": ({"contains": {"type": "number"}}, {"type": "array", "contains": INTEGER}),
    "names of properties": ({"propertyNames": {"maxLength": 3}}, {"propertyNames": {"maxLength": 2}}),
}


def test_looser_schema_reads_data_of_the_stricter_one() -> None:
    assert {name: found for name, (reader, writer) in COMPATIBLE.items() if (found := reasons(reader, writer))} == {}


INCOMPATIBLE = [
    (STRING, INTEGER, "#/type: the reader does not accept the type integer"),
    (INTEGER, {"type": "number"}, "#/type: the reader does not accept the type number"),
    ({"enum": ["a"]}, {"enum": ["a", "b"]}, "#/enum: the reader does not accept 'b'"),
    ({"enum": ["a"]}, STRING, "#/enum: the reader accepts listed values only"),
    ({"const": 1}, {"const": True}, "#/const: the reader does not accept True"),
    ({"minimum": 2}, {"type": "number", "minimum": 1}, "#/minimum: the reader's limit is 2, the writer's is 1"),
    ({"exclusiveMaximum": 2}, {"type": "number", "maximum": 2}, "#/maximum: the reader's limit is 2 exclusive"),
    ({"multipleOf": 3}, {"type": "integer"}, "#/multipleOf: "),
    ({"pattern": "^a"}, {"pattern": "^b"}, "#/pattern: "),
    ({"properties": {"a": INTEGER}}, {"type": "object"}, "#/properties/a: the writer has an open"),
    ({**CLOSED, "properties": {"a": INTEGER}, "required": ["a"]}, CLOSED, "#/required/a: the reader requires"),
    (CLOSED, {**CLOSED, "properties": {"a": INTEGER}}, "#/additionalProperties: the writer has the property 'a'"),
    (CLOSED, {"type": "object"}, "#/additionalProperties: the reader refuses other properties"),
    (
        {"properties": {"a": {"properties": {"b": STRING}}}},
        {"type": "object", "properties": {"a": {"properties": {"b": INTEGER}}}},
        "#/properties/a/properties/b/type: ",
    ),
    ({"items": STRING}, {"type": "array", "items": INTEGER}, "#/items/type: "),
    ({"items": [INTEGER, STRING]}, {"items": [INTEGER]}, "#/items/1/type: "),
    ({"uniqueItems": True}, {"type": "array"}, "#/uniqueItems: "),
    ({"anyOf": [INTEGER, {"type": "null"}]}, {"anyOf": [INTEGER, STRING]}, "#/anyOf: no branch accepts all"),
    ({"allOf": [INTEGER, {"minimum": 1}]}, {"allOf": [INTEGER]}, "#/minimum: "),
    ({"not": INTEGER}, {"not": STRING}, "#/not: "),
    ({"dependencies": {"a": ["b"]}}, {"type": "object"}, "#/dependencies/a: with 'a' the reader requires 'b'"),
    ({"minProperties": 2}, {"required": ["a"]}, "#/minProperties: the reader's limit is 2, the writer's is 1"),
    (False, INTEGER, "#: the reader accepts no value"),
    (
        {**CLOSED, "properties": {"next": {"$ref": "#"}}},
        {**CLOSED, "properties": {"next": {"$ref": "#"}, "note": STRING}},
        "#/additionalProperties: the writer has the property 'note'",
    ),
]


def test_stricter_schema_is_incompatible_with_path_and_reason() -> None:
    found = [(reasons(reader, writer), expected) for reader, writer, expected in INCOMPATIBLE]
    assert [(told, expected) for told, expected in found if not any(one.startswith(expected) for one in told)] == []


def test_comparison_of_nested_alternatives_ends_within_the_limits() -> None:
    def tree(levels: int, last: int) -> Any:
        if not levels:
            return {"const": last}
        return {
            "anyOf": [{"properties": {"a": tree(levels - 1, last)}}, {"properties": {"b": tree(levels - 1, last + 1)}}]
        }

    assert reasons(tree(7, 0), tree(7, 1)) != []


def test_long_chains_of_definitions_and_many_kinds_of_events_are_compared() -> None:
    def chain(length: int, least: int) -> Any:
        def choice(index: int) -> Any:
            return {"anyOf": [{"$ref": f"#/definitions/d{index % length}"}, {"type": "null"}]}

        definitions = {
            f"d{index}": {"properties": {"a": choice(3 * index + 1), "b": choice(index + 1)}, "minProperties": least}
            for index in range(length)
        }
        return {"definitions": definitions, "$ref": "#/definitions/d0"}

    def events(count: int, longest: int) -> Any:
        return {
            "oneOf": [
                {
                    "type": "object",
                    "required": ["kind"],
                    "properties": {"kind": {"const": f"e{number}"}, **{f"p{part}": text(longest) for part in range(8)}},
                    "additionalProperties": False,
                }
                for number in range(count)
            ]
        }

    def text(longest: int) -> Any:
        return {"type": "string", "maxLength": longest}

    assert reasons(chain(100, 0), chain(100, 1)) == []
    assert reasons(chain(100, 1), chain(100, 0)) != []
    assert reasons(events(50, 6), events(50, 5)) == []
    assert reasons(events(49, 5), events(50, 5)) == [
        "#/oneOf: no branch accepts all that the writer allows: branch 49 of the writer has no counterpart"
    ]


def test_format_is_found_by_kind() -> None:
    assert schema_format(SchemaKind.JSON).parse("true").kind is SchemaKind.JSON
