"""A reader for event loops: one task a partition has its next answer under way while this one is read."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

from goqueue.client.asynchronous import AsyncConnection
from goqueue.client.fetches import Fetched
from goqueue.client.message import Message
from goqueue.client.reading import Lane, matched, outcome, positions, scanned
from goqueue.client.retry import Backoff
from goqueue.errors import ChecksumMismatch, GoQueueError, RequestInvalid, TransientError


class AsyncReader:
    """Messages of one or several partitions, each partition in its order.

    Iterate it for messages, or `batches()` for lists of them; use one of the two. A connection for each partition is
    open until the end, `close()`, or the end of its `async with` block. One task may use it at a time.
    """

    def __init__(self, lanes: list[Lane], connect: Callable[[], AsyncConnection], timeout: float) -> None:
        self._lanes = lanes
        self._connections = {lane.partition: connect() for lane in lanes if not lane.done}
        self._timeout = timeout
        self._tasks: dict[asyncio.Task[Fetched | GoQueueError], Lane] = {}
        self._closed = False

    @property
    def positions(self) -> dict[int, int]:
        """By partition the offset behind the last list of messages: with `batches()`, where to go on later."""
        return positions(self._lanes)

    @property
    def scanned(self) -> int:
        """How many messages the broker has looked at so far; without filters those that it gave."""
        return scanned(self._lanes)

    @property
    def matched(self) -> int:
        """How many of them it gave."""
        return matched(self._lanes)

    async def __aiter__(self) -> AsyncIterator[Message]:
        async for messages in self.batches():
            for message in messages:
                yield message

    async def batches(self) -> AsyncIterator[list[Message]]:
        """Lists of messages, each of one partition, as the broker's answers come; none is empty."""
        if self._closed:
            raise RequestInvalid("this reader is closed", hint="make another one with client.reader()")
        for lane in self._lanes:
            if lane not in self._tasks.values():
                self._ask(lane)
        try:
            while self._tasks:
                ready, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in ready:
                    lane = self._tasks.pop(task)
                    messages = outcome(lane, task.result())
                    self._ask(lane)
                    if messages:
                        yield messages
        except (GoQueueError, asyncio.CancelledError):
            self._end()
            raise

    def _ask(self, lane: Lane) -> None:
        if lane.done:
            if lane.partition in self._connections:
                self._connections[lane.partition].close()
        elif not self._closed:
            self._tasks[asyncio.create_task(self._fetch(lane))] = lane

    async def _fetch(self, lane: Lane) -> Fetched | GoQueueError:
        """The next answer of a lane, or the error that it ends with."""
        call, backoff, connection = lane.call(), Backoff(), self._connections[lane.partition]
        trying_until = time.monotonic() + call.patience + self._timeout
        while True:
            try:
                answer = await connection.exchange(call, call.patience + self._timeout)
                return call.decode(answer)
            except (TransientError, ChecksumMismatch) as error:
                delay = backoff.next(error)
                if time.monotonic() + delay >= trying_until:
                    return error
                await asyncio.sleep(delay)
            except GoQueueError as error:
                return error

    def _end(self) -> list["asyncio.Task[Fetched | GoQueueError]"]:
        self._closed = True
        tasks = list(self._tasks)
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        for connection in self._connections.values():
            connection.close()
        return tasks

    async def close(self) -> None:
        tasks = self._end()
        if tasks:
            await asyncio.wait(tasks)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncReader {self.positions}>"
