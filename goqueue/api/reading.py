"""Reads by offset and by time, as JSON or as frames."""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import accumulate, islice
from typing import Annotated, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType

from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import Duration, Filters, Time, filter_set
from goqueue.api.handed_out import HandedOut, count_messages, first_messages, handing_out
from goqueue.api.http.message import HttpResponse
from goqueue.api.lane_reading import POSITIONS_PATTERN, PriorityReadOptions, by_priority
from goqueue.api.message_json import (
    DecompressionBudget,
    MessageJson,
    checksum_of,
    frame_positions,
    is_small,
    message_json,
    respond_on_thread,
    run_on_thread,
)
from goqueue.api.problems import invalid
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import Topic
from goqueue.broker.core.view import Isolation, PartitionView
from goqueue.broker.filters.search import Search, SearchOptions
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
from goqueue.storage.reads import ReadResult
from goqueue.wire.headers import (
    CHECKSUM,
    FIRST_OFFSET,
    FRAMES,
    HIGH_WATERMARK,
    LAST_STABLE,
    MATCHED,
    NEXT_OFFSET,
    PARTITIONS,
    QUOTA,
    SCANNED,
)

_MERGED_BYTES = 4 * MIB
"""Bytes that a merged read of all partitions reads in total; at least the next limit of each."""
_MERGED_BYTES_EACH = 8 * KIB
_TAKEN_AT_ONCE = 2_000
"""More frames of a partition are inspected on a thread."""


class Wait(Duration, most=WAIT_SECONDS_MAX):
    noun = "a time to wait"


Limit = Annotated[int, Meta(ge=1, le=READ_MESSAGES_MAX, description="Maximum number of messages in a JSON answer.")]
AsIsolation = Annotated[
    Isolation, Meta(description="With read_uncommitted, messages of open and aborted transactions are included.")
]


class TopicReadQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    limit: Limit = READ_MESSAGES
    from_time: Time | None = None
    to_time: Time | None = None
    isolation: AsIsolation = "read_committed"
    skip_damage: Annotated[bool, Meta(description="Skip damaged ranges instead of failing.")] = False
    filter: Filters = []


class ReadQuery(TopicReadQuery, forbid_unknown_fields=True, kw_only=True):
    offset: Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="First offset. Default: the earliest.")] | None = None
    max_bytes: Annotated[
        int,
        Meta(
            ge=1,
            le=READ_BYTES_MAX,
            description="Of frames, and in JSON of decompressed values. At least one message is returned.",
        ),
    ] = READ_BYTES
    wait: Wait | None = None
    order: Annotated[
        Literal["offset", "priority"],
        Meta(description="With priority, by weighted share, the most urgent first, as groups receive them."),
    ] = "offset"
    positions: Annotated[
        Annotated[str, Meta(pattern=POSITIONS_PATTERN)] | None,
        Meta(description="With order=priority: next_positions of the previous answer."),
    ] = None


_Scanned = Annotated[int, Meta(description="Number of messages that the filters examined.")] | UnsetType
_Matched = Annotated[int, Meta(description="Number of them in the answer.")] | UnsetType


class ReadResponse(Struct):
    messages: list[MessageJson]
    next_offset: int
    next_positions: (
        Annotated[str, Meta(description="With order=priority: the next offset of each, from critical to background.")]
        | UnsetType
    ) = UNSET
    scanned: _Scanned = UNSET
    matched: _Matched = UNSET


class TopicReadResponse(Struct):
    messages: list[MessageJson]
    next_offsets: dict[str, int]
    scanned: _Scanned = UNSET
    matched: _Matched = UNSET


