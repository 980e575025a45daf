"""Traces: what happened to messages."""

from collections import Counter
from typing import Annotated, Any, get_args

from msgspec import Meta, Struct, structs

from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import GroupName, Offset, PartitionNumber, Time, TopicName
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
from goqueue.broker.tracing.listing import TraceListing
from goqueue.broker.tracing.message_search import trace_id_at
from goqueue.broker.tracing.records import TraceEventType
from goqueue.broker.tracing.selection import TraceSelection
from goqueue.clock import NANOSECONDS
from goqueue.errors import RequestInvalid, TraceNotFound
from goqueue.limits import OFFSET_MAX, TRACE_STATUSES, TRACES, TRACES_MAX
from goqueue.quantities import format_time, quoted
from goqueue.runtime.event_loop import TimeSlices
from goqueue.wire.trace_context import TRACE_ID_BYTES

_OF_GROUPS = ("group", "member")
_OF_TARGETS = ("topic", "partition", "offset")
_ID_HINT = "write 32 hexadecimal digits; commands and the dashboard also take a position such as orders/0@9"


class MessageTraceQuery(Struct, forbid_unknown_fields=True):
    delayed: Annotated[bool, Meta(description="The offset is that of a delayed message, as its publish answered.")] = (
        False
    )


class TraceListQuery(Struct, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=TRACES_MAX)] = TRACES


class TraceSearchQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    topic: TopicName | None = None
    partition: PartitionNumber | None = None
    offset: Offset | None = None
    consumer_group: GroupName | None = None
    start: Annotated[Time | None, Meta(description="Something happened at this time or later.")] = None
    end: Annotated[Time | None, Meta(description="Something happened before this time.")] = None
    status: TraceStatus | None = None
    limit: Annotated[int, Meta(ge=1, le=TRACES_MAX)] = TRACES


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
    truncated: Annotated[bool, Meta(description="There are more messages or events than an answer has.")]
    messages: Annotated[list[TracedMessageJson], Meta(description="The message and its copies.")]
    events: Annotated[list[TraceEventJson], Meta(description="In the order of time.")]


class ListedTraceJson(TraceResponse, kw_only=True):
    batch: Annotated[int, Meta(description="The number of messages to which the same happened last.")]


class TraceListResponse(Struct):
    traces: Annotated[list[ListedTraceJson], Meta(description="The newest first.")]
    complete: Annotated[bool, Meta(description="False if there may be more than could be examined.")]


class TraceStatsResponse(Struct, kw_only=True):
    enabled: bool
    sampling: Annotated[float, Meta(description="The rate of topics that set none.")]
    statuses: Annotated[dict[TraceStatus, int], Meta(description=f"Of the newest traces, at most {TRACE_STATUSES}.")]
    events: Annotated[dict[str, int], Meta(description="Records by event, since the broker started.")]
    records: Annotated[int, Meta(description="Records in memory, since the broker started.")]
    sampled_out: Annotated[int, Meta(description="Records that were not kept, since the broker started.")]
    dropped: Annotated[int, Meta(description="Records that the disk refused or was too slow for.")]
    file_bytes: int
    oldest: Annotated[str | None, Meta(description="The oldest record that is known; null if there is none.")]


async def browse(call: ApiCall, query: TraceListQuery) -> TraceListResponse:
    return await _listed(call, TraceSelection(may_read=_may_read(call)), query.limit)


async def search(call: ApiCall, query: TraceSearchQuery) -> TraceListResponse:
    group, access = query.consumer_group, call.access
    if query.topic is not None:
        access.require("read", "topic", query.topic)
        call.runtime.broker.own_topic(query.topic)
    if group is not None and not access.may("describe", "group", group):
        return TraceListResponse([], complete=True)
    selection = TraceSelection(
        query.topic,
        query.partition,
        query.offset,
        group=group,
        start_ns=query.start,
        end_ns=query.end,
        may_read=_may_read(call),
    )
    return await _listed(call, selection, query.limit, query.status)


async def _listed(
    call: ApiCall, selection: TraceSelection, limit: int, status: TraceStatus | None = None
) -> TraceListResponse:
    tracer, slices = call.runtime.tracer, TimeSlices()
    listing = TraceListing(tracer.assembler(), tracer.store, selection, status=status)
    found: list[ListedTraceJson] = []
    while len(found) < limit and (one := await call.runtime.perform(listing.next())) is not None:
        found.append(ListedTraceJson(batch=one.batch, **structs.asdict(trace_response(call, one.journey))))
        await slices.rest()
    return TraceListResponse(found, listing.is_complete)


async def stats(call: ApiCall) -> TraceStatsResponse:
    tracer = call.runtime.tracer
    ring, files = tracer.ring, tracer.files
    newest = await _listed(call, TraceSelection(), TRACE_STATUSES)
    counts = Counter(one.status for one in newest.traces)
    oldest = [moment for moment in (ring.oldest_ns, files.oldest_ns) if moment is not None]
    return TraceStatsResponse(
        enabled=tracer.settings.is_on,
        sampling=tracer.settings.sampling,
        statuses={status: counts[status] for status in get_args(TraceStatus)},
        events=dict(sorted(ring.counts.items())),
        records=len(ring),
        sampled_out=ring.sampled_out,
        dropped=tracer.dropped,
        file_bytes=files.size,
        oldest=format_time(min(oldest)) if oldest else None,
    )


async def message_trace(call: ApiCall, query: MessageTraceQuery) -> TraceResponse:
    topic = call.runtime.broker.own_topic(call.parameters["topic"])
    partition = topic.partition(call.partition)
    offset = _offset(call.parameters["offset"])
    ref = LogRef(topic.name, partition.number, query.delayed)
    may_read = _may_read(call)
    assembler = call.runtime.tracer.assembler()
    journey = await call.runtime.perform(assembler.of_message(ref, offset, may_read))
    if journey is None:
        raise TraceNotFound(
            f"nothing is known of a {'delayed ' if query.delayed else ''}message {offset} in partition"
            f" {partition.number} of {quoted(topic.name)}",
            hint=await call.runtime.perform(assembler.explain_absence(ref, offset)),
        )
    return trace_response(call, journey)


async def trace(call: ApiCall) -> TraceResponse:
    trace_id = _trace_id(call.parameters["trace"])
    journey = await call.runtime.perform(call.runtime.tracer.assembler().of_id(trace_id, _may_read(call)))
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
    raise RequestInvalid(f"{quoted(text)} is not a trace id", hint=_ID_HINT, problems=[problem])


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
