"""The two connections of a consumer for event loops. An answer to a poll is taken when it comes, by a task."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

from goqueue.client.asynchronous import AsyncConnection
from goqueue.client.calls import Call
from goqueue.client.leases import Leases, Settlement
from goqueue.client.polls import Polled, Results
from goqueue.client.wires import Rules, overdue
from goqueue.errors import GoQueueError

T = TypeVar("T")


class AsyncPoller:
    """Asks for messages; what comes is handed to `took` at once, whether anybody waits for it or not."""

    def __init__(self, connection: AsyncConnection, took: Callable[[Polled], None], timeout: float) -> None:
        self._connection = connection
        self._took = took
        self._timeout = timeout
        self._task: asyncio.Task[GoQueueError | None] | None = None
        self._waiting = 0

    @property
    def is_under_way(self) -> bool:
        """Whether the outcome of a request has not been looked at yet."""
        return self._task is not None

    def ask(self, call: Call[Polled]) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._fetch(call), name="goqueue-consumer-poll")

    async def _fetch(self, call: Call[Polled]) -> GoQueueError | None:
        try:
            polled = call.decode(await self._connection.exchange(call, call.patience + self._timeout))
        except GoQueueError as error:
            return error
        self._took(polled)
        return None

    async def outcome(self, stopped: "asyncio.Future[None]") -> GoQueueError | None:
        """Wait for the request that is under way, or until it is all over."""
        task = self._task
        if task is None:
            return None
        both: list[asyncio.Future[Any]] = [task, stopped]
        self._waiting += 1
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting -= 1
        if not task.done() or self._task is not task:
            return None
        self._task = None
        return None if task.cancelled() else task.result()

    def interrupt(self) -> None:
        """Whoever waits for the answer does so no longer."""
        if self._waiting and self._task is not None:
            self._task.cancel()

    async def abandon(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._connection.close()


class AsyncSettler:
    """Sends what was noted, and all other calls but polls."""

    def __init__(self, connection: AsyncConnection, leases: Leases, rules: Rules, timeout: float) -> None:
        self._lock = asyncio.Lock()
        self._connection = connection
        self._leases = leases
        self._rules = rules
        self._timeout = timeout
        self._current: Settlement | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return self._current is None

    def settle_soon(self) -> None:
        """Send what was noted, in a task, unless one is at it: whatever comes meanwhile forms the next request."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._settle(), name="goqueue-consumer-settle")

    async def _settle(self) -> None:
        async with self._lock:
            if self._current is None:
                self._current = self._leases.gather(time.monotonic())
            await self._send(self._timeout)

    async def _send(self, timeout: float) -> None:
        """The lock is held."""
        current = self._current
        if current is None or time.monotonic() < current.not_before:
            return
        call = self._rules._settle_call(current)
        try:
            outcome: Results | GoQueueError = call.decode(await self._connection.exchange(call, timeout))
        except GoQueueError as error:
            outcome = error
        except asyncio.CancelledError:
            current.repeated = True
            raise
        if self._rules._concluded(current, outcome, time.monotonic()):
            self._current = None

    async def call(self, call: Call[T], timeout: float | None = None) -> T:
        """One attempt."""
        async with self._lock:
            left = self._timeout + call.patience if timeout is None else timeout
            return call.decode(await self._connection.exchange(call, left))

    async def flush(self, timeout: float) -> None:
        """Send everything that was noted before this call, and wait until it is durable."""
        deadline, gathered = time.monotonic() + timeout, False
        while True:
            async with self._lock:
                if self._current is None:
                    if gathered:
                        return
                    self._current = self._leases.gather(time.monotonic())
                    gathered = not self._leases.has_news
                current = self._current
                if current is None:
                    return
                await self._send(max(deadline - time.monotonic(), 0.001))
                delay = current.not_before - time.monotonic()
            if time.monotonic() + max(delay, 0.0) >= deadline and self._current is not None:
                raise overdue(timeout, current.failure)
            if delay > 0:
                await asyncio.sleep(delay)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._connection.close()