async def read(call: ApiCall, query: ReadQuery) -> ReadResponse | HttpResponse:
    _check_times(query)
    topic = call.runtime.broker.topic(call.parameters["topic"])
    partition = topic.partition(call.partition)
    as_frames = FRAMES in call.request.headers.get("accept", "")
    _check_order(query, as_frames=as_frames)
    try:
        offset = await _start(call, partition, query)
        if query.order == "priority":
            wait = 0.0 if query.wait is None else float(query.wait)
            options = PriorityReadOptions(
                offset, query.positions, query.limit, query.max_bytes, wait, query.skip_damage
            )
            with call.app.decompressed.budget() as budget, handing_out(call, partition, 0, 0) as handed:
                view = PartitionView(partition, query.isolation)
                messages, heads, handed.size = await by_priority(call, view, options, budget)
                handed.messages = len(messages)
                return await respond_on_thread(partial(ReadResponse, messages, min(heads), ",".join(map(str, heads))))
        found, search = await _find(call, partition, offset, query, as_frames=as_frames)
    except LogClosed:
        call.runtime.broker.topic(partition.topic)  # where it was deleted meanwhile, that is what to say
        raise
    if search is None:  # another request may have taken what was allowed when this one began to wait
        found = _allowed(call, found, None if as_frames else query.limit)
    size = (0, 0) if call.meter is None else count_messages(found)
    with handing_out(call, partition, *size) as handed:
        if as_frames:
            handed.messages, handed.size = (_most(found, search), found.size) if call.meter is None else size
            return _as_frames(topic, partition, found, search, _delay(call))
        with call.app.decompressed.budget() as budget:
            make = partial(_messages, found, query, budget, search, handed)
            return make() if _is_small(found, search) else await respond_on_thread(make)


def _allowed(call: ApiCall, found: ReadResult, limit: int | None) -> ReadResult:
    """Return as much as the quotas of the tenant allow now."""
    if call.meter is None or not call.meter.limits_consume:
        return found
    return first_messages(found, *call.meter.consumable(limit or OFFSET_MAX, found.size))


def _check_order(query: ReadQuery, *, as_frames: bool) -> None:
    """Refuse parameters that cannot be combined with the order."""
    if query.order == "offset":
        wrong = [("positions", "needs order=priority")] if query.positions is not None else []
    else:
        given = {"filter": bool(query.filter), "to_time": query.to_time is not None}
        wrong = [(name, "cannot be combined with order=priority") for name, is_given in given.items() if is_given]
        wrong += [("order", "is priority, and frames are returned in the order of their offsets")] if as_frames else []
    if wrong:
        problems = [{"place": place, "problem": problem} for place, problem in wrong]
        raise RequestInvalid(f"{wrong[0][0]} {wrong[0][1]}", hint="leave one of the two out", problems=problems)


async def _find(
    call: ApiCall, partition: Partition, offset: int, query: ReadQuery, *, as_frames: bool
) -> tuple[ReadResult, Search | None]:
    """Read messages; with filters, search for them."""
    wait = 0.0 if query.wait is None else float(query.wait)
    if not query.filter:
        view = PartitionView(partition, query.isolation)
        return await call.runtime.read(view, offset, query.max_bytes, wait=wait, skip_damage=query.skip_damage), None
    limit = call.messages_max if as_frames else query.limit
    options = _options(query, query.max_bytes, limit, counts_values=not as_frames)
    search = await call.runtime.search(Search(partition, offset, options, call.runtime.clock), wait=wait)
    return search.found, search


def _options(
    query: TopicReadQuery,
    max_bytes: int,
    limit: int | None,
    scan_bytes: int = FILTER_SCAN_BYTES,
    *,
    counts_values: bool = True,
) -> SearchOptions:
    """Return the options of a search. In JSON, values count with their decompressed bytes."""
    return SearchOptions(
        sieve=filter_set(query.filter),
        max_bytes=max_bytes,
        limit=limit,
        counts_values=counts_values,
        until_ns=None if query.to_time is None else int(query.to_time),
        scan_bytes=scan_bytes,
        skip_damage=query.skip_damage,
        isolation=query.isolation,
    )


def _check_times(query: TopicReadQuery) -> None:
    if query.from_time is not None and query.to_time is not None and query.from_time > query.to_time:
        raise invalid("from_time", f"is {query.from_time}, later than to_time, {query.to_time}")


async def _start(call: ApiCall, partition: Partition, query: ReadQuery) -> int:
    """Return the first offset: the later one of an offset and a time."""
    offset = partition.earliest if query.offset is None else query.offset
    if query.from_time is None:
        return offset
    return max(offset, await call.runtime.perform(partition.offset_for_time(int(query.from_time))))


