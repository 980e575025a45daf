"""A process that reads the outputs of all transactions, from their beginning to the messages that say: the end."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from goqueue.client import Client
from goqueue.testing.history.events import Recorder, SeenEvent
from tests.crash.group_worker import Job, tell, when_told_to_end
from tests.crash.transaction_worker import OUTPUTS, PATIENCE_SECONDS, end_of


def read(job: Job, seen: Recorder, client: Client, topic: str) -> None:
    """New messages are waited for, and the broker if it is killed."""
    left = {end_of(topic, partition) for partition in range(OUTPUTS[topic])}
    with client.reader(topic, follow=True, isolation=job.isolation, skip_damage=job.skip_damage) as reader:
        for messages in reader.batches():
            values = [(message, (message.value or b"").decode()) for message in messages]
            seen.record(
                *(
                    SeenEvent(job.name, topic, message.partition, message.offset, value, job.isolation)
                    for message, value in values
                )
            )
            left.difference_update(value for _, value in values)
            tell()
            if not left:
                return


def main() -> None:
    job = Job.from_argument()
    when_told_to_end(lambda: os._exit(1))  # before it has come to the end: no client waits for it any more
    with (
        Recorder(job.history, job.name) as seen,
        Client(job.url, timeout=PATIENCE_SECONDS) as client,
        ThreadPoolExecutor(len(OUTPUTS)) as threads,
    ):
        for _ in threads.map(partial(read, job, seen, client), OUTPUTS):
            pass


if __name__ == "__main__":
    main()
