"""A producer for threads: `send` costs a microsecond or so, a thread of its own delivers."""

import threading
from collections.abc import Callable, Sequence
from itertools import chain
from types import TracebackType
from typing import Any, Self

from goqueue.client.accumulator import Topic
from goqueue.client.blocking import Connection
from goqueue.client.bulk import Piece, bulk_of
from goqueue.client.delivery import Batch, Deliveries, Delivery, OnDelivery, Span, still_under_way
from goqueue.client.dispatch import Step
from goqueue.client.due import Delay, DeliverAt
from goqueue.client.endpoints import TopicInfo
from goqueue.client.outgoing import Headers, Key, Priority, Value
from goqueue.client.producing import Options, Producing, callbacks_of
from goqueue.clock import SystemClock
from goqueue.errors import GoQueueError, OperatorError, RequestInvalid
from goqueue.storage.frame import NORMAL


class Producer(Producing):
    """Sends messages in the background, each exactly once in the order of the calls.

    A failure is never silent. `result()` of its delivery raises it and `on_delivery` is called with it; what failed
    and was looked at by neither is raised by the next `flush()` or `close()`, with the number of messages in
    `details["failed"]`. A producer is closed at the end of its `with` block, which delivers what is left.

    Several threads may use one producer. After a fork a child needs its own.
    """

    def __init__(
        self, connection: Connection, facts_of: Callable[[str], TopicInfo], options: Options, timeout: float
    ) -> None:
        super().__init__(options, SystemClock())
        self._connection = connection
        self._facts_of = facts_of
        self._timeout = timeout
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._progress = threading.Condition(self._lock)
        self._asleep = False
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="goqueue-producer", daemon=True)
        self._thread.start()

    # --- for callers ---

    def send(  # noqa: PLR0913 - each is a choice of its own, mostly given by name
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
        """Hand over one message; a wrong one is refused here. None as value deletes its key.

        With a `delay`, or `deliver_at` a time, the broker keeps it until then, and delivers it to the topic once.

        `on_delivery` is called with the delivery, in the producer's thread. When the buffer is full this waits,
        at most `max_block`, and then raises BrokerOverloaded.
        """
        if self._refusal is not None:
            raise self._refusal
        found = self._topics.get(topic) or self._learn(topic)
        if (delay is not None or deliver_at is not None) and (due := self._due(delay, deliver_at)):
            piece = self._prepare_later(found.delayed, value, key, headers, partition, priority, due)
            batch, first, _ = self._take(found.delayed, piece, on_delivery)
            return Delivery(batch, first)
        frame, origin, lane = self._prepare(found, value, key, headers, partition, priority)
        accumulator, rules = self._accumulator, self._rules
        with self._lock:
            if self._refusal is not None:  # it was closed meanwhile
                raise self._refusal
            if accumulator.buffered + len(frame) > rules.buffer_bytes:
                self._make_room(len(frame))
            batch = accumulator.add(found, lane or found.sticky, frame, origin)
            count = batch.count
            if on_delivery is not None:
                batch.callbacks.append((count - 1, 1, on_delivery))
            if self._asleep and (count == 1 or count >= rules.batch_messages or batch.size >= rules.batch_bytes):
                self._wake()
        return Delivery(batch, count - 1)

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
        """Hand over many messages at once, three times as fast as one by one.

        `headers`, `partition`, `priority` and when to deliver hold for all. If one message is wrong, none is taken.
        `on_delivery` is called with each delivery.

        BrokerOverloaded, or that the producer is closed meanwhile, is raised when nothing was taken. Once a part was,
        the messages that found no place are failed deliveries among the others, and have had their `on_delivery`.
        """
        if self._refusal is not None:
            raise self._refusal
        found = self._topics.get(topic) or self._learn(topic)
        if due := self._due(delay, deliver_at):
            found = found.delayed
        flags, shrink = self._flags, self._shrink
        bulk = bulk_of(found, values, keys, headers, partition, priority, due=due, flags=flags, shrink=shrink)
        spans: list[Span] = []
        pieces = bulk.pieces(self._rules.request_bytes)
        for piece in pieces:
            try:
                spans.append(self._take(found, piece, on_delivery))
            except GoQueueError as error:
                if not spans:
                    raise
                # Raised, it would leave nobody to ask about the messages that were taken.
                refused = self._refuse(found, chain((piece,), pieces), error, on_delivery)
                with self._lock:
                    for batch, _, _ in refused:
                        self._dispatch.failures.add(batch)
                _tell([batch for batch, _, _ in refused])
                spans += refused
        return Deliveries(spans)

    def _take(self, topic: Topic, piece: Piece, on_delivery: OnDelivery | None) -> Span:
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if self._accumulator.buffered + piece.size > self._rules.buffer_bytes:
                self._make_room(piece.size)
            batch, first = self._gather(topic, piece, on_delivery)
            if self._asleep and (first == 0 or self._is_full(batch)):
                self._wake()
        return batch, first, piece.positions

    def transaction(self) -> Any:
        """A block whose messages count together or not at all, of a producer with a transactional id."""
        raise self._not_transactional()

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was sent so far is delivered or failed; raises failures nobody looked at."""
        self._not_from_a_callback()
        if self._refusal is not None and not self._stopping:
            raise self._refusal
        with self._lock:
            whole = self._drain(timeout)
            error = self._dispatch.failures.tell()
        if error is not None:
            raise error
        if not whole:
            raise still_under_way(sum(batch.count for batch in self._accumulator.waiting()), timeout)

    def close(self, timeout: float | None = None) -> None:
        """Deliver what is left, then end. What is not delivered within `timeout` fails."""
        self._not_from_a_callback()
        if self._has_ended():
            return
        with self._lock:
            self._refusal = self._closed()
            self._drain(timeout)
            self._stopping = True
            self._wake()
        self._connection.interrupt()  # nobody waits for what may still be under way
        self._thread.join()
        error = self._dispatch.failures.tell()
        if error is not None:
            raise error

    def wait(self, batch: Batch, timeout: float | None) -> bool:
        """Whether the batch was settled within `timeout`. It is sent at once."""
        self._not_from_a_callback()
        if self._has_ended() and not batch.settled:
            raise self._refusal or self._closed()
        gate = threading.Lock()
        gate.acquire()
        with self._lock:
            if batch.settled:
                return True
            batch.wait_with(gate.release)
            self._wake()
        try:
            gate.acquire(timeout=-1 if timeout is None else timeout)
        finally:
            with self._lock:
                batch.wait_no_more(gate.release)
        return batch.settled

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except GoQueueError as failure:
            if error is None:
                raise
            error.add_note(f"The producer failed as well: {failure}")

    def __repr__(self) -> str:
        return f"<Producer {self.buffered_bytes} bytes under way>"

    # --- waiting; the lock is held ---

    def _wake(self) -> None:
        self._asleep = False
        self._work.notify()

    def _make_room(self, size: int) -> None:
        """Wait until `size` more bytes fit; more than the whole buffer fits when it is empty."""
        accumulator, most = self._accumulator, self._rules.buffer_bytes
        if threading.current_thread() is self._thread:
            raise self._overloaded()  # whoever makes room is waiting here
        self._hurry(lambda: not accumulator.buffered or accumulator.buffered + size <= most, self._max_block)
        if self._refusal is not None:
            raise self._refusal
        if accumulator.buffered and accumulator.buffered + size > most:
            raise self._overloaded()

    def _drain(self, timeout: float | None) -> bool:
        waiting = self._accumulator.waiting()
        return self._hurry(lambda: all(batch.settled for batch in waiting), timeout)

    def _hurry(self, reached: Callable[[], bool], timeout: float | None) -> bool:
        """Send everything without delay until that is so, or the thread has ended."""
        self._accumulator.hurry += 1
        self._wake()
        try:
            return self._progress.wait_for(lambda: reached() or self._stopping, timeout) and reached()
        finally:
            self._accumulator.hurry -= 1

    def _not_from_a_callback(self) -> None:
        if threading.current_thread() is self._thread:
            raise RequestInvalid("a callback must not wait for deliveries: they are made by its own thread")

    def _has_ended(self) -> bool:
        """Also in a child that was forked, where the thread does not exist and the lock may be held for ever."""
        return not self._thread.is_alive()

    def _learn(self, name: str) -> Topic:
        facts = self._facts_of(name)
        with self._lock:
            return self._topics.get(name) or self._know(name, facts)

    # --- the thread ---

    def _run(self) -> None:
        try:
            while (step := self._next()) is not None:
                outcome = self._carry_out(step)
                with self._lock:
                    settled = self._dispatch.done(step, outcome)
                    self._concluded()
                    self._progress.notify_all()
                _tell(settled)
        except BaseException as error:
            self._refusal = OperatorError(f"the producer's thread has ended: {error!r}")
            raise
        finally:
            with self._lock:
                self._stopping = True
                left = self._dispatch.close()
                self._progress.notify_all()
            _tell(left)
            self._connection.close()

    def _next(self) -> Step | None:
        """Wait for the next step; None is the end."""
        while True:
            with self._lock:
                step, delay, late = self._dispatch.next()
                if self._stopping:
                    return None
                if late:
                    self._progress.notify_all()
                elif step is None:
                    self._asleep = True
                    self._work.wait(delay)
                    self._asleep = False
            if step is not None:
                return step
            _tell(late)

    def _carry_out(self, step: Step) -> Any:
        try:
            answer = self._connection.exchange(step.call, min(self._timeout, step.seconds))
            return step.call.decode(answer)
        except GoQueueError as error:
            return error


def _tell(batches: list[Batch]) -> None:
    """Call back. What a callback raises is shown like what ends a thread, and disturbs nobody else."""
    for batch, first, count, call in callbacks_of(batches):
        for index in range(first, first + count):
            try:
                call(Delivery(batch, index))
            except Exception as error:
                thread = threading.current_thread()
                threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))
