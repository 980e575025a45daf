"""Sizes, durations and times as people write them, and numbers as people read them.

A size is a number with `B`, `KiB`, `MiB`, `GiB`, `TiB`, `PiB` (steps of 1,024) or `KB`, `MB`, `GB`,
`TB`, `PB` (steps of 1,000); a number alone is bytes. A duration is one or more numbers with `d`,
`h`, `m`, `s`, `ms`, `us` or `ns`, from large to small, as in `1h30m`; a number alone is seconds.
A time is what RFC 3339 says, as in `2026-03-01T12:00:00.5Z` or with an offset such as `+02:00`.

Reading is strict, since a misread unit is wrong by a factor of a thousand: one space may stand
before a unit, and nothing else is forgiven. All arithmetic is on whole numbers, so `0.1s` is
exactly 100,000,000 nanoseconds on its way. Every refusal is a ValueError with one sentence.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date
from functools import lru_cache
from itertools import pairwise

from goqueue.clock import NANOSECONDS

SIZE_BYTES_MAX = 2**63 - 1  # what a signed 64-bit number holds
DURATION_NS_MAX = 2**63 - 1  # the same: about 292 years
TIME_NS_MAX = 2**63 - 1  # nanoseconds since 1970 in a signed 64-bit number end on 2262-04-11
TEXT_CHARACTERS_MAX = 40  # far more than any of them needs; a million digits take seconds to read

_BINARY = {"PiB": 2**50, "TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10}
_DECIMAL = {"PB": 10**15, "TB": 10**12, "GB": 10**9, "MB": 10**6, "KB": 10**3}
SIZE_UNITS: Mapping[str, int] = {**_BINARY, **_DECIMAL, "B": 1}
DURATION_UNITS: Mapping[str, int] = {
    "d": 86_400 * NANOSECONDS,
    "h": 3_600 * NANOSECONDS,
    "m": 60 * NANOSECONDS,
    "s": NANOSECONDS,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
}

_NUMBER = r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
_SIZE = re.compile(rf"({_NUMBER}) ?([A-Za-z]*)")
_PART = re.compile(rf"({_NUMBER}) ?([A-Za-z\u00b5\u03bc]+)")
_DURATION = re.compile(rf"{_PART.pattern}(?: ?{_PART.pattern})*")

_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:([+-])([0-9]{2}):([0-9]{2})|[Zz])"
)
_EPOCH_DAY = date(1970, 1, 1).toordinal()

# What people write for a unit in other programs, where the letters alone do not give it away.
_ALIASES = {"min": "m", "mins": "m", "sec": "s", "secs": "s", "hr": "h", "hrs": "h", "\u00b5s": "us", "\u03bcs": "us"}


def parse_size(text: str) -> int:
    """Bytes: `64MiB`, `1.5GiB`, `1MB`, `4096`."""
    found = _SIZE.fullmatch(_checked(text, "size", "64MiB"))
    if found is None:
        raise _unreadable(text, "size", "64MiB")
    number, unit = found.groups()
    if unit and unit not in SIZE_UNITS:
        raise ValueError(f"{quoted(text)} has the unknown unit {quoted(unit)}: {_unit_hint(unit, SIZE_UNITS)}")
    size = _scaled(number, SIZE_UNITS[unit or "B"])
    if size is None:
        raise ValueError(f"{quoted(text)} is not a whole number of bytes")
    if size > SIZE_BYTES_MAX:
        raise ValueError(f"{quoted(text)} is too large: no size passes {SIZE_BYTES_MAX:,} bytes")
    return size


def parse_duration(text: str) -> float:
    """Seconds: `500ms`, `30s`, `1h30m`, `7d`, `30`, `0.5`. Nothing finer than a nanosecond."""
    _checked(text, "duration", "30s")
    if re.fullmatch(_NUMBER, text):
        parts = [(text, "s")]
    elif _DURATION.fullmatch(text):
        parts = [(number, unit) for number, unit in _PART.findall(text)]
    else:
        raise _unreadable(text, "duration", "500ms, 30s or 1h30m")
    _check_order(text, parts)
    steps = [_scaled(number, DURATION_UNITS[unit]) for number, unit in parts]
    total = sum(step for step in steps if step is not None)
    if None in steps:
        raise ValueError(f"{quoted(text)} is finer than a nanosecond")
    if total > DURATION_NS_MAX:
        raise ValueError(f"{quoted(text)} is too long: no duration passes 292 years")
    return total / NANOSECONDS


def _checked(text: str, what: str, example: str) -> str:
    """Refuse mistakes that have an error message of their own."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise ValueError(f"{quoted(text)} is too long for a {what}")
    if re.match(r"-[0-9]", text):
        raise ValueError(f"{quoted(text)} is negative: a {what} is at least 0")
    if re.match(r"0[0-9]", text):
        raise ValueError(f"{quoted(text)} begins with a zero, which some read as octal: leave it away")
    if text != text.strip():
        raise ValueError(f"{quoted(text)} begins or ends with a space: write it bare, as in {example}")
    return text


