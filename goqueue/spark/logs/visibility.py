"""Find the frames that are messages to a reader: no control records, and committed messages of transactions.

A broker is asked, once for a split, and only if that has messages of transactions. Of a directory it may have kept
beside sealed segments what was aborted in them. Otherwise the log itself says it: the marker that ends a transaction
stands behind its messages, and names them. So a task that comes upon such messages looks ahead in its log until their
markers are found, and reads on where it was.

What must stay true: reading the same plan twice gives the same messages. So nothing is looked at behind the end
that a log had when the plan was made: what was open there counts as open, even if it has been committed since.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from goqueue.errors import GoQueueError, TransactionPending
from goqueue.spark.logs.port import READ_UNCOMMITTED, LogSource, PartitionRef, TransactionDecisions
from goqueue.spark.logs.splits import ON_LOSS, DamagedBytes, FrameRun, ReadItem, Split, read_split
from goqueue.storage import frame
from goqueue.storage.log_view import LogView
from goqueue.storage.scan import Frames, Positions
from goqueue.storage.transaction_marker import classify_transactional, ranges_in

Mask = NDArray[np.bool_]

_STEP = 1024  # offsets: most transactions end soon
_KINDS = np.uint8(frame.CONTROL | frame.TRANSACTIONAL)


def read_messages(logs: LogSource, split: Split, *, fails_on_loss: bool = False) -> Iterator[ReadItem]:
    """Yield a split as `read_split` does; each run knows which of its frames are no messages."""
    outcomes = TransactionFilter(logs, split, fails_on_loss=fails_on_loss)
    for piece in read_split(logs, split):
        yield outcomes.judged(piece) if isinstance(piece, FrameRun) else piece


class TransactionFilter:
    """The results of the transactions that a task reads messages of, in the order of offsets."""

    def __init__(self, logs: LogSource, split: Split, *, fails_on_loss: bool = False) -> None:
        self._logs = logs
        self._split = split
        self._fails_on_loss = fails_on_loss
        self._source: _BrokerOutcomes | _MarkerOutcomes | None = None

    def judged(self, run: FrameRun) -> FrameRun:
        """Return the run with its frames judged. Without transactions that costs a look at the flags."""
        kinds = run.frames.flags & _KINDS
        if not kinds.any():
            return run
        dropped: Mask = (kinds & np.uint8(frame.CONTROL)) != 0
        in_transactions = np.flatnonzero(kinds == frame.TRANSACTIONAL)
        if len(in_transactions) and self._logs.isolation != READ_UNCOMMITTED:
            offsets = run.frames.offsets[in_transactions]
            dropped[in_transactions] = ~self._known().committed(offsets, run.frames)
        return replace(run, dropped=dropped)

    def _known(self) -> "_BrokerOutcomes | _MarkerOutcomes":
        if self._source is None:
            split = self._split
            told = self._logs.decided(split.topic, split.partition, split.first, split.end, split.segments)
            found = _MarkerOutcomes(self._logs, split, fails_on_loss=self._fails_on_loss)
            self._source = found if told is None else _BrokerOutcomes(told)
        return self._source


class _BrokerOutcomes:
    """By the broker."""

    def __init__(self, decided: TransactionDecisions) -> None:
        self._aborted = np.array(decided.aborted, np.int64).reshape(-1, 2)
        self._end = decided.end

    def committed(self, offsets: Positions, _: Frames) -> Mask:
        return (offsets < self._end) & ~is_within(offsets, self._aborted)


class _MarkerOutcomes:
    """By the markers in the log, as far as they are known: those of the run at hand, and those behind it."""

    def __init__(self, logs: LogSource, split: Split, *, fails_on_loss: bool) -> None:
        self._logs = logs
        self._split = split
        self._fails_on_loss = fails_on_loss
        self._committed = self._aborted = np.empty((0, 2), np.int64)
        self._ahead: Iterator[Frames] = iter(())
        self._looked_to = split.first

    def committed(self, offsets: Positions, frames: Frames) -> Mask:
        """Return which of these transactional messages, which are among these frames, were committed."""
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
        return is_within(offsets, self._committed)

    def _are_decided(self, offsets: Positions) -> bool:
        return bool(self._is_decided(offsets).all())

    def _is_decided(self, offsets: Positions) -> Mask:
        return is_within(offsets, np.concatenate((self._committed, self._aborted)))

    def _pending(self, offset: int) -> GoQueueError:
        """Return an error instead of omitting messages: the broker is about to write the marker, or it was lost."""
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
        """Yield the frames that follow in the log, up to its end when it was planned; a few at first, then more."""
        split = self._split
        horizon = self._logs.view(split.topic, split.partition).end if split.horizon is None else split.horizon
        step = _STEP
        while first < horizon:
            end = min(first + step, horizon)
            for piece in read_split(self._logs, replace(split, first=first, end=end, begins=False)):
                if isinstance(piece, FrameRun):
                    yield piece.frames
                elif isinstance(piece, DamagedBytes) and self._fails_on_loss:
                    raise piece.error
            first, step = end, 2 * step


def is_within(offsets: Positions, ranges: Positions) -> Mask:
    """Return which of these rising offsets lie in ranges, given as rows of first offset and end."""
    begun, over = (np.bincount(np.searchsorted(offsets, edges), minlength=len(offsets) + 1) for edges in ranges.T)
    inside: Mask = np.cumsum((begun - over)[:-1]) > 0
    return inside


def stable_views(logs: LogSource, places: Iterable[PartitionRef]) -> dict[PartitionRef, LogView]:
    """Return what may be read of these partitions, up to the offset from which transactions are open.

    Transactions are asked for behind the views: whatever has begun before a view is among them.
    """
    found = {ref: logs.view(*ref) for ref in places}
    for ref, since in logs.touched().items():
        if ref in found:
            found[ref] = replace(found[ref], stable=_first_open(logs, ref, since, found[ref]))
    return found


def _first_open(logs: LogSource, ref: PartitionRef, since: int, view: LogView) -> int | None:
    """Return the first message from `since` on of a transaction that has no marker."""
    left = np.empty(0, np.int64)
    first = max(since, view.earliest)
    if first < view.end:
        for piece in read_split(logs, Split(*ref, first, view.end, view.size, view.segments)):
            if isinstance(piece, FrameRun):
                left = np.concatenate((left, piece.frames.offsets[classify_transactional(piece.frames)[0]]))
                left = left[~is_within(left, ranges_in(piece.frames)[0])]
    return int(left[0]) if len(left) else None
