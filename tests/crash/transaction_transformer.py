"""A process that consumes, transforms and produces: what it has read is done when what it made of that is committed.

It ends when it is told to, or when another one has taken over its transactional id.
"""

import threading
from random import Random
from typing import Any

from goqueue.client._sync.transaction import TransactionalProducer
from goqueue.testing.history.events import Recorder
from tests.crash.group_watched import WatchedClient, WatchedConsumer
from tests.crash.group_worker import Job, Watch, when_told_to_end
from tests.crash.transaction_worker import PATIENCE_SECONDS, Writer, until_fenced

MESSAGES_MAX = 20
WORK_SECONDS = 0.05


def transform(job: Job, consumer: WatchedConsumer, writer: Writer) -> None:
    chance, working = Random(job.seed), threading.Event()
    for batch in consumer.batches():
        consumer.watch.received(consumer, batch)
        with writer.transaction() as written:
            for message in batch:
                written.send(f"{(message.value or b'').decode()} in {written.name}", chance)
            working.wait(chance.uniform(0, WORK_SECONDS))
            written.acknowledge(batch, consumer.watch)
            if chance.random() < job.aborts:
                written.give_up()
            written.await_answers()


def main() -> None:
    job = Job.from_argument()
    options: Any = {"transactional_id": job.transactional_id, "transaction_timeout": job.timeout}
    with (
        Recorder(job.history, job.name) as seen,
        WatchedClient(job.url, timeout=PATIENCE_SECONDS) as client,
        until_fenced(),
    ):
        watch = Watch(seen, job.group)
        consumer: WatchedConsumer = client.watched(
            watch, job.group, [job.topic], client_id=job.name, max_messages=MESSAGES_MAX, **job.consumer_options
        )
        when_told_to_end(consumer.stop)
        with client.producer(**options) as producer, consumer:
            assert isinstance(producer, TransactionalProducer)
            transform(job, consumer, Writer(job, producer, seen))
        watch.left()


if __name__ == "__main__":
    main()
