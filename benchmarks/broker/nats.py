"""NATS JetStream with a file store, and a client with one connection."""

import asyncio
import json
import os
import re
import subprocess
from collections import deque
from collections.abc import Awaitable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from benchmarks.broker.contract import Consumed, Values
from benchmarks.broker.latency import Answers, exchange, saturate
from benchmarks.broker.server import LOOPBACK, Server, free_port, library, program
from benchmarks.harness.suite import Absent
from benchmarks.storage.stock import Stopwatch

SYNC_SETTING_SINCE = (2, 10)
IN_FLIGHT = 4_000
"""Messages that wait for their confirmation at a time."""
TAKEN_AT_ONCE = 1_000
ACK_SECONDS_MAX = 300
UNTIL_CONFIRMED = 1_000
"""Bulk: every so many messages one asks for a confirmation, whose number vouches for those before it."""
SECONDS_MAX = 60
T = TypeVar("T")


class Nats:
    """Older servers sync every two minutes and cannot be told to do so more often."""

    def __init__(self, *, is_synced: bool) -> None:
        self.name = "NATS always" if is_synced else "NATS"
        self.pace = 20_000 if is_synced else 60_000
        self._is_synced = is_synced
        self._server: Server | None = None
        self._runner: asyncio.Runner | None = None
        self._client: Any = None
        self._stream: Any = None

    def start(self, directory: str) -> None:
        path = program("nats-server")
        client = library("nats", "nats-py")
        version = _version(path)
        if self._is_synced and version < SYNC_SETTING_SINCE:
            raise Absent(f"nats-server {'.'.join(map(str, version))} cannot sync before it answers; 2.10 can")
        os.makedirs(directory, exist_ok=True)
        port = free_port()
        config = Path(directory, "nats.conf")
        config.write_text(self._config(directory, port), encoding="utf-8")
        self._server = Server([path, "--config", str(config)], directory)
        self._server.wait_for_port(port)
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._client = self._runner.run(client.connect(f"nats://{LOOPBACK}:{port}", allow_reconnect=False))
        self._stream = self._client.jetstream(publish_async_max_pending=IN_FLIGHT, timeout=SECONDS_MAX)

    def _config(self, directory: str, port: int) -> str:
        stream = {"store_dir": f"{directory}/data"} | ({"sync_interval": "always"} if self._is_synced else {})
        return json.dumps({"host": LOOPBACK, "port": port, "jetstream": stream})

    def stop(self) -> None:
        if self._runner is not None:
            if self._client is not None:
                self._runner.run(self._client.close())
            self._runner.close()
        if self._server is not None:
            self._server.end()

    def create(self, topic: str) -> None:
        self._run(self._stream.add_stream(name=topic, subjects=[topic]))

    def publish_bulk(self, topic: str, batch: Values, times: int) -> None:
        self._run(self._publish_bulk(topic, batch, times))

    async def _publish_bulk(self, topic: str, batch: Values, times: int) -> None:
        asked: deque[tuple[int, asyncio.Future[Any]]] = deque()
        for number in range(1, len(batch) * times + 1):
            value = batch[number % len(batch)]
            if number % UNTIL_CONFIRMED and number < len(batch) * times:
                await self._client.publish(topic, value)
                continue
            asked.append((number, await self._stream.publish_async(topic, value)))
            if len(asked) > IN_FLIGHT // UNTIL_CONFIRMED:
                await _confirmed(*asked.popleft())
        while asked:
            await _confirmed(*asked.popleft())

    def publish_each(self, topic: str, batch: Values, times: int) -> None:
        self._run(self._publish_each(topic, batch, times))

    async def _publish_each(self, topic: str, batch: Values, times: int) -> None:
        answers = [await self._stream.publish_async(topic, value) for _ in range(times) for value in batch]
        await self._stream.publish_async_completed()
        assert all(answer.exception() is None for answer in answers)

    def publish_single(self, topic: str, value: bytes, count: int, waiters: int) -> Answers:
        return self._run(saturate(lambda: self._stream.publish(topic, value), count, waiters))

    def read(self, topic: str, count: int) -> int:
        return self._run(self._read(topic, count))

    async def _read(self, topic: str, count: int) -> int:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        size, read = 0, 0

        async def take(message: Any) -> None:
            nonlocal size, read
            size += len(message.data)
            read += 1
            if read == count:
                done.set_result(None)

        subscription = await self._subscribed(topic, take)
        await done
        await subscription.unsubscribe()
        return size

    async def _subscribed(self, topic: str, take: Any) -> Any:
        settings = library("nats.js.api", "nats-py")
        config = settings.ConsumerConfig(ack_policy=settings.AckPolicy.NONE, deliver_policy=settings.DeliverPolicy.ALL)
        return await self._stream.subscribe(
            topic, cb=take, config=config, pending_msgs_limit=-1, pending_bytes_limit=-1
        )

    def roundtrips(self, topic: str, value: bytes, count: int) -> Answers:
        return self._run(self._roundtrips(topic, value, count))

    async def _roundtrips(self, topic: str, value: bytes, count: int) -> Answers:
        arrived: asyncio.Queue[Any] = asyncio.Queue()
        subscription = await self._subscribed(topic, arrived.put)
        answers = await exchange(lambda: self._stream.publish(topic, value), arrived.get, count)
        await subscription.unsubscribe()
        return answers

    def consume(self, topic: str, count: int) -> Consumed:
        return self._run(self._consume(topic, count))

    async def _consume(self, topic: str, count: int) -> Consumed:
        """An acknowledgement has no answer unless one asks for it, which is done for the last one."""
        subscription = await self._pulled(topic)
        watch, size, read = Stopwatch(), 0, 0
        while read < count:
            messages = await subscription.fetch(min(TAKEN_AT_ONCE, count - read))
            read += len(messages)
            for message in messages:
                size += len(message.data)
                if message is messages[-1] and read >= count:
                    await message.ack_sync(SECONDS_MAX)
                else:
                    await message.ack()
        seconds = watch.seconds()
        await subscription.unsubscribe()
        return Consumed(size, seconds)

    def ack_single(self, topic: str, count: int, waiters: int) -> Answers:
        return self._run(self._ack_single(topic, count, waiters))

    async def _ack_single(self, topic: str, count: int, waiters: int) -> Answers:
        subscription = await self._pulled(topic)
        taken: list[Any] = []
        while len(taken) < count + count // 10:
            taken += await subscription.fetch(TAKEN_AT_ONCE)
        left = iter(taken)
        answers = await saturate(lambda: next(left).ack_sync(SECONDS_MAX), count, waiters)
        await subscription.unsubscribe()
        return answers

    async def _pulled(self, topic: str) -> Any:
        """A durable consumer whose messages are acknowledged one by one."""
        settings = library("nats.js.api", "nats-py")
        config = settings.ConsumerConfig(
            ack_policy=settings.AckPolicy.EXPLICIT, ack_wait=ACK_SECONDS_MAX, max_ack_pending=-1
        )
        return await self._stream.pull_subscribe(topic, durable="group", config=config)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._runner is not None, "start comes first"
        return self._runner.run(_bounded(work))


async def _bounded(work: Awaitable[T]) -> T:
    async with asyncio.timeout(SECONDS_MAX):
        return await work


async def _confirmed(number: int, answer: "asyncio.Future[Any]") -> None:
    sequence = (await answer).seq
    assert sequence == number, f"message {number} is number {sequence} of the stream: some are lost"


def _version(path: str) -> tuple[int, ...]:
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, timeout=10).stdout
    found = re.search(r"v(\d+)\.(\d+)\.(\d+)", said)
    if found is None:
        raise RuntimeError(f"{path} has no version: {said!r}")
    return tuple(map(int, found.groups()))
