"""The rules of a producer with transactions: beginning, heartbeats and end. No threads, no sockets.

A transaction is `IDLE` until a block opens it, `OPEN` while messages may be sent and until all of them are delivered,
and `ENDING` while the broker is asked for the end. What must stay true:

- One producer id and epoch stand for one transaction, from its first message to its end. The next one has an epoch
  from the answer to the end, or from a later request: so messages that were believed lost cannot become a part of it.
- Nothing is sent while it ends, and answers that arrive then are ignored.
- One failure fails the transaction: it is aborted, whatever else was delivered.
"""

import enum
import os
from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from goqueue.client import publish_requests, transaction_requests
from goqueue.client.accumulator import Accumulator
from goqueue.client.api_request import ApiRequest, RequestSequence
from goqueue.client.cluster_view import ClusterView
from goqueue.client.delivery import SendBatch
from goqueue.client.leased_message import Batch as Leased
from goqueue.client.leased_message import Delivered, describe_error
from goqueue.client.producer_core import Options, ProducerCore
from goqueue.client.request_attempts import Backoff
from goqueue.client.sender import BatchSender, SendStep
from goqueue.client.times import seconds
from goqueue.client.transaction_acks import ConsumerIdentity, OffsetsByPartition, TransactionAcks
from goqueue.client.transaction_requests import TransactionIdentity
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import (
    ChecksumMismatch,
    GoQueueError,
    PartitionCountStale,
    ProducerFenced,
    RequestInvalid,
    RequestTimedOut,
    TransactionAborted,
    TransactionNotOpen,
    TransientError,
    UnknownProducer,
)
from goqueue.storage.frame import TRANSACTIONAL
from goqueue.wire.sections import ProducerIdentity

P = ParamSpec("P")
T = TypeVar("T")

BEATS = 3
"""The number of heartbeats within the timeout of a transaction without other requests."""

ABORT_SECONDS = 5.0
"""The time that an abort after a failure spends on a broker that does not answer."""


class TransactionPhase(enum.Enum):
    IDLE = "idle"
    OPEN = "open"
    ENDING = "ending"


