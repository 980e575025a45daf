"""Days to come, for messages that wait: no date that is written here would be ahead for ever."""

import time

from goqueue.quantities import format_time


def day(number: int) -> str:
    """So many days from today, as in 2026-03-01."""
    return format_time(time.time_ns() + number * 86_400 * 10**9)[:10]
