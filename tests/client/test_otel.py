"""Trace context in messages, and the spans of clients, with the real OpenTelemetry and a real broker."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags, TraceState

from goqueue.client import Client, Delivered, otel
from goqueue.errors import MessageTooLarge
from goqueue.testing.broker import LocalBroker
from goqueue.wire.trace_context import derived_trace_id
from tests.client.bridge import Bridge

NewName = Callable[[str], str]
FOREIGN = "00-12345678901234567890123456789012-1234567890123456-00"


@pytest.fixture
def provider() -> TracerProvider:
    return TracerProvider()


@pytest.fixture
def exported(provider: TracerProvider) -> Iterator[InMemorySpanExporter]:
    """The finished spans of instrumented clients."""
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    otel.instrument(provider)
    try:
        yield exporter
    finally:
        otel.uninstrument()
        provider.shutdown()


@pytest.fixture
def connected_client(shared_broker: LocalBroker, client_class: type[Client]) -> Iterator[Client]:
    with client_class(shared_broker.url) as made:
        yield made


def context_of(span: trace.Span | ReadableSpan) -> tuple[bytes, bytes]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id.to_bytes(16, "big"), context.span_id.to_bytes(8, "big")


def test_messages_carry_the_current_span(connected_client: Client, new_name: NewName, provider: TracerProvider) -> None:
    client, topic = connected_client, new_name("carry")
    client.create_topic(topic, partitions=1)
    with client.producer() as producer:
        producer.send(topic, b"0 outside")
        with provider.get_tracer("test").start_as_current_span("outer") as span:
            producer.send(topic, b"1 bare")
            producer.send(topic, b"2 with headers", headers={"a": "b"})
            producer.send(topic, b"3 with its own", headers=[("Traceparent", FOREIGN)])
            producer.send_many(topic, [b"4", b"5"], headers=[("a", "b")]).result(30)
            client.publish(topic, "6 as JSON", headers={"a": "b"})
            producer.send(topic, b"7 delayed", delay=0.001).result(30)
        state = TraceState([("vendor", "x")])
        remote = SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(1), trace_state=state)
        with trace.use_span(NonRecordingSpan(remote)):
            producer.send(topic, b"8 with a state").result(30)
    with client.reader(topic, follow=True) as reader:
        by_number = {int((message.value or b"")[:1]): message for message in islice(reader, 9)}
    outside, foreign, stated = (by_number.pop(number) for number in (0, 3, 8))
    assert outside.headers == []
    assert (outside.trace_context, outside.trace_id) == (None, derived_trace_id(topic, 0, outside.offset).hex())
    assert foreign.headers == [("Traceparent", FOREIGN.encode())]
    assert foreign.trace_id == FOREIGN[3:35]
    assert stated.trace_context == ((1).to_bytes(16, "big"), (2).to_bytes(8, "big"), 1, "vendor=x")
    for number, message in by_number.items():
        found = message.trace_context
        assert found is not None
        assert (found.trace_id, found.span_id) == context_of(span)
        assert found.is_sampled
        assert [name for name, _ in message.headers if name == "a"] == (["a"] if number in {2, 4, 5, 6} else [])


def run(consumer: Any, producer: Any, target: str, handle: Callable[[Delivered], bytes | None]) -> None:
    """Run a handler that sends what `handle` returns."""

    def transform(message: Delivered) -> None:
        producer.send(target, handle(message)).result(30)

    async def transform_in_loop(message: Delivered) -> None:
        await (await producer._inner.send(target, handle(message))).result(30)

    consumer.run(transform_in_loop if isinstance(consumer, Bridge) else transform, max_retries=0)


def test_handler_runs_in_the_trace_of_its_message_and_hands_it_on(
    connected_client: Client, new_name: NewName, provider: TracerProvider
) -> None:
    client, source, target, group = connected_client, new_name("from"), new_name("to"), new_name("group")
    for topic in (source, target):
        client.create_topic(topic, partitions=1)
    tracer = provider.get_tracer("test")
    with client.producer() as producer:
        expected = []
        for number in range(3):
            with tracer.start_as_current_span("sender") as span:
                producer.send(source, str(number)).result(30)
                expected.append(context_of(span))
        producer.send(source, "no trace").result(30)
        state = "rojo@1@2=x,t@=1"  # valid, though OpenTelemetry does not read it
        producer.send(source, "state", headers={"traceparent": FOREIGN, "tracestate": state}).result(30)
        expected.append((bytes.fromhex(FOREIGN[3:35]), bytes.fromhex(FOREIGN[36:52])))
        seen = []

        def handle(message: Delivered) -> bytes | None:
            seen.append(context_of(trace.get_current_span()))
            return message.value

        run(client.consumer(group, [source], start="earliest", until_idle="0.2s"), producer, target, handle)
    assert seen == [*expected[:3], (bytes(16), bytes(8)), expected[3]]
    with client.reader(target) as reader:
        contexts = [message.trace_context for message in reader]
    found = [one and (one.trace_id, one.span_id) for one in contexts]
    assert found == [*expected[:3], None, expected[3]]
    assert [one.state for one in contexts if one is not None] == ["", "", "", state]


def test_instrumented_clients_make_spans_with_links(
    connected_client: Client, new_name: NewName, provider: TracerProvider, exported: InMemorySpanExporter
) -> None:
    client, topic, group = connected_client, new_name("spans"), new_name("group")
    client.create_topic(topic, partitions=1, max_message_bytes=2000)
    tracer = provider.get_tracer("test")
    with client.producer() as producer:
        with tracer.start_as_current_span("request"):
            producer.send(topic, b"one").result(30)
        producer.send_many(topic, [b"two", b"three"]).result(30)
        with pytest.raises(MessageTooLarge):
            producer.send(topic, b"x" * 3000)
    spans = taken(exported)
    [request] = (one for one in spans if one.name == "request")
    spans.remove(request)
    single, many, failed = spans
    assert [one.name for one in (single, many, failed)] == [f"send {topic}"] * 3
    assert single.kind == SpanKind.PRODUCER
    assert single.parent is not None
    assert single.parent.span_id == span_id(request)
    assert dict(single.attributes or {}) == {
        "messaging.system": "goqueue",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.message.id": "0",
    }
    assert (many.attributes or {})["messaging.batch.message_count"] == 2
    assert failed.status.status_code == StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "message_too_large"

    with client.consumer(group, [topic], start="earliest", until_idle="0.2s") as consumer:
        for batch in consumer.batches():
            with otel.process(batch):
                batch.ack(wait=True)
    spans = taken(exported)
    receive, process, settle = (next(one for one in spans if one.name.startswith(name)) for name in
                                ("receive", "process", "settle"))  # fmt: skip
    senders = [single, many, many]
    assert links(receive) == links(process) == [span_id(one) for one in senders]
    assert receive.parent is process.parent is None, "no message of a batch is privileged"
    assert (receive.kind, process.kind, settle.kind) == (SpanKind.CLIENT, SpanKind.CONSUMER, SpanKind.CLIENT)
    for one in (receive, process, settle):
        told = one.attributes or {}
        assert told["messaging.batch.message_count"] == 3
        assert told["messaging.consumer.group.name"] == group
    assert (receive.start_time or 0) <= (receive.end_time or 0) <= (process.start_time or 0)


def test_instrumented_handler_has_a_span_below_the_sender(
    connected_client: Client, new_name: NewName, exported: InMemorySpanExporter
) -> None:
    client, source, target = connected_client, new_name("from"), new_name("to")
    for topic in (source, target):
        client.create_topic(topic, partitions=1)
    with client.producer() as producer:
        producer.send(source, b"good").result(30)
        producer.send(source, b"bad").result(30)
        good, bad = taken(exported)

        def handle(message: Delivered) -> bytes:
            if message.value == b"bad":
                raise ValueError("cannot be handled")
            return b"made"

        run(client.consumer(new_name("group"), [source], start="earliest", until_idle="0.2s"), producer, target, handle)
    spans = taken(exported)
    handled, rejected = (one for one in spans if one.name == f"process {source}")
    [made] = (one for one in spans if one.name == f"send {target}")
    for one, sender in ((handled, good), (rejected, bad)):
        assert one.parent is not None
        assert one.parent.span_id == span_id(sender)
        assert links(one) == [span_id(sender)]
    assert made.parent is not None
    assert made.parent.span_id == span_id(handled)
    assert context_of(made)[0] == context_of(good)[0]
    assert rejected.status.status_code == StatusCode.ERROR
    assert (rejected.attributes or {})["error.type"] == "ValueError"
    assert (rejected.attributes or {})["messaging.goqueue.delivery_attempt"] == 1


def taken(exported: InMemorySpanExporter) -> list[ReadableSpan]:
    found = list(exported.get_finished_spans())
    exported.clear()
    return found


def span_id(span: ReadableSpan) -> int:
    return int.from_bytes(context_of(span)[1], "big")


def links(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def test_program_without_opentelemetry_imports_nothing_of_it(shared_broker: LocalBroker, new_name: NewName) -> None:
    topic = new_name("without")
    program = f"""
import sys
{{hidden}}
from goqueue.client import Client
with Client({shared_broker.url!r}) as client:
    with client.producer() as producer:
        producer.send({topic!r}, b"one").result(30)
    client.publish({topic!r}, "two")
    handled = []
    client.consumer({new_name("group")!r}, [{topic!r}], start="earliest", until_idle="0.1s").run(handled.append)
    assert [message.headers for message in handled] == [[], []], handled
print(*(name for name in sys.modules if name.startswith("opentelemetry.")))
"""
    with Client(shared_broker.url) as client:
        client.create_topic(topic)
        for hidden in ("sys.modules['opentelemetry'] = None", ""):
            client.delete_topic(topic)
            client.create_topic(topic)
            done = subprocess.run(
                [sys.executable, "-c", program.replace("{hidden}", hidden)], capture_output=True, text=True, check=True
            )
            assert done.stdout == "\n", "installed or not, nothing is loaded"
