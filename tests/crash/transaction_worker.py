"""The common parts of processes with transactions: their outputs and their record."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from goqueue.client import Batch, Delivery
from goqueue.client._sync.transaction import Transaction, TransactionalProducer
from goqueue.errors import (
    GroupNotFound,
    LeaseExpired,
    MemberUnknown,
    ProducerFenced,
    TransactionAborted,
    TransientError,
)
from goqueue.testing.history.events import (
    AbortedEvent,
    BegunEvent,
    CommitSentEvent,
    CommittedEvent,
    PublishedEvent,
    PublishSentEvent,
    Recorder,
)
from tests.crash.group_worker import Job, Watch, tell

OUTPUTS = {"x": 2, "y": 1}
"""Topics, and how many partitions each has."""
PLACES = [(topic, partition) for topic, partitions in OUTPUTS.items() for partition in range(partitions)]
PATIENCE_SECONDS = 120.0
"""What a process stays for without an answer: on a busy machine a broker that is killed all the time is mostly away."""
DELAYED = 0.05
"""The part of the messages that is to come later."""
DELAY_SECONDS = 0.3


def end_of(topic: str, partition: int) -> str:
    """The value of the last message of an output."""
    return f"the end of {topic}/{partition}"


@contextmanager
def until_fenced() -> Iterator[None]:
    """Stop when another process has taken over the transactional id; a process not to be replaced fails."""
    try:
        yield
    except ProducerFenced as error:
        sys.stderr.write(f"{error}\n")


class GivenUpError(Exception):
    """The transaction is given up on purpose."""


class Written:
    """One transaction, as its history tells it."""

    def __init__(self, name: str, producer: str, open_one: Transaction, seen: Recorder) -> None:
        self.name = name
        self._producer = producer
        self._open = open_one
        self._seen = seen
        self._deliveries: list[tuple[str, str, Delivery]] = []

    def send(self, value: str, chance: Random) -> None:
        """To one of the outputs, at once or delayed."""
        topic, partition = chance.choice(PLACES)
        self._seen.record(PublishSentEvent(self._producer, topic, "", value, self.name))
        if chance.random() < DELAYED:
            self._open.send(topic, value, partition=partition, delay=DELAY_SECONDS)
        else:
            self._deliveries.append((value, topic, self._open.send(topic, value, partition=partition)))

    def acknowledge(self, batch: Batch, watch: Watch) -> None:
        """The batch is done with if this is committed."""
        watch.acking_in_transaction(self.name, batch)
        self._open.ack(batch)

    def await_answers(self) -> None:
        for value, topic, delivery in self._deliveries:
            receipt = delivery.result()
            assert receipt.offset is not None
            self._seen.record(PublishedEvent(value, topic, receipt.partition, receipt.offset))
        self._deliveries.clear()

    def give_up(self) -> None:
        self._open.abort()
        raise GivenUpError

    def ask(self) -> None:
        """From here on it may be committed."""
        self._seen.record(CommitSentEvent(self.name))


class Writer:
    """A producer that writes down its transactions; the next one has the next number."""

    def __init__(self, job: Job, producer: TransactionalProducer, seen: Recorder) -> None:
        self._job = job
        self._producer = producer
        self._seen = seen
        self._count = 0

    @contextmanager
    def transaction(self) -> Iterator[Written]:
        """Commits at the end of the block. That it was aborted, or that no client knows, is no error here."""
        self._count += 1
        name = f"{self._job.name}#{self._count}"
        try:
            with self._producer.transaction() as open_one:
                self._seen.record(BegunEvent(name, self._job.transactional_id))
                written = Written(name, self._job.transactional_id, open_one, self._seen)
                yield written
                written.ask()
            self._seen.record(CommittedEvent(name))
        except (GivenUpError, TransactionAborted):
            self._seen.record(AbortedEvent(name))
        except (TransientError, LeaseExpired, MemberUnknown, GroupNotFound):
            pass  # an ack came too late, so that it is aborted; or no client knows
        tell()
