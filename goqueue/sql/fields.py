"""The fields of JSON objects and their types, inferred from a sample by the rules of Spark.

A type is the name of a DuckDB type, a list of one type for an array, or a dictionary of types for an object.
"""

import json
from collections.abc import Iterable
from typing import Any, TypeAlias

from goqueue.spark.queries.schemas import SHARE_LEAST

FieldType: TypeAlias = "str | list[FieldType] | dict[str, FieldType] | None"
"""None until a value other than null was seen."""

BOOLEAN, INTEGER, LARGE_INTEGER, NUMBER, TEXT = "BOOLEAN", "BIGINT", "DECIMAL(38,0)", "DOUBLE", "VARCHAR"
_NUMBERS = (INTEGER, LARGE_INTEGER, NUMBER)  # from narrow to wide
_INTEGER_END = 2**63
_LARGE_INTEGER_END = 10**38


def infer_fields(texts: Iterable[str]) -> dict[str, FieldType]:
    """Return the fields of these values, by name; none where less than nine of ten values are objects."""
    values = list(texts)
    objects = [text for text in values if text.lstrip()[:1] == "{"]
    if not objects or len(objects) < SHARE_LEAST * len(values):
        return {}
    merged: FieldType = None
    for text in objects:
        try:
            merged = _merged(merged, _type_of(json.loads(text)))
        except (ValueError, RecursionError):
            continue
    found = _finished(merged)
    return found if isinstance(found, dict) else {}


def _type_of(value: Any) -> FieldType:
    match value:
        case None:
            return None
        case bool():
            return BOOLEAN
        case int():
            if -_INTEGER_END <= value < _INTEGER_END:
                return INTEGER
            return LARGE_INTEGER if abs(value) < _LARGE_INTEGER_END else NUMBER
        case float():
            return NUMBER
        case list():
            element: FieldType = None
            for one in value:
                element = _merged(element, _type_of(one))
            return [element]
        case dict():
            return {name: _type_of(one) for name, one in value.items()}
    return TEXT


def _merged(one: FieldType, other: FieldType) -> FieldType:
    """Return the type of values of both types; text where nothing else has room for both."""
    if one is None or other is None or one == other:
        return other if one is None else one
    if isinstance(one, dict) and isinstance(other, dict):
        names = [*one, *(name for name in other if name not in one)]
        return {name: _merged(one.get(name), other.get(name)) for name in names}
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0])]
    if one in _NUMBERS and other in _NUMBERS:
        return max(one, other, key=_NUMBERS.index)
    return TEXT


def _finished(found: FieldType) -> FieldType:
    """Return a type with sorted fields, and text for what was always null. An object without fields is no column."""
    if found is None:
        return TEXT
    if isinstance(found, list):
        element = _finished(found[0])
        return None if element is None else [element]
    if isinstance(found, dict):
        finished = {name: _finished(found[name]) for name in sorted(found) if name}
        return {name: kind for name, kind in finished.items() if kind is not None} or None
    return found


def structure(kind: FieldType) -> Any:
    """Return a type as DuckDB's `json_transform` takes it.

    Names in a structure of DuckDB ignore case, so an object with names that differ in case only stays text.
    """
    if isinstance(kind, list):
        return [structure(kind[0])]
    if isinstance(kind, dict):
        if len({name.lower() for name in kind}) < len(kind):
            return TEXT
        return {name: structure(one) for name, one in kind.items()}
    return kind or TEXT


def column_sql(field: str, kind: FieldType) -> str:
    """Return the expression for a field of the column `_json`; null where it is absent or of another type."""
    wanted = json.dumps({field: structure(kind)}, ensure_ascii=False)
    return f"struct_extract(json_transform(_json, {literal(wanted)}), {literal(field)})"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
