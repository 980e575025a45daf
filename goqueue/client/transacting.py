"""The rules of a producer with transactions: when it begins one, keeps it alive, and how it ends. No threads, no
sockets.

A transaction is `IDLE` until a block opens it, `OPEN` while messages may be sent and until all of them are delivered,
and `ENDING` while the broker is asked for the end. What must stay true:

- One producer id and epoch stand for one transaction, from its first message to its end. The next one has an epoch
  that the answer to the end has brought, or that was asked for since: so nothing that is still on its way, and was
  believed to be lost, can become a part of it.
- Nothing is sent while it ends. What comes back then belongs to nobody.
- What failed once fails the transaction: it is aborted, whatever else was delivered.
"""

import enum
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from goqueue.client import publications, transactions
from goqueue.client.accumulator import Accumulator
from goqueue.client.calls import Call, Script
from goqueue.client.delivered import Batch as Leased
from goqueue.client.delivered import Delivered, reason_of
from goqueue.client.delivery import Batch
from goqueue.client.dispatch import Dispatch, Step
from goqueue.client.pledges import Member, Places, Pledges
from goqueue.client.producing import Options
from goqueue.client.retry import Backoff
from goqueue.client.times import seconds
from goqueue.client.transactions import Identity, Whose
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import (
    ChecksumMismatch,
    GoQueueError,
    ProducerFenced,
    RequestInvalid,
    RequestTimedOut,
    TransactionAborted,
    TransactionNotOpen,
    TransientError,
    UnknownProducer,
)

BEATS = 3
"""Heartbeats within the timeout of a transaction that nothing else is heard of."""

ABORT_SECONDS = 5.0
"""What a broker that does not answer may cost where something has gone wrong already."""


class Phase(enum.Enum):
    IDLE = "idle"
    OPEN = "open"
    ENDING = "ending"


FOLLOWING = {Phase.IDLE: Phase.OPEN, Phase.OPEN: Phase.ENDING, Phase.ENDING: Phase.IDLE}


