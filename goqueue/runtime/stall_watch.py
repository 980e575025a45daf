"""Notices when the broker itself stood still: a stopped process, a paused virtual machine, a loop that was held up."""

import asyncio
import logging

from goqueue.clock import NANOSECONDS, Clock, StallFreeClock
from goqueue.limits import BEAT_SECONDS, STALL_TOLD_SECONDS
from goqueue.quantities import format_duration

_log = logging.getLogger("goqueue.runtime")
_TOLD_NS = round(STALL_TOLD_SECONDS * NANOSECONDS)


class StallWatch:
    """Has the clock of clients' deadlines beat with the event loop, and counts the stalls that it finds."""

    def __init__(self, stall_free: StallFreeClock, clock: Clock) -> None:
        self.stalls = 0
        self.seconds = 0.0
        """Of all of them."""
        self._stall_free = stall_free
        self._clock = clock
        self._longest: tuple[float, int] = 0.0, 0
        """Of the last hour or so: its seconds, and when it ended."""
        self._timer: asyncio.TimerHandle | None = None
        stall_free.beat()  # so that a slow start costs no member a part of its session

    def start(self) -> None:
        loop = asyncio.get_running_loop()

        def beat() -> None:
            self._timer = loop.call_later(BEAT_SECONDS, beat)
            self._stall_free.beat()

        beat()
        self._stall_free.on_stall = self._note  # a slow start is none

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def longest_seconds(self) -> float:
        """Of the stalls within the last STALL_TOLD_SECONDS."""
        seconds, ended_ns = self._longest
        return seconds if self._clock.monotonic_ns() - ended_ns < _TOLD_NS else 0.0

    def _note(self, stall_ns: int) -> None:
        seconds = stall_ns / NANOSECONDS
        self.stalls += 1
        self.seconds += seconds
        if seconds >= self.longest_seconds:
            self._longest = seconds, self._clock.monotonic_ns()
        _log.warning(
            "the broker stood still for %s: sessions, leases and transactions are given that time back",
            format_duration(round(seconds, 3)),
        )

    def __repr__(self) -> str:
        return f"<StallWatch {self.stalls} stalls, {self.seconds:.1f} s>"
