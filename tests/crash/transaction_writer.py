"""A process that writes transactions over several topics, some of which it gives up, until it is told to end.

It also ends where another one has taken over its transactional id: then it was stopped for a while.
"""

import threading
from random import Random
from typing import Any

from goqueue.client import Client
from goqueue.client._sync.transaction import TransactionalProducer
from goqueue.testing.history.events import Recorder
from tests.crash.group_worker import Job, when_told_to_end
from tests.crash.transaction_worker import PATIENCE_SECONDS, Writer, until_fenced

MESSAGES_MAX = 12
PACE_SECONDS = 0.03
"""What a transaction takes beside, so that a killed process mostly has one open."""


def write(job: Job, writer: Writer, over: threading.Event) -> None:
    chance, number = Random(job.seed), 0
    while not over.is_set():
        with writer.transaction() as written:
            for _ in range(chance.randint(0, MESSAGES_MAX)):
                number += 1
                written.send(f"{job.name}-{number}", chance)
            if chance.random() < 0.5:
                written.await_answers()
            over.wait(chance.uniform(0, PACE_SECONDS))
            if chance.random() < job.aborts:
                written.give_up()
            written.await_answers()


def main() -> None:
    job, over = Job.from_argument(), threading.Event()
    when_told_to_end(over.set)
    options: Any = {"transactional_id": job.transactional_id, "transaction_timeout": job.timeout}
    with (
        Recorder(job.history, job.name) as seen,
        Client(job.url, timeout=PATIENCE_SECONDS) as client,
        until_fenced(),
        client.producer(**options) as producer,
    ):
        assert isinstance(producer, TransactionalProducer)
        write(job, Writer(job, producer, seen), over)


if __name__ == "__main__":
    main()
