"""Moments and durations, as callers hand them in."""

from datetime import UTC, datetime, timedelta

from goqueue.errors import RequestInvalid
from goqueue.quantities import TIME_NS_MAX, format_time, parse_duration, parse_time

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Nanoseconds(int):
    """A moment as nanoseconds since the epoch, where a bare number would be an offset."""

    __slots__ = ()


Moment = datetime | str | int
"""A datetime with its zone, RFC 3339 text, or nanoseconds since the epoch."""


def nanoseconds(moment: Moment) -> int:
    """Since the epoch."""
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
    """RFC 3339; nothing of the nanoseconds is lost."""
    return format_time(nanoseconds(moment))


def to_datetime(moment_ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=moment_ns // 1000)


def seconds(duration: str | float | timedelta, name: str) -> float:
    """A duration as text with a unit, as a number of seconds, or as a timedelta."""
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
