"""Time, as the rest of the program receives it: always handed in, never asked of the system.

Wall time may jump; it stamps messages and answers people. Monotonic time never goes back; it
measures and schedules. Both are whole nanoseconds, so that no arithmetic rounds.
"""

import time
from typing import Protocol

NANOSECONDS = 1_000_000_000


class Clock(Protocol):
    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds since some fixed moment."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def __repr__(self) -> str:
        return "<SystemClock>"
