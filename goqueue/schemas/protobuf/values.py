"""Messages as values: made of dicts or of JSON, and turned into them.

Dicts have what constructors of messages take: bytes as bytes, enums by name, 64-bit numbers as numbers. JSON is the
mapping of Protobuf's specification. A field with presence that is not set is left out.
"""

from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.message_factory import GetMessageClass

from goqueue.nearest import nearest
from goqueue.schemas.protobuf.message_parser import SCALARS
from goqueue.schemas.values import ValueMismatch, shown, wrong_type

Convert = Callable[[Any], Any]
_TO_DICT = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")
_SCALAR_NAMES = {number: name for name, number in SCALARS.items()}
_REFUSALS = (TypeError, ValueError, OverflowError, ParseError)
"""What constructors and parsers raise for a value of another type, and for an unknown field."""


Make = Callable[[Any, dict[str, Any]], Message]
"""Makes a message of a class. Raises one of `_REFUSALS` for what does not fit."""


def _of_dict(kind: Any, value: dict[str, Any]) -> Message:
    made: Message = kind(**value)
    return made


def _of_json(kind: Any, value: dict[str, Any]) -> Message:
    made: Message = ParseDict(value, kind())
    return made


class MessageEncoder:
    """Encodes messages of a class, and dicts that become such messages."""

    def __init__(self, kind: Any, *, is_json: bool = False) -> None:
        self._kind = kind
        self._name: str = kind.DESCRIPTOR.full_name
        self._make: Make = _of_json if is_json else _of_dict

    def encode(self, value: Any) -> bytes:
        message = value if isinstance(value, Message) else self._made(value)
        if message.DESCRIPTOR.full_name != self._name:
            raise ValueMismatch(f"it is a message {message.DESCRIPTOR.full_name}, and must be {self._name}")
        try:
            encoded: bytes = message.SerializeToString()
        except (EncodeError, RecursionError) as error:
            for path in message.FindInitializationErrors():  # type: ignore[attr-defined] # the types do not have it
                raise ValueMismatch("the required field is missing", *reversed(path.split("."))) from None
            raise ValueMismatch(f"it cannot be encoded: {error}") from None
        return encoded

    def _made(self, value: Any) -> Message:
        if not isinstance(value, Mapping):
            raise wrong_type(value, f"a message {self._name}, or a dict with its fields")
        try:
            return self._make(self._kind, dict(value))
        except _REFUSALS as error:
            raise _Search(self._make).mismatch(self._kind, value, error) from None


class _Search:
    """Finds the value that does not fit, by making each part of a message alone."""

    def __init__(self, make: Make) -> None:
        self._make = make

    def mismatch(self, kind: Any, value: Mapping[str, Any], error: Exception) -> ValueMismatch:
        fields = {one.json_name: one for one in kind.DESCRIPTOR.fields} if self._make is _of_json else {}
        fields |= {one.name: one for one in kind.DESCRIPTOR.fields}
        for name, one in value.items():
            if name not in fields:
                return _unknown_field(kind, name)
            refusal = self._refusal(kind, name, one)
            if refusal is not None:
                return self._in_field(kind, fields[name], one, refusal, name)
        return ValueMismatch(str(error))

    def _refusal(self, kind: Any, name: str, value: Any) -> Exception | None:
        try:
            self._make(kind, {name: value})
        except _REFUSALS as error:
            return error
        return None

    def _in_field(self, kind: Any, field: Any, value: Any, refusal: Exception, name: str) -> ValueMismatch:
        inner = field.message_type.fields_by_name["value"] if is_map(field) else field
        for place, alone, one in _parts(field, value):
            part_refusal = self._refusal(kind, name, alone)
            if part_refusal is not None:
                mismatch = self._in_value(inner, one, part_refusal)
                mismatch.path += [place, name]
                return mismatch
        mismatch = _misfit(inner, value, refusal) if field.is_repeated else self._in_value(field, value, refusal)
        mismatch.path.append(name)
        return mismatch

    def _in_value(self, field: Any, value: Any, refusal: Exception) -> ValueMismatch:
        kind = field.message_type
        if kind is None or not isinstance(value, Mapping) or kind.full_name.startswith("google.protobuf."):
            return _misfit(field, value, refusal)
        return self.mismatch(GetMessageClass(kind), value, refusal)


