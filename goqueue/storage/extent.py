"""Reading from a segment: what was decided on the owner's thread and is done on any.

What must stay true: no frame leaves here whose checksum was not verified, and an entry of the
index counts only when the frame that it points to has the offset that it says. Whatever looks
wrong makes the reader examine the whole segment once, and only then is it called damaged.
"""

from dataclasses import dataclass

import numpy as np

from goqueue.errors import DiskFailed, RangeDamaged
from goqueue.limits import OFFSET_MAX
from goqueue.storage import scan
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Reader
from goqueue.storage.survey import Damage


@dataclass(frozen=True, slots=True)
class Read:
    """Whole frames, in order, ready to be sent on: the views are not copies."""

    buffers: tuple[memoryview, ...]
    next_offset: int
    """Where the next read goes on."""
    skipped: tuple[Damage, ...] = ()

    @property
    def size(self) -> int:
        return sum(map(len, self.buffers))


@dataclass(frozen=True, slots=True)
class Extent:
    """A read that has been decided but not done."""

    reader: Reader
    offset: int
    limit: int
    """The first offset that must not be read."""
    end: int
    """The first position that must not be read."""
    next_offset: int
    """The offset that comes at that position."""
    max_bytes: int
    skip_damage: bool = False
    hint: tuple[int, int] | None = None
    """An offset at or before the one wanted, and where its frame starts."""

    def load(self) -> Read:
        """Read and verify; always at least one whole frame where there is one."""
        read = self._attempt(self.hint) if self.hint else None
        if read is None:
            index = self.reader.examine(self.end, self.next_offset)
            read = self._attempt(index.start_for(index.before_offset(self.offset)))
        if read is None:
            raise RangeDamaged(f"{self.reader.segment.path} changed while it was read", hint="read again")
        return read

    def _attempt(self, hint: tuple[int, int]) -> Read | None:
        """The frames, or None where something is not as it should be."""
        damages = self.reader.damages
        offset, skipped = self._beyond(damages)
        expected, position = hint
        allowed = range(expected, expected + 1) if expected >= 0 else range(OFFSET_MAX)
        behind = max((damage.end for damage in damages if damage.next_offset <= offset), default=0)
        if behind > position:
            allowed, position = range(OFFSET_MAX), behind
        stop = min((damage.position for damage in damages if damage.position >= position), default=self.end)
        room = self.max_bytes + 2 * scan.PLAIN_BYTES
        while position < stop:
            content = np.empty(min(room, stop - position), np.uint8)
            try:
                if self.reader.file.read(position, content.data) < len(content):
                    return None
            except DiskFailed:
                return None
            frames = scan.walk(content)
            announced = scan.announced(content, frames.end, stop - position)
            if not announced or not _trustworthy(frames, allowed):
                return None
            read = self._chosen(frames, offset, skipped)
            if read is not None:
                return read
            position += frames.end
            room = max(room, announced)
            if len(frames):
                allowed = range(frames.last_offset + 1, OFFSET_MAX)
        next_offset = next((damage.first_offset for damage in damages if damage.position == stop), self.next_offset)
        return Read((), max(offset, next_offset), skipped)

    def _beyond(self, damages: tuple[Damage, ...]) -> tuple[int, tuple[Damage, ...]]:
        """The offset to start from, and the damage that was skipped to get there."""
        offset, skipped = self.offset, []
        for damage in damages:
            if damage.first_offset <= offset < damage.next_offset:
                if not self.skip_damage:
                    raise damaged(self.reader.segment.path, damage)
                offset = damage.next_offset
                skipped.append(damage)
        return offset, tuple(skipped)

    def _chosen(self, frames: Frames, offset: int, skipped: tuple[Damage, ...]) -> Read | None:
        """As many of these frames as were asked for, if any was."""
        offsets = frames.offsets
        first, last = np.searchsorted(offsets, (offset, self.limit)).tolist()
        if first == len(offsets):
            return None
        if first >= last:
            return Read((), max(offset, self.limit), skipped)
        start = int(frames.positions[first])
        ends = frames.positions + frames.lengths
        last = min(last, max(first + 1, int(np.searchsorted(ends, start + self.max_bytes, "right"))))
        view = frames.buffer.data[start : int(ends[last - 1])]
        return Read((view,), int(offsets[last - 1]) + 1, skipped)


def _trustworthy(frames: Frames, allowed: range) -> bool:
    """Whether these frames are sound and in order, and the first has an offset that it may have."""
    if not len(frames):
        return True
    first = int(frames.offsets[0])
    return (
        first in allowed and scan.verify(frames) == len(frames) and scan.in_order(frames, first - 1, 0) == len(frames)
    )


def damaged(path: str, damage: Damage) -> RangeDamaged:
    return RangeDamaged(
        f"{path} is damaged from byte {damage.position} to {damage.end}: {damage.reason}",
        hint=f"skip the damage, or read on from offset {damage.next_offset}",
        path=path,
        position=damage.position,
        end=damage.end,
        first_offset=damage.first_offset,
        next_offset=damage.next_offset,
    )
