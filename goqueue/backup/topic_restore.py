"""Restoring one topic: the files of its logs, whole or up to a time or an offset.

A cut is made behind a frame. What was open in a transaction there is aborted by a marker behind it, because no
coordinator will ever end it. Files are written aside; the broker gives them their place in one step.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from goqueue.backup.manifest import LogEntry, Manifest, SegmentEntry
from goqueue.backup.pieces import MemoryFile
from goqueue.backup.restore import Progress, load_pieces, write_file
from goqueue.backup.target import BackupTarget
from goqueue.errors import BackupNotFound, OffsetOutOfRange
from goqueue.limits import OFFSET_MAX
from goqueue.nearest import nearest
from goqueue.quantities import quoted
from goqueue.storage import scan
from goqueue.storage.compaction import lower_progress
from goqueue.storage.disk import Disk
from goqueue.storage.recovery import recover
from goqueue.storage.scan import Frames, Positions
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment
from goqueue.storage.transaction_marker import OffsetRange, TransactionMarker, classify_transactional, ranges_in

_DELAYED = "delayed"


@dataclass(frozen=True, slots=True)
class CutPoint:
    """Where the logs of a partition end: before this offset, and before the first message of this time."""

    offset: int = OFFSET_MAX
    time_ns: int | None = None

    @property
    def is_whole(self) -> bool:
        return self.offset == OFFSET_MAX and self.time_ns is None


@dataclass(frozen=True, slots=True)
class TopicRestorePlan:
    """The logs of a topic in a backup, by their names below it: `0`, `0/delayed`."""

    topic: str
    logs: Mapping[str, LogEntry]
    cuts: Mapping[int, CutPoint]

    @property
    def partitions(self) -> int:
        return 1 + max(int(name.partition("/")[0]) for name in self.logs)

    @property
    def size(self) -> int:
        return sum(one.size for one in self.logs.values())


def plan_topic_restore(
    manifest: Manifest, topic: str, time_ns: int | None = None, offsets: Mapping[int, int] | None = None
) -> TopicRestorePlan:
    """Raise BackupNotFound or OffsetOutOfRange if a backup does not have that. Changes nothing."""
    logs = {log.name.removeprefix(f"{topic}/"): log for log in manifest.logs if log.name.startswith(f"{topic}/")}
    numbers = {name for name in logs if name.isdecimal()}
    missing = [name for name in manifest.unavailable if name.startswith(f"{topic}/")]
    if not numbers or missing or topic.startswith("__"):
        near = nearest(topic, {log.name.partition("/")[0] for log in manifest.logs if not log.name.startswith("__")})
        raise BackupNotFound(
            f"backup {manifest.id} lacks {', '.join(missing)}"
            if missing
            else f"backup {manifest.id} has no topic {quoted(topic)}",
            hint=f"did you mean {near}?" if near and not missing else "`goqueue backup describe` lists what it has",
        )
    cuts = {int(name): CutPoint(time_ns=time_ns) for name in numbers}
    for number, offset in (offsets or {}).items():
        log = logs.get(str(number))
        if log is None or not log.first_offset <= offset <= log.next_offset:
            held = "does not exist there" if log is None else f"has {log.first_offset} up to {log.next_offset} there"
            raise OffsetOutOfRange(f"partition {number} cannot end at offset {offset}: it {held}")
        cuts[number] = CutPoint(offset, time_ns)
    return TopicRestorePlan(topic, logs, cuts)


def write_topic(disk: Disk, target: BackupTarget, plan: TopicRestorePlan, directory: str, progress: Progress) -> None:
    """Write the logs of a topic below a directory, with their indexes."""
    for number in range(plan.partitions):
        writer = _LogWriter(disk, target, f"{directory}/{number}", plan.cuts[number], progress)
        writer.write(plan.logs[str(number)])
        delayed = plan.logs.get(f"{number}/{_DELAYED}")
        if delayed is not None:  # its records may not speak of what the partition does not have
            cut = CutPoint(time_ns=writer.dropped_ns)
            _LogWriter(disk, target, f"{directory}/{number}/{_DELAYED}", cut, progress).write(delayed)


class _LogWriter:
    """Writes one log up to a cut."""

    def __init__(self, disk: Disk, target: BackupTarget, directory: str, cut: CutPoint, progress: Progress) -> None:
        self.dropped_ns = cut.time_ns
        """The time of the cut: everything of that time or later is dropped."""
        self._disk, self._target, self._directory, self._progress = disk, target, directory, progress
        self._cut = cut
        self._undecided = _UndecidedMessages()
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
        self._append(path, self._undecided.markers())
        for note, piece in log.notes.items():
            if self._cut.is_whole or note == "compacted":
                write_file(self._disk, f"{self._directory}/{note}", load_pieces(self._target, (piece,), lambda _: None))
        if not self._cut.is_whole:
            lower_progress(self._disk, self._directory, self._next_offset)
        self._disk.sync_directory(self._directory)
        recover(self._disk, self._directory)  # makes the indexes, so that the broker need not

    def _kept(self, segment: SegmentEntry) -> Iterator[bytes]:
        """Yield the content of a segment up to the cut."""
        for content in load_pieces(self._target, segment.pieces, self._progress):
            kept = self._examine(segment, content)
            yield content[:kept]
            if self._is_over:
                return

    def _examine(self, segment: SegmentEntry, content: bytes) -> int:
        """Return how many bytes come before the cut."""
        stretch = ScanRange(0, len(content), self._next_offset, segment.next_offset)
        for found in scan_segment(MemoryFile(content), stretch):
            if isinstance(found, Damage):
                continue
            count = self._count_kept(found)
            if count:
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
