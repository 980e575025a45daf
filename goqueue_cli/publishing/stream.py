"""Publishing a stream of messages, with progress, and publishing them in one transaction."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.interruption import after_this_step
from goqueue.errors import GoQueueError, SchemaViolation, TransientError
from goqueue.quantities import format_count, format_duration
from goqueue_cli.publishing.sources import MessageChunk
from goqueue_cli.publishing.violations import Violations

if TYPE_CHECKING:
    from goqueue.client import Deliveries, Producer, Transaction

Share = Callable[[int], float | None]
"""Returns the share of all messages for the number of sent ones, or None if it is unknown."""

_GRACE_SECONDS = 5.0
"""Time for messages that were read before ^C."""

_QUIET_SECONDS = 1.0
_STATUS_SECONDS = 0.5


def publish_stream(producer: "Producer", topic: str, chunks: Iterator[MessageChunk], share: Share) -> int:
    """Publish, report how many messages were published, and return the number."""
    tally = _Tally()
    progress = PublishProgress("published", share)
    try:
        for chunk in chunks:
            tally.send(chunk, producer, topic)
            progress.show(tally.handed_over, tally.published)
        producer.close()
        tally.settle()
    except KeyboardInterrupt:
        _give_up(producer, tally, progress)
        terminal.say(f"interrupted: {tally} published to {topic}")
        raise typer.Exit(exit_codes.INTERRUPTED) from None
    except BaseException as error:
        _give_up(producer, tally, progress)
        if isinstance(error, GoQueueError) and tally.published:
            terminal.say(f"{tally} published to {topic} before the failure")
        if isinstance(error, SchemaViolation):
            raise tally.violations.refusal() or error from None
        raise
    progress.clear()
    terminal.say(f"{tally} published to {topic}")
    return tally.published


def send_all(
    chunks: Iterator[MessageChunk], producer: "Producer | Transaction", topic: str, *, is_whole: bool
) -> list["Deliveries"]:
    """Send all messages, or in a transaction none if one is invalid.

    Raises if messages do not match their schemas, and reports how many others were published.
    """
    tally, sent = _Tally(), list["Deliveries"]()
    for chunk in chunks:
        with suppress(SchemaViolation):
            sent += tally.send(chunk, producer, topic)
        if is_whole and (refusal := tally.violations.refusal()) is not None:
            raise refusal
    while not is_whole and tally.is_open:
        with suppress(GoQueueError):
            tally.settle()
    if (refusal := tally.violations.refusal()) is not None:
        terminal.say(f"{tally} published to {topic}")
        raise refusal
    return sent


def publish_whole(
    producer: "Producer", topic: str, chunks: Iterator[MessageChunk], share: Share, transactional_id: str
) -> int:
    """Do the same in one transaction."""
    tally, progress = _Tally(), PublishProgress("sent", share)
    try:
        with in_one_transaction(producer, topic, transactional_id) as transaction:
            for chunk in chunks:
                tally.send(chunk, transaction, topic)
                progress.show(tally.handed_over, tally.published)
    except SchemaViolation as error:
        raise tally.violations.refusal() or error from None
    finally:
        progress.clear()
    tally.settle()
    terminal.say(f"{tally} published to {topic} in transaction {transaction.id}")
    return tally.published


def _give_up(producer: "Producer", tally: "_Tally", progress: "PublishProgress") -> None:
    """Deliver what was handed over to the producer, if that is possible soon."""
    progress.clear()
    with suppress(GoQueueError):
        producer.close(_GRACE_SECONDS)
    while tally.is_open:
        with suppress(GoQueueError):
            tally.settle()


class _Tally:
    """The number of acknowledged messages; the first failure is raised as soon as it is known."""

    def __init__(self) -> None:
        self.published = 0
        self.handed_over = 0
        self.violations = Violations()
        self._under_way: deque[tuple[int, Deliveries]] = deque()
        """With the number of messages before them."""

    @property
    def is_open(self) -> bool:
        return bool(self._under_way)

    def send(self, chunk: MessageChunk, producer: "Producer | Transaction", topic: str) -> list["Deliveries"]:
        """Hand a chunk to a producer. What its serializer refuses is left out, and raised at the end."""
        refused: SchemaViolation | None = None
        sent = []
        while chunk.values:
            try:
                sent.append(self._handed_over(chunk.send(producer, topic)))
                break
            except SchemaViolation as error:
                refused, (first, *_) = error, error.details["invalid_indexes"]
            if first:
                sent.append(self._handed_over(chunk.cut(0, first).send(producer, topic)))
            self.violations.add({0: refused}, self.handed_over)
            self.handed_over += 1
            chunk = chunk.cut(first + 1, len(chunk.values))
        while self._under_way and self._under_way[0][1].done():
            self._count(*self._under_way.popleft())
        if refused is not None:
            raise refused
        return sent

    def _handed_over(self, deliveries: "Deliveries") -> "Deliveries":
        self._under_way.append((self.handed_over, deliveries))
        self.handed_over += len(deliveries)
        return deliveries

    def settle(self) -> None:
        """Count the rest, after the producer was closed."""
        while self._under_way:
            self._count(*self._under_way.popleft())

    def _count(self, before: int, deliveries: "Deliveries") -> None:
        failed = deliveries.exceptions()
        self.violations.add(failed, before)
        self.published += len(deliveries) - len(failed)
        if failed:
            raise failed[min(failed)]

    def __str__(self) -> str:
        return format_count(self.published, "message")


class PublishProgress:
    """A status line on stderr, for long work on a terminal."""

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


# --- transactions ---


@contextmanager
def in_one_transaction(producer: "Producer", topic: str, name: str) -> Iterator["Transaction"]:
    """Open a transaction that is committed at the end of the block, and aborted by any failure before.

    Once the commit is requested, ^C waits for the answer.
    """
    is_open = is_committing = False
    try:
        with producer, producer.transaction() as transaction:
            is_open = True
            yield transaction
            producer.flush()
            with after_this_step():
                is_committing = True
                transaction.commit()
    except KeyboardInterrupt as error:
        terminal.say(f"interrupted: {_unsure(name) if is_committing else _aborted(topic, error)}")
        raise typer.Exit(exit_codes.INTERRUPTED) from None
    except Exception as error:
        if is_committing and isinstance(error, TransientError):
            error.hint = f"it may have been committed: `goqueue-cli transaction describe {name}` shows it"
        elif is_open and isinstance(error, GoQueueError):
            terminal.say(_aborted(topic, error))
        raise


def _unsure(name: str) -> str:
    return f"the transaction may have been committed; `goqueue-cli transaction describe {name}` shows it"


def _aborted(topic: str, error: BaseException) -> str:
    """Describe the abort; the client adds a note to the error if its request to abort failed."""
    failed = any("could not be aborted" in note for note in getattr(error, "__notes__", ()))
    how = "the timeout aborts the transaction" if failed else "the transaction was aborted"
    return f"nothing was published to {topic}: {how}"
