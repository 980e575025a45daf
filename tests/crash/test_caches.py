"""Whatever happens to an index, a marker or a note: messages stay, and the answers are those of the log alone."""

from collections.abc import Callable, Iterator

import pytest

from goqueue.storage import frame
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.compaction_progress import CompactionProgress, load_progress
from goqueue.storage.log import Log
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import Crashed, FaultyDisk
from tests.crash.scenarios import Sample
from tests.storage.stores import DATA, append, messages, offset_for_time, open_store

CONTENTS = [b"%d" % number * 300 for number in range(40)]
STEP = 10**9


def filled(*, clean: bool) -> FaultyDisk:
    """A log of three segments with a second between two messages, stopped or killed."""
    disk, clock = FaultyDisk(), ManualClock(0)
    store = open_store(disk, clock, segment_bytes=8000)
    log = store.create("t/0")
    for content in CONTENTS:
        append(store, log, content)
        clock.advance(1)
    if clean:
        store.close()
    return disk.crash("everything")


def is_intact(store: Store) -> bool:
    """Reads by offset and by time equal what was written; the next offset is right."""
    log = store.logs["t/0"]
    found = messages(log, max_bytes=5000)
    return (
        [message.value for message in found] == CONTENTS
        and [message.offset for message in found] == list(range(len(CONTENTS)))
        and all(offset_for_time(log, number * STEP) == number for number in range(1, len(CONTENTS) + 1, 6))
        and all(offset_read_at(log, offset) == offset for offset in range(1, len(CONTENTS), 6))
        and store.recovered["t/0"].damages == []
        and append(store, log, b"next") == range(len(CONTENTS), len(CONTENTS) + 1)
    )


def offset_read_at(log: Log, offset: int) -> int:
    return frame.offset_at(log.read(offset, 1).buffers[0])


def caches(disk: FaultyDisk) -> list[str]:
    return [path for path in disk.paths() if path.endswith("index")]


def shortened(content: bytes) -> Iterator[bytes]:
    yield from (content[:size] for size in range(len(content)))


def flipped(content: bytes) -> Iterator[bytes]:
    for position in range(len(content)):
        for bit in (0, 3, 7):
            yield content[:position] + bytes([content[position] ^ 1 << bit]) + content[position + 1 :]


def lengthened(content: bytes) -> Iterator[bytes]:
    yield content + bytes(16)
    yield content + content
    yield content + b"\xff" * 40
    yield bytes(len(content))
    yield b"\xff" * len(content)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("spoiled", [shortened, flipped, lengthened])
def test_damaged_index_changes_no_answer(
    spoiled: Callable[[bytes], Iterator[bytes]], clean: bool, sample: Sample
) -> None:
    disk = filled(clean=clean)
    for path in caches(disk)[-4:]:
        for content in sample(spoiled(disk.read_file(path))):
            left = disk.after_crash("everything")
            left.write_file(path, content)
            assert is_intact(open_store(left)), (path, content)


def test_damaged_clean_stop_marker_only_costs_a_scan(sample: Sample) -> None:
    disk = filled(clean=True)
    content = disk.read_file(f"{DATA}/clean")
    for spoiled in sample((*shortened(content), *flipped(content), *lengthened(content))):
        left = disk.after_crash("everything")
        left.write_file(f"{DATA}/clean", spoiled)
        store = open_store(left)
        assert not store.recovered["t/0"].was_clean
        assert is_intact(store), spoiled


def compacted(clock: ManualClock, *, crash_at: int = 0) -> FaultyDisk:
    """A log whose first segments were compacted, or were about to be."""
    disk = FaultyDisk()
    store = open_store(disk, clock)
    log = store.create("t/0")
    for number in range(6):
        append(store, log, b"%d" % number * 500, key=b"key")
        append(store, log, b"only %d" % number * 100, key=b"%d" % number)
        log.roll()
    store.flush()
    job = plan_compaction(log, disk, now_ns=clock.now_ns())
    if crash_at:
        disk.crash_at(disk.operations + crash_at)
        try:
            job.run()
        except Crashed:
            return disk.crash("everything")
    job.run()
    job.apply()
    return disk.crash("everything")


def test_damaged_compaction_progress_counts_as_none() -> None:
    disk = compacted(ManualClock())
    path = f"{DATA}/logs/t/0/compacted"
    content = disk.read_file(path)
    assert load_progress(disk, f"{DATA}/logs/t/0") == CompactionProgress(12, 12)
    for spoiled in (*shortened(content), *flipped(content), *lengthened(content)):
        disk.write_file(path, spoiled)
        assert load_progress(disk, f"{DATA}/logs/t/0") == CompactionProgress(0, 0)


def test_damaged_swap_file_removes_no_message(sample: Sample) -> None:
    clock = ManualClock()
    operation, disk = 0, FaultyDisk()
    paths: list[str] = []
    while not paths:
        operation += 1
        disk = compacted(clock, crash_at=operation)
        paths = [path for path in disk.paths() if path.endswith(".swap")]
    content = disk.read_file(paths[0])
    kept = [b"only %d" % number * 100 for number in range(6)]
    for spoiled in (content, *sample((*shortened(content), *flipped(content), *lengthened(content)))):
        left = disk.after_crash("everything")
        left.write_file(paths[0], spoiled)
        store = open_store(left)
        found = [message.value for message in messages(store.logs["t/0"])]
        assert [value for value in found if value.startswith(b"only")] == kept
        assert b"5" * 500 in found
