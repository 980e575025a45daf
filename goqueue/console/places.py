"""Where reading begins and ends, as people write it."""

import re
import time

from goqueue.client import Nanoseconds
from goqueue.clock import NANOSECONDS
from goqueue.console.groups import UsageInvalid
from goqueue.limits import OFFSET_MAX
from goqueue.quantities import parse_duration, parse_time, quoted

Place = str | int | Nanoseconds

_PLACES = "an offset, a time as in 2026-03-01T12:00:00Z, a day as in 2026-03-01, or -1h for an hour ago"
_HINTS = {"--from": f"--from takes earliest, latest, {_PLACES}", "--to": f"--to takes now, {_PLACES}"}

_MOMENTS = "{} takes now, a time as in 2026-03-01T12:00:00Z, a day as in 2026-03-01, +1h for in an hour, or -1h"

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UTC = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]+)?)?")


def parse_start(text: str) -> Place:
    return "latest" if text == "now" else text if text in {"earliest", "latest"} else _parse("--from", text)


def parse_end(text: str) -> Place:
    """The first place that is not read any more."""
    if text == "earliest":
        raise UsageInvalid("--to earliest leaves nothing to read", hint=_HINTS["--to"])
    return "now" if text in {"now", "latest"} else _parse("--to", text)


def parse_moment(flag: str, text: str) -> Nanoseconds:
    """A time that may be ahead: a due time is one. Nothing but a time is meant, so a number alone is none."""
    now = time.time_ns()
    if text == "now":
        return Nanoseconds(now)
    if text[:1] in {"+", "-"}:
        away = round(_away(flag, text) * NANOSECONDS)
        return Nanoseconds(now + away if text[0] == "+" else max(0, now - away))
    whole = _in_full(text)
    try:
        return Nanoseconds(parse_time(whole))
    except ValueError as error:
        told = str(error).replace(whole, text)
        unit = "s" if text.isdecimal() else ""
        hint = f"did you mean {flag} +{text}{unit}?" if _is_duration(text) else _MOMENTS.format(flag)
        raise UsageInvalid(f"{flag}: {told}", hint=hint) from None


def _away(flag: str, text: str) -> float:
    """It needs its unit here too, so that nobody takes an offset for seconds."""
    if text[1:].isascii() and text[1:].isdecimal():
        raise UsageInvalid(f"{flag}: {quoted(text)} has no unit", hint=f"did you mean {flag} {text}s?")
    try:
        return parse_duration(text[1:])
    except ValueError as error:
        raise UsageInvalid(f"{flag}: {error}", hint=_MOMENTS.format(flag)) from None


def is_past(text: str) -> bool:
    """Whether an end, as it is written, can only be one that nothing comes before any more."""
    return text in {"now", "latest"} or text.startswith("-")


def _parse(flag: str, text: str) -> Place:
    if text.isascii() and text.isdecimal():
        if len(text) > 19 or int(text) > OFFSET_MAX:
            raise UsageInvalid(f"{flag}: {quoted(text)} is larger than any offset", hint=_HINTS[flag])
        return int(text)
    if text.startswith("-"):
        return _ago(flag, text)
    whole = _in_full(text)
    try:
        return Nanoseconds(parse_time(whole))
    except ValueError as error:
        told = str(error).replace(whole, text)
        hint = f"did you mean {flag} -{text}?" if _is_duration(text) else _HINTS[flag]
        raise UsageInvalid(f"{flag}: {told}", hint=hint) from None


def _in_full(text: str) -> str:
    """A day, or a time without its zone, is one of UTC, as all times are printed."""
    if _DAY.fullmatch(text):
        return f"{text}T00:00:00Z"
    found = _UTC.fullmatch(text)
    return f"{found[1]}T{found[2]}{found[3] or ':00'}Z" if found else text


def _ago(flag: str, text: str) -> Nanoseconds:
    """Counted back from now. It needs its unit: `-5` might as well be five messages."""
    if text[1:].isascii() and text[1:].isdecimal():
        other = f" `--last {text[1:]}` begins with the last {text[1:]} messages" if flag == "--from" else ""
        raise UsageInvalid(f"{flag}: {quoted(text)} has no unit", hint=f"did you mean {flag} {text}s?{other}")
    try:
        seconds = parse_duration(text[1:])
    except ValueError as error:
        raise UsageInvalid(f"{flag}: {error}", hint=_HINTS[flag]) from None
    return Nanoseconds(max(0, time.time_ns() - round(seconds * NANOSECONDS)))


def _is_duration(text: str) -> bool:
    try:
        parse_duration(text)
    except ValueError:
        return False
    return True
