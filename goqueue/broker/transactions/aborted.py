"""Which messages of a partition were aborted, over all its segments.

Of what was appended since the log was opened, aborts are noted as they come. Of what was there before, somebody has to
look: into the file beside a segment, or else into the segment, and behind it until nothing is undecided. What was found
stays with the segment, since it is a few bytes as a rule; where it is more, only that of some segments does.

What must stay true: whatever is known of a segment holds for all of it that lies below the `last_stable` of that
moment, and stays true for what was read of its file, even if another segment takes its place meanwhile.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from operator import attrgetter

import numpy as np

from goqueue.broker.work import Work
from goqueue.errors import GoQueueError
from goqueue.limits import ABORTED_HELD, ABORTED_RANGES_KEPT, OFFSET_MAX
from goqueue.storage.aborted import EMPTY, UNKNOWN, Aborted, Edges, Found, Inquiry, load_aborted, store_aborted
from goqueue.storage.disk import Disk
from goqueue.storage.log import Log
from goqueue.storage.marker import Range
from goqueue.storage.segment import Reader, Segment
from goqueue.storage.survey import Stretch

_base_offset = attrgetter("base_offset")


class AbortedIndex:
    """The aborted messages of one log."""

    def __init__(self, log: Log, last_stable: Callable[[], int]) -> None:
        self._log = log
        self._last_stable = last_stable
        self._held: deque[Segment] = deque()
        """Segments with many ranges in memory, which are on disk as well; the one looked up last behind the others."""
        self._seen = (OFFSET_MAX, 0)
        """What was visible at the last `store`, and what of it was stable."""

    # --- what is known ---

    def note(self, ranges: Iterable[Range]) -> None:
        """These were aborted: their marker stands, and readers may see it."""
        noted = Aborted.of(ranges)
        for segment, first, end in self._parts(*noted.bounds):
            if len(part := noted.clipped(first, end)):
                known = segment.aborted if segment.aborted is not None else UNKNOWN
                segment.aborted = known.joined(part)

    def is_clean(self, first: int, end: int) -> bool:
        """Whether it is known that nothing of this stretch, which ends below `last_stable`, is aborted."""
        known = self.known(first, end)
        return known is not None and known.is_clean(first, end)

    def known(self, first: int, end: int) -> Aborted | None:
        """What is aborted in this stretch, which ends below `last_stable`; None where somebody has to look it up.

        Of what lies around the stretch there may be more in it.
        """
        segments, found = self._log.segments, EMPTY
        number = max(0, bisect_right(segments, first, key=_base_offset) - 1)
        while True:
            known = segments[number].aborted
            number += 1
            stop = segments[number].base_offset if number < len(segments) else end
            if known is not EMPTY:
                if known is None or not known.covers(first, min(stop, end)):
                    return None
                found = Aborted(known.edges) if found is EMPTY else found.joined(known.edges)
            if stop >= end:
                return found
            first = stop

    def roughly(self, first: int, end: int) -> int:
        """`count` without looking anything up: where that would be needed, it counts none."""
        return sum(one.aborted.count(start, stop) for one, start, stop in self._parts(first, end) if one.aborted)

    def _parts(self, first: int, end: int) -> Iterator[tuple[Segment, int, int]]:
        """The segments of this stretch, each with what lies in it."""
        segments = self._log.segments
        number, first = max(0, bisect_right(segments, first, key=_base_offset) - 1), max(first, self._log.first_offset)
        end = min(end, self._log.next_offset)
        while first < end:
            segment, number = segments[number], number + 1
            stop = min(end, segments[number].base_offset) if number < len(segments) else end
            yield segment, first, stop
            first = stop

    # --- what has to be looked up ---

    def within(self, first: int, end: int, most: int = OFFSET_MAX) -> Work[list[Range]]:
        """The aborted ranges of a stretch, as far as it is stable; so many of them at the most."""
        found: list[Range] = []
        while first < end and len(found) <= most:  # the last one may go on in the next segment
            known, stop = yield from self._next(first, end)
            here = known.within(first, stop)[: most - len(found) + 1]
            if found and here and found[-1][1] == here[0][0]:  # it goes on from one segment into the next
                here[0] = found.pop()[0], here[0][1]
            found += here
            first = stop
        return found[:most]

    def edges(self, first: int, end: int) -> Work[Edges]:
        """All of them as rows; one that goes on from one segment into the next has two."""
        found = [EMPTY.edges]
        while first < end:
            known, stop = yield from self._next(first, end)
            found.append(known.clipped(first, stop))
            first = stop
        return np.concatenate(found)

    def count(self, first: int, end: int) -> Work[int]:
        """How many messages of a stretch are aborted, as far as it is stable."""
        total = 0
        while first < end:
            known, stop = yield from self._next(first, end)
            total += known.count(first, stop)
            first = stop
        return total

    def _next(self, first: int, end: int) -> Work[tuple[Aborted, int]]:
        """What is known of the first segment of a stretch, and how much of that belongs to the stretch."""
        while True:
            part = next(self._parts(first, min(end, self._last_stable())), None)
            if part is None:
                return EMPTY, end
            known = self.known(part[1], part[2])
            if known is not None:
                return known, part[2]
            yield from self._look_up(part[0])

    def at(self, first: int, end: int) -> Work[Aborted]:
        """What is known of the first segment of a stretch."""
        known, _ = yield from self._next(first, end)
        return known

    def examine(self, segment: Segment) -> Work[None]:
        """See to it that somebody has looked whether there is anything of transactions in this segment."""
        if segment.aborted is None or segment.aborted.since > segment.base_offset:
            yield from self._look_up(segment)

    def look_up(self, first: int, end: int) -> Work[None]:
        """Make more known of this stretch; whoever asked looks again, since much may have happened."""
        for segment, start, stop in self._parts(first, end):
            if segment.aborted is None or not segment.aborted.covers(start, stop):
                yield from self._look_up(segment)
                return

    def _look_up(self, segment: Segment) -> Work[None]:
        log, version = self._log, self._log.version(segment)
        if segment not in log.segments:
            return
        reader, (position, next_offset) = log.reader(segment), log.bounds(log.segments.index(segment))
        own, is_sealed = Stretch(0, position, segment.base_offset, next_offset), segment in log.sealed()
        inquiry, stable, end = Inquiry(log.since), self._last_stable(), log.readable_end
        stored: Found | None = yield partial(_begin, log.disk, reader, own, inquiry, is_sealed=is_sealed)
        found = stored
        if found is None:
            yield from self._ask_on(inquiry, next_offset, end)
            found = inquiry.found(stable)
        if segment not in log.segments or log.version(segment) != version:
            return
        if not found.is_plain:
            segment.is_dense = False
        noted = segment.aborted if segment.aborted is not None else EMPTY
        segment.aborted = Aborted.of(found.aborted.joined(noted.edges).edges, until=found.aborted.until)
        segment.has_aborted_file = stored is not None
        if is_sealed and stored is None and found.is_sure and next_offset <= self._safe_end():
            with suppress(GoQueueError):  # it is a cache, and a full disk has no room for one
                yield from self._write(log.disk, segment, next_offset)
        self._keep(segment)

    def _ask_on(self, inquiry: Inquiry, offset: int, end: int) -> Work[None]:
        """As long as something is undecided, ask what follows: up to this end, where it was so."""
        log = self._log
        while not inquiry.is_over and offset < end:
            number = max(0, bisect_right(log.segments, offset, key=_base_offset) - 1)
            reader, (position, offset) = log.reader(log.segments[number]), log.bounds(number)
            stretch = Stretch(0, position, reader.segment.base_offset, offset)
            yield partial(inquiry.survey, reader.file, stretch, reader.index)

    # --- what is kept ---

    def store(self, disk: Disk) -> Work[None]:
        """Write what is known of sealed segments, where it cannot change any more."""
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
        """Everything below it is decided, and no crash takes that back."""
        log, (visible, stable) = self._log, self._seen
        if log.durable_end >= log.readable_end:
            return self._last_stable()
        return stable if log.durable_end >= visible else 0

    def _write(self, disk: Disk, segment: Segment, next_offset: int) -> Work[None]:
        assert segment.aborted is not None, "somebody knows it"
        found = Found(segment.aborted, segment.is_dense is not False)
        place = segment.base_offset, next_offset, segment.size
        yield partial(store_aborted, disk, segment.aborted_path, found, *place)
        segment.has_aborted_file = True

    def _keep(self, segment: Segment) -> None:
        """Where it is much and is on disk as well, what was looked up first may go."""
        if segment.has_aborted_file and segment.aborted and len(segment.aborted) > ABORTED_RANGES_KEPT:
            self._held.append(segment)
            while len(self._held) > ABORTED_HELD:
                self._held.popleft().aborted = None


def _begin(disk: Disk, reader: Reader, own: Stretch, inquiry: Inquiry, *, is_sealed: bool) -> Found | None:
    """What the file beside a sealed segment says; without one, the segment is asked."""
    segment = reader.segment
    if is_sealed:
        place = segment.base_offset, own.ceiling, segment.size
        if (found := load_aborted(disk, segment.aborted_path, *place)) is not None:
            return found
    inquiry.survey(reader.file, own, reader.index)
    return None