class TransactionalSender(BatchSender):
    """Decides between the accumulator and the connection, for one transaction after the other.

    The producer must call `open` for a block when `is_ready`, carry out what `commit` or `abort` request while the
    phase is `ENDING`, and call `over` afterwards in any case.
    """

    def __init__(self, accumulator: Accumulator, clock: Clock, options: Options) -> None:
        assert options.transactional_id is not None
        super().__init__(accumulator, clock, options.acks)
        self.phase = TransactionPhase.IDLE
        self.acks = TransactionAcks()
        self._transactional_id = options.transactional_id
        self._timeout_seconds = seconds(options.transaction_timeout, "transaction_timeout")
        self._wanted = True
        """Whether to request a producer id as long as there is none."""
        self._unidentified: GoQueueError | None = None
        """The reason why there is none."""
        self._fence: ProducerFenced | None = None
        self._asked = self._begun = self._aborted = False
        """Whether the broker may know of the transaction, whether it does, and whether it has aborted it."""
        self._is_unknown = False
        """Whether the broker does not know the producer, because its data directory was replaced."""
        self._beat_at_ns = 0
        self._beat_backoff = Backoff()
        self._committed = False
        self._following: ProducerIdentity | None = None
        self._former: ProducerIdentity | None = None
        """The identity of a transaction whose next epoch is unknown, which no other producer may have replaced."""
        self._reason: str | None = None
        self._is_in_cluster = False

    @property
    def whose(self) -> TransactionIdentity:
        assert self.accumulator.identity is not None
        return TransactionIdentity(self._transactional_id, *self.accumulator.identity)

    @property
    def failure(self) -> GoQueueError | None:
        """The reason why the open transaction cannot be committed."""
        return self.failures.cause

    @property
    def refusal(self) -> GoQueueError | None:
        """The reason why nothing can be sent now."""
        if self._fence is not None or self.phase is TransactionPhase.OPEN:
            return self._fence or self.failure
        if self.phase is TransactionPhase.ENDING:
            return RequestInvalid("this transaction is coming to its end: nothing more can be sent in it")
        return RequestInvalid(
            f"producer {self._transactional_id} sends in transactions only",
            hint="with producer.transaction() as tx: tx.send(...)",
        )

    def follow(self, view: ClusterView) -> None:  # noqa: ARG002 - one node takes all requests of a transaction
        """Name the transactional id from now on: its coordinator is found by it."""
        self._is_in_cluster = True

    # --- the beginning ---

    def want(self) -> None:
        """Prepare for a transaction that is about to open."""
        if self._fence is not None:
            raise self._fence
        if self.phase is not TransactionPhase.IDLE:
            raise RequestInvalid(
                f"producer {self._transactional_id} has an open transaction, and one at a time",
                hint="end that first, or use another producer with a transactional_id of its own",
            )
        self._wanted = True

    @property
    def is_ready(self) -> bool:
        """True once the next epoch is known, or known to be unavailable."""
        return self.accumulator.identity is not None or not self._wanted

    def open(self, acks: TransactionAcks) -> None:
        """Open the transaction; the broker begins it with its first message."""
        self.want()
        if self.accumulator.identity is None:
            raise self._unidentified or RequestTimedOut(
                f"the broker did not say in time with which epoch producer {self._transactional_id} may begin",
                hint="is it busy? a longer timeout of the client waits for it",
            )
        self.phase = TransactionPhase.OPEN
        self._asked = self._begun = self._aborted = self._committed = self._is_unknown = False
        self._following = self._reason = None
        self.acks = acks

    # --- while it is open ---

    def next(self) -> tuple[SendStep | None, float | None, list[SendBatch]]:
        now = self._clock.monotonic_ns()
        if self.accumulator.identity is None:
            return self._ask_for_identity(now)
        beats = self._begun and self.phase is TransactionPhase.OPEN and self.failure is None
        if beats and now >= self._beat_at_ns:
            call = transaction_requests.heartbeat(self.whose)
            return SendStep(call, [], self._timeout_seconds / BEATS, self.accumulator.identity), None, []
        step, delay, late = super().next()
        self._asked = self._asked or step is not None
        if beats and step is None and not late:
            until_beat = self._until(self._beat_at_ns, now)
            delay = until_beat if delay is None else min(delay, until_beat)
        return step, delay, late

    def _ask_for_identity(self, now_ns: int) -> tuple[SendStep | None, float | None, list[SendBatch]]:
        if not self._wanted or self._fence is not None:
            return None, None, []
        if now_ns < self._not_before_ns:
            return None, self._until(self._not_before_ns, now_ns), []
        call = transaction_requests.init(self._transactional_id, self._timeout_seconds, self._former)
        return SendStep(call, [], self.accumulator.rules.delivery_timeout), None, []

    def _publication(
        self, topic: str, sections: list[bytes], placed_by: int
    ) -> ApiRequest[list[publish_requests.SectionResult]]:
        whose, begin = self.accumulator.identity, not self._begun
        name = self._transactional_id if self._is_in_cluster else None
        return publish_requests.publish_frames(
            topic, sections, self._acks, whose, begin=begin, placed_by=placed_by, transactional_id=name
        )

    def done(self, step: SendStep, outcome: object) -> list[SendBatch]:
        if step.identity is None:
            return self._identified(outcome)
        if step.identity != self.accumulator.identity or self.phase is not TransactionPhase.OPEN:
            return []
        if isinstance(outcome, GoQueueError):
            outcome = self._explained(outcome)
        settled = super().done(step, outcome) if step.batches else []
        now = self._clock.monotonic_ns()
        if not isinstance(outcome, GoQueueError):
            self._is_alive(now)
        elif not isinstance(outcome, (TransientError, ChecksumMismatch, PartitionCountStale)):
            self.failures.cause = self.failures.cause or outcome
        elif not step.batches:
            self._beat_at_ns = now + int(self._beat_backoff.next(outcome) * NANOSECONDS)
        if self.failure is not None:
            self._record_error(self.failure)
        return settled

    def _is_alive(self, now_ns: int) -> None:
        self._begun = True
        self._beat_backoff.attempts = 0
        self._beat_at_ns = now_ns + int(self._timeout_seconds / BEATS * NANOSECONDS)

    def _record_error(self, error: GoQueueError) -> None:
        """Record that there may be nothing left to abort."""
        self._aborted = self._aborted or isinstance(error, TransactionAborted)
        if isinstance(error, ProducerFenced):
            self._fence = error

    def _identified(self, outcome: Any) -> list[SendBatch]:
        if not isinstance(outcome, GoQueueError):
            self.accumulator.become(outcome)
            self._unidentified, self._backoff.attempts = None, 0
            return []
        self._unidentified = outcome
        self._record_error(outcome)
        if isinstance(outcome, UnknownProducer) and self._former is not None:
            self._former = None  # of another data directory, where no other producer can have taken over
            return []
        if isinstance(outcome, TransientError):
            self._not_before_ns = self._clock.monotonic_ns() + int(self._backoff.next(outcome) * NANOSECONDS)
        else:
            self._wanted = False
        return []

    # --- the end ---

    def ending(self) -> list[SendBatch]:
        """Stop sending. What was not delivered fails, and the transaction with it."""
        assert self.phase is TransactionPhase.OPEN, "it ends once"
        self.phase = TransactionPhase.ENDING
        left = self.accumulator.abandon(not_sent_error())
        for batch in left:
            self.failures.add(batch)
        return left

    def commit(self) -> RequestSequence[None]:
        """Commit, after all messages are delivered. If anything has failed, abort and raise that."""
        cause = self.failure
        if cause is None:
            try:
                yield from self._settle()
            except GoQueueError as error:
                cause = self._explained(error)
                self._record_error(cause)
        if cause is None:
            yield from self._commit()
            return
        try:
            yield from self.abort(describe_error(cause))
        except GoQueueError as error:
            cause.add_note(abort_failure_note(error))
        raise cause

    def _settle(self) -> RequestSequence[None]:
        """Send what the transaction acknowledges."""
        if self.acks:
            if not self._begun:
                self._asked = True
                yield transaction_requests.begin(self.whose)
            yield from self.acks.send(self.whose)

    def _commit(self) -> RequestSequence[None]:
        try:
            if self._asked:
                self._following = yield transaction_requests.commit(self.whose)
        except GoQueueError as error:
            told = self._explained(error)
            self._record_error(told)
            if isinstance(error, TransientError):
                error.hint = (
                    f"whether it was committed is not known: client.transaction({self._transactional_id!r}) "
                    "says how the last one has ended"
                )
            if told is error:
                raise
            raise told from error
        self._committed = True

    def _explained(self, error: GoQueueError) -> GoQueueError:
        """Return the error for the application; it explains what an unknown producer means."""
        if not isinstance(error, UnknownProducer):
            return error
        self._is_unknown = True
        lost = TransactionAborted(
            f"transaction {self.whose.transaction_id} is lost: the broker's data directory was made anew or restored, "
            "and knows nothing of it",
            hint="readers see nothing of it; repeat it in a new transaction",
            transaction_id=self.whose.transaction_id,
            reason=UnknownProducer.code,
        )
        lost.__cause__ = error
        return lost

    def abort(self, reason: str | None = None, *, failed: bool = False) -> RequestSequence[None]:
        """Abort. `failed` if the processing of the messages has failed."""
        self._reason = (reason or "its transaction was aborted") if failed else None
        if not self._asked or self._aborted or self._fence is not None:
            return
        try:
            self._following = yield transaction_requests.abort(self.whose, reason)
        except (TransactionAborted, TransactionNotOpen, UnknownProducer):
            return  # the next epoch is requested
        except GoQueueError as error:
            self._record_error(error)
            raise

    def over(self) -> Callable[[], None]:
        """Finish the transaction, also if its end is unknown. Return what informs the consumers."""
        if self.phase is TransactionPhase.OPEN:
            self.ending()  # interrupted before
        if self._asked:
            self._former = None if self._is_unknown else self.accumulator.identity
            self.accumulator.become(self._following)
        self.failures.forget()
        self.phase = TransactionPhase.IDLE
        return partial(self.acks.close, committed=self._committed, reason=self._reason)


