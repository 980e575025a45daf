"""When a message is to be delivered, as callers say it: after a delay or at a time, checked at the call.

A delay counts from when the broker has stored the message, and a time is one of the broker's clock. No delay, a delay
of nothing and an empty text all mean: at once.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from goqueue import delay as headers
from goqueue.client.times import Nanoseconds, nanoseconds, seconds, to_text
from goqueue.clock import NANOSECONDS
from goqueue.errors import RequestInvalid
from goqueue.limits import DELAY_SECONDS_MAX
from goqueue.quantities import format_duration

Delay = str | float | timedelta
"""A number of seconds, a timedelta, or text such as 5m."""

DeliverAt = datetime | str | Nanoseconds
"""A datetime with its zone, RFC 3339 text, or `Nanoseconds`. A bare number would be misread as often as not."""

_DAYS_MAX = round(DELAY_SECONDS_MAX / 86_400)
_BOTH = "a message is delivered after a delay or at a time: say one of them"


def header_of(delay: Delay | None, deliver_at: DeliverAt | None, now_ns: Callable[[], int]) -> tuple[str, bytes] | None:
    """The header that says so in a frame; None where it is to be delivered at once."""
    delay_ns, time = _delay_ns(delay), _time(deliver_at)
    if time is None:
        return headers.deliver_in(delay_ns) if delay_ns else None
    if delay is not None and delay != "":
        raise RequestInvalid(_BOTH)
    time_ns = nanoseconds(time)
    present_ns = now_ns()
    if time_ns - present_ns > DELAY_SECONDS_MAX * NANOSECONDS:  # in a batch it would be refused with all the others
        raise RequestInvalid(f"{to_text(time)} is too far ahead: {_DAYS_MAX} days are the most")
    return headers.deliver_at(max(time_ns, present_ns))  # nobody is late for what is said afterwards


def fields_of(delay: Delay | None, deliver_at: DeliverAt | None) -> dict[str, Any]:
    """The same as fields of JSON; none where neither is said."""
    time = _time(deliver_at)
    if delay is None or delay == "":
        return {} if time is None else {"deliver_at": to_text(time)}
    if time is not None:
        raise RequestInvalid(_BOTH)
    return {"delay": _delay_ns(delay) / NANOSECONDS}


def shift_text(shift: Delay) -> str:
    """A duration that may have a sign, as the broker reads it."""
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
