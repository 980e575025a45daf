"""Delayed messages: list, describe, cancel, reschedule, deliver."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import msgspec
import numpy as np

from goqueue.api.delayed_leaders import (
    DelayedChangesResponse,
    DelayedListResponse,
    DelayedState,
    DelayedSummaryJson,
    change_everywhere,
    list_everywhere,
)
from goqueue.api.delayed_logs import deliveries_of, deliveries_shown, led_delivery
from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import (
    NOT_GIVEN,
    DelayTime,
    DueTime,
    Filters,
    MessageLimit,
    PartitionNumber,
    Shift,
    Time,
    filter_set,
)
from goqueue.api.http.message import HttpResponse
from goqueue.api.message_json import (
    DecompressionBudget,
    MessageJson,
    encode_message,
    message_json,
    run_on_thread,
    to_text,
)
from goqueue.api.operations import OperationId, author_of
from goqueue.api.problems import invalid
from goqueue.broker.core.topic import Topic
from goqueue.broker.core.work import Work
from goqueue.broker.delay import queries
from goqueue.broker.delay.delivery import PartitionDelivery
from goqueue.broker.delay.queries import DelayedCriteria, DelayedMessagePage, DelayedMessageView
from goqueue.broker.delay.schedule import STATES
from goqueue.broker.delay.timing_wheel import Numbers
from goqueue.broker.operations.changes import DelayedBulk
from goqueue.broker.operations.records import OperationKind
from goqueue.clock import NANOSECONDS
from goqueue.errors import DelayedAmbiguous, DelayedNotFound, DelayedNotPending, RequestInvalid
from goqueue.limits import (
    DELAY_CHANGE_MESSAGES,
    DELAY_FETCH_MESSAGES,
    DELAY_SECONDS_MAX,
    DELAY_SKIP_MAX,
    OFFSET_MAX,
    READ_MESSAGES,
)
from goqueue.quantities import format_duration, format_time, quoted

_AHEAD_NS_MAX = round(DELAY_SECONDS_MAX * NANOSECONDS)
_BOUNDS = tuple(seconds * NANOSECONDS for seconds in (10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400))
_BOUNDS_NS = (*_BOUNDS, _AHEAD_NS_MAX)
"""The ends of a timeline's buckets, from now."""

_BRIEF = 100
"""More messages are converted to text on a thread."""

FromTime = Annotated[Time | None, msgspec.Meta(description="Due at this time or later.")]
ToTime = Annotated[Time | None, msgspec.Meta(description="Due before this time.")]


class DelayedListQuery(msgspec.Struct, forbid_unknown_fields=True, rename={"from_time": "from", "to_time": "to"}):
    limit: MessageLimit = READ_MESSAGES
    skip: Annotated[int, msgspec.Meta(ge=0, le=DELAY_SKIP_MAX, description="Number of messages to skip.")] = 0
    partition: PartitionNumber | None = None
    state: DelayedState = "pending"
    from_time: FromTime = None
    to_time: ToTime = None
    filter: Filters = []


class TimelineQuery(msgspec.Struct, forbid_unknown_fields=True):
    buckets: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=len(_BOUNDS_NS),
            description="Number of buckets, the nearest first; each is longer than the one before.",
        ),
    ] = len(_BOUNDS_NS)


class DelayedMessageJson(MessageJson, omit_defaults=True, kw_only=True):
    """A delayed message with its content. The value is null if its bytes are damaged."""

    topic: str
    deliver_at: str
    state: DelayedState
    size: int
    scheduled_at: str | None


class TimelineBucketJson(msgspec.Struct, rename={"from_time": "from", "to_time": "to"}):
    from_time: str
    to_time: str
    count: int


class TimelineResponse(msgspec.Struct):
    pending: int
    overdue: int
    next_due: str | None
    buckets: list[TimelineBucketJson]


# --- ask ---


async def browse(call: ApiCall, query: DelayedListQuery) -> DelayedListResponse:
    return await list_everywhere(call, query, partial(_list, call))