def abort_failure_note(error: GoQueueError) -> str:
    return f"The transaction could not be aborted, which its timeout will do: {error.sentence}"


def not_sent_error() -> TransactionAborted:
    return TransactionAborted("the transaction was aborted before this message was delivered", reason="abort")


def while_open(send: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Return a method of a transaction that sends as its producer does."""

    @wraps(send)
    def method(self: Any, /, *message: P.args, **options: P.kwargs) -> T:
        self._check()
        return send(self._producer, *message, **options)

    return method


class TransactionCore:
    """The common part of transactions for threads and for event loops."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._rules: TransactionalSender = producer._sender
        self._whose: TransactionIdentity | None = None
        self._acks = TransactionAcks()
        self._is_open = self._was_closed = False

    @property
    def id(self) -> str:
        """The transaction id: the producer id and the epoch."""
        self._check_entered()
        assert self._whose is not None
        return self._whose.transaction_id

    def ack(self, given: Leased | Delivered | Iterable[Leased | Delivered]) -> None:
        """Acknowledge a batch of a consumer, a message or several, with the commit.

        The consumer no longer settles them. If the transaction is aborted, they are delivered again.
        """
        self._check()
        self._acks.acknowledge(given)

    def commit_offsets(self, group: str, offsets: OffsetsByPartition, consumer: ConsumerIdentity | None = None) -> None:
        """With the commit, commit these offsets by topic and partition.

        With a `consumer`, only if the partitions are still assigned to it.
        """
        self._check()
        self._acks.commit_offsets(group, offsets, consumer)

    def _enter(self) -> None:
        """Become the open transaction of the producer."""
        if self._whose is not None:
            raise RequestInvalid(f"transaction {self.id} is over", hint="producer.transaction() begins another one")
        self._rules.open(self._acks)
        self._whose, self._is_open = self._rules.whose, True

    def _leave(self, *, closing: bool = False) -> None:
        """Accept no further messages."""
        self._check()
        self._is_open, self._was_closed = False, closing

    def _check(self) -> None:
        if not self._is_open:
            self._check_entered()
            raise RequestInvalid(f"transaction {self.id} is over", hint="producer.transaction() begins another one")

    def _check_entered(self) -> None:
        if self._whose is None:
            raise RequestInvalid("this transaction has not begun", hint="write: with producer.transaction() as tx:")

    def _check_complete(self) -> None:
        """Raise at the end of a block whose transaction was aborted by `close`: the caller may expect a commit."""
        if self._was_closed:
            raise TransactionAborted(f"transaction {self.id} was aborted: its producer was closed", reason="abort")

    def __repr__(self) -> str:
        name = "not begun" if self._whose is None else self.id
        return f"<{type(self).__name__} {name}{'' if self._is_open or self._whose is None else ', over'}>"


class TransactionalProducerCore(ProducerCore):
    """The common part of producers with transactions."""

    _flags = TRANSACTIONAL
    _sender: TransactionalSender
    _worker: Any
    _current: TransactionCore | None = None
    _shut = False

    def _make_sender(self, options: Options) -> BatchSender:
        return TransactionalSender(self._accumulator, self._clock, options)

    def _check_alive(self) -> None:
        if self._shut or not self._worker.is_alive:
            raise self._refusal or self._closed()

    def _check_process(self) -> None:
        """Refuse a child that was forked: the transaction belongs to the parent, which may hold the lock."""
        if self._process != os.getpid():
            raise self._refusal or self._closed()

    def _stop_sending(self) -> list[SendBatch]:
        """Begin the end of the transaction; the lock is held. Return the batches that fail with it."""
        left = self._sender.ending()
        self._refusal = self._sender.refusal
        return left

    def _finish(self) -> Callable[[], None]:
        """Finish the transaction; the lock is held. Return what informs the consumers."""
        tell_consumers = self._sender.over()
        self._current = None
        if not (self._shut or self._stopping):
            self._refusal = self._sender.refusal
        self._wake()  # to request the next epoch, if it is not known
        return tell_consumers

    def _concluded(self) -> None:
        super()._concluded()
        if self._current is not None and not self._shut:
            self._refusal = self._sender.refusal
