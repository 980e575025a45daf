"""Which frames are messages to whoever reads: no control records, and of transactions what was committed.

A broker is asked, once for a split, and only if that has messages of transactions. Of a directory it may have kept
beside sealed segments what was aborted in them. Otherwise the log itself says it: the marker that ends a transaction
stands behind its messages, and names them. So a task that comes upon such messages looks ahead in its log until their
markers are found, and reads on where it was.

What must stay true: whoever reads the same plan twice sees the same messages. So nothing is looked at behind the end
that a log had when the plan was made: what was open there counts as open, even if it has been committed since.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from goqueue.errors import GoQueueError, TransactionPending
from goqueue.spark.logs.port import READ_UNCOMMITTED, Decided, Logs
from goqueue.spark.reading import ON_LOSS, Broken, Piece, Run, Split, read
from goqueue.storage import frame
from goqueue.storage.marker import ranges_in
from goqueue.storage.scan import Frames, Positions

Mask = NDArray[np.bool_]

_STEP = 1024  # offsets: most transactions end soon
_KINDS = np.uint8(frame.CONTROL | frame.TRANSACTIONAL)


def read_messages(logs: Logs, split: Split, *, fails_on_loss: bool = False) -> Iterator[Piece]:
    """All of a split as `read` gives it, where each run knows which of its frames are no messages."""
    outcomes = Outcomes(logs, split, fails_on_loss=fails_on_loss)
    for piece in read(logs, split):
        yield outcomes.judged(piece) if isinstance(piece, Run) else piece


class Outcomes:
    """What became of the transactions whose messages a task comes upon, in the order of offsets."""

    def __init__(self, logs: Logs, split: Split, *, fails_on_loss: bool = False) -> None:
        self._logs = logs
        self._split = split
        self._fails_on_loss = fails_on_loss
        self._source: _Told | _Found | None = None

    def judged(self, run: Run) -> Run:
        """The same, with what is known of its frames. Without transactions that costs a look at the flags."""
        kinds = run.frames.flags & _KINDS
        if not kinds.any():
            return run
        dropped: Mask = (kinds & np.uint8(frame.CONTROL)) != 0
        in_transactions = np.flatnonzero(kinds == frame.TRANSACTIONAL)
        if len(in_transactions) and self._logs.isolation != READ_UNCOMMITTED:
            offsets = run.frames.offsets[in_transactions]
            dropped[in_transactions] = ~self._known().committed(offsets, run.frames)
        return replace(run, dropped=dropped)

    def _known(self) -> "_Told | _Found":
        if self._source is None:
            split = self._split
            told = self._logs.decided(split.topic, split.partition, split.first, split.end, split.segments)
            found = _Found(self._logs, split, fails_on_loss=self._fails_on_loss)
            self._source = found if told is None else _Told(told)
        return self._source


class _Told:
    """By the broker."""

    def __init__(self, decided: Decided) -> None:
        self._aborted = np.array(decided.aborted, np.int64).reshape(-1, 2)
        self._end = decided.end

    def committed(self, offsets: Positions, _: Frames) -> Mask:
        return (offsets < self._end) & ~among(offsets, self._aborted)


class _Found:
    """By the markers in the log, as far as they are known: those of the run at hand, and those behind it."""

    def __init__(self, logs: Logs, split: Split, *, fails_on_loss: bool) -> None:
        self._logs = logs
        self._split = split
        self._fails_on_loss = fails_on_loss
        self._committed = self._aborted = np.empty((0, 2), np.int64)
        self._ahead: Iterator[Frames] = iter(())
        self._looked_to = split.first

    def committed(self, offsets: Positions, frames: Frames) -> Mask:
        """Which of these messages of transactions, which are among these frames, were committed."""
        self._forget(int(offsets[0]))
        self._note(frames)
        if self._looked_to <= frames.last_offset:
            self._looked_to = frames.last_offset + 1
            self._ahead = self._look_ahead(self._looked_to)
        while not self._are_decided(offsets) and (seen := next(self._ahead, None)) is not None:
            self._looked_to = seen.last_offset + 1
            self._note(seen)
        if self._fails_on_loss and self._logs.waits() and not self._are_decided(offsets):
            raise self._pending(int(offsets[~self._is_decided(offsets)][0]))
        return among(offsets, self._committed)

    def _are_decided(self, offsets: Positions) -> bool:
        return bool(self._is_decided(offsets).all())

    def _is_decided(self, offsets: Positions) -> Mask:
        return among(offsets, np.concatenate((self._committed, self._aborted)))

    def _pending(self, offset: int) -> GoQueueError:
        """Better than to leave out what is there: the broker is about to write a marker, or it was lost."""
        split = self._split
        return TransactionPending(
            f"how the transaction of offset {offset} of {split.topic}/{split.partition} ended is not in the log yet",
            hint=f"read again; {ON_LOSS} leaves such messages out",
        )

    def _forget(self, below: int) -> None:
        self._committed = self._committed[self._committed[:, 1] > below]
        self._aborted = self._aborted[self._aborted[:, 1] > below]

    def _note(self, frames: Frames) -> None:
        ranges, commits = ranges_in(frames)
        if len(ranges):
            self._committed = np.concatenate((self._committed, ranges[commits]))
            self._aborted = np.concatenate((self._aborted, ranges[~commits]))

    def _look_ahead(self, first: int) -> Iterator[Frames]:
        """What follows in the log, up to where that ended when it was planned; a little at first, then more."""
        split = self._split
        horizon = self._logs.view(split.topic, split.partition).end if split.horizon is None else split.horizon
        step = _STEP
        while first < horizon:
            end = min(first + step, horizon)
            for piece in read(self._logs, replace(split, first=first, end=end, begins=False)):
                if isinstance(piece, Run):
                    yield piece.frames
                elif isinstance(piece, Broken) and self._fails_on_loss:
                    raise piece.error
            first, step = end, 2 * step


def among(offsets: Positions, ranges: Positions) -> Mask:
    """Which of these rising offsets lie in ranges, a row for each of which says where it begins and where it ends."""
    begun, over = (np.bincount(np.searchsorted(offsets, edges), minlength=len(offsets) + 1) for edges in ranges.T)
    inside: Mask = np.cumsum((begun - over)[:-1]) > 0
    return inside
