"""A process that publishes in every way: batches of the SDK, single messages as JSON, delayed ones, all priorities.

JSON requests carry no sequence numbers, so they are never sent again: of one without an answer nobody knows whether it
is stored. The SDK sends again until it is answered.
"""

import json
import threading
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from random import Random
from typing import Any
from urllib.parse import urlsplit

from goqueue.client import Client
from goqueue.client.producer import Producer
from goqueue.testing.history import Published, Publishing, Recorder, Scheduled
from tests.crash.group_worker import Job, tell, when_told_to_end

AT_ONCE_MAX = 20
KEYS = 50
PACE_SECONDS = 0.05
PATIENCE_SECONDS = 120.0
PRIORITIES = ("critical", "high", "normal", "low", "background")
DELAY_SECONDS_MAX = 1.0


class MixedProducer:
    """Publishes to one topic, and records what it was told."""

    def __init__(self, job: Job, seen: Recorder, producer: Producer) -> None:
        self._job = job
        self._seen = seen
        self._producer = producer
        self._chance = Random(job.seed)
        self._count = 0

    def publish(self) -> None:
        values = [self._value() for _ in range(self._chance.randint(1, AT_ONCE_MAX))]
        how = self._chance.choice((self._in_batches, self._in_batches, self._delayed, self._as_json))
        key = f"key-{self._chance.randrange(KEYS)}"
        self._seen.record(*(Publishing(self._job.name, self._job.topic, key, value) for value in values))
        how(values, key)
        tell()

    def _value(self) -> str:
        self._count += 1
        return f"{self._job.name}-{self._count}"

    def _priority(self) -> Any:
        return self._chance.choice(PRIORITIES) if self._job.priorities else "normal"

    def _in_batches(self, values: Sequence[str], key: str) -> None:
        topic, priority = self._job.topic, self._priority()
        deliveries = [self._producer.send(topic, value, key, priority=priority) for value in values]
        for value, delivery in zip(values, deliveries, strict=True):
            receipt = delivery.result()
            assert receipt.offset is not None
            self._seen.record(Published(value, topic, receipt.partition, receipt.offset))

    def _delayed(self, values: Sequence[str], key: str) -> None:
        delay, topic = self._chance.uniform(0.01, DELAY_SECONDS_MAX), self._job.topic
        deliveries = [self._producer.send(topic, value, key, delay=delay) for value in values]
        for value, delivery in zip(values, deliveries, strict=True):
            delivery.result()
            self._seen.record(Scheduled(value, topic))

    def _as_json(self, values: Sequence[str], key: str) -> None:
        """One message a request; one that is refused or not answered may be stored or not."""
        address = urlsplit(self._job.url)
        connection = HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE_SECONDS)
        try:
            for value in values:
                self._one_as_json(connection, value, key)
        except (OSError, HTTPException):
            pass  # the broker is away
        finally:
            connection.close()

    def _one_as_json(self, connection: HTTPConnection, value: str, key: str) -> None:
        topic, is_delayed = self._job.topic, self._chance.random() < 0.2
        message = {"value": value, "key": key, "priority": self._priority()}
        message |= {"delay": "100ms"} if is_delayed else {}
        body = json.dumps({"messages": [message]})
        connection.request("POST", f"/topics/{topic}/messages", body, {"content-type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        assert response.status in {200, 503}, answer
        if response.status == 200 and "error" not in (result := answer["results"][0]):
            told = Scheduled(value, topic) if is_delayed else self._published(value, result)
            self._seen.record(told)

    def _published(self, value: str, result: dict[str, Any]) -> Published:
        return Published(value, self._job.topic, result["partition"], result["offset"])


def main() -> None:
    job, over = Job.from_argument(), threading.Event()
    when_told_to_end(over.set)
    with (
        Recorder(job.history, job.name) as seen,
        Client(job.url, timeout=PATIENCE_SECONDS) as client,
        client.producer() as producer,
    ):
        mixed = MixedProducer(job, seen, producer)
        while not over.wait(PACE_SECONDS):
            mixed.publish()


if __name__ == "__main__":
    main()
