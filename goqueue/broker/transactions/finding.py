"""Finding again, after a start, what was open in a partition: in the log, from where it may have begun.

Of a batch that a crash has torn its mark says more than there is, and what was appended later stands where the rest
would be. So its messages are those behind the mark that are of a transaction and have no mark of their own.
"""

import numpy as np

from goqueue.broker.producers import Mark, marks_in
from goqueue.broker.transactions.opened import Opened
from goqueue.storage import scan
from goqueue.storage.extent import Read
from goqueue.storage.marker import markers_in, of_transactions
from goqueue.storage.scan import Frames

Epochs = dict[int, int]
"""Of the producers whose transactions may be open."""

_NONE = Opened(-1)


class Finding:
    """What was found so far."""

    def __init__(self, epochs: Epochs, end: int) -> None:
        """Of what was appended before `end`."""
        self._epochs = epochs
        self._end = end
        self._last: tuple[Mark, int] | None = None
        """The batch that may go on in the next frames, and the end that its mark tells."""
        self.opened: dict[int, Opened] = {}

    def look(self, read: Read) -> None:
        """Look at the next frames. Touches nothing else, so any thread may do it."""
        for buffer in read.buffers:
            self._look(scan.walk(buffer))

    def _look(self, frames: Frames) -> None:
        """What a marker speaks of stands before it; should a crash have kept some of several, the rest is open."""
        if not len(frames):
            return
        first, behind = int(frames.offsets[0]), int(frames.offsets[-1]) + 1
        batches = [(mark, offset, offset + mark.count) for mark, offset, _ in marks_in(frames.buffer.data)]
        others = frames.offsets[~of_transactions(frames)[0]]
        edges = np.union1d(others, np.array([offset for _, offset, _ in batches], np.int64))
        if self._last is not None and first not in edges:
            batches.insert(0, (self._last[0], first, self._last[1]))
        for mark, offset, end in batches:
            following = edges[np.searchsorted(edges, offset, "right") :]
            self._add(mark, offset, min(end, int(following[0]) if len(following) else behind))
        is_open = bool(batches) and behind < batches[-1][2] and not (edges > batches[-1][1]).any()
        self._last = (batches[-1][0], batches[-1][2]) if is_open else None
        for _, marker in markers_in(frames):
            opened = self.opened.get(marker.producer, _NONE)
            if opened.epoch == marker.epoch:
                opened.pass_over(marker.ranges[-1][1])
                if not opened.ranges:
                    del self.opened[marker.producer]

    def _add(self, mark: Mark, offset: int, end: int) -> None:
        if self._epochs.get(mark.producer) == mark.epoch and offset < self._end:
            opened = self.opened.setdefault(mark.producer, Opened(mark.epoch))
            opened.add(offset, min(end, self._end))
