"""Formats of numbers and times in tables: rates, ages, and ranges of partitions."""

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_duration, format_size, parse_time

PRIORITIES = ("critical", "high", "normal", "low", "background")


def format_rate(a_second: float) -> str:
    if a_second >= 100:
        return f"{a_second:,.0f}/s"
    if 0 < a_second < 0.01:
        return "<0.01/s"
    digits = f"{a_second:.1f}" if a_second >= 10 else f"{a_second:.2f}"
    return f"{digits.rstrip('0').rstrip('.')}/s"


def format_size_rate(a_second: float) -> str:
    return f"{format_size(round(a_second))}/s"


def format_milliseconds(count: float) -> str:
    return format_duration(round(count / 1000, 6))


def format_age(moment: str) -> str:
    """Format the time since a moment; the clock of the broker may be ahead, so it is at least 0."""
    return format_duration(max(0, time.time_ns() - parse_time(moment)) / NANOSECONDS)


def format_ago(moment: str) -> str:
    return f"{format_age(moment)} ago"


def format_until(moment: str) -> str:
    """Format the time until a moment, or since it."""
    seconds = (parse_time(moment) - time.time_ns()) / NANOSECONDS
    return f"in {format_duration(seconds)}" if seconds > 0 else f"{format_duration(-seconds)} ago"


def format_to_second(moment: str) -> str:
    """Cut a time to the second."""
    whole, _, fraction = moment.partition(".")
    return f"{whole}Z" if fraction.endswith("Z") else moment


def format_names(names: Iterable[str]) -> str:
    return " ".join(names) or "-"


def format_fields(fields: Mapping[str, Any]) -> str:
    """Format the fields of a log line as `topic=orders partitions=3`."""
    return " ".join(f"{name}={_field_value(value)}" for name, value in fields.items())


def _field_value(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f'"{text}"' if not text or " " in text else text


def priority_name(number: int) -> str:
    """Return the name that `--priority` takes."""
    return PRIORITIES[number] if 0 <= number < len(PRIORITIES) else str(number)


def format_partitions(places: Iterable[tuple[str, int]]) -> str:
    """Format pairs of topic and partition as `orders/0-2,5 payments/1`; - is none."""
    topics = groupby(sorted(places), key=lambda place: place[0])
    return " ".join(f"{topic}/{','.join(_runs(number for _, number in found))}" for topic, found in topics) or "-"


def _runs(numbers: Iterable[int]) -> Iterator[str]:
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        yield str(members[0]) if len(members) == 1 else f"{members[0]}-{members[-1]}"
