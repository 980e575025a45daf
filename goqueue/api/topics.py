"""Topics and their partitions: create, list, describe, change, compact, delete."""

from collections.abc import Collection
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from goqueue.api.delivery import DURATIONS, check_dead_letter_topic, plain
from goqueue.api.endpoint import ApiCall, ApiContext
from goqueue.api.fields import Time
from goqueue.api.http.message import HttpResponse
from goqueue.api.operations import OperationId, author_of
from goqueue.api.reading import Replica, replica_check
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import Partitions, Topic, TopicSettings, TopicSpec, settings_tag
from goqueue.broker.core.view import count_messages
from goqueue.broker.losses import fault_of
from goqueue.errors import GoQueueError
from goqueue.observe.history import TopicRates
from goqueue.quantities import format_time, quoted
from goqueue.runtime.event_loop import TimeSlices
from goqueue.schemas.formats import refuse_unless_all_installed

_Name = Annotated[str, Meta(min_length=1, description="1 to 255 of A-Z a-z 0-9 . _ -")]


def _with_settings(name: str, sentence: str, *fields: Any) -> type[Struct]:
    """Define a request with these fields and every setting of a topic, which is optional."""
    settings = [(one.name, _request_type(one), UNSET) for one in msgspec.structs.fields(TopicSettings)]
    kind = msgspec.defstruct(name, [*fields, *settings], forbid_unknown_fields=True, omit_defaults=True, kw_only=True)
    kind.__doc__ = sentence
    return kind


def _request_type(setting: msgspec.structs.FieldInfo) -> Any:
    """Return the type of a setting in a request, where a duration may be text such as 30s."""
    kind: Any = setting.type
    if (duration := DURATIONS.get(setting.name)) is not None:
        kind = Annotated[duration | None, *kind.__metadata__]
    return kind | UnsetType


AlterTopicRequest = _with_settings("AlterTopicRequest", "The settings to change; the others stay as they are.")
CreateTopicRequest = _with_settings(
    "CreateTopicRequest",
    "A topic to be created; what is left out is as the broker's configuration says.",
    ("name", _Name),
    ("num_partitions", Partitions | None, None),
    (
        "auto",
        Annotated[bool, Meta(description="Create it only if publishing to it would: see topics.auto_create.")],
        False,
    ),
)


class CreateTopicResponse(Struct):
    name: str
    partitions: int
    created: bool
    operation: OperationId


class DeleteTopicResponse(Struct):
    deleted: bool
    name: str
    delayed_deleted: Annotated[int, Meta(description="Pending delayed messages that were deleted with it.")]
    operation: OperationId


class PartitionOffsetsJson(Struct):
    earliest: int
    latest: int


_OtherRecords = Annotated[
    int,
    Meta(
        description="Offsets without a message that readers see: control records, aborted messages, messages of open "
        "transactions, and messages that compaction removed."
    ),
]


_DeadLetters = Annotated[
    str, Meta(description="Where its dead letters are, once there are any; its own name if it is a dead-letter topic.")
]


class TopicResponse(Struct):
    name: str
    partitions: int
    total_messages: int
    total_size_bytes: int
    partition_offsets: dict[str, PartitionOffsetsJson]
    created_at: str
    config: TopicSettings
    faults: Annotated[dict[str, str], Meta(description="Partitions that accept no messages, and why.")]
    other_records: _OtherRecords
    dlq_topic: _DeadLetters
    etag: Annotated[
        str, Meta(description="Stands for its settings: a PATCH with it in the header `If-Match` changes no others.")
    ]


_Here = Annotated[int | None, Meta(description="Of the replica of the node that answers; null if it has none.")]
_Node = int | str


class PartitionJson(Struct, kw_only=True):
    partition: int
    earliest: _Here
    latest: _Here
    log_end: _Here
    durable_end: _Here
    high_watermark: _Here
    last_stable: _Here
    size_bytes: _Here
    segments: _Here
    leader: Annotated[
        _Node | None, Meta(description="The id of a node, null if there is none now; 0 if the broker runs alone.")
    ]
    replicas: Annotated[list[_Node], Meta(description="In a cluster, the preferred leader first.")]
    in_sync_replicas: list[_Node]
    leader_epoch: Annotated[int, Meta(description="Grows with each change of the leader.")] = 0
    min_isr: Annotated[int, Meta(description="How many replicas in sync a publish with acks=all needs.")] = 1
    local: Annotated[bool, Meta(description="Whether the node that answers has a replica.")] = True
    fault: Annotated[str | None, Meta(description="Why it accepts no messages, if it does not.")] = None


