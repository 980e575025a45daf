"""Connections that begin a request and never end it, each with a byte a second, in a process of its own.

`python -m benchmarks.broker.slow PORT COUNT` says `ready` when all are open, and opens another for each that the
broker closes, until it is ended.
"""

import asyncio
import resource
import sys
from contextlib import suppress

import uvloop

from benchmarks.broker.server import LOOPBACK

BEGIN = b"POST /topics/slow/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
BYTE_SECONDS = 1.0
PAUSE_SECONDS = 0.1
READY_SECONDS_MAX = 30
OPENING = 50
"""Connections that are opened at a time: a crowd, not an attack on the listener's queue."""


async def hold(port: int, count: int) -> None:
    """Never returns."""
    opening = asyncio.Semaphore(OPENING)
    ready = asyncio.Barrier(count + 1)
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(_stay(port, number / count, opening, ready))
        async with asyncio.timeout(READY_SECONDS_MAX):
            await ready.wait()
        print("ready", flush=True)


async def _stay(port: int, phase: float, opening: asyncio.Semaphore, ready: asyncio.Barrier) -> None:
    writer = await _begin(port, opening)
    await ready.wait()
    await asyncio.sleep(phase * BYTE_SECONDS)
    while True:
        with suppress(OSError):
            while not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(BYTE_SECONDS)
        writer.close()
        await asyncio.sleep(PAUSE_SECONDS)
        with suppress(OSError):
            writer = await _begin(port, opening)


async def _begin(port: int, opening: asyncio.Semaphore) -> asyncio.StreamWriter:
    async with opening:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(BEGIN)
        await writer.drain()
    return writer


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    port, count = map(int, sys.argv[1:])
    uvloop.run(hold(port, count))


if __name__ == "__main__":
    main()
