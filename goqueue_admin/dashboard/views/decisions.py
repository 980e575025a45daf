"""What becomes of delayed messages instead: which of the three, when, and of which, as it is typed."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from goqueue.clock import NANOSECONDS
from goqueue.limits import DELAY_SECONDS_MAX
from goqueue.quantities import format_duration, format_time, parse_duration, quoted
from goqueue_admin.dashboard.views import times
from goqueue_admin.dashboard.views.redrives import parse_limit

WHENS = "5m   14:05   2026-03-01   2026-03-01T12:00:00Z   shift +1h   shift -10m"
DUES = "+1h   14:05   2026-03-01   2026-03-01T12:00:00Z"

_SHIFT = re.compile(r"shift\s*([+-]?)\s*(\S+)")
_DURATION = re.compile(r"\+?([0-9.]+[a-z][0-9.a-z]*)")


class Deed(NamedTuple):
    """One of the three things that can be done; `done` is another form of its `verb`.

    One that `repeats` may be asked for again until all is done; what was only moved may fit again.
    """

    verb: str
    title: str
    done: str
    repeats: bool = True


DEEDS = {
    "cancel": Deed("cancel", "Cancel", "cancelled"),
    "reschedule": Deed("reschedule", "Reschedule", "rescheduled", repeats=False),
    "deliver": Deed("deliver", "Deliver now", "delivered"),
}


# --- when ---


class When(NamedTuple):
    """`delay` is from when it is done, `time_ns` a time, and a `shift` is from when each is due: one of the three."""

    delay: float | None = None
    time_ns: int | None = None
    shift: float | None = None

    def due_ns(self, due_ns: int, now_ns: int) -> int:
        """When one that is due then would be delivered."""
        if self.time_ns is not None:
            return self.time_ns
        if self.delay is not None:
            return now_ns + round(self.delay * NANOSECONDS)
        return max(0, due_ns + round((self.shift or 0) * NANOSECONDS))

    def of_one(self, due_ns: int) -> dict[str, Any]:
        """As the client takes it for a single one: there is no shift, so it is moved to the time that it comes to."""
        return {"deliver_at": format_time(self.due_ns(due_ns, 0))} if self.shift is not None else self.of_many()

    def of_many(self) -> dict[str, Any]:
        if self.time_ns is not None:
            return {"deliver_at": format_time(self.time_ns)}
        return {"delay": self.delay} if self.delay is not None else {"shift": self.shift}

    @property
    def words(self) -> tuple[str, ...]:
        """As flags of a command."""
        if self.time_ns is not None:
            return "--at", format_time(self.time_ns)
        if self.delay is not None:
            return "--delay", format_duration(self.delay, exact=True)
        shift = format_duration(self.shift or 0, exact=True)
        return "--shift", shift if shift.startswith("-") else f"+{shift}"


def parse_when(text: str, now_ns: int) -> When:
    if not text:
        raise ValueError(f"say when: {WHENS}")
    if found := _SHIFT.fullmatch(text):
        seconds = _ahead(parse_duration(found[2]), text)
        return When(shift=-seconds if found[1] == "-" else seconds)
    if found := _DURATION.fullmatch(text):
        return When(delay=_ahead(parse_duration(found[1]), text))
    if text.startswith("-"):
        raise ValueError(f"{quoted(text)} has passed: `shift {text}` makes each so much earlier")
    if text.lstrip("+").isdecimal():
        raise ValueError(f"{quoted(text)} has no unit: write {text}s for seconds")
    time_ns = times.parse_due(text, now_ns)
    _ahead((time_ns - now_ns) / NANOSECONDS, text)
    return When(time_ns=time_ns)


def _ahead(seconds: float, text: str) -> float:
    if seconds > DELAY_SECONDS_MAX:
        raise ValueError(f"{quoted(text)} is too far ahead: {format_duration(DELAY_SECONDS_MAX)} are the most")
    return seconds


# --- which ---


class Choice(NamedTuple):
    """What must be true of those that are meant, as a request and as flags of a command say it."""

    filters: tuple[str, ...] = ()
    wishes: tuple[tuple[str, Any], ...] = ()
    limit: int | None = None
    words: tuple[str, ...] = ()


def parse_choice(values: Mapping[str, str], now_ns: int) -> Choice:
    """Of the fields filter, partition, from, to and limit; those that are empty choose nothing."""
    filters = tuple(times.filters(values.get("filter", "")))
    words = [word for one in filters for word in ("--where", one)]
    wishes: dict[str, Any] = {}
    if text := values.get("partition", ""):
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise ValueError(f"the partition is {quoted(text)}: write a number, as in 0")
        wishes["partition"] = int(text)
        words += ["--partition", str(int(text))]
    for name in ("from", "to"):
        if text := values.get(name, ""):
            wishes[f"due_{name}"] = time = format_time(times.parse_due(text, now_ns))
            words += [f"--{name}", text if text == "now" or text[0] in "+-" else time]
    limit = parse_limit(values.get("limit", ""))
    if not words:
        words.append("--all")
    if limit is not None:
        words += ["--limit", str(limit)]
    return Choice(filters, tuple(wishes.items()), limit, tuple(words))
