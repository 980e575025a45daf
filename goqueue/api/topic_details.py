"""The list of topics, and with `details` a row for each: one request, however many there are.

The rows are made and encoded a slice at a time, and everybody else is served in between.
"""

from typing import Annotated

import msgspec

from goqueue.api.call import Call
from goqueue.api.http.message import Response
from goqueue.broker.name import is_internal
from goqueue.broker.topic import Topic, TopicSettings
from goqueue.observe.history import TopicRates
from goqueue.quantities import format_time
from goqueue.runtime.slices import Slices

_AT_ONCE = 32  # topics: with a thousand partitions each, still some ten milliseconds
_encode = msgspec.json.encode
_Rate = Annotated[
    float | None,
    msgspec.Meta(description="Over the last seconds; null of a topic beyond those that are counted by name."),
]


class ListQuery(msgspec.Struct, forbid_unknown_fields=True):
    internal: Annotated[bool, msgspec.Meta(description="Whether internal topics are listed too.")] = False
    details: Annotated[bool, msgspec.Meta(description="With a row of numbers for each.")] = False


class TopicRow(msgspec.Struct, kw_only=True):
    name: str
    partitions: int
    total_messages: int
    total_size_bytes: int
    created_at: str
    config: TopicSettings
    published_per_second: _Rate
    bytes_per_second: _Rate
    read_per_second: _Rate
    faults: Annotated[int, msgspec.Meta(description="Partitions that take no messages.")]
    held_back: Annotated[int, msgspec.Meta(description="Offsets that readers do not see behind open transactions.")]


class TopicNames(msgspec.Struct, omit_defaults=True):
    topics: list[str]
    details: Annotated[list[TopicRow] | None, msgspec.Meta(description="Where they were asked for.")] = None


async def list_topics(call: Call) -> TopicNames | Response:
    topics = call.runtime.broker.topics
    names = sorted(name for name in topics if call.query.internal or not is_internal(name))
    return Response(200, await _detailed(call, names)) if call.query.details else TopicNames(names)


async def _detailed(call: Call, names: list[str]) -> bytes:
    slices, rows = Slices(), [b""][:0]
    for start in range(0, len(names), _AT_ONCE):
        rows += [_encode(_row(call, topic)) for topic in _standing(call, names[start : start + _AT_ONCE])]
        await slices.rest()
    return b"".join((b'{"topics":', _encode(names), b',"details":[', b",".join(rows), b"]}"))


def _standing(call: Call, names: list[str]) -> list[Topic]:
    """Some may have been deleted since the list was made."""
    topics = call.runtime.broker.topics
    return [topics[name] for name in names if name in topics]


def _row(call: Call, topic: Topic) -> TopicRow:
    rates = call.app.history.topic_rates(topic.name)
    if rates is None and call.app.metrics.names_all_topics:
        rates = TopicRates()  # nothing has come yet
    return TopicRow(
        name=topic.name,
        partitions=len(topic.partitions),
        total_messages=topic.message_count,
        total_size_bytes=topic.size,
        created_at=format_time(topic.created_ns),
        config=topic.settings,
        published_per_second=rates.published if rates else None,
        bytes_per_second=rates.published_bytes if rates else None,
        read_per_second=rates.read if rates else None,
        faults=sum(partition.log.fence is not None for partition in topic.partitions),
        held_back=sum(partition.held_back for partition in topic.partitions),
    )
