"""Dead letters of a topic: list them, count their errors, redrive them."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import msgspec

from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import END, Filters, Offset, OperationNumber, PartitionKey, Time, filter_set
from goqueue.api.http.error_responses import ErrorJson, error_json
from goqueue.api.http.message import HttpResponse
from goqueue.api.message_json import (
    DecompressionBudget,
    Encoding,
    MessageJson,
    message_json,
    respond_on_thread,
    to_bytes,
    to_text,
)
from goqueue.api.operations import OperationId, author_of
from goqueue.api.problems import invalid
from goqueue.broker.groups.dead_letter_reader import DeadLetter, DeadLetterCriteria
from goqueue.broker.groups.dead_letters import REDRIVE_GROUP
from goqueue.broker.groups.redrive import Redrive, RedrivenMessage, RedriveOptions, Redriver, RedriveReport
from goqueue.errors import GoQueueError
from goqueue.limits import (
    READ_MESSAGES,
    READ_MESSAGES_MAX,
    REASON_CHARACTERS_MAX,
    REDRIVE_DEFAULT,
    REDRIVE_MAX,
    REDRIVE_RATE_MIN,
    REDRIVE_SECONDS,
)
from goqueue.quantities import format_time
from goqueue.security.rules import Action

_PLACES = r"^\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*" + END
_Rate = Annotated[float, msgspec.Meta(ge=REDRIVE_RATE_MIN, le=1e6, description="Maximum per second.")]
_Starts = Annotated[
    dict[PartitionKey, Offset], msgspec.Meta(description="By partition: `next` of the previous answer.")
]
_Error = Annotated[str, msgspec.Meta(max_length=REASON_CHARACTERS_MAX, description="A part of the error.")]
_From = Annotated[Time | None, msgspec.Meta(description="It became a dead letter at this time or later.")]
_To = Annotated[Time | None, msgspec.Meta(description="It became a dead letter before this time.")]


class RedriveRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    limit: Annotated[
        int, msgspec.Meta(ge=1, le=REDRIVE_MAX, description="Maximum number of dead letters to redrive.")
    ] = REDRIVE_DEFAULT
    rate: _Rate | None = None
    target: Annotated[str | None, msgspec.Meta(description="A topic instead of the original one.")] = None
    error: _Error | None = None
    key: str | None = None
    key_encoding: Encoding | None = None
    header: Annotated[dict[str, str], msgspec.Meta(description="Headers and their values.")] = {}
    group: Annotated[str | None, msgspec.Meta(description="The group in which it failed.")] = None
    from_time: _From = None
    to_time: _To = None
    start: _Starts = {}
    dry_run: bool = False
    filter: Filters = []
    operation: (
        Annotated[
            OperationNumber, msgspec.Meta(description="`operation` of the previous answer: this request continues it.")
        ]
        | None
    ) = None


class RedriveResultJson(msgspec.Struct, omit_defaults=True):
    partition: int
    offset: int
    key: str | None
    reason: str
    target_topic: str
    target_partition: int
    key_encoding: Encoding | msgspec.UnsetType = msgspec.UNSET
    error: ErrorJson | None = None


_Place = Annotated[str | None, msgspec.Meta(description="The topic that has them; null if there are none yet.")]


class RedriveResponse(msgspec.Struct, kw_only=True):
    moved: int
    matched: int
    scanned: int
    remaining: Annotated[int, msgspec.Meta(description="Dead letters from `next` on, not examined.")]
    complete: Annotated[bool, msgspec.Meta(description="Whether all were examined.")]
    dry_run: bool
    next: Annotated[dict[str, int], msgspec.Meta(description="The `start` of the next request.")]
    results: list[RedriveResultJson]
    dlq_topic: _Place
    operation: OperationId


class DeadLettersQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=READ_MESSAGES_MAX)] = READ_MESSAGES
    start: Annotated[str, msgspec.Meta(pattern=_PLACES, description="Where to continue: 0:17,1:4")] | None = None
    error: _Error | None = None
    group: str | None = None
    from_time: _From = None
    to_time: _To = None
    filter: Filters = []


class DeadLetterJson(MessageJson, omit_defaults=True):
    """A dead letter: the message and its error."""

    origin_topic: str | None = msgspec.field(default=None, name="origin_topic")
    origin_partition: int | None = msgspec.field(default=None, name="origin_partition")
    origin_offset: int | None = msgspec.field(default=None, name="origin_offset")
    group: str | None = None
    error: str = msgspec.field(default="", name="error")
    attempts: int | None = None
    first_time: str | None = None
    last_time: str | None = None


class DeadLettersResponse(msgspec.Struct):
    messages: list[DeadLetterJson]
    next: dict[str, int]
    complete: bool
    dlq_topic: _Place


class DeadLetterErrorsResponse(msgspec.Struct):
    errors: Annotated[dict[str, int], msgspec.Meta(description="Errors, the most frequent first.")]
    next: dict[str, int]
    complete: bool
    dlq_topic: _Place


async def browse(call: ApiCall, query: DeadLettersQuery) -> DeadLettersResponse | HttpResponse:
    """List the dead letters that were not redriven."""
    criteria = DeadLetterCriteria(
        error=query.error,
        group=query.group,
        from_ns=_ns(query.from_time),
        to_ns=_ns(query.to_time),
        filters=filter_set(query.filter),
    )
    places = (place.split(":") for place in (query.start or "").split(",") if place)
    start = {int(number): int(offset) for number, offset in places}
    redrives = await _redrives(call, query.group)
    found = await call.runtime.perform(
        redrives.browse(call.parameters["topic"], query.limit, start, criteria), call.runtime.searchers
    )
    _check_source(call, found.topic, "read")
    with call.app.decompressed.budget() as budget:
        return await respond_on_thread(
            lambda: DeadLettersResponse(
                [_letter(one, budget) for one in found.letters], _numbers(found.next), found.is_complete, found.topic
            )
        )


async def _redrives(call: ApiCall, group: str | None = None) -> Redriver:
    """Return the redrives of this node, which know where the dead letters of the topic in the path end."""
    redrives = call.runtime.broker.groups.of(REDRIVE_GROUP).redrives
    await call.learn_ends(redrives.topic_of_letters(call.parameters["topic"], group))
    return redrives


def _letter(letter: DeadLetter, budget: DecompressionBudget) -> DeadLetterJson:
    text = message_json(letter.message, budget.decompress_if_room(letter.message), letter.partition)
    return DeadLetterJson(
        **msgspec.structs.asdict(text),
        origin_topic=letter.origin_topic,
        origin_partition=letter.origin_partition,
        origin_offset=letter.origin_offset,
        group=letter.group,
        error=letter.error,
        attempts=letter.attempts,
        first_time=None if letter.first_ns is None else format_time(letter.first_ns),
        last_time=None if letter.last_ns is None else format_time(letter.last_ns),
    )


async def errors(call: ApiCall) -> DeadLetterErrorsResponse:
    redrives = await _redrives(call)
    found = await call.runtime.perform(redrives.errors(call.parameters["topic"]), call.runtime.searchers)
    _check_source(call, found.topic, "read")
    return DeadLetterErrorsResponse(found.counts, _numbers(found.next), found.is_complete, found.topic)


def _check_target(call: ApiCall, topic: str) -> None:
    if not call.access.may("alter", "topic", topic):
        call.access.require("write", "topic", topic)


def _check_source(call: ApiCall, topic: str | None, action: Action) -> None:
    """Check the topic that has the dead letters, which settings name: it may have those of other topics, too."""
    if topic is not None and topic != call.parameters["topic"]:
        call.access.require(action, "topic", topic)


async def redrive(call: ApiCall, body: RedriveRequest) -> RedriveResponse:
    """Redrive dead letters, at most `limit` and for a limited time."""
    call.runtime.refuse_while_stopping()
    options = replace(_options(body), check_target=partial(_check_target, call))
    redriving = (await _redrives(call, options.group)).begin(call.parameters["topic"], options)
    if redriving.source is not None:
        _check_source(call, redriving.source.name, "alter")
    changes, operation, begun = call.runtime.broker.changes, body.operation, None
    if redriving.source is not None and not body.dry_run:
        begun = await call.runtime.perform(changes.begin_redrive(author_of(call), redriving.source, operation))
    try:
        report = await _paced(call, redriving)
    finally:
        if begun is not None:
            operation = changes.end_redrive(begun, redriving.report.results)
    return RedriveResponse(
        moved=report.moved,
        matched=report.matched,
        scanned=report.scanned,
        remaining=report.remaining,
        complete=report.is_complete,
        dry_run=body.dry_run,
        next=_numbers(report.next),
        results=[_result(one) for one in report.results],
        dlq_topic=report.topic,
        operation=operation,
    )


def _options(body: RedriveRequest) -> RedriveOptions:
    try:
        key = None if body.key is None else to_bytes(body.key, body.key_encoding)
    except ValueError as error:
        raise invalid("key", f"is not base64: {error}") from None
    return RedriveOptions(
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
        filters=filter_set(body.filter),
    )


async def _paced(call: ApiCall, redriving: Redrive) -> RedriveReport:
    """Redrive at the requested rate until the time of a request is over."""
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


def _result(one: RedrivenMessage) -> RedriveResultJson:
    key, encoding = (None, msgspec.UNSET) if one.key is None else to_text(one.key)
    failure = error_json(one.failure) if isinstance(one.failure, GoQueueError) else None
    return RedriveResultJson(
        one.partition, one.offset, key, one.error_text, one.target_topic, one.target_partition, encoding, failure
    )


def _ns(time: Any) -> int | None:
    return None if time is None else int(time)


def _numbers(offsets: dict[int, int]) -> dict[str, int]:
    return {str(number): offset for number, offset in offsets.items()}
