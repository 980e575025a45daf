"""A tenant that publishes at a fixed rate and waits for nothing, from a process of its own.

`python -m benchmarks.tenants.noise PORT TOPIC RATE CONNECTIONS HEADER` says `ready`, publishes until its input ends,
and prints how many requests were answered and how many of them stored. Requests are sent when they are due, also while
earlier ones wait for their answers, as far as the broker reads them.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import httptools
import uvloop

from benchmarks.broker.goqueue import ROOT
from benchmarks.broker.request import publish_request
from benchmarks.broker.server import LOOPBACK

STEP_SECONDS = 0.005


class Publisher(asyncio.Protocol):
    """Counts answers."""

    def __init__(self) -> None:
        self.answers = 0
        self.stored = 0
        self.is_paused = False
        self.transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        self.answers += 1
        self.stored += self._parser.get_status_code() == 200

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False


@contextmanager
def noise(port: int, topic: str, rate: int, connections: int, header: str) -> Iterator[list[int]]:
    """Publish beside the block; the list has, after it, how many requests were answered and how many were stored."""
    command = [sys.executable, "-m", __name__, str(port), topic, str(rate), str(connections), header]
    counts: list[int] = []
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            if child.stdout.readline() != "ready\n":
                raise RuntimeError("the publisher of the noise did not start")
            yield counts
            counts += json.loads(child.communicate(timeout=10)[0])
        finally:
            child.kill()


async def publish(port: int, request: bytes, rate: int, connections: int) -> tuple[int, int]:
    """Publish until the input ends."""
    loop = asyncio.get_running_loop()
    opened = [(await loop.create_connection(Publisher, LOOPBACK, port))[1] for _ in range(connections)]
    ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    print("ready", flush=True)
    start, sent = time.perf_counter(), 0
    while not ended.done():
        due = int(rate * (time.perf_counter() - start))
        for number in range(sent, due):
            publisher = opened[number % connections]
            if not publisher.is_paused and publisher.transport is not None:
                publisher.transport.write(request)
        sent = due
        await asyncio.sleep(STEP_SECONDS)
    return sum(one.answers for one in opened), sum(one.stored for one in opened)


def main() -> None:
    port, topic, rate, connections, header = sys.argv[1:]
    request = publish_request(topic, 1, header)
    print(json.dumps(uvloop.run(publish(int(port), request, int(rate), int(connections)))))


if __name__ == "__main__":
    main()
