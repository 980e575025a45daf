"""How numbers of a broker look in the tables of every command: rates, ages, and runs of partitions."""

import time
from collections.abc import Iterable, Iterator
from itertools import groupby

from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_duration, format_size, parse_time

PRIORITIES = ("critical", "high", "normal", "low", "background")


def rate(a_second: float) -> str:
    """As many digits as tell something."""
    if a_second >= 100:
        return f"{a_second:,.0f}/s"
    if 0 < a_second < 0.01:
        return "<0.01/s"
    digits = f"{a_second:.1f}" if a_second >= 10 else f"{a_second:.2f}"
    return f"{digits.rstrip('0').rstrip('.')}/s"


def size_rate(a_second: float) -> str:
    return f"{format_size(round(a_second))}/s"


def milliseconds(count: float) -> str:
    return format_duration(round(count / 1000, 6))


def age(moment: str) -> str:
    """How long ago something was: it takes less room than when. The clock of the broker may be ahead of ours."""
    return format_duration(max(0, time.time_ns() - parse_time(moment)) / NANOSECONDS)


def ago(moment: str) -> str:
    return f"{age(moment)} ago"


def until(moment: str) -> str:
    """How far ahead something is, or how long ago it was to be."""
    seconds = (parse_time(moment) - time.time_ns()) / NANOSECONDS
    return f"in {format_duration(seconds)}" if seconds > 0 else f"{format_duration(-seconds)} ago"


def second(moment: str) -> str:
    """A time to the second: what is finer tells a person nothing, and takes room."""
    whole, _, fraction = moment.partition(".")
    return f"{whole}Z" if fraction.endswith("Z") else moment


def priority(number: int) -> str:
    """Its name, as `--priority` takes it."""
    return PRIORITIES[number] if 0 <= number < len(PRIORITIES) else str(number)


def partitions(places: Iterable[tuple[str, int]]) -> str:
    """`orders/0-2,5 payments/1` of pairs of topics and partitions; - is none."""
    topics = groupby(sorted(places), key=lambda place: place[0])
    return " ".join(f"{topic}/{','.join(_runs(number for _, number in found))}" for topic, found in topics) or "-"


def _runs(numbers: Iterable[int]) -> Iterator[str]:
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        yield str(members[0]) if len(members) == 1 else f"{members[0]}-{members[-1]}"
