"""What a partition still has for somebody who has settled a part of it: how many messages, and how old the first is.

Where every offset holds a message, which is the rule, the offsets tell how many there are. Of a segment that was
compacted, or holds control records, or turned out to be damaged, a census is taken, and kept with the segment.

What must stay true: where there are messages, the first of them has a time. So damage that is not known of yet counts
as messages until it becomes the first of what is left; then its segment is counted.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import attrgetter, itemgetter

from goqueue.broker.partition import Partition
from goqueue.broker.view import View
from goqueue.broker.work import Work
from goqueue.errors import OffsetOutOfRange
from goqueue.storage import frame
from goqueue.storage.aborted import Edges, as_edges, difference
from goqueue.storage.census import Census, Span, Tally
from goqueue.storage.compaction import load_progress
from goqueue.storage.log import Log
from goqueue.storage.segment import Segment

_base_offset = attrgetter("base_offset")
_start, _stop = itemgetter(0), itemgetter(1)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is left to read."""

    messages: int
    oldest_ns: int | None
    """When the first of them was appended; None where there is none."""


def backlog(view: View, first: int, settled: Iterable[Span]) -> Work[Backlog]:
    """The messages from `first` on that are not in `settled`, whose ranges are in order and do not overlap.

    What retention has removed, control records, and what these readers never see are no messages. Needs no job where
    nothing but the memory of the partition is asked.
    """
    spans = _left(max(first, view.earliest), view.end, settled)
    if not spans:
        return Backlog(0, None)
    tally = yield from _tally(view, spans, is_dated=True)
    return Backlog(tally.messages, tally.first_ns)


def count_between(view: View, first: int, end: int) -> Work[int]:
    """The messages from `first` up to, not including, `end`."""
    first, end = max(first, view.earliest), min(end, view.end)
    if first >= end:
        return 0
    tally = yield from _tally(view, [(first, end)], is_dated=False)
    return tally.messages


def _left(first: int, end: int, settled: Iterable[Span]) -> list[Span]:
    """What lies between the settled ranges."""
    spans: list[Span] = []
    for start, stop in settled:
        if start >= end:
            break
        if start > first:
            spans.append((first, start))
        first = max(first, stop)
    if first < end:
        spans.append((first, end))
    return spans


def _tally(view: View, spans: Sequence[Span], *, is_dated: bool) -> Work[Tally]:
    """Segment by segment, each looked up when its turn comes: while a job runs, they may be replaced."""
    log = view.partition.log
    tally, offset = Tally(0, None), 0
    while (place := _next_place(view, spans, offset)) is not None:
        offset, end = place
        number, stop = _part(log, offset, end)
        segment = log.segments[number]
        here = _within(spans, offset, stop)
        try:
            if segment.is_dense is None:
                yield from _look_up(view.partition, segment)
                continue
            needs_time = is_dated and not tally.messages
            if not segment.is_dense:
                hidden = yield from view.hidden_in(here)
                if segment not in log.segments[number : number + 1]:  # it was replaced meanwhile
                    continue
                found = yield from _count(log, number, here, hidden, is_dated=needs_time)
            elif needs_time:
                time_ns = yield from time_of(view, offset)
                if time_ns is None:
                    segment.is_dense = False
                    continue
                found = Tally(_length(here), time_ns)
            else:
                found = Tally(_length(here), None)
        except OffsetOutOfRange:  # the file is gone, and the log has heard of it or will
            offset = max(offset + 1, _end_of(log, offset))
            continue
        tally = Tally(tally.messages + found.messages, found.first_ns if not tally.messages else tally.first_ns)
        offset = stop
    return tally


def _next_place(view: View, spans: Sequence[Span], offset: int) -> Span | None:
    """The first offset from this one on that is in a span and in the log, and where the last span or the log ends."""
    offset = max(offset, view.earliest)
    number = bisect_right(spans, offset, key=_stop)
    if number == len(spans):
        return None
    offset, end = max(offset, spans[number][0]), min(spans[-1][1], view.end)
    return (offset, end) if offset < end else None


def _length(spans: Iterable[Span]) -> int:
    return sum(stop - start for start, stop in spans)


def _within(spans: Sequence[Span], offset: int, stop: int) -> list[Span]:
    """The parts of these spans from an offset on; one of them is there."""
    chosen = list(spans[bisect_right(spans, offset, key=_stop) : bisect_left(spans, stop, key=_start)])
    chosen[0] = (max(offset, chosen[0][0]), chosen[0][1])
    chosen[-1] = (chosen[-1][0], min(stop, chosen[-1][1]))
    return chosen


def _look_up(partition: Partition, segment: Segment) -> Work[None]:
    """Learn from which offset on no compaction has been, and whether there is anything of transactions in a segment."""
    log = partition.log
    unknown = [one for one in log.segments if one.is_dense is None]
    progress = yield partial(load_progress, log.disk, log.directory)
    for one in unknown:
        if one.is_dense is None and one.base_offset < progress.gaps:
            one.is_dense = False
    if segment.is_dense is None:
        yield from partition.aborted.examine(segment)
        segment.is_dense = segment.is_dense is None


def _number(log: Log, offset: int) -> int:
    return bisect_right(log.segments, offset, key=_base_offset) - 1


def _end_of(log: Log, offset: int) -> int:
    """Where the segment of this offset ends; where the log begins if that is behind it."""
    number = _number(log, offset) + 1
    return log.segments[number].base_offset if number < len(log.segments) else log.next_offset


def _part(log: Log, offset: int, end: int) -> Span:
    """The number of the segment with this offset, and where it ends; of dense ones as many as follow each other."""
    number = _number(log, offset)
    behind = islice(log.segments, number + 1, None)
    is_dense = log.segments[number].is_dense
    stop = next((one.base_offset for one in behind if not (is_dense and one.is_dense)), end)
    return number, min(stop, end)


def time_of(view: View, offset: int) -> Work[int | None]:
    """The time of the message with this offset, if there is one."""
    read = yield from view.read(offset, 1, skip_damage=True)
    for buffer in read.buffers[:1]:
        if frame.offset_at(buffer) == offset and not buffer[frame.AT_FLAGS] & frame.CONTROL:
            return frame.timestamp_at(buffer)
    return None


def _count(log: Log, number: int, spans: list[Span], hidden: Edges, *, is_dated: bool) -> Work[Tally]:
    """What a segment holds in these spans, by its census, without what is hidden of them."""
    segment = log.segments[number]
    end, next_offset = log.bounds(number)
    census = segment.census or Census(segment.base_offset)
    is_whole = len(spans) == 1 and spans[0][0] <= segment.base_offset and spans[0][1] >= next_offset
    if census.end >= end and not len(hidden) and (is_whole or not census.messages):
        return census.whole()
    reader = log.reader(segment)  # the same for all jobs: another file may get its name
    while census.end < end:
        census = yield partial(census.extended, reader.file, end, next_offset, reader.index)
        if segment.census is None or segment.census.end < census.end:  # somebody else may have come further
            segment.census = census
    if len(hidden) and (is_dated or not census.is_sound):
        visible = difference(as_edges(spans), hidden)
        return (yield partial(census.tally, reader.file, visible)) if len(visible) else Tally(0, None)
    is_all = is_whole and census.end == end
    tally: Tally = census.whole() if is_all else (yield partial(census.tally, reader.file, spans))
    return Tally(tally.messages - int((hidden[:, 1] - hidden[:, 0]).sum()), tally.first_ns)
