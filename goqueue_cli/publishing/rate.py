"""Messages at a constant rate, by a fixed schedule, so that delays do not add up."""

import time
from collections.abc import Callable, Iterator

from goqueue_cli.publishing.sources import MessageChunk

_SILENCE_SECONDS = 0.1
"""A source that is late by more than this shifts the schedule, so that no burst follows."""

_TICK_SECONDS = 0.001
"""Waking up costs more than it is worth below this."""

_SLEEP_SECONDS_MAX = 3600.0
"""A longer sleep is repeated: a tiny rate could exceed what the clock can count."""

_ROUNDING = 1e-6
"""Of a message, so that a message that is due now does not appear due in the next instant."""


class PublishSchedule:
    """Message `n` is due `n / rate` seconds after the first."""

    def __init__(self, rate: float, start: float) -> None:
        self._rate = rate
        self._start = start
        self._taken = 0

    def due(self, now: float) -> int:
        """Return how many messages may be sent."""
        return max(0, int((now - self._start) * self._rate + _ROUNDING) + 1 - self._taken)

    def take(self, count: int) -> None:
        self._taken += count

    @property
    def next(self) -> float:
        return self._start + self._taken / self._rate

    def forgive(self, now: float, seconds: float) -> None:
        """Shift the schedule by the delay of the next message, by at most `seconds`."""
        self._start += min(seconds, max(0.0, now - self.next))


def paced(
    chunks: Iterator[MessageChunk],
    rate: float | None,
    *,
    fresh: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[MessageChunk]:
    """Yield the messages at a rate; `fresh` messages are not generated before they are due."""
    if rate is None:
        yield from chunks
        return
    schedule: PublishSchedule | None = None
    while True:
        asked = clock()
        chunk = next(chunks, None)
        if chunk is None:
            return
        now = clock()
        schedule = schedule or PublishSchedule(rate, now)
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


def _wait(schedule: PublishSchedule, clock: Callable[[], float], sleep: Callable[[float], None]) -> int:
    """Wait until a message is due, and return how many are."""
    while not (count := schedule.due(now := clock())):
        sleep(min(max(schedule.next - now, _TICK_SECONDS), _SLEEP_SECONDS_MAX))
    return count
