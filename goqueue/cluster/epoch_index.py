"""The facts of a log that Raft needs: where its epochs begin, and how far it goes."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter

EpochRow = tuple[int, int]
"""An epoch, and the offset of its first record."""

_epoch, _start = itemgetter(0), itemgetter(1)


class EpochIndex:
    """The epochs of a log. What stands before the first row has epoch 0.

    The last row that begins before the log's start is kept: it has the epoch of the oldest record.
    """

    __slots__ = ("durable_end", "end", "rows", "start")

    def __init__(self, rows: Iterable[EpochRow] = (), end: int = 0, start: int = 0) -> None:
        self.rows = list(rows)
        self.start = start
        """The first offset that the log holds."""
        self.end = end
        self.durable_end = end

    @property
    def last_epoch(self) -> int:
        return self.rows[-1][0] if self.rows else 0

    def epoch_before(self, offset: int) -> int:
        """Return the epoch of the record before this offset; 0 if there is none."""
        rows = self.rows
        if rows and offset > rows[-1][1]:  # nearly always
            return rows[-1][0]
        number = bisect_left(rows, offset, key=_start)
        return rows[number - 1][0] if number else 0

    def rows_between(self, base: int, end: int) -> tuple[EpochRow, ...]:
        """Return the epochs that begin in this range."""
        rows = self.rows
        if not rows or rows[-1][1] < base:
            return ()
        return tuple(rows[bisect_left(rows, base, key=_start) : bisect_left(rows, end, key=_start)])

    def end_of(self, epoch: int) -> EpochRow:
        """Return the greatest epoch that is not above this one, and where it ends."""
        number = bisect_right(self.rows, epoch, key=_epoch)
        end = self.rows[number][1] if number < len(self.rows) else self.end
        return (self.rows[number - 1][0] if number else 0), end

    def common_end(self, epoch: int) -> EpochRow | None:
        """Return the greatest epoch that is held and not above this one, and where it ends; None if all are above."""
        first = self.epoch_before(self.start + 1)
        return None if epoch < first else self.end_of(epoch)

    def forget_below(self, start: int) -> None:
        """The log begins at this offset now."""
        self.start = start
        del self.rows[: max(0, bisect_left(self.rows, start, key=_start) - 1)]

    def reset(self, start: int, rows: Iterable[EpochRow]) -> None:
        """The log is empty, and goes on at this offset."""
        self.rows = list(rows)
        self.start = self.end = self.durable_end = start

    def extend(self, end: int, rows: Iterable[EpochRow] = ()) -> None:
        self.rows += rows
        self.end = end

    def cut(self, end: int) -> None:
        del self.rows[bisect_left(self.rows, end, key=_start) :]
        self.end = self.durable_end = end
