"""Delayed messages: those that wait, and what became of them."""

import asyncio
from typing import Annotated, Any, Literal

import msgspec

from goqueue.api.answering import encode_message, on_thread
from goqueue.api.call import Call
from goqueue.api.filtering import Filters, sieve_of
from goqueue.api.http.message import Response
from goqueue.api.scalars import Time
from goqueue.api.text import Encoding, Message, shown, to_text
from goqueue.api.unpacking import UnpackBudget
from goqueue.broker.delay import queries
from goqueue.broker.delay.postman import Postman
from goqueue.broker.delay.queries import Criteria, Page, Shown
from goqueue.broker.delay.schedule import STATES
from goqueue.broker.delay.wheel import Wheel
from goqueue.broker.partition import Partition
from goqueue.broker.topic import Topic
from goqueue.clock import NANOSECONDS
from goqueue.errors import DelayedAmbiguous, DelayedNotFound
from goqueue.limits import (
    DELAY_SECONDS_MAX,
    DELAY_SKIP_MAX,
    OFFSET_MAX,
    PARTITIONS_MAX,
    READ_MESSAGES,
    READ_MESSAGES_MAX,
)
from goqueue.quantities import format_time, quoted

_AHEAD_NS_MAX = round(DELAY_SECONDS_MAX * NANOSECONDS)
_BOUNDS = tuple(seconds * NANOSECONDS for seconds in (10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400))
_BOUNDS_NS = (*_BOUNDS, _AHEAD_NS_MAX)
"""Where the buckets of a timeline end, counted from now."""

_BRIEF = 100
"""Messages that are turned into text on the loop; more is given to a thread."""

State = Literal["pending", "delivered", "cancelled", "expired"]
OnlyPartition = Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_MAX - 1)]
_Limit = Annotated[int, msgspec.Meta(ge=1, le=READ_MESSAGES_MAX)]
FromTime = Annotated[Time | None, msgspec.Meta(description="Due then or later.")]
ToTime = Annotated[Time | None, msgspec.Meta(description="Due before.")]


class ListQuery(msgspec.Struct, forbid_unknown_fields=True, rename={"from_time": "from", "to_time": "to"}):
    limit: _Limit = READ_MESSAGES
    skip: Annotated[int, msgspec.Meta(ge=0, le=DELAY_SKIP_MAX, description="So many of the first are left out.")] = 0
    partition: OnlyPartition | None = None
    state: State = "pending"
    from_time: FromTime = None
    to_time: ToTime = None
    filter: Filters = []


class TimelineQuery(msgspec.Struct, forbid_unknown_fields=True):
    buckets: Annotated[
        int, msgspec.Meta(ge=1, le=len(_BOUNDS_NS), description="The nearest so many; each is longer than the last.")
    ] = len(_BOUNDS_NS)


class DelayedBody(msgspec.Struct, omit_defaults=True):
    """A scheduled message."""

    topic: str
    partition: int
    offset: int
    deliver_at: str
    priority: int
    state: State
    key: str | None
    size: Annotated[int, msgspec.Meta(description="Bytes of its frame in the delayed log.")]
    scheduled_at: str | None
    key_encoding: Encoding | msgspec.UnsetType = msgspec.UNSET


class DelayedMessage(Message, omit_defaults=True, kw_only=True):
    """The same with what it holds; the value is null where its bytes are damaged."""

    topic: str
    deliver_at: str
    state: State
    size: int
    scheduled_at: str | None


class DelayedList(msgspec.Struct, omit_defaults=True):
    messages: list[DelayedBody]
    count: int
    total: Annotated[int, msgspec.Meta(description="Pending messages of the topic, or of the partition.")]
    complete: Annotated[
        bool, msgspec.Meta(description="False where filters had no time for all messages; left out otherwise.")
    ] = True


class Bucket(msgspec.Struct, rename={"from_time": "from", "to_time": "to"}):
    from_time: str
    to_time: str
    count: int


class TimelineAnswer(msgspec.Struct):
    pending: int
    overdue: int
    next_due: str | None
    buckets: list[Bucket]


class WheelLevel(msgspec.Struct):
    level: int
    tick_ms: float
    slots: int
    entries: int


class DelayStats(msgspec.Struct, kw_only=True):
    pending_count: int
    delivered_count: int
    cancelled_count: int
    expired_count: int
    rescheduled_count: int
    avg_delay: Annotated[float | None, msgspec.Meta(description="Seconds that messages were to wait.")]
    late_p50: Annotated[float | None, msgspec.Meta(description="Seconds that the latest 10,000 were late.")]
    late_p99: float | None
    next_due: str | None
    wheel: list[WheelLevel]
    parked: Annotated[int, msgspec.Meta(description="Too far ahead for the wheel.")]
    topics: Annotated[dict[str, int], msgspec.Meta(description="Pending messages by topic.")]


# --- ask ---


async def browse(call: Call) -> DelayedList:
    query: ListQuery = call.query
    asked = [postman.delays for postman in postmen_of(call, query.partition)]
    criteria = Criteria(
        from_ns=ns_of(query.from_time),
        to_ns=ns_of(query.to_time),
        state=STATES.index(query.state),
        sieve=sieve_of(query.filter),
    )
    work = queries.listing(asked, criteria, query.limit, query.skip, call.runtime.clock)
    page: Page = await call.runtime.perform(work, call.runtime.searchers)
    found = page.shown
    rows = _rows(found) if len(found) <= _BRIEF else await asyncio.to_thread(_rows, found)
    return DelayedList(rows, len(found), queries.pending(asked), page.is_complete)


