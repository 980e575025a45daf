"""Transactions for threads: what is sent and acknowledged in one counts together, or not at all."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from goqueue.client.attempts import Attempts
from goqueue.client.blocking import Connection
from goqueue.client.calls import Call, Script
from goqueue.client.delivered import reason_of
from goqueue.client.delivery import Deliveries, Delivery, OnDelivery
from goqueue.client.dispatch import Dispatch
from goqueue.client.due import Delay, DeliverAt
from goqueue.client.endpoints import TopicInfo
from goqueue.client.outgoing import Headers, Key, Priority, Value
from goqueue.client.producer import Producer, _tell
from goqueue.client.producing import Options
from goqueue.client.transacting import ABORT_SECONDS, Transacted, TransactionalDispatch, unaborted
from goqueue.errors import GoQueueError
from goqueue.storage.frame import NORMAL, TRANSACTIONAL


class Transaction(Transacted):
    """A block of a producer: leaving it commits, and an exception aborts and goes on.

    Several threads may send in it.
    """

    _producer: "TransactionalProducer"

    def send(  # noqa: PLR0913 - as the producer's
        self,
        topic: str,
        value: Value,
        key: Key = None,
        headers: Headers | None = None,
        partition: int | None = None,
        priority: Priority = NORMAL,
        on_delivery: OnDelivery | None = None,
        *,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
    ) -> Delivery:
        """What `Producer.send` does; the message is seen when the transaction is committed.

        With a delay it is delivered then, or at the commit if that is later.
        """
        self._check()
        return self._producer.send(
            topic, value, key, headers, partition, priority, on_delivery, delay=delay, deliver_at=deliver_at
        )

    def send_many(  # noqa: PLR0913 - as above
        self,
        topic: str,
        values: Sequence[Value],
        keys: Sequence[Key] | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        priority: Priority = NORMAL,
        on_delivery: OnDelivery | None = None,
        *,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
    ) -> Deliveries:
        """What `Producer.send_many` does."""
        self._check()
        return self._producer.send_many(
            topic, values, keys, headers, partition, priority, on_delivery, delay=delay, deliver_at=deliver_at
        )

    def commit(self) -> None:
        """Deliver everything, then make it count; what the end of the block does.

        If any message has failed, or the broker refuses what was acknowledged, it is aborted and that is raised.
        """
        self._leave()
        self._producer._commit()

    def abort(self, reason: str | None = None) -> None:
        """Have nothing of it count. What was acknowledged in it is handed out again."""
        self._leave()
        self._producer._abort(reason, failed=True)

    def __enter__(self) -> Self:
        self._producer._begin(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_open:
            if error is None:
                self._check_complete()
        elif error is None:
            self.commit()
        else:
            self._leave()
            try:
                self._producer._abort(reason_of(error), failed=isinstance(error, Exception))
            except GoQueueError as failure:
                error.add_note(unaborted(failure))


class TransactionalProducer(Producer):
    """A producer that sends in transactions, one at a time. Another one with the same transactional id takes over:
    what this one has left open is aborted, and it cannot be used any more."""

    _flags = TRANSACTIONAL
    _dispatch: TransactionalDispatch

    def __init__(
        self, connect: Callable[[], Connection], facts_of: Callable[[str], TopicInfo], options: Options, timeout: float
    ) -> None:
        self._ends = connect()
        """What asks for the end, in the thread of whoever waits for it."""
        self._current: Transaction | None = None
        self._shut = False
        self._process = os.getpid()
        super().__init__(connect(), facts_of, options, timeout)
        self._refusal = self._dispatch.refusal

    def _dispatch_of(self, options: Options) -> Dispatch:
        return TransactionalDispatch(self._accumulator, self._clock, options)

    def transaction(self) -> Transaction:
        """One more transaction, for a `with` block; one at a time."""
        self._check_alive()
        self._dispatch.want()
        return Transaction(self)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was sent so far in the open transaction is delivered, or failed."""
        self._check_alive()
        if self._current is not None:
            super().flush(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Abort what is open, then end."""
        self._not_from_a_callback()
        self._shut = True
        try:
            current = self._current
            if current is not None and current._is_open and not self._has_ended():
                current._leave(closing=True)
                self._abort("its producer was closed")
        finally:
            super().close(timeout)
            self._ends.close()

    # --- for transactions ---

    def _check_alive(self) -> None:
        if self._shut or self._has_ended():
            raise self._refusal or self._closed()

    def _check_process(self) -> None:
        """Where it was forked it is the parent's, which may hold the lock."""
        if self._process != os.getpid():
            raise self._refusal or self._closed()

    def _begin(self, transaction: Transaction) -> None:
        self._not_from_a_callback()
        self._check_alive()
        with self._lock:
            self._dispatch.want()
            self._hurry(lambda: self._dispatch.is_ready, self._timeout)
            self._check_alive()
            transaction._enter()
            self._current, self._refusal = transaction, None

    def _commit(self) -> None:
        self._check_process()
        try:
            self._not_from_a_callback()
            with self._lock:
                self._hurry(lambda: self._dispatch.failure is not None or self._accumulator.is_empty, None)
        except BaseException:
            with suppress(GoQueueError):
                self._abort("it was interrupted")
            raise
        self._end(self._dispatch.commit(), self._rules.delivery_timeout)

    def _abort(self, reason: str | None, *, failed: bool = False) -> None:
        self._check_process()
        self._end(self._dispatch.abort(reason, failed=failed), min(ABORT_SECONDS, self._timeout))

    def _end(self, script: Script[None], timeout: float) -> None:
        """Have it ended, each call being repeated for so long; whatever happens it is over then."""
        try:
            with self._lock:
                left = self._dispatch.ending()
                self._refusal = self._dispatch.refusal
            _tell(left)
            self._carry_out_all(script, timeout)
        finally:
            script.close()
            with self._lock:
                tell_consumers = self._dispatch.over()
                self._current = None
                if not (self._shut or self._stopping):
                    self._refusal = self._dispatch.refusal
                self._wake()  # to ask for the next epoch, if it is not known
            tell_consumers()

    def _carry_out_all(self, script: Script[None], timeout: float) -> None:
        outcome: Any = None
        while True:
            try:
                call = script.throw(outcome) if isinstance(outcome, GoQueueError) else script.send(outcome)
            except StopIteration:
                return
            try:
                outcome = self._ask(call, timeout)
            except GoQueueError as error:
                outcome = error

    def _ask(self, call: Call[Any], timeout: float) -> Any:
        attempts = Attempts(call, timeout)
        while True:
            try:
                answer = self._ends.exchange(call, min(attempts.left(), self._timeout))
                return call.decode(answer)
            except GoQueueError as error:
                attempts.pause(error)

    # --- the thread ---

    def _concluded(self) -> None:
        super()._concluded()
        if self._current is not None and not self._shut:
            self._refusal = self._dispatch.refusal
