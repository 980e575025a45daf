"""A process that publishes with the SDK, values that nobody else has, until it is told to end.

A delivery that fails ends it with an error: within the time that a producer has, every broker of a run comes back.
"""

import threading
from random import Random

from goqueue.client import Client
from goqueue.testing.history import Published, Publishing, Recorder
from tests.crash.group_worker import Job, tell, when_told_to_end

AT_ONCE_MAX = 20
KEYS = 50
PACE_SECONDS = 0.05
"""Between two handfuls, so that a machine of two cores has time for those who consume them."""


def produce(job: Job, seen: Recorder, over: threading.Event) -> None:
    chance, number = Random(job.seed), 0
    with Client(job.url) as client, client.producer() as producer:
        while not over.wait(PACE_SECONDS):
            values = [f"{job.name}-{number + index}" for index in range(chance.randint(1, AT_ONCE_MAX))]
            keys = [f"key-{chance.randrange(KEYS)}" for _ in values]
            number += len(values)
            told = [Publishing(job.name, job.topic, key, value) for key, value in zip(keys, values, strict=True)]
            seen.record(*told)
            deliveries = [producer.send(job.topic, value, key) for key, value in zip(keys, values, strict=True)]
            for value, delivery in zip(values, deliveries, strict=True):
                receipt = delivery.result()
                assert receipt.offset is not None
                seen.record(Published(value, job.topic, receipt.partition, receipt.offset))
            tell()


def main() -> None:
    job, over = Job.from_argument(), threading.Event()
    when_told_to_end(over.set)
    with Recorder(job.history, job.name) as seen:
        produce(job, seen, over)


if __name__ == "__main__":
    main()
