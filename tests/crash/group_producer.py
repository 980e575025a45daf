"""A process that publishes values that no other process sends, until it is told to end.

All are sent with the SDK, in batches; a mixed job also publishes delayed messages, and single ones as JSON.

JSON requests carry no sequence numbers, so they are never sent again: one without an answer may be stored or not. The
SDK sends again until it is answered. A delivery that fails ends the process with an error: within the time that a
producer has, every broker of a run comes back.
"""

import json
import threading
from http.client import HTTPConnection, HTTPException
from random import Random
from typing import Any
from urllib.parse import urlsplit

from goqueue.client import Client
from goqueue.client._sync.producer import Producer
from goqueue.testing.history.events import PublishedEvent, PublishSentEvent, Recorder, ScheduledEvent
from tests.crash.group_worker import Job, tell, when_told_to_end

AT_ONCE_MAX = 20
KEYS = 50
PACE_SECONDS = 0.05
"""Between two handfuls, so that a machine of two cores has time for those who consume them."""
PRIORITIES = ("critical", "high", "normal", "low", "background")
DELAY_SECONDS_MAX = 1.0


class GroupProducer:
    """Publishes to one topic, and records what it was told."""

    def __init__(self, job: Job, seen: Recorder, producer: Producer) -> None:
        self._job = job
        self._seen = seen
        self._producer = producer
        self._chance = Random(job.seed)
        self._count = 0

    def publish(self) -> None:
        keys = {
            self._value(): f"key-{self._chance.randrange(KEYS)}" for _ in range(self._chance.randint(1, AT_ONCE_MAX))
        }
        self._seen.record(
            *(PublishSentEvent(self._job.name, self._job.topic, key, value) for value, key in keys.items())
        )
        ways = (self._in_batches, self._in_batches, self._delayed, self._as_json)
        way = self._chance.choice(ways) if self._job.mixed else self._in_batches
        way(keys)
        tell()

    def _value(self) -> str:
        self._count += 1
        return f"{self._job.name}-{self._count}"

    def _priority(self) -> Any:
        return self._chance.choice(PRIORITIES) if self._job.priorities else "normal"

    def _in_batches(self, keys: dict[str, str]) -> None:
        topic, priority = self._job.topic, self._priority()
        deliveries = [self._producer.send(topic, value, key, priority=priority) for value, key in keys.items()]
        for value, delivery in zip(keys, deliveries, strict=True):
            receipt = delivery.result()
            assert receipt.offset is not None
            self._seen.record(PublishedEvent(value, topic, receipt.partition, receipt.offset))

    def _delayed(self, keys: dict[str, str]) -> None:
        delay, topic = self._chance.uniform(0.01, DELAY_SECONDS_MAX), self._job.topic
        deliveries = [self._producer.send(topic, value, key, delay=delay) for value, key in keys.items()]
        for value, delivery in zip(keys, deliveries, strict=True):
            delivery.result()
            self._seen.record(ScheduledEvent(value, topic))

    def _as_json(self, keys: dict[str, str]) -> None:
        """One message a request; one that is refused or not answered may be stored or not."""
        address = urlsplit(self._job.url)
        connection = HTTPConnection(address.hostname or "", address.port, timeout=self._job.patience)
        try:
            for value, key in keys.items():
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
            told = ScheduledEvent(value, topic) if is_delayed else self._published(value, result)
            self._seen.record(told)

    def _published(self, value: str, result: dict[str, Any]) -> PublishedEvent:
        return PublishedEvent(value, self._job.topic, result["partition"], result["offset"])


def main() -> None:
    job, over = Job.from_argument(), threading.Event()
    when_told_to_end(over.set)
    with (
        Recorder(job.history, job.name) as seen,
        Client(job.url, timeout=job.patience) as client,
        client.producer() as producer,
    ):
        publisher = GroupProducer(job, seen, producer)
        while not over.wait(PACE_SECONDS):
            publisher.publish()


if __name__ == "__main__":
    main()
