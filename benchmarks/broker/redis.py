"""Redis Streams, with every write in the append-only file: synced before the answer, or every second."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import uvloop

from benchmarks.broker.contract import Consumed, Values
from benchmarks.broker.latency import Answers, exchange, saturate
from benchmarks.broker.server import LOOPBACK, Server, free_port, library, program
from benchmarks.storage.stock import Stopwatch

Sync = Literal["always", "everysec"]
FIELD = b"v"
WAIT_MILLISECONDS = 5000
IN_PIPELINE = 1_000
READ_AT_ONCE = 10_000
GROUP, MEMBER = "group", "member"
TAKEN_AT_ONCE = 1_000
IN_SCRIPT = 5_000
SCRIPT = "for _, value in ipairs(ARGV) do redis.call('XADD', KEYS[1], '*', 'v', value) end return #ARGV"
"""A batch as one command: a pipeline spends most of its time on packing commands and unpacking identifiers."""


class Redis:
    def __init__(self, sync: Sync) -> None:
        self.name = f"Redis {sync}"
        self.pace = 100_000
        self._sync = sync
        self._server: Server | None = None
        self._client: Any = None
        self._port = 0

    def start(self, directory: str) -> None:
        path = program("redis-server")
        client = library("redis")
        self._port = free_port()
        os.makedirs(directory, exist_ok=True)
        settings = {
            "bind": LOOPBACK,
            "port": str(self._port),
            "dir": directory,
            "appendonly": "yes",
            "appendfsync": self._sync,
            "save": "",
            "auto-aof-rewrite-percentage": "0",
            "daemonize": "no",
        }
        flags = [part for name, value in settings.items() for part in (f"--{name}", value)]
        self._server = Server([path, *flags], directory)
        self._server.wait_for_port(self._port)
        self._client = client.Redis(LOOPBACK, self._port, protocol=2)
        self._client.ping()

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()
        if self._server is not None:
            self._server.end()

    def create(self, topic: str) -> None:
        """A stream is there with its first message."""

    def publish_bulk(self, topic: str, batch: Values, times: int) -> None:
        insert = self._client.register_script(SCRIPT)
        for _ in range(times):
            for begin in range(0, len(batch), IN_SCRIPT):
                part = batch[begin : begin + IN_SCRIPT]
                assert insert(keys=[topic], args=part) == len(part)

    def publish_each(self, topic: str, batch: Values, times: int) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for _ in range(times):
            for number, value in enumerate(batch, 1):
                pipeline.xadd(topic, {FIELD: value})
                if number % IN_PIPELINE == 0:
                    pipeline.execute()
            pipeline.execute()

    def publish_single(self, topic: str, value: bytes, count: int, waiters: int) -> Answers:
        call: Callable[[Any], Awaitable[object]] = lambda client: client.xadd(topic, {FIELD: value})  # noqa: E731
        return uvloop.run(self._saturate(call, count, waiters))

    async def _saturate(self, call: Callable[[Any], Awaitable[object]], count: int, waiters: int) -> Answers:
        """With a connection for each who waits."""
        connections: asyncio.Queue[Any] = asyncio.Queue()
        clients = [self._connected() for _ in range(waiters)]
        for client in clients:
            await client.ping()
            connections.put_nowait(client)

        async def ask() -> None:
            client = connections.get_nowait()
            await call(client)
            connections.put_nowait(client)

        try:
            return await saturate(ask, count, waiters)
        finally:
            for client in clients:
                await client.aclose()

    def read(self, topic: str, count: int) -> int:
        size, read, after = 0, 0, b"-"
        while read < count:
            entries = self._client.xrange(topic, after, b"+", READ_AT_ONCE)
            assert entries, f"the stream ends after {read} of {count} messages"
            for _, fields in entries:
                size += len(fields[FIELD])
            read += len(entries)
            after = b"(" + entries[-1][0]
        return size

    def roundtrips(self, topic: str, value: bytes, count: int) -> Answers:
        return uvloop.run(self._roundtrips(topic, value, count))

    async def _roundtrips(self, topic: str, value: bytes, count: int) -> Answers:
        publisher, reader = self._connected(), self._connected()
        last = b"0"

        async def receive() -> None:
            nonlocal last
            [(_, [(last, _)])] = await reader.xread({topic: last}, block=WAIT_MILLISECONDS)

        try:
            return await exchange(lambda: publisher.xadd(topic, {FIELD: value}), receive, count)
        finally:
            await publisher.aclose()
            await reader.aclose()

    def consume(self, topic: str, count: int) -> Consumed:
        """The acknowledgements of what was read before go with the request for more."""
        self._client.xgroup_create(topic, GROUP, id="0")
        watch, size, read = Stopwatch(), 0, 0
        identifiers: list[bytes] = []
        while read < count or identifiers:
            pipeline = self._client.pipeline(transaction=False)
            if identifiers:
                pipeline.xack(topic, GROUP, *identifiers)
            if read < count:
                pipeline.xreadgroup(GROUP, MEMBER, {topic: ">"}, TAKEN_AT_ONCE)
            answers = pipeline.execute()
            if identifiers:
                assert answers[0] == len(identifiers), "all of them were pending"
                identifiers = []
            if read < count:
                [(_, entries)] = answers[-1]
                size += sum(len(fields[FIELD]) for _, fields in entries)
                read += len(entries)
                identifiers = [identifier for identifier, _ in entries]
        return Consumed(size, watch.seconds())

    def ack_single(self, topic: str, count: int, waiters: int) -> Answers:
        self._client.xgroup_create(topic, GROUP, id="0")
        wanted = count + count // 10
        [(_, entries)] = self._client.xreadgroup(GROUP, MEMBER, {topic: ">"}, wanted)
        identifiers = iter([identifier for identifier, _ in entries])
        call: Callable[[Any], Awaitable[object]] = lambda client: client.xack(topic, GROUP, next(identifiers))  # noqa: E731
        return uvloop.run(self._saturate(call, count, waiters))

    def _connected(self) -> Any:
        return library("redis.asyncio", "redis").Redis(
            host=LOOPBACK, port=self._port, single_connection_client=True, protocol=2
        )
