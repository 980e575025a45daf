"""The decisions of a producer's worker: which request to send next, and what its result means."""

from dataclasses import dataclass
from typing import Any

from goqueue.client import publish_requests
from goqueue.client.accumulator import SEQUENCES, Accumulator
from goqueue.client.address import Address
from goqueue.client.api_request import ApiRequest
from goqueue.client.cluster_metadata import ClusterMetadata
from goqueue.client.cluster_requests import cluster_metadata
from goqueue.client.cluster_view import ClusterView
from goqueue.client.delivery import SendBatch, concluded
from goqueue.client.quota_waits import note_refusal
from goqueue.client.request_attempts import ELECTION_SECONDS, FIRST_SECONDS, Backoff
from goqueue.client.transaction_requests import identity_request
from goqueue.client.violations import errors_by_message
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import (
    BrokerStopping,
    CallerError,
    ChecksumMismatch,
    GoQueueError,
    LeaderUnavailable,
    OperatorError,
    PartitionCountStale,
    PartitionNotFound,
    SchemaViolation,
    SequenceOutOfOrder,
    TopicNotFound,
    TransientError,
    UnknownProducer,
)
from goqueue.wire.sections import ProducerIdentity

FAILURES_KEPT = 1000
"""Failed batches that are kept for `flush`; of older ones only the number is."""


@dataclass(slots=True)
class SendStep:
    """A request and the batches in it; without batches it asks for a producer id or for the leaders of topics."""

    call: ApiRequest[Any]
    batches: list[SendBatch]
    seconds: float
    """The time until the oldest batch times out."""
    identity: ProducerIdentity | None = None
    """The producer of the batches."""
    leaders_of: frozenset[str] = frozenset()
    """The topics whose leaders it asks for."""


class DeliveryFailures:
    """Failed batches, until their error is reported."""

    def __init__(self) -> None:
        self._batches: list[SendBatch] = []
        self._forgotten = 0
        self._first: GoQueueError | None = None
        self.cause: GoQueueError | None = None
        """The first error, whether it was reported or not."""

    def add(self, batch: SendBatch) -> None:
        self.cause = self.cause or batch.error
        self._first = self._first or batch.error
        self._batches.append(batch)
        if len(self._batches) > FAILURES_KEPT:
            self._forgotten += self._batches.pop(0).unseen

    def report(self) -> GoQueueError | None:
        """Return the error to raise for failures that were not seen yet; each is reported once."""
        unseen = [batch for batch in self._batches if batch.unseen]
        count = self._forgotten + sum(batch.unseen for batch in unseen)
        cause = unseen[0].error if unseen and not self._forgotten else self._first
        self._batches, self._forgotten, self._first = [], 0, None
        if not count or cause is None:
            return None
        details = {name: value for name, value in cause.details.items() if name != "failed"}
        several = f"{count:,} messages were not delivered; the first because"
        sentence = f"{'1 message was not delivered' if count == 1 else several}: {cause.sentence}"
        error = type(cause)(sentence, hint=cause.hint, **details, failed=count)
        error.__cause__ = cause
        return error

    def forget(self) -> None:
        self._batches, self._forgotten, self._first, self.cause = [], 0, None, None


def is_certainly_not_stored(batch: SendBatch, error: GoQueueError) -> bool:
    """Return whether a refusal means that the broker does not have this batch.

    Then it may be sent as another producer's. The data directory was replaced or restored, or lost its last messages
    with the power; or the broker has forgotten the producer, which matters only if an answer was lost.
    """
    if isinstance(error, UnknownProducer):
        return True
    if not isinstance(error, SequenceOutOfOrder) or batch.identity is None:
        return False
    expected = error.details.get("expected")
    if isinstance(expected, int):
        return 0 < (batch.sequence - expected) % SEQUENCES < SEQUENCES // 2
    return error.details.get("forgotten") is True and not batch.unsure


