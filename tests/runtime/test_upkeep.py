"""Background work: what goes wrong with one partition costs nobody else anything."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from goqueue.broker.work import Work, run
from goqueue.errors import DiskFull
from goqueue.limits import GROUP_LOGS
from goqueue.runtime.upkeep import Upkeep
from tests.broker.brokers import Running


async def look_once(running: Running, perform: Callable[[Work[Any]], Awaitable[Any]]) -> None:
    upkeep = Upkeep(running.broker, running.store, running.disk, running.clock, perform)
    await upkeep._look_at_all()


def test_a_failure_at_one_partition_does_not_keep_upkeep_from_the_others() -> None:
    running = Running()
    running.create("orders", partitions=2)
    met: list[BaseException] = [ValueError("a mistake"), DiskFull("no room")]
    looked = 0

    async def perform(work: Work[Any]) -> None:
        nonlocal looked
        looked += 1
        if met and looked > 2:
            raise met.pop()
        run(work)

    asyncio.run(look_once(running, perform))
    expected = 2 + 1 + GROUP_LOGS + 2  # the trash, what groups recorded, the partitions of both, and of the topic
    assert (looked, met) == (expected, [])
