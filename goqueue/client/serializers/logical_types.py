"""Logical types of Avro as Python has them: dates, times, UUIDs and decimals.

`timestamp-nanos` and `duration` stay as they are encoded: Python has no types that hold them.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from functools import partial
from typing import Any
from uuid import UUID

from goqueue.schemas.avro.types import AvroType

Convert = Callable[[Any, AvroType], Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local timestamps have no zone
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)
_DAY = 24 * 60 * 60 * 1_000_000
_EXACT = Context(prec=10_000)
_UNITS = {"millis": 1_000, "micros": 1}
"""Microseconds."""


def _read_date(days: int, _: AvroType) -> date:
    return date.fromordinal(_EPOCH_DAY + days)


def _write_date(value: Any, _: AvroType) -> Any:
    return value.toordinal() - _EPOCH_DAY if type(value) is date else value


def _read_time(unit: int, count: int, _: AvroType) -> time:
    if not 0 <= count * unit < _DAY:
        raise ValueError("it is not within a day")
    return (_LOCAL_EPOCH + timedelta(microseconds=count * unit)).time()


def _write_time(unit: int, value: Any, _: AvroType) -> Any:
    if not isinstance(value, time):
        return value
    micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return micros // unit


def _read_timestamp(unit: int, epoch: datetime, count: int, _: AvroType) -> datetime:
    return epoch + timedelta(microseconds=count * unit)


def _write_timestamp(unit: int, epoch: datetime, value: Any, _: AvroType) -> Any:
    if not isinstance(value, datetime):
        return value
    if (value.tzinfo is None) is not (epoch.tzinfo is None):
        raise ValueError("it has no time zone" if value.tzinfo is None else "it has a time zone, a local one has none")
    return (value - epoch) // _MICROSECOND // unit


def _read_uuid(value: Any, one: AvroType) -> UUID:
    return UUID(value) if one.kind == "string" else UUID(bytes=value)


def _write_uuid(value: Any, one: AvroType) -> Any:
    if isinstance(value, str):
        value = UUID(value)
    if not isinstance(value, UUID):
        return value
    return str(value) if one.kind == "string" else value.bytes


def _read_decimal(value: bytes, one: AvroType) -> Decimal:
    assert one.decimal is not None, "the type was checked"
    return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-one.decimal[1], _EXACT)


def _write_decimal(value: Any, one: AvroType) -> Any:
    if not isinstance(value, (Decimal, int)) or isinstance(value, bool):
        return value
    assert one.decimal is not None, "the type was checked"
    precision, scale = one.decimal
    number = Decimal(value)
    if not number.is_finite():
        raise ValueError("it is not finite")
    scaled = number.scaleb(scale, _EXACT)
    if scaled.copy_abs() >= Decimal(10) ** precision:
        raise ValueError(f"it has more than {precision} digits with {scale} behind the point")
    unscaled = int(scaled)
    if unscaled != scaled:
        raise ValueError(f"it has more than {scale} digits behind the point")
    size = one.size if one.kind == "fixed" else unscaled.bit_length() // 8 + 1
    return unscaled.to_bytes(size, "big", signed=True)


def _of_text(parse: Callable[[str], Any], write: Convert, value: Any, one: AvroType) -> Any:
    return write(parse(value) if isinstance(value, str) else value, one)


def _decimal_of_json(value: Any, one: AvroType) -> Any:
    return _write_decimal(Decimal(str(value)) if isinstance(value, (str, float)) else value, one)


_TIMES = {f"time-{name}": unit for name, unit in _UNITS.items()}
_STAMPS = {
    f"{kind}-{name}": (unit, epoch)
    for kind, epoch in (("timestamp", _EPOCH), ("local-timestamp", _LOCAL_EPOCH))
    for name, unit in _UNITS.items()
}
READ: dict[str, Convert] = {
    "date": _read_date,
    "uuid": _read_uuid,
    "decimal": _read_decimal,
    **{name: partial(_read_time, unit) for name, unit in _TIMES.items()},
    **{name: partial(_read_timestamp, *parts) for name, parts in _STAMPS.items()},
}
WRITE: dict[str, Convert] = {
    "date": _write_date,
    "uuid": _write_uuid,
    "decimal": _write_decimal,
    **{name: partial(_write_time, unit) for name, unit in _TIMES.items()},
    **{name: partial(_write_timestamp, *parts) for name, parts in _STAMPS.items()},
}
WRITE_JSON: dict[str, Convert] = {
    "date": partial(_of_text, date.fromisoformat, _write_date),
    "uuid": _write_uuid,
    "decimal": _decimal_of_json,
    **{name: partial(_of_text, time.fromisoformat, WRITE[name]) for name in _TIMES},
    **{name: partial(_of_text, datetime.fromisoformat, WRITE[name]) for name in _STAMPS},
}
"""The same for values of JSON, which has text and numbers instead."""
