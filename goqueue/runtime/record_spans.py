"""Spans made of trace records: one for each batch of messages to which the same happened.

A batch whose messages were all sent by the same span is below that span, in its trace. Any other batch is a trace of
its own, whose id is derived from its first message, with a link to each span that sent messages: none is privileged.
"""

from collections.abc import Mapping
from typing import NamedTuple

from goqueue.broker.tracing.message_search import log_label, trace_id_at
from goqueue.broker.tracing.records import ERROR_EVENTS, TraceEventType, TraceRecord
from goqueue.observe.tracing.span import AttributeValue, Span, SpanEvent, SpanKind, SpanLink
from goqueue.wire.trace_context import TraceContext, derived_span_id


class _Operation(NamedTuple):
    name: str
    type: str = ""
    """One of the semantic conventions for messaging; empty if none fits."""
    kind: SpanKind = "internal"


_PROCESS = _Operation("deliver", "process", "server")
_OPERATIONS: Mapping[TraceEventType, _Operation] = {
    "publish.persisted": _Operation("publish", "send", "server"),
    "publish.replicated": _Operation("replicate"),
    "consume.acked": _PROCESS,
    "consume.nacked": _PROCESS,
    "consume.rejected": _PROCESS,
    "consume.released": _PROCESS,
    "consume.dropped": _PROCESS,
    "visibility.timeout": _PROCESS,
    "dlq.routed": _Operation("dead_letter"),
    "dlq.redriven": _Operation("redrive"),
    "delay.scheduled": _Operation("schedule", "send", "server"),
    "delay.rescheduled": _Operation("reschedule", "", "server"),
    "delay.ready": _Operation("deliver_delayed"),
    "delay.cancelled": _Operation("cancel", "", "server"),
    "delay.expired": _Operation("expire"),
    "transaction.committed": _Operation("commit", "", "server"),
    "transaction.aborted": _Operation("abort", "", "server"),
}
"""Records without an operation have no span: a delivery is a span once it has ended."""


class SentMessage(NamedTuple):
    """The first message of a batch that a span has sent, and that span."""

    offset: int
    context: TraceContext


class Senders(NamedTuple):
    """The different spans that sent the messages of a batch."""

    found: tuple[SentMessage, ...]
    is_common: bool
    """True if one span has sent them all."""


NO_SENDERS = Senders((), is_common=False)


def is_exported(record: TraceRecord) -> bool:
    """Leave out the commit of an offset as well, which acknowledges all messages before it again."""
    return record.event in _OPERATIONS and not (record.event == "consume.acked" and record.reason)


def span_of(record: TraceRecord, senders: Senders) -> Span:
    operation = _OPERATIONS[record.event]
    label = log_label(record.ref)
    role = f"{record.event}/{record.group}/{record.transaction}"
    one = senders.found[0].context if senders.is_common else None
    is_error = record.event in ERROR_EVENTS
    return Span(
        trace_id=one.trace_id if one is not None else trace_id_at(record.ref, record.first),
        span_id=derived_span_id(label, record.partition, record.first, role, record.attempt or record.time_ns),
        parent_span_id=one.span_id if one is not None else None,
        name=f"{operation.name} {record.topic}",
        kind=operation.kind,
        start_ns=min(record.since_ns or record.time_ns, record.time_ns),
        end_ns=record.time_ns,
        status="error" if is_error else "unset",
        status_message=record.reason if is_error else "",
        attributes=_attributes(record, operation),
        events=(SpanEvent(name=record.event, time_ns=record.time_ns),),
        links=() if one is not None else tuple(map(_link, senders.found)),
        flags=one.flags if one is not None else 0,
        trace_state=one.state if one is not None else "",
    )


def _link(one: SentMessage) -> SpanLink:
    context = one.context
    attributes = {"messaging.message.id": str(one.offset)}
    return SpanLink(
        trace_id=context.trace_id,
        span_id=context.span_id,
        flags=context.flags,
        trace_state=context.state,
        attributes=attributes,
    )


def _attributes(record: TraceRecord, operation: _Operation) -> Mapping[str, AttributeValue]:
    found: dict[str, AttributeValue] = {
        "messaging.system": "goqueue",
        "messaging.operation.name": operation.name,
        "messaging.destination.name": record.topic,
        "messaging.destination.partition.id": str(record.partition),
    }
    optional: dict[str, AttributeValue] = {
        "messaging.operation.type": operation.type,
        "messaging.consumer.group.name": record.group,
        "messaging.client.id": record.member,
        "messaging.goqueue.delivery_attempt": record.attempt,
        "messaging.goqueue.transaction": record.transaction,
        "messaging.goqueue.target": f"{record.to_topic}/{record.to_partition}" if record.to_topic else "",
        "messaging.goqueue.reason": record.reason,
        "messaging.goqueue.delayed": record.delayed,
    }
    found.update((name, value) for name, value in optional.items() if value)
    if record.messages == 1:
        found["messaging.message.id"] = str(record.first)
    else:
        found["messaging.batch.message_count"] = record.messages
        found["messaging.goqueue.first_offset"] = record.first
        found["messaging.goqueue.last_offset"] = record.end - 1
    return found
