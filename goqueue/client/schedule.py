"""Periodic schedules: when each occurs next. All times are UTC.

`Every` occurs at multiples of its interval since the epoch, so that all processes compute the same times: every 15
minutes is at :00, :15, :30 and :45. `Cron` has the usual five fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Protocol

from goqueue.clock import NANOSECONDS
from goqueue.errors import RequestInvalid
from goqueue.quantities import format_duration, parse_duration

EVERY_SECONDS_MIN, EVERY_SECONDS_MAX = 1, 365 * 86_400

_DAYS_MAX = 9 * 366  # from one February 29 to the next, over a century's end
_MINUTE = 60 * NANOSECONDS


class Schedule(Protocol):
    """Times at which something is to run."""

    def next_after(self, time_ns: int) -> int:
        """Return the first time after `time_ns`, in nanoseconds since the epoch."""

    def __str__(self) -> str:
        """Return the text that `parse_schedule` reads."""


@dataclass(frozen=True, slots=True)
class Every:
    """An interval of whole seconds."""

    seconds: int

    def next_after(self, time_ns: int) -> int:
        interval = self.seconds * NANOSECONDS
        return (time_ns // interval + 1) * interval

    def __str__(self) -> str:
        return f"every {format_duration(self.seconds, exact=True)}"


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, Mapping[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    ("day of week", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)
_NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
_HINT = "write minute, hour, day of month, month and day of week, as in '0 3 * * mon-fri'"


@dataclass(frozen=True, slots=True)
class Cron:
    """Five fields. If both days are restricted, one of them is enough, as in other crons."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    def next_after(self, time_ns: int) -> int:
        start = datetime.fromtimestamp((time_ns // _MINUTE + 1) * 60, UTC)
        day, first = start.date(), start.hour * 60 + start.minute
        for _ in range(_DAYS_MAX):
            if self._is_on(day):
                for hour in sorted(self.hours):
                    for minute in sorted(self.minutes):
                        if hour * 60 + minute >= first:
                            found = datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC)
                            return int(found.timestamp()) * NANOSECONDS
            day, first = day + timedelta(days=1), 0
        raise RequestInvalid(f"the schedule '{self.text}' never occurs", hint="check day of month and month")

    def _is_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_month or by_week if self.either_day else by_month and by_week

    def __str__(self) -> str:
        return f"cron {self.text}"


def every(seconds: float) -> Every:
    if not EVERY_SECONDS_MIN <= seconds <= EVERY_SECONDS_MAX or seconds != int(seconds):
        raise RequestInvalid(
            f"a schedule cannot run every {seconds:g} s",
            hint="write whole seconds, from 1s to 365d; for times of the day use cron",
        )
    return Every(int(seconds))


def cron(text: str) -> Cron:
    words = _NAMES.get(text.strip().lower(), text).lower().split()
    if len(words) != len(_FIELDS):
        raise RequestInvalid(f"the schedule {text!r:.80} has {len(words)} fields, and needs 5", hint=_HINT)
    minutes, hours, days, months, weekdays = (_field(word, *field) for word, field in zip(words, _FIELDS, strict=True))
    weekdays = frozenset(day % 7 for day in weekdays)
    either = not words[2].startswith("*") and not words[4].startswith("*")
    found = Cron(" ".join(words), minutes, hours, days, months, weekdays, either)
    found.next_after(0)  # refuses February 30
    return found


def _field(word: str, name: str, least: int, most: int, names: Mapping[str, int]) -> frozenset[int]:
    found: set[int] = set()
    for part in word.split(","):
        span, slash, step_text = part.partition("/")
        first_text, dash, last_text = span.partition("-")
        try:
            step = int(step_text) if slash else 1
            if span == "*":
                first, last = least, most
            else:
                first = _number(first_text, names)
                last = _number(last_text, names) if dash else most if slash else first
        except ValueError:
            raise RequestInvalid(f"the {name} {word!r:.80} of a schedule is not understood", hint=_HINT) from None
        if not least <= first <= last <= most or step < 1:
            raise RequestInvalid(f"the {name} {word!r:.80} of a schedule is not in {least} to {most}", hint=_HINT)
        found.update(range(first, last + 1, step))
    return frozenset(found)


def _number(text: str, names: Mapping[str, int]) -> int:
    if text in names:
        return names[text]
    if not text.isascii() or not text.isdigit():
        raise ValueError(text)
    return int(text)


def parse_schedule(text: str) -> Schedule:
    """Return the schedule with this text: one that a message carries."""
    kind, _, rest = text.partition(" ")
    return every(parse_duration(rest)) if kind == "every" else cron(rest)