def _most(found: ReadResult, search: Search | None) -> int:
    """Return the number of messages; without filters, gaps are counted too."""
    if search is not None:
        return search.matched
    return found.next_offset - frame.offset_at(found.buffers[0]) if found.buffers else 0


def _delay(call: ApiCall) -> tuple[tuple[str, str], ...]:
    """Return the header about a quota that delays the next read, if there is one."""
    delay = None if call.meter is None else call.meter.next_delay()
    return () if delay is None else ((QUOTA, f"{delay[0]} {delay[1]:.3f}"),)


def _as_frames(
    topic: Topic, partition: Partition, found: ReadResult, search: Search | None, more: tuple[tuple[str, str], ...]
) -> HttpResponse:
    headers = (
        (NEXT_OFFSET, str(found.next_offset)),
        (HIGH_WATERMARK, str(partition.high_watermark)),
        (LAST_STABLE, str(partition.last_stable)),
        (FIRST_OFFSET, str(partition.earliest)),
        (PARTITIONS, str(len(topic.partitions))),
        (CHECKSUM, checksum_of(found.buffers)),
        *more,
    )
    return HttpResponse(
        200,
        found.buffers,
        FRAMES,
        headers if search is None else (*headers, (SCANNED, str(search.scanned)), (MATCHED, str(search.matched))),
    )


def _is_small(found: ReadResult, search: Search | None) -> bool:
    return is_small(_most(found, search), found.buffers)


def _messages(
    found: ReadResult, query: ReadQuery, budget: DecompressionBudget, search: Search | None, handed: HandedOut
) -> ReadResponse:
    """Convert frames, up to the limits of messages and of decompressed bytes.

    A search has kept to all bounds already.
    """
    messages: list[MessageJson] = []
    counts = (UNSET, UNSET) if search is None else (search.scanned, search.matched)
    size = 0
    for buffer in found.buffers:
        for position in frame_positions(buffer):
            message = frame.decode(buffer, position)
            if len(messages) == query.limit or _is_too_late(message.timestamp_ns, query):
                return ReadResponse(messages, message.offset)
            if message.flags & frame.CONTROL:
                continue
            if not budget.has_room_for(message):
                return ReadResponse(messages, message.offset)
            content = budget.decompress(message)
            size += len(content or b"")
            if messages and size > query.max_bytes:
                return ReadResponse(messages, message.offset)
            messages.append(message_json(message, content))
            handed.add(frame.measure(buffer, position))
    return ReadResponse(messages, found.next_offset, UNSET, *counts)


def _is_too_late(time_ns: int, query: TopicReadQuery) -> bool:
    return query.to_time is not None and time_ns > query.to_time


class _MergeEntry(NamedTuple):
    """A message that may be in the answer, not decompressed yet. Sorts in the order of the answer."""

    time_ns: int
    partition: int
    offset: int
    buffer: memoryview
    position: int


@dataclass(frozen=True, slots=True)
class _PartitionRead:
    partition: Partition
    start: int
    entries: list[_MergeEntry]
    next_offset: int
    horizon_ns: int | None
    """More messages may follow after this append time; None if not."""
    scanned: int = 0


async def read_topic(call: ApiCall, query: TopicReadQuery) -> TopicReadResponse | HttpResponse:
    """Read messages of all partitions in time order."""
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
    sizes = [frame.measure(entry.buffer, entry.position) for entry in entries]
    if call.meter is not None and call.meter.limits_consume:
        allowed, size = call.meter.consumable(len(entries), sum(sizes))
        room = sum(total <= size for total in accumulate(sizes))
        entries = entries[: min(allowed, max(1, room))]
        sizes = sizes[: len(entries)]
    held = handing_out(call, topic.partition(0), len(entries), sum(sizes))
    with held as handed, call.app.decompressed.budget() as budget:
        make = partial(_merged, parts, entries, budget, handed, is_filtered=bool(query.filter))
        views = (entry.buffer[entry.position :][:size] for entry, size in zip(entries, sizes, strict=True))
        return make() if is_small(len(entries), views) else await respond_on_thread(make)


