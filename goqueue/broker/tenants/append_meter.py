"""Counts what is appended to a partition, as far as it is durable."""

from collections import deque

import numpy as np

from goqueue.broker.core.partition import Partition
from goqueue.errors import GoQueueError
from goqueue.storage import frame, scan
from goqueue.storage.log import AppendResult
from goqueue.storage.scan import Frames

_READ_BYTES = 1024 * 1024
_PENDING_MAX = 64  # appends of some milliseconds


class AppendMeter:
    """Messages and bytes of frames in a partition from an offset on, without control records."""

    __slots__ = ("_busy", "_pending", "_taken", "_unsubscribe", "end", "messages", "partition", "size")

    def __init__(self, partition: Partition, first: int, busy: "set[AppendMeter]") -> None:
        """Count all that is stored from `first` on, and what is appended from now on.

        It adds itself to `busy` when it has something to `take`.
        """
        self.partition = partition
        self._busy = busy
        self._taken = (0, 0)
        self.end = max(first, partition.log.first_offset)
        """Everything below is counted."""
        self.messages = 0
        self.size = 0
        self._pending: deque[tuple[int, int, int]] = deque()
        """Appends that may be refused: the offset behind each, its messages and bytes."""
        self._catch_up()
        if self.messages:
            busy.add(self)
        self._unsubscribe = partition.on_appended.subscribe(self._note)

    def stop(self) -> None:
        """End it for a partition that was deleted: what waits is refused."""
        self._unsubscribe()
        self._pending.clear()
        self._busy.discard(self)

    def take(self) -> tuple[int, int]:
        """Return the messages and bytes that became durable since the last time."""
        self._settle()
        if not self._pending:
            self._busy.discard(self)
        messages, size = self._taken
        self._taken = self.messages, self.size
        return self.messages - messages, self.size - size

    def _settle(self) -> None:
        """Count the appends that are durable now, and forget the refused ones."""
        pending, log = self._pending, self.partition.log
        while pending and pending[-1][0] > log.next_offset:
            pending.pop()
        # In a cluster a tail that is not committed may be cut off.
        end = log.durable_end if self.partition.leadership is None else self.partition.high_watermark
        while pending and pending[0][0] <= end:
            self.end, messages, size = pending.popleft()
            self.messages += messages
            self.size += size

    def _note(self, frames: Frames, appended: AppendResult) -> None:
        pending = self._pending
        while pending and pending[-1][0] > appended.first_offset:  # refused, and the offsets are given out again
            pending.pop()
        if not pending:
            self._busy.add(self)
        if frames.buffer[int(frames.positions[0]) + frame.AT_FLAGS] & frame.CONTROL:
            pending.append((appended.next_offset, 0, 0))  # control records are appended without messages
        else:
            pending.append((appended.next_offset, len(frames.positions), int(frames.end)))
        if len(pending) > _PENDING_MAX:
            self._settle()

    def _catch_up(self) -> None:
        """Count what was appended before this existed. Damaged ranges count as nothing."""
        log, offset = self.partition.log, self.end
        while offset < log.durable_end:
            try:
                read = log.read(offset, _READ_BYTES, skip_damage=True)
            except GoQueueError:  # a fenced log has no new messages
                return
            for buffer in read.buffers:
                messages, size = _count(scan.walk(buffer))
                self.messages += messages
                self.size += size
            if read.next_offset == offset:
                break
            offset = read.next_offset
        self.end = offset


def _count(frames: Frames) -> tuple[int, int]:
    """Return how many messages these are, and their bytes."""
    control = (frames.buffer[frames.positions + frame.AT_FLAGS] & frame.CONTROL) != 0
    return int(np.count_nonzero(~control)), int(frames.lengths[~control].sum())
