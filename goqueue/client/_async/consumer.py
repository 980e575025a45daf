"""A consumer: polls ahead like a reader, settles along the way, and has a worker for what cannot wait."""

import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

from goqueue.client import unclosed
from goqueue.client._async import run_sequence
from goqueue.client._async.consumer_parts import AsyncPoller, AsyncSettlementSender
from goqueue.client._async.handler_runner import AsyncRunnableConsumer
from goqueue.client.api_request import ApiRequest
from goqueue.client.async_connection import AsyncConnection
from goqueue.client.consumer_core import CLOSE_SECONDS, UNREAD_SECONDS_MAX, ConsumerOptions
from goqueue.client.consumer_parts import TICK_SECONDS, WaitLimit, settlement_error
from goqueue.client.lease import HeldLease
from goqueue.client.leased_message import Batch, Delivered
from goqueue.client.member_requests import HeartbeatResult
from goqueue.client.membership import CallbackStep, ConsumerAction
from goqueue.client.request_attempts import RequestAttempts
from goqueue.client.tasks import AsyncEvent, AsyncLock, AsyncWorker, invoke, sleep, try_acquire
from goqueue.client.times import seconds
from goqueue.errors import (
    ChecksumMismatch,
    GoQueueError,
    LeaderUnavailable,
    NotCoordinator,
    OperatorError,
    TransientError,
)

if TYPE_CHECKING:
    from goqueue.client.serializers.message_decoding import MessageDecoding


