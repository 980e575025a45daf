"""Reads of partitions for clients: they wait for messages, and for a replica to come far enough.

In a cluster a read has a check, which raises when this node may not answer it any more: before each wait, and when the
answer leaves.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.view import PartitionView
from goqueue.broker.core.work import Work
from goqueue.broker.filters.search import Search
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import Behind
from goqueue.limits import FILTER_PAUSE_SECONDS
from goqueue.observe.metrics import Metrics
from goqueue.quantities import quoted
from goqueue.runtime.deferred import Deferred
from goqueue.runtime.runner import completed_within
from goqueue.storage.reads import ReadResult

Check = Callable[[], None]


def no_check() -> None:
    """The check of a broker alone."""


class ReadingShell(Protocol):
    """The part of the runtime that reads need."""

    clock: Clock
    metrics: Metrics
    searchers: ThreadPoolExecutor
    is_stopping: bool

    async def perform(self, work: Work[Any], threads: ThreadPoolExecutor | None = None) -> Any: ...

    async def pause(self, seconds: float) -> None: ...


class PartitionReader:
    """Reads partitions, and waits for what is not there yet."""

    def __init__(self, shell: ReadingShell) -> None:
        self._shell = shell

    async def read(
        self,
        view: PartitionView,
        offset: int,
        max_bytes: int,
        *,
        wait: float = 0,
        skip_damage: bool = False,
        check: Check = no_check,
    ) -> ReadResult:
        """Read whole frames from this offset on. With `wait`, wait that long for the first.

        New messages may be invisible to these readers: aborted, or in an open transaction.
        """
        shell, now = self._shell, asyncio.get_running_loop().time
        until = now() + wait
        while True:
            began = shell.clock.monotonic_ns()
            read: ReadResult = await shell.perform(view.read(offset, max_bytes, skip_damage=skip_damage))
            check()
            if read.buffers:
                shell.metrics.fetch_seconds.observe((shell.clock.monotonic_ns() - began) / NANOSECONDS)
            left = until - now()
            if read.buffers or left <= 0 or shell.is_stopping:
                return read
            offset = read.next_offset
            await _wait_for_more(view.partition, left)

    async def search(self, search: Search, *, wait: float = 0, check: Check = no_check) -> Search:
        """Search for matching messages. With `wait`, also among those that arrive meanwhile.

        While little matches, new messages are collected for a moment: otherwise every commit would wake every
        search.
        """
        shell, now = self._shell, asyncio.get_running_loop().time
        until = now() + wait
        while True:
            began = search.next_offset
            await shell.perform(search.look(), shell.searchers)
            check()
            left = until - now()
            if search.matched or search.is_over or left <= 0 or shell.is_stopping:
                return search
            if search.is_at_end and search.next_offset > began:
                await shell.pause(min(left, FILTER_PAUSE_SECONDS))
            elif search.is_at_end:
                await _wait_for_more(search.partition, left)

    async def reach(self, partition: Partition, end: int, wait: float, check: Check = no_check) -> float:
        """Wait until the high watermark of this replica is at least `end`; return the seconds that are left of `wait`.

        Raises Behind.
        """
        now = asyncio.get_running_loop().time
        until = now() + wait
        while partition.high_watermark < end:
            left = until - now()
            if left <= 0 or self._shell.is_stopping:
                raise Behind(
                    f"partition {partition.number} of topic {quoted(partition.topic)} has come to offset "
                    f"{partition.high_watermark} here, and the read asks for {end}",
                    hint="ask again with a longer wait, or ask the leader",
                    topic=partition.topic,
                    partition=partition.number,
                    high_watermark=partition.high_watermark,
                    at_least=end,
                )
            await _wait_for_more(partition, left)
            check()
        return max(0.0, until - now())


async def _wait_for_more(partition: Partition, seconds: float) -> None:
    more: Deferred[None] = Deferred()
    forget = partition.watch(partial(more.resolve, None))
    try:
        await completed_within(more, seconds)
    finally:
        forget()
