"""The library `jsonschema` as a judge: of payloads, and of data that a compatible schema must read."""

import json
from typing import Any

import jsonschema
from hypothesis import given, reject
from hypothesis import strategies as st

from goqueue.errors import SchemaInvalid
from goqueue.schemas.json_schema.json_format import JsonFormat

JSON = JsonFormat()
NAMES = ("a", "b", "ab")
DRAFT_7, DRAFT_2020 = "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"
JUDGES = {DRAFT_7: jsonschema.Draft7Validator, DRAFT_2020: jsonschema.Draft202012Validator}

values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 4) | st.sampled_from([0.5, 1.0, 2.5, "", "a", "b", "ab", "abc"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "x"]), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(NAMES)
small = st.integers(0, 3)
TYPES = ("integer", "number", "string", "array", "object", "null", "boolean")
types = st.sampled_from(TYPES)


PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "type": types | st.lists(types, min_size=1, max_size=3, unique=True),
    "enum": st.lists(values, min_size=1, max_size=3, unique_by=json.dumps),
    "const": values,
    "minimum": small,
    "exclusiveMinimum": small,
    "maximum": small,
    "exclusiveMaximum": small,
    "multipleOf": st.sampled_from([1, 2, 0.5]),
    "minLength": small,
    "maxLength": small,
    "pattern": st.sampled_from(["a", "^a", "b$"]),
    "minItems": small,
    "maxItems": small,
    "uniqueItems": st.booleans(),
    "required": st.lists(names, max_size=2, unique=True),
    "minProperties": small,
    "maxProperties": small,
    "$ref": st.sampled_from(["#/definitions/one", "#/definitions/two"]),
}
NESTED = ("contains", "items", "additionalProperties", "propertyNames", "not", "if", "then", "else")
LISTS = ("allOf", "anyOf")
TABLES = {"properties": names, "patternProperties": st.sampled_from(["a", "^a", "b$"])}
KEYWORDS = st.sampled_from([*PLAIN, *NESTED, *LISTS, *TABLES])


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> Any:
    """A schema with few keywords, so that data often fits."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from([True, False, *({"type": name} for name in TYPES)]))
    return {name: draw_keyword(draw, name, depth - 1) for name in draw(st.lists(KEYWORDS, max_size=3, unique=True))}


def draw_keyword(draw: st.DrawFn, name: str, depth: int) -> Any:
    if name in PLAIN:
        return draw(PLAIN[name])
    if name in NESTED:
        return draw(schemas(depth))
    if name in LISTS:
        return [draw(schemas(depth)) for _ in range(draw(st.integers(1, 2)))]
    return {key: draw(schemas(depth)) for key in draw(st.lists(TABLES[name], max_size=2, unique=True))}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A document of either draft; both its definitions stand on values inside of others, so that nothing is endless."""
    draft = draw(st.sampled_from([DRAFT_7, DRAFT_2020]))
    one = {"type": "object", "properties": {"a": draw(schemas(1))}}
    two = {"type": "array", "items": draw(schemas(1))}
    if draft == DRAFT_2020 and draw(st.booleans()):
        two = {"type": "array", "prefixItems": [draw(schemas(1))], "items": draw(schemas(1))}
    elif draft == DRAFT_7 and draw(st.booleans()):
        two = {"type": "array", "items": [draw(schemas(1))], "additionalItems": draw(schemas(1))}
    body = draw(schemas())
    return {"$schema": draft, "definitions": {"one": one, "two": two}, **(body if isinstance(body, dict) else {})}


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two documents, of which the second is mostly a changed copy of the first."""
    first = draw(documents())
    if draw(st.integers(0, 9)) == 0:
        return first, draw(documents())
    second = json.loads(json.dumps(first))
    for _ in range(draw(st.integers(1, 2))):
        _change(draw, second)
    return first, second


def _change(draw: st.DrawFn, document: Any) -> None:
    """Remove a keyword or state one, at the top or in a definition."""
    place = draw(st.sampled_from([document, *document["definitions"].values()]))
    keywords: list[str] = [name for name in place if name not in {"$schema", "definitions"}]
    is_removed = draw(st.booleans())
    if keywords and is_removed:
        del place[draw(st.sampled_from(keywords))]
    else:
        name = draw(KEYWORDS.filter(lambda name: name != "$ref"))
        place[name] = draw_keyword(draw, name, 1)


@given(documents(), st.lists(values, min_size=5, max_size=10))
def test_validator_and_reference_library_agree(document: dict[str, Any], data: list[Any]) -> None:
    judge = JUDGES[document["$schema"]](document)
    validator = JSON.validator(JSON.parse(json.dumps(document)))
    for value in data:
        assert (validator.problems(json.dumps(value).encode()) == []) == judge.is_valid(value), value


@given(pairs(), st.lists(values, min_size=15, max_size=30))
def test_data_of_the_writer_is_valid_for_a_compatible_reader(pair: tuple[Any, Any], data: list[Any]) -> None:
    writer, reader = pair
    try:
        found = JSON.incompatibilities(JSON.parse(json.dumps(reader)), JSON.parse(json.dumps(writer)))
    except SchemaInvalid:  # the change made a reference lead back to itself
        reject()
    if not found:
        judge, accepted = JUDGES[reader["$schema"]](reader), JUDGES[writer["$schema"]](writer)
        assert [value for value in data if accepted.is_valid(value) and not judge.is_valid(value)] == []
