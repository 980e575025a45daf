"""Waiting and background work in an event loop. `threads` provides the same for threads, without `await`."""

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

sleep = asyncio.sleep


HANDLES_COROUTINES = True
"""Whether handlers of messages are coroutine functions."""


class AsyncLock(asyncio.Lock):
    """A lock that a task holds across `await`, with `async with`.

    A plain `with` marks a section that threads must guard and an event loop need not: it does not await anything,
    except a condition of the same lock.
    """

    def __enter__(self) -> None:
        return

    def __exit__(self, *error: object) -> None:
        return


async def try_acquire(lock: AsyncLock) -> bool:
    return not lock.locked() and await lock.acquire()


class AsyncCondition:
    """Lets tasks wait until another task notifies them."""

    def __init__(self, lock: AsyncLock) -> None:
        self._lock = lock
        self._waiters: list[asyncio.Future[None]] = []

    def notify_all(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, timeout: float | None = None) -> bool:
        """Return False when the timeout passed first."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            return False
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        return True

    async def wait_for(self, reached: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `reached()` is true. Return whether it is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not reached():
                    await self.wait()
        return reached()


class AsyncEvent(asyncio.Event):
    """An event whose `wait` has a timeout, as that of threads has."""

    async def wait(self, timeout: float | None = None) -> bool:  # type: ignore[override]
        if not self.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await super().wait()
        return self.is_set()


class AsyncWorker:
    """A task that runs in the background until it is stopped; `failed` gets the error that ended it otherwise."""

    needs_loop = True

    def __init__(
        self, run: Callable[[], Coroutine[Any, Any, None]], failed: Callable[[BaseException], None], name: str
    ) -> None:
        self._run = run
        self._failed = failed
        self._task = asyncio.create_task(self._guard(), name=name)

    @property
    def is_alive(self) -> bool:
        return not self._task.done()

    @property
    def is_current(self) -> bool:
        """True if the caller runs in this task."""
        return asyncio.current_task() is self._task

    async def stop(self, interrupt: Callable[[], None], patience: float = 0.0, limit: float | None = None) -> None:
        """Cancel the task. `interrupt` and the times are for threads, which cannot be cancelled."""
        del interrupt, patience, limit
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _guard(self) -> None:
        try:
            await self._run()
        except Exception as error:
            self._failed(error)
            raise


def is_failure(error: BaseException) -> bool:
    """Return whether an exception of a handler is a failure of its message; another one is to end the task.

    A handler may call `sys.exit`, or wait for a task that was cancelled: only the cancellation of its own task is meant
    for the task.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or not task.cancelling()
    return isinstance(error, (Exception, SystemExit))


async def invoke(callback: Callable[..., object], *arguments: object) -> None:
    """Call a callback of the application, which may be a coroutine function."""
    result = callback(*arguments)
    if inspect.isawaitable(result):
        await result


class AsyncTimeLimit:
    """Calls handlers, and cancels a call that takes longer than `limit` seconds; None is no limit."""

    def __init__(self, limit: float | None) -> None:
        self._limit = limit

    async def call(self, handler: Callable[[Any], object], argument: object) -> bool:
        """Return True: a call that returns was in time. Raises TimeoutError after a call was cancelled."""
        if self._limit is None:
            await invoke(handler, argument)
            return True
        try:
            async with asyncio.timeout(self._limit) as limit:
                await invoke(handler, argument)
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(f"cancelled after {self._limit:g} s") from None
            raise
        return True

    def overdue(self) -> list[tuple[Any, TimeoutError]]:
        """Return nothing: a call that takes too long is cancelled here. Those of threads cannot be."""
        return []


def report_callback_error(error: Exception) -> None:
    """Show an error of a callback as the loop shows one that ends a task."""
    context = {"message": "a delivery's callback failed", "exception": error, "task": asyncio.current_task()}
    asyncio.get_running_loop().call_exception_handler(context)


def opened(reader: T) -> T:
    """Return a reader, which is opened when it is awaited, entered or first iterated."""
    return reader


async def flatten(lists: AsyncIterable[Iterable[T]]) -> AsyncIterator[T]:
    async for items in lists:
        for item in items:
            yield item
