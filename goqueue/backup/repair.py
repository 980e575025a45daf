"""Repairing damaged logs from backups: the same bytes at the same places.

A segment is taken from a backup if every sound frame that it still has stands there at the same place. Compaction
removes frames and moves those behind them, so such a segment is the same one. Where nothing is sound, what follows has
to continue the backup. What the segment has beyond the backup stays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from goqueue.backup.manifest import LogEntry, Manifest, SegmentEntry
from goqueue.backup.piece_reader import load_pieces
from goqueue.backup.restore import restore_log
from goqueue.backup.target import BackupTarget
from goqueue.backup.verify import readable_manifests
from goqueue.errors import BackupDamaged
from goqueue.storage.compaction_progress import load_progress
from goqueue.storage.disk import Disk, file_size, remove_files, replace_file
from goqueue.storage.recovery import find_segments, recover
from goqueue.storage.segment import Segment
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment


@dataclass(frozen=True, slots=True)
class PlannedRepair:
    """A segment, or a whole log, that a backup can replace."""

    log: str
    directory: str
    backup: str
    entry: LogEntry
    segment: SegmentEntry | None
    """None for a log that is gone."""
    next_offset: int = 0
    """Of a log that is gone: no offset from here on was given out."""

    @property
    def sentence(self) -> str:
        what = "the whole log" if self.segment is None else f"segment {self.segment.base_offset}"
        return f"{self.log}: {what} from backup {self.backup}"


class BackupRepair:
    """Finds and makes repairs from the backups of a target, the newest first."""

    def __init__(self, disk: Disk, target: BackupTarget) -> None:
        self._disk = disk
        self._target = target
        self._manifests = list(readable_manifests(target, reversed(target.ids())))

    def plan_log(self, name: str, directory: str, next_offset: int) -> Iterator[PlannedRepair]:
        """Plan to restore a log of a topic that is gone; what came behind the backup stays lost.

        Internal logs are not restored as a whole: an older one would contradict the others.
        """
        found = (one for one in self._entries(name) if not one[1].damages and not name.startswith("__"))
        for manifest, entry in found:
            yield PlannedRepair(name, directory, manifest.id, entry, None, next_offset)
            return

    def plan_segments(self, name: str, directory: str, damaged: Sequence[str]) -> Iterator[PlannedRepair]:
        """Plan to replace the segments with these paths, and those that are gone."""
        segments = find_segments(directory, self._disk.entries(directory))
        bases = [segment.base_offset for segment in segments]
        joined = load_progress(self._disk, directory).gaps
        """Segments below may be gone because compaction has joined them."""
        planned: set[int] = set()
        for manifest, entry in self._entries(name):
            unsound = {one.base_offset for one in entry.damages}
            for one in entry.segments:
                if one.base_offset in unsound | planned or not one.pieces:
                    continue
                local = next((segment for segment in segments if segment.base_offset == one.base_offset), None)
                if local is None:
                    fits = bool(bases) and max(bases[0], joined) < one.base_offset and one.next_offset in bases
                else:
                    behind = next((base for base in bases if base > one.base_offset), None)
                    fits = local.path in damaged and self._is_same(local, one, behind)
                if fits:
                    planned.add(one.base_offset)
                    yield PlannedRepair(name, directory, manifest.id, entry, one)

    def _entries(self, name: str) -> Iterator[tuple[Manifest, LogEntry]]:
        for manifest in self._manifests:
            for log in manifest.logs:
                if log.name == name:
                    yield manifest, log

    def _is_same(self, local: Segment, entry: SegmentEntry, behind: int | None) -> bool:
        """Return whether every sound frame of a segment is in the backup at the same place."""
        try:
            content = b"".join(load_pieces(self._target, entry.pieces))
        except BackupDamaged:
            return False
        file, has_frames = self._disk.open(local.path, "read"), False
        try:
            for found in scan_segment(file, ScanRange(0, local.size, local.base_offset)):
                if isinstance(found, Damage):
                    continue
                first = int(found.positions[0])
                start, end = found.origin + first, min(found.origin + found.end, len(content))
                if start >= end:
                    has_frames = has_frames or (start == len(content) and found.first_offset == entry.next_offset)
                    break
                has_frames = True
                if bytes(found.buffer.data[first : first + end - start]) != content[start:end]:
                    return False
        finally:
            file.close()
        return has_frames or entry.next_offset == behind

    def make(self, repair: PlannedRepair) -> None:
        """Replace bytes, and make the caches anew."""
        directory = repair.directory
        if repair.segment is None:
            restore_log(self._disk, self._target, directory, repair.entry)
            if repair.next_offset > repair.entry.next_offset:  # offsets in between were given out
                self._disk.open(Segment(directory, repair.next_offset).path, "create").close()
                self._disk.sync_directory(directory)
        else:
            segment = Segment(directory, repair.segment.base_offset)
            content = bytearray(b"".join(load_pieces(self._target, repair.segment.pieces)))
            if self._disk.kind(segment.path) == "file":
                content += self._rest(segment.path, len(content))
            remove_files(self._disk, *segment.caches)
            replace_file(self._disk, segment.path, content)
        recover(self._disk, directory)

    def _rest(self, path: str, position: int) -> bytearray:
        """The bytes of a file from a position on."""
        rest = bytearray(max(0, file_size(self._disk, path) - position))
        file = self._disk.open(path, "read")
        try:
            file.read(position, memoryview(rest))
        finally:
            file.close()
        return rest
