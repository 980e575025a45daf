"""The lane index: where the messages of each lane are in a partition, over all its segments.

The lanes of the active segment are in memory. Those of a sealed segment are read from the file beside it, or from the
segment when the file is missing, but only for a lookup in its middle; otherwise a summary is enough. So memory does not
grow with the backlog.

Invariant: what the index returns for offsets below the end of a log stays true.
"""

from bisect import bisect_right
from collections import deque
from contextlib import suppress
from functools import partial
from operator import attrgetter

import numpy as np

from goqueue.broker.core.work import Work
from goqueue.errors import GoQueueError
from goqueue.limits import LANE_INDEXES_CACHED, LANE_RUNS_PINNED
from goqueue.storage.disk import Disk
from goqueue.storage.lanes import LANES, NO_LANE, LaneSummary, SegmentLanes, Span, load_lanes, scan_lanes, store_lanes
from goqueue.storage.log import Log
from goqueue.storage.segment import Segment, SegmentReader
from goqueue.storage.segment_scan import ScanRange
from goqueue.storage.transaction_index import Edges

_base_offset = attrgetter("base_offset")


class LaneIndex:
    def __init__(self, log: Log) -> None:
        self._log = log
        self._held: deque[Segment] = deque()
        """Sealed segments whose lanes are in memory, in the order of their lookups."""

    def is_single(self, first: int) -> Work[bool]:
        """True when all messages from this offset on are in one lane."""
        if first >= self._log.lanes.since:
            return True
        found, end = NO_LANE, self._log.next_offset
        for lane in LANES:
            if (yield from self.next(lane, first, end)) is not None:
                if found != NO_LANE:
                    return False
                found = lane
        book = self._log.lanes  # others may have come while it was looked up
        if book.since > end or (NO_LANE not in (book.lane, found) and book.lane != found):
            return False
        if found != NO_LANE:
            book.since, book.lane = min(book.since, first), found
        return True

    def next(self, lane: int, first: int, end: int) -> Work[int | None]:
        offset = max(first, self._log.first_offset)
        while offset < min(end, self._log.next_offset):  # a disk that refuses what is at the end may bring it back
            segment, stop = self._at(offset)
            digest = segment.digest
            if digest is not None and digest.is_beside(lane, offset):
                found = digest.firsts[lane] if offset < digest.ends[lane] else None
            else:
                lanes = yield from self._whole(segment)
                found = lanes.runs[lane].next(offset)
            if found is not None:
                return found if found < end else None
            offset = stop
        return None

    def count(self, lane: int, first: int, end: int, most: int) -> Work[int]:
        """Count the messages of a lane in this range, up to `most`."""
        total, offset = 0, max(first, self._log.first_offset)
        while offset < min(end, self._log.next_offset) and total < most:
            segment, stop = self._at(offset)
            digest = segment.digest
            if digest is not None and stop <= end and digest.is_beside(lane, offset):
                total += digest.counts[lane] if offset < digest.ends[lane] else 0
            else:
                lanes = yield from self._whole(segment)
                total += lanes.runs[lane].count(offset, min(end, stop), most - total)
            offset = stop
        return min(total, most)

    def count_in(self, lane: int, ranges: Edges) -> Work[int]:
        """Count in many ascending ranges, none of which spans two segments."""
        total = 0
        while len(ranges):
            segment, stop = self._at(int(ranges[0, 0]))
            behind = int(np.searchsorted(ranges[:, 0], stop))
            if segment.digest is None or segment.digest.counts[lane]:
                lanes = yield from self._whole(segment)
                total += lanes.runs[lane].count_in(ranges[:behind])
            ranges = ranges[behind:]
        return total

    def roughly(self, lane: int, first: int, end: int) -> int:
        """Estimate `count` without reading: proportionally in a segment of which only a summary is in memory."""
        total, offset = 0, max(first, self._log.first_offset)
        while offset < min(end, self._log.next_offset):
            segment, stop = self._at(offset)
            if (lanes := segment.lanes) is not None:
                total += lanes.runs[lane].count(offset, min(end, stop))
            elif (digest := segment.digest) is not None and offset < digest.ends[lane]:
                length, left = digest.ends[lane] - digest.firsts[lane], digest.ends[lane] - offset
                total += digest.counts[lane] * min(left, length) // length
            offset = stop
        return total

    def spans(self, lane: int, first: int, end: int, messages: int, most: int) -> Work[list[Span]]:
        """Return where the next messages of a lane are, within the limits of messages and spans."""
        found: list[Span] = []
        offset = yield from self.next(lane, first, end)
        while offset is not None and messages > 0 and len(found) < most:
            segment, stop = self._at(offset)
            lanes = yield from self._whole(segment)
            spans = lanes.runs[lane].within(offset, min(end, stop), min(messages, most - len(found)))
            found += spans
            messages -= sum(behind - start for start, behind in spans)
            if messages < 0:
                return _shortened(found, -messages)
            offset = yield from self.next(lane, stop, end)
        return found

    def _at(self, offset: int) -> tuple[Segment, int]:
        """Return the segment with this offset, and its end."""
        segments = self._log.segments
        number = max(0, bisect_right(segments, offset, key=_base_offset) - 1)
        is_last = number + 1 == len(segments)
        return segments[number], self._log.next_offset if is_last else segments[number + 1].base_offset

    # --- lanes of a segment ---

    def _whole(self, segment: Segment) -> Work[SegmentLanes]:
        """Return all lanes of a segment; read them when they are not in memory."""
        log = self._log
        while (noted := segment.lanes) is None or noted.first > segment.base_offset:
            bounds = log.bounds(log.segments.index(segment))
            found: SegmentLanes = yield partial(
                _look_up, log.disk, log.reader(segment), *bounds, is_sealed=noted is None
            )
            if segment not in log.segments:
                return found
            if segment.lanes is not noted:  # another lookup has set it meanwhile
                continue
            if noted is None:
                segment.lanes = found
                self._keep(segment, found)
            else:
                found.cut(noted.first)
                segment.lanes = found.followed_by(noted)
        return noted

    def _keep(self, segment: Segment, lanes: SegmentLanes) -> None:
        """Keep lanes in memory, and drop those that were read first: they can be read again."""
        segment.digest = LaneSummary.of(lanes)
        if lanes.run_count > LANE_RUNS_PINNED:
            self._held.append(segment)
            while len(self._held) > LANE_INDEXES_CACHED:
                self._held.popleft().lanes = None

    def store(self, disk: Disk) -> Work[None]:
        """Write the lanes of newly sealed segments to files."""
        for segment in self._log.sealed():
            lanes = segment.lanes
            if segment.digest is None and lanes is not None and lanes.first == segment.base_offset:
                yield partial(store_lanes, disk, segment.lanes_path, lanes, segment.size)
                if segment in self._log.segments:
                    self._keep(segment, lanes)

    def forget_sealed(self) -> None:
        """Drop the lanes of sealed segments of a log whose lanes are not used, such as a delayed log."""
        for segment in self._log.sealed():
            segment.lanes = None


def _shortened(spans: list[Span], excess: int) -> list[Span]:
    """Return the spans without this many offsets at the end."""
    while excess >= (length := spans[-1][1] - spans[-1][0]):
        spans.pop()
        excess -= length
    spans[-1] = spans[-1][0], spans[-1][1] - excess
    return spans


def _look_up(disk: Disk, reader: SegmentReader, stop: int, next_offset: int, *, is_sealed: bool) -> SegmentLanes:
    """Load the lanes of a segment from its file, or scan the segment and write the file."""
    segment = reader.segment
    if is_sealed:
        lanes = load_lanes(disk, segment.lanes_path, segment.base_offset, next_offset, segment.size)
        if lanes is not None:
            return lanes
    lanes = scan_lanes(reader.file, ScanRange(0, stop, segment.base_offset, next_offset), reader.index)
    lanes.end = max(lanes.end, next_offset)
    if is_sealed:
        with suppress(GoQueueError):  # it is a cache, and a full disk has no room for one
            store_lanes(disk, segment.lanes_path, lanes, segment.size)
    return lanes