async def _list(call: ApiCall, query: DelayedListQuery) -> DelayedListResponse:
    asked = [delivery.delays for delivery in deliveries_shown(call, query.partition)]
    criteria = DelayedCriteria(
        from_ns=query.from_time, to_ns=query.to_time, state=STATES.index(query.state), sieve=filter_set(query.filter)
    )
    work = queries.list_delayed(asked, criteria, query.limit, query.skip, call.runtime.clock)
    page: DelayedMessagePage = await call.runtime.perform(work, call.runtime.searchers)
    found = page.shown
    rows = map(row_of, found)
    told = list(rows) if len(found) <= _BRIEF else await asyncio.to_thread(list, rows)
    return DelayedListResponse(told, len(found), queries.count_pending(asked), page.is_complete)


def row_of(one: DelayedMessageView) -> DelayedSummaryJson:
    key, encoding = to_text(one.message.key) if one.message and one.message.key is not None else (None, msgspec.UNSET)
    return DelayedSummaryJson(
        one.delays.partition.topic,
        one.delays.partition.number,
        one.entry.offset,
        format_time(one.entry.due_ns),
        one.entry.priority,
        STATES[one.entry.state],  # type: ignore[arg-type]
        key,
        one.size,
        _scheduled_at(one),
        encoding,
    )


def _scheduled_at(one: DelayedMessageView) -> str | None:
    return None if one.message is None else format_time(one.message.timestamp_ns)


async def describe(call: ApiCall) -> HttpResponse:
    delivery = delivery_of(call)
    found: DelayedMessageView = await call.runtime.perform(queries.get_delayed(delivery.delays, offset_of(call)))
    return await _told(call, found)


async def _told(call: ApiCall, one: DelayedMessageView) -> HttpResponse:
    with call.app.decompressed.budget() as budget:
        return HttpResponse(200, await run_on_thread(lambda: list(encode_message(_message(one, budget)))))


def _message(one: DelayedMessageView, budget: DecompressionBudget) -> DelayedMessageJson:
    told: dict[str, Any] = {
        "topic": one.delays.partition.topic,
        "deliver_at": format_time(one.entry.due_ns),
        "state": STATES[one.entry.state],
        "size": one.size,
        "scheduled_at": _scheduled_at(one),
    }
    number = one.delays.partition.number
    if one.message is None:
        bare = MessageJson(one.entry.offset, "", None, None, one.entry.priority, {}, number)
        return DelayedMessageJson(**msgspec.structs.asdict(bare), **told)
    text = message_json(one.message, budget.decompress(one.message), number)
    return DelayedMessageJson(**msgspec.structs.asdict(text), **told)


async def find(call: ApiCall) -> HttpResponse:
    """Find the delayed message with this offset in any partition."""
    offset, found = offset_of(call), list[DelayedMessageView]()
    topic = call.runtime.broker.topic(call.parameters["topic"])
    for delivery in deliveries_shown(call):
        await call.runtime.perform(delivery.delays.catch_up())  # of a large batch the table may not know yet
        if delivery.delays.schedule.find(offset) is not None:
            found.append(await call.runtime.perform(queries.get_delayed(delivery.delays, offset)))
    if not found:
        raise _unknown(topic, offset)
    if len(found) > 1:
        numbers = [one.delays.partition.number for one in found]
        raise DelayedAmbiguous(
            f"the partitions {', '.join(map(str, numbers))} of {topic.name} each have a scheduled message {offset}",
            hint=f"name the partition: /topics/{topic.name}/delayed/{numbers[0]}/{offset}",
            partitions=numbers,
        )
    return await _told(call, found[0])


async def timeline(call: ApiCall, query: TimelineQuery) -> TimelineResponse:
    now_ns = call.runtime.clock.now_ns()
    bounds = [now_ns, *(now_ns + bound for bound in _BOUNDS_NS[: query.buckets])]
    asked = [delivery.delays for delivery in deliveries_shown(call)]
    found = await call.runtime.perform(queries.deliver_timeline(asked, bounds))
    times = [format_time(bound) for bound in bounds]
    buckets = [TimelineBucketJson(*row) for row in zip(times[:-1], times[1:], found.counts, strict=True)]
    next_due = None if found.next_due_ns is None else format_time(found.next_due_ns)
    return TimelineResponse(found.pending, found.overdue, next_due, buckets)


