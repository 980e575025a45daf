"""A consumer for event loops: the surface of the one for threads, with tasks for what cannot wait."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from types import TracebackType
from typing import Any, Self

from goqueue.client.async_wires import AsyncPoller, AsyncSettler
from goqueue.client.asynchronous import AsyncConnection
from goqueue.client.attempts import Attempts
from goqueue.client.calls import Call
from goqueue.client.consuming import CLOSE_SECONDS, TICK_SECONDS, Consuming, Patience, failure_of
from goqueue.client.delivered import Batch, Delivered
from goqueue.client.lease import Held
from goqueue.client.membership import Errand, Told
from goqueue.client.options import ConsumerOptions
from goqueue.client.polls import Beat, Polled
from goqueue.client.retry import Backoff
from goqueue.client.times import seconds
from goqueue.errors import ChecksumMismatch, GoQueueError, OperatorError, TransientError


class AsyncConsumer(Consuming):
    """A member of a group. Iterate it for messages, or `batches()` for the messages of one lease together.

    It does what `Consumer` does, in tasks of its own. Settling a message needs no `await`, unless it is to `wait`.
    Callbacks may be coroutine functions. One task iterates; any may settle.
    """

    def __init__(
        self,
        group: str,
        topics: Iterable[str],
        connect: Callable[[], AsyncConnection],
        options: ConsumerOptions,
        timeout: float,
    ) -> None:
        super().__init__(group, topics, options)
        self._timeout = timeout
        self._poller = AsyncPoller(connect(), self._took, timeout)
        self._settler = AsyncSettler(connect(), self._leases, self, timeout)
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._bell = asyncio.Event()
        self._companion: asyncio.Task[None] | None = None
        self._rest: Iterator[Delivered] = iter(())

    # --- for the application ---

    async def __aiter__(self) -> AsyncIterator[Delivered]:
        """Messages. A new iteration goes on where the last one was left."""
        self._check_open()
        while True:
            for message in self._rest:
                if self._attention and not await self._look_up(message):
                    break
                yield message
            else:
                batch = await self._next()
                if batch is None:
                    return
                self._rest = iter(batch.messages)

    async def _look_up(self, message: Delivered) -> bool:
        """See to what needs attention first; whether the message is to be handed out all the same. If not, what is
        left to be handed out may be something else."""
        try:
            if not self._stopped.done():
                await self._attend()
        except BaseException:
            self._rest = chain((message,), self._rest)
            raise
        if message._lease.held.over or self._stopped.done():
            self._rest = iter(())
            return False
        if self._leases.order is None:
            return True
        self._rest = iter(self._sifted(chain((message,), self._rest)))
        return False

    async def batches(self) -> AsyncIterator[Batch]:
        """The messages of one lease at a time: of one partition, in their order."""
        self._check_open()
        while (batch := await self._next()) is not None:
            yield batch

    async def flush(self, timeout: str | float | None = None) -> None:
        """Wait until everything that was settled so far is durable; raises what was refused since the last time."""
        self._check_open()
        await self._flush(self._timeout if timeout is None else seconds(timeout, "timeout"))
        error = self._leases.failure()
        if error is not None:
            raise error

    def durable(self, held: Held, first: int, end: int) -> Coroutine[Any, Any, None]:
        return self._durable(held, first, end)

    async def _durable(self, held: Held, first: int, end: int) -> None:
        self._check_open()
        await self._flush(self._timeout)
        error = failure_of(held, first, end)
        if error is not None:
            raise error

    def stop(self) -> None:
        """End the iteration, from another task or a signal's handler. What is left is closed as usual."""
        self._alert()
        if not self._stopped.done():
            self._stopped.set_result(None)

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Send what was settled, give back what was not, and leave the group; a broker that is gone costs `timeout`."""
        if self._closed:
            return
        self.stop()
        failure: BaseException | None = None
        try:
            if self._belongs_here:
                failure = await self._say_goodbye()
                if not self._closed:  # which a callback may have done
                    self._closed = True
                    await self._leave(time.monotonic() + timeout)
        finally:
            self._closed = True
            await self._poller.abandon()
            await self._settler.close()
            self._leases.forget()
            self._rest = iter(())
        if failure is not None:
            raise failure

    async def _say_goodbye(self) -> BaseException | None:
        """Tell of the partitions that go, while their leases still hold. What that raises is raised when all is
        done."""
        try:
            await self._tell("on_revoked", self._membership.give_up_all())
        except Exception as error:
            return error
        return None

    async def _leave(self, deadline: float) -> None:
        if self._companion is not None:
            self._companion.cancel()
            await asyncio.wait([self._companion])
        if self._membership.member_id is None:
            return
        with suppress(GoQueueError, TimeoutError):
            async with asyncio.timeout(deadline - time.monotonic()):
                await self._flush(max(deadline - time.monotonic(), 0.1))
        with suppress(GoQueueError, TimeoutError):
            async with asyncio.timeout(max(deadline - time.monotonic(), 0.5)):
                await self._settler.call(self._membership.leave())
        await self._tell("on_expired", self._leases.refused())

    async def __aenter__(self) -> Self:
        self._check_open()
        try:
            await self._attend()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- between two messages ---

    async def _next(self) -> Batch | None:
        """The next batch; None is the end."""
        if self._refusal is not None:
            raise self._refusal
        patience = Patience(self._timeout, self._idle_seconds)
        while not self._stopped.done():
            if self._attention:
                await self._pause(patience.before_attending())
                await self._attend()
            if self._leases.has_unread:
                batch = self._read()
                if batch is not None:
                    return batch
                continue
            self._settler.settle_soon()
            try:
                if await self._take(patience.idle_left) and patience.is_over:
                    return None
                patience.answered()
            except (TransientError, ChecksumMismatch) as error:
                await self._pause(patience.after(error))
        return None

    async def _take(self, idle_left: float | None) -> bool:
        """Wait for an answer; whether it was asked for just now, and brought nothing."""
        asked = not self._poller.is_under_way
        if asked:
            self._poller.ask(self._poll(idle_left))
        error = await self._poller.outcome(self._stopped)
        if error is not None and not self._membership.refused(error):
            raise error
        return asked and not self._leases.has_unread and not self._attention

    def _took(self, polled: Polled) -> None:
        self._polled(polled, time.monotonic())
        self._bell.set()

    def _read(self) -> Batch | None:
        """The next lease as messages, with the next answer under way."""
        if self._may_ask_ahead() and not self._poller.is_under_way:
            self._poller.ask(self._poll())
        part = self._leases.next()
        if part is None:
            return None
        batch, gaps = self._batch(part)
        if gaps:
            part[0].held.skip(gaps)
        if self._leases.order is not None:
            batch.messages = self._sifted(batch.messages)
        return batch if batch.messages else None

    async def _pause(self, delay: float) -> None:
        if delay > 0:
            await asyncio.wait([self._stopped], timeout=delay)

    async def _attend(self) -> None:
        """Whatever needs the consuming task: joining, changes of the assignment, callbacks."""
        self._check_open()
        self._attention = False
        await self._tell("on_expired", self._leases.refused())
        steps = self._membership.attend(self._leases)
        failure: BaseException | None = None
        outcome: Any = None
        try:
            while not self._closed:  # which a callback may have done
                step = steps.throw(outcome) if isinstance(outcome, GoQueueError) else steps.send(outcome)
                outcome = None
                try:
                    if isinstance(step, Told):
                        await self._tell(step.name, step.partitions)
                    else:
                        outcome = await self._carry_out(step)
                except Exception as error:
                    if isinstance(step, Told):
                        failure = failure or error  # the application's own, raised when all is done
                    elif isinstance(error, GoQueueError):
                        outcome = error
                    else:
                        raise
        except StopIteration:
            self._accompany()
        except TransientError:
            if not self._stopped.done():  # else the iteration ends, whatever was to be done
                raise
        finally:
            steps.close()
        if failure is not None:
            raise failure

    async def _carry_out(self, step: Call[Any] | Errand) -> Any:
        if isinstance(step, Call):
            return await self._call(step)
        if step is Errand.SETTLE:
            with suppress(GoQueueError):  # what did not get through is refused later, and told then
                await self._flush(self._timeout)
        elif step is Errand.ABANDON:
            await self._poller.abandon()
        else:
            error = await self._poller.outcome(self._stopped)
            if error is not None:
                self._membership.refused(error)
        return None

    async def _call(self, call: Call[Any]) -> Any:
        attempts = Attempts(call, self._timeout)
        while True:
            try:
                return await self._settler.call(call, attempts.left())
            except GoQueueError as error:
                await self._pause(attempts.after(error))
                if self._stopped.done():
                    raise

    async def _flush(self, timeout: float) -> None:
        if self._membership.member_id is not None:
            await self._settler.flush(timeout)

    async def _tell(self, name: str, about: list[Any]) -> None:
        callback = getattr(self._options, name)
        if about and callback is not None:
            result = callback(about)
            if inspect.isawaitable(result):
                await result

    # --- the companion ---

    def _accompany(self) -> None:
        if self._companion is None:
            self._companion = asyncio.create_task(self._keep_company(), name="goqueue-consumer")

    async def _keep_company(self) -> None:
        """Heartbeats, extensions, and whatever the application noted and did not send."""
        try:
            backoff, beat_at = Backoff(), time.monotonic() + self._beat_seconds()
            while True:
                if time.monotonic() >= beat_at:
                    beat_at = time.monotonic() + await self._beat(backoff)
                self._settler.settle_soon()
                self._bell.clear()
                resting = self._leases.is_idle and self._settler.is_idle
                delay = beat_at - time.monotonic()
                await self._sleep(delay if resting else min(delay, TICK_SECONDS), resting=resting)
        except Exception as error:
            self._refusal = OperatorError(f"the consumer's task has ended: {error!r}")
            self.stop()
            raise

    async def _beat(self, backoff: Backoff) -> float:
        """Seconds to the next heartbeat."""
        spoken_as = self._membership.spoken_as
        try:
            beat: Beat | GoQueueError = await self._settler.call(self._membership.heartbeat())
        except TransientError as error:
            return backoff.next(error)
        except GoQueueError as error:
            beat = error
        if self._beaten(spoken_as, beat):
            self._poller.interrupt()
        backoff.attempts = 0
        return self._beat_seconds()

    async def _sleep(self, delay: float, *, resting: bool) -> None:
        if not resting:
            await asyncio.sleep(delay)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._bell.wait()
