"""Generated messages: a template with counters and random fields, compiled once and filled in batches."""

import re
import time
from collections.abc import Callable, Iterator
from itertools import count as counting
from random import Random
from typing import Any

from goqueue.console.failure import UsageInvalid
from goqueue.quantities import format_time, quoted
from goqueue_cli.publishing.sources import MessageChunk, Shared

_AT_ONCE = 1_000
_AHEAD_SECONDS = 0.01
"""With a rate, messages are generated this much ahead, so that their times are right."""

_SPAN_MAX = 2**53  # the resolution of a float between 0 and 1
_RUN_MAX = 1_000_000

FIELDS = "%n number, %r{1,6} random whole number, %x{8} random hexadecimal digits, %u UUID, %T time"

_TOKEN = re.compile(r"%([rx])\{([^}]*)\}|%(.?)|([^%]+)", re.DOTALL)
_Column = Callable[[range, Random], list[Any]]


class Template:
    """A compiled template."""

    def __init__(self, text: str, flag: str = "--template") -> None:
        parts, self._columns = [], []
        for token in _TOKEN.finditer(text):
            braced, inside, field, plain = token.groups()
            if plain is not None:
                parts.append(plain.encode(errors="surrogateescape").replace(b"%", b"%%"))
            elif field == "%":
                parts.append(b"%%")
            else:
                self._columns.append(_column(flag, braced, inside, field, text[token.start() :]))
                parts.append(b"%d" if field == "n" or braced == "r" else b"%b")
        self._text = b"".join(parts)

    def fill(self, numbers: range, random: Random) -> list[bytes]:
        if not self._columns:
            return [self._text % ()] * len(numbers)
        columns = [column(numbers, random) for column in self._columns]
        return list(map(self._text.__mod__, zip(*columns, strict=True)))


def chunks(
    value: Template, key: Template | None, shared: Shared, *, first: int, seed: int | None, rate: float | None
) -> Iterator[MessageChunk]:
    """Yield chunks without end: values, and keys with the same numbers."""
    random = Random(seed)  # noqa: S311 - made up data
    size = _AT_ONCE if rate is None else max(1, min(_AT_ONCE, int(rate * _AHEAD_SECONDS)))
    for start in counting(first, size):
        numbers = range(start, start + size)
        values = value.fill(numbers, random)
        yield MessageChunk(values, None if key is None else key.fill(numbers, random), shared)


def _column(flag: str, braced: str | None, inside: str, field: str, rest: str) -> _Column:
    if braced == "r":
        return _whole_numbers(flag, inside)
    if braced == "x":
        return _digits(flag, inside)
    if field in _PLAIN:
        return _PLAIN[field]
    if field in {"r", "x"}:
        example = "%r{1,1000}" if field == "r" else "%x{8}"
        what = f"{quoted(rest)} is not closed" if rest[2:3] == "{" else f"%{field} has no range"
        raise UsageInvalid(f"{flag}: {what}", hint=f"use {example}")
    what = f"%{field} is not a field" if field else "the last % has no field"
    raise UsageInvalid(f"{flag}: {what}", hint=f"there are {FIELDS}, and %% for a percent sign")


def _whole_numbers(flag: str, inside: str) -> _Column:
    found = re.fullmatch(r" *(-?[0-9]{1,18}) *, *(-?[0-9]{1,18}) *", inside)
    least, most = (int(found[1]), int(found[2])) if found else (1, 0)
    span = most - least + 1
    if not 1 <= span <= _SPAN_MAX:
        raise UsageInvalid(f"{flag}: %r{{{inside}}} is not a range of numbers", hint="use %r{1,1000}")

    def column(numbers: range, random: Random) -> list[int]:
        draw = random.random
        return [least + int(draw() * span) for _ in numbers]

    return column


def _digits(flag: str, inside: str) -> _Column:
    length = int(inside) if inside.isascii() and inside.isdecimal() and len(inside) < 8 else 0
    if not 1 <= length <= _RUN_MAX:
        raise UsageInvalid(f"{flag}: %x{{{inside}}} is not a number of digits", hint="use %x{8}")

    def column(numbers: range, random: Random) -> list[bytes]:
        size = (length + 1) // 2
        return [random.randbytes(size).hex().encode()[:length] for _ in numbers]

    return column


def _uuids(numbers: range, random: Random) -> list[bytes]:
    return [_uuid(random.getrandbits(128)) for _ in numbers]


def _uuid(bits: int) -> bytes:
    """Format as a UUID of version 4, variant 1."""
    bits = bits & ~(0xF000 << 64) | 4 << 76
    text = f"{bits & ~(3 << 62) | 2 << 62:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}".encode()


def _times(numbers: range, random: Random) -> list[bytes]:
    del random
    return [format_time(time.time_ns()).encode() for _ in numbers]


_PLAIN: dict[str, _Column] = {"n": lambda numbers, _: list(numbers), "u": _uuids, "T": _times}
