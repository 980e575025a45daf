"""One test for the clients of threads and of event loops: what either gives is awaited if it can be."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import pytest

from goqueue.client import AsyncClient, Client

Scenario = Callable[[Any], Awaitable[Any]]
KINDS = pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["threads", "loop"])


async def settled(found: Any) -> Any:
    return await found if inspect.isawaitable(found) else found


@asynccontextmanager
async def entered(manager: Any) -> AsyncIterator[Any]:
    if hasattr(manager, "__aenter__"):
        async with manager as found:
            yield found
    else:
        with manager as found:
            yield found


def refused(error: type[BaseException], match: str | None = None) -> "AbstractAsyncContextManager[Any, bool]":
    """What `pytest.raises` does, beside another context of the same block."""
    return cast("AbstractAsyncContextManager[Any, bool]", _refused(error, match))


@asynccontextmanager
async def _refused(error: type[BaseException], match: str | None) -> AsyncIterator[Any]:
    with pytest.raises(error, match=match) as found:
        yield found


async def each(iterable: Any) -> AsyncIterator[Any]:
    if hasattr(iterable, "__aiter__"):
        async for one in iterable:
            yield one
    else:
        for one in iterable:
            yield one


def run(kind: Any, url: str, scenario: Scenario, **options: Any) -> Any:
    """What the scenario gives, with a client of that kind."""

    async def main() -> Any:
        async with entered(kind(url, **options)) as client:
            return await scenario(client)

    return asyncio.run(main())
