"""Where reading begins and ends, as people write it."""

import time

from goqueue.client import Nanoseconds
from goqueue.clock import NANOSECONDS
from goqueue.console.groups import UsageInvalid
from goqueue.limits import OFFSET_MAX
from goqueue.quantities import parse_duration, parse_time, quoted

Place = str | int | Nanoseconds

_HINT = "write earliest, latest, an offset, a time as in 2026-03-01T12:00:00Z, or -1h for an hour ago"


def parse_start(text: str) -> Place:
    return "latest" if text == "now" else text if text in {"earliest", "latest"} else _parse("--from", text)


def parse_end(text: str) -> Place:
    """The first place that is not read any more."""
    return "now" if text in {"now", "latest"} else _parse("--to", text)


def _parse(flag: str, text: str) -> Place:
    if text.isascii() and text.isdecimal():
        if len(text) > 19 or int(text) > OFFSET_MAX:
            raise UsageInvalid(f"{flag}: {quoted(text)} is larger than any offset", hint=_HINT)
        return int(text)
    try:
        if text.startswith("-"):
            ago = round(parse_duration(text[1:]) * NANOSECONDS)
            return Nanoseconds(max(0, time.time_ns() - ago))
        return Nanoseconds(parse_time(text))
    except ValueError as error:
        raise UsageInvalid(f"{flag}: {error}", hint=_HINT) from None
