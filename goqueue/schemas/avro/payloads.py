"""Payloads of Avro: a schema compiled into functions that step over encoded values and refuse what is not one.

Each function takes the payload and a position and returns the position after its value. It is strict where libraries
are lenient (symbols and branches below zero, booleans other than 0 and 1, integers of more than 32 bits), and payloads
that nest without end are refused, where a library in C exhausts the stack and ends the process.
"""

from collections.abc import Callable

from goqueue.schemas import limits
from goqueue.schemas.avro.quick_check import Doubt, quick_check
from goqueue.schemas.avro.types import AvroType
from goqueue.schemas.schema_format import PayloadProblem

Step = Callable[[bytes, int], int]
VARINT_BYTES_MAX = 10
EMPTY_ITEMS_MAX = 10_000
"""Items without bytes: a few bytes could announce any number of them."""


class _Mismatch(Exception):
    """A value that is not of its type; records and arrays around it add to the path."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []


class AvroValidator:
    """Validates payloads in Avro's binary encoding. The first problem ends a payload: nothing after it can be read."""

    def __init__(self, root: AvroType) -> None:
        compiler = _Compiler()
        self._step = compiler.step(root)
        self._is_surely_valid = quick_check(root, compiler.step)

    def problems(self, payload: bytes) -> list[PayloadProblem]:
        try:
            if self._is_surely_valid is not None and self._is_surely_valid(payload):
                return []
        except (IndexError, Doubt, _Mismatch):
            pass
        try:
            end = self._step(payload, 0)
        except _Mismatch as mismatch:
            return [PayloadProblem("".join(f"/{name}" for name in reversed(mismatch.path)), mismatch.reason)]
        except IndexError:
            end = len(payload) + 1
        if end > len(payload):
            return [PayloadProblem("", "the payload ends inside a value")]
        if end < len(payload):
            return [PayloadProblem("", f"{len(payload) - end:,} bytes follow the value")]
        return []

    def is_valid(self, payload: bytes) -> bool:
        return not self.problems(payload)


class _Compiler:
    def __init__(self) -> None:
        self._named: dict[int, Step] = {}
        self._open: set[int] = set()
        self._depth = [0]

    def step(self, one: AvroType) -> Step:
        if one.kind in _SIMPLE:
            return _SIMPLE[one.kind]
        match one.kind:
            case "fixed":
                return _fixed(one.size)
            case "enum":
                return _enum(one)
            case "array":
                return _blocks(self.step(one.inner[0]), "items", least_bytes(one.inner[0]))
            case "map":
                return _blocks(_entry(self.step(one.inner[0])), "entries", 1)
            case "union":
                return _union(tuple(self.step(branch) for branch in one.inner))
        return self._record(one)

    def _record(self, one: AvroType) -> Step:
        if id(one) in self._open:  # a type inside itself: its function is found when it is called
            return self._nested(id(one))
        if id(one) not in self._named:
            self._open.add(id(one))
            self._named[id(one)] = _record(tuple((each.name, self.step(each.type)) for each in one.fields))
            self._open.discard(id(one))
        return self._named[id(one)]

    def _nested(self, key: int) -> Step:
        named, depth = self._named, self._depth

        def nested(payload: bytes, at: int) -> int:
            depth[0] += 1
            try:
                if depth[0] > limits.PAYLOAD_DEPTH_MAX:
                    raise _Mismatch(f"values are nested more than {limits.PAYLOAD_DEPTH_MAX} levels deep")
                return named[key](payload, at)
            finally:
                depth[0] -= 1

        return nested


def _record(fields: tuple[tuple[str, Step], ...]) -> Step:
    steps = tuple(step for _, step in fields)

    def record(payload: bytes, at: int) -> int:
        number = 0
        try:
            for step in steps:
                at = step(payload, at)
                number += 1
        except _Mismatch as mismatch:
            mismatch.path.append(fields[number][0])
            raise
        except IndexError:
            raise _ended(fields[number][0]) from None
        return at

    return record


def _ended(name: str) -> _Mismatch:
    mismatch = _Mismatch("the payload ends inside a value")
    mismatch.path.append(name)
    return mismatch


