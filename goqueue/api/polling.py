"""Polls: messages for the members of groups, as leases with frames or as JSON with receipt handles."""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from goqueue.api.access import UNRESTRICTED, Access
from goqueue.api.delivery import Visibility
from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import Duration, Generation, MemberId
from goqueue.api.http.message import HttpResponse
from goqueue.api.message_json import (
    DecompressionBudget,
    MessageJson,
    checksum_of,
    frame_positions,
    is_small,
    message_json,
    respond_on_thread,
)
from goqueue.api.problems import invalid
from goqueue.broker.groups.policies import DeliveryPolicies
from goqueue.broker.groups.poll import Allowance, LeasedBatch, PollOptions, PollResult
from goqueue.broker.groups.retries import DeliveryPolicy
from goqueue.broker.groups.settle_commands import ReceiptHandle
from goqueue.clock import NANOSECONDS
from goqueue.errors import BrokerOverloaded
from goqueue.limits import (
    IN_FLIGHT_MESSAGES_MAX,
    POLL_MESSAGES,
    POLL_SECONDS,
    READ_BYTES,
    READ_BYTES_MAX,
    WAIT_SECONDS_MAX,
)
from goqueue.storage import frame
from goqueue.wire.headers import CHECKSUM, LEASES
from goqueue.wire.leases import LENGTH, LeaseDescription, PollHead


class PollWait(Duration, most=WAIT_SECONDS_MAX):
    noun = "a time to wait"


_Count = Annotated[int, Meta(ge=1, le=IN_FLIGHT_MESSAGES_MAX)]


class PollQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    member_id: MemberId
    generation: Generation | None = None
    max_messages: _Count | None = None
    limit: Annotated[_Count | None, Meta(description="Another name of max_messages.")] = None
    max_bytes: Annotated[int, Meta(ge=1, le=READ_BYTES_MAX, description="At least one message is returned.")] = (
        READ_BYTES
    )
    timeout: Annotated[PollWait | None, Meta(description="How long to wait for a message. Default: 30s.")] = None
    visibility_timeout: Annotated[
        Visibility | None,
        Meta(description="How long the lease lasts. Default: the group's, the topic's or the broker's setting."),
    ] = None
    skip_damage: Annotated[bool, Meta(description="Skip damaged ranges instead of failing.")] = False


class LeasedMessageJson(MessageJson, omit_defaults=True):
    """A message with the receipt handle that settles it."""

    topic: str = msgspec.field(default="", name="topic")
    attempt: int = msgspec.field(default=0, name="attempt")
    receipt_handle: str = msgspec.field(default="", name="receipt_handle")


class PollResponse(Struct):
    messages: list[LeasedMessageJson]
    next_offset: Annotated[
        dict[str, dict[str, int]], Meta(description="By topic and partition, after the returned messages.")
    ]
    generation: int
    rebalance_required: bool
    retry_after: (
        Annotated[float, Meta(description="Seconds after which the quotas of the tenant let it have more messages.")]
        | UnsetType
    ) = UNSET
    quota: Annotated[str, Meta(description="The quota that delays the next poll.")] | UnsetType = UNSET


_NO_DELAY = ("", 0.0)
"""No quota delays the next poll."""


async def poll(call: ApiCall, query: PollQuery) -> PollResponse | HttpResponse:
    """Return messages for a member, or none when the timeout is over."""
    check_topics(call, query.member_id)
    if call.request.method == "HEAD":  # who will not see messages is given none
        return nothing_yet(call, query)
    handed = await call.runtime.groups.poll(
        call.parameters["group"],
        query.member_id,
        query.generation,
        _options(query, None if call.meter is None or not call.meter.limits_consume else call.meter.consumable),
        POLL_SECONDS if query.timeout is None else float(query.timeout),
    )
    for portion in handed.batches:
        call.count_read(portion.topic, portion.content.count, portion.content.size, is_polled=True)
    delay = (None if call.meter is None else call.meter.next_delay()) or _NO_DELAY
    if LEASES in call.request.headers.get("accept", ""):
        return _as_leases(handed, call.runtime.broker.groups.policies, call.access, delay)
    with call.app.decompressed.budget() as budget:
        if _is_small(handed):
            return _as_messages(handed, budget, delay)
        try:
            return await respond_on_thread(partial(_as_messages, handed, budget, delay))
        except (asyncio.CancelledError, BrokerOverloaded):  # the client has left, or is to ask again
            for portion in handed.batches:
                call.runtime.broker.groups.of(call.parameters["group"]).settlement.return_lease(portion.grant.id)
            raise