class AsyncConsumer(AsyncRunnableConsumer):
    """A member of a group. Iterate it for messages, or `batches()` for the messages of one lease together.

    The application settles every message: it acknowledges it, or does one of the other things that `Delivered` offers.
    A message that is not settled is delivered again when its lease ends. Leases of messages that the application still
    has are extended, so processing may take long. The consumer joins with its `async with` block or with the first
    message, and leaves at the end of the block, which releases what was not settled.

    One task iterates; any task may settle.
    """

    _poller: AsyncPoller
    _settler: AsyncSettlementSender

    def __init__(
        self,
        group: str,
        topics: Iterable[str],
        connect: Callable[[], AsyncConnection],
        options: ConsumerOptions,
        timeout: float,
        ask: Callable[[ApiRequest[Any]], Any] | None = None,
        decoding: "MessageDecoding | None" = None,
    ) -> None:
        super().__init__(group, topics, options)
        self._timeout = timeout
        self._ask: Any = ask
        self.decoding = decoding
        self._poller = AsyncPoller(connect(), AsyncLock(), timeout)
        self._settler = AsyncSettlementSender(connect(), AsyncLock(), self, timeout)
        self._bell = AsyncEvent()
        self._worker: AsyncWorker | None = None

    # --- for the application ---

    async def __aiter__(self) -> AsyncIterator[Delivered]:
        """Yield messages. A new iteration continues where the last one ended."""
        self._check_open()
        while True:
            for message in self._rest:
                if self._attention and not await self._recheck(message):
                    break
                yield message
            else:
                batch = await self._next()
                if batch is None:
                    return
                self._rest = iter(batch.messages)

    async def _recheck(self, message: Delivered) -> bool:
        """Do what needs attention. Return whether the message may still be delivered; otherwise `_rest` has changed."""
        try:
            if not self._stopped:
                await self._attend()
        except BaseException:
            self._rest = chain((message,), self._rest)
            raise
        return self._may_deliver(message)

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield the messages of one lease at a time: of one partition, in their order."""
        self._check_open()
        while (batch := await self._next()) is not None:
            yield batch

    async def flush(self, timeout: str | float | None = None) -> None:
        """Wait until everything settled so far is durable. Raises what was refused since the last call."""
        self._check_open()
        await self._flush(self._timeout if timeout is None else seconds(timeout, "timeout"))
        error = self._leases.failure()
        if error is not None:
            raise error

    async def durable(self, held: HeldLease, first: int, end: int) -> None:
        self._check_open()
        await self._flush(self._timeout)
        error = settlement_error(held, first, end)
        if error is not None:
            raise error

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Send what was settled, release what was not, and leave the group, within about `timeout` seconds."""
        if self._closed:
            return
        self.stop()
        failure: BaseException | None = None
        try:
            if self._belongs_here:
                failure = await self._revoke_all()
                if not self._closed:  # which a callback may have done
                    self._closed = True
                    await self._leave(time.monotonic() + timeout)
        finally:
            self._end()
        if failure is not None:
            raise failure

    async def _revoke_all(self) -> BaseException | None:
        """Call `on_revoked` while the leases still hold. Return its error, to be raised when all is done."""
        with self._settler.lock:
            going = self._membership.give_up_all()
        try:
            await self._call_back("on_revoked", going)
        except Exception as error:
            return error
        return None

    async def _leave(self, deadline: float) -> None:
        if self._worker is not None:
            self._bell.set()
            await self._worker.stop(self._settler.interrupt, (deadline - time.monotonic()) / 2, limit=1.0)
        if self._membership.member_id is None:
            return
        with suppress(GoQueueError):
            await self._flush(max(deadline - time.monotonic(), 0.1))
        with suppress(GoQueueError):
            await self._send_leave(max(deadline - time.monotonic(), 0.5))
        await self._call_back("on_expired", self._leases.refused())

    async def _send_leave(self, timeout: float) -> None:
        """Leave at the coordinator of the group, also if another node becomes it now."""
        call = self._membership.leave()
        attempts, is_moving = RequestAttempts(call, timeout), False
        while True:
            try:
                await self._settler.call(call, attempts.left())
            except GoQueueError as error:
                # once a node has said that others coordinate, one that is gone may be named again for a while
                is_moving = is_moving or isinstance(error, (NotCoordinator, LeaderUnavailable))
                is_left = error.details.get("untried")
                delay = attempts.after(error)
                if not is_moving and not is_left:
                    raise
                await sleep(delay)
            else:
                return

    async def __aenter__(self) -> Self:
        self._check_open()
        try:
            await self._attend()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    # --- between two messages ---

    async def _next(self) -> Batch | None:
        """Return the next batch; None is the end."""
        if self._refusal is not None:
            raise self._refusal
        self._left_at = None
        limit = WaitLimit(self._timeout, self._idle_seconds)
        while not self._stopped:
            if self._attention:
                await self._pause(limit.before_attending())
                await self._attend()
            if self._leases.has_unread:
                await self._ask_ahead()
                if (batch := self._next_batch()) is not None:
                    return await self._returned(batch)
                continue
            async with self._settler.lock:
                await self._settler.settle()
            try:
                begun = time.monotonic()
                is_idle = await self._take(limit.idle_left)
                if is_idle and not self._held_back and limit.is_over_after(min(time.monotonic() - begun, self._wait)):
                    return None
                limit.answered()
                if is_idle:
                    await self._pause(self._held_back)
            except (TransientError, ChecksumMismatch) as error:
                if not self._stopped:
                    await self._pause(limit.after(error))
        return None

    async def _returned(self, batch: Batch) -> Batch:
        """Wake the worker, and ask for the schemas of the messages if they are to be decoded."""
        if self._asleep:
            self._asleep = False
            self._bell.set()
        if self.decoding is not None:
            await run_sequence(self.decoding.load(batch), self._ask)
        return batch

    async def _take(self, idle_left: float | None) -> bool:
        """Wait for an answer, and request the next one before this one is read.

        Return whether the answer was requested just now and brought nothing.
        """
        async with self._poller.lock:
            asked = not self._poller.is_under_way
            if asked:
                await self._poller.ask(self._poll(idle_left))
                if self._stopped:  # before there was a connection to be interrupted
                    self._poller.interrupt()
            await self._receive()
        await self._ask_ahead()
        return asked and not self._leases.has_unread and not self._attention

    async def _receive(self) -> None:
        """Take the answer that is under way; the poller's lock is held."""
        try:
            received = await self._poller.take()
        except GoQueueError as error:
            if isinstance(error, ChecksumMismatch):
                self._poller.abandon()
            with self._settler.lock:
                if not self._membership.refused(error):
                    raise
            return
        if received is not None:
            with self._settler.lock:
                self._polled(*received)

    async def _ask_ahead(self) -> None:
        if self._leases.has_unread and self._may_ask_ahead() and not self._poller.is_under_way:
            async with self._poller.lock:
                await self._poller.ask(self._poll())

    async def _pause(self, delay: float) -> None:
        until = time.monotonic() + delay
        while not self._stopped and (left := until - time.monotonic()) > 0:
            await sleep(min(left, TICK_SECONDS))

    async def _attend(self) -> None:
        """Do what only the consuming task may do: join, change the assignment, call callbacks."""
        self._check_open()
        self._attention = False
        await self._call_back("on_expired", self._leases.refused())
        steps = self._membership.attend(self._leases)
        failure: BaseException | None = None
        outcome: Any = None
        try:
            while not self._closed:  # which a callback may have done
                with self._settler.lock:
                    step = steps.throw(outcome) if isinstance(outcome, GoQueueError) else steps.send(outcome)
                outcome = None
                try:
                    if isinstance(step, CallbackStep):
                        await self._call_back(step.name, step.partitions)
                    else:
                        outcome = await self._carry_out(step)
                except Exception as error:
                    if isinstance(step, CallbackStep):
                        failure = failure or error  # the application's own, raised when all is done
                    elif isinstance(error, GoQueueError):
                        outcome = error
                    else:
                        raise
        except StopIteration:
            self._start_worker()
        except TransientError:
            if not self._stopped:  # otherwise the iteration ends, whatever was to be done
                raise
        finally:
            steps.close()
        if failure is not None:
            raise failure

    async def _carry_out(self, step: ApiRequest[Any] | ConsumerAction) -> Any:
        if isinstance(step, ApiRequest):
            return await self._call(step)
        if step is ConsumerAction.SETTLE:
            with suppress(GoQueueError):  # what was not sent is refused later, and reported then
                await self._flush(self._timeout)
        else:
            async with self._poller.lock:
                if step is ConsumerAction.ABANDON:
                    self._poller.abandon()
                else:
                    with suppress(GoQueueError):
                        await self._receive()
        return None

    async def _call(self, call: ApiRequest[Any]) -> Any:
        attempts = RequestAttempts(call, self._timeout)
        while True:
            try:
                return await self._settler.call(call, attempts.left())
            except GoQueueError as error:
                await self._pause(attempts.after(error))
                if self._stopped:
                    raise

    async def _flush(self, timeout: float) -> None:
        if self._membership.member_id is not None:
            await self._settler.flush(timeout)

    async def _call_back(self, name: str, argument: list[Any]) -> None:
        if name == "on_revoked" and self._runner is not None:
            await self._runner.finish_with(argument)
        callback = getattr(self._options, name)
        if argument and callback is not None:
            await invoke(callback, argument)

    # --- the worker ---

    def _start_worker(self) -> None:
        if self._worker is None:
            self._beat_at = time.monotonic() + self._beat_seconds()
            self._worker = AsyncWorker(self._run, self._fail, "goqueue-consumer")
            unclosed.watch_consumer(self)

    async def _run(self) -> None:
        """Send heartbeats, extensions, and settlements that the application noted, until the consumer is closed.

        While nothing is leased this sleeps from one heartbeat to the next. It calls no callback and changes no
        assignment: it raises the consumer's attention, and the consumer acts between two messages.
        """
        while not self._closed:
            # Set before the check: what is leased after the check finds the worker asleep and wakes it.
            self._asleep = True
            if time.monotonic() >= self._beat_at:
                await self._beat()
            delay = self._beat_at - time.monotonic()
            if await self._tick():
                self._asleep = False
                delay = min(delay, TICK_SECONDS)
            if delay > 0 and not self._closed:
                await self._bell.wait(delay)
            self._bell.clear()

    async def _beat(self) -> None:
        """Send a heartbeat, and set the time of the next one."""
        with self._settler.lock:
            identity, call = self._membership.identity, self._membership.heartbeat()
        try:
            beat: HeartbeatResult | GoQueueError = await self._settler.call(call)
        except TransientError as error:
            # Without a limit: the consumer itself notices when the broker stays away.
            self._beat_at = time.monotonic() + self._beat_backoff.next(error)
            return
        except GoQueueError as error:
            beat = error
        self._beat_backoff.attempts = 0
        with self._settler.lock:
            ignored = self._heartbeat_answered(identity, beat)
        if ignored and self._poller.lock.locked():
            self._poller.interrupt()
        self._beat_at = time.monotonic() + self._beat_seconds()

    async def _tick(self) -> bool:
        """Do what the consuming task is too busy for. Return whether to come again soon."""
        left_at = self._left_at
        away = left_at is not None and time.monotonic() - left_at > UNREAD_SECONDS_MAX
        if await try_acquire(self._poller.lock):  # otherwise the consuming task waits for the answer
            try:
                if self._poller.look() and away:
                    await self._receive()
            except GoQueueError:
                self._poller.abandon()  # the consuming task asks again
            finally:
                self._poller.lock.release()
        if not await try_acquire(self._settler.lock):
            return True  # the holder of the lock does the same
        try:
            await self._settler.settle(patient=False)
            return not (self._leases.is_idle and self._settler.is_idle) or self._has_unwatched_poll
        finally:
            self._settler.lock.release()

    def _fail(self, error: BaseException) -> None:
        self._refusal = OperatorError(f"the consumer's task has ended: {error!r}")
        self.stop()
