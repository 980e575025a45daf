"""Numbers as a glance takes them in: short, with a unit, with a direction, and with a tone where it matters."""

from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_duration, format_size, format_time, parse_time

NOTHING = "-"
WARNING_SHARE = 0.7
CRITICAL_SHARE = 0.9

_STEPS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def count(number: float) -> str:
    """A whole number with its thousands apart."""
    return f"{round(number):,}"


def short(number: float) -> str:
    """Three digits and a letter: 987, 12.3k, 1.2M. Below one, what is left of it."""
    for step, letter in _STEPS:
        if abs(number) >= step * 0.9995:
            return f"{_three(number / step)}{letter}"
    return _three(number)


def _three(number: float) -> str:
    size = abs(number)
    if size >= 99.95 or number == round(number):
        return f"{number:.0f}"
    return f"{number:.1f}" if size >= 0.95 else f"{number:.2g}"


def rate(number: float) -> str:
    """Of something that happens each second."""
    return f"{short(number)}/s"


def size(number: float) -> str:
    return format_size(round(number))


def size_rate(number: float) -> str:
    return f"{size(number)}/s"


def milliseconds(number: float) -> str:
    return format_duration(number / 1000) if number >= 1000 else f"{_three(number)}ms"


def seconds(number: float | None) -> str:
    """A duration; None is one that has no end."""
    return "∞" if number is None else format_duration(number)


def share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def percent(part: float) -> str:
    return f"{part * 100:.0f}%"


def share_tone(part: float) -> str:
    """How much attention a share of something limited deserves."""
    return "bad" if part >= CRITICAL_SHARE else "warn" if part >= WARNING_SHARE else ""


def arrow(now: float, before: float | None) -> str:
    """Where a number went since the answer before."""
    if before is None or now == before:
        return " "
    return "↑" if now > before else "↓"


def clock(time_ns: int) -> str:
    """The time of day, in UTC."""
    return format_time(time_ns)[11:19]


def moment(time_ns: int) -> str:
    """The time of day to the millisecond."""
    return format_time(time_ns)[11:23]


def age(text: str, now_ns: int) -> str:
    """How long ago a time in RFC 3339 was."""
    try:
        then = parse_time(text)
    except ValueError:
        return NOTHING
    return format_duration(max(0, now_ns - then) / NANOSECONDS)
