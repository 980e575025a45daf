"""Topics and their partitions."""

from typing import Annotated, Any

import msgspec

from goqueue.api.call import App, Call
from goqueue.api.scalars import Time
from goqueue.broker.partition import Partition
from goqueue.broker.topic import Partitions, Topic, TopicSettings, TopicSpec
from goqueue.quantities import format_time

_Name = Annotated[str, msgspec.Meta(min_length=1, description="1 to 255 of A-Z a-z 0-9 . _ -")]


def _with_settings(name: str, sentence: str, *fields: Any) -> type[msgspec.Struct]:
    """A request with these fields and, as something that may be left out, every setting of a topic."""
    settings = [
        (one.name, one.type | msgspec.UnsetType, msgspec.UNSET) for one in msgspec.structs.fields(TopicSettings)
    ]
    kind = msgspec.defstruct(name, [*fields, *settings], forbid_unknown_fields=True, kw_only=True)
    kind.__doc__ = sentence
    return kind


TopicChanges = _with_settings("TopicChanges", "The settings to change; the others stay as they are.")
NewTopic = _with_settings(
    "NewTopic",
    "A topic to be created; what is left out is as the broker's configuration says.",
    ("name", _Name),
    ("num_partitions", Partitions | None, None),
    (
        "auto",
        Annotated[
            bool, msgspec.Meta(description="Create it only where publishing to it would: see topics.auto_create.")
        ],
        False,
    ),
)


class TopicMade(msgspec.Struct):
    name: str
    partitions: int
    created: bool


class TopicRemoved(msgspec.Struct):
    deleted: bool
    name: str
    delayed_deleted: Annotated[int, msgspec.Meta(description="Delayed messages that were pending, and went with it.")]


class Offsets(msgspec.Struct):
    earliest: int
    latest: int


class TopicDescription(msgspec.Struct):
    name: str
    partitions: int
    total_messages: int
    total_size_bytes: int
    partition_offsets: dict[str, Offsets]
    created_at: str
    config: TopicSettings
    faults: Annotated[dict[str, str], msgspec.Meta(description="Partitions that take no messages, and why.")]


class PartitionDescription(msgspec.Struct, kw_only=True):
    partition: int
    earliest: int
    latest: int
    log_end: int
    durable_end: int
    high_watermark: int
    last_stable: int
    size_bytes: int
    segments: int
    leader: int
    replicas: list[int]
    in_sync_replicas: list[int]
    fault: Annotated[str | None, msgspec.Meta(description="Why it takes no messages, if it does not.")] = None


class CompactedPartition(msgspec.Struct):
    partition: int
    size_before: int
    size_after: int
    messages_removed: int


class Compaction(msgspec.Struct):
    success: bool
    topic_name: str
    partitions: list[CompactedPartition]


class PartitionList(msgspec.Struct):
    partitions: list[PartitionDescription]


class TimeQuery(msgspec.Struct, forbid_unknown_fields=True):
    time: Time


class OffsetAtTime(msgspec.Struct):
    partition: int
    offset: int


async def create(call: Call) -> TopicMade:
    settings = _given(call.body)
    if settings.pop("auto") and not call.app.auto_create:
        call.runtime.broker.topic(settings["name"])
    spec = new_topic(call.app, settings.pop("name"), settings.pop("num_partitions", None), settings)
    topic = await call.runtime.create_topic(spec)
    return TopicMade(topic.name, len(topic.partitions), True)


def new_topic(app: App, name: str, partitions: int | None, settings: dict[str, Any]) -> TopicSpec:
    """What was asked for, and for the rest what the configuration says."""
    return TopicSpec(
        name=name,
        partitions=partitions or app.default_partitions,
        settings=TopicSettings(**{**app.default_settings, **settings}),
    )


def _given(body: msgspec.Struct) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET}


async def describe(call: Call) -> TopicDescription:
    return _described(call.runtime.broker.topic(call.parameters["topic"]))


def _described(topic: Topic) -> TopicDescription:
    return TopicDescription(
        topic.name,
        len(topic.partitions),
        topic.message_count,
        topic.size,
        {str(one.number): Offsets(one.earliest, one.high_watermark) for one in topic.partitions},
        format_time(topic.created_ns),
        topic.settings,
        {str(one.number): one.log.fence.sentence for one in topic.partitions if one.log.fence is not None},
    )


async def alter(call: Call) -> TopicDescription:
    return _described(await call.runtime.alter_topic(call.parameters["topic"], _given(call.body)))


async def delete(call: Call) -> TopicRemoved:
    name = call.parameters["topic"]
    pending = await call.runtime.delete_topic(name)
    return TopicRemoved(True, name, pending)


async def compact(call: Call) -> Compaction:
    """Until it is done, which for much may take a while."""
    name = call.parameters["topic"]
    done = await call.runtime.compact_topic(name)
    rows = [
        CompactedPartition(number, one.size_before, one.size_after, one.messages_removed)
        for number, one in enumerate(done)
    ]
    return Compaction(True, name, rows)


async def list_partitions(call: Call) -> PartitionList:
    topic = call.runtime.broker.topic(call.parameters["topic"])
    return PartitionList([_partition(one) for one in topic.partitions])


def _partition(one: Partition) -> PartitionDescription:
    return PartitionDescription(
        partition=one.number,
        earliest=one.earliest,
        latest=one.high_watermark,
        log_end=one.log_end,
        durable_end=one.durable_end,
        high_watermark=one.high_watermark,
        last_stable=one.last_stable,
        size_bytes=one.log.size,
        segments=len(one.log.segments),
        leader=0,
        replicas=[0],
        in_sync_replicas=[0],
        fault=None if one.log.fence is None else one.log.fence.sentence,
    )


async def offset_at_time(call: Call) -> OffsetAtTime:
    partition = call.runtime.broker.topic(call.parameters["topic"]).partition(call.partition)
    offset = await call.runtime.perform(partition.offset_for_time(int(call.query.time)))
    return OffsetAtTime(partition.number, offset)
