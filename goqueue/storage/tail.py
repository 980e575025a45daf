"""The newest frames of a log, in memory for the readers that keep up.

Only what readers may see gets here, so all of it is in the files as well and may be dropped at any time.
All tails of a data directory share one budget: first in, first out.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from goqueue.storage import frame, scan
from goqueue.storage.reads import ReadResult
from goqueue.storage.scan import Bytes, Positions
from goqueue.storage.writer import PendingAppend

SMALL_BYTES = 16 * 1024
"""What is smaller is joined: a block costs two kilobytes and as much care whatever is in it."""
BLOCK_OVERHEAD_BYTES = 2048


@dataclass(frozen=True, slots=True)
class TailBlock:
    """Frames with offsets that rise by one."""

    first_offset: int
    buffer: Bytes
    positions: Positions

    @property
    def next_offset(self) -> int:
        return self.first_offset + len(self.positions)

    @property
    def first_time(self) -> int:
        return frame.timestamp_at(self.buffer.data)

    @property
    def cost_bytes(self) -> int:
        return len(self.buffer) + self.positions.nbytes + BLOCK_OVERHEAD_BYTES

    def since(self, offset: int) -> "TailBlock":
        """The part of it that begins there."""
        positions = self.positions[offset - self.first_offset :]
        start = int(positions[0])
        return TailBlock(offset, self.buffer[start:], positions - start)

    def first_since(self, time: int) -> int:
        """The first offset with this time or a later one; the next offset if all are older."""
        times = scan.column(self.buffer, ">u8", frame.AT_TIMESTAMP)[self.positions].astype(np.int64)
        return self.first_offset + int(np.searchsorted(times, time))

    def read(self, offset: int, limit: int, max_bytes: int) -> tuple[memoryview, int]:
        """A view of the frames from `offset` on that fit, at least one; and the offset behind them."""
        positions, size = self.positions, len(self.buffer)
        first, last = offset - self.first_offset, min(limit, self.next_offset) - self.first_offset
        start = int(positions[first])
        if size - start > max_bytes:
            last = min(last, max(first + 1, int(np.searchsorted(positions, start + max_bytes, "right")) - 1))
        end = int(positions[last]) if last < len(positions) else size
        return self.buffer.data[start:end], self.first_offset + last


class LogTail:
    """Blocks that follow each other without a gap, numbered in the order of their arrival."""

    def __init__(self) -> None:
        self._blocks: dict[int, TailBlock] = {}
        self._numbers = range(0)

    @property
    def first_offset(self) -> int | None:
        return self._blocks[self._numbers.start].first_offset if self._numbers else None

    def add(self, block: TailBlock) -> int:
        """Take a block, and return the number under which it can be dropped: joined to the last if that is small."""
        numbers = self._numbers
        if numbers and self._blocks[numbers[-1]].next_offset != block.first_offset:  # a gap, as compaction leaves
            self.clear()
            numbers = self._numbers
        if numbers and len(self._blocks[numbers[-1]].buffer) < SMALL_BYTES > len(block.buffer):
            self._blocks[numbers[-1]] = _joined([self._blocks[numbers[-1]], block])
        else:
            self._blocks[numbers.stop] = block
            self._numbers = range(numbers.start, numbers.stop + 1)
        return self._numbers[-1]

    def drop(self, number: int) -> None:
        """Let the oldest go, if this is still its number."""
        if self._numbers and number == self._numbers.start:
            del self._blocks[number]
            self._numbers = self._numbers[1:]

    def drop_before(self, offset: int) -> None:
        """Let go of all below this offset: the files hold something else there now, or nothing."""
        while self._numbers and (oldest := self._blocks[self._numbers.start]).first_offset < offset:
            if offset < oldest.next_offset:  # small appends share a block, of whichever segments they are
                self._blocks[self._numbers.start] = oldest.since(offset)
                return
            self.drop(self._numbers.start)

    def clear(self) -> None:
        self._blocks.clear()
        self._numbers = range(self._numbers.stop, self._numbers.stop)

    def first_since(self, time: int) -> int | None:
        """The first offset with this time or a later one, unless it may be older than this tail."""
        place = bisect_left(self._numbers, time, key=lambda number: self._blocks[number].first_time)
        return self._blocks[self._numbers[place - 1]].first_since(time) if place else None

    def read(self, offset: int, limit: int, max_bytes: int) -> ReadResult:
        """The frames from `offset` on, which must be here."""
        place = bisect_right(self._numbers, offset, key=lambda number: self._blocks[number].first_offset) - 1
        views: list[memoryview] = []
        for number in self._numbers[place:]:
            block = self._blocks[number]
            if offset >= limit:
                break
            view, after = block.read(offset, limit, max_bytes)
            if views and len(view) > max_bytes:
                break
            views.append(view)
            offset, max_bytes = after, max_bytes - len(view)
            if offset < block.next_offset:
                break
        return ReadResult(tuple(views), offset)


class TailBudget:
    """The memory that all tails together may use."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held = 0
        self._queue: deque[tuple[LogTail, int, int]] = deque()

    @property
    def held_bytes(self) -> int:
        return self._held

    def keep(self, tail: LogTail, chunks: Sequence[PendingAppend]) -> None:
        """Add what readers may see now, and let the oldest of all go where that is too much."""
        for block in _blocks(chunks):
            cost = block.cost_bytes
            self._queue.append((tail, tail.add(block), cost))
            self._held += cost
        while self._held > self._most:
            oldest, number, cost = self._queue.popleft()
            oldest.drop(number)
            self._held -= cost


def _blocks(chunks: Sequence[PendingAppend]) -> Iterator[TailBlock]:
    """The chunks as blocks, neighbours joined until they are no longer small."""
    group: list[TailBlock] = []
    gathered = 0
    for chunk in chunks:
        if group and group[-1].next_offset != chunk.first_offset:
            yield _joined(group)
            group, gathered = [], 0
        if len(chunk.frames):
            group.append(TailBlock(chunk.first_offset, chunk.frames.buffer, chunk.frames.positions))
            gathered += chunk.size
        if gathered >= SMALL_BYTES:
            yield _joined(group)
            group, gathered = [], 0
    if group:
        yield _joined(group)


def _joined(group: list[TailBlock]) -> TailBlock:
    if len(group) == 1:
        return group[0]
    content = np.concatenate([block.buffer for block in group])
    shifted, start = list[Positions](), 0
    for block in group:
        shifted.append(block.positions + start)
        start += len(block.buffer)
    return TailBlock(group[0].first_offset, content, np.concatenate(shifted))
