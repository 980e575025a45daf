"""Decoding of Avro, also with a reader's schema that differs from the writer's, by the rules of the specification.

A payload is checked as a whole first (`payloads`), so that what reads it afterwards needs no checks of its own. A pair
of schemas is resolved once, when it is compiled; what cannot be resolved is an error of the values that need it.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any

from goqueue.schemas.avro.encoding import encoded_default
from goqueue.schemas.avro.payloads import AvroValidator
from goqueue.schemas.avro.resolution import PROMOTIONS, Resolution, names_match
from goqueue.schemas.avro.types import NO_DEFAULT, AvroField, AvroType
from goqueue.schemas.values import ValueMismatch

Read = Callable[[bytes, int], tuple[Any, int]]
Convert = Callable[[Any, AvroType], Any]
_DOUBLE, _FLOAT = struct.Struct("<d").unpack_from, struct.Struct("<f").unpack_from
INLINE_FIELDS_MAX = 1_000
"""Fields of a decoder that are lines of code: Python needs 0.1 ms for each, once."""


class AvroDecoder:
    """Decodes payloads of a writer's schema, as values of the reader's schema if that is given.

    `logical` has a function for each logical type that is not returned as it is encoded; what it raises as ValueError
    or ArithmeticError is a mismatch.
    """

    def __init__(self, writer: AvroType, reader: AvroType | None = None, logical: Mapping[str, Convert] = {}) -> None:
        self._validator = AvroValidator(writer)
        self._read = _Compiler(logical).read(writer, writer if reader is None else reader)

    def decode(self, payload: bytes) -> Any:
        for path, reason in self._validator.problems(payload):
            raise ValueMismatch(reason, *reversed(path.split("/")[1:]))
        return self._read(payload, 0)[0]


class _Compiler:
    def __init__(self, logical: Mapping[str, Convert]) -> None:
        self._logical = logical
        self._pairs: dict[tuple[int, int], Read] = {}
        self._open: set[tuple[int, int]] = set()
        self._fits: dict[tuple[int, int], bool] = {}
        self._inline_left = INLINE_FIELDS_MAX

    def read(self, writer: AvroType, reader: AvroType) -> Read:
        """Return a function that reads what the writer wrote as the reader's type."""
        pair = (id(writer), id(reader))
        if pair in self._pairs:
            return self._pairs[pair]
        if pair in self._open:  # a type inside itself: its function is found when it is called
            return _later(self._pairs, pair)
        self._open.add(pair)
        found = self._pairs[pair] = self._compiled(writer, reader)
        self._open.discard(pair)
        return found

    def _compiled(self, writer: AvroType, reader: AvroType) -> Read:
        if writer.kind == "union":
            return _union([self._branch(branch, reader) for branch in writer.inner])
        if reader.kind == "union" and writer is not reader:
            fitting = next((one for one in reader.inner if self._can_read(one, writer)), None)
            return self._unreadable(writer, reader) if fitting is None else self.read(writer, fitting)
        if reader.kind != writer.kind and writer.kind not in PROMOTIONS.get(reader.kind, ()):
            return self._unreadable(writer, reader)
        if reader.name and writer is not reader and not names_match(reader, writer):
            return self._unreadable(writer, reader)
        read = self._plain(writer, reader)
        convert = self._logical.get(reader.logical or "")
        return read if convert is None else _converted(reader, convert, read)

    def _branch(self, branch: AvroType, reader: AvroType) -> Read:
        """Return the function of a writer's branch: the reader's equal one first, then the first that fits."""
        for one in reader.inner if reader.kind == "union" else ():
            is_alike = one.kind == branch.kind and one.name == branch.name
            if one is branch or (is_alike and self._can_read(one, branch)):
                return self.read(branch, one)
        return self.read(branch, reader)

    def _can_read(self, reader: AvroType, writer: AvroType) -> bool:
        pair = (id(reader), id(writer))
        if pair not in self._fits:
            self._fits[pair] = not Resolution().problems(reader, writer)
        return self._fits[pair]

    def _unreadable(self, writer: AvroType, reader: AvroType) -> Read:
        def unreadable(_: bytes, __: int) -> tuple[Any, int]:
            raise ValueMismatch(f"the writer's {writer.title} cannot be read as {reader.title}")

        return unreadable

    def _plain(self, writer: AvroType, reader: AvroType) -> Read:
        if writer.kind in _SIMPLE:
            return _promoted(writer.kind, reader.kind)
        match writer.kind:
            case "fixed" if writer.size == reader.size:
                return _fixed(writer.size)
            case "enum":
                return _enum(writer, reader)
            case "array":
                return _array(self.read(writer.inner[0], reader.inner[0]))
            case "map":
                return _map(self.read(writer.inner[0], reader.inner[0]))
            case "fixed":
                return self._unreadable(writer, reader)
        return self._record(writer, reader)

    def _record(self, writer: AvroType, reader: AvroType) -> Read:
        wanted: dict[str, AvroField] = {}
        written = {one.name for one in writer.fields}
        for field in reader.fields:
            name = next((name for name in (field.name, *field.aliases) if name in written), None)
            if name is not None:
                wanted[name] = field
        steps: Steps = []
        for one in writer.fields:
            target = wanted.get(one.name)
            kind = one.type if target is None else target.type
            steps.append((None if target is None else target.name, self.read(one.type, kind)))
        taken = {field.name for field in wanted.values()}
        absent = [(one.name, self._default(one)) for one in reader.fields if one.name not in taken]
        self._inline_left -= len(steps)
        make = _inline_record if self._inline_left >= 0 else _record
        return make(steps, absent, [one.name for one in reader.fields])

    def _default(self, field: AvroField) -> Callable[[], Any]:
        if field.default is NO_DEFAULT:

            def missing() -> Any:
                raise ValueMismatch("the writer does not have this field, and the reader has no default", field.name)

            return missing
        encoded, read = encoded_default(field) or b"", self.read(field.type, field.type)
        return lambda: read(encoded, 0)[0]  # each time anew: it may be a list that the program changes


