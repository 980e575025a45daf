"""Encoding of Avro: a schema compiled into functions that append values to a payload and refuse what is no value.

They are strict where libraries are lenient: an int has 32 bits, a boolean is no number, a number with a fraction is no
long, and a record has no fields that its schema does not know.
"""

import struct
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from goqueue.nearest import nearest
from goqueue.schemas.avro.types import NO_DEFAULT, AvroField, AvroType, is_default
from goqueue.schemas.values import ValueMismatch, fields_of, shown, wrong_type

Write = Callable[[bytearray, Any], None]
Convert = Callable[[Any, AvroType], Any]
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")
_LATER_IN_UNIONS = {"double": 1, "float": 2}
"""A number is of the first branch that fits: whole ones before others, long ones before short ones."""


class WriteRules(NamedTuple):
    """The conversions of values before they are encoded."""

    logical: Mapping[str, Convert] = {}
    """By logical type: returns the value that is encoded. It raises ValueError for what it cannot convert."""
    is_json: bool = False
    """The values come from JSON, so bytes are base64."""


class AvroEncoder:
    """Encodes values in Avro's binary encoding."""

    def __init__(self, root: AvroType, rules: WriteRules = WriteRules()) -> None:  # noqa: B008 - it cannot change
        self._write = _Compiler(rules).write(root)

    def encode(self, value: Any) -> bytes:
        out = bytearray()
        try:
            self._write(out, value)
        except RecursionError:
            raise ValueMismatch("values are nested too deep") from None
        return bytes(out)


class _Compiler:
    def __init__(self, rules: WriteRules) -> None:
        self._rules = rules
        self._named: dict[int, Write] = {}
        self._open: set[int] = set()

    def write(self, one: AvroType) -> Write:
        plain = self._plain(one)
        convert = self._rules.logical.get(one.logical or "")
        return plain if convert is None else _converted(one, convert, plain)

    def _plain(self, one: AvroType) -> Write:
        if one.kind in _SIMPLE:
            return _SIMPLE[one.kind]
        match one.kind:
            case "bytes" | "fixed":
                return _bytes(one, is_json=self._rules.is_json)
            case "enum":
                return _enum(one)
            case "array":
                return _array(self.write(one.inner[0]))
            case "map":
                return _map(self.write(one.inner[0]))
            case "union":
                return _union(one.inner, [self.write(branch) for branch in one.inner])
        return self._record(one)

    def _record(self, one: AvroType) -> Write:
        key, named = id(one), self._named
        if key in self._open:  # a type inside itself: its function is found when it is called
            return _later(named, key)
        if key not in named:
            self._open.add(key)
            steps = [(each.name, self.write(each.type), encoded_default(each)) for each in one.fields]
            named[key] = _record(one, steps)
            self._open.discard(key)
        return named[key]


def _later(named: dict[int, Write], key: int) -> Write:
    def write(out: bytearray, value: Any) -> None:
        named[key](out, value)

    return write


def encoded_default(field: AvroField) -> bytes | None:
    """Return the default of a field as a reader would find it; None if it has none."""
    if field.default is NO_DEFAULT:
        return None
    return AvroEncoder(field.type).encode(_plain_default(field.type, field.default))


def _plain_default(kind: AvroType, value: Any) -> Any:
    """Return a default, which is JSON, as a value. That of a union names its branch."""
    match kind.kind:
        case "bytes" | "fixed":
            return value.encode("latin-1")
        case "array":
            return [_plain_default(kind.inner[0], one) for one in value]
        case "map":
            return {name: _plain_default(kind.inner[0], one) for name, one in value.items()}
        case "record" | "error":
            types = {one.name: one.type for one in kind.fields}
            return {name: _plain_default(types[name], one) for name, one in value.items() if name in types}
        case "union":
            branch = next(one for one in kind.inner if is_default(one, value))
            return (branch.title, _plain_default(branch, value))
    return value


def _converted(one: AvroType, convert: Convert, write: Write) -> Write:
    def converted(out: bytearray, value: Any) -> None:
        try:
            raw = convert(value, one)
        except (ValueError, ArithmeticError) as error:
            raise ValueMismatch(f"{shown(value)} is no {one.logical}: {error}") from None
        write(out, raw)

    return converted


def _record(one: AvroType, steps: Sequence[tuple[str, Write, bytes | None]]) -> Write:
    known = {name for name, _, _ in steps}

    def record(out: bytearray, value: Any) -> None:
        fields = value if type(value) is dict else fields_of(value)
        if fields is None:
            raise wrong_type(value, f"a record {one.name}, such as a dict")
        count, name = 0, ""
        try:
            for name, write, default in steps:
                if name in fields:
                    write(out, fields[name])
                    count += 1
                elif default is not None:
                    out += default
                else:
                    break
            else:
                name = ""
        except ValueMismatch as mismatch:
            mismatch.path.append(name)
            raise
        if count < len(fields) and not fields.keys() <= known:
            raise _unknown_field(one, fields)
        if name:
            raise ValueMismatch("the field is missing, and has no default", name)

    return record


def _unknown_field(one: AvroType, fields: Mapping[str, Any]) -> ValueMismatch:
    known = [each.name for each in one.fields]
    name = next(str(name) for name in fields if name not in known)
    meant = nearest(name, known)
    guess = f"; did you mean {meant!r}?" if meant else f"; it has {', '.join(known[:10]) or 'none'}"
    return ValueMismatch(f"the record {one.name} has no field {shown(name)}{guess}")