class CompactedPartitionJson(Struct):
    partition: int
    size_before: int
    size_after: int
    messages_removed: int


class CompactTopicResponse(Struct):
    success: bool
    topic_name: str
    partitions: list[CompactedPartitionJson]


class PartitionsResponse(Struct):
    partitions: list[PartitionJson]


class OffsetAtTimeQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    time: Time
    replica: Replica = "leader"


class OffsetAtTimeResponse(Struct):
    partition: int
    offset: int


async def create(call: ApiCall) -> CreateTopicResponse:
    settings = _given(call.body)
    call.access.require("create", "topic", settings["name"])
    check_dead_letter_topic(call, settings)
    _check_validation(settings)
    is_auto = settings.pop("auto")
    if is_auto and not call.app.auto_create:
        call.runtime.broker.topic(settings["name"])
    spec = new_topic(call.app, settings.pop("name"), settings.pop("num_partitions", None), settings)
    operation = None
    if is_auto:  # because of a publish
        topic = await call.runtime.create_topic(spec)
    else:
        operation, topic = await call.runtime.decide(call.runtime.broker.changes.create_topic(author_of(call), spec))
    return CreateTopicResponse(topic.name, len(topic.partitions), True, operation)


def new_topic(app: ApiContext, name: str, partitions: int | None, settings: dict[str, Any]) -> TopicSpec:
    """Return the new topic, with the configured defaults."""
    return TopicSpec(
        name=name,
        partitions=partitions or app.default_partitions,
        settings=TopicSettings(**{**app.default_settings, **settings}),
    )


def _check_validation(given: dict[str, Any], before: TopicSettings | None = None) -> None:
    """Refuse settings that need packages which are not installed: every publish would be refused."""
    for part in ("value", "key"):
        names = (f"{part}_validation", f"{part}_subject")
        how, naming = (given.get(name, getattr(before or TopicSettings(), name)) for name in names)
        if not given.keys().isdisjoint(names) and (how == "payload" or (how == "id" and naming != "topic")):
            refuse_unless_all_installed(f"{names[0]} {quoted(how)} with {names[1]} {quoted(naming)}")


def _given(body: Struct) -> dict[str, Any]:
    return {name: plain(value) for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}


async def describe(call: ApiCall) -> TopicResponse:
    return await _described(call, _topic(call))


def _topic(call: ApiCall) -> Topic:
    name = call.parameters["topic"]
    if call.app.cluster is not None:
        call.app.cluster.topics.refuse_namesake(name)
    return call.runtime.broker.topic(name)


async def messages_in(call: ApiCall, topic: Topic) -> int:
    """Count the messages of a topic; its offsets, if a log of it cannot be read."""
    try:
        count: int = await call.runtime.perform(count_messages(topic))
    except GoQueueError:
        return topic.offset_count
    return count


async def _described(call: ApiCall, topic: Topic) -> TopicResponse:
    messages = await messages_in(call, topic)
    return TopicResponse(
        topic.name,
        len(topic.partitions),
        messages,
        topic.size,
        {str(one.number): PartitionOffsetsJson(one.earliest, one.high_watermark) for one in topic.partitions},
        format_time(topic.created_ns),
        topic.settings,
        {str(one.number): fault.sentence for one in topic.partitions if (fault := fault_of(one.log)) is not None},
        topic.offset_count - messages,
        call.runtime.broker.groups.policies.dead_letter_topic(topic.name),
        settings_tag(topic.created_ns, topic.settings),
    )


class AlterTopicResponse(TopicResponse):
    operation: OperationId


async def alter(call: ApiCall) -> AlterTopicResponse:
    changes, name, given = call.runtime.broker.changes, call.parameters["topic"], _given(call.body)
    check_dead_letter_topic(call, given)
    _check_validation(given, call.runtime.broker.topic(name).settings)
    expected = call.request.headers.get("if-match", "").strip('" ')
    work = changes.alter_topic(author_of(call), name, given, expected="" if expected == "*" else expected)
    operation, topic = await call.runtime.decide(work)
    described = msgspec.structs.asdict(await _described(call, topic))
    return AlterTopicResponse(**described, operation=operation)


async def delete(call: ApiCall) -> DeleteTopicResponse:
    name = call.parameters["topic"]
    operation, pending = await call.runtime.delete_topic(author_of(call), name)
    return DeleteTopicResponse(True, name, pending, operation)