def _later(pairs: dict[tuple[int, int], Read], pair: tuple[int, int]) -> Read:
    def read(payload: bytes, at: int) -> tuple[Any, int]:
        return pairs[pair](payload, at)

    return read


def _converted(one: AvroType, convert: Convert, read: Read) -> Read:
    def converted(payload: bytes, at: int) -> tuple[Any, int]:
        raw, at = read(payload, at)
        try:
            return convert(raw, one), at
        except (ValueError, ArithmeticError) as error:
            raise ValueMismatch(f"{str(raw)[:40]} is no {one.logical}: {error}") from None

    return converted


Steps = list[tuple[str | None, Read]]
"""The functions of a writer's fields, with the names that they have for the reader if it wants them."""
Absent = list[tuple[str, Callable[[], Any]]]
"""The reader's fields that the writer does not have, with their defaults."""


def _record(steps: Steps, absent: Absent, order: list[str]) -> Read:
    def record(payload: bytes, at: int) -> tuple[Any, int]:
        found: dict[str, Any] = {}
        name: str | None = None
        try:
            for name, read in steps:
                value, at = read(payload, at)
                if name is not None:
                    found[name] = value
        except ValueMismatch as mismatch:
            mismatch.path.append(name or "")
            raise
        for name, default in absent:
            found[name] = default()
        return {name: found[name] for name in order}, at

    return record


def _inline_record(steps: Steps, absent: Absent, order: list[str]) -> Read:
    """Make a function of a record: the fields of plain types are read in its own body, which takes half the time.

    The function is made of constants here and of numbers; no name of a schema is part of its text.
    """
    names: dict[str, Any] = {"number": number, "double": _DOUBLE, "float_": _FLOAT, "ValueMismatch": ValueMismatch}
    lines = ["def record(b, i):", " w = None", " try:", "  pass"]
    values: dict[str, str] = {}
    for place, (name, read) in enumerate(steps):
        names[f"r{place}"], names[f"w{place}"] = read, name
        inline = _INLINE.get(read, ("w = w{0}", "v{0}, i = r{0}(b, i)"))
        lines += (f"  {line.format(place)}" for line in inline)
        if name is not None:
            values[name] = f"v{place}"
    for place, (name, default) in enumerate(absent):
        names[f"d{place}"] = default
        values[name] = f"d{place}()"
    lines += [" except ValueMismatch as mismatch:", "  mismatch.path.append(w or '')", "  raise", " return {"]
    for place, name in enumerate(order):
        names[f"k{place}"] = name
        lines.append(f"  k{place}: {values[name]},")
    lines.append(" }, i")
    exec("\n".join(lines), names)  # noqa: S102 # see above
    found: Read = names["record"]
    return found