class BatchSender:
    """Decides between the accumulator and the connections. One step at a time is under way, in a cluster one for each
    leader: those of `next_for`, beside one of `next`, which finds out who the leaders are.
    """

    def __init__(self, accumulator: Accumulator, clock: Clock, acks: str) -> None:
        self.accumulator = accumulator
        self.failures = DeliveryFailures()
        self.outdated: set[str] = set()
        """Topics whose partitions must be requested again."""
        self._clock = clock
        self._acks = acks
        self._backoff = Backoff()
        self._not_before_ns = 0
        self._view: ClusterView | None = None
        self._look = Backoff()
        self._is_misled = False
        """Whether a leader that metadata named has said since that it does not lead."""
        self._look_at_ns = 0
        """When the leaders may be asked for again."""

    def follow(self, view: ClusterView) -> None:
        """Send to the leaders of a cluster from now on, if it says who they are; nothing is under way."""
        if view.has_metadata and self._view is None:
            self._view, self.accumulator.lane_of = view, view.lane

    @property
    def is_following(self) -> bool:
        return self._view is not None

    @property
    def is_looking(self) -> bool:
        """True while the latest metadata lacked leaders that are needed, or named one that does not lead."""
        return self._look.attempts > 0 or self._is_misled

    def next(self) -> tuple[SendStep | None, float | None, list[SendBatch]]:
        """Return the next step, or the seconds to wait for one (None: no limit), and batches that timed out."""
        accumulator, now = self.accumulator, self._clock.monotonic_ns()
        accumulator.place_again()
        late = accumulator.expire(now)
        self._remember(late)
        if late or accumulator.is_empty:
            return None, 0.0 if late else None, late
        if now < self._not_before_ns:
            return None, self._until(self._not_before_ns, now), late
        if self._view is None and not accumulator.has_due(now):
            return None, self._until(accumulator.wake_ns(), now), late
        if accumulator.rules.idempotent and accumulator.identity is None:
            step = SendStep(identity_request("/producers/init", {}), [], self._time_left(accumulator.waiting(), now))
            return step, None, late
        if self._view is not None:
            return (*self._next_in_cluster(self._view, now), late)
        return self._publish(accumulator.take(now), now), None, late

    def next_for(self, leader: Address) -> tuple[SendStep | None, float | None, list[SendBatch]]:
        """Return the next step for a leader, as `next` does."""
        accumulator, now = self.accumulator, self._clock.monotonic_ns()
        late = accumulator.expire(now)
        self._remember(late)
        if late:
            return None, 0.0, late
        if accumulator.rules.idempotent and accumulator.identity is None:
            return None, None, late  # `next` gets one
        if not accumulator.has_due(now, leader):
            return None, self._wait(accumulator.wake_ns(leader), now), late
        return self._publish(accumulator.take(now, leader), now), None, late

    def _next_in_cluster(self, view: ClusterView, now: int) -> tuple[SendStep | None, float | None]:
        """Ask for leaders that are not known, and send what no leader is needed for."""
        accumulator = self.accumulator
        places = accumulator.places()
        topics = frozenset(topic for topic, _ in places)
        is_wanted = view.is_outdated(topics) or view.is_incomplete(places)
        if is_wanted and now >= self._look_at_ns:
            self._look_at_ns = now + int(FIRST_SECONDS * NANOSECONDS)
            call = cluster_metadata(sorted(topics))
            return SendStep(call, [], self._time_left(accumulator.waiting(), now), leaders_of=topics), None
        if accumulator.has_due(now):
            return self._publish(accumulator.take(now), now), None
        times = [accumulator.wake_ns(), self._look_at_ns if is_wanted else None]
        return None, self._wait(min((one for one in times if one is not None), default=None), now)

    def _publish(self, batches: list[SendBatch], now: int) -> SendStep:
        sections = [batch.sealed for batch in batches if batch.sealed is not None]
        call = self._publication(batches[0].topic, sections, batches[0].placed_by)
        return SendStep(call, batches, self._time_left(batches, now), self.accumulator.identity)

    def _publication(
        self, topic: str, sections: list[bytes], placed_by: int
    ) -> ApiRequest[list[publish_requests.SectionResult]]:
        return publish_requests.publish_frames(topic, sections, self._acks, placed_by=placed_by)

    def done(self, step: SendStep, outcome: Any) -> list[SendBatch]:
        """Record the result of a step: its value, or the error. Return the batches that are settled with it."""
        if step.leaders_of:
            self._learned(step.leaders_of, outcome)
            return []
        if not step.batches:
            return self._identified(outcome)
        self._backoff.attempts = 0
        if isinstance(outcome, GoQueueError):
            results: list[Any] = [outcome] * len(step.batches)
        else:
            results = [section.refusal or section for section in outcome]
        for batch, result in zip(step.batches, results, strict=True):
            batch.in_flight = False
            if isinstance(result, GoQueueError):
                self._refused(batch, result)
            else:
                self.accumulator.acknowledge(batch, result.first_offset, result.timestamp, result.pieces)
        settled = concluded(step.batches)
        for batch in settled:
            if batch.error is not None:
                self.failures.add(batch)
        return settled

    def close(self, reason: str) -> list[SendBatch]:
        """Fail everything that still waits; the reason is a sentence such as "the producer was closed"."""
        refusal = next((batch.last_refusal for batch in self.accumulator.waiting() if batch.last_refusal), None)
        why = f": {refusal.sentence}" if refusal else ""
        left = self.accumulator.abandon(BrokerStopping(f"{reason} before delivery{why}"))
        self._remember(left)
        return left

    def _identified(self, outcome: Any) -> list[SendBatch]:
        if not isinstance(outcome, GoQueueError):
            self.accumulator.identity = outcome
            self._backoff.attempts = 0
            return []
        now = self._clock.monotonic_ns()
        if isinstance(outcome, TransientError):
            for batch in self.accumulator.waiting():
                batch.last_refusal = outcome
            delay = self._backoff.next(outcome)
            note_refusal(outcome, delay)
            self._not_before_ns = now + int(delay * NANOSECONDS)
            return []
        failed = self.accumulator.waiting()
        for batch in failed:
            self.accumulator.fail(batch, outcome)
        settled = concluded(failed)
        self._remember(settled)
        return settled

    def _learned(self, topics: frozenset[str], outcome: ClusterMetadata | GoQueueError) -> None:
        """Take the leaders of topics; ask again soon while some are missing."""
        assert self._view is not None
        now, self._is_misled = self._clock.monotonic_ns(), False
        if isinstance(outcome, CallerError | OperatorError):
            self._view.has_metadata = False  # the topics of this node are its own, or the key may not see leaders
            self._view, self.accumulator.lane_of = None, None
            return
        if isinstance(outcome, GoQueueError):
            for batch in self.accumulator.waiting():
                batch.last_refusal = outcome
        else:
            self.accumulator.hasten(self._view.learn(outcome, topics))
        if self._view.is_incomplete(self.accumulator.places()):
            delay = min(FIRST_SECONDS * 2.0 ** min(self._look.attempts, 20), ELECTION_SECONDS)
            self._look.attempts += 1
            self._look_at_ns = now + int(delay * NANOSECONDS)
        else:
            self._look.attempts = 0

    def _refused(self, batch: SendBatch, error: GoQueueError) -> None:
        if self._view is not None:
            self._view.heed(error)
            self._is_misled = self._is_misled or isinstance(error, LeaderUnavailable)
        # A request that was damaged on its way can be sent again.
        if isinstance(error, (TransientError, ChecksumMismatch)):
            batch.unsure = batch.unsure or bool(error.details.get("unsure"))
            self.accumulator.postpone(batch, error, self._clock.monotonic_ns())
            return
        if isinstance(error, PartitionCountStale) and self._place_again(batch, error):
            return
        if is_certainly_not_stored(batch, error) and not self.accumulator.rules.transactional:
            self.accumulator.unseal(batch)
            self.accumulator.postpone(batch, error, self._clock.monotonic_ns())
            return
        if isinstance(error, SchemaViolation) and not self.accumulator.rules.transactional:
            invalid = errors_by_message(error, batch.count)
            if invalid:
                self.accumulator.refuse_messages(batch, invalid)
                return
        if isinstance(error, (TopicNotFound, PartitionNotFound)):
            self.outdated.add(batch.topic)
        self.accumulator.fail(batch, error)

    def _place_again(self, batch: SendBatch, error: PartitionCountStale) -> bool:
        """Place a batch by the topic's number of partitions; False if the broker does not name another one."""
        count, pieces = error.details.get("partitions"), error.details.get("pieces") or []
        if not isinstance(count, int) or count < 1 or count == batch.placed_by:
            return False
        self.accumulator.refuse_placement(batch, count, [(first, end) for first, end in pieces])
        return True

    def _remember(self, batches: list[SendBatch]) -> None:
        for batch in batches:
            self.failures.add(batch)

    def _time_left(self, batches: list[SendBatch], now_ns: int) -> float:
        oldest = min(batch.opened_ns for batch in batches)
        return self.accumulator.rules.delivery_timeout - (now_ns - oldest) / NANOSECONDS

    def _wait(self, moment_ns: int | None, now_ns: int) -> float | None:
        return None if moment_ns is None else self._until(moment_ns, now_ns)

    def _until(self, moment_ns: int | None, now_ns: int) -> float:
        return max((moment_ns or now_ns) - now_ns, 0) / NANOSECONDS
