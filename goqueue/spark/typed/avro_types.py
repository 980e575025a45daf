"""Types of Avro as types of Arrow."""

from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from goqueue.schemas.avro.types import AvroType
from goqueue.spark.typed.mapping import (
    LOCAL_TIMESTAMP,
    TEXT,
    TIMESTAMP,
    TypeMapping,
    list_mapping,
    map_mapping,
    struct_mapping,
)

_DECIMAL_DIGITS_MAX = 38
_EXACT = Context(prec=10_000)
_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_WIDER = (("int", "long"), ("float", "double"))
_LOGICAL = {
    "date": pa.date32(),
    "uuid": pa.string(),
    **{f"timestamp-{unit}": TIMESTAMP for unit in ("millis", "micros", "nanos")},
    **{f"local-timestamp-{unit}": LOCAL_TIMESTAMP for unit in ("millis", "micros", "nanos")},
}


def avro_mapping(one: AvroType, outer: frozenset[int] = frozenset()) -> TypeMapping:
    """Return the mapping of a type; `outer` has the records that it is inside."""
    if one.logical in _LOGICAL:
        return TypeMapping(_LOGICAL[one.logical])
    if one.logical == "decimal" and one.decimal is not None and one.decimal[0] <= _DECIMAL_DIGITS_MAX:
        return TypeMapping(pa.decimal128(*one.decimal))
    if one.kind in _PLAIN:
        return TypeMapping(_PLAIN[one.kind])
    if one.kind == "null" or id(one) in outer:
        return TEXT
    return _nested(one, outer)


def _nested(one: AvroType, outer: frozenset[int]) -> TypeMapping:
    match one.kind:
        case "array":
            return list_mapping(avro_mapping(one.inner[0], outer))
        case "map":
            return map_mapping(avro_mapping(one.inner[0], outer))
        case "union":
            return _union(one, outer)
    inner = outer | {id(one)}
    return struct_mapping([(field.name, avro_mapping(field.type, inner)) for field in one.fields])


def _union(one: AvroType, outer: frozenset[int]) -> TypeMapping:
    branches = [branch for branch in one.inner if branch.kind != "null"]
    kinds = {branch.kind for branch in branches if branch.logical is None}
    for narrow, wide in _WIDER:
        if kinds == {narrow, wide} and len(branches) == len(kinds):
            return TypeMapping(_PLAIN[wide])
    return avro_mapping(branches[0], outer) if len(branches) == 1 else TEXT


def _scaled(value: bytes, one: AvroType) -> Any:
    if one.decimal is None or one.decimal[0] > _DECIMAL_DIGITS_MAX:
        return value
    return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-one.decimal[1], _EXACT)


def _uuid(value: Any, one: AvroType) -> str:
    return str(UUID(value) if one.kind == "string" else UUID(bytes=value))


LOGICAL: Mapping[str, Callable[[Any, AvroType], Any]] = {
    "decimal": _scaled,
    "uuid": _uuid,
    **{f"{kind}-millis": lambda value, _: value * 1000 for kind in ("timestamp", "local-timestamp")},
    **{f"{kind}-nanos": lambda value, _: value // 1000 for kind in ("timestamp", "local-timestamp")},
}
"""Changes of decoded values into what Arrow takes: times are microseconds."""
