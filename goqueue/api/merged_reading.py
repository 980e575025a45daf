"""Reads of all partitions of a topic, merged by time, for people.

In a cluster they are answered by the replicas of this node, whichever node leads them.
"""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import accumulate, islice
from typing import NamedTuple

from goqueue.api.endpoint import ApiCall
from goqueue.api.handed_out import HandedOut, handing_out
from goqueue.api.http.message import HttpResponse
from goqueue.api.message_json import (
    DecompressionBudget,
    MessageJson,
    frame_positions,
    is_small,
    message_json,
    respond_on_thread,
    run_on_thread,
)
from goqueue.api.reading import (
    TopicReadQuery,
    TopicReadResponse,
    check_times,
    is_too_late,
    most_messages,
    search_options,
)
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import Topic
from goqueue.broker.core.view import PartitionView
from goqueue.broker.filters.search import Search
from goqueue.errors import LogClosed
from goqueue.limits import FILTER_SCAN_BYTES, KIB, MIB
from goqueue.storage import frame
from goqueue.storage.reads import ReadResult

_MERGED_BYTES = 4 * MIB
"""Bytes that a merged read of all partitions reads in total; at least the next limit of each."""
_MERGED_BYTES_EACH = 8 * KIB
_TAKEN_AT_ONCE = 2_000
"""More frames of a partition are inspected on a thread."""


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
    check_times(query)
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
    options = search_options(query, max_bytes, query.limit, scan_bytes) if query.filter else None
    parts, left = list[_PartitionRead](), FILTER_SCAN_BYTES
    for partition in topic.partitions:
        start = partition.earliest
        if query.from_time is not None:
            start = await call.runtime.perform(partition.offset_for_time(int(query.from_time)))
        if options is None:
            found, search = await _read_part(call, partition, start, query, max_bytes), None
        elif left > 0:
            search = await call.runtime.reader.search(Search(partition, start, options, call.runtime.clock))
            found, left = search.found, left - search.bytes
        else:
            parts.append(await _unsearched(call, partition, start, query))
            continue
        given = (partition, start, found, query, search)
        parts.append(
            _part(*given) if most_messages(found, search) <= _TAKEN_AT_ONCE else await run_on_thread(_part, *given)
        )
    return parts


async def _read_part(
    call: ApiCall, partition: Partition, start: int, query: TopicReadQuery, max_bytes: int
) -> ReadResult:
    view = PartitionView(partition, query.isolation)
    return await call.runtime.reader.read(view, start, max_bytes, skip_damage=query.skip_damage)


async def _unsearched(call: ApiCall, partition: Partition, start: int, query: TopicReadQuery) -> _PartitionRead:
    """Return a partition that filters did not scan: messages after its first one cannot be ordered yet."""
    found = await _read_part(call, partition, start, query, 1)
    first_ns = frame.timestamp_at(found.buffers[0]) if found.buffers else None
    return _PartitionRead(partition, start, [], start, None if first_ns is None else first_ns - 1)


def _part(
    partition: Partition, start: int, found: ReadResult, query: TopicReadQuery, search: Search | None
) -> _PartitionRead:
    entries, next_offset, is_late = _entries(partition.number, found, query)
    horizon_ns = None
    if next_offset < PartitionView(partition, query.isolation).end and len(entries) < query.limit:
        if search is not None:
            horizon_ns = None if search.is_past_end else search.last_ns
        elif entries and not is_late:
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
            is_late = is_too_late(time_ns, query)
            if len(entries) == query.limit or is_late:
                return entries, offset, is_late
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
