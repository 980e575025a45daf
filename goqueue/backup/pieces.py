"""Cutting the bytes of a segment into pieces, and looking at pieces again.

A piece ends where a frame ends, unless the bytes are damaged. So each one can be checked alone, and the header of its
last frame proves later whether a segment still has the same bytes up to there: compaction removes frames and keeps the
others byte for byte, so a frame that has its place has all before it.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crc32c import crc32c

from goqueue.backup.manifest import DamagedBytes, Piece
from goqueue.backup.target_storage import Content
from goqueue.errors import BackupDamaged, DiskFailed
from goqueue.limits import BACKUP_OBJECT_BYTES, FRAME_HEADER_BYTES, SCAN_CHUNK_BYTES
from goqueue.storage.disk import Buffer, File
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment


@dataclass(frozen=True, slots=True)
class PieceContent:
    """A piece with its bytes, and the damage in them."""

    piece: Piece
    content: Content
    damages: tuple[Damage, ...] = ()


def piece_of(content: Content, last_frame: int = -1) -> Piece:
    header = content[last_frame : last_frame + FRAME_HEADER_BYTES].hex() if last_frame >= 0 else ""
    return Piece(hashlib.sha256(content).hexdigest(), crc32c(content), len(content), last_frame, header)


def read_pieces(file: File, stretch: ScanRange) -> Iterator[PieceContent]:
    """Read a stretch of a segment, and verify its frames. What is damaged is taken as it is."""
    content, size, last_frame, damages = _room(stretch.end - stretch.start), 0, -1, list[Damage]()
    for found in scan_segment(file, stretch):
        if isinstance(found, Damage):
            damages.append(found)
            start, end = found.position, found.end
            content[size : size + end - start] = _read_damaged(file, start, end)
        else:
            start, end = int(found.positions[0]), found.end
            last_frame = size + int(found.positions[-1]) - start
            content[size : size + end - start] = found.buffer.data[start:end]
        size += end - start
        if size >= BACKUP_OBJECT_BYTES:
            yield _finish(content, size, last_frame, damages)
            left = stretch.end - (found.end if isinstance(found, Damage) else found.origin + found.end)
            content, size, last_frame, damages = _room(left), 0, -1, []
    if size:
        yield _finish(content, size, last_frame, damages)


def _room(left: int) -> bytearray:
    """Return the memory of a piece; it grows for a large frame at its end."""
    return bytearray(min(left, BACKUP_OBJECT_BYTES + SCAN_CHUNK_BYTES))


def _finish(content: bytearray, size: int, last_frame: int, damages: Sequence[Damage]) -> PieceContent:
    del content[size:]
    return PieceContent(piece_of(content, last_frame), content, tuple(damages))


def _read_damaged(file: File, position: int, end: int) -> bytearray:
    """Return the bytes as they are; zeros where the device cannot read them."""
    content = bytearray(end - position)
    try:
        file.read(position, memoryview(content))
    except DiskFailed:
        return bytearray(end - position)
    return content


def has_piece(file: File, position: int, piece: Piece) -> bool:
    """Return whether a segment still has this piece at this position, and all before it."""
    if piece.last_frame < 0:
        return False
    header = bytearray(FRAME_HEADER_BYTES)
    count = file.read(position + piece.last_frame, memoryview(header))
    return count == FRAME_HEADER_BYTES and header.hex() == piece.last_header


def read_piece(file: File, position: int, piece: Piece) -> PieceContent | None:
    """Return a piece that was read before; None if the segment has other bytes there now."""
    content = bytearray(piece.size)
    try:
        count = file.read(position, memoryview(content))
    except DiskFailed:
        return None
    is_same = count == piece.size and hashlib.sha256(content).hexdigest() == piece.sha256
    return PieceContent(piece, content) if is_same else None


def damaged_range(base_offset: int, damage: Damage) -> DamagedBytes:
    return DamagedBytes(base_offset, damage.position, damage.end, damage.reason)


def check_piece(piece: Piece, content: Content) -> None:
    """Raise BackupDamaged unless these are the bytes of a piece."""
    name = piece.object_name
    if len(content) != piece.size:
        raise BackupDamaged(f"object {name} has {len(content):,} bytes instead of {piece.size:,}", object=name)
    if hashlib.sha256(content).hexdigest() != piece.sha256 or crc32c(content) != piece.crc32c:
        raise BackupDamaged(f"object {name} is damaged: its content has another hash", object=name)


class ReadOnlyFile:
    """A file that is not of a disk: its content is only read."""

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        raise PermissionError(f"{len(buffers)} buffers cannot be written at {position}: a piece is only read")

    def truncate(self, size: int) -> None:
        raise PermissionError(f"it cannot be cut to {size} bytes: a piece is only read")

    def sync(self) -> None: ...

    def drop_cache(self) -> None: ...

    def close(self) -> None: ...


class MemoryFile(ReadOnlyFile):
    """Bytes that are read like a file."""

    def __init__(self, content: Buffer) -> None:
        self._content = memoryview(content)

    def read(self, position: int, into: memoryview) -> int:
        count = max(0, min(len(into), len(self._content) - position))
        into[:count] = self._content[position : position + count]
        return count

    def size(self) -> int:
        return len(self._content)
