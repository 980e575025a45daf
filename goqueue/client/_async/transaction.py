"""Transactions: the messages and acknowledgments of one take effect together, or not at all."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Self

from goqueue.client._async import exchange, run_sequence
from goqueue.client._async.deliveries import call_back
from goqueue.client._async.producer import AsyncProducer
from goqueue.client.admin_requests import TopicInfo
from goqueue.client.api_request import RequestSequence
from goqueue.client.async_connection import AsyncConnection
from goqueue.client.leased_message import describe_error
from goqueue.client.message_encoding import V
from goqueue.client.producer_core import Options
from goqueue.client.tasks import AsyncWorker
from goqueue.client.transaction_core import (
    ABORT_SECONDS,
    TransactionalProducerCore,
    TransactionCore,
    abort_failure_note,
    while_open,
)
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from goqueue.client.api_request import ApiRequest
    from goqueue.client.serializers.topic_encoding import TopicEncoding


class AsyncTransaction(TransactionCore, Generic[V]):
    """An open transaction. The end of its `async with` block commits it; an exception aborts it and is raised on.

    Readers see its messages once it is committed. A delayed message is delivered when it is due, or at the commit if
    that is later. Several tasks may send in it.
    """

    _producer: "AsyncTransactionalProducer[V]"

    send = while_open(AsyncProducer[V].send)
    send_many = while_open(AsyncProducer[V].send_many)

    async def commit(self) -> None:
        """Deliver everything and commit, as the end of the block does.

        If a message has failed, or the broker refuses an acknowledgment, the transaction is aborted and this raises
        that error.
        """
        self._leave()
        await self._producer._commit()

    async def abort(self, reason: str | None = None) -> None:
        """Discard the transaction. Messages that it acknowledged are delivered again."""
        self._leave()
        await self._producer._abort(reason, failed=True)

    async def __aenter__(self) -> Self:
        await self._producer._begin(self)
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self._is_open:
            if error is None:
                self._check_complete()
        elif error is None:
            await self.commit()
        else:
            self._leave()
            try:
                await self._producer._abort(describe_error(error), failed=isinstance(error, Exception))
            except GoQueueError as failure:
                error.add_note(abort_failure_note(failure))


class AsyncTransactionalProducer(TransactionalProducerCore, AsyncProducer[V]):
    """A producer that sends in transactions, one at a time.

    A new producer with the same transactional id replaces this one: the open transaction is aborted, and this
    producer is fenced.
    """

    _worker: AsyncWorker

    def __init__(
        self,
        connect: Callable[[], AsyncConnection],
        topic_info: Callable[[str], Awaitable[TopicInfo]],
        options: Options,
        timeout: float,
        encoding: "TopicEncoding | None" = None,
        ask: "Callable[[ApiRequest[Any]], Any] | None" = None,
    ) -> None:
        self._ends = connect()
        """The connection for commit and abort, which do not wait for the worker."""
        super().__init__(connect(), topic_info, options, timeout, encoding, ask)
        self._refusal = self._sender.refusal

    def transaction(self) -> AsyncTransaction[V]:
        """Return a new transaction, for an `async with` block; one at a time."""
        self._check_alive()
        self._sender.want()
        return AsyncTransaction(self)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far in the open transaction is delivered or failed."""
        self._check_alive()
        if self._current is not None:
            await super().flush(timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Abort the open transaction, then end."""
        self._not_from_a_callback()
        self._shut = True
        try:
            current = self._current
            if current is not None and current._is_open and self._worker.is_alive:
                current._leave(closing=True)
                await self._abort("its producer was closed")
        finally:
            await super().close(timeout)
            self._ends.close()

    # --- for transactions ---

    async def _begin(self, transaction: AsyncTransaction[V]) -> None:
        self._not_from_a_callback()
        self._check_alive()
        with self._lock:
            self._sender.want()
            await self._hurry(lambda: self._sender.is_ready, self._timeout)
            self._check_alive()
            transaction._enter()
            self._current, self._refusal = transaction, None

    async def _commit(self) -> None:
        self._check_process()
        try:
            self._not_from_a_callback()
            with self._lock:
                await self._hurry(lambda: self._sender.failure is not None or self._accumulator.is_empty, None)
        except BaseException:
            with suppress(GoQueueError):
                await self._abort("it was interrupted")
            raise
        await self._end(self._sender.commit(), self._rules.delivery_timeout)

    async def _abort(self, reason: str | None, *, failed: bool = False) -> None:
        self._check_process()
        await self._end(self._sender.abort(reason, failed=failed), min(ABORT_SECONDS, self._timeout))

    async def _end(self, script: RequestSequence[None], timeout: float) -> None:
        """Carry out the requests that end the transaction. It is over afterwards, also when they fail."""
        try:
            with self._lock:
                left = self._stop_sending()
            call_back(left)
            await run_sequence(script, lambda call: exchange(self._ends, call, timeout, self._timeout))
        finally:
            script.close()
            with self._lock:
                tell_consumers = self._finish()
            tell_consumers()
