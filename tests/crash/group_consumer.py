"""A process with one consumer of a group, which says something of every message until it is told to end.

That something came too late, since its lease was over or its membership was, is no error here: consumers are killed,
and the broker is. Any other error ends the process.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from goqueue.errors import GroupNotFound, LeaseExpired, MemberUnknown
from goqueue.testing.history import Recorder
from tests.crash.group_watched import WatchedClient, WatchedConsumer
from tests.crash.group_worker import Job, Watch, say, speak, tell, verdict, when_told_to_end

FLUSH_EVERY = 20
MESSAGES_MAX = 60
WORK_SECONDS = 0.05
"""What a batch takes, so that whoever is killed mostly has something in hand."""
SLOW_SECONDS = 0.02
"""What a message takes where somebody is slow: leases that were handed out ahead have to be extended."""


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


def one_by_one(job: Job, consumer: WatchedConsumer, chance: Random) -> None:
    """Waits for each."""
    for message in consumer:
        consumer.watch.received(consumer, [message])
        action = verdict(job, chance)
        consumer.watch.saying(action, [message])
        with too_late_at_worst(consumer.watch):
            speak(message, action, wait=True)


def in_passing(job: Job, consumer: WatchedConsumer, chance: Random) -> None:
    """Says it, and waits now and then for all that was said."""
    for number, message in enumerate(consumer):
        consumer.watch.received(consumer, [message])
        action = verdict(job, chance)
        consumer.watch.saying(action, [message])
        speak(message, action)
        if number % FLUSH_EVERY == FLUSH_EVERY - 1:
            with too_late_at_worst(consumer.watch):
                consumer.flush()
    with too_late_at_worst(consumer.watch):
        consumer.flush()


def slowly(job: Job, consumer: WatchedConsumer, chance: Random) -> None:
    """Works on each message for a while."""
    working = threading.Event()
    for message in consumer:
        consumer.watch.received(consumer, [message])
        working.wait(chance.uniform(0, SLOW_SECONDS))
        action = verdict(job, chance)
        consumer.watch.saying(action, [message])
        speak(message, action)
        with too_late_at_worst(consumer.watch):
            consumer.flush()


STYLES = {"batches": by_batches, "one by one": one_by_one, "in passing": in_passing, "slowly": slowly}


def main() -> None:
    job = Job.from_argument()
    with Recorder(job.history, job.name) as seen, WatchedClient(job.url, timeout=job.patience) as client:
        watch = Watch(seen, job.group)
        consumer: WatchedConsumer = client.watched(
            watch,
            job.group,
            [job.topic],
            client_id=job.name,
            session_timeout=job.session,
            visibility_timeout=job.visibility,
            protocol=job.protocol,
            order=job.order,
            max_messages=MESSAGES_MAX,
            skip_damage=job.skip_damage,
            on_assigned=lambda _: watch.assigned(consumer),
            on_lost=lambda _: watch.assigned(consumer),
        )
        when_told_to_end(consumer.stop)
        with consumer:
            STYLES[job.style](job, consumer, Random(job.seed))
        watch.left()


if __name__ == "__main__":
    main()
