"""Reading by offset and by time: JSON for people, frames for the SDK."""

import asyncio
from collections.abc import Callable
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from goqueue.api.call import Call
from goqueue.api.frames import is_brief, starts
from goqueue.api.http.message import Response
from goqueue.api.openapi import FRAMES
from goqueue.api.scalars import Duration, Time
from goqueue.api.sections import CHECKSUM_HEADER, checksum_of
from goqueue.api.text import Message, content_of, shown
from goqueue.broker.partition import Partition
from goqueue.errors import LogClosed, RequestInvalid
from goqueue.limits import (
    KIB,
    MIB,
    OFFSET_MAX,
    READ_BYTES,
    READ_BYTES_MAX,
    READ_MESSAGES,
    READ_MESSAGES_MAX,
    WAIT_SECONDS_MAX,
)
from goqueue.storage import frame
from goqueue.storage.extent import Read

T = TypeVar("T")

_MERGED_BYTES = 4 * MIB
"""Read for an answer that merges all partitions, of each its part but not less than this:"""
_MERGED_BYTES_EACH = 8 * KIB


class Wait(Duration, most=WAIT_SECONDS_MAX):
    noun = "a time to wait"


Limit = Annotated[int, msgspec.Meta(ge=1, le=READ_MESSAGES_MAX, description="The most messages in a JSON answer.")]
Isolation = Annotated[
    Literal["read_committed", "read_uncommitted"],
    msgspec.Meta(description="Whether messages of open transactions are seen."),
]


class TopicReadQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    limit: Limit = READ_MESSAGES
    from_time: Time | None = None
    to_time: Time | None = None
    isolation: Isolation = "read_committed"
    skip_damage: Annotated[bool, msgspec.Meta(description="Pass over damaged ranges instead of refusing.")] = False


class ReadQuery(TopicReadQuery, forbid_unknown_fields=True, kw_only=True):
    offset: (
        Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX, description="Where to begin; else at the earliest.")] | None
    ) = None
    max_bytes: Annotated[
        int,
        msgspec.Meta(
            ge=1, le=READ_BYTES_MAX, description="Of frames, and in JSON of unpacked values; one is given always."
        ),
    ] = READ_BYTES
    wait: Wait | None = None


class Messages(msgspec.Struct):
    messages: list[Message]
    next_offset: int


class TopicMessages(msgspec.Struct):
    messages: list[Message]
    next_offsets: dict[str, int]


async def read(call: Call) -> Messages | Response:
    """Messages of one partition."""
    query: ReadQuery = call.query
    _check_times(query)
    partition = call.runtime.broker.topic(call.parameters["topic"]).partition(call.partition)
    wait = 0.0 if query.wait is None else float(query.wait)
    try:
        offset = await _start(call, partition, query)
        found = await call.runtime.read(partition, offset, query.max_bytes, wait=wait, skip_damage=query.skip_damage)
    except LogClosed:
        call.runtime.broker.topic(partition.topic)  # where it was deleted meanwhile, that is what to say
        raise
    _count(call, partition, found)
    if FRAMES in call.request.headers.get("accept", ""):
        return _as_frames(partition, found)
    if _is_brief(found):
        return _messages(found, query, query.max_bytes)
    return Response(200, await _on_a_thread(_encoded, found, query))


def _check_times(query: TopicReadQuery) -> None:
    if query.from_time is not None and query.to_time is not None and query.from_time > query.to_time:
        problem = {"place": "from_time", "problem": f"is {query.from_time}, later than to_time, {query.to_time}"}
        raise RequestInvalid(f"from_time {problem['problem']}", problems=[problem])


async def _start(call: Call, partition: Partition, query: ReadQuery) -> int:
    """Where to begin: an offset and a time together mean the later of the two."""
    offset = partition.earliest if query.offset is None else query.offset
    if query.from_time is None:
        return offset
    return max(offset, await call.runtime.perform(partition.offset_for_time(int(query.from_time))))


def _count(call: Call, partition: Partition, found: Read) -> None:
    if partition.log.is_closed:  # deleted meanwhile: its numbers are gone, and must not come back
        return
    counts = call.app.metrics.topic(partition.topic)
    counts.bytes_read += found.size
    if found.buffers:
        counts.messages_read += found.next_offset - frame.offset_at(found.buffers[0])


