"""Reading a log from its beginning to its visible end, slowly, to find what the disk has changed since it was written.

A pass also makes a digest of each whole block of offsets, from the checksums of its frames. Replicas have the same
frames, so that they compare these digests in place of their messages.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from crc32c import crc32c

from goqueue.storage.compaction import SealedSegment
from goqueue.storage.compaction_progress import load_progress
from goqueue.storage.disk import Disk
from goqueue.storage.log import Log
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment
from goqueue.storage.segment_repair import DamageSearch, pieces_of
from goqueue.storage.segment_scan import Damage

BLOCK_OFFSETS = 4096


@dataclass(slots=True)
class BlockDigests:
    """The digests of blocks of offsets: CRC-32C over the checksums of their frames, where no offset is missing."""

    known: dict[int, int] = field(default_factory=dict)
    """By the number of the block."""
    _next: int = -1
    """The offset that goes on with the block; -1: it is not known from its beginning."""
    _digest: int = 0

    def note(self, frames: Frames) -> None:
        """Take the next frames of the log."""
        offsets, checksums = frames.offsets, frames.checksums.astype(">u4")
        edges = [0, *(np.flatnonzero(np.diff(offsets) != 1) + 1).tolist(), len(offsets)]
        for first, last in itertools.pairwise(edges):
            self._take(int(offsets[first]), checksums[first:last].tobytes())

    def _take(self, offset: int, checksums: bytes) -> None:
        while checksums:
            block, place = divmod(offset, BLOCK_OFFSETS)
            size = 4 * (BLOCK_OFFSETS - place)
            part, checksums = checksums[:size], checksums[size:]
            if place == 0:
                self._next, self._digest = offset, 0
            is_known = offset == self._next
            offset += len(part) // 4
            self._next = offset if is_known else -1
            if is_known:
                self._digest = crc32c(part, self._digest)
                if offset % BLOCK_OFFSETS == 0:
                    self.known[block] = self._digest


@dataclass(slots=True)
class SegmentScrub:
    """The scrub of one segment, in steps that any thread may take."""

    disk: Disk
    segment: Segment
    """As the log has it; what is read is the part that was visible."""
    sealed: SealedSegment
    digests: BlockDigests
    damages: list[Damage] = field(default_factory=list)
    _pieces: Iterator[Frames | Damage] | None = None
    _search: DamageSearch = field(init=False)

    def step(self, size: int) -> int:
        """Read about so many bytes more; return how many, 0 at the end."""
        if self._pieces is None:
            gaps = load_progress(self.disk, self.segment.directory).gaps  # a follower notes them as it gets them
            self._search = DamageSearch(self.sealed, gaps, self.damages)
            self._pieces = pieces_of(self.sealed, self.disk)
        start = self._search.position
        for piece in self._pieces:
            self._search.note(piece)
            if not isinstance(piece, Damage):
                self.digests.note(piece)
            if self._search.position - start >= size:
                break
        else:
            self._search.end()
        return self._search.position - start


def scrub_from(log: Log, disk: Disk, offset: int, digests: BlockDigests) -> SegmentScrub | None:
    """Return the scrub of the next segment at or behind an offset; None at the visible end."""
    for number, segment in enumerate(log.segments[: len(log.sealed()) + 1]):
        size, next_offset = log.bounds(number)
        if next_offset > offset:
            visible = Segment(segment.directory, segment.base_offset, size)
            return SegmentScrub(disk, segment, SealedSegment(visible, next_offset), digests)
    return None
