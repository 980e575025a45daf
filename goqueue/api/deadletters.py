"""Dead letters: those of a topic, why they failed, and sending them back."""

import asyncio
from typing import Annotated, Any

import msgspec

from goqueue.api.answering import answer_on_thread
from goqueue.api.call import Call
from goqueue.api.filtering import Filters, sieve_of
from goqueue.api.groups import END
from goqueue.api.http.message import Response
from goqueue.api.scalars import Time
from goqueue.api.status import ErrorBody, told
from goqueue.api.text import Encoding, Message, shown, to_bytes, to_text
from goqueue.api.unpacking import UnpackBudget
from goqueue.broker.delivery.letters import Criteria, DeadLetter
from goqueue.broker.delivery.redrive import Redrive, Redriven, RedriveReport, RedriveWish
from goqueue.errors import GoQueueError, RequestInvalid
from goqueue.limits import (
    OFFSET_MAX,
    READ_MESSAGES,
    READ_MESSAGES_MAX,
    REASON_CHARACTERS_MAX,
    REDRIVE_DEFAULT,
    REDRIVE_MAX,
    REDRIVE_RATE_MIN,
    REDRIVE_SECONDS,
)
from goqueue.quantities import format_time

_PLACES = r"^\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*" + END
_Number = Annotated[str, msgspec.Meta(pattern=f"^(0|[1-9][0-9]{{0,8}}){END}", description="The number of a partition.")]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]
_Rate = Annotated[float, msgspec.Meta(ge=REDRIVE_RATE_MIN, le=1e6, description="At most so many a second.")]
_Starts = Annotated[dict[_Number, _Offset], msgspec.Meta(description="By partition: `next` of the answer before.")]
_Error = Annotated[str, msgspec.Meta(max_length=REASON_CHARACTERS_MAX, description="A part of why it failed.")]
_From = Annotated[Time | None, msgspec.Meta(description="It became a dead letter then or later.")]
_To = Annotated[Time | None, msgspec.Meta(description="It became a dead letter before.")]


class RedriveRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=REDRIVE_MAX, description="At most so many are sent back.")] = (
        REDRIVE_DEFAULT
    )
    rate: _Rate | None = None
    target: Annotated[str | None, msgspec.Meta(description="A topic instead of the one that each came from.")] = None
    error: _Error | None = None
    key: str | None = None
    key_encoding: Encoding | None = None
    header: Annotated[dict[str, str], msgspec.Meta(description="Each is there with this value.")] = {}
    group: Annotated[str | None, msgspec.Meta(description="The group that failed.")] = None
    from_time: _From = None
    to_time: _To = None
    start: _Starts = {}
    dry_run: bool = False
    filter: Filters = []


class RedriveResult(msgspec.Struct, omit_defaults=True):
    """Of one dead letter."""

    partition: int
    offset: int
    key: str | None
    reason: str
    target_topic: str
    target_partition: int
    key_encoding: Encoding | msgspec.UnsetType = msgspec.UNSET
    error: ErrorBody | None = None


class RedriveAnswer(msgspec.Struct, kw_only=True):
    moved: int
    matched: int
    scanned: int
    remaining: Annotated[int, msgspec.Meta(description="From `next` on: they were not looked at.")]
    complete: Annotated[bool, msgspec.Meta(description="Whether all that lay there was looked at.")]
    dry_run: bool
    next: Annotated[dict[str, int], msgspec.Meta(description="Where another request goes on: its `start`.")]
    results: list[RedriveResult]


class DeadLettersQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=READ_MESSAGES_MAX)] = READ_MESSAGES
    start: Annotated[str, msgspec.Meta(pattern=_PLACES, description="Where to go on: 0:17,1:4")] | None = None
    error: _Error | None = None
    group: str | None = None
    from_time: _From = None
    to_time: _To = None
    filter: Filters = []


class DeadLetterBody(Message, omit_defaults=True):
    """A message, and how it failed."""

    origin_topic: str | None = msgspec.field(default=None, name="origin_topic")
    origin_partition: int | None = msgspec.field(default=None, name="origin_partition")
    origin_offset: int | None = msgspec.field(default=None, name="origin_offset")
    group: str | None = None
    error: str = msgspec.field(default="", name="error")
    attempts: int | None = None
    first_time: str | None = None
    last_time: str | None = None


class DeadLetters(msgspec.Struct):
    messages: list[DeadLetterBody]
    next: dict[str, int]
    complete: bool


class ErrorsAnswer(msgspec.Struct):
    errors: Annotated[dict[str, int], msgspec.Meta(description="Why they failed, the most frequent first.")]
    next: dict[str, int]
    complete: bool