def _as_frames(partition: Partition, found: Read) -> Response:
    headers = (
        ("x-goqueue-next-offset", str(found.next_offset)),
        ("x-goqueue-high-watermark", str(partition.high_watermark)),
        ("x-goqueue-first-offset", str(partition.earliest)),
        (CHECKSUM_HEADER, checksum_of(found.buffers)),
    )
    return Response(200, found.buffers, FRAMES, headers)


def _is_brief(found: Read) -> bool:
    count = found.next_offset - frame.offset_at(found.buffers[0]) if found.buffers else 0
    return is_brief(count, found.buffers)


async def _on_a_thread(job: Callable[..., T], *given: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, job, *given)


def _encoded(found: Read, query: ReadQuery) -> bytes:
    return msgspec.json.encode(_messages(found, query, query.max_bytes))


def _messages(found: Read, query: TopicReadQuery, max_bytes: int, partition: int | None = None) -> Messages:
    """The messages among these frames. Unpacked values are bounded as well, since a small frame may hold much."""
    messages: list[Message] = []
    size = 0
    for buffer in found.buffers:
        for position in starts(buffer):
            message = frame.decode(buffer, position)
            if len(messages) == query.limit or _is_too_late(message.timestamp_ns, query):
                return Messages(messages, message.offset)
            if message.flags & frame.CONTROL:
                continue
            content = content_of(message)
            size += len(content or b"")
            if messages and size > max_bytes:
                return Messages(messages, message.offset)
            messages.append(shown(message, content, partition))
    return Messages(messages, found.next_offset)


def _is_too_late(time_ns: int, query: TopicReadQuery) -> bool:
    return query.to_time is not None and time_ns > query.to_time


async def read_topic(call: Call) -> TopicMessages:
    """Messages of all partitions, in the order of their times."""
    query: TopicReadQuery = call.query
    _check_times(query)
    topic = call.runtime.broker.topic(call.parameters["topic"])
    max_bytes = max(_MERGED_BYTES_EACH, _MERGED_BYTES // len(topic.partitions))
    try:
        parts = [await _part(call, partition, query, max_bytes) for partition in topic.partitions]
    except LogClosed:
        call.runtime.broker.topic(topic.name)
        raise
    chosen = _earliest([part for _, _, part, _ in parts if part.messages], query.limit)
    horizon = min((part.messages[-1].timestamp for _, _, part, is_cut in parts if is_cut), default=None)
    if horizon is not None:  # what was not read yet may belong before what comes later than this
        chosen = [message for message in chosen if message.timestamp <= horizon]
    return TopicMessages(chosen, {str(one.number): _next(one, start, part, chosen) for one, start, part, _ in parts})


async def _part(
    call: Call, partition: Partition, query: TopicReadQuery, max_bytes: int
) -> tuple[Partition, int, Messages, bool]:
    """The first messages of one partition, from where on, and whether more of that time may follow them."""
    start = partition.earliest
    if query.from_time is not None:
        start = await call.runtime.perform(partition.offset_for_time(int(query.from_time)))
    found = await call.runtime.read(partition, start, max_bytes, skip_damage=query.skip_damage)
    _count(call, partition, found)
    given = (found, query, max_bytes, partition.number)
    part = _messages(*given) if _is_brief(found) else await _on_a_thread(_messages, *given)
    is_cut = bool(part.messages) and part.next_offset < partition.last_stable and not _is_all(part, found, query)
    return partition, start, part, is_cut


def _is_all(part: Messages, found: Read, query: TopicReadQuery) -> bool:
    """Whether a part ends because no more was asked for, and not because no more was read."""
    if len(part.messages) == query.limit:
        return True
    following = (
        frame.timestamp_at(buffer, position)
        for buffer in found.buffers
        for position in starts(buffer)
        if frame.offset_at(buffer, position) == part.next_offset
    )
    return any(_is_too_late(time_ns, query) for time_ns in following)


def _earliest(parts: list[Messages], limit: int) -> list[Message]:
    found = merge(*(part.messages for part in parts), key=attrgetter("timestamp", "partition", "offset"))
    return list(islice(found, limit))


def _next(partition: Partition, start: int, part: Messages, chosen: list[Message]) -> int:
    """Where the next read of this partition goes on."""
    taken = [message.offset for message in chosen if message.partition == partition.number]
    if len(taken) == len(part.messages):
        return part.next_offset
    return taken[-1] + 1 if taken else start
