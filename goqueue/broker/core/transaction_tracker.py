"""The open and aborted transactions of a replica, kept up to date from the copies that its leader sends.

A marker counts once it is committed. Until then its transaction stays open here, so a cut of the log, which leaves what
is committed, undoes nothing that readers have seen. Below the first undecided offset every transaction is decided: from
there the log is looked at anew where the state cannot be trusted, at a start and after this node has led.
"""

from bisect import bisect_right
from collections import deque
from functools import partial
from typing import NamedTuple

import numpy as np

from goqueue.broker.core.open_transactions import OpenTransaction, OpenTransactions
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.producer_checkpoint import read_stored
from goqueue.broker.core.producers import ProducerMark, marks_in
from goqueue.broker.core.work import Work
from goqueue.clock import NANOSECONDS
from goqueue.limits import OFFSET_MAX, READ_BYTES_MAX, TRANSACTION_SECONDS_MAX
from goqueue.storage import frame, scan
from goqueue.storage.raw_reads import first_times
from goqueue.storage.reads import ReadResult
from goqueue.storage.scan import Frames
from goqueue.storage.transaction_marker import TransactionMarker, classify_transactional, markers_in

_LONGEST_NS = round(TRANSACTION_SECONDS_MAX * NANOSECONDS)


class _Traces(NamedTuple):
    """The traces of transactions in some frames."""

    first: int
    end: int
    edges: list[int]
    """Offsets of frames that do not go on with the batch before them."""
    rows: list[tuple[int, ProducerMark | TransactionMarker]]
    """Marks of batches and markers, by offset."""


def _traces_in(frames: Frames) -> _Traces:
    first, end = frames.first_offset, frames.last_offset + 1
    if not has_transactional(frames):
        return _Traces(first, end, [first], [])
    is_message = classify_transactional(frames)[0]
    found = [(offset, mark) for mark, offset, _ in marks_in(frames.buffer.data)]
    marked = np.fromiter((offset for offset, _ in found), np.int64, len(found))
    foreign = ~is_message | np.isin(frames.offsets, marked)
    in_transactions = set(frames.offsets[is_message].tolist())
    rows: list[tuple[int, ProducerMark | TransactionMarker]] = [one for one in found if one[0] in in_transactions]
    rows += markers_in(frames)
    return _Traces(first, end, frames.offsets[foreign].tolist(), sorted(rows, key=lambda row: row[0]))


def has_transactional(frames: Frames) -> bool:
    """Return whether some of these are messages or markers of transactions."""
    return bool(int(np.bitwise_or.reduce(frames.flags)) & frame.TRANSACTIONAL)


class TransactionTracker:
    """Follows the transactions of one replica. While it looks anew, nothing is appended."""

    def __init__(self, partition: Partition, undecided: int | None = 0) -> None:
        """Below the offset `undecided` everything is decided; None: what the log shows is from before the cluster."""
        self._partition = partition
        self._undecided = undecided
        self._unfinished: tuple[OpenTransaction, int] | None = None
        """The transaction whose batch may go on in the next frames, and where the batch ends."""
        self._markers: deque[tuple[int, TransactionMarker]] = deque()
        """Those that are not committed yet."""
        self.is_doubtful = False
        """Whether the log must be looked at anew."""
        self._doubt_from(partition.earliest if undecided is None else undecided)

    def doubt(self) -> None:
        """Trust nothing that is known above the first undecided offset until the log was looked at anew."""
        if not self.is_doubtful:
            self._undecided = self._partition.last_stable
            self._doubt_from(self._undecided)

    def _doubt_from(self, since: int) -> None:
        self.is_doubtful = True
        self._partition.open.hold(since, max(since, self._partition.log_end), {})

    def look_anew(self, undecided: int | None = None) -> Work[None]:
        """Find what is open in all that is stored; below `undecided`, if given, everything is decided."""
        partition = self._partition
        offset = self._undecided if undecided is None else undecided
        if offset is None:
            offset = yield from self._oldest()
        self._unfinished, self._markers = None, deque()
        partition.open = OpenTransactions()
        self._doubt_from(offset)
        offset = max(offset, partition.earliest)
        while offset < partition.log_end:
            read = yield from read_stored(partition, offset, READ_BYTES_MAX)
            for traces in (yield partial(_traces_of, read)):
                self._take(traces)
            if read.next_offset == offset:
                break
            offset = read.next_offset
        partition.open.held, self.is_doubtful = None, False
        self.committed(partition.high_watermark)
        partition.wake()

    def _oldest(self) -> Work[int]:
        """Return an offset before everything that may be open: a transaction has a greatest duration."""
        log = self._partition.log
        times = yield partial(first_times, log.disk, [one for one in log.segments if one.size])
        since_ns = log.last_time - _LONGEST_NS
        older = [one.base_offset for one in log.segments if times.get(one, OFFSET_MAX) <= since_ns]
        return max(older, default=self._partition.earliest)

    def begin_anew(self) -> None:
        """The log has become empty."""
        self._unfinished, self._markers, self.is_doubtful = None, deque(), False

    def look(self, frames: Frames) -> None:
        """Take copies that were appended."""
        if self._unfinished is not None or has_transactional(frames):
            self._take(_traces_in(frames))

    def _take(self, traces: _Traces) -> None:
        edges = [*traces.edges, traces.end]
        if self._unfinished is not None:
            opened, end = self._unfinished
            self._add(opened, traces.first, end, edges[0], is_last=edges[0] == traces.end)
        for offset, trace in traces.rows:
            if isinstance(trace, TransactionMarker):
                self._markers.append((offset, trace))
            else:
                opened = self._partition.open.following(trace.producer, trace.epoch)
                behind = bisect_right(edges, offset)
                self._add(opened, offset, offset + trace.count, edges[behind], is_last=behind == len(edges) - 1)

    def _add(self, opened: OpenTransaction, first: int, end: int, stop: int, *, is_last: bool) -> None:
        """Add what is there of a batch: it ends, or other frames follow at `stop`."""
        if first < min(end, stop):
            opened.add(first, min(end, stop))
        self._unfinished = (opened, end) if is_last and stop < end else None

    def committed(self, high_watermark: int) -> None:
        """End the transactions whose markers are committed now."""
        while self._markers and self._markers[0][0] < high_watermark:
            self._end(self._markers.popleft()[1])

    def _end(self, marker: TransactionMarker) -> None:
        partition = self._partition
        partition.open.pass_over(marker.producer, marker.epoch, marker.ranges[-1][1])
        if not marker.is_commit:
            partition.aborted.note(marker.ranges)

    def __repr__(self) -> str:
        return f"<TransactionTracker {len(self._partition.open)} open, {len(self._markers)} ending>"


def _traces_of(read: ReadResult) -> list[_Traces]:
    return [_traces_in(scan.walk(buffer)) for buffer in read.buffers]
