"""Days to come, for messages that wait: no date that is written here would be ahead for ever."""

import time

from goqueue.quantities import format_time

_NOW = time.time_ns()  # of all tests of a run, also of one at midnight


def day(number: int) -> str:
    """So many days from today, as in 2026-03-01."""
    return format_time(_NOW + number * 86_400 * 10**9)[:10]
