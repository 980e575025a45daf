"""The aborted messages of a partition, over all its segments.

Aborts since the log was opened are noted as they happen. Earlier ones are looked up: in the file beside a segment,
or in the segment and behind it until nothing is undecided. The result stays with the segment; large results stay for
some segments only.

Invariant: what is known of a segment holds for everything below the `last_stable` of that moment, and stays true for
what was read from its file even if another segment replaces it.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from operator import attrgetter

import numpy as np

from goqueue.broker.core.work import Work
from goqueue.errors import GoQueueError
from goqueue.limits import ABORTED_INDEXES_CACHED, ABORTED_RANGES_PINNED, KIB, OFFSET_MAX
from goqueue.storage import frame, scan
from goqueue.storage.disk import Disk
from goqueue.storage.log import Log
from goqueue.storage.reads import ReadResult
from goqueue.storage.segment import Segment, SegmentReader
from goqueue.storage.segment_scan import ScanRange
from goqueue.storage.transaction_index import (
    ABORTED_UNKNOWN,
    NONE_ABORTED,
    AbortedRanges,
    Edges,
    SegmentTransactions,
    SegmentTransactionScan,
    load_aborted,
    store_aborted,
)
from goqueue.storage.transaction_marker import OffsetRange

_base_offset = attrgetter("base_offset")


class AbortedIndex:
    """Index of the aborted messages of one log."""

    def __init__(self, log: Log, last_stable: Callable[[], int]) -> None:
        self._log = log
        self._last_stable = last_stable
        self._held: deque[Segment] = deque()
        """Segments with many ranges in memory that are on disk as well, most recently used last."""
        self._seen = (OFFSET_MAX, 0)
        """The visible and the stable end at the last `store`."""

    # --- what is known ---

    def note(self, ranges: Iterable[OffsetRange]) -> None:
        """Add aborted ranges whose control record is visible."""
        noted = AbortedRanges.of(ranges)
        for segment, first, end in self._parts(*noted.bounds):
            if len(part := noted.clipped(first, end)):
                known = segment.aborted if segment.aborted is not None else ABORTED_UNKNOWN
                segment.aborted = known.joined(part)

    def is_clean(self, first: int, end: int) -> bool:
        """Return whether nothing in this range, which ends below `last_stable`, is aborted."""
        known = self.known(first, end)
        return known is not None and known.is_clean(first, end)

    def known(self, first: int, end: int) -> AbortedRanges | None:
        """Return the aborted ranges of a range that ends below `last_stable`, or None if they must be looked up.

        May contain ranges around it as well.
        """
        segments, found = self._log.segments, NONE_ABORTED
        number = max(0, bisect_right(segments, first, key=_base_offset) - 1)
        while True:
            known = segments[number].aborted
            number += 1
            stop = segments[number].base_offset if number < len(segments) else end
            if known is not NONE_ABORTED:
                if known is None or not known.covers(first, min(stop, end)):
                    return None
                found = AbortedRanges(known.edges) if found is NONE_ABORTED else found.joined(known.edges)
            if stop >= end:
                return found
            first = stop

    def roughly(self, first: int, end: int) -> int:
        """Count aborted messages as far as memory knows."""
        return sum(one.aborted.count(start, stop) for one, start, stop in self._parts(first, end) if one.aborted)

    def _parts(self, first: int, end: int) -> Iterator[tuple[Segment, int, int]]:
        segments = self._log.segments
        number, first = max(0, bisect_right(segments, first, key=_base_offset) - 1), max(first, self._log.first_offset)
        end = min(end, self._log.next_offset)
        while first < end:
            segment, number = segments[number], number + 1
            stop = min(end, segments[number].base_offset) if number < len(segments) else end
            yield segment, first, stop
            first = stop

    # --- what has to be looked up ---

    def within(self, first: int, end: int, most: int = OFFSET_MAX) -> Work[list[OffsetRange]]:
        """Return at most `most` aborted ranges of a range, as far as it is stable."""
        found: list[OffsetRange] = []
        while first < end and len(found) <= most:  # the last range may continue in the next segment
            known, stop = yield from self._next(first, end)
            here = known.within(first, stop)[: most - len(found) + 1]
            if found and here and found[-1][1] == here[0][0]:  # it continues in the next segment
                here[0] = found.pop()[0], here[0][1]
            found += here
            first = stop
        return found[:most]

    def edges(self, first: int, end: int) -> Work[Edges]:
        """Return all aborted ranges as rows; one that spans two segments has two rows."""
        found = [NONE_ABORTED.edges]
        while first < end:
            known, stop = yield from self._next(first, end)
            found.append(known.clipped(first, stop))
            first = stop
        return np.concatenate(found)

    def _next(self, first: int, end: int) -> Work[tuple[AbortedRanges, int]]:
        """Return what is known of the first segment of a range, and where its part ends."""
        while True:
            part = next(self._parts(first, min(end, self._last_stable())), None)
            if part is None:
                return NONE_ABORTED, end
            known = self.known(part[1], part[2])
            if known is not None:
                return known, part[2]
            yield from self._look_up(part[0])

    def at(self, first: int, end: int) -> Work[AbortedRanges]:
        known, _ = yield from self._next(first, end)
        return known

    def examine(self, segment: Segment) -> Work[None]:
        if segment.aborted is None or segment.aborted.since > segment.base_offset:
            yield from self._look_up(segment)

    def look_up(self, first: int, end: int) -> Work[None]:
        """Look up the first unknown segment of this range. The caller asks again."""
        for segment, start, stop in self._parts(first, end):
            if segment.aborted is None or not segment.aborted.covers(start, stop):
                yield from self._look_up(segment)
                return

    def _look_up(self, segment: Segment) -> Work[None]:
        log, version = self._log, self._log.version(segment)
        if segment not in log.segments:
            return
        reader, (position, next_offset) = log.reader(segment), log.bounds(log.segments.index(segment))
        own, is_sealed = ScanRange(0, position, segment.base_offset, next_offset), segment in log.sealed()
        inquiry, stable, end = SegmentTransactionScan(log.since), self._last_stable(), log.readable_end
        stored: SegmentTransactions | None = yield partial(_begin, log.disk, reader, own, inquiry, is_sealed=is_sealed)
        found = stored
        if found is None:
            yield from self._ask_on(inquiry, next_offset, end)
            found = inquiry.found(stable)
        if segment not in log.segments or log.version(segment) != version:
            return
        if not found.is_plain:
            segment.is_dense = False
        noted = segment.aborted if segment.aborted is not None else NONE_ABORTED
        segment.aborted = AbortedRanges.of(found.aborted.joined(noted.edges).edges, until=found.aborted.until)
        segment.has_aborted_file = stored is not None
        if is_sealed and stored is None and found.is_sure and next_offset <= self._safe_end():
            with suppress(GoQueueError):  # the file is only a cache
                yield from self._write(log.disk, segment, next_offset)
        self._keep(segment)

    def _ask_on(self, inquiry: SegmentTransactionScan, offset: int, end: int) -> Work[None]:
        """Scan on up to this end while something is undecided."""
        log = self._log
        while not inquiry.is_over and offset < end:
            number = max(0, bisect_right(log.segments, offset, key=_base_offset) - 1)
            reader, (position, offset) = log.reader(log.segments[number]), log.bounds(number)
            stretch = ScanRange(0, position, reader.segment.base_offset, offset)
            yield partial(inquiry.survey, reader.file, stretch, reader.index)

    # --- what is kept ---

    def store(self, disk: Disk) -> Work[None]:
        """Write what is known of sealed segments and cannot change any more."""
        safe, log = self._safe_end(), self._log
        self._seen = (log.readable_end, self._last_stable())
        for segment, following in list(pairwise([*log.sealed(), log.segments[len(log.sealed())]])):
            known = segment.aborted
            if following.base_offset > safe:
                return
            if known is not None and known.covers(0, OFFSET_MAX) and not segment.has_aborted_file:
                yield from self._write(disk, segment, following.base_offset)
                self._keep(segment)

    def _safe_end(self) -> int:
        """Return the end below which everything is decided durably."""
        log, (visible, stable) = self._log, self._seen
        if log.durable_end >= log.readable_end:
            return self._last_stable()
        return stable if log.durable_end >= visible else 0

    def _write(self, disk: Disk, segment: Segment, next_offset: int) -> Work[None]:
        assert segment.aborted is not None, "it was looked up"
        found = SegmentTransactions(segment.aborted, segment.is_dense is not False)
        place = segment.base_offset, next_offset, segment.size
        yield partial(store_aborted, disk, segment.aborted_path, found, *place)
        segment.has_aborted_file = True

    def _keep(self, segment: Segment) -> None:
        """Keep large results that are on disk only for the segments used last."""
        if segment.has_aborted_file and segment.aborted and len(segment.aborted) > ABORTED_RANGES_PINNED:
            self._held.append(segment)
            while len(self._held) > ABORTED_INDEXES_CACHED:
                self._held.popleft().aborted = None


def _begin(
    disk: Disk, reader: SegmentReader, own: ScanRange, inquiry: SegmentTransactionScan, *, is_sealed: bool
) -> SegmentTransactions | None:
    """Return what the file beside a sealed segment says; without one, scan the segment."""
    segment = reader.segment
    if is_sealed:
        place = segment.base_offset, own.ceiling, segment.size
        if (found := load_aborted(disk, segment.aborted_path, *place)) is not None:
            return found
    inquiry.survey(reader.file, own, reader.index)
    return None


_VIEWS_MAX = 16  # per buffer: more are copied into one, since each view costs the sender
_BRIEF_BYTES = 64 * KIB  # filtered inline; larger reads are a job


def without_aborted(read: ReadResult, aborted: AbortedRanges) -> Work[ReadResult]:
    """Return the read for readers of committed messages; nothing if only control records are left."""
    job = partial(_hidden, read, aborted)
    found: ReadResult = job() if read.size <= _BRIEF_BYTES else (yield job)
    return found


def _hidden(read: ReadResult, aborted: AbortedRanges) -> ReadResult:
    edges = [*map(frame.offset_at, read.buffers), read.next_offset]
    pieces = zip(read.buffers, pairwise(edges), strict=True)
    buffers = tuple(part for buffer, (first, end) in pieces for part in _parts(buffer, aborted, first, end))
    if any(map(has_message, buffers)):
        return ReadResult(buffers, read.next_offset, read.skipped)
    return ReadResult((), aborted.behind(read.next_offset), read.skipped)


def _parts(buffer: memoryview, aborted: AbortedRanges, first: int, end: int) -> list[memoryview]:
    if aborted.is_clean(first, end):
        return [buffer]
    frames = scan.walk(buffer)
    stays = ~aborted.mask(frames)
    if stays.all():
        return [buffer]
    edges = np.flatnonzero(np.diff(stays, prepend=False, append=False)).reshape(-1, 2)
    bounds = np.append(frames.positions, frames.end)
    parts = [buffer[bounds[first] : bounds[end]] for first, end in edges.tolist()]
    return parts if len(parts) <= _VIEWS_MAX else [memoryview(b"".join(parts))]


def begins_with_message(read: ReadResult) -> bool:
    return bool(read.buffers) and not read.buffers[0][frame.AT_FLAGS] & frame.CONTROL


def has_message(buffer: memoryview) -> bool:
    """Return whether not all frames are control records. Usually the first frame decides."""
    if not buffer[frame.AT_FLAGS] & frame.CONTROL:
        return True
    return not (scan.walk(buffer).flags & frame.CONTROL).all()
