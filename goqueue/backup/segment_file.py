"""A segment of a backup as a file of frames, whose pieces are fetched where they are read, and its index.

Pieces begin and end with frames, and the manifest has the header of the last frame of each. So the index is known
without reading anything: where a piece begins, all frames before it have lower offsets and no later times.
"""

from collections import OrderedDict
from itertools import accumulate, pairwise

from goqueue.backup.manifest import LogEntry, SegmentEntry
from goqueue.backup.piece_reader import load_piece
from goqueue.backup.pieces import ReadOnlyFile
from goqueue.backup.target import BackupTarget
from goqueue.backup.target_storage import Content
from goqueue.errors import BackupDamaged
from goqueue.storage import frame
from goqueue.storage.index import Index

_PIECES_HELD = 2


class BackupSegmentFile(ReadOnlyFile):
    """The bytes of a segment. A piece that is damaged or lost reads as zeros, which scans report as damage."""

    def __init__(self, target: BackupTarget, segment: SegmentEntry) -> None:
        self._target = target
        self._pieces = segment.pieces
        self._ends = list(accumulate(piece.size for piece in segment.pieces))
        self._held = OrderedDict[int, Content]()

    def size(self) -> int:
        return self._ends[-1] if self._ends else 0

    def read(self, position: int, into: memoryview) -> int:
        count = max(0, min(len(into), self.size() - position))
        for number, (begin, end) in enumerate(pairwise((0, *self._ends))):
            first, stop = max(begin, position), min(end, position + count)
            if first < stop:
                content = memoryview(self._content(number))
                into[first - position : stop - position] = content[first - begin : stop - begin]
        return count

    def _content(self, number: int) -> Content:
        held = self._held
        if number not in held:
            held[number] = self._load(number)
            while len(held) > _PIECES_HELD:
                held.popitem(last=False)
        held.move_to_end(number)
        return held[number]

    def _load(self, number: int) -> Content:
        piece = self._pieces[number]
        try:
            return load_piece(self._target, piece)
        except BackupDamaged:
            return bytes(piece.size)


def piece_index(log: LogEntry, segment: SegmentEntry) -> Index:
    """Return an entry for each piece but the first; none where the segment was damaged when it was copied."""
    index, position = Index(), 0
    if any(one.base_offset == segment.base_offset for one in log.damages):
        return index
    for piece, _ in pairwise(segment.pieces):
        position += piece.size
        if piece.last_frame >= 0:
            header = bytes.fromhex(piece.last_header)
            index.add(frame.offset_at(header) + 1, position, frame.timestamp_at(header))
    return index
