"""Reading by offset and by time: JSON for people, frames for the SDK."""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import islice
from typing import Annotated, Literal, NamedTuple

import msgspec

from goqueue.api.answering import answer_on_thread, on_thread
from goqueue.api.call import Call
from goqueue.api.filtering import Filters, headers_of, sieve_of
from goqueue.api.frames import is_brief, starts
from goqueue.api.http.message import Response
from goqueue.api.lane_reading import POSITIONS_PATTERN, LaneWish, by_priority
from goqueue.api.openapi import FRAMES
from goqueue.api.scalars import Duration, Time
from goqueue.api.sections import CHECKSUM_HEADER, checksum_of
from goqueue.api.text import Message, shown
from goqueue.api.unpacking import UnpackBudget
from goqueue.broker.filters.search import Search, Wish
from goqueue.broker.partition import Partition
from goqueue.broker.topic import Topic
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
from goqueue.storage import frame
from goqueue.storage.extent import Read

_MERGED_BYTES = 4 * MIB
"""Read for an answer that merges all partitions, of each its part but not less than this:"""
_MERGED_BYTES_EACH = 8 * KIB
_TAKEN_AT_ONCE = 2_000
"""Frames of a partition that are looked at on the loop; more on a thread."""


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
            with call.app.unpacked.budget() as budget:
                messages, heads = await by_priority(call, View(partition, query.isolation), wish, budget)
                call.app.metrics.topic(partition.topic).messages_read += len(messages)
                return await answer_on_thread(partial(Messages, messages, min(heads), ",".join(map(str, heads))))
        found, search = await _find(call, partition, offset, query, as_frames=as_frames)
    except LogClosed:
        call.runtime.broker.topic(partition.topic)  # where it was deleted meanwhile, that is what to say
        raise
    _count(call, partition, found, search)
    if as_frames:
        return _as_frames(partition, found, search)
    with call.app.unpacked.budget() as budget:
        if _is_brief(found, search):
            return _messages(found, query, budget, search)
        return await answer_on_thread(partial(_messages, found, query, budget, search))


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


def _messages(found: Read, query: ReadQuery, budget: UnpackBudget, search: Search | None) -> Messages:
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
            if not budget.has_room_for(message):
                return Messages(messages, message.offset)
            content = budget.content_of(message)
            size += len(content or b"")
            if messages and size > query.max_bytes:
                return Messages(messages, message.offset)
            messages.append(shown(message, content))
    return Messages(messages, found.next_offset, msgspec.UNSET, *counts)


def _is_too_late(time_ns: int, query: TopicReadQuery) -> bool:
    return query.to_time is not None and time_ns > query.to_time


class _Entry(NamedTuple):
    """A message that may be in the answer, which is not unpacked yet. Entries are in the order of the answer."""

    time_ns: int
    partition: int
    offset: int
    buffer: memoryview
    position: int


@dataclass(frozen=True, slots=True)
class _Part:
    """The first messages of one partition."""

    partition: Partition
    start: int
    entries: list[_Entry]
    next_offset: int
    horizon_ns: int | None
    """Of what was appended later, more may follow; None where it does not."""
    scanned: int = 0


async def read_topic(call: Call) -> TopicMessages | Response:
    """Messages of all partitions, in the order of their times."""
    query: TopicReadQuery = call.query
    _check_times(query)
    topic = call.runtime.broker.topic(call.parameters["topic"])
    try:
        parts = await _parts(call, topic, query)
    except LogClosed:
        call.runtime.broker.topic(topic.name)
        raise
    entries = list(islice(merge(*(part.entries for part in parts)), query.limit))
    horizon_ns = min((part.horizon_ns for part in parts if part.horizon_ns is not None), default=None)
    if horizon_ns is not None:  # what was not read yet may belong before what comes later than this
        entries = [entry for entry in entries if entry.time_ns <= horizon_ns]
    with call.app.unpacked.budget() as budget:
        make = partial(_merged, parts, entries, budget, is_filtered=bool(query.filter))
        views = (entry.buffer[entry.position :][: frame.measure(entry.buffer, entry.position)] for entry in entries)
        return make() if is_brief(len(entries), views) else await answer_on_thread(make)