def _parts(field: Any, value: Any) -> list[tuple[str, Any, Any]]:
    """Return the entries of a map or list: their places, each as a map or list of its own, and their values."""
    if is_map(field) and isinstance(value, Mapping):
        return [(str(key), {key: one}, one) for key, one in value.items()]
    if field.is_repeated and not is_map(field) and isinstance(value, (list, tuple)):
        return [(str(index), [one], one) for index, one in enumerate(value)]
    return []


def _misfit(field: Any, value: Any, refusal: Exception) -> ValueMismatch:
    named = field.message_type or field.enum_type
    kind = named.full_name if named is not None else _SCALAR_NAMES[field.type]
    reason = str(refusal).rstrip(".")
    while reason.startswith("Failed to parse "):
        reason = reason.partition(": ")[2]
    return ValueMismatch(f"{shown(value)} does not fit {kind}: {reason}")


def _unknown_field(kind: Any, name: Any) -> ValueMismatch:
    known = list(kind.DESCRIPTOR.fields_by_name)
    meant = nearest(str(name), known)
    guess = f"; did you mean {meant!r}?" if meant else f"; it has {', '.join(known[:10]) or 'none'}"
    return ValueMismatch(f"the message {kind.DESCRIPTOR.full_name} has no field {shown(name)}{guess}")


def is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


class MessageDecoder:
    """Decodes messages of a class, as they are or turned into something else."""

    def __init__(self, kind: Any, convert: Convert | None = None) -> None:
        self._parse: Callable[[bytes], Any] = kind.FromString
        self._name = kind.DESCRIPTOR.full_name
        self._convert = convert

    def decode(self, payload: bytes) -> Any:
        try:
            message = self._parse(payload)
            return message if self._convert is None else self._convert(message)
        except DecodeError as error:
            raise ValueMismatch(f"not a message of {self._name}: {error}") from None
        except (ValueError, OverflowError) as error:  # a time that the program's types cannot hold
            raise ValueMismatch(str(error)) from None


def to_json(message: Any) -> dict[str, Any]:
    """Return a message in the mapping of JSON, with the names of the file."""
    found: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return found


class DictMaker:
    """Turns messages into dicts. `well_known` has functions for messages that become other values, by full name."""

    def __init__(self, well_known: Mapping[str, Convert]) -> None:
        self._special: dict[str, Convert] = {**dict.fromkeys(_TO_DICT, MessageToDict), **well_known}
        self._made: dict[str, Convert] = {}

    def of(self, descriptor: Any) -> Convert:
        """Return the function for messages of a type."""
        name: str = descriptor.full_name
        if name in self._special:
            return self._special[name]
        if name not in self._made:
            self._made[name] = self._later(name)  # for a message inside itself
            self._made[name] = dict_reader(
                [(one.name, one.has_presence, self._field(one)) for one in descriptor.fields]
            )
        return self._made[name]

    def _later(self, name: str) -> Convert:
        def convert(message: Any) -> Any:
            return self._made[name](message)

        return convert

    def _field(self, field: Any) -> Convert | None:
        if is_map(field):
            value = self._item(field.message_type.fields_by_name["value"])
            return dict if value is None else lambda found: {key: value(one) for key, one in found.items()}
        item = self._item(field)
        if field.is_repeated:
            return list if item is None else lambda found: [item(one) for one in found]
        return item

    def _item(self, field: Any) -> Convert | None:
        if field.message_type is not None:
            return self.of(field.message_type)
        if field.enum_type is not None:
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return lambda number: names.get(number, number)
        return None


def dict_reader(fields: list[tuple[str, bool, Convert | None]]) -> Convert:
    """Return what makes a dict of a message: by field its name, whether it can be absent, and what converts it."""

    def to_dict(message: Any) -> dict[str, Any]:
        found = {}
        for name, has_presence, convert in fields:
            if not has_presence or message.HasField(name):
                value = getattr(message, name)
                found[name] = value if convert is None else convert(value)
        return found

    return to_dict
