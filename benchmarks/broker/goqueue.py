"""GoQueue: `goqueue serve` with its usual settings, and its own client."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.broker.contract import Consumed, Values
from benchmarks.broker.latency import Answers
from benchmarks.broker.server import LOOPBACK, Server
from benchmarks.storage.stock import Stopwatch
from goqueue.client import Client, ConsumerArguments

OURS = "GoQueue"
ROOT = Path(__file__).resolve().parent.parent.parent
ADDRESS = re.compile(rf"http://{re.escape(LOOPBACK)}:(\d+)")
MANY: ConsumerArguments = {
    "max_messages": 5_000,
    "max_in_flight": 20_000,
}  # for consumers that are to be fast: a lease of 1,000 is usual
LOAD = "benchmarks.broker.load"
GROUP_LOAD = "benchmarks.groups.load"
LOAD_SECONDS_MAX = 120


class GoQueue:
    name = OURS
    pace = 500_000
    settings: tuple[str, ...] = ()
    """Further ones, as `goqueue serve` takes them."""

    def __init__(self) -> None:
        self.port = 0
        self._server: Server | None = None
        self._client: Client | None = None

    def start(self, directory: str) -> None:
        flags = ["--data-dir", f"{directory}/data", "--port", "0", *self.settings]
        command = [sys.executable, "-m", "goqueue", "serve", *flags]
        self._server = Server(command, directory, {"PYTHONPATH": str(ROOT)})
        self._server.wait_until(self._says_where)
        self._client = Client(f"http://{LOOPBACK}:{self.port}")

    def _says_where(self) -> bool:
        found = ADDRESS.search(self.server.said())
        self.port = int(found[1]) if found else 0
        return found is not None

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()
        if self._server is not None:
            self._server.end()

    @property
    def server(self) -> Server:
        assert self._server is not None, "start comes first"
        return self._server

    @property
    def client(self) -> Client:
        assert self._client is not None, "start comes first"
        return self._client

    def create(self, topic: str, partitions: int = 1, **settings: Any) -> None:
        self.client.create_topic(topic, partitions, **settings)

    def publish_bulk(self, topic: str, batch: Values, times: int, keys: Values | None = None) -> None:
        with self.client.producer() as producer:
            for _ in range(times):
                producer.send_many(topic, batch, keys)
            producer.flush()

    def publish_each(self, topic: str, batch: Values, times: int) -> None:
        with self.client.producer() as producer:
            send = producer.send
            for _ in range(times):
                for value in batch:
                    send(topic, value)
            producer.flush()

    def publish_single(self, topic: str, value: bytes, count: int, waiters: int) -> Answers:  # noqa: ARG002
        """As JSON, which the generator makes: the value is one of its own, as large as that of the peers."""
        return Answers(**said_by(LOAD, "saturate", self.port, topic, 1, count, waiters))

    def publish_json(self, topic: str, batch: int, requests: int, connections: int) -> Answers:
        """Requests with so many messages each."""
        return Answers(**said_by(LOAD, "saturate", self.port, topic, batch, requests, connections))

    def read(self, topic: str, count: int) -> int:
        size, read = 0, 0
        with self.client.reader(topic, start="earliest", until="now") as messages:
            for message in messages:
                value = message.value
                assert value is not None, "nothing was deleted"
                size += len(value)
                read += 1
        assert read == count, f"{read} messages instead of {count}"
        return size

    def roundtrips(self, topic: str, value: bytes, count: int) -> Answers:  # noqa: ARG002
        """The same: through a long poll of the generator."""
        return Answers(**said_by(LOAD, "roundtrip", self.port, topic, count))

    def consume(self, topic: str, count: int) -> Consumed:
        """Leases, acknowledged as a whole."""
        with self.client.consumer(f"{topic}-group", topic, **MANY) as consumer:
            watch, size, read = Stopwatch(), 0, 0
            for batch in consumer.batches():
                size += sum(len(message.value or b"") for message in batch)
                read += len(batch)
                batch.ack()
                if read >= count:
                    break
            consumer.flush()
            return Consumed(size, watch.seconds())

    def consume_each(self, topic: str, count: int) -> Consumed:
        """Messages, acknowledged with a call each."""
        with self.client.consumer(f"{topic}-each", topic, **MANY) as consumer:
            watch, size = Stopwatch(), 0
            for read, message in enumerate(consumer, 1):
                size += len(message.value or b"")
                message.ack()
                if read >= count:
                    break
            consumer.flush()
            return Consumed(size, watch.seconds())

    def ack_single(self, topic: str, count: int, waiters: int) -> Answers:
        """By receipt over plain HTTP, so many connections."""
        return Answers(**said_by(GROUP_LOAD, "acks", self.port, topic, count, waiters))


def said_by(module: str, *arguments: object) -> Any:
    """The result of a load generator in a process of its own."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LOAD_SECONDS_MAX, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
    return json.loads(done.stdout)