def _unreadable(text: str, what: str, example: str) -> ValueError:
    return ValueError(f"{quoted(text)} is not a {what}: write a number with a unit, as in {example}")


def _check_order(text: str, parts: list[tuple[str, str]]) -> None:
    for _, unit in parts:
        if unit not in DURATION_UNITS:
            hint = _unit_hint(unit, DURATION_UNITS)
            raise ValueError(f"{quoted(text)} has the unknown unit {quoted(unit)}: {hint}")
    factors = [DURATION_UNITS[unit] for _, unit in parts]
    if any(after >= before for before, after in pairwise(factors)):
        raise ValueError(f"{quoted(text)} does not go from large units to small, each once, as in 1h30m")
    if any("." in number for number, _ in parts[:-1]):
        raise ValueError(f"{quoted(text)} has a fraction before its last unit")


def _unit_hint(unit: str, units: Iterable[str]) -> str:
    """Return the unit that was probably meant; of two that differ in meaning (`M`), both."""
    wanted = _ALIASES.get(unit.lower(), unit).lower()
    meant = [known for known in units if known.lower() in {wanted, f"{wanted}ib", f"{wanted}b"}]
    if not meant and unit.lower().rstrip("s") in {"day", "hour", "minute", "second"}:
        meant = [known for known in units if known == unit[0].lower()]
    return f"write {' or '.join(meant)}" if meant else f"known are {', '.join(units)}"


def _scaled(number: str, factor: int) -> int | None:
    """`number` times `factor` in whole numbers; None when something is left over."""
    whole, _, fraction = number.partition(".")
    product, rest = divmod(int(whole + fraction) * factor, 10 ** len(fraction))
    return None if rest else product


def format_size(size: int, *, exact: bool = False) -> str:
    """`64MiB`. Rounded to three digits for reading; with `exact`, whatever `parse_size` reads back."""
    if size < 0:
        return f"-{format_size(-size, exact=exact)}"
    return _exact_size(size) if exact else _rounded_size(size)


def format_disk(used_bytes: int, free_bytes: int, total_bytes: int) -> str:
    """Format the use of a disk with the numbers of `df`: reserved blocks are neither used nor available."""
    share = used_bytes / max(1, used_bytes + free_bytes)
    used, free = format_size(used_bytes), format_size(free_bytes)
    return f"{used} used and {free} available of {format_size(total_bytes)} ({share:.0%})"


def _exact_size(size: int) -> str:
    for unit, factor in SIZE_UNITS.items():
        if size >= factor and size * 100 % factor == 0:
            return f"{_decimal(size * 100 // factor, 2)}{unit}"
    return f"{size}B"


