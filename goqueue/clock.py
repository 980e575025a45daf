"""Time, as the rest of the program receives it: always handed in, never asked of the system.

Wall time may jump; it stamps messages and answers people. Monotonic time never goes back; it
measures and schedules. Both are whole nanoseconds, so that no arithmetic rounds.
"""

import time
from collections.abc import Callable
from typing import Protocol

from goqueue.limits import STALL_SECONDS

NANOSECONDS = 1_000_000_000
_STALL_NS = round(STALL_SECONDS * NANOSECONDS)


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


class StallFreeClock:
    """A clock whose monotonic time leaves out the stalls of this process: it was stopped, or its machine was.

    Deadlines of clients are measured with it, so that the process does not take its own pause for theirs. Without
    `beat` it is the clock that it was given.

    What must stay true: monotonic time never goes back. It stands still once the last beat is STALL_SECONDS old. After
    a stall it goes on with the second beat only: by then the process has read what clients sent meanwhile.
    """

    def __init__(self, clock: Clock) -> None:
        self.machine = clock
        """The clock that counts stalls too: for the ages of messages, and for people."""
        self._beat_ns: int | None = None
        self._given_ns = 0
        """The time that was given last."""
        self._is_catching_up = False
        self.stalled_ns = 0
        """By how much this clock is behind."""
        self.on_stall: Callable[[int], None] = lambda _: None
        """Called by the beat that ends a stall, with how long it was."""

    def beat(self) -> None:
        """The process is running. To be called every BEAT_SECONDS, by the loop that reads what clients send."""
        now_ns = self.machine.monotonic_ns()
        self._advance(now_ns)
        gap_ns = 0 if self._beat_ns is None else now_ns - self._beat_ns
        self._beat_ns = now_ns
        # Where every beat is late, time has to go on all the same.
        self._is_catching_up = gap_ns > _STALL_NS and not self._is_catching_up
        if gap_ns > _STALL_NS:
            self.on_stall(gap_ns)

    def _advance(self, now_ns: int) -> None:
        if self._is_catching_up or (self._beat_ns is not None and now_ns - self._beat_ns > _STALL_NS):
            self.stalled_ns = now_ns - self._given_ns
        else:
            self._given_ns = now_ns - self.stalled_ns

    def now_ns(self) -> int:
        return self.machine.now_ns()

    def monotonic_ns(self) -> int:
        self._advance(self.machine.monotonic_ns())
        return self._given_ns

    def __repr__(self) -> str:
        return f"<StallFreeClock {self.stalled_ns} ns behind>"


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
