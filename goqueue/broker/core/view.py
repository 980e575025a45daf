"""A partition as its readers see it, committed messages only or all, and its backlog.

A backlog is a number of messages, and the age of the first one. Normally every offset holds a message and the offsets
give the count. A segment that was compacted, is damaged or holds control records is counted once, and the count is kept
with the segment.

Invariant: where there are messages, the first of them has a time. Damage that has not been found yet counts as
messages until it becomes the first of what is left; then its segment is counted.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Literal

from goqueue.broker.core.aborted_index import has_message
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.remote_partition import RemotePartition
from goqueue.broker.core.topic import Topic
from goqueue.broker.core.work import Work
from goqueue.errors import OffsetOutOfRange
from goqueue.limits import OFFSET_MAX
from goqueue.storage import frame
from goqueue.storage.compaction_progress import load_progress
from goqueue.storage.log import Log
from goqueue.storage.reads import ReadResult
from goqueue.storage.segment import MessageCount, MessageCounts, OffsetSpan, Segment
from goqueue.storage.segment_scan import Damage
from goqueue.storage.transaction_index import NONE_ABORTED, Edges, as_edges, difference, intersection
from goqueue.storage.transaction_marker import OffsetRange

_base_offset = attrgetter("base_offset")
_start, _stop = itemgetter(0), itemgetter(1)

Isolation = Literal["read_committed", "read_uncommitted"]


class PartitionView:
    """One partition for one isolation level."""

    __slots__ = ("is_committed", "partition")

    def __init__(self, partition: Partition, isolation: Isolation = "read_committed") -> None:
        self.partition = partition
        self.is_committed = isolation == "read_committed"

    @property
    def earliest(self) -> int:
        return self.partition.earliest

    @property
    def end(self) -> int:
        return self.partition.last_stable if self.is_committed else self.partition.high_watermark

    def read(self, offset: int, max_bytes: int, *, skip_damage: bool = False) -> Work[ReadResult]:
        """Read whole frames with at least one message; none only at the end."""
        if self.is_committed:
            return (yield from self.partition.read(offset, max_bytes, skip_damage=skip_damage))
        skipped: tuple[Damage, ...] = ()
        while True:
            read = yield from self.partition.read_uncommitted(offset, max_bytes, skip_damage=skip_damage)
            skipped += read.skipped
            if not read.buffers or any(map(has_message, read.buffers)):
                return ReadResult(read.buffers, read.next_offset, skipped)
            offset = read.next_offset

    def seen_from(self, offset: int) -> Work[int]:
        """Return this offset, or the first one after the hidden messages that begin here."""
        end = self.end
        while self.is_committed and offset < end:
            known = yield from self.partition.aborted.at(offset, offset + 1)
            if (following := known.behind(offset)) == offset:
                break
            offset = following
        return offset

    def roughly_hidden(self, first: int, end: int) -> int:
        """Count hidden messages of a range as far as memory knows."""
        return self.partition.aborted.roughly(first, end) if self.is_committed else 0

    def count_in_lane(self, lane: int, first: int, end: int) -> Work[int]:
        """Count the visible messages of a lane in a range; control records count too."""
        lanes = self.partition.lanes
        count = yield from lanes.count(lane, first, end, OFFSET_MAX)
        if count and self.is_committed:
            count -= yield from lanes.count_in(lane, (yield from self.partition.aborted.edges(first, end)))
        return count

    def hidden_in(self, spans: Sequence[OffsetRange]) -> Work[Edges]:
        """Return the hidden ranges within sorted spans of one segment."""
        if not self.is_committed:
            return NONE_ABORTED.edges
        known = yield from self.partition.aborted.at(spans[0][0], spans[-1][1])
        return intersection(as_edges(spans), known.edges)

    def __repr__(self) -> str:
        return f"<View of {self.partition} up to {self.end}>"


# --- backlog ---


@dataclass(frozen=True, slots=True)
class Backlog:
    """Messages that are left to read."""

    messages: int
    oldest_ns: int | None
    """Append time of the first one; None if there is none."""


def measure_backlog(view: PartitionView, first: int, settled: Iterable[OffsetSpan]) -> Work[Backlog]:
    """Count the messages from `first` on that are not in `settled`, whose ranges are sorted and disjoint.

    Leaves out messages that retention has removed, control records, and messages that these readers never see. Runs
    no job where memory has the answer.
    """
    spans = _left(max(first, view.earliest), view.end, settled)
    if not spans:
        return Backlog(0, None)
    tally = yield from tally_spans(view, spans, is_dated=True)
    return Backlog(tally.messages, tally.first_ns)


def count_between(view: PartitionView, first: int, end: int) -> Work[int]:
    first, end = max(first, view.earliest), min(end, view.end)
    if first >= end:
        return 0
    tally = yield from tally_spans(view, [(first, end)], is_dated=False)
    return tally.messages


def count_messages(topic: Topic) -> Work[int]:
    """Count the messages that readers see: without control records, aborted messages and those that were removed.

    In a cluster, in the partitions that have a replica here.
    """
    total = 0
    for partition in topic.partitions:
        if isinstance(partition, RemotePartition):
            continue
        total += yield from count_between(PartitionView(partition), partition.earliest, partition.last_stable)
    return total


def _left(first: int, end: int, settled: Iterable[OffsetSpan]) -> list[OffsetSpan]:
    spans: list[OffsetSpan] = []
    for start, stop in settled:
        if start >= end:
            break
        if start > first:
            spans.append((first, start))
        first = max(first, stop)
    if first < end:
        spans.append((first, end))
    return spans


def tally_spans(view: PartitionView, spans: Sequence[OffsetSpan], *, is_dated: bool) -> Work[MessageCount]:
    """Count segment by segment. Segments may be replaced while a job runs, so each is looked up again."""
    if isinstance(view.partition, RemotePartition):
        return (yield from view.partition.tally(is_committed=view.is_committed, spans=spans, is_dated=is_dated))
    log = view.partition.log
    tally, offset = MessageCount(0, None), 0
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
                time_ns = yield from message_time(view, offset)
                if time_ns is None:
                    segment.is_dense = False
                    continue
                found = MessageCount(_length(here), time_ns)
            else:
                found = MessageCount(_length(here), None)
        except OffsetOutOfRange:  # the file has been removed
            offset = max(offset + 1, _end_of(log, offset))
            continue
        tally = MessageCount(tally.messages + found.messages, found.first_ns if not tally.messages else tally.first_ns)
        offset = stop
    return tally


def _next_place(view: PartitionView, spans: Sequence[OffsetSpan], offset: int) -> OffsetSpan | None:
    """Return the first offset from `offset` on that is in a span and in the log, and where the last span or the log
    ends.
    """
    offset = max(offset, view.earliest)
    number = bisect_right(spans, offset, key=_stop)
    if number == len(spans):
        return None
    offset, end = max(offset, spans[number][0]), min(spans[-1][1], view.end)
    return (offset, end) if offset < end else None


def _length(spans: Iterable[OffsetSpan]) -> int:
    return sum(stop - start for start, stop in spans)


def _within(spans: Sequence[OffsetSpan], offset: int, stop: int) -> list[OffsetSpan]:
    """Clip spans to a range; at least one of them must overlap it."""
    chosen = list(spans[bisect_right(spans, offset, key=_stop) : bisect_left(spans, stop, key=_start)])
    chosen[0] = (max(offset, chosen[0][0]), chosen[0][1])
    chosen[-1] = (chosen[-1][0], min(stop, chosen[-1][1]))
    return chosen


def _look_up(partition: Partition, segment: Segment) -> Work[None]:
    """Find out whether compaction or transactions left gaps in a segment."""
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
    """Return where the segment of this offset ends, or where the log begins if that is later."""
    number = _number(log, offset) + 1
    return log.segments[number].base_offset if number < len(log.segments) else log.next_offset


def _part(log: Log, offset: int, end: int) -> OffsetSpan:
    """Return the index of the segment with this offset, and where it ends. Consecutive segments without gaps count as
    one.
    """
    number = _number(log, offset)
    behind = islice(log.segments, number + 1, None)
    is_dense = log.segments[number].is_dense
    stop = next((one.base_offset for one in behind if not (is_dense and one.is_dense)), end)
    return number, min(stop, end)


def message_time(view: PartitionView, offset: int) -> Work[int | None]:
    read = yield from view.read(offset, 1, skip_damage=True)
    for buffer in read.buffers[:1]:
        if frame.offset_at(buffer) == offset and not buffer[frame.AT_FLAGS] & frame.CONTROL:
            return frame.timestamp_at(buffer)
    return None


def _count(log: Log, number: int, spans: list[OffsetSpan], hidden: Edges, *, is_dated: bool) -> Work[MessageCount]:
    """Count what a segment holds in these spans, without what is hidden."""
    segment = log.segments[number]
    end, next_offset = log.bounds(number)
    message_counts = segment.message_counts or MessageCounts(segment.base_offset)
    is_whole = len(spans) == 1 and spans[0][0] <= segment.base_offset and spans[0][1] >= next_offset
    if message_counts.end >= end and not len(hidden) and (is_whole or not message_counts.messages):
        return message_counts.whole()
    reader = log.reader(segment)  # use one reader for all jobs: another file may get the same name
    while message_counts.end < end:
        message_counts = yield partial(message_counts.extended, reader.file, end, next_offset, reader.index)
        # another caller may have counted further
        if segment.message_counts is None or segment.message_counts.end < message_counts.end:
            segment.message_counts = message_counts
    if len(hidden) and (is_dated or not message_counts.is_sound):
        visible = difference(as_edges(spans), hidden)
        return (yield partial(message_counts.tally, reader.file, visible)) if len(visible) else MessageCount(0, None)
    is_all = is_whole and message_counts.end == end
    tally: MessageCount = (
        message_counts.whole() if is_all else (yield partial(message_counts.tally, reader.file, spans))
    )
    return MessageCount(tally.messages - int((hidden[:, 1] - hidden[:, 0]).sum()), tally.first_ns)
