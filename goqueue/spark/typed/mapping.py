"""Arrow types of schemas, and how decoded values become values that Arrow takes.

What has no single type becomes its JSON text: unions of several types, recursive types, JSON without a type.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

Convert = Callable[[Any], Any]
"""Changes a value that is not None."""


class TypeMapping(NamedTuple):
    """A type, and what values need to have it; None: nothing."""

    type: pa.DataType
    convert: Convert | None = None
    python: Any = None
    """For JSON: the type by which it is decoded."""
    is_read_by_arrow: bool = False
    """For JSON: Arrow can make the column of the text."""


TIMESTAMP, LOCAL_TIMESTAMP = pa.timestamp("us", "UTC"), pa.timestamp("us")


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


TEXT = TypeMapping(pa.string(), json_text)


def struct_mapping(fields: Sequence[tuple[str, TypeMapping]]) -> TypeMapping:
    """Return the mapping of an object with these fields; without any it is JSON text, which Spark can store."""
    if not fields:
        return TEXT
    kind = pa.struct([pa.field(name, one.type) for name, one in fields])
    changed = {name: one.convert for name, one in fields if one.convert is not None}
    return TypeMapping(kind, _convert_fields(changed) if changed else None)


def _convert_fields(changed: Mapping[str, Convert]) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            return value  # of another type than its schema says: Arrow refuses it
        for name, change in changed.items():
            one = value.get(name)
            if one is not None:
                value[name] = change(one)
        return value

    return convert


def list_mapping(item: TypeMapping) -> TypeMapping:
    change = item.convert
    if change is None:
        return TypeMapping(pa.list_(item.type))

    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [None if one is None else change(one) for one in value]

    return TypeMapping(pa.list_(item.type), convert)


def map_mapping(item: TypeMapping, key: pa.DataType | None = None) -> TypeMapping:
    change = item.convert

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if change is None:
            return list(value.items())
        return [(name, None if one is None else change(one)) for name, one in value.items()]

    return TypeMapping(pa.map_(pa.string() if key is None else key, item.type), convert)


# --- columns of values ---


class ArrayWithReasons(NamedTuple):
    """A column, and for rows that could not be decoded why; these are null."""

    values: pa.Array
    reasons: dict[int, str]


def to_array(values: list[Any], kind: pa.DataType) -> ArrayWithReasons:
    """Make a column of values. Those that do not have the type become null, with the path and the reason."""
    try:
        return ArrayWithReasons(pa.array(values, kind), {})
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        reasons = {}
    for row, value in enumerate(values):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            reasons[row], values[row] = _explain(value, kind, str(error)), None
    return ArrayWithReasons(pa.array(values, kind), reasons)


def _explain(value: Any, kind: pa.DataType, reason: str, path: str = "") -> str:
    """Return the path and reason of the first part that does not have its type."""
    for name, one, inner in _parts(value, kind):
        try:
            pa.array([one], inner)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            return _explain(one, inner, str(error), f"{path}/{name}")
    return f"{path}: {reason}" if path else reason


def _parts(value: Any, kind: pa.DataType) -> list[tuple[str, Any, pa.DataType]]:
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return [(one.name, value.get(one.name), one.type) for one in kind]
    if pa.types.is_list(kind) and isinstance(value, list):
        return [(str(index), one, kind.value_type) for index, one in enumerate(value)]
    if pa.types.is_map(kind) and isinstance(value, list):
        return [(str(name), one, kind.item_type) for name, one in value]
    return []
