"""Messages of one lane, read from where its runs are."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter

from goqueue.broker.delivery.changes import Range
from goqueue.broker.delivery.slices import Slice, assembled, picked
from goqueue.broker.view import View
from goqueue.broker.work import Work
from goqueue.errors import RangeDamaged
from goqueue.limits import LANE_GAP_BYTES, LANE_READS_MAX
from goqueue.storage import frame


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was read of some spans."""

    content: Slice | None
    through: int
    """Below it, all that was looked for and is not there is gone."""

    def head(self, view: View, lane: int, spans: list[Range], end: int) -> Work[int]:
        """Where the lane goes on behind these spans: at the end, if nothing of it is left before that.

        How many there were when they were counted does not tell: compaction may have been there since.
        """
        if spans and self.through < spans[-1][1]:
            return self.through
        following = (yield from view.partition.lanes.next(lane, spans[-1][1], end)) if spans else None
        return end if following is None else following


def gather(view: View, spans: list[Range], max_bytes: int, *, skip_damage: bool) -> Work[Gathered]:
    """What lies in these spans, as far as there is room. What lies between them is read over where it is little,
    and may be damaged.
    """
    views: list[memoryview] = []
    ranges: list[Range] = []
    room, average, through = max_bytes, view.partition.message_bytes, spans[0][0] if spans else view.end
    for group in islice(_grouped(spans, LANE_GAP_BYTES // average), LANE_READS_MAX):
        offset, stop = max(group[0][0], through), group[-1][1]
        while view.earliest <= offset < stop and room > 0:
            size = min(room, 2 * (stop - offset) * average)
            try:
                read = yield from view.read(offset, size, skip_damage=skip_damage)
            except RangeDamaged:
                following = _behind(group, offset)
                if following is None and not ranges:
                    raise
                if following is None:  # first come those before it
                    break
                offset = following
                continue
            if read.next_offset == offset:
                break
            start = frame.offset_at(read.buffers[0]) if read.buffers else stop
            offset = through = max(start, min(read.next_offset, stop))
            some, where = picked(read, group)
            room -= sum(map(len, some))
            views += some
            ranges += where
        if offset < stop:
            break
    return Gathered(assembled(views, ranges) if ranges else None, through)


def _behind(group: list[Range], offset: int) -> int | None:
    """Where the next span begins, for an offset that lies between two."""
    place = bisect_right(group, offset, key=itemgetter(1))
    return group[place][0] if offset < group[place][0] else None


def _grouped(spans: list[Range], gap: int) -> Iterator[list[Range]]:
    """Neighbours that are read together, since little lies between them."""
    group: list[Range] = []
    for span in spans:
        if group and span[0] - group[-1][1] > gap:
            yield group
            group = []
        group.append(span)
    if group:
        yield group
