"""Reads by offset and by time, as JSON or as frames."""

from functools import partial
from typing import Annotated, Literal

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
)
from goqueue.api.problems import invalid
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import Topic
from goqueue.broker.core.view import Isolation, PartitionView
from goqueue.broker.filters.search import Search, SearchOptions
from goqueue.errors import LogClosed, RequestInvalid
from goqueue.limits import (
    FILTER_SCAN_BYTES,
    OFFSET_MAX,
    READ_BYTES,
    READ_BYTES_MAX,
    READ_MESSAGES,
    READ_MESSAGES_MAX,
    WAIT_SECONDS_MAX,
)
from goqueue.runtime.partition_reader import Check, no_check
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


Replica = Annotated[
    Literal["leader", "any"],
    Meta(description="In a cluster, any: a node that does not lead the partition answers up to what it knows."),
]


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
    at_least: Annotated[
        Annotated[int, Meta(ge=0, le=OFFSET_MAX)] | None,
        Meta(description="Answer once the high watermark is at least this: the next offset of a publish or a read."),
    ] = None
    replica: Replica = "leader"
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
    check_times(query)
    topic = call.runtime.broker.topic(call.parameters["topic"])
    partition = topic.partition(call.partition)
    as_frames = FRAMES in call.request.headers.get("accept", "")
    _check_order(query, as_frames=as_frames)
    check = replica_check(partition, query.replica)
    try:
        check()
        wait = 0.0 if query.wait is None else float(query.wait)
        if end := _least_end(partition, query):
            wait = await call.runtime.reader.reach(partition, end, wait, check)
        offset = await _start(call, partition, query)
        if query.order == "priority":
            options = PriorityReadOptions(
                offset, query.positions, query.limit, query.max_bytes, wait, query.skip_damage
            )
            with call.app.decompressed.budget() as budget, handing_out(call, partition, 0, 0) as handed:
                view = PartitionView(partition, query.isolation)
                messages, heads, handed.size = await by_priority(call, view, options, budget, check)
                handed.messages = len(messages)
                return await respond_on_thread(partial(ReadResponse, messages, min(heads), ",".join(map(str, heads))))
        found, search = await _find(call, partition, offset, query, wait, check, as_frames=as_frames)
    except LogClosed:
        call.runtime.broker.topic(partition.topic)  # where it was deleted meanwhile, that is what to say
        raise
    if search is None:  # another request may have taken what was allowed when this one began to wait
        found = _allowed(call, found, None if as_frames else query.limit)
    size = (0, 0) if call.meter is None else count_messages(found)
    with handing_out(call, partition, *size) as handed:
        if as_frames:
            handed.messages, handed.size = (most_messages(found, search), found.size) if call.meter is None else size
            return _as_frames(topic, partition, found, search, _delay(call))
        with call.app.decompressed.budget() as budget:
            make = partial(_messages, found, query, budget, search, handed)
            return make() if _is_small(found, search) else await respond_on_thread(make)


def replica_check(partition: Partition, replica: str) -> Check:
    """Return the check that raises when this node may not answer a read."""
    leadership = partition.leadership
    if leadership is None:
        return no_check
    return leadership.refuse_unless_replica if replica == "any" else leadership.refuse_unless_leader


def _least_end(partition: Partition, query: ReadQuery) -> int:
    """Return how far this replica must have come before it answers.

    What lies above the high watermark of a follower, of a leader that has just begun, or of one that does not know of
    a later one, may be committed all the same.
    """
    leadership = partition.leadership
    if leadership is None or leadership.shows_end:
        return query.at_least or 0
    return max(query.at_least or 0, query.offset or 0)


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
    call: ApiCall, partition: Partition, offset: int, query: ReadQuery, wait: float, check: Check, *, as_frames: bool
) -> tuple[ReadResult, Search | None]:
    """Read messages; with filters, search for them."""
    reader, skip = call.runtime.reader, query.skip_damage
    if not query.filter:
        view = PartitionView(partition, query.isolation)
        return await reader.read(view, offset, query.max_bytes, wait=wait, skip_damage=skip, check=check), None
    limit = call.messages_max if as_frames else query.limit
    options = search_options(query, query.max_bytes, limit, counts_values=not as_frames)
    search = await reader.search(Search(partition, offset, options, call.runtime.clock), wait=wait, check=check)
    return search.found, search


def search_options(
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


def check_times(query: TopicReadQuery) -> None:
    if query.from_time is not None and query.to_time is not None and query.from_time > query.to_time:
        raise invalid("from_time", f"is {query.from_time}, later than to_time, {query.to_time}")


async def _start(call: ApiCall, partition: Partition, query: ReadQuery) -> int:
    """Return the first offset: the later one of an offset and a time."""
    offset = partition.earliest if query.offset is None else query.offset
    if query.from_time is None:
        return offset
    return max(offset, await call.runtime.perform(partition.offset_for_time(int(query.from_time))))


def most_messages(found: ReadResult, search: Search | None) -> int:
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
    return is_small(most_messages(found, search), found.buffers)


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
            if len(messages) == query.limit or is_too_late(message.timestamp_ns, query):
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


def is_too_late(time_ns: int, query: TopicReadQuery) -> bool:
    return query.to_time is not None and time_ns > query.to_time
