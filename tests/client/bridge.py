"""The async client behind the methods of the sync one, so that one test covers both.

The client runs in an event loop of its own thread. Calls are carried out there and awaited, async iterators become
iterators and `async with` becomes `with`.
"""

import asyncio
import inspect
import threading
from collections.abc import Iterator
from typing import Any, Self

import pytest

from goqueue.client import AsyncClient, AsyncConsumer


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test-loop")
        self._thread.start()

    def call(self, function: Any, *args: Any, **options: Any) -> Any:
        """Call a function in the loop, await its result if possible, and return it."""

        assert threading.current_thread() is not self._thread, "a callback cannot wait: use `thread_client`"

        async def main() -> Any:
            result = function(*args, **options)
            return await result if inspect.isawaitable(result) and not hasattr(result, "done") else result

        return asyncio.run_coroutine_threadsafe(main(), self._loop).result()

    def close(self) -> None:
        """Stop the loop; every task has ended by now."""
        self.call(self._check_tasks)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _check_tasks(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left


class Bridge:
    """An object of the async client, with methods that wait."""

    def __init__(self, loop: Loop, inner: Any) -> None:
        self._loop = loop
        self._inner = inner
        if isinstance(inner, AsyncConsumer):  # its messages wait for it in `ack(wait=True)`
            durable = inner.durable
            inner.durable = lambda *args: loop.call(durable, *args)  # type: ignore[method-assign]

    def _wrap(self, result: Any) -> Any:
        if hasattr(result, "__anext__"):
            return self._iterate(result)
        return Bridge(self._loop, result) if type(result).__name__.startswith("Async") else result

    def _iterate(self, iterator: Any) -> Iterator[Any]:
        while True:
            try:
                yield self._loop.call(iterator.__anext__)
            except StopAsyncIteration:
                return

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not inspect.ismethod(found):
            return self._wrap(found)
        return lambda *args, **options: self._wrap(self._loop.call(found, *map(_inner, args), **options))

    def __iter__(self) -> Iterator[Any]:
        return self._iterate(self._inner.__aiter__())

    def __len__(self) -> int:
        return len(self._inner)

    def __enter__(self) -> Self:
        self._loop.call(self._inner.__aenter__)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call(self._inner.__aexit__, *error)

    def __repr__(self) -> str:
        return repr(self._inner).replace("<Async", "<")


def _inner(argument: Any) -> Any:
    return argument._inner if isinstance(argument, Bridge) else argument


class Interruption(BaseException):
    """Raised by the signal handler of `interrupts`: neither an OSError nor a GoQueueError."""


def refused(error: type[BaseException], match: str | None = None) -> pytest.RaisesExc[Any]:
    """Expect an error as `pytest.raises` does, from a block of several statements."""
    return pytest.raises(error, match=match)


class BridgedClient(Bridge):
    """`AsyncClient` in a loop of its own; closing it ends the loop."""

    def __init__(self, *args: Any, **options: Any) -> None:
        loop = Loop()
        super().__init__(loop, loop.call(AsyncClient, *args, **options))

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._loop.close()
