"""Formatted numbers and times, and parsed times and filters."""

import re
from typing import NamedTuple

from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_duration, format_size, format_time, parse_duration, parse_time

NO_VALUE = "-"
WARNING_SHARE = 0.7
CRITICAL_SHARE = 0.9

_STEPS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def count(number: float) -> str:
    return f"{round(number):,}"


def short(number: float) -> str:
    """Format with three digits and a letter: 987, 12.3k, 1.2M."""
    for step, letter in _STEPS:
        if abs(number) >= step * 0.9995:
            return f"{_three_digits(number / step)}{letter}"
    return _three_digits(number)


def _three_digits(number: float) -> str:
    size = abs(number)
    if size >= 99.95 or number == round(number):
        return f"{number:.0f}"
    return f"{number:.1f}" if size >= 0.95 else f"{number:.2g}"


def rate(number: float) -> str:
    return f"{short(number)}/s"


def size(number: float) -> str:
    return format_size(round(number))


def size_rate(number: float) -> str:
    return f"{size(number)}/s"


def milliseconds(number: float) -> str:
    return format_duration(number / 1000) if number >= 1000 else f"{_three_digits(number)}ms"


def seconds(number: float | None) -> str:
    """Format a duration; None is infinite."""
    return "∞" if number is None else format_duration(number)


def share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def percent(part: float) -> str:
    return f"{part * 100:.0f}%"


def share_tone(part: float) -> str:
    """Return the tone of a used share."""
    return "bad" if part >= CRITICAL_SHARE else "warn" if part >= WARNING_SHARE else ""


def arrow(now: float, before: float | None) -> str:
    """Return the direction in which a number changed."""
    if before is None or now == before:
        return " "
    return "↑" if now > before else "↓"


def format_clock(time_ns: int) -> str:
    return format_time(time_ns)[11:19]


def format_clock_ms(time_ns: int) -> str:
    return format_time(time_ns)[11:23]


def age_seconds(text: str, now_ns: int) -> float:
    """Return the seconds since an RFC 3339 time; the clock of the broker may be ahead, so they are at least 0."""
    return max(0, now_ns - parse_time(text)) / NANOSECONDS


class LabeledNumber(NamedTuple):
    text: str
    noun: str
    tone: str = ""


_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_DAY_NS = 86_400 * NANOSECONDS
_FILTER = re.compile(r"(key|value|priority|header\.[^=!~^<>]+|json\.[^=!~^<>]+)\s*(=|!=|~|!~|\^=|<=?|>=?|$)")


def parse_moment(text: str, now_ns: int) -> int:
    """Parse `-10m`, `14:05`, `2026-03-01` or RFC 3339, in UTC. A time of day is the latest past one."""
    if text.startswith("-"):
        return max(0, now_ns - round(parse_duration(text[1:]) * NANOSECONDS))
    if _CLOCK.fullmatch(text):
        hours, *rest = text.split(":")
        today = format_time(now_ns)[:10]
        then = parse_time(f"{today}T{int(hours):02d}:{':'.join([*rest, '00'][:2])}Z")
        return then if then <= now_ns else then - _DAY_NS
    return parse_time(f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text)


def parse_due_moment(text: str, now_ns: int) -> int:
    """Parse a future time: also `+10m` and `now`. A time of day is the next one."""
    if text == "now":
        return now_ns
    if text.startswith("+"):
        return now_ns + round(parse_duration(text[1:]) * NANOSECONDS)
    then = parse_moment(text, now_ns)
    return then + _DAY_NS if _CLOCK.fullmatch(text) and then < now_ns else then


def parse_filters(text: str) -> list[str]:
    """Parse filters such as `json.total>40 key=a`; plain text matches anywhere in the value."""
    words = text.split()
    if words and all(_FILTER.match(word) for word in words):
        return words
    if _FILTER.match(text):
        return [text]
    return [f"value~{text}"] if text else []
