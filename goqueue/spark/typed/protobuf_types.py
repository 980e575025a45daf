"""Messages of Protobuf as types of Arrow, and as the values that Arrow takes."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from goqueue.schemas.protobuf.message_parser import SCALARS
from goqueue.schemas.protobuf.values import dict_reader, is_map, to_json
from goqueue.spark.typed.mapping import TIMESTAMP, TypeMapping, json_text, map_mapping

_UNSIGNED_64 = pa.decimal128(20, 0)
_KINDS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), pa.int32()),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), pa.int64()),
    **dict.fromkeys(("uint64", "fixed64"), _UNSIGNED_64),
    "double": pa.float64(),
    "float": pa.float32(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_PLAIN = {SCALARS[name]: kind for name, kind in _KINDS.items()}
_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


def _text(message: Any) -> str:
    return json_text(to_json(message))


_TEXT = TypeMapping(pa.string(), _text)


def message_mapping(descriptor: Any, outer: frozenset[str] = frozenset()) -> TypeMapping:
    """Return the mapping of a message, which makes a dict of it; `outer` has the messages that it is inside."""
    name = descriptor.full_name
    if name == "google.protobuf.Timestamp":
        return TypeMapping(TIMESTAMP, lambda message: message.seconds * 1_000_000 + message.nanos // 1000)
    if name in _WRAPPERS:
        kind = _item(descriptor.fields_by_name["value"], outer)
        return TypeMapping(kind.type, lambda message: message.value)
    if name in outer or name.startswith("google.protobuf.") or not descriptor.fields:
        return _TEXT
    inner = outer | {name}
    fields = [(one, _field(one, inner)) for one in descriptor.fields]
    kind = pa.struct([pa.field(one.name, mapping.type) for one, mapping in fields])
    return TypeMapping(kind, dict_reader([(one.name, one.has_presence, mapping.convert) for one, mapping in fields]))


def _field(field: Any, outer: frozenset[str]) -> TypeMapping:
    if is_map(field):
        entry = field.message_type.fields_by_name
        value = _item(entry["value"], outer)
        made = map_mapping(value, _item(entry["key"], outer).type)
        change = made.convert
        assert change is not None, "maps become lists of pairs"
        return TypeMapping(made.type, lambda found: change(dict(found)))
    item = _item(field, outer)
    if not field.is_repeated:
        return item
    convert = item.convert
    made_list: Callable[[Any], Any] = list if convert is None else lambda found: [convert(one) for one in found]
    return TypeMapping(pa.list_(item.type), made_list)


def _item(field: Any, outer: frozenset[str]) -> TypeMapping:
    if field.message_type is not None:
        return message_mapping(field.message_type, outer)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return TypeMapping(pa.string(), lambda number: names.get(number, str(number)))
    return TypeMapping(_PLAIN[field.type])
