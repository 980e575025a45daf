"""Clocks, which the program passes to the code that needs the time.

Wall time may jump; it is for message timestamps and for people. Monotonic time never goes back; it is for measuring and
scheduling. Both are whole nanoseconds, so that no arithmetic rounds.
"""

import time
from typing import Protocol

from goqueue.events import Signal
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


_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime_ns() -> int:
    """Nanoseconds since some fixed moment, also those in which the machine was suspended: leases end meanwhile."""
    return time.clock_gettime_ns(_BOOTTIME)


class SystemClock:
    """The machine's own clocks, asked several times for each request: without a function around them."""

    now_ns = staticmethod(time.time_ns)
    monotonic_ns = staticmethod(time.monotonic_ns)


class StallFreeClock:
    """A clock whose monotonic time leaves out the times in which this process or its machine was stopped.

    The deadlines of clients are measured with it, so that a pause of the broker does not count as theirs. Without
    `beat` it is the clock that it was given.

    What must stay true: monotonic time never goes back. It stands still once the last beat is STALL_SECONDS old. After
    a stall it continues with the second beat only: by then the process has read what clients sent meanwhile.
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
        self.on_stall: Signal[[int]] = Signal()
        """Called by the beat that ends a stall, with how long it was."""

    def beat(self) -> None:
        """Record that the process runs. The loop that reads from clients calls this every BEAT_SECONDS."""
        now_ns = self.machine.monotonic_ns()
        self._advance(now_ns)
        gap_ns = 0 if self._beat_ns is None else now_ns - self._beat_ns
        self._beat_ns = now_ns
        # Where every beat is late, time has to go on all the same.
        self._is_catching_up = gap_ns > _STALL_NS and not self._is_catching_up
        if gap_ns > _STALL_NS:
            self.on_stall.emit(gap_ns)

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


class SteadyClock:
    """Wall time without jumps: it is read once and continues as monotonic time does.

    What is due some seconds after a decision is then due after that time, even if the wall clock is changed.
    """

    def __init__(self, clock: Clock, least_ns: int = 0) -> None:
        """`least_ns` is a time known to have passed, in case the wall clock was set back meanwhile."""
        self._clock = clock
        self._ahead_ns = max(clock.now_ns(), least_ns) - clock.monotonic_ns()

    def pass_by(self, least_ns: int) -> None:
        """Go on from this time, if it is later than now: it is known to have passed."""
        self._ahead_ns = max(self._ahead_ns, least_ns - self._clock.monotonic_ns())

    def now_ns(self) -> int:
        return self._clock.monotonic_ns() + self._ahead_ns

    def monotonic_ns(self) -> int:
        return self._clock.monotonic_ns()
