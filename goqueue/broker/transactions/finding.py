"""Finding again, after a start, what was open in a partition: in the log, from where it may have begun.

A mark says how many messages its batch had. A crash may have kept fewer, and what was appended since stands in their
place: so a batch ends before the first frame that cannot belong to it.
"""

from bisect import bisect_right

import numpy as np

from goqueue.broker.producers import marks_in
from goqueue.broker.transactions.opened import Opened
from goqueue.limits import OFFSET_MAX
from goqueue.storage import scan
from goqueue.storage.extent import Read
from goqueue.storage.marker import markers_in, of_transactions

Epochs = dict[int, int]
"""Of the producers whose transactions may be open."""


_NONE = Opened(-1)


class Finding:
    """What was found so far."""

    def __init__(self, epochs: Epochs, end: int) -> None:
        """Of what was appended before `end`."""
        self._epochs = epochs
        self._end = end
        self.opened: dict[int, Opened] = {}
        self._last = _NONE
        """Whose batch the next frames may belong to."""

    def look(self, read: Read) -> None:
        """Look at the next frames. Touches nothing else, so any thread may do it."""
        for buffer in read.buffers:
            self._look(buffer)

    def _look(self, buffer: memoryview) -> None:
        """What a marker speaks of stands before it; should a crash have kept some of several, the rest is open."""
        frames, marks = scan.walk(buffer), {offset: mark for mark, offset, _ in marks_in(buffer)}
        foreign = ~of_transactions(frames)[0]  # what does not go on with the batch before it
        foreign |= np.isin(frames.offsets, np.fromiter(marks, np.int64, len(marks)))
        edges = [*frames.offsets[foreign].tolist(), OFFSET_MAX]
        if len(edges) > 1:
            self._last.cut(edges[0])
            self._last = _NONE
        for offset, mark in marks.items():
            if self._epochs.get(mark.producer) == mark.epoch and offset < self._end:
                opened = self.opened.setdefault(mark.producer, Opened(mark.epoch))
                behind = bisect_right(edges, offset)
                opened.add(offset, min(offset + mark.count, edges[behind], self._end))
                self._last = opened if behind == len(edges) - 1 else _NONE
        for _, marker in markers_in(frames):
            opened = self.opened.get(marker.producer, _NONE)
            if opened.epoch == marker.epoch:
                opened.pass_over(marker.ranges[-1][1])
                if not opened.ranges:
                    del self.opened[marker.producer]
