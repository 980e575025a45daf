# Generated from goqueue/client/_async/producer.py; edit that and run `make fmt`.
"""A producer: `send` only takes the message, and a background thread delivers it."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self

from goqueue.client import propagation, unclosed
from goqueue.client._sync import run_sequence
from goqueue.client._sync.deliveries import Deliveries, Delivery, call_back
from goqueue.client.accumulator import TopicQueues
from goqueue.client.address import Address
from goqueue.client.admin_requests import TopicInfo
from goqueue.client.connection import Connection
from goqueue.client.delivery import (
    BatchSpan,
    OnDelivery,
    SendBatch,
    still_pending,
)
from goqueue.client.message_encoding import FrameGroup, Headers, Key, Priority, V, prepare_bulk
from goqueue.client.producer_core import Options, ProducerCore
from goqueue.client.sender import SendStep
from goqueue.client.threads import Condition, Event, Lock, Worker
from goqueue.client.times import Delay, DeliverAt
from goqueue.clock import SystemClock
from goqueue.errors import GoQueueError, OperatorError, RequestInvalid
from goqueue.storage.frame import NORMAL

if TYPE_CHECKING:
    from goqueue.client.api_request import ApiRequest
    from goqueue.client.serializers.topic_encoding import TopicEncoding


class Lane(NamedTuple):
    """The worker that sends to one leader in a cluster, and its connection."""

    connection: Connection
    worker: Worker


class Producer(ProducerCore, Generic[V]):
    """Sends messages in the background, each exactly once and in the order of the calls.

    Values are bytes, text, or whatever its `serializer` takes; None is a tombstone, which deletes its key. Keys are
    bytes, text, or whatever its `key_serializer` takes.

    No failure stays unseen. The result of its delivery raises it, and `on_delivery` is called with it. Failures that
    neither has reported are raised by the next `flush()` or `close()`, with the number of messages in
    `details["failed"]`. The end of the `with` block delivers what is left and closes the producer.

    Several threads may use one producer. A process that was forked needs its own.
    """

    def __init__(
        self,
        connection: Connection,
        topic_info: Callable[[str], TopicInfo],
        options: Options,
        timeout: float,
        encoding: "TopicEncoding | None" = None,
        ask: "Callable[[ApiRequest[Any]], Any] | None" = None,
        connect: Callable[[], Connection] | None = None,
    ) -> None:
        super().__init__(options, SystemClock())
        self._servers = connection.servers
        self._connect = connect
        self._lanes: dict[Address, Lane] = {}
        self._callback_lock = Lock()
        self._encoding = encoding
        self._ask: Any = ask
        self._connection = connection
        self._topic_info = topic_info
        self._timeout = timeout
        self._lock = Lock()
        self._work: Condition = Condition(self._lock)
        self._progress = Condition(self._lock)
        self._worker = Worker(self._run, self._fail, "goqueue-producer")
        unclosed.watch(self)

    # --- for callers ---

    def send(  # noqa: PLR0913 - independent options, mostly given by name
        self,
        topic: str,
        value: V | None,
        key: Key = None,
        headers: Headers | None = None,
        partition: int | None = None,
        priority: Priority = NORMAL,
        on_delivery: OnDelivery | None = None,
        *,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
    ) -> Delivery:
        """Take one message to be sent; an invalid one is refused here.

        With a `delay`, or a time in `deliver_at`, the broker keeps the message until then and delivers it once.

        This returns as soon as the message is in the buffer; the result of the delivery says when it is durable.
        `on_delivery` is called with the delivery, in the producer's own thread. When the buffer is full this waits
        for at most `max_block`, and then raises BrokerOverloaded.
        """
        if self._refusal is not None:
            raise self._refusal
        if delay is not None or deliver_at is not None:
            many = self.send_many(
                topic, [value], [key], headers, partition, priority, on_delivery, delay=delay, deliver_at=deliver_at
            )
            return many._only()
        if self._encoding is not None:
            (value,), (key,), headers = self._encoded(topic, (value,), (key,), headers)
        found = self._topics.get(topic) or self._learn(topic)
        if partition is not None and partition >= len(found.queues):
            found = self._learn(topic, again=True)
        content: Any = value if self._serialize is None or value is None else self._serialize(value)
        frame, origin, queue = self._prepare(found, content, key, headers, partition, priority)
        accumulator, rules = self._accumulator, self._rules
        with self._lock:
            if self._refusal is not None:  # the producer was closed meanwhile
                raise self._refusal
            if accumulator.buffered + len(frame) > rules.buffer_bytes:
                self._make_room(len(frame))
            batch = accumulator.add(found, queue or found.sticky, frame, origin, partition is not None)
            count = batch.count
            if on_delivery is not None:
                batch.callbacks.append((count - 1, 1, on_delivery))
            if self._asleep and (count == 1 or count >= rules.batch_messages or batch.size >= rules.batch_bytes):
                self._wake()
        return Delivery(batch, count - 1)

    def send_many(  # noqa: PLR0913 - as above
        self,
        topic: str,
        values: Sequence[V | None],
        keys: Sequence[Key] | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        priority: Priority = NORMAL,
        on_delivery: OnDelivery | None = None,
        *,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
    ) -> Deliveries:
        """Take many messages to be sent, about three times as fast as one by one.

        `headers`, `partition`, `priority` and the delivery time hold for all. If one message is invalid, none is
        taken. `on_delivery` is called with each delivery.

        BrokerOverloaded, and the error that the producer is closed, are raised when nothing was taken. When some
        messages were taken, the others are failed deliveries in the result, and their `on_delivery` has been called.
        """
        if self._refusal is not None:
            raise self._refusal
        if self._encoding is not None:
            values, keys, headers = self._encoded(topic, values, keys, headers)
        found = self._topics.get(topic) or self._learn(topic)
        if partition is not None and partition >= len(found.queues):
            found = self._learn(topic, again=True)
        if due := self._due(delay, deliver_at):
            found = found.delayed
        if self._propagates:
            headers = propagation.add_current_trace(headers)
        flags, shrink = self._flags, self._shrink
        contents = self._serialized(values)
        bulk = prepare_bulk(found, contents, keys, headers, partition, priority, due=due, flags=flags, shrink=shrink)
        spans: list[BatchSpan] = []
        pieces = bulk.pieces(self._rules.request_bytes)
        for piece in pieces:
            try:
                spans.append(self._take(found, piece, on_delivery))
            except GoQueueError as error:
                if not spans:
                    raise
                # If it were raised, the caller would have no deliveries for the messages that were taken.
                refused = self._refuse(found, chain((piece,), pieces), error, on_delivery)
                with self._lock:
                    for batch, _, _ in refused:
                        self._sender.failures.add(batch)
                call_back([batch for batch, _, _ in refused])
                spans += refused
        return Deliveries(spans)

    def _encoded(self, topic: str, values: Any, keys: Any, headers: Headers | None) -> Any:
        """Return values, keys and headers as their schemas have them, which are registered or looked up first."""
        assert self._encoding is not None
        encoding = self._encoding.find(topic)
        if encoding is None:
            encoding = run_sequence(self._encoding.bind(topic), self._ask)
        return encoding.encode(values, keys, headers)

    def _take(self, topic: TopicQueues, piece: FrameGroup, on_delivery: OnDelivery | None) -> BatchSpan:
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if self._accumulator.buffered + piece.size > self._rules.buffer_bytes:
                self._make_room(piece.size)
            return self._gather(topic, piece, on_delivery)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far is delivered or failed. Raises failures that were not reported yet."""
        self._not_from_a_callback()
        if self._refusal is not None and not self._stopping:
            raise self._refusal
        with self._lock:
            whole = self._drain(timeout)
            error = self._sender.failures.report()
        if error is not None:
            raise error
        if not whole:
            raise still_pending(sum(batch.count for batch in self._accumulator.waiting()), timeout)

    def close(self, timeout: float | None = None) -> None:
        """Deliver what is left, then end. What is not delivered within `timeout` fails."""
        self._not_from_a_callback()
        if self._process != os.getpid():
            return  # its messages are the parent's
        if self._worker.is_alive:
            self._end_worker(timeout)
        error = self._sender.failures.report()
        if error is not None:
            raise error

    def _end_worker(self, timeout: float | None) -> None:
        try:
            with self._lock:
                self._refusal = self._closed()
                self._drain(timeout)
        finally:
            with self._lock:
                self._stopping = True
                self._wake()
            self._worker.stop(self._connection.interrupt)

    def wait(self, batch: SendBatch, timeout: float | None) -> bool:
        """Send a batch at once, and return whether it was settled within `timeout`."""
        self._not_from_a_callback()
        if not self._worker.is_alive and not batch.settled:
            raise self._refusal or self._closed()
        settled = Event()
        with self._lock:
            if batch.settled:
                return True
            batch.wait_with(settled.set)
            self._wake()
        try:
            settled.wait(timeout)
        finally:
            with self._lock:
                batch.wait_no_more(settled.set)
        return batch.settled

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self.close()
        except GoQueueError as failure:
            if error is None:
                raise
            error.add_note(f"The producer failed as well: {failure}")

    # --- waiting; the lock is held ---

    def _make_room(self, size: int) -> None:
        """Wait until `size` more bytes fit; more than the whole buffer fits when it is empty."""
        accumulator, most = self._accumulator, self._rules.buffer_bytes
        if self._is_in_worker:
            raise self._overloaded()  # the worker, which makes room, would wait for itself
        self._hurry(lambda: not accumulator.buffered or accumulator.buffered + size <= most, self._max_block)
        if self._refusal is not None:
            raise self._refusal
        if accumulator.buffered and accumulator.buffered + size > most:
            raise self._overloaded()

    def _drain(self, timeout: float | None) -> bool:
        waiting = self._accumulator.waiting()
        return self._hurry(lambda: all(batch.settled for batch in waiting), timeout)

    def _hurry(self, reached: Callable[[], bool], timeout: float | None) -> bool:
        """Send everything without delay until `reached()` is true, or the worker has ended."""
        self._accumulator.hurry += 1
        self._wake()
        try:
            return self._progress.wait_for(lambda: reached() or self._stopping, timeout) and reached()
        finally:
            self._accumulator.hurry -= 1

    @property
    def _is_in_worker(self) -> bool:
        return self._worker.is_current or any(lane.worker.is_current for lane in list(self._lanes.values()))

    def _not_from_a_callback(self) -> None:
        if self._is_in_worker:
            raise RequestInvalid("a callback cannot wait for deliveries: they are made by its own thread")

    def _learn(self, name: str, *, again: bool = False) -> TopicQueues:
        """Ask the broker for a topic; `again` in case that it has got more partitions."""
        info = self._topic_info(name)
        with self._lock:
            return (not again and self._topics.get(name)) or self._know(name, info)

    # --- the workers: one, and in a cluster one more for each leader ---

    def _run(self) -> None:
        try:
            self._work_through(None, self._connection)
        finally:
            with self._lock:
                self._refusal = self._refusal or self._closed()
                reason = self._end_reason if self._stopping else "its thread ended"
                self._stopping = True
                self._wake()
            for lane in list(self._lanes.values()):
                lane.worker.stop(lane.connection.interrupt)
            with self._lock:
                left = self._sender.close(reason)
                self._progress.notify_all()
            call_back(left)
            self._connection.close()

    def _work_through(self, leader: Address | None, connection: Connection) -> None:
        """Send what is due to a leader, or to any node, until the producer stops."""
        while (step := self._next(leader)) is not None:
            if step.leaders_of and self._sender.is_looking:
                connection.turn()
            outcome = self._carry_out(step, connection)
            with self._lock:
                settled = self._sender.done(step, outcome)
                self._concluded()
                self._progress.notify_all()
                if self._sender.is_following:
                    self._wake()
            with self._callback_lock:
                call_back(settled)
            if self._sender.is_following:
                with self._lock:
                    self._start_lanes()

    def _start_lanes(self) -> None:
        """Start a worker for each new leader. The lock is held."""
        view = self._servers.cluster
        if self._connect is None or view is None or self._stopping:
            return
        self._servers.add_nodes()
        for leader in view.lanes - self._lanes.keys():
            own = self._connect()
            own.pin(leader)
            run = partial(self._run_lane, leader, own)
            self._lanes[leader] = Lane(own, Worker(run, self._fail, "goqueue-producer-lane"))

    def _run_lane(self, leader: Address, connection: Connection) -> None:
        try:
            self._work_through(leader, connection)
        finally:
            connection.close()

    def _fail(self, error: BaseException) -> None:
        self._refusal = OperatorError(f"the producer's thread has ended: {error!r}")
        if not self._stopping:
            self._end_reason, self._stopping = "its thread ended", True
        with self._lock:
            self._wake()

    def _next(self, leader: Address | None) -> SendStep | None:
        """Wait for the next step; None ends the worker."""
        while True:
            with self._lock:
                step, delay, late = self._next_step(leader)
                if self._stopping:
                    return None
                if late:
                    self._progress.notify_all()
                elif step is None:
                    self._asleep.add(leader)
                    self._work.wait(delay)
                    self._asleep.discard(leader)
            if step is not None:
                return step
            with self._callback_lock:
                call_back(late)

    def _carry_out(self, step: SendStep, connection: Connection) -> Any:
        try:
            answer = connection.exchange(step.call, min(self._timeout, step.seconds))
            return connection.decode(step.call, answer)
        except GoQueueError as error:
            return error