class TransactionalDispatch(Dispatch):
    """Between the accumulator and the wire, for one transaction after the other.

    The shell's duties: `open` for a block when `is_ready`, carry out what `commit` or `abort` ask for when the phase
    is `ENDING`, and call `over` afterwards, come what may.
    """

    def __init__(self, accumulator: Accumulator, clock: Clock, options: Options) -> None:
        assert options.transactional_id is not None
        super().__init__(accumulator, clock, options.acks)
        self.phase = Phase.IDLE
        self.pledges = Pledges()
        self._transactional_id = options.transactional_id
        self._timeout_seconds = seconds(options.transaction_timeout, "transaction_timeout")
        self._wanted = True
        """Whether to ask for a producer id as long as there is none."""
        self._unidentified: GoQueueError | None = None
        """Why there is none."""
        self._fence: ProducerFenced | None = None
        self._asked = self._begun = self._aborted = False
        """Whether the broker may know of the transaction, whether it does, and whether it has aborted it."""
        self._is_unknown = False
        """Whether it knows nothing of the producer: its data directory is another one by now."""
        self._beat_at_ns = 0
        self._beat_backoff = Backoff()
        self._committed = False
        self._following: Identity | None = None
        self._former: Identity | None = None
        """Of a transaction of which nobody has said what follows: nobody else may have taken over since."""
        self._reason: str | None = None

    # --- what is told ---

    @property
    def whose(self) -> Whose:
        assert self.accumulator.identity is not None
        return Whose(self._transactional_id, *self.accumulator.identity)

    @property
    def failure(self) -> GoQueueError | None:
        """Why the open transaction cannot be committed any more."""
        return self.failures.cause

    @property
    def refusal(self) -> GoQueueError | None:
        """Why nothing can be sent now."""
        if self._fence is not None or self.phase is Phase.OPEN:
            return self._fence or self.failure
        if self.phase is Phase.ENDING:
            return RequestInvalid("this transaction is coming to its end: nothing more can be sent in it")
        return RequestInvalid(
            f"producer {self._transactional_id} sends in transactions only",
            hint="with producer.transaction() as tx: tx.send(...)",
        )

    # --- the beginning ---

    def want(self) -> None:
        """Somebody waits to open a transaction."""
        if self._fence is not None:
            raise self._fence
        if self.phase is not Phase.IDLE:
            raise RequestInvalid(
                f"producer {self._transactional_id} has an open transaction, and one at a time",
                hint="end that first, or use another producer with a transactional_id of its own",
            )
        self._wanted = True

    @property
    def is_ready(self) -> bool:
        """Whether it is known with which epoch, or that there is none."""
        return self.accumulator.identity is not None or not self._wanted

    def open(self, pledges: Pledges) -> None:
        """The transaction begins here; the broker is told with its first message."""
        self.want()
        if self.accumulator.identity is None:
            raise self._unidentified or RequestTimedOut(
                f"the broker did not say in time with which epoch producer {self._transactional_id} may begin",
                hint="is it busy? a longer timeout of the client waits for it",
            )
        self._move(Phase.OPEN)
        self._asked = self._begun = self._aborted = self._committed = self._is_unknown = False
        self._following = self._reason = None
        self.pledges = pledges

    def _move(self, phase: Phase) -> None:
        assert FOLLOWING[self.phase] is phase, f"a transaction that is {self.phase.value} does not get {phase.value}"
        self.phase = phase

    # --- while it is open ---

    def next(self) -> tuple[Step | None, float | None, list[Batch]]:
        now = self._clock.monotonic_ns()
        if self.accumulator.identity is None:
            return self._ask_for_identity(now)
        beats = self._begun and self.phase is Phase.OPEN and self.failure is None
        if beats and now >= self._beat_at_ns:
            call = transactions.heartbeat(self.whose)
            return Step(call, [], self._timeout_seconds / BEATS, self.accumulator.identity), None, []
        step, delay, late = super().next()
        self._asked = self._asked or step is not None
        if beats and step is None and not late:
            until_beat = self._until(self._beat_at_ns, now)
            delay = until_beat if delay is None else min(delay, until_beat)
        return step, delay, late

    def _ask_for_identity(self, now_ns: int) -> tuple[Step | None, float | None, list[Batch]]:
        if not self._wanted or self._fence is not None:
            return None, None, []
        if now_ns < self._not_before_ns:
            return None, self._until(self._not_before_ns, now_ns), []
        call = transactions.init(self._transactional_id, self._timeout_seconds, self._former)
        return Step(call, [], self.accumulator.rules.delivery_timeout), None, []

    def _publication(self, topic: str, sections: list[bytes]) -> Call[list[publications.Section]]:
        return publications.publish_frames(
            topic, sections, self._acks, self.accumulator.identity, begin=not self._begun
        )

    def done(self, step: Step, outcome: object) -> list[Batch]:
        if step.identity is None:
            return self._identified(outcome)
        if step.identity != self.accumulator.identity or self.phase is not Phase.OPEN:
            return []
        if isinstance(outcome, GoQueueError):
            outcome = self._told(outcome)
        settled = super().done(step, outcome) if step.batches else []
        now = self._clock.monotonic_ns()
        if not isinstance(outcome, GoQueueError):
            self._is_alive(now)
        elif not isinstance(outcome, (TransientError, ChecksumMismatch)):
            self.failures.cause = self.failures.cause or outcome
        elif not step.batches:
            self._beat_at_ns = now + int(self._beat_backoff.next(outcome) * NANOSECONDS)
        if self.failure is not None:
            self._hear(self.failure)
        return settled

    def _is_alive(self, now_ns: int) -> None:
        self._begun = True
        self._beat_backoff.attempts = 0
        self._beat_at_ns = now_ns + int(self._timeout_seconds / BEATS * NANOSECONDS)

    def _hear(self, error: GoQueueError) -> None:
        """It may say that there is nothing left to abort."""
        self._aborted = self._aborted or isinstance(error, TransactionAborted)
        if isinstance(error, ProducerFenced):
            self._fence = error

    def _identified(self, outcome: Any) -> list[Batch]:
        if not isinstance(outcome, GoQueueError):
            self.accumulator.become(outcome)
            self._unidentified, self._backoff.attempts = None, 0
            return []
        self._unidentified = outcome
        self._hear(outcome)
        if isinstance(outcome, UnknownProducer) and self._former is not None:
            self._former = None  # it is of another data directory, where no other producer can have taken over from it
            return []
        if isinstance(outcome, TransientError):
            self._not_before_ns = self._clock.monotonic_ns() + int(self._backoff.next(outcome) * NANOSECONDS)
        else:
            self._wanted = False
        return []

    # --- the end ---

    def ending(self) -> list[Batch]:
        """Nothing more is sent; what was not delivered by now fails, and the transaction with it."""
        self._move(Phase.ENDING)
        left = self.accumulator.abandon(unsent())
        for batch in left:
            self.failures.add(batch)
        return left

    def commit(self) -> Script[None]:
        """Make it count, all messages being delivered; if anything has failed, abort it and raise that."""
        cause = self.failure
        if cause is None:
            try:
                yield from self._settle()
            except GoQueueError as error:
                cause = self._told(error)
                self._hear(cause)
        if cause is None:
            yield from self._commit()
            return
        try:
            yield from self.abort(reason_of(cause))
        except GoQueueError as error:
            cause.add_note(unaborted(error))
        raise cause

    def _settle(self) -> Script[None]:
        """Tell what is acknowledged with it."""
        if self.pledges:
            if not self._begun:
                self._asked = True
                yield transactions.begin(self.whose)
            yield from self.pledges.tell(self.whose)

    def _commit(self) -> Script[None]:
        try:
            if self._asked:
                self._following = yield transactions.commit(self.whose)
        except GoQueueError as error:
            told = self._told(error)
            self._hear(told)
            if isinstance(error, TransientError):
                error.hint = (
                    f"whether it was committed is not known: client.transaction({self._transactional_id!r}) "
                    "says how the last one has ended"
                )
            if told is error:
                raise
            raise told from error
        self._committed = True

    def _told(self, error: GoQueueError) -> GoQueueError:
        """What the application hears: of a producer that the broker does not know, what that means for it."""
        if not isinstance(error, UnknownProducer):
            return error
        self._is_unknown = True
        lost = TransactionAborted(
            f"transaction {self.whose.transaction_id} is lost: the broker's data directory was made anew or restored, "
            "and knows nothing of it",
            hint="nothing of it is seen by anybody; do it again in a new transaction",
            transaction_id=self.whose.transaction_id,
            reason=UnknownProducer.code,
        )
        lost.__cause__ = error
        return lost

    def abort(self, reason: str | None = None, *, failed: bool = False) -> Script[None]:
        """Have nothing of it count. `failed` if whoever worked on the messages has."""
        self._reason = (reason or "its transaction was aborted") if failed else None
        if not self._asked or self._aborted or self._fence is not None:
            return
        try:
            self._following = yield transactions.abort(self.whose, reason)
        except (TransactionAborted, TransactionNotOpen, UnknownProducer):
            return  # the next epoch is asked for
        except GoQueueError as error:
            self._hear(error)
            raise

    def over(self) -> Callable[[], None]:
        """It has come to its end, or nobody knows how. Gives what tells the consumers."""
        if self.phase is Phase.OPEN:
            self.ending()  # interrupted before it came to that
        if self._asked:
            self._former = None if self._is_unknown else self.accumulator.identity
            self.accumulator.become(self._following)
        self.failures.forget()
        self._move(Phase.IDLE)
        return partial(self.pledges.close, committed=self._committed, reason=self._reason)


