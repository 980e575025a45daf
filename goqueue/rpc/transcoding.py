"""Messages as the values of JSON that endpoints take, and the answers of endpoints as messages.

A field has its own name in JSON, but for those of the schema registry, which are as its clients know them. Durations
are seconds, times are RFC 3339. Unlike the JSON mapping of Protobuf, 64-bit integers are numbers, as over HTTP. What an
answer has and a message has not is left out, so that endpoints can grow.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from goqueue.api.message_json import to_bytes
from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_time, parse_time

INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
}
SETTINGS = {"settings", "config"}
"""Maps whose values are JSON: settings of topics have many types, and more are added."""

JSON_NAMES = {"schema_type": "schemaType", "due_from": "from", "due_to": "to"}


class _Field:
    """One field of a message, as JSON has it."""

    __slots__ = (
        "is_bytes",
        "is_integer",
        "is_map",
        "is_message",
        "is_repeated",
        "is_text",
        "json_name",
        "name",
        "type_name",
    )

    def __init__(self, field: FieldDescriptor) -> None:
        inner = field.message_type
        self.name = field.name
        self.json_name = JSON_NAMES.get(field.name, field.name)
        self.is_repeated = field.is_repeated
        self.is_map = inner is not None and inner.GetOptions().map_entry
        self.is_message = inner is not None
        self.type_name = "" if inner is None else inner.full_name
        self.is_bytes = field.type == FieldDescriptor.TYPE_BYTES
        self.is_integer = field.cpp_type in INTEGERS
        self.is_text = field.cpp_type == FieldDescriptor.CPPTYPE_STRING and field.type == FieldDescriptor.TYPE_STRING


@lru_cache(maxsize=1024)
def _fields(descriptor: Descriptor) -> dict[str, _Field]:
    return {field.name: _Field(field) for field in descriptor.fields}


def to_json(message: Message) -> dict[str, Any]:
    """Return the fields of a message that are set."""
    known = _fields(message.DESCRIPTOR)
    return dict(_pairs(message, known))


def _pairs(message: Message, known: dict[str, _Field]) -> Iterator[tuple[str, Any]]:
    for descriptor, value in message.ListFields():
        field = known[descriptor.name]
        if field.is_map:
            items = dict(value)
            if field.name in SETTINGS:
                yield from ((name, setting_value(text)) for name, text in items.items())
            else:
                yield field.json_name, items
        elif field.is_repeated:
            yield field.json_name, [_value(field, one) for one in value]
        else:
            yield field.json_name, _value(field, value)


def setting_value(text: str) -> Any:
    """Return the value of a setting: JSON, or else text."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _value(field: _Field, value: Any) -> Any:
    if not field.is_message:
        return value
    if isinstance(value, Duration):
        return seconds_of(value)
    if isinstance(value, Timestamp):
        return time_of(value)
    return to_json(value)


def seconds_of(duration: Duration) -> float:
    return duration.seconds + duration.nanos / NANOSECONDS


def nanoseconds_of(time: Timestamp) -> int:
    return time.seconds * NANOSECONDS + time.nanos


def time_of(time: Timestamp) -> str:
    return format_time(nanoseconds_of(time))


def timestamp(time_ns: int) -> Timestamp:
    seconds, nanos = divmod(time_ns, NANOSECONDS)
    return Timestamp(seconds=seconds, nanos=nanos)


def fill(message: Message, answer: Mapping[str, Any]) -> None:
    """Set the fields of a message to what an answer has."""
    for field in _fields(message.DESCRIPTOR).values():
        value = answer.get(field.json_name)
        if value is None:
            continue
        if field.is_map:
            _fill_map(message, field, value)
        elif field.is_repeated:
            _fill_list(getattr(message, field.name), field, value)
        elif field.is_message:
            _fill_message(getattr(message, field.name), field, value)
        elif field.is_bytes:
            encoding = answer.get("encoding" if field.name == "value" else f"{field.name}_encoding")
            setattr(message, field.name, to_bytes(value, encoding))
        else:
            setattr(message, field.name, _scalar(field, value))


def _scalar(field: _Field, value: Any) -> Any:
    if field.is_integer:
        return int(value)
    return msgspec.json.encode(value).decode() if field.is_text and not isinstance(value, str) else value


def _fill_map(message: Message, field: _Field, value: Mapping[str, Any]) -> None:
    target = getattr(message, field.name)
    for name, one in value.items():
        if field.name in SETTINGS or (field.name == "headers" and not isinstance(one, str)):
            target[name] = msgspec.json.encode(one).decode()
        elif isinstance(one, dict):
            fill(target[name], one)
        else:
            target[name] = one


def _fill_list(target: Any, field: _Field, values: Any) -> None:
    for value in values:
        if field.is_message:
            _fill_message(target.add(), field, value)
        else:
            target.append(_scalar(field, value))


def _fill_message(target: Any, field: _Field, value: Any) -> None:
    if field.type_name == Timestamp.DESCRIPTOR.full_name:
        target.CopyFrom(timestamp(parse_time(value)))
    elif field.type_name == Duration.DESCRIPTOR.full_name:
        target.FromNanoseconds(round(value * NANOSECONDS))
    else:
        fill(target, value)
