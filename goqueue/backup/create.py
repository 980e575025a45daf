"""Making a backup from a cut: copy the pieces that the target lacks, then write the manifest.

Runs on a thread of its own, beside a broker at work. What the newest backup has of a segment is not read again, as
long as the segment proves that it still begins with it. A backup that is interrupted leaves objects, which the next one
finds by their hashes. Objects that a verification found damaged are written again.
"""

import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event

from goqueue.backup.cut import KEPT_NOTES, Cut, LogCut, SegmentCut, linked_note, linked_segment, remove_cut
from goqueue.backup.manifest import (
    DamagedBytes,
    LogEntry,
    Manifest,
    Piece,
    SegmentEntry,
    encode_manifest,
)
from goqueue.backup.pieces import PieceContent, damaged_range, has_piece, piece_of, read_piece, read_pieces
from goqueue.backup.target import BackupTarget
from goqueue.backup.target_storage import Content
from goqueue.backup.verify import damaged_objects, readable_manifests
from goqueue.errors import BackupCancelled, BackupKeyMismatch
from goqueue.limits import BACKUP_OBJECT_BYTES, BACKUP_PIECES_SPARE
from goqueue.storage.disk import Disk, File, read_all, remove_files
from goqueue.storage.segment_scan import ScanRange

_Known = dict[str, LogEntry]
"""The logs of the newest backup by name."""


class Throttle:
    """Keeps an average rate by waiting, and ends the waiting when the work is cancelled."""

    def __init__(self, bytes_per_second: int) -> None:
        """0 is no limit."""
        self.rate = bytes_per_second
        self.cancelled = Event()
        self._free_at = 0.0

    def pay(self, count: int) -> None:
        """Wait as long as so many bytes take. Raises BackupCancelled."""
        if self.rate:
            now = time.monotonic()
            self._free_at = max(now, self._free_at) + count / self.rate
            self.cancelled.wait(self._free_at - now)
        self.refuse_if_cancelled()

    def refuse_if_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise BackupCancelled("the backup was cancelled", hint="the next one continues with what it has copied")


@dataclass(slots=True)
class BackupProgress:
    """The progress of a backup. Written by its thread, read by any."""

    bytes_total: int = 0
    bytes_done: int = 0
    """Bytes that were copied or need not be."""
    bytes_unchanged: int = 0
    """Bytes that are not read, as the newest backup has them; expected until their segment was looked at."""
    bytes_copied: int = 0
    """Bytes that were read, and that the target has now."""
    new_bytes: int = 0
    new_objects: int = 0
    damages: int = 0
    began: float = field(default_factory=time.monotonic)


