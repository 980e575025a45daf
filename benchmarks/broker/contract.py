"""The contract of every measured broker, GoQueue and its peers."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from benchmarks.broker.latency import Answers

Values = Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Consumed:
    """The bytes of the values, and the seconds from the first request until the last acknowledgement arrived."""

    size: int
    seconds: float


class Broker(Protocol):
    """A server of its own process and one client beside it.

    Whatever publishes returns when every message is confirmed, and says so with an error when one is not.
    """

    @property
    def name(self) -> str: ...

    @property
    def pace(self) -> int:
        """Messages a second that it is known to manage, roughly: amounts follow from it, so that none takes long."""

    def start(self, directory: str) -> None:
        """Start the server, keep its data below a directory, and connect. `Absent` when something is missing."""

    def stop(self) -> None:
        """End the server, started or not."""

    def create(self, topic: str) -> None:
        """Make a topic, stream or queue with one partition."""

    def publish_bulk(self, topic: str, batch: Values, times: int) -> None:
        """The batch so many times, the fastest way there is."""

    def publish_each(self, topic: str, batch: Values, times: int) -> None:
        """The same with one call a message."""

    def publish_single(self, topic: str, value: bytes, count: int, waiters: int) -> Answers:
        """From so many who each wait for the answer to their one message."""

    def read(self, topic: str, count: int) -> int:
        """So many messages from the first on; the bytes of their values."""

    def roundtrips(self, topic: str, value: bytes, count: int) -> Answers:
        """From the publishing of a message to its arrival at a reader that waits for it, one after the other."""

    def consume(self, topic: str, count: int) -> Consumed:
        """So many messages by the only member of a group, who acknowledges each of them, the fastest way there is."""

    def ack_single(self, topic: str, count: int, waiters: int) -> Answers:
        """Ack messages in flight: so many tasks that each wait for the answer to their one
        acknowledgement. The topic holds a tenth more than are counted. `Absent` where there is no such answer."""


@contextmanager
def running(broker: Broker, directory: str) -> Iterator[Iterator[str]]:
    """The broker while it runs; yields names of topics that exist and are empty."""
    try:
        broker.start(directory)
        yield _topics(broker)
    finally:
        broker.stop()


def _topics(broker: Broker) -> Iterator[str]:
    for number in itertools.count():
        broker.create(f"topic-{number}")
        yield f"topic-{number}"
