"""Times, durations and delivery times, as callers pass them.

A delay counts from the moment at which the broker stores the message, and a time is one of the broker's clock. No
delay, a delay of zero and an empty text all mean: at once.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from goqueue import delay as headers
from goqueue.clock import NANOSECONDS
from goqueue.errors import RequestInvalid
from goqueue.limits import DELAY_SECONDS_MAX
from goqueue.quantities import TIME_NS_MAX, format_duration, format_time, parse_duration, parse_time

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Nanoseconds(int):
    """A time as nanoseconds since the epoch, where a bare number would be an offset."""

    __slots__ = ()


Moment = datetime | str | int
"""A datetime with its zone, RFC 3339 text, or nanoseconds since the epoch."""


def nanoseconds(moment: Moment) -> int:
    """Return a time as nanoseconds since the epoch."""
    if isinstance(moment, str):
        try:
            return parse_time(moment)
        except ValueError as error:
            raise RequestInvalid(str(error)) from None
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise RequestInvalid(f"{moment.isoformat()} has no time zone", hint="write datetime.now(UTC), for example")
        moment = (moment - _EPOCH) // _MICROSECOND * 1000
    if not 0 <= moment <= TIME_NS_MAX:
        raise RequestInvalid(f"{moment} nanoseconds since the epoch are outside of what can be stored")
    return int(moment)


def to_text(moment: Moment) -> str:
    """Return a time in RFC 3339, with its nanoseconds."""
    return format_time(nanoseconds(moment))


def to_datetime(moment_ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=moment_ns // 1000)


def seconds(duration: str | float | timedelta, name: str) -> float:
    """Return a duration in seconds: from text with a unit, a number of seconds or a timedelta."""
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    if isinstance(duration, str):
        try:
            return parse_duration(duration)
        except ValueError as error:
            raise RequestInvalid(f"{name}: {error}") from None
    if not 0 <= duration < float("inf"):
        raise RequestInvalid(f"{name}: {duration} is not a number of seconds")
    return float(duration)


Delay = str | float | timedelta
"""A number of seconds, a timedelta, or text such as 5m."""

DeliverAt = datetime | str | Nanoseconds
"""A datetime with its zone, RFC 3339 text, or `Nanoseconds`. A bare number would be ambiguous."""

_DAYS_MAX = round(DELAY_SECONDS_MAX / 86_400)
_BOTH = "a message is delivered after a delay or at a time: give one of them"


def delay_header(
    delay: Delay | None, deliver_at: DeliverAt | None, now_ns: Callable[[], int]
) -> tuple[str, bytes] | None:
    """Return the frame header with the delivery time; None for a message to be delivered at once."""
    delay_ns, time = _delay_ns(delay), _time(deliver_at)
    if time is None:
        return headers.deliver_in_header(delay_ns) if delay_ns else None
    if delay is not None and delay != "":
        raise RequestInvalid(_BOTH)
    time_ns = nanoseconds(time)
    present_ns = now_ns()
    if time_ns - present_ns > DELAY_SECONDS_MAX * NANOSECONDS:  # the broker would refuse the whole batch
        raise RequestInvalid(f"{to_text(time)} is too far ahead: {_DAYS_MAX} days are the most")
    return headers.deliver_at_header(max(time_ns, present_ns))  # a time in the past is now


def delay_fields(delay: Delay | None, deliver_at: DeliverAt | None) -> dict[str, Any]:
    """Return the delivery time as JSON fields; none for a message to be delivered at once."""
    time = _time(deliver_at)
    if delay is None or delay == "":
        return {} if time is None else {"deliver_at": to_text(time)}
    if time is not None:
        raise RequestInvalid(_BOTH)
    return {"delay": _delay_ns(delay) / NANOSECONDS}


def shift_text(shift: Delay) -> str:
    """Return a duration that may have a sign, as the broker reads it."""
    length, sign = _plain(shift, "shift"), ""
    if isinstance(length, str):
        length, sign = (length[1:], length[0]) if length[:1] in ("-", "+") else (length, "")
    elif length < 0:
        length, sign = -length, "-"
    return sign.strip("+") + format_duration(seconds(length, "shift"), exact=True)


def _delay_ns(delay: Delay | None) -> int:
    if delay is None or delay == "":
        return 0
    found = round(seconds(_plain(delay, "delay"), "delay") * NANOSECONDS)
    if found > DELAY_SECONDS_MAX * NANOSECONDS:
        raise RequestInvalid(f"a delay of {delay} is too long, {_DAYS_MAX} days are the most")
    return found


def _plain(duration: object, name: str) -> str | float:
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if isinstance(duration, (str, int, float)):
        return duration
    kind = type(duration).__name__
    raise RequestInvalid(f"{name} is {kind}", hint="write a number of seconds, a timedelta, or text such as 5m")


def _time(deliver_at: DeliverAt | None) -> DeliverAt | None:
    if deliver_at is None or deliver_at == "":
        return None
    if not isinstance(deliver_at, (str, datetime, Nanoseconds)):
        raise RequestInvalid(
            f"deliver_at is {deliver_at!r}", hint="write a datetime with its zone, RFC 3339 text, or Nanoseconds(...)"
        )
    return deliver_at
