"""The newest frames of a log, in memory: those not yet written, and some that readers may still want.

All tails of a data directory share one budget, first in, first out. A chunk leaves when the budget
is spent and the chunk is settled: written, or taken back. What the disk does not have stays.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from goqueue.errors import GoQueueError
from goqueue.storage.extent import Read
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment

Acknowledge = Callable[[GoQueueError | None], None]
CHUNK_OVERHEAD_BYTES = 512
"""What the objects around a chunk cost, so that a budget holds for tiny chunks as well."""


@dataclass(slots=True, eq=False)
class Chunk:
    """Frames that were appended together, with all that the flusher needs to write them."""

    segment: Segment
    position: int
    first_offset: int
    time: int
    frames: Frames
    entry_number: int
    """How many entries the segment's index has before this chunk."""
    entries: bytes
    times: bytes
    """What `.index` and `.timeindex` gain from that entry on."""
    acknowledge: Acknowledge | None
    settled: bool = False

    @property
    def next_offset(self) -> int:
        return self.first_offset + len(self.frames)

    @property
    def size(self) -> int:
        return len(self.frames.buffer)

    def answer(self, error: GoQueueError | None) -> None:
        self.settled = True
        if self.acknowledge is not None:
            self.acknowledge(error)

    def read(self, offset: int, limit: int, max_bytes: int) -> tuple[memoryview, int]:
        """A view of the frames from `offset` on that fit, at least one; and the offset behind them."""
        positions = self.frames.positions
        first, last = offset - self.first_offset, min(limit, self.next_offset) - self.first_offset
        start = int(positions[first])
        if self.size - start > max_bytes:
            last = min(last, max(first + 1, bisect_right(positions, start + max_bytes, first) - 1))
        end = int(positions[last]) if last < len(positions) else self.size
        return self.frames.buffer.data[start:end], self.first_offset + last


class Tail:
    """Chunks that follow each other without a gap, numbered in the order of their arrival."""

    def __init__(self) -> None:
        self._chunks: dict[int, Chunk] = {}
        self._numbers = range(0)

    @property
    def first_offset(self) -> int | None:
        return self._chunks[self._numbers.start].first_offset if self._numbers else None

    def add(self, chunk: Chunk) -> None:
        self._chunks[self._numbers.stop] = chunk
        self._numbers = range(self._numbers.start, self._numbers.stop + 1)

    def drop(self, chunk: Chunk) -> None:
        """Let the oldest go, if this is it."""
        first = self._numbers.start
        if self._chunks.get(first) is chunk:
            del self._chunks[first]
            self._numbers = range(first + 1, self._numbers.stop)

    def cut(self, chunk: Chunk) -> None:
        """Forget this chunk and all behind it."""
        stop = next((number for number in self._numbers if self._chunks[number] is chunk), self._numbers.stop)
        for number in range(stop, self._numbers.stop):
            del self._chunks[number]
        self._numbers = range(self._numbers.start, stop)

    def clear(self) -> None:
        """Forget all of them, settled or not."""
        for chunk in self._chunks.values():
            chunk.settled = True
        self._chunks.clear()
        self._numbers = range(self._numbers.stop, self._numbers.stop)

    def first_since(self, time: int) -> int | None:
        """The first offset with this time or a later one, unless it may be older than this tail."""
        number = bisect_left(self._numbers, time, key=lambda number: self._chunks[number].time)
        if not number:
            return None
        if number == len(self._numbers):
            return self._chunks[self._numbers[-1]].next_offset
        return self._chunks[self._numbers[number]].first_offset

    def read(self, offset: int, limit: int, max_bytes: int) -> Read:
        """The frames from `offset` on, which must be here."""
        place = bisect_right(self._numbers, offset, key=lambda number: self._chunks[number].first_offset) - 1
        views: list[memoryview] = []
        for number in self._numbers[place:]:
            chunk = self._chunks[number]
            if offset >= limit:
                break
            if not len(chunk.frames):
                continue
            view, after = chunk.read(offset, limit, max_bytes)
            if views and len(view) > max_bytes:
                break
            views.append(view)
            offset, max_bytes = after, max_bytes - len(view)
            if offset < chunk.next_offset:
                break
        return Read(tuple(views), offset)


class TailBudget:
    """What all tails together may hold."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held = 0
        self._queue: deque[tuple[Tail, Chunk]] = deque()

    @property
    def held_bytes(self) -> int:
        return self._held

    def add(self, tail: Tail, chunk: Chunk) -> None:
        tail.add(chunk)
        self._queue.append((tail, chunk))
        self._held += chunk.size + CHUNK_OVERHEAD_BYTES
        while self._held > self._most and self._queue[0][1].settled:
            tail, oldest = self._queue.popleft()
            self._held -= oldest.size + CHUNK_OVERHEAD_BYTES
            tail.drop(oldest)
