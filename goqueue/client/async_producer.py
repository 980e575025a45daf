"""A producer for event loops: the surface of the one for threads, with a task that delivers."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from itertools import chain
from types import TracebackType
from typing import Any, Self

from goqueue.client.accumulator import Topic
from goqueue.client.asynchronous import AsyncConnection
from goqueue.client.bulk import Piece, bulk_of
from goqueue.client.delivery import Batch, OnDelivery, Receipt, Settling, SettlingMany, Span, still_under_way
from goqueue.client.dispatch import Step
from goqueue.client.due import Delay, DeliverAt
from goqueue.client.endpoints import TopicInfo
from goqueue.client.outgoing import Headers, Key, Priority, Value
from goqueue.client.producing import Options, Producing, callbacks_of
from goqueue.clock import SystemClock
from goqueue.errors import GoQueueError, OperatorError, RequestInvalid
from goqueue.storage.frame import NORMAL


class AsyncDelivery(Settling):
    """One message on its way. Waiting for it sends what has gathered at once; `await delivery` is its result."""

    __slots__ = ()

    async def result(self, timeout: float | None = None) -> Receipt:
        """Wait until the message is durable; raises what went wrong, and RequestTimedOut when nothing did yet."""
        await self._wait(timeout)
        return self._receipt()

    async def exception(self, timeout: float | None = None) -> GoQueueError | None:
        """Wait, and give what went wrong instead of raising it."""
        await self._wait(timeout)
        return self._batch.fault(self._index)

    def __await__(self) -> Generator[Any, None, Receipt]:
        return self.result().__await__()

    async def _wait(self, timeout: float | None) -> None:
        if not self._batch.settled and not await self._batch.owner.wait(self._batch, timeout):
            raise still_under_way(1, timeout)


class AsyncDeliveries(SettlingMany):
    """All messages of one `send_many`."""

    __slots__ = ()

    async def result(self, timeout: float | None = None) -> list[Receipt]:
        """Wait until all are durable: a receipt for each in the order of the call. Raises the first failure."""
        await self._wait(timeout)
        return self._receipts()

    async def exceptions(self, timeout: float | None = None) -> dict[int, GoQueueError]:
        """Wait, and give what went wrong by the place of the message in the call."""
        await self._wait(timeout)
        return self._failures()

    def __await__(self) -> Generator[Any, None, list[Receipt]]:
        return self.result().__await__()

    async def _wait(self, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                for batch in self._batches():
                    await batch.owner.wait(batch, None)
        except TimeoutError:
            raise still_under_way(len(self), timeout) from None


class AsyncProducer(Producing):
    """Sends messages in the background, each exactly once in the order of the calls.

    A failure is never silent. The result of its delivery raises it and `on_delivery` is called with it; what failed
    and was looked at by neither is raised by the next `flush()` or `close()`, with the number of messages in
    `details["failed"]`. A producer is closed at the end of its `async with` block, which delivers what is left.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        facts_of: Callable[[str], Awaitable[TopicInfo]],
        options: Options,
        timeout: float,
    ) -> None:
        super().__init__(options, SystemClock())
        self._connection = connection
        self._facts_of = facts_of
        self._timeout = timeout
        self._work = asyncio.Event()
        self._progress: list[asyncio.Future[None]] = []
        self._stopping = False
        self._task = asyncio.create_task(self._run(), name="goqueue-producer")

    async def send(  # noqa: PLR0913 - each is a choice of its own, mostly given by name
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
        """Hand over one message; a wrong one is refused here. None as value deletes its key.

        With a `delay`, or `deliver_at` a time, the broker keeps it until then, and delivers it to the topic once.

        This returns as soon as the message has its place in the buffer; await the delivery to know that it is
        durable. When the buffer is full it waits, at most `max_block`, and then raises BrokerOverloaded.
        """
        if self._refusal is not None:
            raise self._refusal
        found = self._topics.get(topic) or await self._learn(topic)
        if (delay is not None or deliver_at is not None) and (due := self._due(delay, deliver_at)):
            piece = self._prepare_later(found.delayed, value, key, headers, partition, priority, due)
            batch, first, _ = await self._take(found.delayed, piece, on_delivery)
            return AsyncDelivery(batch, first)
        frame, origin, lane = self._prepare(found, value, key, headers, partition, priority)
        if self._accumulator.buffered + len(frame) > self._rules.buffer_bytes:
            await self._make_room(len(frame))
        if self._refusal is not None:  # it was closed meanwhile
            raise self._refusal
        batch = self._accumulator.add(found, lane or found.sticky, frame, origin)
        if on_delivery is not None:
            batch.callbacks.append((batch.count - 1, 1, on_delivery))
        rules = self._rules
        if batch.count in (1, rules.batch_messages) or batch.size >= rules.batch_bytes:
            self._work.set()
        return AsyncDelivery(batch, batch.count - 1)

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
        """Hand over many messages at once. `headers`, `partition`, `priority` and when to deliver hold for all.

        If one message is wrong, none is taken. `on_delivery` is called with each delivery.

        BrokerOverloaded, or that the producer is closed meanwhile, is raised when nothing was taken. Once a part was,
        the messages that found no place are failed deliveries among the others, and have had their `on_delivery`.
        """
        if self._refusal is not None:
            raise self._refusal
        found = self._topics.get(topic) or await self._learn(topic)
        if due := self._due(delay, deliver_at):
            found = found.delayed
        flags, shrink = self._flags, self._shrink
        bulk = bulk_of(found, values, keys, headers, partition, priority, due=due, flags=flags, shrink=shrink)
        spans: list[Span] = []
        pieces = bulk.pieces(self._rules.request_bytes)
        for piece in pieces:
            try:
                spans.append(await self._take(found, piece, on_delivery))
            except GoQueueError as error:
                if not spans:
                    raise
                # Raised, it would leave nobody to ask about the messages that were taken.
                refused = self._refuse(found, chain((piece,), pieces), error, on_delivery)
                for batch, _, _ in refused:
                    self._dispatch.failures.add(batch)
                self._tell([batch for batch, _, _ in refused])
                spans += refused
        return AsyncDeliveries(spans)

    async def _take(self, topic: Topic, piece: Piece, on_delivery: OnDelivery | None) -> Span:
        if self._accumulator.buffered + piece.size > self._rules.buffer_bytes:
            await self._make_room(piece.size)
        if self._refusal is not None:
            raise self._refusal
        batch, first = self._gather(topic, piece, on_delivery)
        if first == 0 or self._is_full(batch):
            self._work.set()
        return batch, first, piece.positions

    def transaction(self) -> Any:
        """A block whose messages count together or not at all, of a producer with a transactional id."""
        raise self._not_transactional()

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was sent so far is delivered or failed; raises failures nobody looked at."""
        if self._refusal is not None and not self._stopping:
            raise self._refusal
        whole = await self._drain(timeout)
        self._raise_failures()
        if not whole:
            raise still_under_way(sum(batch.count for batch in self._accumulator.waiting()), timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Deliver what is left, then end. What is not delivered within `timeout` fails."""
        if self._stopping:
            return
        self._refusal = self._refusal or self._closed()
        try:
            await self._drain(timeout)
        finally:
            self._stopping = True
            self._task.cancel()
            await asyncio.wait([self._task])
        self._raise_failures()

    async def wait(self, batch: Batch, timeout: float | None) -> bool:
        """Whether the batch was settled within `timeout`. It is sent at once."""
        if batch.settled:
            return True
        settled = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not settled.done():
                settled.set_result(None)

        batch.wait_with(wake)
        self._work.set()
        try:
            await asyncio.wait([settled, self._task], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            batch.wait_no_more(wake)
        if self._task.done() and not batch.settled:
            raise self._refusal or self._closed()
        return batch.settled

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except GoQueueError as failure:
            if error is None:
                raise
            error.add_note(f"The producer failed as well: {failure}")

    def __repr__(self) -> str:
        return f"<AsyncProducer {self.buffered_bytes} bytes under way>"

    # --- waiting ---

    async def _make_room(self, size: int) -> None:
        accumulator, most = self._accumulator, self._rules.buffer_bytes
        if asyncio.current_task() is self._task:
            raise self._overloaded()

        def fits() -> bool:
            return not accumulator.buffered or accumulator.buffered + size <= most

        fitted = await self._hurry(fits, self._max_block)
        if self._refusal is not None:
            raise self._refusal
        if not fitted:
            raise self._overloaded()

    async def _drain(self, timeout: float | None) -> bool:
        if asyncio.current_task() is self._task:
            raise RequestInvalid("a callback must not wait for deliveries: they are made by its own task")
        waiting = self._accumulator.waiting()
        return await self._hurry(lambda: all(batch.settled for batch in waiting), timeout)

    async def _hurry(self, reached: Callable[[], bool], timeout: float | None) -> bool:
        """Send everything without delay until that is so, or the task has ended."""
        self._accumulator.hurry += 1
        self._work.set()
        try:
            async with asyncio.timeout(timeout):
                while not reached() and not self._task.done():
                    progress = asyncio.get_running_loop().create_future()
                    self._progress.append(progress)
                    await progress
        except TimeoutError:
            return reached()
        finally:
            self._accumulator.hurry -= 1
        return reached()

    def _raise_failures(self) -> None:
        error = self._dispatch.failures.tell()
        if error is not None:
            raise error

    async def _learn(self, name: str) -> Topic:
        facts = await self._facts_of(name)
        return self._topics.get(name) or self._know(name, facts)

    # --- the task ---

    async def _run(self) -> None:
        try:
            while True:
                self._work.clear()
                step, delay, late = self._dispatch.next()
                self._tell(late)
                if step is not None:
                    outcome = await self._carry_out(step)
                    settled = self._dispatch.done(step, outcome)
                    self._concluded()
                    self._tell(settled)
                elif not late:
                    await self._sleep(delay)
        except Exception as error:
            self._refusal = OperatorError(f"the producer's task has ended: {error!r}")
            raise
        finally:
            self._refusal = self._refusal or self._closed()  # also when somebody else has ended the task
            self._connection.close()
            self._tell(self._dispatch.close())

    async def _sleep(self, delay: float | None) -> None:
        try:
            async with asyncio.timeout(delay):
                await self._work.wait()
        except TimeoutError:
            return

    async def _carry_out(self, step: Step) -> Any:
        try:
            answer = await self._connection.exchange(step.call, min(self._timeout, step.seconds))
            return step.call.decode(answer)
        except GoQueueError as error:
            return error

    def _tell(self, batches: list[Batch]) -> None:
        """Call back, then wake whoever waits. What a callback raises goes to the loop, and disturbs nobody else."""
        for batch, first, count, call in callbacks_of(batches):
            for index in range(first, first + count):
                try:
                    call(AsyncDelivery(batch, index))
                except Exception as error:
                    context = {"message": "a delivery's callback failed", "exception": error, "task": self._task}
                    asyncio.get_running_loop().call_exception_handler(context)
        waiting, self._progress = self._progress, []
        for progress in waiting:
            if not progress.done():
                progress.set_result(None)
