"""A log on an event loop, as a broker has it: appends that wait for the disk, and the flusher's thread beside it."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial

from goqueue.clock import SystemClock
from goqueue.errors import GoQueueError
from goqueue.storage import scan
from goqueue.storage.disk import SystemDisk
from goqueue.storage.log import Log
from goqueue.storage.store import Store, StoreSettings


@asynccontextmanager
async def running_store(path: str, settings: StoreSettings | None = None) -> AsyncIterator[Store]:
    """A store whose reports come to this loop."""
    loop = asyncio.get_running_loop()

    def deliver(report: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(report)

    opened = Store.open(SystemDisk(), path, SystemClock(), owner="a benchmark", settings=settings, deliver=deliver)
    try:
        yield opened
    finally:
        opened.close()


def published(log: Log, content: bytes) -> "asyncio.Future[None]":
    """Take in what a client sent, and append it; done when it may be answered."""
    answer = asyncio.get_running_loop().create_future()
    log.append(scan.check_batch(bytearray(content)), partial(_answer, answer))
    return answer


def _answer(answer: "asyncio.Future[None]", error: GoQueueError | None) -> None:
    if answer.done():  # the waiting task has ended
        return
    if error is None:
        answer.set_result(None)
    else:
        answer.set_exception(error)


async def publish(log: Log, content: bytes, batches: int, in_flight: int) -> None:
    """Publish a batch many times, with so many of them waiting for their answer at a time."""
    left = iter(range(batches))

    async def producer() -> None:
        for _ in left:
            await published(log, content)

    await together(producer, in_flight)


async def publish_timed(log: Log, content: bytes, requests: int, waiters: int) -> list[float]:
    """The same, with the seconds that each answer took."""
    left: Iterator[int] = iter(range(requests))
    times: list[float] = []

    async def producer() -> None:
        for _ in left:
            begin = time.perf_counter()
            await published(log, content)
            times.append(time.perf_counter() - begin)

    await together(producer, waiters)
    return times


async def together(task: Callable[[], Awaitable[None]], count: int) -> None:
    """Run so many of them, and end when all have."""

    async def one() -> None:
        await task()

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(one())
