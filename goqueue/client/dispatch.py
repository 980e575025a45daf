"""The steps of a producer's sender: which call to make next, and what its outcome means. A thread or a task carries
them out."""

from dataclasses import dataclass
from typing import Any

from goqueue.client import publications
from goqueue.client.accumulator import SEQUENCES, Accumulator
from goqueue.client.calls import Call
from goqueue.client.delivery import Batch
from goqueue.client.retry import Backoff
from goqueue.client.transactions import Identity
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import (
    BrokerStopping,
    ChecksumMismatch,
    GoQueueError,
    PartitionNotFound,
    SequenceOutOfOrder,
    TopicNotFound,
    TransientError,
    UnknownProducer,
)

FAILURES_KEPT = 1000
"""Failed batches that are remembered one by one until somebody looks; of older ones only the number is."""


@dataclass(slots=True)
class Step:
    """A call and the batches in it; without batches it asks for a producer id."""

    call: Call[Any]
    batches: list[Batch]
    seconds: float
    """How long it may take: until the oldest batch is too old."""
    identity: Identity | None = None
    """Whose batches these are."""


class Failures:
    """Deliveries that failed while nobody was looking, until they are told."""

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._forgotten = 0
        self._first: GoQueueError | None = None
        self.cause: GoQueueError | None = None
        """What went wrong first, whether it was told or not."""

    def add(self, batch: Batch) -> None:
        self.cause = self.cause or batch.error
        self._first = self._first or batch.error
        self._batches.append(batch)
        if len(self._batches) > FAILURES_KEPT:
            self._forgotten += self._batches.pop(0).unseen

    def tell(self) -> GoQueueError | None:
        """The error to raise, if there is anything that nobody knows; it is told once."""
        unseen = [batch for batch in self._batches if batch.unseen]
        count = self._forgotten + sum(batch.unseen for batch in unseen)
        cause = unseen[0].error if unseen and not self._forgotten else self._first
        self._batches, self._forgotten, self._first = [], 0, None
        if not count or cause is None:
            return None
        details = {name: value for name, value in cause.details.items() if name != "failed"}
        sentence = f"{count} messages were not delivered; the first because: {cause.sentence}"
        error = type(cause)(sentence, hint=cause.hint, **details, failed=count)
        error.__cause__ = cause
        return error

    def forget(self) -> None:
        self._batches, self._forgotten, self._first, self.cause = [], 0, None, None


def is_surely_not_stored(batch: Batch, error: GoQueueError) -> bool:
    """Whether a refusal says that the broker does not have this batch: it may be sent as another producer's.

    Its data directory was made anew or restored, or has lost its last messages with the power; or it has forgotten the
    producer, which matters only where an answer was lost.
    """
    if isinstance(error, UnknownProducer):
        return True
    if not isinstance(error, SequenceOutOfOrder) or batch.identity is None:
        return False
    expected = error.details.get("expected")
    if isinstance(expected, int):
        return 0 < (batch.sequence - expected) % SEQUENCES < SEQUENCES // 2
    return error.details.get("forgotten") is True and not batch.unsure


class Dispatch:
    """Between the accumulator and the wire. One step at a time is under way."""

    def __init__(self, accumulator: Accumulator, clock: Clock, acks: str) -> None:
        self.accumulator = accumulator
        self.failures = Failures()
        self.outdated: set[str] = set()
        """Topics whose facts must be asked for again."""
        self._clock = clock
        self._acks = acks
        self._backoff = Backoff()
        self._not_before_ns = 0

    def next(self) -> tuple[Step | None, float | None, list[Batch]]:
        """The next step; or how many seconds to wait for one, None being for ever. And what grew too old."""
        accumulator, now = self.accumulator, self._clock.monotonic_ns()
        late = accumulator.expire(now)
        self._remember(late)
        if late or accumulator.is_empty:
            return None, 0.0 if late else None, late
        if now < self._not_before_ns:
            return None, self._until(self._not_before_ns, now), late
        if not accumulator.has_due(now):
            return None, self._until(accumulator.wake_ns(), now), late
        if accumulator.rules.idempotent and accumulator.identity is None:
            return Step(publications.init_producer(), [], self._time_left(accumulator.waiting(), now)), None, late
        batches = accumulator.take(now)
        sections = [batch.sealed for batch in batches if batch.sealed is not None]
        call = self._publication(batches[0].topic, sections)
        return Step(call, batches, self._time_left(batches, now), accumulator.identity), None, late

    def _publication(self, topic: str, sections: list[bytes]) -> Call[list[publications.Section]]:
        return publications.publish_frames(topic, sections, self._acks)

    def done(self, step: Step, outcome: Any) -> list[Batch]:
        """Take over what came of a step: its value, or the error. Gives the batches that are settled with it."""
        if not step.batches:
            return self._identified(outcome)
        self._backoff.attempts = 0
        if isinstance(outcome, GoQueueError):
            results: list[Any] = [outcome] * len(step.batches)
        else:
            results = [section.refusal or section for section in outcome]
        for batch, result in zip(step.batches, results, strict=True):
            if isinstance(result, GoQueueError):
                self._refused(batch, result)
            else:
                self.accumulator.acknowledge(batch, result.first_offset, result.timestamp, result.pieces)
        return [batch for batch in step.batches if batch.settled]

    def close(self) -> list[Batch]:
        left = self.accumulator.abandon(BrokerStopping("the producer was closed before these messages were delivered"))
        self._remember(left)
        return left

    def _identified(self, outcome: Any) -> list[Batch]:
        if not isinstance(outcome, GoQueueError):
            self.accumulator.identity = outcome
            self._backoff.attempts = 0
            return []
        now = self._clock.monotonic_ns()
        if isinstance(outcome, TransientError):
            for batch in self.accumulator.waiting():
                batch.last_refusal = outcome
            self._not_before_ns = now + int(self._backoff.next(outcome) * NANOSECONDS)
            return []
        failed = self.accumulator.waiting()
        for batch in failed:
            self.accumulator.fail(batch, outcome)
        self._remember(failed)
        return failed

    def _refused(self, batch: Batch, error: GoQueueError) -> None:
        # What was damaged on its way is whole when it comes again.
        if isinstance(error, (TransientError, ChecksumMismatch)):
            batch.unsure = batch.unsure or bool(error.details.get("unsure"))
            self.accumulator.postpone(batch, error, self._clock.monotonic_ns())
            return
        if is_surely_not_stored(batch, error) and not self.accumulator.rules.transactional:
            self.accumulator.unseal(batch)
            self.accumulator.postpone(batch, error, self._clock.monotonic_ns())
            return
        if isinstance(error, (TopicNotFound, PartitionNotFound)):
            self.outdated.add(batch.topic)
        self.accumulator.fail(batch, error)
        self._remember([batch])

    def _remember(self, batches: list[Batch]) -> None:
        for batch in batches:
            self.failures.add(batch)

    def _time_left(self, batches: list[Batch], now_ns: int) -> float:
        oldest = min(batch.opened_ns for batch in batches)
        return self.accumulator.rules.delivery_timeout - (now_ns - oldest) / NANOSECONDS

    def _until(self, moment_ns: int | None, now_ns: int) -> float:
        return max((moment_ns or now_ns) - now_ns, 0) / NANOSECONDS
