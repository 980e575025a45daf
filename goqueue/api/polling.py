"""Messages for the members of groups: leases with frames for the SDK, JSON with receipts for people."""

import asyncio
import struct
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import msgspec

from goqueue.api.answering import answer_on_thread
from goqueue.api.call import Call
from goqueue.api.frames import is_brief, starts
from goqueue.api.http.message import Response
from goqueue.api.members import Generation, MemberId
from goqueue.api.openapi import LEASES
from goqueue.api.scalars import Duration
from goqueue.api.sections import CHECKSUM_HEADER, checksum_of
from goqueue.api.text import Message, shown
from goqueue.api.unpacking import UnpackBudget
from goqueue.broker.delivery.receipt import Receipt
from goqueue.broker.delivery.taking import Handed, PollWish, Portion
from goqueue.clock import NANOSECONDS
from goqueue.errors import BrokerOverloaded, RequestInvalid
from goqueue.limits import (
    IN_FLIGHT_MESSAGES_MAX,
    POLL_MESSAGES,
    POLL_SECONDS,
    READ_BYTES,
    READ_BYTES_MAX,
    VISIBILITY_SECONDS_MAX,
    VISIBILITY_SECONDS_MIN,
    WAIT_SECONDS_MAX,
)
from goqueue.storage import frame

_LENGTH = struct.Struct(">I")


class PollWait(Duration, most=WAIT_SECONDS_MAX):
    noun = "a time to wait"


class Visibility(Duration, least=VISIBILITY_SECONDS_MIN, most=VISIBILITY_SECONDS_MAX):
    noun = "a visibility timeout"


_Count = Annotated[int, msgspec.Meta(ge=1, le=IN_FLIGHT_MESSAGES_MAX)]


class PollQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    member_id: MemberId
    generation: Generation | None = None
    max_messages: _Count | None = None
    limit: Annotated[_Count | None, msgspec.Meta(description="The same as max_messages.")] = None
    max_bytes: Annotated[int, msgspec.Meta(ge=1, le=READ_BYTES_MAX, description="One message is given always.")] = (
        READ_BYTES
    )
    timeout: Annotated[PollWait | None, msgspec.Meta(description="How long to wait for a message; else 30s.")] = None
    visibility_timeout: Annotated[
        Visibility | None, msgspec.Meta(description="How long the messages are lent; else as configured.")
    ] = None
    skip_damage: Annotated[bool, msgspec.Meta(description="Pass over damaged ranges instead of refusing.")] = False


class LentMessage(Message, omit_defaults=True):
    """A message with the receipt that settles it."""

    topic: str = msgspec.field(default="", name="topic")
    attempt: int = msgspec.field(default=0, name="attempt")
    receipt_handle: str = msgspec.field(default="", name="receipt_handle")


class Polled(msgspec.Struct):
    messages: list[LentMessage]
    next_offset: Annotated[
        dict[str, dict[str, int]], msgspec.Meta(description="By topic and partition, behind the messages given.")
    ]
    generation: int
    rebalance_required: bool


class LeaseHead(msgspec.Struct):
    topic: str
    partition: int
    lease: str
    first: int
    end: int
    attempt: int
    failures: int
    visibility: float
    bytes: int


class PollHead(msgspec.Struct):
    generation: int
    rebalance_required: bool
    leases: list[LeaseHead]


async def poll(call: Call) -> Polled | Response:
    """Messages for a member, or none when the time is over."""
    query: PollQuery = call.query
    if call.request.method == "HEAD":  # who will not see messages is given none
        with call.app.unpacked.budget() as budget:
            return _as_messages(_nothing(call, query), budget)
    handed = await call.runtime.groups.poll(
        call.parameters["group"],
        query.member_id,
        query.generation,
        _wish(call, query),
        POLL_SECONDS if query.timeout is None else float(query.timeout),
    )
    for portion in handed.portions:
        counts = call.app.metrics.topic(portion.topic)
        counts.messages_read += portion.content.count
        counts.bytes_read += portion.content.size
    if LEASES in call.request.headers.get("accept", ""):
        return _as_leases(handed)
    with call.app.unpacked.budget() as budget:
        if _is_brief(handed):
            return _as_messages(handed, budget)
        try:
            return await answer_on_thread(partial(_as_messages, handed, budget))
        except (asyncio.CancelledError, BrokerOverloaded):  # the client has left, or is to ask again
            for portion in handed.portions:
                call.runtime.broker.coordinator.settlement.give_back(portion.grant.id)
            raise


def _nothing(call: Call, query: PollQuery) -> Handed:
    membership = call.runtime.broker.coordinator.membership
    group, is_news = membership.heartbeat(call.parameters["group"], query.member_id, query.generation)
    return Handed(group, [], is_news)


def _wish(call: Call, query: PollQuery) -> PollWish:
    if query.limit is not None and query.max_messages is not None and query.limit != query.max_messages:
        problem = {"place": "limit", "problem": f"is {query.limit}, max_messages is {query.max_messages}"}
        raise RequestInvalid(f"limit {problem['problem']}: they mean the same", problems=[problem])
    rules = call.runtime.broker.coordinator.settings.rules
    visibility = query.visibility_timeout
    return PollWish(
        query.max_messages or query.limit or POLL_MESSAGES,
        query.max_bytes,
        rules.visibility_ns if visibility is None else round(float(visibility) * NANOSECONDS),
        query.skip_damage,
    )


# --- frames ---


def _as_leases(handed: Handed) -> Response:
    head = PollHead(handed.group.generation, handed.is_news, [_lease(portion) for portion in handed.portions])
    encoded = msgspec.json.encode(head)
    start = memoryview(_LENGTH.pack(len(encoded)) + encoded)
    parts = (start, *(buffer for portion in handed.portions for buffer in portion.content.buffers))
    return Response(200, parts, LEASES, ((CHECKSUM_HEADER, checksum_of(parts)),))


def _lease(portion: Portion) -> LeaseHead:
    grant = portion.grant
    return LeaseHead(
        portion.topic,
        portion.partition,
        grant.id,
        grant.first,
        grant.end,
        grant.deliveries,
        grant.failures,
        (grant.until_ns - grant.given_ns) / NANOSECONDS,
        portion.content.size,
    )


# --- JSON ---


def _is_brief(handed: Handed) -> bool:
    count = sum(portion.content.count for portion in handed.portions)
    return is_brief(count, (buffer for portion in handed.portions for buffer in portion.content.buffers))


def _as_messages(handed: Handed, budget: UnpackBudget) -> Polled:
    following: dict[str, dict[str, int]] = {}
    for portion in handed.portions:
        known, number = following.setdefault(portion.topic, {}), str(portion.partition)
        known[number] = max(known.get(number, 0), portion.grant.end)
    messages = [message for portion in handed.portions for message in _messages(portion, budget)]
    return Polled(messages, following, handed.group.generation, handed.is_news)


def _messages(portion: Portion, budget: UnpackBudget) -> Iterator[LentMessage]:
    grant = portion.grant
    for buffer in portion.content.buffers:
        for position in starts(buffer):
            if buffer[position + frame.AT_FLAGS] & frame.CONTROL:
                continue
            found = frame.decode(buffer, position)
            receipt = Receipt(portion.topic, portion.partition, found.offset, grant.deliveries, grant.id)
            text = shown(found, budget.content_if_room(found), portion.partition)
            yield LentMessage(
                **{name: getattr(text, name) for name in text.__struct_fields__},
                topic=portion.topic,
                attempt=grant.deliveries,
                receipt_handle=str(receipt),
            )
