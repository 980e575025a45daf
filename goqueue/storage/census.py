"""How many messages a segment holds where its offsets do not tell: behind compaction, with control records, in damage.

A census is taken once, by a survey of the file, and remembers how many messages precede the first frame of each
block of 256 KiB. With that, a question about any offsets reads only the blocks that their edges fall into, and one
about all of them reads nothing.

What must stay true: a census speaks of a prefix of one file that never changes. It is never changed itself either,
so that it may be taken and asked on any thread, and goes with the segment that it belongs to.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from goqueue.limits import KIB, MIB
from goqueue.storage import frame
from goqueue.storage.disk import File
from goqueue.storage.index import Index
from goqueue.storage.scan import Frames, Positions
from goqueue.storage.survey import Damage, Stretch, survey

Span = tuple[int, int]
"""Offsets from the first up to, not including, the second."""

BLOCK_BYTES = 256 * KIB  # read in a fraction of a millisecond; a segment of 64 MiB needs 6 KiB of memory
STEP_BYTES = 16 * MIB  # surveyed in one go: a thread is not held for longer than some ten milliseconds


@dataclass(frozen=True, slots=True)
class Tally:
    """Messages that were counted, and the append time of the first of them."""

    messages: int
    first_ns: int | None


def _none() -> Positions:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Census:
    """What is known of a segment's messages below `next_offset`, which comes at the position `end`."""

    next_offset: int
    end: int = 0
    messages: int = 0
    first_ns: int | None = None
    """The time of the first message."""
    last_time: int = 0
    is_sound: bool = True
    """Whether nothing was damaged."""
    block_bytes: int = BLOCK_BYTES
    offsets: Positions = field(default_factory=_none)
    """Of the first frame in each block."""
    positions: Positions = field(default_factory=_none)
    before: Positions = field(default_factory=_none)
    """How many messages come before that frame."""

    def extended(
        self, file: File, end: int, next_offset: int, index: Index | None = None, step_bytes: int = STEP_BYTES
    ) -> "Census":
        """The same for a step more of the file, or up to where `next_offset` comes at the position `end`."""
        census = self
        for piece in survey(file, Stretch(self.end, end, self.next_offset, next_offset, self.last_time), index):
            if isinstance(piece, Damage):
                census = replace(census, end=piece.end, next_offset=piece.next_offset, is_sound=False)
            else:
                census = census._with(piece)
            if self.end + step_bytes <= census.end < end:
                return census
        return replace(census, end=end, next_offset=next_offset)

    def _with(self, frames: Frames) -> "Census":
        offsets, times, places = frames.offsets, frames.timestamps, frames.positions + frames.origin
        counts = (frames.flags & frame.CONTROL) == 0
        totals = self.messages + np.cumsum(counts)
        last_block = int(self.positions[-1]) // self.block_bytes if len(self.positions) else -1
        due = np.flatnonzero(np.diff(places // self.block_bytes, prepend=last_block))
        first_ns = self.first_ns
        if first_ns is None and counts.any():
            first_ns = int(times[np.argmax(counts)])
        return replace(
            self,
            next_offset=int(offsets[-1]) + 1,
            end=frames.origin + frames.end,
            messages=int(totals[-1]),
            first_ns=first_ns,
            last_time=int(times[-1]),
            offsets=np.append(self.offsets, offsets[due]),
            positions=np.append(self.positions, places[due]),
            before=np.append(self.before, (totals - counts)[due]),
        )

    def whole(self) -> Tally:
        return Tally(self.messages, self.first_ns)

    def tally(self, file: File, spans: Sequence[Span] | Positions) -> Tally:
        """Those in these spans, which are in order and do not overlap."""
        edges = self._before(file, np.array(spans, np.int64).ravel())
        found = edges[1::2] - edges[::2]
        if not found.any():
            return Tally(0, None)
        return Tally(int(found.sum()), self._time(file, int(edges[::2][np.argmax(found > 0)])))

    def _before(self, file: File, edges: Positions) -> Positions:
        """How many messages come before each of these offsets."""
        blocks = np.searchsorted(self.offsets, edges, "right") - 1
        counts = np.append(self.before, 0)[blocks]  # there are none before the first frame
        open_ones = (blocks >= 0) & (edges < self.next_offset)
        open_ones[open_ones] = self.offsets[blocks[open_ones]] != edges[open_ones]
        counts[edges >= self.next_offset] = self.messages
        for block in np.unique(blocks[open_ones]).tolist():
            here = open_ones & (blocks == block)
            counts[here] += np.searchsorted(self._block(file, block)[0], edges[here])
        return counts

    def _time(self, file: File, number: int) -> int | None:
        """The time of the message before which there are so many; if it was lost since then, of one behind it."""
        if number == 0:
            return self.first_ns
        first = int(np.searchsorted(self.before, number, "right")) - 1
        for block in range(first, len(self.before)):
            times = self._block(file, block)[1]
            place = max(0, number - int(self.before[block]))
            if place < len(times):
                return int(times[place])
        return self.last_time

    def _block(self, file: File, block: int) -> tuple[Positions, Positions]:
        """The offsets and times of the messages in a block, as many as were counted there."""
        is_last = block + 1 == len(self.offsets)
        end, ceiling = (
            (self.end, self.next_offset) if is_last else (int(self.positions[block + 1]), int(self.offsets[block + 1]))
        )
        most = (self.messages if is_last else int(self.before[block + 1])) - int(self.before[block])
        offsets, times = [_none()], [_none()]
        for piece in survey(file, Stretch(int(self.positions[block]), end, int(self.offsets[block]), ceiling)):
            if not isinstance(piece, Damage):
                counts = (piece.flags & frame.CONTROL) == 0
                offsets.append(piece.offsets[counts])
                times.append(piece.timestamps[counts])
        return np.concatenate(offsets)[:most], np.concatenate(times)[:most]

    def __repr__(self) -> str:
        return f"<Census of {self.messages} messages below {self.next_offset}, {len(self.offsets)} blocks>"