class BackupWriter:
    """Makes one backup."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        cut: Cut,
        target: BackupTarget,
        throttle: Throttle,
        writer: Executor | None = None,
    ) -> None:
        """`directory` holds the files of the cut. With a `writer`, the next piece is read while one is written."""
        self.progress = BackupProgress(bytes_total=cut.size)
        self._disk = disk
        self._directory = directory
        self._cut = cut
        self._target = target
        self._throttle = throttle
        self._writer = writer
        self._writing: Future[None] | None = None
        self._unwritten = 0
        """Bytes of segments that count as done once the writer has written them."""
        self._stored: dict[str, int] = {}
        """The sound objects that the target had."""
        self._damaged: frozenset[str] = frozenset()
        self._placed: dict[str, Piece] = {}
        """The pieces of this backup with their places, by SHA-256."""

    def run(self, name: str, version: str, now_ns: int | None = None) -> Manifest:
        """Copy everything, and return the manifest that was written."""
        newest = _newest_manifest(self._target)
        known = {} if newest is None else {log.name: log for log in newest.logs}
        # what was found before the newest backup, that one has written again
        self._damaged = damaged_objects(self._target, 0 if newest is None else newest.finished_ns)
        self._stored = {name: size for name, size in self._target.objects().items() if name not in self._damaged}
        self.progress.bytes_unchanged = _unchanged_size(self._cut, known)
        try:
            logs = tuple(self._copy_log(number, log, known) for number, log in enumerate(self._cut.logs))
        finally:
            self._wait_for_writer()
        progress = self.progress
        manifest = Manifest(
            1,
            name,
            version,
            self._cut.time_ns,
            time.time_ns() if now_ns is None else now_ns,
            progress.new_bytes,
            progress.new_objects,
            tuple(map(self._place_log, logs)),
            self._cut.unavailable,
        )
        self._throttle.refuse_if_cancelled()
        self._target.put_manifest(name, encode_manifest(manifest))
        remove_cut(self._disk, self._directory)
        return manifest

    def _copy_log(self, number: int, log: LogCut, known: _Known) -> LogEntry:
        damages: list[DamagedBytes] = []
        before = _sound_segments(known.get(log.name))
        segments = tuple(
            self._copy_segment(linked_segment(self._directory, number, one), one, before.get(one.base_offset), damages)
            for one in log.segments
        )
        notes = dict(self._copy_notes(number))
        self.progress.damages += len(damages)
        return LogEntry(log.name, segments, notes, tuple(damages))

    def _place_log(self, log: LogEntry) -> LogEntry:
        """Return a log with the places of its pieces, which are known when all are stored."""
        segments = tuple(
            SegmentEntry(one.base_offset, one.next_offset, tuple(self._placed[piece.sha256] for piece in one.pieces))
            for one in log.segments
        )
        notes = {note: self._placed[piece.sha256] for note, piece in log.notes.items()}
        return LogEntry(log.name, segments, notes, log.damages)

    def _copy_notes(self, number: int) -> Iterator[tuple[str, Piece]]:
        for note in KEPT_NOTES:
            path = linked_note(self._directory, number, note)
            if self._disk.kind(path) == "file":
                content = read_all(self._disk, path)
                piece = piece_of(content)
                self._keep(PieceContent(piece, content))
                yield note, piece

    def _copy_segment(
        self, path: str, segment: SegmentCut, before: SegmentEntry | None, damages: list[DamagedBytes]
    ) -> SegmentEntry:
        if not segment.size:
            return SegmentEntry(segment.base_offset, segment.next_offset, ())
        file = self._disk.open(path, "read")
        pieces = [] if before is None else self._unchanged(file, segment, before)
        position = sum(one.size for one in pieces)
        self.progress.bytes_done += position
        self.progress.bytes_unchanged += position - _expected_size(segment, before)
        try:
            for found in read_pieces(file, ScanRange(position, segment.size, segment.base_offset, segment.next_offset)):
                self._keep(found, found.piece.size)
                pieces.append(found.piece)
                damages += [damaged_range(segment.base_offset, one) for one in found.damages]
        finally:
            file.close()
        remove_files(self._disk, path)  # its space is free once the broker has removed it as well
        return SegmentEntry(segment.base_offset, segment.next_offset, tuple(pieces))

    def _unchanged(self, file: File, segment: SegmentCut, before: SegmentEntry) -> list[Piece]:
        """Return the pieces of the newest backup that this segment begins with."""
        pieces = list(before.pieces)
        many = segment.size // BACKUP_OBJECT_BYTES + BACKUP_PIECES_SPARE
        if before.size > segment.size or not pieces or (before.size < segment.size and len(pieces) > many):
            return []
        if any(one.last_frame < 0 for one in pieces) or not has_piece(file, before.size - pieces[-1].size, pieces[-1]):
            return []
        position = 0
        for piece in pieces:
            is_stored = piece.sha256 in self._placed or self._target.find(piece, self._stored) is not None
            found = PieceContent(piece, b"") if is_stored else read_piece(file, position, piece)
            if found is None:
                return []
            self._keep(found)
            position += piece.size
        return pieces

    def _keep(self, found: PieceContent, counted: int = 0) -> None:
        """Store a piece unless it is stored already, and count so many bytes of a segment as done."""
        self._throttle.refuse_if_cancelled()
        piece = found.piece
        if piece.sha256 in self._placed:
            self._count(counted)
            return
        placed = self._target.find(piece, self._stored)
        self._placed[piece.sha256] = placed or piece
        if placed is not None:
            self._count(counted)
            return
        self._wait_for_writer()
        if self._writer is None:
            self._write(piece, found.content)
            self._count(counted)
        else:
            self._unwritten = counted
            self._writing = self._writer.submit(self._write, piece, found.content)

    def _write(self, piece: Piece, content: Content) -> None:
        pace = self._throttle.pay if self._throttle.rate else None
        placed = self._placed[piece.sha256] = self._target.put_object(piece, content, pace, self._damaged)
        self._throttle.pay(max(0, piece.size - placed.stored_size))  # it was read as well
        self.progress.new_bytes += placed.stored_size
        self.progress.new_objects += 1

    def _wait_for_writer(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()
            self._count(self._unwritten)

    def _count(self, copied: int) -> None:
        self.progress.bytes_done += copied
        self.progress.bytes_copied += copied


def _newest_manifest(target: BackupTarget) -> Manifest | None:
    """Return the newest manifest that is whole."""
    with suppress(BackupKeyMismatch):
        return next(readable_manifests(target, reversed(target.ids())), None)
    return None


def _unchanged_size(cut: Cut, known: _Known) -> int:
    """Return how many bytes of a cut need not be read if no segment was changed before its end."""
    return sum(
        _expected_size(segment, before.get(segment.base_offset))
        for log in cut.logs
        for before in (_sound_segments(known.get(log.name)),)
        for segment in log.segments
    )


def _expected_size(segment: SegmentCut, before: SegmentEntry | None) -> int:
    return 0 if before is None or before.size > segment.size else before.size


def _sound_segments(log: LogEntry | None) -> dict[int, SegmentEntry]:
    """Return the segments without damage, by base offset: what was damaged may have been repaired since."""
    if log is None:
        return {}
    damaged = {one.base_offset for one in log.damages}
    return {one.base_offset: one for one in log.segments if one.base_offset not in damaged}
