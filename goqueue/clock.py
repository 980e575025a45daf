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


class SteadyClock:
    """Wall time that does not jump: it is read once, and goes on as monotonic time does.

    What is due some seconds after it was decided is then due after that time, whatever becomes of the wall clock.
    """

    def __init__(self, clock: Clock, least_ns: int = 0) -> None:
        """`least_ns` is a moment that is known to have passed, should the wall clock have been set back meanwhile."""
        self._clock = clock
        self._ahead_ns = max(clock.now_ns(), least_ns) - clock.monotonic_ns()

    def now_ns(self) -> int:
        return self._clock.monotonic_ns() + self._ahead_ns

    def monotonic_ns(self) -> int:
        return self._clock.monotonic_ns()

    def __repr__(self) -> str:
        return "<SteadyClock>"
