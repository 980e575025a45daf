"""Logs that never had what a truncation removes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from goqueue.broker.core.open_search import find_open, transactional_epochs
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.producer_checkpoint import load_producers, note_tear
from goqueue.broker.core.work import Work, run_work
from goqueue.limits import READ_BYTES_MAX
from goqueue.storage import frame
from goqueue.storage.lanes import LANES
from goqueue.storage.reads import ReadResult
from goqueue.testing.disk import FaultyDisk


def frames_of(read: Callable[[int, int], Work[ReadResult]], first: int = 0) -> list[bytes]:
    """Return all frames from an offset on that this way of reading a partition shows."""
    found: list[bytes] = []
    offset = first
    while (result := run_work(read(offset, READ_BYTES_MAX))).next_offset > offset:
        offset = result.next_offset
        found += [
            bytes(buffer[position : position + frame.length_at(buffer, position)])
            for buffer in result.buffers
            for position in frame.walk(buffer)
        ]
    return found


def messages_of(read: Callable[[int, int], Work[ReadResult]], first: int = 0) -> list[bytes]:
    """Return the frames that are messages. Where reads and segments begin decides what becomes of control records:
    whether a read of committed messages shows them, and in which lane they are.
    """
    return [one for one in frames_of(read, first) if not frame.decode(one).flags & frame.CONTROL]


def find_unfinished(partition: Partition, disk: FaultyDisk) -> None:
    """Find torn batches and open transactions, as a start does."""
    run_work(note_tear(partition, disk))
    first = partition.earliest
    partition.open.hold(first, partition.log_end, run_work(transactional_epochs(partition, first)))
    run_work(find_open(partition))


def derived(partition: Partition, disk: FaultyDisk) -> dict[str, Any]:
    """Return everything that follows from the log of a partition."""
    if partition.producers is None:
        run_work(load_producers(partition, disk))
    assert partition.producers is not None
    first, end = partition.earliest, partition.high_watermark
    messages = messages_of(partition.read_uncommitted, first)
    places = np.array([(one, one + 1) for one in map(frame.offset_at, messages)], np.int64).reshape(-1, 2)
    return {
        "uncommitted": frames_of(partition.read_uncommitted, first),
        "committed": messages_of(partition.read, first),
        "producers": partition.producers.facts(end),
        "open": [(producer, one.epoch, one.ranges) for producer, one in partition.open],
        "last stable": partition.last_stable,
        "aborted": run_work(partition.aborted.within(first, partition.last_stable)),
        "lanes": [run_work(partition.lanes.count_in(lane, places)) for lane in LANES],
        "next": [_next_message(partition, lane, (first + end) // 2, set(places[:, 0].tolist())) for lane in LANES],
    }


def _next_message(partition: Partition, lane: int, first: int, messages: set[int]) -> int | None:
    """Return the offset of the first message of a lane from `first` on."""
    found = run_work(partition.lanes.next(lane, first, partition.high_watermark))
    return found if found is None or found in messages else _next_message(partition, lane, found + 1, messages)


def segments_below(partition: Partition, end: int) -> dict[int, bytes]:
    """Return what the segments hold below an offset, by their first offsets."""
    bases = [one.base_offset for one in partition.log.segments if one.base_offset < end] or [partition.earliest]
    parts: dict[int, list[bytes]] = {base: [] for base in bases}
    for one in frames_of(partition.read_uncommitted, partition.earliest):
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
