"""The event loop: time slices for long work, its latency, and stalls of the process."""

import asyncio
import logging
from collections.abc import Callable

from goqueue.clock import NANOSECONDS, Clock, StallFreeClock
from goqueue.limits import (
    DOCTOR_SLICE_SECONDS,
    LOOP_HEARTBEAT_SECONDS,
    LOOP_LATENCY_SAMPLE_SECONDS,
    STALL_REPORT_SECONDS,
)
from goqueue.quantities import format_duration


class TimeSlices:
    """Splits long work into slices: `await rest()` wherever other work may run in between."""

    def __init__(self, seconds: float = DOCTOR_SLICE_SECONDS) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + seconds

    async def rest(self) -> None:
        if self._loop.time() >= self._until:
            await asyncio.sleep(0)
            self._until = self._loop.time() + self._seconds


class LoopLatencyMeter:
    """Measures how late the event loop calls a timer."""

    def __init__(self, observe: Callable[[float], None]) -> None:
        self._observe = observe
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._arm(asyncio.get_running_loop())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + LOOP_LATENCY_SAMPLE_SECONDS

        def look() -> None:
            self._observe(max(0.0, loop.time() - due))
            self._arm(loop)

        self._timer = loop.call_at(due, look)


_log = logging.getLogger("goqueue.runtime")
_TOLD_NS = round(STALL_REPORT_SECONDS * NANOSECONDS)


class StallDetector:
    """Drives the clock of client deadlines from the event loop, and counts stalls of the process."""

    def __init__(self, stall_free: StallFreeClock, clock: Clock) -> None:
        self.stalls = 0
        self.seconds = 0.0
        """Total duration."""
        self._stall_free = stall_free
        self._clock = clock
        self._longest: tuple[float, int] = 0.0, 0
        """Seconds and end of the longest recent stall."""
        self._timer: asyncio.TimerHandle | None = None
        stall_free.beat()  # a slow start must not shorten sessions

    def start(self) -> None:
        loop = asyncio.get_running_loop()

        def beat() -> None:
            self._timer = loop.call_later(LOOP_HEARTBEAT_SECONDS, beat)
            self._stall_free.beat()

        beat()
        self._stall_free.on_stall.subscribe(self._note)  # a slow start is not a stall

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def longest_seconds(self) -> float:
        """Seconds of the longest stall within the last STALL_REPORT_SECONDS."""
        seconds, ended_ns = self._longest
        return seconds if self._clock.monotonic_ns() - ended_ns < _TOLD_NS else 0.0

    def _note(self, stall_ns: int) -> None:
        seconds = stall_ns / NANOSECONDS
        self.stalls += 1
        self.seconds += seconds
        if seconds >= self.longest_seconds:
            self._longest = seconds, self._clock.monotonic_ns()
        _log.warning(
            "the broker stalled for %s; sessions, leases and transactions are extended by that time",
            format_duration(round(seconds, 3)),
        )
