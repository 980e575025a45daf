"""Messages of Protobuf as dicts of Python: timestamps and durations are datetimes and timedeltas."""

from collections.abc import Callable
from datetime import UTC
from typing import Any

from goqueue.schemas.protobuf import values

_PYTHON = {
    "google.protobuf.Timestamp": lambda one: one.ToDatetime(tzinfo=UTC),
    "google.protobuf.Duration": lambda one: one.ToTimedelta(),
}


def to_dict(kind: Any) -> Callable[[Any], Any]:
    return values.DictMaker(_PYTHON).of(kind.DESCRIPTOR)


def to_json() -> Callable[[Any], Any]:
    return values.to_json
