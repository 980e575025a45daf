"""Where in a partition reading begins and ends: an offset, one of its ends, or a moment."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from goqueue.errors import SegmentNotFound
from goqueue.spark.logs.port import Logs
from goqueue.spark.reading import Run, Split, read
from goqueue.storage.survey import true_entry
from goqueue.storage.visit import LogView, SegmentView

Place = tuple[str, int]
"""A topic and the number of a partition."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The first message at or after it."""

    time_ns: int


Point = int | Moment | Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of what is read, for every partition."""

    otherwise: Point
    given: Mapping[Place, Point] = field(default_factory=dict)

    def offset(self, logs: Logs, place: Place, view: LogView) -> int:
        """As an offset of this partition; what is not there any more, or not yet, is what the caller has to judge."""
        match self.given.get(place, self.otherwise):
            case "earliest":
                return view.earliest
            case "latest":
                return view.readable_end
            case Moment(time_ns):
                return offset_at(logs, place, view, time_ns)
            case offset:
                return offset


EARLIEST = Bound("earliest")
LATEST = Bound("latest")


def offset_at(logs: Logs, place: Place, view: LogView, time_ns: int) -> int:
    """The first offset whose message is at least this young; the end where there is none."""
    segments = [segment for segment in view.segments if segment.size]
    low, high = 0, len(segments)
    while low < high:  # the last segment that begins before the moment holds it, or the one behind begins with it
        middle = (low + high) // 2
        first = next(_times(logs, place, segments[middle], segments[middle].base_offset), None)
        if first is not None and int(first[1][0]) < time_ns:
            low = middle + 1
        else:
            high = middle
    for segment in segments[max(0, low - 1) :]:
        for offsets, times in _times(logs, place, segment, _offset_before(logs, place, segment, time_ns)):
            if int(times[-1]) >= time_ns:
                return int(offsets[np.searchsorted(times, time_ns)])
    return view.end


def _offset_before(logs: Logs, place: Place, segment: SegmentView, time_ns: int) -> int:
    """An offset in a segment before which all is older."""
    try:
        opened = logs.open(*place, segment)
    except SegmentNotFound:  # it has been removed or replaced since it was viewed: reading finds what there is
        return segment.base_offset
    try:
        index = opened.index
        number = true_entry(opened.file, index, index.before_time(time_ns), segment.size)
        return max(segment.base_offset, index.start_for(number)[0])
    finally:
        opened.file.close()


def _times(
    logs: Logs, place: Place, segment: SegmentView, first: int
) -> "Iterator[tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]]":
    """Offsets and times in a segment from an offset on."""
    for piece in read(logs, Split(*place, first, segment.next_offset, segment.size, (segment,))):
        if isinstance(piece, Run):
            yield piece.frames.offsets, piece.frames.timestamps
