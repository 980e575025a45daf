"""Logs that never had what a truncation removes."""

from collections.abc import Callable

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import Work, run_work
from goqueue.limits import READ_BYTES_MAX
from goqueue.storage import frame
from goqueue.storage.reads import ReadResult
from goqueue.testing.disk import FaultyDisk


def frames_of(read: Callable[[int, int], Work[ReadResult]]) -> list[bytes]:
    """Return all frames from the earliest that this way of reading a partition shows."""
    found: list[bytes] = []
    offset = 0
    while (result := run_work(read(offset, READ_BYTES_MAX))).next_offset > offset:
        offset = result.next_offset
        found += [
            bytes(buffer[position : position + frame.length_at(buffer, position)])
            for buffer in result.buffers
            for position in frame.walk(buffer)
        ]
    return found


def segments_below(partition: Partition, end: int) -> dict[int, bytes]:
    """Return what the segments hold below an offset, by their first offsets."""
    bases = [one.base_offset for one in partition.log.segments if one.base_offset < end] or [0]
    parts: dict[int, list[bytes]] = {base: [] for base in bases}
    for one in frames_of(partition.read_uncommitted):
        if (offset := frame.offset_at(one)) < end:
            parts[max(base for base in bases if base <= offset)].append(one)
    return {base: b"".join(part) for base, part in parts.items()}


def with_segments(disk: FaultyDisk, directory: str, segments: dict[int, bytes]) -> FaultyDisk:
    """Return the disk with these segments, and no caches, in the directory of a log."""
    for path in disk.paths():
        if path.startswith(f"{directory}/") and "/" not in path.removeprefix(f"{directory}/"):
            disk.remove(path)
    for base, content in segments.items():
        disk.open(f"{directory}/{base:020d}.log", "create").write(0, [content])
    return disk.crash("everything")
