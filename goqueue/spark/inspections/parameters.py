"""How the parameters of inspections are written, for whoever gives them as text; what cannot be read is a ValueError.

The words are those of the flags of `goqueue spark-inspect`.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from goqueue.clock import NANOSECONDS
from goqueue.config.kinds import SWITCH
from goqueue.quantities import parse_duration, parse_size, parse_time, quoted
from goqueue.spark.options import count

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class Parameter(NamedTuple):
    """One that an inspection takes."""

    read: Callable[[str, int], Any]
    """Of a text, and of the time in nanoseconds at which it is read."""
    is_list: bool = False
    """Whether it may be given more than once: each is read, and all of them are handed on."""


def text() -> Parameter:
    def read(given: str, _: int) -> str:
        if not given.strip():
            raise ValueError("is empty")
        return given

    return Parameter(read)


def texts() -> Parameter:
    return Parameter(text().read, is_list=True)


def field_path() -> Parameter:
    def read(given: str, _: int) -> str:
        if not all(given.split(".")):
            raise ValueError(f"{quoted(given)} is no path: write names with dots between, as in order.created")
        return given

    return Parameter(read)


def switch() -> Parameter:
    return Parameter(lambda given, _: bool(SWITCH.parse(given)))


def number(most: int) -> Parameter:
    def read(given: str, _: int) -> int:
        if count(given) > most:
            raise ValueError(f"{quoted(given)} is too much: {most:,} is the most")
        return count(given)

    return Parameter(read)


def one_of(*known: str) -> Parameter:
    def read(given: str, _: int) -> str:
        if given not in known:
            raise ValueError(f"{quoted(given)} is not one of {', '.join(known)}")
        return given

    return Parameter(read)


def size() -> Parameter:
    return Parameter(lambda given, _: parse_size(given))


def seconds() -> Parameter:
    return Parameter(lambda given, _: _some_seconds(given))


def bucket(least_ns: int = 1) -> Parameter:
    """A length of time, in nanoseconds."""

    def read(given: str, _: int) -> int:
        found = round(_some_seconds(given) * NANOSECONDS)
        if found < least_ns:
            raise ValueError(f"{quoted(given)} is too short: the shortest is 1ms")
        return found

    return Parameter(read)


def _some_seconds(given: str) -> float:
    found = parse_duration(given)
    if not found:
        raise ValueError(f"{quoted(given)} is no time at all")
    return found


def moment() -> Parameter:
    return Parameter(read_moment)


def read_moment(given: str, now_ns: int) -> int:
    """A time, a day, or so long ago; in nanoseconds."""
    if given.startswith("-"):
        return max(0, now_ns - round(parse_duration(given[1:]) * NANOSECONDS))
    return parse_time(f"{given}T00:00:00Z" if _DAY.fullmatch(given) else given)
