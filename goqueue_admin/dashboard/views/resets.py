"""Where a group is to be moved, as it is typed, and as a request and a command say it."""

import re
from typing import Any, NamedTuple

from goqueue.limits import OFFSET_MAX
from goqueue.quantities import format_time, quoted
from goqueue_admin.dashboard.views import times

PLACES = "earliest   latest   -1h   14:05   2026-03-01   @1200   shift -100"

_SHIFT = re.compile(r"shift\s*([+-]?[0-9]{1,18})")
_OFFSET = re.compile(r"@?([0-9]{1,19})")
_BARE = re.compile(r"[+-][0-9]+")


class Target(NamedTuple):
    """`to` of a request, what that needs, and the words of a command."""

    to: str
    wishes: dict[str, Any]
    words: tuple[str, ...]


def parse_target(text: str, now_ns: int) -> Target:
    """A time is made absolute here, so that what is done is what was planned."""
    if not text:
        raise ValueError(f"say where to: {PLACES}")
    if text in {"earliest", "latest"}:
        return Target(text, {}, ("--to", text))
    if found := _SHIFT.fullmatch(text):
        return _shift(int(found[1]))
    if found := _OFFSET.fullmatch(text):
        offset = int(found[1])
        if offset > OFFSET_MAX:
            raise ValueError(f"{quoted(text)} is larger than any offset")
        return Target("offset", {"offset": offset}, ("--to", str(offset)))
    if _BARE.fullmatch(text):
        raise ValueError(f"{quoted(text)} has no unit: `shift {text}` counts messages, `{text}s` seconds")
    time_ns = times.parse_moment(text, now_ns)
    return Target("time", {"time": time_ns}, ("--to", text if text.startswith("-") else format_time(time_ns)))


def _shift(count: int) -> Target:
    if not count:
        raise ValueError("shift 0 moves nothing")
    return Target("shift", {"shift": count}, ("--shift", str(count)))


def parse_partitions(text: str) -> list[int] | None:
    """`0 2,5`; nothing is all of them."""
    numbers = text.replace(",", " ").split()
    if not all(number.isascii() and number.isdecimal() and len(number) < 10 for number in numbers):
        raise ValueError(f"{quoted(text)} is no list of partitions: write it as in 0,2")
    return sorted({int(number) for number in numbers}) or None
