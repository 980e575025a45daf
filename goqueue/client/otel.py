"""Spans of producers and consumers for OpenTelemetry; needs `pip install 'goqueue[otel]'`.

`instrument()` makes them for all clients of the program, named and described by the semantic conventions for messaging:

    send      a call of `send` or `send_many`, until its messages are durable; its context goes with them
    receive   the wait for a batch; links to the senders of its messages
    process   a call of a handler, or a `with process(batch)` block
    settle    a request with acknowledgements and other settlements

No message of a batch is its parent: a batch has a link for each of the first 128 senders.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from threading import Lock
from typing import Any, Literal, NamedTuple

from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.util.types import AttributeValue

from goqueue import __version__
from goqueue.client import propagation
from goqueue.client._async.consumer import AsyncConsumer
from goqueue.client._async.producer import AsyncProducer
from goqueue.client._sync.consumer import Consumer
from goqueue.client._sync.producer import Producer
from goqueue.client.consumer_parts import SettlementSenderCore
from goqueue.client.delivery import BatchSpan, BulkDeliveryHandle, DeliveryHandle
from goqueue.client.leased_message import Batch, Delivered
from goqueue.client.message import Message
from goqueue.errors import GoQueueError
from goqueue.wire.trace_context import LINKS_MAX

__all__ = ["instrument", "process", "uninstrument"]

_Operation = Literal["send", "receive", "process", "settle"]
_KINDS: Mapping[_Operation, SpanKind] = {
    "send": SpanKind.PRODUCER,
    "receive": SpanKind.CLIENT,
    "process": SpanKind.CONSUMER,
    "settle": SpanKind.CLIENT,
}


class _Patch(NamedTuple):
    owner: type
    name: str
    original: Any


_patches: list[_Patch] = []
_provider: TracerProvider | None = None
_changing = Lock()


def instrument(tracer_provider: TracerProvider | None = None) -> None:
    """Make spans from now on, with the global tracer provider unless one is given. A second call changes it."""
    global _provider  # noqa: PLW0603 - one for the whole program
    with _changing:
        _provider = tracer_provider
        if _patches:
            return
        for producer, wrap_call in ((Producer, _wrap_send), (AsyncProducer, _wrap_async_send)):
            for name in ("send", "send_many"):
                _patch(producer, name, wrap_call)
        _patch(Consumer, "_next", _wrap_next)
        _patch(AsyncConsumer, "_next", _wrap_async_next)
        _patch(SettlementSenderCore, "_next_call", _wrap_settle_call)
        _patch(SettlementSenderCore, "_conclude", _wrap_settle_outcome)
        propagation.set_process_span(_process_message)


def uninstrument() -> None:
    """Make no more spans. The context of the current span still goes with messages."""
    with _changing:
        propagation.set_process_span(None)
        while _patches:
            owner, name, original = _patches.pop()
            setattr(owner, name, original)


def _patch(owner: type, name: str, wrap: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    _patches.append(_Patch(owner, name, original))
    setattr(owner, name, wrap(original))


@contextmanager
def process(batch: Batch) -> Iterator[Span]:
    """Make the span of a block that processes a batch, with a link to the sender of each message."""
    attributes = _place(batch.topic, batch.partition, len(batch)) | _group_of(batch)
    with _current(_start("process", batch.topic, attributes, _links(batch))) as span:
        yield span


def _process_message(message: Delivered, sender: SpanContext | None) -> AbstractContextManager[object]:
    attributes = _place(message.topic, message.partition) | _group_of(message)
    attributes["messaging.message.id"] = str(message.offset)
    attributes["messaging.goqueue.delivery_attempt"] = message.attempt
    return _current(_start("process", message.topic, attributes, [Link(sender)] if sender else ()))


# --- spans ---


def _tracer() -> Tracer:
    return trace.get_tracer("goqueue.client", __version__, _provider)


def _start(
    operation: _Operation,
    topic: str,
    attributes: Mapping[str, AttributeValue],
    links: Iterable[Link] = (),
    start_ns: int | None = None,
) -> Span:
    told = {
        "messaging.system": "goqueue",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        **attributes,
    }
    if topic:
        told["messaging.destination.name"] = topic
    name = f"{operation} {topic}".strip()
    return _tracer().start_span(name, kind=_KINDS[operation], attributes=told, links=list(links), start_time=start_ns)


@contextmanager
def _current(span: Span) -> Iterator[Span]:
    with trace.use_span(span, end_on_exit=True):
        try:
            yield span
        except BaseException as error:
            span.set_attribute("error.type", _error_type(error))
            raise


def _error_type(error: BaseException) -> str:
    return getattr(error, "code", None) or type(error).__qualname__


def _fail(span: Span, error: GoQueueError) -> None:
    span.set_status(Status(StatusCode.ERROR, error.sentence))
    span.set_attribute("error.type", _error_type(error))


def _place(topic: str, partition: int | None, count: int | None = None) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {"messaging.destination.name": topic}
    if partition is not None:
        attributes["messaging.destination.partition.id"] = str(partition)
    if count is not None:
        attributes["messaging.batch.message_count"] = count
    return attributes


def _group_of(settleable: Batch | Delivered) -> dict[str, AttributeValue]:
    group = getattr(settleable._lease.owner, "group", None)
    return {} if group is None else {"messaging.consumer.group.name": group}


def _links(messages: Iterable[Message]) -> list[Link]:
    found: list[Link] = []
    for message in messages:
        if (context := propagation.span_context(message.trace_context)) is not None:
            found.append(Link(context, {"messaging.message.id": str(message.offset)}))
            if len(found) == LINKS_MAX:
                break
    return found


# --- sending ---


class _Sending:
    """The span of one call, which ends when the last of its messages is durable or has failed."""

    def __init__(self, topic: str, arguments: tuple[Any, ...], options: Mapping[str, Any], count: int | None) -> None:
        partition = options.get("partition", arguments[2] if len(arguments) > 2 else None)
        self.span = _start("send", topic, _place(topic, partition, count))
        self._left = 0

    def fail(self, error: BaseException) -> None:
        self.span.record_exception(error)
        self.span.set_status(Status(StatusCode.ERROR, str(error)))
        self.span.set_attribute("error.type", _error_type(error))
        self.span.end()

    def wait_for(self, producer: Producer | AsyncProducer, handle: Any) -> None:
        assert isinstance(handle, (DeliveryHandle, BulkDeliveryHandle))
        spans: list[BatchSpan] = (
            handle._spans if isinstance(handle, BulkDeliveryHandle) else [(handle._batch, handle._index, (0,))]
        )
        single = spans[0] if len(spans) == 1 and len(spans[0][2]) == 1 else None
        with producer._lock:
            open_batches = [batch for batch, _, _ in spans if not batch.settled]
            self._left = len(open_batches)

            def settled() -> None:
                self._left -= 1
                if self._left <= 0:
                    self._end(spans, single)

            for batch in open_batches:
                batch.waiters.append(settled)
            if not open_batches:
                self._end(spans, single)

    def _end(self, spans: list[BatchSpan], single: BatchSpan | None) -> None:
        error = next((batch.error for batch, _, _ in spans if batch.error is not None), None)
        if error is not None:
            _fail(self.span, error)
        elif single is not None:
            receipt = single[0].receipt(single[1])
            self.span.set_attribute("messaging.destination.partition.id", str(receipt.partition))
            if receipt.offset is not None:
                self.span.set_attribute("messaging.message.id", str(receipt.offset))
        self.span.end()


def _begin(
    name: str, topic: str, value: Any, arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> "_Sending | None":
    """Return the span of a call; None for a delayed message, which `send` hands on to `send_many`."""
    if name == "send" and (options.get("delay") is not None or options.get("deliver_at") is not None):
        return None
    return _Sending(topic, arguments, options, len(value) if name == "send_many" else None)


def _wrap_send(original: Any) -> Any:
    @wraps(original)
    def call(self: Producer, topic: str, value: Any, *arguments: Any, **options: Any) -> Any:
        sending = _begin(original.__name__, topic, value, arguments, options)
        if sending is None:
            return original(self, topic, value, *arguments, **options)
        with trace.use_span(sending.span):
            try:
                handle = original(self, topic, value, *arguments, **options)
            except BaseException as error:
                sending.fail(error)
                raise
        sending.wait_for(self, handle)
        return handle

    return call


def _wrap_async_send(original: Any) -> Any:
    @wraps(original)
    async def call(self: AsyncProducer, topic: str, value: Any, *arguments: Any, **options: Any) -> Any:
        sending = _begin(original.__name__, topic, value, arguments, options)
        if sending is None:
            return await original(self, topic, value, *arguments, **options)
        with trace.use_span(sending.span):
            try:
                handle = await original(self, topic, value, *arguments, **options)
            except BaseException as error:
                sending.fail(error)
                raise
        sending.wait_for(self, handle)
        return handle

    return call


# --- receiving ---


def _wrap_next(original: Any) -> Any:
    @wraps(original)
    def call(self: Consumer) -> Batch | None:
        begun_ns = time.time_ns()
        batch: Batch | None = original(self)
        _received(batch, begun_ns)
        return batch

    return call


def _wrap_async_next(original: Any) -> Any:
    @wraps(original)
    async def call(self: AsyncConsumer) -> Batch | None:
        begun_ns = time.time_ns()
        batch: Batch | None = await original(self)
        _received(batch, begun_ns)
        return batch

    return call


def _received(batch: Batch | None, begun_ns: int) -> None:
    if batch is not None:
        attributes = _place(batch.topic, batch.partition, len(batch)) | _group_of(batch)
        _start("receive", batch.topic, attributes, _links(batch), begun_ns).end()


# --- settling ---


def _wrap_settle_call(original: Any) -> Any:
    @wraps(original)
    def call(self: Any, deadline: float) -> Any:
        request = original(self, deadline)
        if request is not None:
            entries = self._current.entries
            topics = {entry.held.leased.topic for entry in entries}
            attributes: dict[str, AttributeValue] = {
                "messaging.batch.message_count": sum(entry.messages for entry in entries),
                "messaging.consumer.group.name": self._rules.group,
            }
            self._span = _start("settle", topics.pop() if len(topics) == 1 else "", attributes)
        return request

    return call


def _wrap_settle_outcome(original: Any) -> Any:
    @wraps(original)
    def call(self: Any, outcome: Any) -> None:
        span: Span | None = getattr(self, "_span", None)
        if span is not None:
            self._span = None
            if isinstance(outcome, GoQueueError):
                _fail(span, outcome)
            span.end()
        original(self, outcome)

    return call