async def _parts(call: ApiCall, topic: Topic, query: TopicReadQuery) -> list[_PartitionRead]:
    """Read the first messages of each partition; filters scan no more bytes in total than in one partition."""
    max_bytes = max(_MERGED_BYTES_EACH, _MERGED_BYTES // len(topic.partitions))
    scan_bytes = max(_MERGED_BYTES_EACH, FILTER_SCAN_BYTES // len(topic.partitions))
    options = _options(query, max_bytes, query.limit, scan_bytes) if query.filter else None
    parts, left = list[_PartitionRead](), FILTER_SCAN_BYTES
    for partition in topic.partitions:
        start = partition.earliest
        if query.from_time is not None:
            start = await call.runtime.perform(partition.offset_for_time(int(query.from_time)))
        if options is None:
            found, search = await _read_part(call, partition, start, query, max_bytes), None
        elif left > 0:
            search = await call.runtime.search(Search(partition, start, options, call.runtime.clock))
            found, left = search.found, left - search.bytes
        else:
            parts.append(await _unsearched(call, partition, start, query))
            continue
        given = (partition, start, found, query, search)
        parts.append(_part(*given) if _most(found, search) <= _TAKEN_AT_ONCE else await run_on_thread(_part, *given))
    return parts


async def _read_part(
    call: ApiCall, partition: Partition, start: int, query: TopicReadQuery, max_bytes: int
) -> ReadResult:
    view = PartitionView(partition, query.isolation)
    return await call.runtime.read(view, start, max_bytes, skip_damage=query.skip_damage)


async def _unsearched(call: ApiCall, partition: Partition, start: int, query: TopicReadQuery) -> _PartitionRead:
    """Return a partition that filters did not scan: messages after its first one cannot be ordered yet."""
    found = await _read_part(call, partition, start, query, 1)
    first_ns = frame.timestamp_at(found.buffers[0]) if found.buffers else None
    return _PartitionRead(partition, start, [], start, None if first_ns is None else first_ns - 1)


def _part(
    partition: Partition, start: int, found: ReadResult, query: TopicReadQuery, search: Search | None
) -> _PartitionRead:
    entries, next_offset, is_too_late = _entries(partition.number, found, query)
    horizon_ns = None
    if next_offset < PartitionView(partition, query.isolation).end and len(entries) < query.limit:
        if search is not None:
            horizon_ns = None if search.is_past_end else search.last_ns
        elif entries and not is_too_late:
            horizon_ns = entries[-1].time_ns
    return _PartitionRead(
        partition, start, entries, next_offset, horizon_ns, search.scanned if search is not None else 0
    )


def _entries(partition: int, found: ReadResult, query: TopicReadQuery) -> tuple[list[_MergeEntry], int, bool]:
    """Return the messages among frames, the next offset, and whether that is after `to_time`."""
    entries = list[_MergeEntry]()
    for buffer in found.buffers:
        for position in frame_positions(buffer):
            offset, time_ns = frame.offset_at(buffer, position), frame.timestamp_at(buffer, position)
            is_too_late = _is_too_late(time_ns, query)
            if len(entries) == query.limit or is_too_late:
                return entries, offset, is_too_late
            if not buffer[position + frame.AT_FLAGS] & frame.CONTROL:
                entries.append(_MergeEntry(time_ns, partition, offset, buffer, position))
    return entries, found.next_offset, False


def _merged(
    parts: list[_PartitionRead],
    entries: list[_MergeEntry],
    budget: DecompressionBudget,
    handed: HandedOut,
    *,
    is_filtered: bool,
) -> TopicReadResponse:
    messages = list[MessageJson]()
    for entry in entries:
        message = frame.decode(entry.buffer, entry.position)
        if not budget.has_room_for(message):
            break
        messages.append(message_json(message, budget.decompress(message), entry.partition))
        handed.add(frame.measure(entry.buffer, entry.position))
    last = {entry.partition: entry.offset for entry in entries[: len(messages)]}
    counts = Counter(entry.partition for entry in entries[: len(messages)])
    answer = TopicReadResponse(messages, {})
    for part in parts:  # where the next read of each partition goes on
        number = part.partition.number
        is_all = counts[number] == len(part.entries)
        answer.next_offsets[str(number)] = part.next_offset if is_all else last.get(number, part.start - 1) + 1
    if is_filtered:
        answer.scanned, answer.matched = sum(part.scanned for part in parts), len(messages)
    return answer
