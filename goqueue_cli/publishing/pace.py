"""Messages at a rate: evenly, by a schedule that is laid down once, so that no delay adds up."""

import time
from collections.abc import Callable, Iterator

from goqueue_cli.publishing.sources import Chunk

_SILENCE_SECONDS = 0.1
"""What a source was late by, beyond this, is not made up for: nobody wants an hour's worth of lines at once."""

_TICK_SECONDS = 0.001
"""Waking up costs more than it is worth below this."""

_SLEEP_SECONDS_MAX = 3600.0
"""At once: no clock counts the years that a tiny rate asks for."""

_ROUNDING = 1e-6
"""Of a message: what is due now must not seem to be due in the next instant."""


class Schedule:
    """Message `n` is due `n / rate` seconds after the first."""

    def __init__(self, rate: float, start: float) -> None:
        self._rate = rate
        self._start = start
        self._taken = 0

    def due(self, now: float) -> int:
        """How many may go out."""
        return max(0, int((now - self._start) * self._rate + _ROUNDING) + 1 - self._taken)

    def take(self, count: int) -> None:
        self._taken += count

    @property
    def next(self) -> float:
        """When the next one is due."""
        return self._start + self._taken / self._rate

    def forgive(self, now: float, seconds: float) -> None:
        """Begin anew from here if it is late, by at most so many seconds."""
        self._start += min(seconds, max(0.0, now - self.next))


def paced(
    chunks: Iterator[Chunk],
    rate: float | None,
    *,
    fresh: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Chunk]:
    """The same messages, so many a second. Those that are to be `fresh` are not asked for before they are due."""
    if rate is None:
        yield from chunks
        return
    schedule: Schedule | None = None
    while True:
        asked = clock()
        chunk = next(chunks, None)
        if chunk is None:
            return
        now = clock()
        schedule = schedule or Schedule(rate, now)
        if now - asked > _SILENCE_SECONDS:
            schedule.forgive(now, now - asked)
        done = 0
        while done < len(chunk.values):
            count = min(_wait(schedule, clock, sleep), len(chunk.values) - done)
            schedule.take(count)
            yield chunk.cut(done, done + count)
            done += count
        if fresh:
            _wait(schedule, clock, sleep)


def _wait(schedule: Schedule, clock: Callable[[], float], sleep: Callable[[float], None]) -> int:
    """How many are due, once that is at least one."""
    while not (count := schedule.due(now := clock())):
        sleep(min(max(schedule.next - now, _TICK_SECONDS), _SLEEP_SECONDS_MAX))
    return count
