"""A network of relays between processes: each link can be slow, silent or refuse, in one direction or both.

All bytes from one place to another go over one `Link`, whichever of them has dialed. A silent link loses nothing:
what was sent arrives when it speaks again, as TCP's own retransmission would do, unless the connections are reset.
"""

import asyncio
import socket
import struct
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

import uvloop

_CHUNK_BYTES = 256 * 1024
_HELD_CHUNKS_MAX = 64
_LOCALHOST = "127.0.0.1"
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of a connection that ends with a reset."""

Result = TypeVar("Result")


class LoopThread:
    """An event loop on a thread of its own: relays and clients run on it, the nemesis does not."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="chaos-loop", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run it there, and wait for its end."""
        return self.start(work).result()

    def call(self, function: Callable[[], Result]) -> Result:
        async def work() -> Result:
            return function()

        return self.run(work())

    def close(self) -> None:
        self.run(_cancel_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Link:
    """The way from one place to another; what changes here counts at once, also for connections that exist."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.reset()

    def reset(self) -> None:
        self.delay_seconds = self.jitter_seconds = 0.0
        self.bytes_per_second: float | None = None
        self.slice_bytes: int | None = None
        """What arrives at once, at most."""
        self.is_refusing = False
        self.open = asyncio.Event()
        self.open.set()

    @property
    def is_silent(self) -> bool:
        return not self.open.is_set()

    @property
    def is_plain(self) -> bool:
        return not (self.delay_seconds or self.jitter_seconds or self.bytes_per_second or self.slice_bytes)

    def delay(self) -> float:
        return self.delay_seconds + self._chance.random() * self.jitter_seconds


class _Stream:
    """One direction of a connection."""

    def __init__(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._link, self._reader, self._writer = link, reader, writer
        self._held: deque[tuple[float, bytes]] = deque()
        """Bytes with the time when they are due; none at the end of the stream."""
        self._changed = asyncio.Event()

    async def run(self) -> None:
        sending = asyncio.create_task(self._send())
        try:
            await self._receive()
            await sending
        finally:
            sending.cancel()

    async def _receive(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while len(self._held) >= _HELD_CHUNKS_MAX:
                self._changed.clear()
                await self._changed.wait()
            data = b""
            with suppress(ConnectionError):
                data = await self._reader.read(_CHUNK_BYTES)
            self._held.append((loop.time() + self._link.delay(), data))
            self._changed.set()
            if not data:
                return

    async def _send(self) -> None:
        loop, link = asyncio.get_running_loop(), self._link
        while True:
            while not self._held:
                self._changed.clear()
                await self._changed.wait()
            due, data = self._held[0]
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            if link.is_silent:
                await link.open.wait()
            if not data:
                return
            await self._write(data)
            self._held.popleft()
            self._changed.set()

    async def _write(self, data: bytes) -> None:
        link = self._link
        if link.is_plain:
            self._writer.write(data)
            await self._writer.drain()
            return
        size = link.slice_bytes or len(data)
        for start in range(0, len(data), size):
            part = data[start : start + size]
            self._writer.write(part)
            await self._writer.drain()
            await asyncio.sleep(len(part) / link.bytes_per_second if link.bytes_per_second else 0)


class Relay:
    """A port at which `source` reaches `target`. It refuses while the target is down or the link refuses."""

    def __init__(self, port: int, target: int, there: Link, back: Link) -> None:
        self.port, self.there, self.back = port, there, back
        self.is_target_up = True
        self._target = target
        self._server: asyncio.Server | None = None
        self._connections: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()

    async def adjust(self) -> None:
        """Listen or refuse, as it should be now."""
        should_listen = self.is_target_up and not self.there.is_refusing and not self.back.is_refusing
        if should_listen and self._server is None:
            self._server = await asyncio.start_server(self._accept, _LOCALHOST, self.port)
        elif not should_listen and self._server is not None:
            self._server.close()
            self._server = None
            self.reset()

    def reset(self) -> None:
        """Reset all connections, on both sides."""
        for pair in self._connections:
            for writer in pair:
                _abort(writer)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target_reader, target_writer = await asyncio.open_connection(_LOCALHOST, self._target)
        except OSError:
            _abort(writer)
            return
        pair = writer, target_writer
        self._connections.add(pair)
        try:
            streams = _Stream(self.there, reader, target_writer), _Stream(self.back, target_reader, writer)
            await _first_end([one.run() for one in streams])
        finally:
            self._connections.discard(pair)
            for one in pair:
                _abort(one)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.reset()


async def _first_end(works: list[Awaitable[None]]) -> None:
    """Wait for the end of one direction; the connection ends with it."""
    tasks = [asyncio.ensure_future(one) for one in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _abort(writer: asyncio.StreamWriter) -> None:
    if writer.transport.is_closing():
        return
    with suppress(OSError, ValueError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


class Network:
    """The links between all places, by sender and receiver."""

    def __init__(self, thread: LoopThread, chance: Random) -> None:
        self._thread = thread
        self._chance = chance
        self.links: dict[tuple[str, str], Link] = {}
        self._relays: dict[tuple[str, str, int], Relay] = {}

    def add(self, source: str, target: str, port: int, target_port: int) -> None:
        """Let `source` reach `target` at a port; the target is not up yet."""

        def link(sender: str, receiver: str) -> Link:
            return self.links.setdefault((sender, receiver), Link(self._chance))

        relay = Relay(port, target_port, link(source, target), link(target, source))
        relay.is_target_up = False
        self._relays[source, target, port] = relay

    def set_up(self, target: str, is_up: bool) -> None:
        """Say whether the process at a place lives: who dials a dead one is refused."""
        for (_, receiver, _), relay in self._relays.items():
            if receiver == target:
                relay.is_target_up = is_up
        self._adjust()

    def silence(self, links: set[tuple[str, str]]) -> None:

        def silence() -> None:
            for one in links:
                self.links[one].open.clear()

        self._thread.call(silence)

    def refuse(self, links: set[tuple[str, str]]) -> None:
        """Reset connections over these links, and accept none."""
        for one in links:
            self.links[one].is_refusing = True
        self._adjust()

    def restore(self, *, resets: bool = False) -> None:
        """Let all links be as at the start. Connections that were silent may be gone, as after a long time."""

        def restore() -> None:
            for (source, target, _), relay in self._relays.items():
                if resets and (self.links[source, target].is_silent or self.links[target, source].is_silent):
                    relay.reset()
            for link in self.links.values():
                waiting = link.open
                link.reset()
                waiting.set()

        self._thread.call(restore)
        self._adjust()

    def _adjust(self) -> None:
        async def adjust() -> None:
            for relay in self._relays.values():
                await relay.adjust()

        self._thread.run(adjust())

    def close(self) -> None:
        def close() -> None:
            for relay in self._relays.values():
                relay.close()

        self._thread.call(close)