def _null(_: bytearray, value: Any) -> None:
    if value is not None:
        raise wrong_type(value, "None")


def _boolean(out: bytearray, value: Any) -> None:
    if value is True:
        out.append(1)
    elif value is False:
        out.append(0)
    else:
        raise wrong_type(value, "True or False")


def _append_number(out: bytearray, value: int) -> None:
    number = (value << 1) ^ (value >> 63)
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def _int(out: bytearray, value: Any) -> None:
    if (type(value) is not int and not _is_whole(value)) or not -0x80000000 <= value <= 0x7FFFFFFF:
        raise wrong_type(value, "an int: a whole number of 32 bits")
    _append_number(out, value)


def _long(out: bytearray, value: Any) -> None:
    if (type(value) is not int and not _is_whole(value)) or not -(1 << 63) <= value < 1 << 63:
        raise wrong_type(value, "a long: a whole number of 64 bits")
    _append_number(out, value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _double(out: bytearray, value: Any) -> None:
    if type(value) is not float and not _is_whole(value):
        raise wrong_type(value, "a double: a number")
    try:
        out += _DOUBLE.pack(value)
    except OverflowError:
        raise wrong_type(value, "a double, which is smaller") from None


def _float(out: bytearray, value: Any) -> None:
    if type(value) is not float and not _is_whole(value):
        raise wrong_type(value, "a float: a number")
    try:
        out += _FLOAT.pack(value)
    except OverflowError:
        raise wrong_type(value, "a float, which has 32 bits") from None


def _string(out: bytearray, value: Any) -> None:
    if not isinstance(value, str):
        raise wrong_type(value, "a string")
    try:
        text = value.encode()
    except UnicodeEncodeError:
        raise wrong_type(value, "text without halves of surrogate pairs") from None
    if len(text) < 64:
        out.append(len(text) << 1)
    else:
        _append_number(out, len(text))
    out += text


def _bytes(one: AvroType, *, is_json: bool) -> Write:
    wanted = "bytes" if one.kind == "bytes" else f"{one.size:,} bytes of {one.name}"

    def write(out: bytearray, value: Any) -> None:
        if is_json and isinstance(value, str):
            try:
                value = b64decode(value, validate=True)
            except ValueError:
                raise wrong_type(value, f"{wanted} as base64") from None
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise wrong_type(value, wanted)
        if one.kind == "bytes":
            _append_number(out, len(value))
        elif len(value) != one.size:
            raise ValueMismatch(f"{shown(value)} has {len(value):,} bytes, and must be {wanted}")
        out += value

    return write


def _enum(one: AvroType) -> Write:
    places = {symbol: index for index, symbol in enumerate(one.symbols)}

    def enum(out: bytearray, value: Any) -> None:
        symbol = value.value if isinstance(value, Enum) else value
        index = places.get(symbol) if isinstance(symbol, str) else None
        if index is None:
            raise wrong_type(value, f"one of {', '.join(one.symbols[:10])}{', …' if len(one.symbols) > 10 else ''}")
        _append_number(out, index)

    return enum


def _array(write: Write) -> Write:
    def array(out: bytearray, value: Any) -> None:
        if not isinstance(value, (list, tuple)):
            raise wrong_type(value, "a list")
        if value:
            _append_number(out, len(value))
            index = 0
            try:
                for item in value:
                    write(out, item)
                    index += 1
            except ValueMismatch as mismatch:
                mismatch.path.append(str(index))
                raise
        out.append(0)

    return array


def _map(write: Write) -> Write:
    def map_(out: bytearray, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise wrong_type(value, "a dict")
        if value:
            _append_number(out, len(value))
            for name, item in value.items():
                _string(out, name)
                try:
                    write(out, item)
                except ValueMismatch as mismatch:
                    mismatch.path.append(name)
                    raise
        out.append(0)

    return map_


def _union(branches: Sequence[AvroType], writes: Sequence[Write]) -> Write:
    order = sorted(range(len(branches)), key=lambda index: _LATER_IN_UNIONS.get(branches[index].kind, 0))
    null = next((index for index, branch in enumerate(branches) if branch.kind == "null"), None)
    others = [index for index in order if index != null]
    titles = {branch.title: index for index, branch in enumerate(branches)}

    def union(out: bytearray, value: Any) -> None:
        if value is None and null is not None:
            _append_number(out, null)
        elif type(value) is tuple and len(value) == 2 and value[0] in titles:
            _append_number(out, titles[value[0]])
            writes[titles[value[0]]](out, value[1])
        elif len(others) == 1 and value is not None:
            _append_number(out, others[0])
            writes[others[0]](out, value)
        else:
            _first_fitting(out, value)

    def _first_fitting(out: bytearray, value: Any) -> None:
        start = len(out)
        deepest: ValueMismatch | None = None
        for index in others:
            try:
                _append_number(out, index)
                writes[index](out, value)
                return
            except ValueMismatch as mismatch:
                del out[start:]
                if len(mismatch.path) > len(deepest.path if deepest is not None else ()):
                    deepest = mismatch  # the branch that was meant, most likely
        if deepest is not None:
            raise deepest
        raise wrong_type(value, f"one of {', '.join(branch.title for branch in branches)}")

    return union


_SIMPLE: dict[str, Write] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float,
    "double": _double,
    "string": _string,
}
