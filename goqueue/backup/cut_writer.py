"""Writing a log of a backup up to a time or an offset: the cut is behind a frame."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from goqueue.backup.manifest import LogEntry, SegmentEntry
from goqueue.backup.piece_reader import Progress, load_pieces
from goqueue.backup.pieces import MemoryFile
from goqueue.backup.restore import WriteLog, restore_log, write_file, write_note
from goqueue.backup.restore_point import PointInTime
from goqueue.backup.target import BackupTarget
from goqueue.backup.target_storage import Content
from goqueue.limits import OFFSET_MAX
from goqueue.storage import scan
from goqueue.storage.compaction_progress import lower_progress, skip_to
from goqueue.storage.disk import Disk
from goqueue.storage.recovery import recover
from goqueue.storage.scan import Frames, Positions
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment
from goqueue.storage.transaction_marker import OffsetRange, TransactionMarker, classify_transactional, ranges_in


@dataclass(frozen=True, slots=True)
class CutPoint:
    """Where the logs of a partition end: before this offset, and before the first message of this time."""

    offset: int = OFFSET_MAX
    time_ns: int | None = None

    @property
    def is_whole(self) -> bool:
        return self.offset == OFFSET_MAX and self.time_ns is None


class CutLogWriter:
    """Writes one log up to a cut."""

    def __init__(
        self,
        disk: Disk,
        target: BackupTarget,
        directory: str,
        cut: CutPoint,
        progress: Progress,
        *,
        aborts: bool = True,
    ) -> None:
        """With `aborts`, transactions that are open at the end are aborted there."""
        self.dropped_ns = cut.time_ns
        """The time of the cut: everything of that time or later is dropped."""
        self._disk, self._target, self._directory, self._progress = disk, target, directory, progress
        self._cut = cut
        self._undecided = _UndecidedMessages() if aborts else None
        self._next_offset = 0
        self._last_ns = 0
        self._is_over = False

    def write(self, log: LogEntry) -> None:
        self._disk.make_directory(self._directory)
        path = ""
        for segment in log.segments:
            if self._is_over:
                break
            if path and segment.base_offset >= self._cut.offset:
                next(self._kept(segment), None)  # its first message tells the time of the cut
                self._next_offset = self._cut.offset
                break
            path = f"{self._directory}/{segment.base_offset:020d}.log"
            self._next_offset = segment.base_offset
            write_file(self._disk, path, self._kept(segment))
            if not self._is_over:
                self._next_offset = min(segment.next_offset, self._cut.offset)
        if self._undecided is not None:
            self._append(path, self._undecided.markers())
        for note, piece in log.notes.items():
            if self._cut.is_whole or note == "compacted":
                write_note(self._disk, self._target, f"{self._directory}/{note}", piece)
        if not self._cut.is_whole:
            lower_progress(self._disk, self._directory, self._next_offset)
        self._disk.sync_directory(self._directory)
        recover(self._disk, self._directory)  # makes the indexes, so that the broker need not

    def go_on_at(self, offset: int) -> None:
        """Give out no offset below this one: what was dropped had them."""
        if offset > self._next_offset:
            skip_to(self._disk, self._directory, offset)

    def _kept(self, segment: SegmentEntry) -> Iterator[Content]:
        """Yield the content of a segment up to the cut."""
        for content in load_pieces(self._target, segment.pieces, self._progress):
            kept = self._examine(segment, content)
            yield content[:kept]
            if self._is_over:
                return

    def _examine(self, segment: SegmentEntry, content: Content) -> int:
        """Return how many bytes come before the cut."""
        stretch = ScanRange(0, len(content), self._next_offset, segment.next_offset)
        for found in scan_segment(MemoryFile(content), stretch):
            if isinstance(found, Damage):
                continue
            count = self._count_kept(found)
            if count:
                if self._undecided is not None:
                    self._undecided.look(found.first(count))
                self._last_ns = int(found.timestamps[count - 1])
                self._next_offset = int(found.offsets[count - 1]) + 1
            if count < len(found):
                self._is_over, self._next_offset = True, int(found.offsets[count])
                behind_ns = int(found.timestamps[count])
                self.dropped_ns = behind_ns if self.dropped_ns is None else min(self.dropped_ns, behind_ns)
                return found.origin + int(found.positions[count])
        return len(content)

    def _count_kept(self, frames: Frames) -> int:
        count = int(np.searchsorted(frames.offsets, self._cut.offset))
        if self._cut.time_ns is not None:
            count = min(count, int(np.searchsorted(frames.timestamps, self._cut.time_ns)))
        return count

    def _append(self, path: str, content: bytearray) -> None:
        """Append frames to the last segment."""
        if content:
            frames = scan.check_batch(content)
            scan.stamp(frames, self._next_offset, self._last_ns)
            file = self._disk.open(path, "write")
            try:
                file.write(file.size(), [frames.buffer.data])
                file.sync()
            finally:
                file.close()
            self._next_offset += len(frames)


def log_writer(point: PointInTime | None) -> WriteLog:
    """Return what writes the logs of a restore to a point in time; None is the end of the backup."""

    def write(disk: Disk, target: BackupTarget, directory: str, log: LogEntry, progress: Progress) -> None:
        if point is None or log.name not in {*point.ends, *point.left_out}:
            restore_log(disk, target, directory, log, progress)
        elif log.name in point.ends:
            end = point.ends[log.name]
            writer = CutLogWriter(disk, target, directory, CutPoint(end.offset), progress, aborts=end.aborts)
            writer.write(log)
            writer.go_on_at(end.next_offset)

    return write


class _UndecidedMessages:
    """The messages of transactions that no marker speaks of."""

    def __init__(self) -> None:
        self._offsets: list[Positions] = []
        self._ranges: list[Positions] = []

    def look(self, frames: Frames) -> None:
        messages, markers = classify_transactional(frames)
        if messages.any():
            self._offsets.append(frames.offsets[messages])
        if markers.any():
            self._ranges.append(ranges_in(frames)[0])

    def markers(self) -> bytearray:
        """Return frames that abort them all, without offsets."""
        ranges = list(self._open_ranges())
        marker = TransactionMarker(0, 0, False, tuple(ranges))
        return bytearray(b"".join(marker.encode()) if ranges else b"")

    def _open_ranges(self) -> Iterator[OffsetRange]:
        if not self._offsets:
            return
        offsets = np.concatenate(self._offsets)
        if self._ranges:
            decided = np.concatenate(self._ranges)
            decided = decided[np.argsort(decided[:, 0])]
            at = np.searchsorted(decided[:, 0], offsets, "right") - 1
            offsets = offsets[(at < 0) | (offsets >= decided[at, 1])]
        for run in np.split(offsets, np.flatnonzero(np.diff(offsets) > 1) + 1):
            if len(run):
                yield int(run[0]), int(run[-1]) + 1
