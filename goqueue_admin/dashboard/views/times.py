"""A moment as people type it, and a filter."""

import re

from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_time, parse_duration, parse_time

_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_DAY_NS = 86_400 * NANOSECONDS
_FILTER = re.compile(r"(key|value|priority|header\.[^=!~^<>]+|json\.[^=!~^<>]+)\s*(=|!=|~|!~|\^=|<=?|>=?|$)")


def parse_moment(text: str, now_ns: int) -> int:
    """`-10m`, `14:05`, `2026-03-01`, or RFC 3339. All in UTC; a time of day is the last that has been."""
    if text.startswith("-"):
        return max(0, now_ns - round(parse_duration(text[1:]) * NANOSECONDS))
    if _CLOCK.fullmatch(text):
        hours, *rest = text.split(":")
        today = format_time(now_ns)[:10]
        then = parse_time(f"{today}T{int(hours):02d}:{':'.join([*rest, '00'][:2])}Z")
        return then if then <= now_ns else then - _DAY_NS
    return parse_time(f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text)


def parse_due(text: str, now_ns: int) -> int:
    """The same of something that is to come: `+10m`, `now`, and a time of day is the next that will be."""
    if text == "now":
        return now_ns
    if text.startswith("+"):
        return now_ns + round(parse_duration(text[1:]) * NANOSECONDS)
    then = parse_moment(text, now_ns)
    return then + _DAY_NS if _CLOCK.fullmatch(text) and then < now_ns else then


def filters(text: str) -> list[str]:
    """What the broker is asked to look for: `json.total>40 key=a`, and plain text anywhere in the value."""
    words = text.split()
    if words and all(_FILTER.match(word) for word in words):
        return words
    if _FILTER.match(text):
        return [text]
    return [f"value~{text}"] if text else []