def delivery_of(call: ApiCall) -> PartitionDelivery:
    topic = call.runtime.broker.topic(call.parameters["topic"])
    delivery = led_delivery(call, topic.partition(call.partition))
    if delivery is None:
        raise _unknown(topic, offset_of(call))
    return delivery


def offset_of(call: ApiCall) -> int:
    text = call.parameters["offset"]
    if text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) <= OFFSET_MAX:
        return int(text)
    raise DelayedNotFound(f"{quoted(text)} is not the offset of a message", hint="offsets are whole numbers from 0 on")


def _unknown(topic: Topic, offset: int) -> DelayedNotFound:
    return DelayedNotFound(
        f"no message with the offset {offset} is scheduled in topic {quoted(topic.name)}",
        hint="a message that was settled is forgotten after a while",
        topic=topic.name,
        offset=offset,
    )


# --- numbers ---


_Delay = Annotated[DelayTime | None, msgspec.Meta(description="From now.")]
_DeliverAt = Annotated[DueTime | None, msgspec.Meta(description="A time, instead of a delay.")]


class CancelDelayedResponse(msgspec.Struct):
    cancelled: bool
    operation: OperationId


class RescheduleResponse(DelayedSummaryJson, kw_only=True):
    """The message as it is then."""

    operation: OperationId


class DeliverNowResponse(msgspec.Struct):
    delivered: bool


class RescheduleRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The new delivery time: one of the two."""

    delay: _Delay = None
    deliver_at: _DeliverAt = None
    deliverAt: Annotated[DueTime | None, msgspec.Meta(description="Another name of deliver_at.")] = None  # noqa: N815


class DelayedSelectionRequest(
    msgspec.Struct,
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
    rename={"from_time": "from", "to_time": "to"},
):
    """The messages to change: those that match every field."""

    filter: Filters = []
    partition: PartitionNumber | None = None
    from_time: FromTime = None
    to_time: ToTime = None
    limit: (
        Annotated[int, msgspec.Meta(ge=1, le=OFFSET_MAX, description="Maximum number, the next due first.")] | None
    ) = None
    dry_run: Annotated[bool, msgspec.Meta(description="Count them, change nothing.")] = False


class RescheduleManyRequest(DelayedSelectionRequest, kw_only=True):
    """The messages to reschedule, and the new delivery time: one of the three."""

    delay: _Delay = None
    deliver_at: _DeliverAt = None
    shift: Annotated[Shift | None, msgspec.Meta(description="Later by this, or with a minus earlier.")] = None


# --- one ---


async def cancel(call: ApiCall) -> CancelDelayedResponse:
    changes = call.runtime.broker.changes
    work = changes.cancel_delayed(author_of(call), delivery_of(call), offset_of(call))
    return CancelDelayedResponse(True, await call.runtime.decide(work))


async def reschedule(call: ApiCall, body: RescheduleRequest) -> RescheduleResponse:
    """Reschedule a message and return it as it is then."""
    changes, delivery, offset = call.runtime.broker.changes, delivery_of(call), offset_of(call)
    due_ns = _due(call, body)
    operation = await call.runtime.decide(changes.reschedule_delayed(author_of(call), delivery, offset, due_ns))
    row = row_of(await call.runtime.perform(queries.get_delayed(delivery.delays, offset)))
    return RescheduleResponse(**msgspec.structs.asdict(row), operation=operation)


async def deliver(call: ApiCall) -> DeliverNowResponse:
    """Deliver a message now. Answers when it is durable in its topic."""
    call.runtime.refuse_while_stopping()
    await call.runtime.perform(_deliver_one(delivery_of(call), offset_of(call)))
    return DeliverNowResponse(True)


def _deliver_one(delivery: PartitionDelivery, offset: int) -> Work[None]:
    yield from delivery.delays.pending(offset)
    if not (yield from delivery.deliver_now(np.array([offset]))):
        yield from delivery.delays.pending(offset)  # says what came in between
        raise DelayedNotPending(f"the message {offset} is being changed", hint="try again", state="pending")


# --- many ---


async def cancel_many(call: ApiCall, body: DelayedSelectionRequest) -> DelayedChangesResponse:
    return await change_everywhere(
        call, body, lambda part: _record(call, part, "delayed_cancelled", "cancelled", lambda bulk: bulk.cancel)
    )


async def deliver_many(call: ApiCall, body: DelayedSelectionRequest) -> DelayedChangesResponse:
    return await change_everywhere(
        call, body, lambda part: _decide(call, part, PartitionDelivery.deliver_now, DELAY_FETCH_MESSAGES)
    )


async def reschedule_many(call: ApiCall, body: RescheduleManyRequest) -> DelayedChangesResponse:
    most = call.runtime.clock.now_ns() + _AHEAD_NS_MAX
    if body.shift is None:
        due_ns = _due(call, body)
        new = partial(_all_at, due_ns)
    elif body.delay is None and body.deliver_at is None:
        new = partial(_later, round(body.shift * NANOSECONDS), call.runtime.clock.now_ns(), most)
    else:
        raise _not_one("shift")
    return await change_everywhere(
        call,
        body,
        lambda part: _record(
            call, part, "delayed_rescheduled", "rescheduled", lambda bulk: partial(bulk.reschedule, new)
        ),
    )


async def _record(
    call: ApiCall,
    body: DelayedSelectionRequest,
    kind: OperationKind,
    done: str,
    act: Callable[[DelayedBulk], queries.BulkAction],
) -> DelayedChangesResponse:
    """Change all messages that match, as one operation."""
    bulk = call.runtime.broker.changes.delayed_bulk(author_of(call), kind, call.parameters["topic"])
    try:
        answer = await _decide(call, body, act(bulk))
    finally:
        operation = bulk.end(done)
    answer.operation = operation
    return answer


def _all_at(due_ns: int, dues: Numbers) -> Numbers:
    return np.full(len(dues), due_ns, np.int64)


def _later(shift_ns: int, least_ns: int, most_ns: int, dues: Numbers) -> Numbers:
    """Shift delivery times, at least to now and at most to the latest time allowed."""
    return np.clip(dues + shift_ns, least_ns, np.maximum(dues, most_ns))


async def _decide(
    call: ApiCall, body: DelayedSelectionRequest, act: queries.BulkAction, at_once: int = DELAY_CHANGE_MESSAGES
) -> DelayedChangesResponse:
    call.runtime.refuse_while_stopping()
    criteria = DelayedCriteria(from_ns=body.from_time, to_ns=body.to_time, sieve=filter_set(body.filter))
    asked = deliveries_of(call, body.partition)
    work = queries.apply_to_matching(
        asked, criteria, None if body.dry_run else act, body.limit, call.runtime.clock, at_once
    )
    done = await call.runtime.perform(work, call.runtime.searchers)
    return DelayedChangesResponse(done.matched, done.scanned, done.changed, done.is_complete)


def _due(call: ApiCall, body: "RescheduleRequest | RescheduleManyRequest") -> int:
    """Return the new delivery time; the past means now."""
    times = [body.deliver_at, body.deliverAt if isinstance(body, RescheduleRequest) else None]
    said = [int(time) for time in times if time is not None and time != NOT_GIVEN]
    now_ns = call.runtime.clock.now_ns()
    if len(said) + (body.delay is not None) != 1:
        raise _not_one("deliver_at")
    if body.delay is not None:
        return now_ns + round(body.delay * NANOSECONDS)
    if said[0] > now_ns + _AHEAD_NS_MAX:
        most = format_duration(DELAY_SECONDS_MAX)
        raise invalid("deliver_at", f"is {format_time(said[0])}, more than {most} from now", "schedule it earlier")
    return max(now_ns, said[0])


def _not_one(place: str) -> RequestInvalid:
    return invalid(place, "or another delivery time must be given, exactly one", "give one of delay, deliver_at, shift")
