"""Times that answers took, in few numbers."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Self

PAUSE_SECONDS = 0.004
"""Before each message to an idle broker: the reader is waiting again, and nothing is still cleaning up."""
ANSWER_SECONDS_MAX = 10


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers per second, and p50 and p99 in milliseconds."""

    rate: float
    half: float
    most: float

    @classmethod
    def of(cls, times: Sequence[float], seconds: float) -> Self:
        """From the seconds that each took, and those that all took together."""
        return cls(len(times) / seconds, *percentiles(times))


def percentiles(times: Sequence[float]) -> tuple[float, float]:
    """The milliseconds within which half of these seconds are, and 99 of 100."""
    cuts = statistics.quantiles(times, n=100)
    return cuts[49] * 1000, cuts[98] * 1000


async def _nothing() -> None:
    pass


async def exchange(
    publish: Callable[[], Awaitable[object]],
    receive: Callable[[], Awaitable[object]],
    count: int,
    finish: Callable[[], Awaitable[object]] = _nothing,
) -> Answers:
    """Publish to a reader that already waits, many times; the clock stops when the message is in its hands.

    What there is to `finish` about a message is done before the reader waits for the next one.
    """

    async def received() -> float:
        await receive()
        return time.perf_counter()

    times = []
    start = time.perf_counter()
    for _ in range(count + count // 10):
        arrival = asyncio.ensure_future(received())
        await asyncio.sleep(PAUSE_SECONDS)
        begin = time.perf_counter()
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            await publish()
            times.append(await arrival - begin)
            await finish()
    return Answers.of(times[count // 10 :], time.perf_counter() - start)


async def saturate(publish: Callable[[], Awaitable[object]], count: int, waiters: int) -> Answers:
    """Publish from so many tasks, each of which waits for its answer before it goes on."""
    await _publish_timed(publish, count // 10, waiters)
    begin = time.perf_counter()
    times = await _publish_timed(publish, count, waiters)
    return Answers.of(times, time.perf_counter() - begin)


async def _publish_timed(publish: Callable[[], Awaitable[object]], count: int, waiters: int) -> list[float]:
    left = iter(range(count))
    times: list[float] = []

    async def one() -> None:
        for _ in left:
            begin = time.perf_counter()
            await publish()
            times.append(time.perf_counter() - begin)

    async with asyncio.TaskGroup() as group:
        for _ in range(waiters):
            group.create_task(one())
    return times
