"""Partitions that are added to a topic, and how far groups are from reading them."""

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from goqueue.api.endpoint import ApiCall
from goqueue.api.operations import OperationId, author_of
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.splits import NO_PARENT
from goqueue.broker.core.topic import Partitions, Topic
from goqueue.broker.groups.shards import GroupShards
from goqueue.broker.groups.split_gate import Obstacle
from goqueue.runtime.event_loop import TimeSlices

ScalingState = Literal["unscaled", "recording", "catching_up", "complete"]


class ScaleTopicRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The number of partitions that a topic is to have."""

    count: Partitions
    accept_key_moves: Annotated[
        bool, Meta(description="Take a number that does not keep the order of keys as well.")
    ] = False
    dry_run: Annotated[bool, Meta(description="Only say whether it is possible.")] = False


class ScaleTopicResponse(Struct):
    success: bool
    topic_name: str
    old_partition_count: int
    new_partition_count: int
    partitions_added: int
    dry_run: bool
    operation: OperationId


class WaitingGroupJson(Struct):
    group_id: str
    waits_for: Annotated[int, Meta(description="The partition in which it must reach a split offset.")]
    split_offset: Annotated[int | None, Meta(description="The one of that partition; null: not recorded yet.")]
    committed: Annotated[int | None, Meta(description="Its committed offset there; null: it has none.")]
    remaining: Annotated[int | None, Meta(description="Offsets between the two; null: not known yet.")]


class AddedPartitionJson(Struct):
    partition: int
    parent: Annotated[
        int | None, Meta(description="Where its keys were before; null: keys may have come from any partition.")
    ]
    split_offset: Annotated[
        int | None, Meta(description="Older messages of its keys are below this offset of the parent; null: none.")
    ]
    groups_waiting: list[WaitingGroupJson]
    groups_reading: Annotated[int, Meta(description="Groups that get its messages.")]


class ScalingStatusResponse(Struct):
    topic_name: str
    partition_count: int
    state: Annotated[
        ScalingState,
        Meta(
            description="`unscaled`: no partition was added; `recording`: split offsets are not durable yet; "
            "`catching_up`: groups have older messages to finish; `complete`: all groups read all partitions."
        ),
    ]
    added: list[AddedPartitionJson]


async def scale(call: ApiCall, body: ScaleTopicRequest) -> ScaleTopicResponse:
    broker, name = call.runtime.broker, call.parameters["topic"]
    if body.dry_run:
        topic = broker.scaler.check(name, body.count, accept_key_moves=body.accept_key_moves)
        before = len(topic.partitions)
        return ScaleTopicResponse(True, name, before, body.count, body.count - before, True, None)
    work = broker.changes.scale_topic(author_of(call), name, body.count, accept_key_moves=body.accept_key_moves)
    operation, scaled = await call.runtime.decide(work)
    return ScaleTopicResponse(True, name, scaled.before, body.count, body.count - scaled.before, False, operation)


async def status(call: ApiCall) -> ScalingStatusResponse:
    broker = call.runtime.broker
    topic = broker.topic(call.parameters["topic"])
    slices, added = TimeSlices(), list[AddedPartitionJson]()
    for number, split in sorted(topic.splits.items()):
        groups = list(_groups_at(broker.groups, topic, number))
        waiting = [_waiting(name, found) for name, found in groups if found is not None]
        parent = None if split.parent == NO_PARENT else split.parent
        offset = split.offset if parent is not None and split.is_decided else None
        added.append(AddedPartitionJson(number, parent, offset, waiting, len(groups) - len(waiting)))
        await slices.rest()
    return ScalingStatusResponse(topic.name, len(topic.partitions), _state(topic, added), added)


def _groups_at(shards: GroupShards, topic: Topic, number: int) -> Iterator[tuple[str, Obstacle | None]]:
    """Yield the groups that read a topic, and what holds a partition back in them."""
    for coordinator in shards:
        for group in coordinator.store.groups():
            if any(ref.topic == topic.name for ref in coordinator.store.cursors(group.group)):
                yield group.group, coordinator.gate.obstacle(group.group, PartitionRef(topic.name, number))


def _waiting(group: str, found: Obstacle) -> WaitingGroupJson:
    if not found.is_recorded:
        return WaitingGroupJson(group, found.parent, None, found.floor, None)
    return WaitingGroupJson(group, found.parent, found.offset, found.floor, found.remaining)


def _state(topic: Topic, added: list[AddedPartitionJson]) -> ScalingState:
    if not added:
        return "unscaled"
    if not all(split.is_decided for split in topic.splits.values()):
        return "recording"
    return "catching_up" if any(one.groups_waiting for one in added) else "complete"
