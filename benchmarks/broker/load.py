"""A lean HTTP client in a process of its own: requests are made beforehand, answers are counted and hardly read.

`python -m benchmarks.broker.load saturate PORT TOPIC BATCH COUNT CONNECTIONS` or `... roundtrip PORT TOPIC COUNT`
prints answers a second, and the milliseconds that half and 99 of 100 took at most.
"""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, cast

import httptools
import uvloop

from benchmarks.broker.latency import Answers, exchange
from benchmarks.broker.request import VALUE_BYTES, publish_request, read_request
from benchmarks.broker.server import LOOPBACK


class Connection(asyncio.Protocol):
    """One request at a time, over a connection that stays."""

    def __init__(self) -> None:
        self.on_answer: Callable[[Connection], None] = lambda _: None
        self.on_failure: Callable[[Exception], None] = lambda _: None
        self.begin = 0.0
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._size = 0
        self._body = b""

    @classmethod
    async def open(cls, port: int) -> "Connection":
        _, connection = await asyncio.get_running_loop().create_connection(cls, LOOPBACK, port)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.on_failure(exc or ConnectionError("the broker closed a connection"))

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, part: bytes) -> None:
        self._size += len(part)
        self._body = part

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 300:
            self.on_failure(RuntimeError(f"answered with {status}: {self._body.decode(errors='replace')[:300]}"))
        else:
            self.on_answer(self)

    def send(self, request: bytes) -> None:
        assert self._transport is not None, "an opened connection"
        self._size = 0
        self.begin = time.perf_counter()
        self._transport.write(request)

    async def ask(self, request: bytes) -> int:
        """Send, and wait for the answer; the size of its body."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.on_answer = lambda _: answer.set_result(None)
        self.on_failure = lambda error: None if answer.done() else answer.set_exception(error)
        self.send(request)
        await answer
        return self._size

    def close(self) -> None:
        self.on_failure = lambda _: None
        if self._transport is not None:
            self._transport.close()


class Crowd:
    """Connections that each send the next request as soon as their last one is answered, until enough are."""

    def __init__(self, connections: list[Connection], requests: Iterator[bytes], count: int) -> None:
        self._connections = connections
        self._requests = requests
        self._left = self._unanswered = count
        self._times: list[float] = []
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> Answers:
        begin = time.perf_counter()
        for connection in self._connections:
            connection.on_answer = self._answered
            connection.on_failure = self._failed
            self._send(connection)
        await self._done
        return Answers.of(self._times, time.perf_counter() - begin)

    def _send(self, connection: Connection) -> None:
        if self._left:
            self._left -= 1
            connection.send(next(self._requests))

    def _answered(self, connection: Connection) -> None:
        self._times.append(time.perf_counter() - connection.begin)
        self._unanswered -= 1
        if self._unanswered == 0 and not self._done.done():
            self._done.set_result(None)
        self._send(connection)

    def _failed(self, error: Exception) -> None:
        if not self._done.done():
            self._done.set_exception(error)


async def saturate(port: int, topic: str, batch: int, count: int, connections: int) -> Answers:
    """As many requests as the broker can answer, over so many connections."""
    requests = itertools.repeat(publish_request(topic, batch))
    opened = [await Connection.open(port) for _ in range(connections)]
    try:
        await Crowd(opened, requests, max(connections, count // 10)).run()
        return await Crowd(opened, requests, count).run()
    finally:
        for connection in opened:
            connection.close()


async def roundtrip(port: int, topic: str, count: int) -> Answers:
    """From a publish on one connection to the answer of the long poll that waits on another."""
    request = publish_request(topic, 1)
    publisher, reader = [await Connection.open(port) for _ in range(2)]
    offset = 0

    async def receive() -> None:
        nonlocal offset
        size = await reader.ask(read_request(topic, offset))
        assert size >= VALUE_BYTES, f"the read at {offset} was answered with {size} bytes"
        offset += 1

    try:
        return await exchange(lambda: publisher.ask(request), receive, count)
    finally:
        publisher.close()
        reader.close()


def main() -> None:
    what, port, topic, *numbers = sys.argv[1:]
    jobs: dict[str, Callable[..., Any]] = {"saturate": saturate, "roundtrip": roundtrip}
    answers = uvloop.run(jobs[what](int(port), topic, *map(int, numbers)))
    print(json.dumps(asdict(answers)))


if __name__ == "__main__":
    main()