def number(payload: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag number of a payload that was checked, and the position after it."""
    byte = payload[at]
    at += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at
    found, shift = byte & 127, 7
    while byte > 127:
        byte = payload[at]
        at += 1
        found |= (byte & 127) << shift
        shift += 7
    return (found >> 1) ^ -(found & 1), at


def _null(_: bytes, at: int) -> tuple[None, int]:
    return None, at


def _boolean(payload: bytes, at: int) -> tuple[bool, int]:
    return payload[at] == 1, at + 1


def _float(payload: bytes, at: int) -> tuple[float, int]:
    return _FLOAT(payload, at)[0], at + 4


def _double(payload: bytes, at: int) -> tuple[float, int]:
    return _DOUBLE(payload, at)[0], at + 8


def _bytes(payload: bytes, at: int) -> tuple[bytes, int]:
    length, at = number(payload, at)
    return payload[at : at + length], at + length


def _string(payload: bytes, at: int) -> tuple[str, int]:
    length = payload[at]
    if length < 128:
        at += 1
        length >>= 1
    else:
        length, at = number(payload, at)
    end = at + length
    return payload[at:end].decode(), end


def _fixed(size: int) -> Read:
    return lambda payload, at: (payload[at : at + size], at + size)


def _promoted(writer: str, reader: str) -> Read:
    """Return the function of a primitive type that the reader may have as a wider one."""
    read = _SIMPLE[writer]
    if writer == reader or {writer, reader} == {"int", "long"} or (writer, reader) == ("float", "double"):
        return read
    if (writer, reader) == ("bytes", "string"):
        return _text
    if (writer, reader) == ("string", "bytes"):
        return _bytes

    def to_float(payload: bytes, at: int) -> tuple[float, int]:
        value, at = read(payload, at)
        return float(value), at

    return to_float


def _text(payload: bytes, at: int) -> tuple[str, int]:
    raw, at = _bytes(payload, at)
    try:
        return raw.decode(), at
    except UnicodeDecodeError as error:
        raise ValueMismatch(f"bytes that are no UTF-8 (byte {error.start}) cannot be read as string") from None


def _enum(writer: AvroType, reader: AvroType) -> Read:
    known = set(reader.symbols)
    default = None if reader.default is NO_DEFAULT else reader.default
    symbols = [symbol if symbol in known else default for symbol in writer.symbols]

    def enum(payload: bytes, at: int) -> tuple[str, int]:
        index, at = number(payload, at)
        symbol = symbols[index]
        if symbol is None:
            raise ValueMismatch(f"the reader's enum {reader.name} has no {writer.symbols[index]!r}, and no default")
        return symbol, at

    return enum


def _union(branches: list[Read]) -> Read:
    def union(payload: bytes, at: int) -> tuple[Any, int]:
        index, at = number(payload, at)
        return branches[index](payload, at)

    return union


def _block(payload: bytes, at: int) -> tuple[int, int]:
    """Return the count of a block's items; blocks with their size have it behind a negative count."""
    count, at = number(payload, at)
    if count < 0:
        _, at = number(payload, at)
    return abs(count), at


def _array(read: Read) -> Read:
    def array(payload: bytes, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        while True:
            count, at = _block(payload, at)
            if not count:
                return found, at
            try:
                for _ in range(count):
                    value, at = read(payload, at)
                    found.append(value)
            except ValueMismatch as mismatch:
                mismatch.path.append(str(len(found)))
                raise

    return array


def _map(read: Read) -> Read:
    def map_(payload: bytes, at: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        while True:
            count, at = _block(payload, at)
            if not count:
                return found, at
            for _ in range(count):
                name, at = _string(payload, at)
                try:
                    found[name], at = read(payload, at)
                except ValueMismatch as mismatch:
                    mismatch.path.append(name)
                    raise

    return map_


_SIMPLE: dict[str, Read] = {
    "null": _null,
    "boolean": _boolean,
    "int": number,
    "long": number,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}
_INLINE: dict[Read, tuple[str, ...]] = {
    _null: ("v{0} = None",),
    _boolean: ("v{0} = b[i] == 1", "i += 1"),
    number: ("n = b[i]", "if n < 128: v{0} = (n >> 1) ^ -(n & 1); i += 1", "else: v{0}, i = number(b, i)"),
    _float: ("v{0} = float_(b, i)[0]", "i += 4"),
    _double: ("v{0} = double(b, i)[0]", "i += 8"),
    _string: (
        "n = b[i]",
        "if n < 128: i += 1; n >>= 1",
        "else: n, i = number(b, i)",
        "e = i + n",
        "v{0} = b[i:e].decode()",
        "i = e",
    ),
}
"""What reads a plain type, as lines in the body of a record."""
