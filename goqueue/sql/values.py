"""Rows of Arrow as rows of the command line: numbers, text, lists and dictionaries, as JSON has them."""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
Encode = Callable[[bytes], str]


def distinct_names(names: Sequence[str]) -> list[str]:
    """Number columns of the same name: `key`, `key_2`."""
    found: list[str] = []
    for name in names:
        column, number = name, 1
        while column in found:
            number += 1
            column = f"{name}_{number}"
        found.append(column)
    return found


def rows_of(batch: pa.RecordBatch, names: Sequence[str], encode: Encode) -> list[Row]:
    columns = [_values(column, encode) for column in batch.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.Array, encode: Encode) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    values: list[Any] = column.to_pylist()
    if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind):
        return values
    return [plain(value, encode) for value in values]


def plain(value: Any, encode: Encode) -> Any:
    """Return a value as JSON has it: times in UTC as text, whole decimals as integers."""
    match value:
        case None | bool() | int() | str():
            return value
        case bytes():
            return encode(value)
        case dict():
            return {name: plain(one, encode) for name, one in value.items()}
        case [(_, _), *_] if all(isinstance(one, tuple) for one in value):  # a map
            return {str(name): plain(one, encode) for name, one in value}
        case list():
            return [plain(one, encode) for one in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime():
            is_zoned = value.tzinfo is not None
            text = (value.astimezone(UTC).replace(tzinfo=None) if is_zoned else value).isoformat("T", "microseconds")
            return f"{text}Z" if is_zoned else text
        case date() | time():
            return value.isoformat()
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
    return str(value)
