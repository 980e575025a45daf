"""A second copy of every segment of a log that the broker cannot do without.

    N.log     the frames
    N.copy    the same bytes at the same positions

Internal logs have copies. The writer appends to both files and waits for the first one only; copies are synced some
times a second. Each start compares both files: a range that is damaged in the log and sound in the copy is written
back, then the copy is made equal to the log.

What must stay true: a copy never holds bytes that its log has given up. Where a log is cut, replaced or removed, its
copy goes first, durably. So a sound frame of a copy, at its position and between its neighbors, is what the log held.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

from goqueue.errors import DiskFailed, GoQueueError
from goqueue.limits import OFFSET_MAX, SCAN_CHUNK_BYTES
from goqueue.storage.disk import DirectoryEntry, Disk, File, file_size, remove_files
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment, base_offset_of, load_index
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment


def has_copies(entries: list[DirectoryEntry]) -> bool:
    """Return whether these files belong to a log with copies."""
    return any(base_offset_of(entry.name, "copy") is not None for entry in entries)


def lost_segments(directory: str, entries: list[DirectoryEntry]) -> list[Segment]:
    """Segments of which only the copy is left.

    Below the first log, a copy may be left of a segment that retention has removed.
    """
    files = [entry for entry in entries if entry.kind == "file"]
    logs = {base for entry in files if (base := base_offset_of(entry.name, "log")) is not None}
    copies = {base: entry.size for entry in files if (base := base_offset_of(entry.name, "copy")) is not None}
    least = min(logs, default=-1)
    return [
        Segment(directory, base, size) for base, size in copies.items() if size and base > least and base not in logs
    ]


def restore_lost_segments(disk: Disk, directory: str, entries: list[DirectoryEntry]) -> list[Damage]:
    """Make the missing logs again from their copies; return what was missing."""
    lost = lost_segments(directory, entries)
    for segment in lost:
        _write_anew(disk, segment.copy_path, segment.path, segment.size)
    return [Damage(0, one.size, one.base_offset, one.base_offset, "the file was missing") for one in lost]


def restore_damage(disk: Disk, segments: list[Segment]) -> list[Damage]:
    """Write back what is damaged in a log and sound in its copy. A log that is equal to its copy is not surveyed."""
    restored: list[Damage] = []
    for segment, ceiling in _with_ceilings(segments):
        if disk.kind(segment.copy_path) == "file" and not is_equal(disk, segment):
            restored += _restore_segment(disk, segment, ceiling)
    return restored


def find_restorable(disk: Disk, segment: Segment, ceiling: int | None) -> list[Damage]:
    """Return the damage of a segment that its copy can restore, without changing anything."""
    if disk.kind(segment.copy_path) != "file" or is_equal(disk, segment):
        return []
    return [damage for damage, _ in _sound_in_copy(disk, segment, OFFSET_MAX if ceiling is None else ceiling)]


def update_copies(disk: Disk, segments: list[Segment]) -> None:
    """Make each copy equal to its log, durably. One for which there is no room is removed: an old one is worse."""
    for segment in segments:
        if disk.kind(segment.copy_path) == "file" and is_equal(disk, segment):
            if segment is segments[-1]:  # the others were synced when the writer left them
                disk.open(segment.copy_path, "write").sync()
            continue
        try:
            make_copy(disk, segment, segment.size)
        except GoQueueError:
            drop_copy(disk, segment)


def make_copy(disk: Disk, segment: Segment, size: int) -> None:
    """Copy so many bytes of a log, durably."""
    _write_anew(disk, segment.path, segment.copy_path, size)


def drop_copy(disk: Disk, segment: Segment) -> None:
    """Remove a copy, durably."""
    remove_files(disk, segment.copy_path, f"{segment.copy_path}.tmp")
    disk.sync_directory(segment.directory)


def is_equal(disk: Disk, segment: Segment) -> bool:
    """Return whether log and copy hold the same bytes."""
    log, copy = disk.open(segment.path, "read"), disk.open(segment.copy_path, "read")
    size = log.size()
    if copy.size() != size:
        return False
    try:
        return all(one == two for one, two in zip(_chunks(log, size), _chunks(copy, size), strict=True))
    except DiskFailed:
        return False


def _with_ceilings(segments: list[Segment]) -> Iterator[tuple[Segment, int]]:
    """Each segment with the offset that it does not reach."""
    yield from ((one, following.base_offset) for one, following in pairwise(segments))
    if segments:
        yield segments[-1], OFFSET_MAX


def _restore_segment(disk: Disk, segment: Segment, ceiling: int) -> Iterator[Damage]:
    sound = _sound_in_copy(disk, segment, ceiling)
    if not sound:
        return
    file = disk.open(segment.path, "write")
    for damage, content in sound:
        file.write(damage.position, [content])
    file.sync()
    segment.size = file_size(disk, segment.path)
    vouched = segment.size if ceiling < OFFSET_MAX else _synced_end(disk, segment)
    for damage, _ in sound:
        if damage.position < vouched:  # behind, a loss of power has kept more of the copy than of the log
            yield damage


def _synced_end(disk: Disk, segment: Segment) -> int:
    index = load_index(disk, segment)
    return index.marked[1] if index is not None and index.marked is not None else 0


def _sound_in_copy(disk: Disk, segment: Segment, ceiling: int) -> list[tuple[Damage, bytes]]:
    """Return each range of the log that is damaged, or missing at its end, with the sound frames of the copy."""
    log, copy = disk.open(segment.path, "read"), disk.open(segment.copy_path, "read")
    end = max(segment.size, copy.size())
    sound: list[tuple[Damage, bytes]] = []
    position, offset, time = 0, segment.base_offset, 0
    for piece in scan_segment(log, ScanRange(0, segment.size, segment.base_offset, ceiling)):
        if not isinstance(piece, Damage):
            position, offset, time = piece.origin + piece.end, piece.last_offset + 1, piece.last_timestamp
        elif piece.end < segment.size:
            stretch = ScanRange(piece.position, piece.end, piece.first_offset, piece.next_offset, time)
            sound += _taken(copy, stretch, piece.reason)
            position, offset = piece.end, piece.next_offset
    # At the end nothing shows where the frames of the log were: only those count that follow without a gap.
    reason = "the file ends before" if position == segment.size else "the end is damaged"
    for damage, content in _taken(copy, ScanRange(position, end, offset, ceiling, time), reason):
        if damage.position != position:
            break
        sound.append((damage, content))
        position = damage.end
    return sound


def _taken(copy: File, stretch: ScanRange, reason: str) -> Iterator[tuple[Damage, bytes]]:
    """The sound frames of a stretch of the copy, as damage of the log and its content."""
    for piece in scan_segment(copy, stretch):
        if isinstance(piece, Frames) and len(piece):
            content = bytes(piece.buffer.data[int(piece.positions[0]) : piece.end])
            start, end = piece.origin + int(piece.positions[0]), piece.origin + piece.end
            yield Damage(start, end, piece.first_offset, piece.last_offset + 1, reason), content


def _write_anew(disk: Disk, source: str, target: str, size: int) -> None:
    """Give `target` the content of `source` in one step. What the device cannot read becomes zeros."""
    temporary = f"{target}.tmp"
    remove_files(disk, temporary)
    reader, writer = disk.open(source, "read"), disk.open(temporary, "create")
    try:
        for position, content in _positioned(reader, size):
            writer.write(position, [content])
        writer.sync()
    except GoQueueError:
        with suppress(GoQueueError):
            disk.remove(temporary)
        raise
    finally:
        writer.close()
    disk.rename(temporary, target)
    disk.sync_directory(target.rpartition("/")[0])


def _chunks(file: File, size: int) -> Iterator[bytearray]:
    return (content for _, content in _positioned(file, size))


def _positioned(file: File, size: int) -> Iterator[tuple[int, bytearray]]:
    for position in range(0, size, SCAN_CHUNK_BYTES):
        content = bytearray(min(SCAN_CHUNK_BYTES, size - position))
        file.read(position, memoryview(content))
        yield position, content
