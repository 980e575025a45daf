"""Traces: what happened to messages."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from goqueue.api.endpoint import ApiCall
from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.tracing.journey import (
    GroupPhase,
    Journey,
    MessagePhase,
    TracedMessage,
    TraceEvent,
    TraceRelation,
    TraceStatus,
)
from goqueue.broker.tracing.message_search import trace_id_at
from goqueue.broker.tracing.records import TraceEventType
from goqueue.clock import NANOSECONDS
from goqueue.errors import RequestInvalid, TraceNotFound
from goqueue.limits import OFFSET_MAX
from goqueue.quantities import format_time, quoted
from goqueue.wire.trace_context import TRACE_ID_BYTES

_OF_GROUPS = ("group", "member")
_OF_TARGETS = ("topic", "partition", "offset")


class MessageTraceQuery(Struct, forbid_unknown_fields=True):
    delayed: Annotated[bool, Meta(description="The offset is that of a delayed message, as its publish answered.")] = (
        False
    )


class TraceEventJson(Struct):
    timestamp: str
    event_type: TraceEventType
    topic: str
    partition: int
    offset: int
    delayed: Annotated[bool, Meta(description="The offset is one of the delayed log.")]
    details: dict[str, Any]


class TracedMessageJson(Struct):
    topic: str
    partition: int
    offset: int
    delayed: Annotated[bool, Meta(description="The offset is one of the delayed log.")]
    relation: Annotated[TraceRelation, Meta(description="How the message came into this trace.")]
    source: Annotated[int | None, Meta(description="The number of the message that this is a copy of, from 0.")]
    trace_id: Annotated[str, Meta(description="The id that follows from its position.")]
    status: TraceStatus
    state: Annotated[MessagePhase, Meta(description="What its log says of it now.")]
    groups: Annotated[dict[str, GroupPhase], Meta(description="What groups that received it have done with it.")]


class TraceResponse(Struct, kw_only=True):
    trace_id: str
    topic: Annotated[str, Meta(description="Of the first message, as the next three.")]
    partition: int
    offset: int
    delayed: bool
    status: TraceStatus
    start: str
    end: str
    duration: Annotated[float, Meta(description="In seconds.")]
    sampled: Annotated[
        bool, Meta(description="False: the trace has only what memory, logs and groups know of the message.")
    ]
    parent_span_id: Annotated[str | None, Meta(description="The span that sent it, from its `traceparent`.")]
    tracestate: str
    truncated: Annotated[bool, Meta(description="There are more events than an answer has.")]
    messages: Annotated[list[TracedMessageJson], Meta(description="The message and its copies.")]
    events: Annotated[list[TraceEventJson], Meta(description="In the order of time.")]


async def message_trace(call: ApiCall, query: MessageTraceQuery) -> TraceResponse:
    topic = call.runtime.broker.own_topic(call.parameters["topic"])
    partition = topic.partition(call.partition)
    offset = _offset(call.parameters["offset"])
    ref = LogRef(topic.name, partition.number, query.delayed)
    may_read = _may_read(call)
    journey = await call.runtime.perform(call.runtime.tracer.assembler.of_message(ref, offset, may_read))
    if journey is None:
        raise TraceNotFound(
            f"nothing is known of a {'delayed ' if query.delayed else ''}message {offset} in partition"
            f" {partition.number} of {quoted(topic.name)}",
            hint=f"the partition has the offsets {partition.earliest} to {partition.high_watermark - 1}",
        )
    return trace_response(call, journey)


async def trace(call: ApiCall) -> TraceResponse:
    trace_id = _trace_id(call.parameters["trace"])
    journey = await call.runtime.perform(call.runtime.tracer.assembler.of_id(trace_id, _may_read(call)))
    if journey is None:
        raise TraceNotFound(
            f"there is no trace {trace_id.hex()}",
            hint="the id of a `traceparent` is found while its messages are recorded; any message is found by topic,"
            " partition and offset",
        )
    return trace_response(call, journey)


def _may_read(call: ApiCall) -> Any:
    may = call.access.may
    return lambda topic: may("read", "topic", topic)


def _offset(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) <= OFFSET_MAX:
        return int(text)
    raise TraceNotFound(f"{quoted(text)} is not the offset of a message", hint="offsets are whole numbers from 0 on")


def _trace_id(text: str) -> bytes:
    try:
        found = bytes.fromhex(text) if len(text) == 2 * TRACE_ID_BYTES else b""
    except ValueError:
        found = b""
    if len(found) == TRACE_ID_BYTES:
        return found
    problem = {"place": "trace", "problem": f"is {quoted(text)}, which is not a trace id"}
    raise RequestInvalid(f"{quoted(text)} is not a trace id", hint="32 hexadecimal digits", problems=[problem])


def trace_response(call: ApiCall, journey: Journey) -> TraceResponse:
    first, numbers = journey.first, {id(one): number for number, one in enumerate(journey.messages)}
    return TraceResponse(
        trace_id=journey.trace_id.hex(),
        topic=first.ref.topic,
        partition=first.ref.partition,
        offset=first.offset,
        delayed=first.ref.is_delayed,
        status=journey.status,
        start=format_time(journey.start_ns),
        end=format_time(journey.end_ns),
        duration=(journey.end_ns - journey.start_ns) / NANOSECONDS,
        sampled=journey.is_sampled,
        parent_span_id=None if journey.parent_span is None else journey.parent_span.hex(),
        tracestate=journey.state,
        truncated=journey.is_truncated,
        messages=[_message(call, one, numbers) for one in journey.messages],
        events=[_event(call, one) for one in journey.events],
    )


def _message(call: ApiCall, one: TracedMessage, numbers: dict[int, int]) -> TracedMessageJson:
    named = set(call.access.described("group", one.groups))
    return TracedMessageJson(
        *one.ref[:2],
        one.offset,
        one.ref.is_delayed,
        one.relation,
        numbers.get(id(one.source)),
        trace_id_at(one.ref, one.offset).hex(),
        one.status,
        one.phase,
        {group: phase for group, phase in one.groups.items() if group in named},
    )


def _event(call: ApiCall, one: TraceEvent) -> TraceEventJson:
    details = one.details
    if "group" in details and not call.access.may("describe", "group", details["group"]):
        details = {name: value for name, value in details.items() if name not in _OF_GROUPS}
    if "topic" in details and not call.access.may("describe", "topic", details["topic"]):
        details = {name: value for name, value in details.items() if name not in _OF_TARGETS}
    return TraceEventJson(format_time(one.time_ns), one.event, *one.ref[:2], one.offset, one.ref.is_delayed, details)