def _rows(found: list[Shown]) -> list[DelayedBody]:
    return [row_of(one) for one in found]


def postmen_of(call: Call, number: int | None = None) -> list[Postman]:
    """Those of the topic, or of one of its partitions, that have delayed messages."""
    topic = call.runtime.broker.topic(call.parameters["topic"])
    partitions = topic.partitions if number is None else [topic.partition(number)]
    found = [call.runtime.broker.office.postman(partition) for partition in partitions]
    return [postman for postman in found if postman is not None]


def row_of(one: Shown) -> DelayedBody:
    key, encoding = to_text(one.message.key) if one.message and one.message.key is not None else (None, msgspec.UNSET)
    return DelayedBody(
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


def _scheduled_at(one: Shown) -> str | None:
    return None if one.message is None else format_time(one.message.timestamp_ns)


async def describe(call: Call) -> Response:
    """One message, and what it holds."""
    postman = postman_of(call)
    found: Shown = await call.runtime.perform(queries.one(postman.delays, offset_of(call)))
    return await _told(call, found)


async def _told(call: Call, one: Shown) -> Response:
    with call.app.unpacked.budget() as budget:
        return Response(200, await on_thread(lambda: list(encode_message(_message(one, budget)))))


def _message(one: Shown, budget: UnpackBudget) -> DelayedMessage:
    told: dict[str, Any] = {
        "topic": one.delays.partition.topic,
        "deliver_at": format_time(one.entry.due_ns),
        "state": STATES[one.entry.state],
        "size": one.size,
        "scheduled_at": _scheduled_at(one),
    }
    number = one.delays.partition.number
    if one.message is None:
        bare = Message(one.entry.offset, "", None, None, one.entry.priority, {}, number)
        return DelayedMessage(**{name: getattr(bare, name) for name in bare.__struct_fields__}, **told)
    text = shown(one.message, budget.content_of(one.message), number)
    return DelayedMessage(**{name: getattr(text, name) for name in text.__struct_fields__}, **told)


async def find(call: Call) -> Response:
    """The one with this offset, whatever its partition."""
    offset, found = offset_of(call), list[Shown]()
    topic = call.runtime.broker.topic(call.parameters["topic"])
    for postman in postmen_of(call):
        await call.runtime.perform(postman.delays.catch_up())  # of a large batch the table may not know yet
        if postman.delays.schedule.find(offset) is not None:
            found.append(await call.runtime.perform(queries.one(postman.delays, offset)))
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


async def timeline(call: Call) -> TimelineAnswer:
    """How many are due when."""
    now_ns = call.runtime.clock.now_ns()
    bounds = [now_ns, *(now_ns + bound for bound in _BOUNDS_NS[: call.query.buckets])]
    asked = [postman.delays for postman in postmen_of(call)]
    found = await call.runtime.perform(queries.timeline(asked, bounds))
    times = [format_time(bound) for bound in bounds]
    buckets = [Bucket(*row) for row in zip(times[:-1], times[1:], found.counts, strict=True)]
    return TimelineAnswer(found.pending, found.overdue, _time(found.next_due_ns), buckets)


def postman_of(call: Call) -> Postman:
    topic, partition = _place(call)
    postman = call.runtime.broker.office.postman(partition)
    if postman is None:
        raise _unknown(topic, offset_of(call))
    return postman


def _place(call: Call) -> tuple[Topic, Partition]:
    topic = call.runtime.broker.topic(call.parameters["topic"])
    return topic, topic.partition(call.partition)


def offset_of(call: Call) -> int:
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


async def stats(call: Call) -> DelayStats:
    """Of all topics together."""
    postmen = list(call.runtime.broker.office.postmen())
    all_delays = [postman.delays for postman in postmen]
    counts = [sum(one.schedule.counts[state] for one in all_delays) for state in range(len(STATES))]
    scheduled = sum(one.scheduled for one in all_delays)
    late = call.runtime.broker.office.lateness()
    standing = await call.runtime.perform(queries.standing(all_delays, call.runtime.clock.now_ns()))
    return DelayStats(
        pending_count=counts[0],
        delivered_count=counts[1],
        cancelled_count=counts[2],
        expired_count=counts[3],
        rescheduled_count=sum(one.schedule.rescheduled for one in all_delays),
        avg_delay=sum(one.ahead_seconds for one in all_delays) / scheduled if scheduled else None,
        late_p50=late[0],
        late_p99=late[1],
        next_due=_time(standing.next_due_ns),
        wheel=_levels(postmen),
        parked=standing.parked,
        topics={name: count for name, count in call.runtime.broker.office.pending().items() if count},
    )


def _levels(postmen: list[Postman]) -> list[WheelLevel]:
    """Of all wheels together."""
    levels = [postman.delays.wheel.levels() for postman in postmen] or [Wheel(0).levels()]
    return [
        WheelLevel(number, tick_ns / 1e6, slots, sum(one[number][2] for one in levels))
        for number, (tick_ns, slots, _) in enumerate(levels[0])
    ]


def ns_of(time: Time | None) -> int | None:
    return None if time is None else int(time)


def _time(time_ns: int | None) -> str | None:
    return None if time_ns is None else format_time(time_ns)