def _number(payload: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag number and the position after it."""
    byte = payload[at]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at + 1
    found, shift = byte & 127, 7
    while byte >= 128:
        if shift >= 7 * VARINT_BYTES_MAX:
            raise _Mismatch("a number has more than 64 bits")
        at += 1
        byte = payload[at]
        found |= (byte & 127) << shift
        shift += 7
    if found >> 64:
        raise _Mismatch("a number has more than 64 bits")
    return (found >> 1) ^ -(found & 1), at + 1


def _null(_: bytes, at: int) -> int:
    return at


def _boolean(payload: bytes, at: int) -> int:
    if payload[at] > 1:
        raise _Mismatch(f"a boolean is 0 or 1, not {payload[at]}")
    return at + 1


def _int(payload: bytes, at: int) -> int:
    if payload[at] < 128:
        return at + 1
    number, at = _number(payload, at)
    if not -0x80000000 <= number <= 0x7FFFFFFF:
        raise _Mismatch(f"{number} has more than 32 bits")
    return at


def _long(payload: bytes, at: int) -> int:
    return at + 1 if payload[at] < 128 else _number(payload, at)[1]


def _bytes(payload: bytes, at: int) -> int:
    length, at = _number(payload, at)
    if length < 0:
        raise _Mismatch(f"a length of {length}")
    if at + length > len(payload):
        raise _Mismatch(f"a value of {length:,} bytes, of which the payload has {len(payload) - at:,}")
    return at + length


def _string(payload: bytes, at: int) -> int:
    length = payload[at]
    if length & 129:  # negative, or of several bytes
        length, at = _number(payload, at)
        if length < 0:
            raise _Mismatch(f"a length of {length}")
    else:
        length, at = length >> 1, at + 1
    end = at + length
    if end > len(payload):
        raise _Mismatch(f"a text of {length:,} bytes, of which the payload has {len(payload) - at:,}")
    text = payload[at:end]
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise _Mismatch(f"a text that is not UTF-8 (byte {error.start})") from None
    return end


def _fixed(size: int) -> Step:
    def fixed(payload: bytes, at: int) -> int:
        if at + size > len(payload):
            raise _Mismatch(f"a value of {size:,} bytes, of which the payload has {len(payload) - at:,}")
        return at + size

    return fixed


def _enum(one: AvroType) -> Step:
    count = len(one.symbols)

    def enum(payload: bytes, at: int) -> int:
        index, at = _number(payload, at)
        if not 0 <= index < count:
            raise _Mismatch(f"the symbol {index} of {one.name}, which has {count}")
        return at

    return enum


def _union(steps: tuple[Step, ...]) -> Step:
    count = len(steps)

    def union(payload: bytes, at: int) -> int:
        index, at = _number(payload, at)
        if not 0 <= index < count:
            raise _Mismatch(f"the branch {index} of a union of {count}")
        return steps[index](payload, at)

    return union


def _entry(value: Step) -> Step:
    def entry(payload: bytes, at: int) -> int:
        return value(payload, _string(payload, at))

    return entry


def _blocks(item: Step, word: str, least: int) -> Step:
    """Step over blocks of items. A count is checked against the bytes that are left before any item is read."""

    def blocks(payload: bytes, at: int) -> int:
        number = 0
        while True:
            count, at = _number(payload, at)
            if count == 0:
                return at
            if count < 0:
                count = -count
                _, at = _number(payload, at)
            if count * least > len(payload) - at:
                raise _Mismatch(f"{count:,} {word}, for which {len(payload) - at:,} bytes are left")
            if least == 0 and count + number > EMPTY_ITEMS_MAX:
                raise _Mismatch(f"more than {EMPTY_ITEMS_MAX:,} {word} that take no bytes")
            last = number + count
            try:
                while number < last:
                    at = item(payload, at)
                    number += 1
            except _Mismatch as mismatch:
                mismatch.path.append(str(number))
                raise
            except IndexError:
                raise _ended(str(number)) from None

    return blocks


def least_bytes(one: AvroType, seen: frozenset[int] = frozenset()) -> int:
    """Return a lower bound of the bytes of any value: 0 or 1 is enough."""
    if one.kind == "null" or (one.kind == "fixed" and one.size == 0) or id(one) in seen:
        return 0
    if one.kind not in {"record", "error"}:
        return 1
    inside = seen | {id(one)}
    return max((least_bytes(each.type, inside) for each in one.fields), default=0)


_SIMPLE: dict[str, Step] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _fixed(4),
    "double": _fixed(8),
    "bytes": _bytes,
    "string": _string,
}
