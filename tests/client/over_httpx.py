"""Both kinds of client over clients of httpx, which they close with themselves, as no program has to."""

import asyncio
import gc
import warnings
from typing import Any

import httpx

from goqueue.client import AsyncClient, Client
from tests.client.bridge import Bridge, Loop


class HttpxClient(Client):
    """The client for threads over an `httpx.Client` of its own."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._own = httpx.Client()
        super().__init__(*args, http=self._own, **options)

    def close(self) -> None:
        super().close()
        self._own.close()


class BridgedHttpxClient(Bridge):
    """`AsyncClient` over an `httpx.AsyncClient`, in a loop of its own."""

    def __init__(self, *args: Any, **options: Any) -> None:
        loop = Loop()
        self._own = loop.call(httpx.AsyncClient)
        super().__init__(loop, loop.call(AsyncClient, *args, http=self._own, **options))

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._loop.call(self._own.aclose)
        self._loop.call(_canceled_requests)
        self._loop.close()
        with warnings.catch_warnings():  # a request that is canceled while it connects can leave its socket to this
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


async def _canceled_requests() -> None:
    """Wait until httpx has put away what was canceled, as `asyncio.run` does."""
    if left := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(left)
    for _ in range(5):  # turns of the loop, in which transports are closed
        await asyncio.sleep(0)