async def browse(call: Call) -> DeadLetters | Response:
    """Those that were not sent back."""
    query: DeadLettersQuery = call.query
    criteria = Criteria(
        error=query.error,
        group=query.group,
        from_ns=_ns(query.from_time),
        to_ns=_ns(query.to_time),
        sieve=sieve_of(query.filter),
    )
    places = (place.split(":") for place in (query.start or "").split(",") if place)
    start = {int(number): int(offset) for number, offset in places}
    redrives = call.runtime.broker.coordinator.redrives
    found = await call.runtime.perform(
        redrives.browse(call.parameters["topic"], query.limit, start, criteria), call.runtime.searchers
    )
    with call.app.unpacked.budget() as budget:
        return await answer_on_thread(
            lambda: DeadLetters(
                [_letter(one, budget) for one in found.letters], _numbers(found.next), found.is_complete
            )
        )


def _letter(letter: DeadLetter, budget: UnpackBudget) -> DeadLetterBody:
    text = shown(letter.message, budget.content_if_room(letter.message), letter.partition)
    return DeadLetterBody(
        **{name: getattr(text, name) for name in text.__struct_fields__},
        origin_topic=letter.origin_topic,
        origin_partition=letter.origin_partition,
        origin_offset=letter.origin_offset,
        group=letter.group,
        error=letter.error,
        attempts=letter.attempts,
        first_time=None if letter.first_ns is None else format_time(letter.first_ns),
        last_time=None if letter.last_ns is None else format_time(letter.last_ns),
    )


async def errors(call: Call) -> ErrorsAnswer:
    """Why they failed, and how many each time."""
    redrives = call.runtime.broker.coordinator.redrives
    found = await call.runtime.perform(redrives.errors(call.parameters["topic"]), call.runtime.searchers)
    return ErrorsAnswer(found.counts, _numbers(found.next), found.is_complete)


async def redrive(call: Call) -> RedriveAnswer:
    """Send dead letters back, within bounds of number and time."""
    call.runtime.refuse_while_stopping()
    body: RedriveRequest = call.body
    redriving = call.runtime.broker.coordinator.redrives.begin(call.parameters["topic"], _wish(body))
    report = await _paced(call, redriving)
    return RedriveAnswer(
        moved=report.moved,
        matched=report.matched,
        scanned=report.scanned,
        remaining=report.remaining,
        complete=report.is_complete,
        dry_run=body.dry_run,
        next=_numbers(report.next),
        results=[_result(one) for one in report.results],
    )


def _wish(body: RedriveRequest) -> RedriveWish:
    try:
        key = None if body.key is None else to_bytes(body.key, body.key_encoding)
    except ValueError as error:
        problem = {"place": "key", "problem": f"is no base64: {error}"}
        raise RequestInvalid(f"key {problem['problem']}", problems=[problem]) from None
    return RedriveWish(
        limit=body.limit,
        rate=body.rate,
        target=body.target,
        error=body.error,
        key=key,
        headers=tuple((name, text.encode()) for name, text in body.header.items()),
        group=body.group,
        from_ns=_ns(body.from_time),
        to_ns=_ns(body.to_time),
        start={int(number): offset for number, offset in body.start.items()},
        is_dry=body.dry_run,
        sieve=sieve_of(body.filter),
    )


async def _paced(call: Call, redriving: Redrive) -> RedriveReport:
    """As fast as is wished; what is left when the time is over is said."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    until = began + REDRIVE_SECONDS
    while not redriving.is_over and not call.runtime.is_stopping:
        try:
            async with asyncio.timeout_at(until):
                await call.runtime.perform(redriving.step(), call.runtime.searchers)
        except TimeoutError:  # what has left arrives all the same
            break
        due = began + redriving.seconds_due
        if max(due, loop.time()) >= until:
            break
        if due > loop.time():
            await call.runtime.pause(due - loop.time())
    return await call.runtime.perform(redriving.conclude())


def _result(one: Redriven) -> RedriveResult:
    key, encoding = (None, msgspec.UNSET) if one.key is None else to_text(one.key)
    failure = ErrorBody(**told(one.failure)) if isinstance(one.failure, GoQueueError) else None
    return RedriveResult(
        one.partition, one.offset, key, one.error_text, one.target_topic, one.target_partition, encoding, failure
    )


def _ns(time: Any) -> int | None:
    return None if time is None else int(time)


def _numbers(offsets: dict[int, int]) -> dict[str, int]:
    return {str(number): offset for number, offset in offsets.items()}
