"""Transactions for event loops: the surface of those for threads, awaited."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from goqueue.client.async_producer import AsyncDeliveries, AsyncDelivery, AsyncProducer
from goqueue.client.asynchronous import AsyncConnection
from goqueue.client.attempts import Attempts
from goqueue.client.calls import Call, Script
from goqueue.client.delivered import reason_of
from goqueue.client.delivery import OnDelivery
from goqueue.client.dispatch import Dispatch
from goqueue.client.due import Delay, DeliverAt
from goqueue.client.endpoints import TopicInfo
from goqueue.client.outgoing import Headers, Key, Priority, Value
from goqueue.client.producing import Options
from goqueue.client.transacting import ABORT_SECONDS, Transacted, TransactionalDispatch, unaborted
from goqueue.errors import GoQueueError
from goqueue.storage.frame import NORMAL, TRANSACTIONAL


class AsyncTransaction(Transacted):
    """A block of a producer: leaving it commits, and an exception aborts and goes on.

    Several tasks may send in it.
    """

    _producer: "AsyncTransactionalProducer"

    async def send(  # noqa: PLR0913 - as the producer's
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
    ) -> AsyncDelivery:
        """What `AsyncProducer.send` does; the message is seen when the transaction is committed.

        With a delay it is delivered then, or at the commit if that is later.
        """
        self._check()
        return await self._producer.send(
            topic, value, key, headers, partition, priority, on_delivery, delay=delay, deliver_at=deliver_at
        )

    async def send_many(  # noqa: PLR0913 - as above
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
    ) -> AsyncDeliveries:
        """What `AsyncProducer.send_many` does."""
        self._check()
        return await self._producer.send_many(
            topic, values, keys, headers, partition, priority, on_delivery, delay=delay, deliver_at=deliver_at
        )

    async def commit(self) -> None:
        """Deliver everything, then make it count; what the end of the block does.

        If any message has failed, or the broker refuses what was acknowledged, it is aborted and that is raised.
        """
        self._leave()
        await self._producer._commit()

    async def abort(self, reason: str | None = None) -> None:
        """Have nothing of it count. What was acknowledged in it is handed out again."""
        self._leave()
        await self._producer._abort(reason, failed=True)

    async def __aenter__(self) -> Self:
        await self._producer._begin(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_open:
            if error is None:
                self._check_complete()
        elif error is None:
            await self.commit()
        else:
            self._leave()
            try:
                await self._producer._abort(reason_of(error), failed=isinstance(error, Exception))
            except GoQueueError as failure:
                error.add_note(unaborted(failure))


class AsyncTransactionalProducer(AsyncProducer):
    """A producer that sends in transactions, one at a time. Another one with the same transactional id takes over:
    what this one has left open is aborted, and it cannot be used any more."""

    _flags = TRANSACTIONAL
    _dispatch: TransactionalDispatch

    def __init__(
        self,
        connect: Callable[[], AsyncConnection],
        facts_of: Callable[[str], Awaitable[TopicInfo]],
        options: Options,
        timeout: float,
    ) -> None:
        self._ends = connect()
        """What asks for the end, for whoever waits for it."""
        self._current: AsyncTransaction | None = None
        self._shut = False
        super().__init__(connect(), facts_of, options, timeout)
        self._refusal = self._dispatch.refusal

    def _dispatch_of(self, options: Options) -> Dispatch:
        return TransactionalDispatch(self._accumulator, self._clock, options)

    def transaction(self) -> AsyncTransaction:
        """One more transaction, for an `async with` block; one at a time."""
        self._check_alive()
        self._dispatch.want()
        return AsyncTransaction(self)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was sent so far in the open transaction is delivered, or failed."""
        self._check_alive()
        if self._current is not None:
            await super().flush(timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Abort what is open, then end."""
        self._shut = True
        try:
            current = self._current
            if current is not None and current._is_open:
                current._leave(closing=True)
                await self._abort("its producer was closed")
        finally:
            if not self._task.done():
                self._refusal = self._closed()
            await super().close(timeout)
            self._ends.close()

    # --- for transactions ---

    def _check_alive(self) -> None:
        if self._shut or self._task.done():
            raise self._refusal or self._closed()

    async def _begin(self, transaction: AsyncTransaction) -> None:
        self._check_alive()
        self._dispatch.want()
        await self._hurry(lambda: self._dispatch.is_ready, self._timeout)
        self._check_alive()
        transaction._enter()
        self._current, self._refusal = transaction, None

    async def _commit(self) -> None:
        try:
            await self._hurry(lambda: self._dispatch.failure is not None or self._accumulator.is_empty, None)
        except BaseException:
            with suppress(GoQueueError):
                await self._abort("it was interrupted")
            raise
        await self._end(self._dispatch.commit(), self._rules.delivery_timeout)

    async def _abort(self, reason: str | None, *, failed: bool = False) -> None:
        await self._end(self._dispatch.abort(reason, failed=failed), min(ABORT_SECONDS, self._timeout))

    async def _end(self, script: Script[None], timeout: float) -> None:
        """Have it ended, each call being repeated for so long; whatever happens it is over then."""
        try:
            left = self._dispatch.ending()
            self._refusal = self._dispatch.refusal
            self._tell(left)
            await self._carry_out_all(script, timeout)
        finally:
            script.close()
            tell_consumers = self._dispatch.over()
            self._current = None
            if not (self._shut or self._task.done()):
                self._refusal = self._dispatch.refusal
            self._work.set()  # to ask for the next epoch, if it is not known
            tell_consumers()

    async def _carry_out_all(self, script: Script[None], timeout: float) -> None:
        outcome: Any = None
        while True:
            try:
                call = script.throw(outcome) if isinstance(outcome, GoQueueError) else script.send(outcome)
            except StopIteration:
                return
            try:
                outcome = await self._ask(call, timeout)
            except GoQueueError as error:
                outcome = error

    async def _ask(self, call: Call[Any], timeout: float) -> Any:
        attempts = Attempts(call, timeout)
        while True:
            try:
                answer = await self._ends.exchange(call, min(attempts.left(), self._timeout))
                return call.decode(answer)
            except GoQueueError as error:
                await asyncio.sleep(attempts.after(error))

    # --- the task ---

    def _concluded(self) -> None:
        super()._concluded()
        if self._current is not None and not self._shut:
            self._refusal = self._dispatch.refusal
