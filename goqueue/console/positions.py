"""Positions and times as people write them in flags."""

import re
import time

from goqueue.client import Nanoseconds
from goqueue.clock import NANOSECONDS
from goqueue.console.failure import UsageInvalid
from goqueue.limits import DELAY_SECONDS_MAX, OFFSET_MAX
from goqueue.quantities import format_duration, parse_duration, parse_time, quoted

Position = str | int | Nanoseconds

_PLACES = "an offset, a time as in 2026-03-01T12:00:00Z, a day as in 2026-03-01, or -1h for an hour ago"
_HINTS = {"--from": f"--from takes earliest, latest, {_PLACES}", "--to": f"--to takes now, {_PLACES}"}

_MOMENTS = "{} takes now, a time as in 2026-03-01T12:00:00Z, a day as in 2026-03-01, +1h for in an hour, or -1h"

_UTC = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]+)?)?)?")


def parse_start(text: str) -> Position:
    return "latest" if text == "now" else text if text in {"earliest", "latest"} else _parse("--from", text)


def parse_end(text: str) -> Position:
    """Parse the position before which reading ends."""
    if text == "earliest":
        raise UsageInvalid("--to earliest leaves nothing to read", hint=_HINTS["--to"])
    return "now" if text in {"now", "latest"} else _parse("--to", text)


def parse_time_flag(flag: str, text: str) -> Nanoseconds:
    """Parse a time, which may be in the future, as a due time is; a plain number is not a time."""
    if text == "now":
        return Nanoseconds(time.time_ns())
    if text[:1] in {"+", "-"}:
        return _away(flag, text, _MOMENTS.format(flag))
    unit = "s" if text.isdecimal() else ""
    return _moment(flag, text, _MOMENTS.format(flag), suggestion=f"+{text}{unit}")


def is_past(text: str) -> bool:
    """Return True if no new message can come before the end `text`."""
    return text in {"now", "latest"} or text.startswith("-")


def _parse(flag: str, text: str) -> Position:
    if text.isascii() and text.isdecimal():
        if len(text) > 19 or int(text) > OFFSET_MAX:
            raise UsageInvalid(f"{flag}: {quoted(text)} is larger than any offset", hint=_HINTS[flag])
        return int(text)
    if text.startswith("-"):
        return _away(flag, text, _HINTS[flag])
    return _moment(flag, text, _HINTS[flag], suggestion=f"-{text}")


def _moment(flag: str, text: str, hint: str, *, suggestion: str) -> Nanoseconds:
    """Parse a time, a day, or a time without a zone, which is in UTC; `suggestion` is for a duration without a sign."""
    found = _UTC.fullmatch(text)
    whole = f"{found[1]}T{found[2] or '00:00'}{found[3] or ':00'}Z" if found else text
    try:
        return Nanoseconds(parse_time(whole))
    except ValueError as error:
        problem = str(error).replace(whole, text)
        hint = f"did you mean {flag} {suggestion}?" if _is_duration(text) else hint
        raise UsageInvalid(f"{flag}: {problem}", hint=hint) from None


def _away(flag: str, text: str, hint: str) -> Nanoseconds:
    """Parse a time before or after now; it needs a unit, since `-5` could also mean five messages."""
    if text[1:].isascii() and text[1:].isdecimal():
        other = f" `--last {text[1:]}` begins with the last {text[1:]} messages" if flag == "--from" else ""
        raise UsageInvalid(f"{flag}: {quoted(text)} has no unit", hint=f"did you mean {flag} {text}s?{other}")
    try:
        away = round(parse_duration(text[1:]) * NANOSECONDS)
    except ValueError as error:
        raise UsageInvalid(f"{flag}: {error}", hint=hint) from None
    now = time.time_ns()
    return Nanoseconds(now + away if text[0] == "+" else max(0, now - away))


def _is_duration(text: str) -> bool:
    try:
        parse_duration(text)
    except ValueError:
        return False
    return True


# --- due times ---


def parse_delay(flag: str, text: str) -> float:
    """Parse the delay of a message, in seconds."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UsageInvalid(f"{flag}: {error}", hint=f"use {flag} 5m") from None
    if seconds > DELAY_SECONDS_MAX:
        raise _too_far(flag, text)
    return seconds


def parse_shift(flag: str, text: str) -> float:
    """Parse a delay that may have a sign."""
    if text[:1] not in {"+", "-"}:
        return parse_delay(flag, text)
    seconds = parse_delay(flag, text[1:])
    return -seconds if text[0] == "-" else seconds


def parse_due_time(flag: str, text: str) -> Nanoseconds:
    moment = parse_time_flag(flag, text)
    if moment > parse_time_flag(flag, "now") + DELAY_SECONDS_MAX * NANOSECONDS:
        raise _too_far(flag, text)
    return moment


def _too_far(flag: str, text: str) -> UsageInvalid:
    most = format_duration(DELAY_SECONDS_MAX)
    return UsageInvalid(f"{flag} {quoted(text)} is too far ahead", hint=f"the maximum is {most}")
