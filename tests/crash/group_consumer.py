"""A process with one consumer of a group, which says something of every message until it is told to end.

That something came too late, since its lease was over or its membership was, is no error here: consumers are killed,
and the broker is. Any other error ends the process.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from goqueue.errors import GroupNotFound, LeaseExpired, MemberUnknown
from goqueue.testing.history.events import Recorder
from tests.crash.group_watched import WatchedClient, WatchedConsumer
from tests.crash.group_worker import Job, Watch, say, speak, tell, verdict, when_told_to_end

FLUSH_EVERY = 20
MESSAGES_MAX = 60
WORK_SECONDS = 0.05
"""What a batch takes, so that a killed process mostly has something in hand."""
SLOW_SECONDS = 0.02
"""What a message takes where a client is slow: leases that were handed out ahead have to be extended."""


@contextmanager
def too_late_at_worst(watch: Watch) -> Iterator[None]:
    """Everything that was said is durable at the end of the block, or something was said too late."""
    try:
        yield
        watch.answered()
    except (LeaseExpired, MemberUnknown, GroupNotFound):
        watch.refused()
    tell()


def by_batches(job: Job, consumer: WatchedConsumer, chance: Random) -> None:
    working = threading.Event()
    for batch in consumer.batches():
        consumer.watch.received(consumer, batch)
        working.wait(chance.uniform(0, WORK_SECONDS))
        with too_late_at_worst(consumer.watch):
            say(batch, job, chance, consumer.watch)


def by_messages(job: Job, consumer: WatchedConsumer, chance: Random) -> None:
    """One by one with an answer to each; in passing, with one answer to many; or slowly, with work on each."""
    working = threading.Event()
    for number, message in enumerate(consumer, start=1):
        consumer.watch.received(consumer, [message])
        if job.style == "slowly":
            working.wait(chance.uniform(0, SLOW_SECONDS))
        action = verdict(job, chance)
        consumer.watch.saying(action, [message])
        if job.style == "in passing" and number % FLUSH_EVERY:
            speak(message, action)
            continue
        with too_late_at_worst(consumer.watch):
            speak(message, action, wait=job.style == "one by one")
            consumer.flush()
    with too_late_at_worst(consumer.watch):
        consumer.flush()


def main() -> None:
    job = Job.from_argument()
    with Recorder(job.history, job.name) as seen, WatchedClient(job.url, timeout=job.patience) as client:
        watch = Watch(seen, job.group)
        consumer: WatchedConsumer = client.watched(
            watch, job.group, [job.topic], client_id=job.name, max_messages=MESSAGES_MAX, **job.consumer_options
        )
        when_told_to_end(consumer.stop)
        with consumer:
            consume = by_batches if job.style == "batches" else by_messages
            consume(job, consumer, Random(job.seed))
        watch.left()


if __name__ == "__main__":
    main()
