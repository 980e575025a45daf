"""Committed offsets: those that members commit, and those that operators reset."""

from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import (
    Generation,
    MemberId,
    Offset,
    OperationNumber,
    PartitionKey,
    PartitionNumber,
    Time,
    TopicName,
)
from goqueue.api.operations import OperationId, author_of
from goqueue.api.problems import invalid
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.offsets import ResetOptions, ResetTarget
from goqueue.errors import GoQueueError
from goqueue.limits import OFFSET_MAX

_CATCH_UP_SECONDS = 2.0
"""For a follower to hear of the leader's high watermark; usually a millisecond."""


class OffsetsQuery(Struct, forbid_unknown_fields=True):
    topic: str | None = None


class OffsetsResponse(Struct):
    offsets: dict[str, dict[str, int]]


class CommitOffsetsRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    offsets: Annotated[dict[TopicName, dict[PartitionKey, Offset]], Meta(description="By topic and partition.")]
    member_id: Annotated[
        MemberId | None, Meta(description="Left out by a program that assigns partitions itself and never joins.")
    ] = None
    generation: Generation | None = None


class CommitOffsetsResponse(Struct):
    committed: bool
    offsets: Annotated[dict[str, dict[str, int]], Meta(description="The committed offsets after this request.")]


class ResetOffsetsRequest(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    topic: str
    to: ResetTarget
    partitions: Annotated[list[PartitionNumber], Meta(min_length=1)] | None = None
    offset: Offset | None = None
    time: Time | None = None
    shift: Annotated[int, Meta(ge=-OFFSET_MAX, le=OFFSET_MAX, description="Backwards with a minus.")] | None = None
    dry_run: bool = False
    operation: (
        Annotated[OperationNumber, Meta(description="`operation` of a reset in another topic: this one belongs to it.")]
        | None
    ) = None


class PartitionResetJson(Struct):
    partition: int
    before: int | None
    after: int


class ResetOffsetsResponse(Struct):
    topic: str
    dry_run: bool
    generation: int
    partitions: list[PartitionResetJson]
    created: Annotated[bool, Meta(description="Whether the group is new.")]
    operation: OperationId


async def committed(call: ApiCall, query: OffsetsQuery) -> OffsetsResponse:
    name = call.parameters["group"]
    if query.topic is not None:
        call.access.require("describe", "topic", query.topic)
    found = call.runtime.broker.groups.of(name).offsets.committed(name, query.topic)
    seen = call.access.described("topic", found)
    return OffsetsResponse(_shown({topic: found[topic] for topic in seen}))


def _shown(found: dict[str, dict[int, int]]) -> dict[str, dict[str, int]]:
    return {topic: {str(number): offset for number, offset in numbers.items()} for topic, numbers in found.items()}


def offsets_by_ref(offsets: dict[str, dict[str, int]]) -> dict[PartitionRef, int]:
    return {
        PartitionRef(topic, int(number)): offset
        for topic, numbers in offsets.items()
        for number, offset in numbers.items()
    }


async def commit(call: ApiCall, body: CommitOffsetsRequest) -> CommitOffsetsResponse:
    name = call.parameters["group"]
    for topic in body.offsets:
        call.access.require("read", "topic", topic)
    offsets = call.runtime.broker.groups.of(name).offsets
    wanted = offsets_by_ref(body.offsets)
    for ref, offset in wanted.items():
        await _catch_up(call, ref, offset)
    await call.runtime.ask(partial(offsets.commit, name, body.member_id, body.generation, wanted))
    now = offsets.committed(name)
    return CommitOffsetsResponse(True, _shown({topic: now.get(topic, {}) for topic in body.offsets}))


async def reset(call: ApiCall, body: ResetOffsetsRequest) -> ResetOffsetsResponse:
    call.runtime.refuse_while_stopping()
    call.access.require("describe", "topic", body.topic)
    name, groups = call.parameters["group"], call.runtime.broker.groups
    chosen = None if body.partitions is None else tuple(dict.fromkeys(body.partitions))
    options = ResetOptions(body.topic, body.to, _value(body), chosen, body.dry_run)
    if body.offset is not None:
        for number in chosen or ():
            await _catch_up(call, PartitionRef(body.topic, number), body.offset)
    is_new = groups.group(name) is None
    changes = call.runtime.broker.changes
    work = changes.reset_offsets(author_of(call), name, options, body.operation)
    operation, resets = await call.runtime.perform(work)
    group = groups.group(name)
    return ResetOffsetsResponse(
        body.topic,
        body.dry_run,
        0 if group is None else group.generation,
        [PartitionResetJson(one.partition, one.before, one.after) for one in resets],
        is_new and not body.dry_run,
        operation,
    )


async def _catch_up(call: ApiCall, ref: PartitionRef, offset: int) -> None:
    """Wait until the replica here has come to an offset that the leader has shown. Raises Behind."""
    try:
        partition = call.runtime.broker.topic(ref.topic).partition(ref.partition)
    except GoQueueError:  # which is told when the offset is committed
        return
    if partition.leadership is not None and not partition.leadership.shows_end:
        await call.runtime.reader.reach(partition, offset, _CATCH_UP_SECONDS)


def _value(body: ResetOffsetsRequest) -> int:
    """Return the field that `to` needs. Raises RequestInvalid for other fields."""
    given = {name: value for name in ("offset", "time", "shift") if (value := getattr(body, name)) is not None}
    needed = body.to if body.to in ("offset", "time", "shift") else None
    wrong = [name for name in given if name != needed]
    if needed is not None and needed not in given:
        raise invalid(needed, f"is missing: to is {needed}")
    if wrong:
        raise invalid(wrong[0], f"cannot be combined with to: {body.to}", f"omit it, or send to: {wrong[0]}")
    return int(given[needed]) if needed is not None else 0
