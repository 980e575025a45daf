"""RabbitMQ: a durable queue, persistent messages, and publisher confirms."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from benchmarks.broker.contract import Consumed, Values
from benchmarks.broker.latency import Answers, exchange, saturate
from benchmarks.broker.server import LOOPBACK, Server, free_port, library, program
from benchmarks.harness.suite import Absent
from benchmarks.storage.stock import Stopwatch

IN_FLIGHT = 4_000
UNTIL_PAUSE = 500
"""Messages between two looks at what was confirmed."""
TAKEN_AT_ONCE = 1_000
"""Deliveries that one acknowledgement is for."""
DELIVERED_AHEAD = 4 * TAKEN_AT_ONCE
SECONDS_MAX = 60
PERSISTENT = 2
T = TypeVar("T")


class Rabbit:
    name = "RabbitMQ"
    pace = 15_000

    def __init__(self) -> None:
        self._names: Server | None = None
        self._server: Server | None = None
        self._runner: asyncio.Runner | None = None
        self._link: Link | None = None

    def start(self, directory: str) -> None:
        path, names = program("rabbitmq-server"), program("epmd")
        library("pika")
        os.makedirs(directory, exist_ok=True)
        port, names_port = free_port(), free_port()
        Path(directory, "rabbit.conf").write_text(f"listeners.tcp.1 = {LOOPBACK}:{port}\n", encoding="utf-8")
        self._names = Server([names, "-port", str(names_port), "-address", LOOPBACK], f"{directory}/names")
        self._names.wait_for_port(names_port)
        self._server = Server([path], directory, _environment(directory, names_port))
        self._server.wait_for_port(port)
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._link = self._runner.run(Link.open(port))

    def stop(self) -> None:
        if self._runner is not None:
            if self._link is not None:
                self._runner.run(self._link.close())
            self._runner.close()
        for server in (self._server, self._names):
            if server is not None:
                server.end()

    def create(self, topic: str) -> None:
        self._run(self._linked.declare(topic))

    def publish_bulk(self, topic: str, batch: Values, times: int) -> None:
        """There is one way to publish."""
        self.publish_each(topic, batch, times)

    def publish_each(self, topic: str, batch: Values, times: int) -> None:
        self._run(self._publish(topic, batch, times))

    async def _publish(self, topic: str, batch: Values, times: int) -> None:
        link = self._linked
        for _ in range(times):
            for number, value in enumerate(batch):
                if number % UNTIL_PAUSE == 0:
                    await link.confirmed(IN_FLIGHT - UNTIL_PAUSE)
                link.publish(topic, value)
        await link.confirmed(0)

    def publish_single(self, topic: str, value: bytes, count: int, waiters: int) -> Answers:
        return self._run(saturate(lambda: self._linked.publish_confirmed(topic, value), count, waiters))

    def read(self, topic: str, count: int) -> int:
        return self._run(self._read(topic, count))

    async def _read(self, topic: str, count: int) -> int:
        size, _ = await self._take(topic, count, is_acked=False)
        return size

    async def _take(self, topic: str, count: int, *, is_acked: bool) -> tuple[int, Stopwatch]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        size, read = 0, 0

        def take(value: bytes) -> None:
            nonlocal size, read
            size += len(value)
            read += 1
            if read == count:
                done.set_result(None)

        watch = Stopwatch()
        consumer = await self._linked.consume(topic, take, acks_after=TAKEN_AT_ONCE if is_acked else None)
        async with asyncio.timeout(SECONDS_MAX):
            await done
        await self._linked.cancel(consumer)
        return size, watch

    def consume(self, topic: str, count: int) -> Consumed:
        return self._run(self._consume(topic, count))

    async def _consume(self, topic: str, count: int) -> Consumed:
        """An acknowledgement has no answer: the last ones have arrived when what is asked after them is answered."""
        assert count % TAKEN_AT_ONCE == 0, "no message is left without its acknowledgement"
        size, watch = await self._take(topic, count, is_acked=True)
        return Consumed(size, watch.seconds())

    def ack_single(self, topic: str, count: int, waiters: int) -> Answers:  # noqa: ARG002
        raise Absent("RabbitMQ does not answer an acknowledgement")

    def roundtrips(self, topic: str, value: bytes, count: int) -> Answers:
        return self._run(self._roundtrips(topic, value, count))

    async def _roundtrips(self, topic: str, value: bytes, count: int) -> Answers:
        arrived: asyncio.Queue[bytes] = asyncio.Queue()
        consumer = await self._linked.consume(topic, arrived.put_nowait)
        publish: Callable[[], Awaitable[None]] = lambda: self._linked.publish_confirmed(topic, value)  # noqa: E731
        answers = await exchange(publish, arrived.get, count)
        await self._linked.cancel(consumer)
        return answers

    @property
    def _linked(self) -> "Link":
        assert self._link is not None, "start comes first"
        return self._link

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._runner is not None, "start comes first"
        return self._runner.run(work)


def _environment(directory: str, names_port: int) -> dict[str, str]:
    """Everything that it keeps, in the directory; a node of its own that no other Erlang sees."""
    return {
        "HOME": directory,
        "ERL_EPMD_PORT": str(names_port),
        "ERL_EPMD_ADDRESS": LOOPBACK,
        "RABBITMQ_NODENAME": "benchmark@localhost",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": f"{directory}/mnesia",
        "RABBITMQ_LOG_BASE": f"{directory}/log",
        "RABBITMQ_CONFIG_FILE": f"{directory}/rabbit.conf",
        "RABBITMQ_ADVANCED_CONFIG_FILE": f"{directory}/advanced.config",
        "RABBITMQ_CONF_ENV_FILE": f"{directory}/environment.conf",
        "RABBITMQ_ENABLED_PLUGINS_FILE": f"{directory}/plugins",
        "RABBITMQ_PID_FILE": f"{directory}/pid",
    }


class Link:
    """A connection with one channel, and which of its messages are not confirmed yet."""

    def __init__(self, pika: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._properties = pika.BasicProperties(delivery_mode=PERSISTENT)
        self._channel: Any = None
        self._connection: Any = None
        self._published = 0
        self._unconfirmed: dict[int, asyncio.Future[None] | None] = {}
        self._limit = 0
        self._below_limit: asyncio.Future[None] | None = None
        self._lost: BaseException | None = None

    @classmethod
    async def open(cls, port: int) -> "Link":
        pika = library("pika")
        adapter = library("pika.adapters.asyncio_connection", "pika")
        link = cls(pika)
        opened: asyncio.Future[Any] = link._loop.create_future()
        link._connection = adapter.AsyncioConnection(
            pika.ConnectionParameters(LOOPBACK, port, heartbeat=0),
            on_open_callback=opened.set_result,
            on_open_error_callback=lambda _, error: opened.set_exception(error),
            on_close_callback=lambda _, error: link._lose(error),
            custom_ioloop=link._loop,
        )
        async with asyncio.timeout(SECONDS_MAX):
            await opened
            link._channel = await link._answer(link._connection.channel, "on_open_callback")
            await link._answer(link._channel.confirm_delivery, "callback", ack_nack_callback=link._take_confirm)
        return link

    async def close(self) -> None:
        if self._connection.is_open:
            self._connection.close()
        while not self._connection.is_closed:
            await asyncio.sleep(0.01)

    async def declare(self, queue: str) -> None:
        await self._answer(self._channel.queue_declare, "callback", queue=queue, durable=True)

    def publish(self, queue: str, value: bytes, waiter: "asyncio.Future[None] | None" = None) -> None:
        self._published += 1
        self._unconfirmed[self._published] = waiter
        self._channel.basic_publish("", queue, value, self._properties)

    async def publish_confirmed(self, queue: str, value: bytes) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self.publish(queue, value, waiter)
        await waiter

    async def confirmed(self, limit: int) -> None:
        """Wait until no more than so many messages are unconfirmed."""
        if len(self._unconfirmed) > limit:
            self._limit, self._below_limit = limit, self._loop.create_future()
            async with asyncio.timeout(SECONDS_MAX):
                await self._below_limit
        if self._lost is not None:
            raise self._lost

    async def consume(self, queue: str, take: Callable[[bytes], None], acks_after: int | None = None) -> str:
        """Deliver all messages. They count as taken when they are sent, which is the fastest that it can do, or as
        soon as so many have been taken."""
        taken = 0

        def on_message(channel: Any, method: Any, _properties: Any, body: bytes) -> None:
            nonlocal taken
            taken += 1
            if acks_after is not None and taken % acks_after == 0:
                channel.basic_ack(method.delivery_tag, multiple=True)
            take(body)

        if acks_after is not None:
            await self._answer(self._channel.basic_qos, "callback", prefetch_count=DELIVERED_AHEAD)
        consume, is_free = self._channel.basic_consume, acks_after is None
        answer = await self._answer(consume, "callback", queue=queue, on_message_callback=on_message, auto_ack=is_free)
        tag: str = answer.method.consumer_tag
        return tag

    async def cancel(self, consumer: str) -> None:
        await self._answer(self._channel.basic_cancel, "callback", consumer_tag=consumer)

    async def _answer(self, call: Callable[..., object], parameter: str, **arguments: Any) -> Any:
        answer: asyncio.Future[Any] = self._loop.create_future()
        call(**{parameter: answer.set_result}, **arguments)
        async with asyncio.timeout(SECONDS_MAX):
            return await answer

    def _take_confirm(self, frame: Any) -> None:
        method = frame.method
        if method.NAME != "Basic.Ack":
            self._lose(RuntimeError(f"message {method.delivery_tag} was refused"))
            return
        tags = [method.delivery_tag]
        if method.multiple:
            tags = [tag for tag in self._unconfirmed if tag <= method.delivery_tag]
        for tag in tags:
            waiter = self._unconfirmed.pop(tag)
            if waiter is not None:
                waiter.set_result(None)
        if self._below_limit is not None and len(self._unconfirmed) <= self._limit:
            self._below_limit.set_result(None)
            self._below_limit = None

    def _lose(self, error: BaseException) -> None:
        self._lost = error
        waiters = [self._below_limit, *self._unconfirmed.values()]
        self._unconfirmed.clear()
        for waiter in waiters:
            if waiter is not None and not waiter.done():
                waiter.set_exception(error)
