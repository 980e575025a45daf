"""A lean client for transactions, in a process of its own.

`python -m benchmarks.transactions.load commit PORT TOPIC PRODUCERS COUNT` has so many transactions of ten messages
committed; `... leave PORT TOPIC COUNT` leaves so many open. Prints transactions a second, and the milliseconds that
half and 99 of 100 took at most.
"""

import asyncio
import http.client
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import uvloop

from benchmarks.broker.latency import Answers
from benchmarks.broker.load import Connection
from benchmarks.broker.request import VALUE_BYTES
from benchmarks.broker.server import LOOPBACK
from benchmarks.groups.wire import post

MESSAGES = 10
PARTITIONS = 3
LEAVERS = 16
TIMEOUT_MS = 900_000


class Producer:
    """One transactional id, on a connection of its own."""

    def __init__(self, connection: Connection, number: int, epoch: int, name: str) -> None:
        self._connection = connection
        self._number, self._epoch, self._name = number, epoch, name

    async def write(self, topic: str, messages: int = MESSAGES) -> None:
        """Begin, and publish messages to all partitions in turn."""
        body = {"messages": [{"value": "x" * VALUE_BYTES, "partition": at % PARTITIONS} for at in range(messages)]}
        query = f"producer_id={self._number}&epoch={self._epoch}&begin=true"
        await self._connection.ask(post(f"/topics/{topic}/messages?{query}", body))

    async def commit(self) -> None:
        whose = {"producer_id": self._number, "epoch": self._epoch, "transactional_id": self._name}
        await self._connection.ask(post("/transactions/commit", whose))
        self._epoch += 1


def made(port: int, topic: str, count: int) -> Iterator[tuple[int, int, str]]:
    """Producer ids and epochs, before anything is timed."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=30)
    for number in range(count):
        name = f"{topic}-{number}"
        body = {"transactional_id": name, "transaction_timeout_ms": TIMEOUT_MS}
        connection.request("POST", "/producers/init", json.dumps(body), {"Content-Type": "application/json"})
        found = json.loads(connection.getresponse().read())
        yield found["producer_id"], found["epoch"], name
    connection.close()


async def commit(port: int, topic: str, producers: int, count: int) -> Answers:
    """So many transactions, each producer waiting for its commit."""
    found = [Producer(await Connection.open(port), *one) for one in made(port, topic, producers)]
    left, times = iter(range(count)), list[float]()

    async def work(producer: Producer) -> None:
        for _ in left:
            begin = time.perf_counter()
            await producer.write(topic)
            await producer.commit()
            times.append(time.perf_counter() - begin)

    begin = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for producer in found:
            group.create_task(work(producer))
    return Answers.of(times, time.perf_counter() - begin)


async def leave(port: int, topic: str, count: int) -> Answers:
    """So many transactions of one message for each partition, none of which is ended."""
    connections = itertools.cycle([await Connection.open(port) for _ in range(LEAVERS)])
    waiting: dict[Connection, list[Producer]] = {}
    for one in made(port, topic, count):
        connection = next(connections)
        waiting.setdefault(connection, []).append(Producer(connection, *one))
    times: list[float] = []

    async def work(producers: list[Producer]) -> None:
        for producer in producers:
            begin = time.perf_counter()
            await producer.write(topic, PARTITIONS)
            times.append(time.perf_counter() - begin)

    begin = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for producers in waiting.values():
            group.create_task(work(producers))
    return Answers.of(times, time.perf_counter() - begin)


def main() -> None:
    what, port, topic, *numbers = sys.argv[1:]
    jobs: dict[str, Callable[..., Any]] = {"commit": commit, "leave": leave}
    print(json.dumps(asdict(uvloop.run(jobs[what](int(port), topic, *map(int, numbers))))))


if __name__ == "__main__":
    main()
