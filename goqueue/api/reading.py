"""Reading by offset and by time: JSON for people, frames for the SDK."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from goqueue.api.call import Call
from goqueue.api.filtering import Filters, headers_of, sieve_of
from goqueue.api.frames import is_brief, starts
from goqueue.api.http.message import Response
from goqueue.api.lane_reading import POSITIONS_PATTERN, LaneWish, by_priority
from goqueue.api.openapi import FRAMES
from goqueue.api.scalars import Duration, Time
from goqueue.api.sections import CHECKSUM_HEADER, checksum_of
from goqueue.api.text import Message, content_of, shown
from goqueue.broker.filters.search import Search, Wish
from goqueue.broker.partition import Partition
from goqueue.broker.view import Isolation, View
from goqueue.errors import LogClosed, RequestInvalid
from goqueue.limits import (
    FILTER_SCAN_BYTES,
    KIB,
    MIB,
    OFFSET_MAX,
    READ_BYTES,
    READ_BYTES_MAX,
    READ_MESSAGES,
    READ_MESSAGES_MAX,
    WAIT_SECONDS_MAX,
)
from goqueue.quantities import format_time
from goqueue.storage import frame
from goqueue.storage.extent import Read

T = TypeVar("T")

_MERGED_BYTES = 4 * MIB
"""Read for an answer that merges all partitions, of each its part but not less than this:"""
_MERGED_BYTES_EACH = 8 * KIB


class Wait(Duration, most=WAIT_SECONDS_MAX):
    noun = "a time to wait"


Limit = Annotated[int, msgspec.Meta(ge=1, le=READ_MESSAGES_MAX, description="The most messages in a JSON answer.")]
AsIsolation = Annotated[
    Isolation,
    msgspec.Meta(description="With read_uncommitted, messages of open and of aborted transactions are seen as well."),
]


class TopicReadQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    limit: Limit = READ_MESSAGES
    from_time: Time | None = None
    to_time: Time | None = None
    isolation: AsIsolation = "read_committed"
    skip_damage: Annotated[bool, msgspec.Meta(description="Pass over damaged ranges instead of refusing.")] = False
    filter: Filters = []


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
    order: Annotated[
        Literal["offset", "priority"],
        msgspec.Meta(description="With priority, of each its share and the most urgent first, as groups are handed."),
    ] = "offset"
    positions: Annotated[
        Annotated[str, msgspec.Meta(pattern=POSITIONS_PATTERN)] | None,
        msgspec.Meta(description="With order=priority: next_positions of the answer before, to go on from there."),
    ] = None


_Scanned = Annotated[int, msgspec.Meta(description="How many messages the filters looked at.")] | msgspec.UnsetType
_Matched = Annotated[int, msgspec.Meta(description="How many of them are in the answer.")] | msgspec.UnsetType


class Messages(msgspec.Struct):
    messages: list[Message]
    next_offset: int
    next_positions: (
        Annotated[
            str, msgspec.Meta(description="With order=priority: where each goes on, from critical to background.")
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    scanned: _Scanned = msgspec.UNSET
    matched: _Matched = msgspec.UNSET


class TopicMessages(msgspec.Struct):
    messages: list[Message]
    next_offsets: dict[str, int]
    scanned: _Scanned = msgspec.UNSET
    matched: _Matched = msgspec.UNSET


async def read(call: Call) -> Messages | Response:
    """Messages of one partition."""
    query: ReadQuery = call.query
    _check_times(query)
    partition = call.runtime.broker.topic(call.parameters["topic"]).partition(call.partition)
    as_frames = FRAMES in call.request.headers.get("accept", "")
    _check_order(query, as_frames=as_frames)
    try:
        offset = await _start(call, partition, query)
        if query.order == "priority":
            wait = 0.0 if query.wait is None else float(query.wait)
            wish = LaneWish(offset, query.positions, query.limit, query.max_bytes, wait, query.skip_damage)
            messages, heads = await by_priority(call, View(partition, query.isolation), wish)
            call.app.metrics.topic(partition.topic).messages_read += len(messages)
            return Messages(messages, min(heads), ",".join(map(str, heads)))
        found, search = await _find(call, partition, offset, query, as_frames=as_frames)
    except LogClosed:
        call.runtime.broker.topic(partition.topic)  # where it was deleted meanwhile, that is what to say
        raise
    _count(call, partition, found, search)
    if as_frames:
        return _as_frames(partition, found, search)
    if _is_brief(found, search):
        return _messages(found, query, query.max_bytes, search=search)
    return Response(200, await _on_a_thread(_encoded, found, query, search))


def _check_order(query: ReadQuery, *, as_frames: bool) -> None:
    """What does not go with an order by priority, and what goes with no other."""
    if query.order == "offset":
        wrong = [("positions", "goes with order=priority")] if query.positions is not None else []
    else:
        given = {"filter": bool(query.filter), "to_time": query.to_time is not None}
        wrong = [(name, "does not go with order=priority") for name, is_given in given.items() if is_given]
        wrong += [("order", "is priority, and frames come in the order of their offsets")] if as_frames else []
    if wrong:
        problems = [{"place": place, "problem": problem} for place, problem in wrong]
        raise RequestInvalid(f"{wrong[0][0]} {wrong[0][1]}", hint="leave one of the two out", problems=problems)


async def _find(
    call: Call, partition: Partition, offset: int, query: ReadQuery, *, as_frames: bool
) -> tuple[Read, Search | None]:
    """What is asked for, and how it was looked for where there are filters."""
    wait = 0.0 if query.wait is None else float(query.wait)
    if not query.filter:
        view = View(partition, query.isolation)
        return await call.runtime.read(view, offset, query.max_bytes, wait=wait, skip_damage=query.skip_damage), None
    wish = _wish(query, query.max_bytes, limit=None if as_frames else query.limit)
    search = await call.runtime.search(Search(partition, offset, wish, call.runtime.clock), wait=wait)
    return search.found, search


def _wish(query: TopicReadQuery, max_bytes: int, limit: int | None, scan_bytes: int = FILTER_SCAN_BYTES) -> Wish:
    """For JSON, which has a limit, values count as they are shown."""
    return Wish(
        sieve=sieve_of(query.filter),
        max_bytes=max_bytes,
        limit=limit,
        counts_values=limit is not None,
        until_ns=None if query.to_time is None else int(query.to_time),
        scan_bytes=scan_bytes,
        skip_damage=query.skip_damage,
        isolation=query.isolation,
    )


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


def _count(call: Call, partition: Partition, found: Read, search: Search | None) -> None:
    if partition.log.is_closed:  # deleted meanwhile: its numbers are gone, and must not come back
        return
    counts = call.app.metrics.topic(partition.topic)
    counts.bytes_read += found.size
    counts.messages_read += _most(found, search)


def _most(found: Read, search: Search | None) -> int:
    """How many messages there are; without filters more, where there are gaps."""
    if search is not None:
        return search.matched
    return found.next_offset - frame.offset_at(found.buffers[0]) if found.buffers else 0


def _as_frames(partition: Partition, found: Read, search: Search | None) -> Response:
    headers = (
        ("x-goqueue-next-offset", str(found.next_offset)),
        ("x-goqueue-high-watermark", str(partition.high_watermark)),
        ("x-goqueue-last-stable", str(partition.last_stable)),
        ("x-goqueue-first-offset", str(partition.earliest)),
        (CHECKSUM_HEADER, checksum_of(found.buffers)),
    )
    return Response(200, found.buffers, FRAMES, headers if search is None else headers + headers_of(search))


def _is_brief(found: Read, search: Search | None) -> bool:
    return is_brief(_most(found, search), found.buffers)


async def _on_a_thread(job: Callable[..., T], *given: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, job, *given)


def _encoded(found: Read, query: ReadQuery, search: Search | None) -> bytes:
    return msgspec.json.encode(_messages(found, query, query.max_bytes, search=search))


def _messages(
    found: Read,
    query: TopicReadQuery,
    max_bytes: int,
    partition: int | None = None,
    search: Search | None = None,
) -> Messages:
    """The messages among these frames. Unpacked values are bounded as well, since a small frame may hold much.

    A search has kept to all bounds already.
    """
    messages: list[Message] = []
    counts = (msgspec.UNSET, msgspec.UNSET) if search is None else (search.scanned, search.matched)
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
    return Messages(messages, found.next_offset, msgspec.UNSET, *counts)


def _is_too_late(time_ns: int, query: TopicReadQuery) -> bool:
    return query.to_time is not None and time_ns > query.to_time


@dataclass(frozen=True, slots=True)
class _Part:
    """The first messages of one partition."""

    partition: Partition
    start: int
    messages: Messages
    horizon: str | None
    """Of what was appended later, more may follow; None where it does not."""


async def read_topic(call: Call) -> TopicMessages:
    """Messages of all partitions, in the order of their times."""
    query: TopicReadQuery = call.query
    _check_times(query)
    topic = call.runtime.broker.topic(call.parameters["topic"])
    max_bytes = max(_MERGED_BYTES_EACH, _MERGED_BYTES // len(topic.partitions))
    scan_bytes = max(_MERGED_BYTES_EACH, FILTER_SCAN_BYTES // len(topic.partitions))
    wish = _wish(query, max_bytes, query.limit, scan_bytes) if query.filter else None
    try:
        parts = [await _part(call, partition, query, max_bytes, wish) for partition in topic.partitions]
    except LogClosed:
        call.runtime.broker.topic(topic.name)
        raise
    chosen = _earliest([part.messages for part in parts], query.limit)
    horizon = min((part.horizon for part in parts if part.horizon is not None), default=None)
    if horizon is not None:  # what was not read yet may belong before what comes later than this
        chosen = [message for message in chosen if message.timestamp <= horizon]
    answer = TopicMessages(chosen, {str(part.partition.number): _next(part, chosen) for part in parts})
    if wish is not None:
        answer.scanned, answer.matched = sum(part.messages.scanned or 0 for part in parts), len(chosen)
    return answer


async def _part(call: Call, partition: Partition, query: TopicReadQuery, max_bytes: int, wish: Wish | None) -> _Part:
    start, view = partition.earliest, View(partition, query.isolation)
    if query.from_time is not None:
        start = await call.runtime.perform(partition.offset_for_time(int(query.from_time)))
    if wish is None:
        search = None
        found = await call.runtime.read(view, start, max_bytes, skip_damage=query.skip_damage)
    else:
        search = await call.runtime.search(Search(partition, start, wish, call.runtime.clock))
        found = search.found
    _count(call, partition, found, search)
    given = (found, query, max_bytes, partition.number, search)
    part = _messages(*given) if _is_brief(found, search) else await _on_a_thread(_messages, *given)
    return _Part(partition, start, part, _horizon(view, part, found, query, search))


def _horizon(view: View, part: Messages, found: Read, query: TopicReadQuery, search: Search | None) -> str | None:
    if part.next_offset >= view.end or len(part.messages) == query.limit:
        return None
    if search is not None:
        return None if search.is_past_end or search.last_ns is None else format_time(search.last_ns)
    return part.messages[-1].timestamp if part.messages and not _is_all(part, found, query) else None


def _is_all(part: Messages, found: Read, query: TopicReadQuery) -> bool:
    """Whether a part ends because what follows is too late, and not because no more was read."""
    following = (
        frame.timestamp_at(buffer, position)
        for buffer in found.buffers
        for position in starts(buffer)
        if frame.offset_at(buffer, position) == part.next_offset
    )
    return any(_is_too_late(time_ns, query) for time_ns in following)


def _earliest(parts: Iterable[Messages], limit: int) -> list[Message]:
    found = merge(*(part.messages for part in parts), key=attrgetter("timestamp", "partition", "offset"))
    return list(islice(found, limit))


def _next(part: _Part, chosen: list[Message]) -> int:
    """Where the next read of this partition goes on."""
    taken = [message.offset for message in chosen if message.partition == part.partition.number]
    if len(taken) == len(part.messages.messages):
        return part.messages.next_offset
    return taken[-1] + 1 if taken else part.start