def unaborted(error: GoQueueError) -> str:
    return f"The transaction could not be aborted, which its timeout will do: {error.sentence}"


def unsent() -> TransactionAborted:
    return TransactionAborted("the transaction was aborted before this message was delivered", reason="abort")


class Transacted:
    """What the transactions of threads and of event loops share."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._rules: TransactionalDispatch = producer._dispatch
        self._whose: Whose | None = None
        self._pledges = Pledges()
        self._is_open = self._was_closed = False

    @property
    def id(self) -> str:
        """As the broker calls it: the producer id and the epoch."""
        self._check_entered()
        assert self._whose is not None
        return self._whose.transaction_id

    def ack(self, given: Leased | Delivered | Iterable[Leased | Delivered]) -> None:
        """Acknowledge a batch of a consumer, a message or several, with the commit.

        The consumer settles them no more. When the transaction is aborted they are handed out again.
        """
        self._check()
        self._pledges.acknowledge(given)

    def commit_offsets(self, group: str, offsets: Places, consumer: Member | None = None) -> None:
        """With the commit the group is done with everything before these offsets, by topic and partition.

        With a `consumer` only if the partitions are still its own.
        """
        self._check()
        self._pledges.commit_offsets(group, offsets, consumer)

    def _enter(self) -> None:
        """It is the one that the producer has open."""
        if self._whose is not None:
            raise RequestInvalid(f"transaction {self.id} is over", hint="producer.transaction() begins another one")
        self._rules.open(self._pledges)
        self._whose, self._is_open = self._rules.whose, True

    def _leave(self, *, closing: bool = False) -> None:
        """Nothing more belongs to it."""
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
        """At the end of its block, where it is over already: somebody may believe that it was committed."""
        if self._was_closed:
            raise TransactionAborted(f"transaction {self.id} was aborted: its producer was closed", reason="abort")

    def __repr__(self) -> str:
        name = "not begun" if self._whose is None else self.id
        return f"<{type(self).__name__} {name}{'' if self._is_open or self._whose is None else ', over'}>"
