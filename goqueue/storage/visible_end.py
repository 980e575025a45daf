"""Up to where the readers of a log see it.

What is stored is shown in whole appends, in their order. What the disk held when the log was opened may be hidden: then
it is shown as a whole, because nothing of it is in memory.
"""

from collections import deque

from goqueue.storage.segment import Segment
from goqueue.storage.writer import PendingAppend

Place = tuple[Segment, int]
"""A segment, and a position in it."""


class VisibleEnd:
    """The first offset that readers do not see, and where it is."""

    __slots__ = ("hidden", "offset", "place", "waiting")

    def __init__(self, offset: int, place: Place) -> None:
        self.offset = offset
        self.place = place
        self.waiting: deque[PendingAppend] = deque()
        """Stored, and not shown."""
        self.hidden: tuple[int, Place] | None = None
        """The end of what the disk held from the beginning on and is not shown; None if all of that is."""

    @property
    def is_complete(self) -> bool:
        """Return whether everything that is stored is shown."""
        return self.hidden is None and not self.waiting

    def hide(self, offset: int, place: Place) -> None:
        """Hide what the disk held from this offset on. Nothing was appended since the log was opened."""
        assert not self.waiting, "a log is hidden before it is used"
        self.hidden = self.hidden or (self.offset, self.place)
        self.offset, self.place = offset, place

    def show(self, end: int) -> list[PendingAppend]:
        """Show what is stored below this offset; return the appends of it that are in memory."""
        shown: list[PendingAppend] = []
        if self.hidden is not None:
            if end < self.hidden[0]:
                return shown
            (self.offset, self.place), self.hidden = self.hidden, None
        waiting = self.waiting
        while waiting and (first := waiting[0]).next_offset <= end:
            self.offset, self.place = first.next_offset, (first.segment, first.position + first.size)
            shown.append(waiting.popleft())
        return shown