def _rounded_size(size: int) -> str:
    for unit, factor in reversed(_BINARY.items()):
        if size < 1024:
            return f"{size}B"
        digits = 2 if size < 10 * factor else 1 if size < 100 * factor else 0
        count = (size * 10**digits + factor // 2) // factor
        if count < 1024 * 10**digits or unit == "PiB":
            return f"{_decimal(count, digits)}{unit}"
    raise AssertionError("the largest unit takes everything")


def format_duration(seconds: float, *, exact: bool = False) -> str:
    """`1h30m`. Rounded for reading; with `exact`, whatever `parse_duration` reads back."""
    if seconds < 0:
        return f"-{format_duration(-seconds, exact=exact)}"
    try:
        numerator, denominator = seconds.as_integer_ratio()
    except (ValueError, OverflowError):
        raise ValueError(f"{seconds} seconds cannot be written as a duration") from None
    nanoseconds = (numerator * NANOSECONDS * 2 + denominator) // (denominator * 2)
    if not exact:
        step = _reading_step(nanoseconds)
        nanoseconds = (nanoseconds + step // 2) // step * step
    return _exact_duration(nanoseconds)


def _reading_step(nanoseconds: int) -> int:
    """Return the rounding step for a length: three digits, then the next smaller unit."""
    if nanoseconds < DURATION_UNITS["m"]:
        return int(10 ** max(0, len(str(nanoseconds)) - 3))
    if nanoseconds < DURATION_UNITS["h"]:
        return DURATION_UNITS["s"]
    return DURATION_UNITS["m"] if nanoseconds < DURATION_UNITS["d"] else DURATION_UNITS["h"]


def _exact_duration(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    text = ""
    for unit, factor in DURATION_UNITS.items():
        if nanoseconds < factor:
            continue
        if factor <= NANOSECONDS:  # the last part: whatever is left becomes its fraction
            return f"{text}{_decimal(nanoseconds, len(str(factor)) - 1)}{unit}"
        count, nanoseconds = divmod(nanoseconds, factor)
        text += f"{count}{unit}"
        if nanoseconds == 0:
            break
    return text


def format_count(count: int, noun: str = "", plural: str = "") -> str:
    """`1,234,567`, or with a noun `1 message`, `3 messages`; `plural` is for what an s does not make."""
    if not noun:
        return f"{count:,}"
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def parse_time(text: str) -> int:
    """Nanoseconds since the epoch: `2026-03-01T12:00:00Z`, `2026-03-01T14:00:00.123456789+02:00`."""
    found = _TIME.fullmatch(text) if len(text) <= TEXT_CHARACTERS_MAX else None
    if found is None:
        raise ValueError(f"{quoted(text)} is not a time: write it as in 2026-03-01T12:00:00Z")
    fraction, sign = found[7] or "", found[8]
    if len(fraction) > 9:
        raise ValueError(f"{quoted(text)} is finer than a nanosecond")
    seconds = _day(text, *map(int, found.group(1, 2, 3))) * 86_400 + _clock(text, *map(int, found.group(4, 5, 6)))
    if sign:
        offset = _clock(text, int(found[9]), int(found[10]), 0)
        seconds += offset if sign == "-" else -offset
    time = seconds * NANOSECONDS + int(fraction.ljust(9, "0"))
    if not 0 <= time <= TIME_NS_MAX:
        raise ValueError(f"{quoted(text)} is outside of what can be stored: 1970-01-01 to 2262-04-11")
    return time


def _day(text: str, year: int, month: int, day: int) -> int:
    """Days since the epoch."""
    try:
        return date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        raise ValueError(f"{quoted(text)} names a day that no calendar has") from None


def _clock(text: str, hour: int, minute: int, second: int) -> int:
    """Seconds of a time of day, or of an offset."""
    if second == 60:
        raise ValueError(f"{quoted(text)} is a leap second, which no clock here counts")
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{quoted(text)} names an hour that no clock shows")
    return hour * 3_600 + minute * 60 + second


def format_time(time: int) -> str:
    """`2026-03-01T12:00:00.000000000Z`: always as long, so that texts sort as their times do."""
    if not 0 <= time <= TIME_NS_MAX:
        raise ValueError(f"{time} nanoseconds since the epoch are outside of what can be written")
    seconds, fraction = divmod(time, NANOSECONDS)
    return f"{_second_text(seconds)}.{fraction:09d}Z"


@lru_cache(maxsize=1024)  # messages that are read together were mostly appended in the same seconds
def _second_text(seconds: int) -> str:
    days, second = divmod(seconds, 86_400)
    hour, rest = divmod(second, 3_600)
    return f"{date.fromordinal(_EPOCH_DAY + days).isoformat()}T{hour:02d}:{rest // 60:02d}:{rest % 60:02d}"


def _decimal(number: int, digits: int) -> str:
    """A number of `digits` decimal places without its last zeros."""
    whole, fraction = divmod(number, 10**digits)
    rest = f"{fraction:0{digits}}".rstrip("0") if digits else ""
    return f"{whole:d}.{rest}" if rest else f"{whole:d}"


def quoted(text: str) -> str:
    """A value inside a sentence: short, on one line, nothing in it that a terminal would obey."""
    return repr(text) if len(text) <= 80 else f"{text[:77]!r}..."
