"""Changing delayed messages: one, or many at once."""

from functools import partial
from typing import Annotated

import msgspec
import numpy as np

from goqueue.api.call import Call
from goqueue.api.delayed import (
    DelayedBody,
    FromTime,
    OnlyPartition,
    ToTime,
    ns_of,
    offset_of,
    postman_of,
    postmen_of,
    row_of,
)
from goqueue.api.filtering import Filters, sieve_of
from goqueue.api.scalars import UNSAID, DelayTime, DueTime, Shift
from goqueue.broker.delay import queries
from goqueue.broker.delay.postman import Postman
from goqueue.broker.delay.queries import Criteria
from goqueue.broker.delay.wheel import Numbers
from goqueue.broker.work import Work
from goqueue.clock import NANOSECONDS
from goqueue.errors import DelayedNotPending, RequestInvalid
from goqueue.limits import DELAY_DECISION_MESSAGES, DELAY_FETCH_MESSAGES, DELAY_SECONDS_MAX, OFFSET_MAX
from goqueue.quantities import format_duration, format_time

_AHEAD_NS_MAX = round(DELAY_SECONDS_MAX * NANOSECONDS)
_Delay = Annotated[DelayTime | None, msgspec.Meta(description="From now.")]
_DeliverAt = Annotated[DueTime | None, msgspec.Meta(description="A time instead.")]


class Cancelled(msgspec.Struct):
    cancelled: bool


class Delivered(msgspec.Struct):
    delivered: bool


class NewTime(msgspec.Struct, forbid_unknown_fields=True):
    """When to deliver it instead: one of both."""

    delay: _Delay = None
    deliver_at: _DeliverAt = None
    deliverAt: Annotated[DueTime | None, msgspec.Meta(description="Another way to write deliver_at.")] = None  # noqa: N815


class Selection(
    msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename={"from_time": "from", "to_time": "to"}
):
    """Which messages are meant: those that all of this is true of."""

    filter: Filters = []
    partition: OnlyPartition | None = None
    from_time: FromTime = None
    to_time: ToTime = None
    limit: (
        Annotated[int, msgspec.Meta(ge=1, le=OFFSET_MAX, description="At most so many, the next due first.")] | None
    ) = None
    dry_run: Annotated[bool, msgspec.Meta(description="Count them, and change nothing.")] = False


class Rescheduling(Selection, forbid_unknown_fields=True, kw_only=True, rename={"from_time": "from", "to_time": "to"}):
    """Which messages, and when they are due instead: one of the three."""

    delay: _Delay = None
    deliver_at: _DeliverAt = None
    shift: Annotated[Shift | None, msgspec.Meta(description="So much later, or with a minus earlier.")] = None


class Changed(msgspec.Struct):
    matched: int
    scanned: int
    changed: int
    complete: Annotated[
        bool, msgspec.Meta(description="Whether all were come to before the time of a request was over.")
    ]


# --- one ---


async def cancel(call: Call) -> Cancelled:
    call.runtime.refuse_while_stopping()
    await call.runtime.perform(postman_of(call).delays.cancel(offset_of(call)))
    return Cancelled(True)


async def reschedule(call: Call) -> DelayedBody:
    """The message as the list has it then."""
    call.runtime.refuse_while_stopping()
    delays, offset = postman_of(call).delays, offset_of(call)
    due_ns = _due(call, call.body)
    await call.runtime.perform(delays.reschedule(offset, due_ns))
    return row_of(await call.runtime.perform(queries.one(delays, offset)))


async def deliver(call: Call) -> Delivered:
    """At once: told when it is durable in the topic."""
    call.runtime.refuse_while_stopping()
    await call.runtime.perform(_deliver_one(postman_of(call), offset_of(call)))
    return Delivered(True)


def _deliver_one(postman: Postman, offset: int) -> Work[None]:
    yield from postman.delays.pending(offset)
    if not (yield from postman.deliver_now(np.array([offset]))):
        yield from postman.delays.pending(offset)  # says what came in between
        raise DelayedNotPending(f"the message {offset} is being changed", hint="try again", state="pending")


# --- many ---


async def cancel_many(call: Call) -> Changed:
    return await _decide(call, lambda postman, offsets: postman.delays.cancel_many(offsets))


async def deliver_many(call: Call) -> Changed:
    return await _decide(call, lambda postman, offsets: postman.deliver_now(offsets), DELAY_FETCH_MESSAGES)


async def reschedule_many(call: Call) -> Changed:
    body: Rescheduling = call.body
    most = call.runtime.clock.now_ns() + _AHEAD_NS_MAX
    if body.shift is None:
        due_ns = _due(call, body)
        new = partial(_all_at, due_ns)
    elif body.delay is None and body.deliver_at is None:
        new = partial(_later, round(body.shift * NANOSECONDS), call.runtime.clock.now_ns(), most)
    else:
        raise _not_one("shift")
    return await _decide(call, lambda postman, offsets: postman.delays.reschedule_many(offsets, new))


def _all_at(due_ns: int, dues: Numbers) -> Numbers:
    return np.full(len(dues), due_ns, np.int64)


def _later(shift_ns: int, least_ns: int, most_ns: int, dues: Numbers) -> Numbers:
    """Not before now, so that nothing is late by it, and not further ahead than anybody may plan."""
    return np.clip(dues + shift_ns, least_ns, np.maximum(dues, most_ns))


async def _decide(call: Call, act: queries.Act, at_once: int = DELAY_DECISION_MESSAGES) -> Changed:
    call.runtime.refuse_while_stopping()
    body: Selection = call.body
    criteria = Criteria(from_ns=ns_of(body.from_time), to_ns=ns_of(body.to_time), sieve=sieve_of(body.filter))
    asked = postmen_of(call, body.partition)
    work = queries.decide(asked, criteria, None if body.dry_run else act, body.limit, call.runtime.clock, at_once)
    done = await call.runtime.perform(work, call.runtime.searchers)
    return Changed(done.matched, done.scanned, done.changed, done.is_complete)


def _due(call: Call, body: "NewTime | Rescheduling") -> int:
    """The moment that is meant; one in the past is at once."""
    times = [body.deliver_at, body.deliverAt if isinstance(body, NewTime) else None]
    said = [int(time) for time in times if time is not None and time != UNSAID]
    now_ns = call.runtime.clock.now_ns()
    if len(said) + (body.delay is not None) != 1:
        raise _not_one("deliver_at")
    if body.delay is not None:
        return now_ns + round(body.delay * NANOSECONDS)
    if said[0] > now_ns + _AHEAD_NS_MAX:
        most = format_duration(DELAY_SECONDS_MAX)
        problem = {"place": "deliver_at", "problem": f"is {format_time(said[0])}, more than {most} ahead"}
        raise RequestInvalid(f"deliver_at {problem['problem']}", hint="schedule it earlier", problems=[problem])
    return max(now_ns, said[0])


def _not_one(place: str) -> RequestInvalid:
    problem = {"place": place, "problem": "one way to say when is needed, and one only"}
    return RequestInvalid(
        "it does not say when in exactly one way", hint="write one of delay, deliver_at, shift", problems=[problem]
    )
