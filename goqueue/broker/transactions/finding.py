"""Finding again, after a start, what was open in a partition: in the log, from where it may have begun."""

from goqueue.broker.producers import marks_in
from goqueue.broker.transactions.opened import Opened
from goqueue.storage import scan
from goqueue.storage.extent import Read
from goqueue.storage.marker import markers_in

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

    def look(self, read: Read) -> None:
        """Look at the next frames. Touches nothing else, so any thread may do it."""
        for buffer in read.buffers:
            self._look(buffer)

    def _look(self, buffer: memoryview) -> None:
        """What a marker speaks of stands before it; should a crash have kept some of several, the rest is open."""
        for mark, offset, _ in marks_in(buffer):
            if self._epochs.get(mark.producer) == mark.epoch and offset < self._end:
                opened = self.opened.setdefault(mark.producer, Opened(mark.epoch))
                opened.add(offset, min(offset + mark.count, self._end))
        for _, marker in markers_in(scan.walk(buffer)):
            opened = self.opened.get(marker.producer, _NONE)
            if opened.epoch == marker.epoch:
                opened.pass_over(marker.ranges[-1][1])
                if not opened.ranges:
                    del self.opened[marker.producer]