def check_topics(call: ApiCall, member: str) -> None:
    """Check the topics of a member, which it named when it joined: a right may have been taken since."""
    if call.access is UNRESTRICTED:
        return
    group = call.runtime.broker.groups.group(call.parameters["group"])
    if group is not None and member in group.members:
        for topic in group.members[member].topics:
            call.access.require("read", "topic", topic)


def nothing_yet(call: ApiCall, query: PollQuery, seconds: float = 0.0) -> PollResponse | HttpResponse:
    """Answer a poll without messages; it counts as a heartbeat.

    `seconds` is the time after which the quotas of a tenant let it have some.
    """
    name = call.parameters["group"]
    group, is_news = call.runtime.broker.groups.of(name).membership.heartbeat(name, query.member_id, query.generation)
    handed, delay = PollResult(group, [], is_news), _NO_DELAY
    if seconds and call.meter is not None:
        delay = call.meter.slowest_consume(), round(seconds, 3)
    if LEASES in call.request.headers.get("accept", ""):
        return _as_leases(handed, call.runtime.broker.groups.policies, call.access, delay)
    return PollResponse([], {}, group.generation, is_news, delay[1] or UNSET, delay[0] or UNSET)


def _options(query: PollQuery, allowance: Allowance | None) -> PollOptions:
    if query.limit is not None and query.max_messages is not None and query.limit != query.max_messages:
        raise invalid("limit", f"is {query.limit}, max_messages is {query.max_messages}: they mean the same")
    visibility = query.visibility_timeout
    return PollOptions(
        query.max_messages or query.limit or POLL_MESSAGES,
        query.max_bytes,
        None if visibility is None else round(float(visibility) * NANOSECONDS),
        query.skip_damage,
        allowance,
    )


# --- frames ---


def _as_leases(
    handed: PollResult, policies: DeliveryPolicies, access: Access, delay: tuple[str, float]
) -> HttpResponse:
    leases = [
        _lease(portion, policies.of(handed.group.group, portion.topic), access.local_name(portion.topic))
        for portion in handed.batches
    ]
    head = PollHead(handed.group.generation, handed.is_changed, leases, delay[1], delay[0])
    encoded = msgspec.json.encode(head)
    start = memoryview(LENGTH.pack(len(encoded)) + encoded)
    parts = (start, *(buffer for portion in handed.batches for buffer in portion.content.buffers))
    return HttpResponse(200, parts, LEASES, ((CHECKSUM, checksum_of(parts)),))


def _lease(portion: LeasedBatch, policy: DeliveryPolicy, topic: str) -> LeaseDescription:
    grant = portion.grant
    is_last = policy.is_last_attempt(grant.failures)
    return LeaseDescription(
        topic,
        portion.partition,
        grant.id,
        grant.first,
        grant.end,
        grant.deliveries,
        (grant.until_ns - grant.given_ns) / NANOSECONDS,
        portion.content.size,
        grant.failures,
        None if is_last else policy.retry_delay_ns(grant.failures + 1) / NANOSECONDS,
    )


# --- JSON ---


def _is_small(handed: PollResult) -> bool:
    count = sum(portion.content.count for portion in handed.batches)
    return is_small(count, (buffer for portion in handed.batches for buffer in portion.content.buffers))


def _as_messages(handed: PollResult, budget: DecompressionBudget, delay: tuple[str, float]) -> PollResponse:
    following: dict[str, dict[str, int]] = {}
    for portion in handed.batches:
        known, number = following.setdefault(portion.topic, {}), str(portion.partition)
        known[number] = max(known.get(number, 0), portion.grant.end)
    messages = [message for portion in handed.batches for message in _messages(portion, budget)]
    quota, seconds = delay
    group = handed.group
    return PollResponse(messages, following, group.generation, handed.is_changed, seconds or UNSET, quota or UNSET)


def _messages(portion: LeasedBatch, budget: DecompressionBudget) -> Iterator[LeasedMessageJson]:
    grant = portion.grant
    for buffer in portion.content.buffers:
        for position in frame_positions(buffer):
            if buffer[position + frame.AT_FLAGS] & frame.CONTROL:
                continue
            found = frame.decode(buffer, position)
            receipt = ReceiptHandle(portion.topic, portion.partition, found.offset, grant.deliveries, grant.id)
            text = message_json(found, budget.decompress_if_room(found), portion.partition)
            yield LeasedMessageJson(
                **msgspec.structs.asdict(text),
                topic=portion.topic,
                attempt=grant.deliveries,
                receipt_handle=str(receipt),
            )