async def _parts(call: Call, topic: Topic, query: TopicReadQuery) -> list[_Part]:
    """What each partition has to offer. All of them together look at no more than one partition alone might."""
    max_bytes = max(_MERGED_BYTES_EACH, _MERGED_BYTES // len(topic.partitions))
    scan_bytes = max(_MERGED_BYTES_EACH, FILTER_SCAN_BYTES // len(topic.partitions))
    wish = _wish(query, max_bytes, query.limit, scan_bytes) if query.filter else None
    parts, left = list[_Part](), FILTER_SCAN_BYTES
    for partition in topic.partitions:
        start = partition.earliest
        if query.from_time is not None:
            start = await call.runtime.perform(partition.offset_for_time(int(query.from_time)))
        if wish is None:
            found, search = await _read_part(call, partition, start, query, max_bytes), None
        elif left > 0:
            search = await call.runtime.search(Search(partition, start, wish, call.runtime.clock))
            found, left = search.found, left - search.bytes
        else:
            parts.append(await _unsearched(call, partition, start, query))
            continue
        _count(call, partition, found, search)
        given = (partition, start, found, query, search)
        parts.append(_part(*given) if _most(found, search) <= _TAKEN_AT_ONCE else await on_thread(_part, *given))
    return parts


async def _read_part(call: Call, partition: Partition, start: int, query: TopicReadQuery, max_bytes: int) -> Read:
    view = View(partition, query.isolation)
    return await call.runtime.read(view, start, max_bytes, skip_damage=query.skip_damage)


async def _unsearched(call: Call, partition: Partition, start: int, query: TopicReadQuery) -> _Part:
    """A partition that filters did not look at: nothing that came as late as its first message can be told."""
    found = await _read_part(call, partition, start, query, 1)
    first_ns = frame.timestamp_at(found.buffers[0]) if found.buffers else None
    return _Part(partition, start, [], start, None if first_ns is None else first_ns - 1)


def _part(partition: Partition, start: int, found: Read, query: TopicReadQuery, search: Search | None) -> _Part:
    entries, next_offset, is_too_late = _entries(partition.number, found, query)
    horizon_ns = None
    if next_offset < View(partition, query.isolation).end and len(entries) < query.limit:
        if search is not None:
            horizon_ns = None if search.is_past_end else search.last_ns
        elif entries and not is_too_late:
            horizon_ns = entries[-1].time_ns
    return _Part(partition, start, entries, next_offset, horizon_ns, search.scanned if search is not None else 0)


def _entries(partition: int, found: Read, query: TopicReadQuery) -> tuple[list[_Entry], int, bool]:
    """The messages among these frames, where the next ones are, and whether those are too late."""
    entries = list[_Entry]()
    for buffer in found.buffers:
        for position in starts(buffer):
            offset, time_ns = frame.offset_at(buffer, position), frame.timestamp_at(buffer, position)
            is_too_late = _is_too_late(time_ns, query)
            if len(entries) == query.limit or is_too_late:
                return entries, offset, is_too_late
            if not buffer[position + frame.AT_FLAGS] & frame.CONTROL:
                entries.append(_Entry(time_ns, partition, offset, buffer, position))
    return entries, found.next_offset, False


def _merged(parts: list[_Part], entries: list[_Entry], budget: UnpackBudget, *, is_filtered: bool) -> TopicMessages:
    messages = list[Message]()
    for entry in entries:
        message = frame.decode(entry.buffer, entry.position)
        if not budget.has_room_for(message):
            break
        messages.append(shown(message, budget.content_of(message), entry.partition))
    last = {entry.partition: entry.offset for entry in entries[: len(messages)]}
    counts = Counter(entry.partition for entry in entries[: len(messages)])
    answer = TopicMessages(messages, {})
    for part in parts:  # where the next read of each partition goes on
        number = part.partition.number
        is_all = counts[number] == len(part.entries)
        answer.next_offsets[str(number)] = part.next_offset if is_all else last.get(number, part.start - 1) + 1
    if is_filtered:
        answer.scanned, answer.matched = sum(part.scanned for part in parts), len(messages)
    return answer
