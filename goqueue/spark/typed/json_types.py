"""Types of JSON Schema as types of Arrow, and as the types by which msgspec decodes."""

from collections.abc import Sequence
from typing import Any, TypedDict

import msgspec
import pyarrow as pa

from goqueue.schemas.json_schema.document import JsonDocument, Subschema
from goqueue.spark.typed.mapping import TypeMapping, list_mapping, map_mapping, struct_mapping


def _integer(value: float) -> int:
    """Return an integer: 3.0 is one in JSON Schema."""
    if isinstance(value, int):
        return value
    if not value.is_integer():
        raise ValueError(f"{value} is no integer")
    return int(value)


def _text(raw: msgspec.Raw) -> str | None:
    text = bytes(raw).decode()
    return None if text == "null" else text


_TEXT = TypeMapping(pa.string(), _text, msgspec.Raw)
_PLAIN = {
    "boolean": TypeMapping(pa.bool_(), None, bool, is_read_by_arrow=True),
    "integer": TypeMapping(pa.int64(), _integer, int | float, is_read_by_arrow=True),
    "number": TypeMapping(pa.float64(), None, float, is_read_by_arrow=True),
    "string": TypeMapping(pa.string(), None, str, is_read_by_arrow=True),
}
_CHOICES = ("anyOf", "oneOf")


def json_mapping(document: JsonDocument, part: Subschema, outer: frozenset[str] = frozenset()) -> TypeMapping:
    """Return the mapping of a schema; `outer` has the references that led to it."""
    value = part.value
    if not isinstance(value, dict):
        return _TEXT
    reference = value.get("$ref")
    if isinstance(reference, str):
        target = document.resolve(reference, part)
        place = "" if target is None else f"{target.address}{target.pointer}"
        return _TEXT if target is None or place in outer else json_mapping(document, target, outer | {place})
    for keyword in _CHOICES:
        if isinstance(value.get(keyword), list):
            return _choice(document, part, keyword, outer)
    kind = _kind(value)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "array" and isinstance(value.get("items"), dict):
        item = json_mapping(document, part.child("items"), outer)
        made = list_mapping(item)
        return made._replace(python=list[_or_null(item)], is_read_by_arrow=item.is_read_by_arrow)  # type: ignore[misc]
    return _object(document, part, outer) if kind == "object" else _TEXT


def _or_null(one: TypeMapping) -> Any:
    return one.python if one.python is msgspec.Raw else one.python | None


def _object(document: JsonDocument, part: Subschema, outer: frozenset[str]) -> TypeMapping:
    names = part.value.get("properties")
    if isinstance(names, dict) and names:
        return _struct([(name, json_mapping(document, part.child("properties", name), outer)) for name in names])
    if isinstance(part.value.get("additionalProperties"), dict):
        item = json_mapping(document, part.child("additionalProperties"), outer)
        return map_mapping(item)._replace(python=dict[str, _or_null(item)])  # type: ignore[misc]
    return _TEXT


def _struct(fields: Sequence[tuple[str, TypeMapping]]) -> TypeMapping:
    python: Any = TypedDict("Object", {name: _or_null(one) for name, one in fields}, total=False)  # type: ignore[misc]
    return struct_mapping(fields)._replace(
        python=python, is_read_by_arrow=all(one.is_read_by_arrow for _, one in fields)
    )


def _choice(document: JsonDocument, part: Subschema, keyword: str, outer: frozenset[str]) -> TypeMapping:
    """Return the mapping of the only choice besides null."""
    chosen = [part.child(keyword, index) for index, one in enumerate(part.value[keyword]) if one != {"type": "null"}]
    return json_mapping(document, chosen[0], outer) if len(chosen) == 1 and "type" not in part.value else _TEXT


def _kind(value: dict[str, Any]) -> str:
    """Return the only type besides null; nothing if there are several."""
    stated = value.get("type")
    kinds = [stated] if isinstance(stated, str) else list(stated) if isinstance(stated, list) else []
    if not kinds and "properties" in value:
        kinds = ["object"]
    if not kinds:
        known = value.get("enum", [value["const"]] if "const" in value else [])
        kinds = ["string"] if known and all(isinstance(one, str) for one in known) else []
    named = {one for one in kinds if one != "null"}
    if named == {"integer", "number"}:
        return "number"
    return named.pop() if len(named) == 1 else ""