async def compact(call: ApiCall) -> CompactTopicResponse:
    """Compact a topic. Answers when it is done, which may take long."""
    name = call.parameters["topic"]
    if call.app.usage is not None:  # only what is counted can be removed
        await call.app.usage.settle()
    done = await call.runtime.compact_topic(name)
    rows = [
        CompactedPartitionJson(number, one.size_before, one.size_after, one.messages_removed)
        for number, one in enumerate(done)
    ]
    return CompactTopicResponse(True, name, rows)


async def list_partitions(call: ApiCall) -> PartitionsResponse:
    topic = _topic(call)
    return PartitionsResponse([_partition(one) for one in topic.partitions])


def _partition(one: Partition) -> PartitionJson:
    leadership = one.leadership
    described = PartitionJson(
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
        fault=None if (fault := fault_of(one.log)) is None else fault.sentence,
    )
    if leadership is None:
        return described
    described.leader, described.leader_epoch = leadership.leader or None, leadership.leader_epoch
    described.replicas, described.in_sync_replicas = list(leadership.replicas), list(leadership.isr)
    described.min_isr, described.local = leadership.min_isr, leadership.has_replica
    if not described.local:
        described.earliest = described.latest = described.log_end = described.durable_end = None
        described.high_watermark = described.last_stable = described.size_bytes = described.segments = None
    return described


async def offset_at_time(call: ApiCall, query: OffsetAtTimeQuery) -> OffsetAtTimeResponse:
    partition = call.runtime.broker.topic(call.parameters["topic"]).partition(call.partition)
    check = replica_check(partition, query.replica)
    check()
    offset = await call.runtime.perform(partition.offset_for_time(int(query.time)))
    check()
    return OffsetAtTimeResponse(partition.number, offset)


_encode = msgspec.json.encode
_Rate = Annotated[
    float | None, Meta(description="Over the last seconds; null for topics that are not counted by name.")
]


class TopicListQuery(Struct, forbid_unknown_fields=True):
    internal: Annotated[bool, Meta(description="Include internal topics.")] = False
    details: Annotated[bool, Meta(description="Include a row of details for each.")] = False


class TopicSummaryJson(Struct, kw_only=True):
    name: str
    partitions: int
    total_messages: int
    other_records: _OtherRecords
    total_size_bytes: int
    created_at: str
    config: TopicSettings
    dlq_topic: _DeadLetters
    published_per_second: _Rate
    bytes_per_second: _Rate
    read_per_second: _Rate
    faults: Annotated[int, Meta(description="Partitions that accept no messages.")]
    held_back: Annotated[int, Meta(description="Offsets that readers cannot see because of open transactions.")]


class TopicListResponse(Struct, omit_defaults=True):
    topics: list[str]
    details: Annotated[list[TopicSummaryJson] | None, Meta(description="Only if requested.")] = None


async def list_topics(call: ApiCall, query: TopicListQuery) -> TopicListResponse | HttpResponse:
    topics = call.runtime.broker.topics
    names = sorted(name for name in topics if query.internal or not is_internal(name))
    names = call.access.described("topic", names)
    return HttpResponse(200, await _detailed(call, names)) if query.details else TopicListResponse(names)


async def _detailed(call: ApiCall, names: list[str]) -> bytes:
    slices, rows, topics = TimeSlices(), list[bytes](), call.runtime.broker.topics
    named = call.runtime.broker.groups.policies.dead_letter_topics()
    for name in names:
        if (topic := topics.get(name)) is not None:  # it may have been deleted meanwhile
            rows.append(_encode(await _row(call, topic, named)))
        await slices.rest()
    return b"".join((b'{"topics":', _encode(names), b',"details":[', b",".join(rows), b"]}"))


async def _row(call: ApiCall, topic: Topic, named: Collection[str]) -> TopicSummaryJson:
    messages = await messages_in(call, topic)
    rates = call.app.history.topic_rates(topic.name)
    if rates is None and call.app.metrics.names_all_topics:
        rates = TopicRates()  # nothing has come yet
    return TopicSummaryJson(
        name=topic.name,
        partitions=len(topic.partitions),
        total_messages=messages,
        other_records=topic.offset_count - messages,
        total_size_bytes=topic.size,
        created_at=format_time(topic.created_ns),
        config=topic.settings,
        dlq_topic=call.runtime.broker.groups.policies.dead_letter_topic(topic.name, named=named),
        published_per_second=rates.published if rates else None,
        bytes_per_second=rates.published_bytes if rates else None,
        read_per_second=rates.read if rates else None,
        faults=sum(fault_of(partition.log) is not None for partition in topic.partitions),
        held_back=sum(partition.held_back for partition in topic.partitions),
    )
