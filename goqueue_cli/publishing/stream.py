"""A stream of messages on its way to a topic: how much of it is durable, how fast, and how long it will take."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from goqueue.console import exits, terminal
from goqueue.errors import GoQueueError
from goqueue.quantities import format_count, format_duration
from goqueue_cli.publishing.sources import Chunk
from goqueue_cli.publishing.transaction import in_one_transaction

if TYPE_CHECKING:
    from goqueue.client import Deliveries, Producer

Share = Callable[[int], float | None]
"""Of so many messages that are handed over: which part of all that is. None where nobody knows."""

_GRACE_SECONDS = 5.0
"""For what was read already when somebody presses ^C."""

_QUIET_SECONDS = 1.0
_STATUS_SECONDS = 0.5


def publish_stream(producer: "Producer", topic: str, chunks: Iterator[Chunk], share: Share) -> int:
    """Narrates how many messages there were, and returns it."""
    tally = _Tally()
    progress = Progress("published", share)
    try:
        for chunk in chunks:
            tally.add(chunk.send(producer, topic))
            progress.show(tally.handed_over, tally.published)
        producer.close()
        tally.settle()
    except KeyboardInterrupt:
        _give_up(producer, tally, progress)
        terminal.say(f"interrupted: {tally} published to {topic}")
        raise typer.Exit(exits.INTERRUPTED) from None
    except BaseException as error:
        _give_up(producer, tally, progress)
        if isinstance(error, GoQueueError) and tally.published:
            terminal.say(f"{tally} published to {topic} before the failure")
        raise
    progress.clear()
    terminal.say(f"{tally} published to {topic}")
    return tally.published


def publish_whole(
    producer: "Producer", topic: str, chunks: Iterator[Chunk], share: Share, transactional_id: str
) -> int:
    """The same as one transaction, of which nothing is published unless all is."""
    tally, progress = _Tally(), Progress("sent", share)
    try:
        with in_one_transaction(producer, topic, transactional_id) as transaction:
            for chunk in chunks:
                tally.add(chunk.send(transaction, topic))
                progress.show(tally.handed_over, tally.published)
    finally:
        progress.clear()
    tally.settle()
    terminal.say(f"{tally} published to {topic} in transaction {transaction.id}")
    return tally.published


def _give_up(producer: "Producer", tally: "_Tally", progress: "Progress") -> None:
    """What was handed over is delivered all the same, if that is possible soon."""
    progress.clear()
    with suppress(GoQueueError):
        producer.close(_GRACE_SECONDS)
    while tally.is_open:
        with suppress(GoQueueError):
            tally.settle()


class _Tally:
    """How many messages are acknowledged. The first failure is raised as soon as it is known."""

    def __init__(self) -> None:
        self.published = 0
        self.handed_over = 0
        self._under_way: deque[Deliveries] = deque()

    @property
    def is_open(self) -> bool:
        return bool(self._under_way)

    def add(self, deliveries: "Deliveries") -> None:
        self.handed_over += len(deliveries)
        self._under_way.append(deliveries)
        while self._under_way and self._under_way[0].done():
            self._count(self._under_way.popleft())

    def settle(self) -> None:
        """When the producer is closed, and so nothing is under way any more."""
        while self._under_way:
            self._count(self._under_way.popleft())

    def _count(self, deliveries: "Deliveries") -> None:
        failed = deliveries.exceptions()
        self.published += len(deliveries) - len(failed)
        if failed:
            raise failed[min(failed)]

    def __str__(self) -> str:
        return format_count(self.published, "message")


class Progress:
    """A line on stderr for long work, where a person watches."""

    def __init__(self, verb: str, share: Share) -> None:
        self._verb = verb
        self._share = share
        self._start = time.monotonic()
        self._next = self._start + _QUIET_SECONDS
        self._shown = False

    def show(self, handed_over: int, done: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next, self._shown = now + _STATUS_SECONDS, True
        seconds = now - self._start
        parts = [f"{format_count(done)} {self._verb}", f"{format_count(round(done / seconds))}/s"]
        share = self._share(handed_over)
        if share:
            parts += [f"{share:.0%}", f"{format_duration(round(seconds * (1 - share) / share))} left"]
        terminal.show_status(", ".join(parts))

    def clear(self) -> None:
        if self._shown:
            terminal.show_status("")
            self._shown = False
