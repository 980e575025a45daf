"""Whatever happens to an index, a marker or a note: messages stay, and the answers are those of the log alone."""

from collections.abc import Callable, Iterator

import pytest

from goqueue.storage import frame
from goqueue.storage.compaction import Progress, load_progress, plan_compaction
from goqueue.storage.log import Log
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import Crashed, FaultyDisk
from tests.storage.stores import DATA, append, messages, open_store, values

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
        and all(log.offset_for_time(number * STEP) == number for number in range(1, len(CONTENTS) + 1, 6))
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
def test_a_spoiled_index_changes_no_answer(spoiled: Callable[[bytes], Iterator[bytes]], clean: bool) -> None:
    disk = filled(clean=clean)
    for path in caches(disk)[-4:]:
        for content in spoiled(disk.read_file(path)):
            left = disk.after_crash("everything")
            left.write_file(path, content)
            assert is_intact(open_store(left)), (path, content)


@pytest.mark.parametrize("clean", [True, False])
def test_missing_indexes_change_no_answer_and_are_made_again(clean: bool) -> None:
    disk = filled(clean=clean)
    paths = caches(disk)
    for path in paths:
        disk.remove(path)
    store = open_store(disk)
    assert is_intact(store)
    disk = disk.crash("everything")
    assert values(open_store(disk).logs["t/0"]) == [*CONTENTS, b"next"]
    assert set(caches(disk)) >= set(paths)


@pytest.mark.parametrize("clean", [True, False])
def test_the_index_of_another_segment_changes_no_answer(clean: bool) -> None:
    disk = filled(clean=clean)
    for one in caches(disk):
        for other in caches(disk):
            if one.partition(".")[2] == other.partition(".")[2]:
                left = disk.after_crash("everything")
                left.write_file(one, disk.read_file(other))
                assert is_intact(open_store(left)), (one, other)


def test_an_index_that_is_ahead_of_its_log_counts_as_far_as_the_log_goes() -> None:
    disk = filled(clean=False)
    ahead = {path: disk.read_file(path) for path in caches(disk)}
    log = [path for path in disk.paths() if path.endswith(".log")][-1]
    base = int(log.rpartition("/")[2].partition(".")[0])
    disk.write_file(log, disk.read_file(log)[: 5 * (34 + 2 + 600)])
    store = open_store(disk)
    assert [message.value for message in messages(store.logs["t/0"], skip=True)] == CONTENTS[: base + 5]
    assert store.logs["t/0"].next_offset == len(CONTENTS)
    assert ahead.keys() == set(caches(disk))


def test_a_spoiled_marker_of_a_clean_stop_only_costs_a_survey() -> None:
    disk = filled(clean=True)
    content = disk.read_file(f"{DATA}/clean")
    for spoiled in (*shortened(content), *flipped(content), *lengthened(content)):
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


def test_spoiled_notes_of_a_compaction_say_that_nothing_has_been_compacted() -> None:
    disk = compacted(ManualClock())
    path = f"{DATA}/logs/t/0/compacted"
    content = disk.read_file(path)
    assert load_progress(disk, f"{DATA}/logs/t/0") == Progress(12, 12)
    for spoiled in (*shortened(content), *flipped(content), *lengthened(content)):
        disk.write_file(path, spoiled)
        assert load_progress(disk, f"{DATA}/logs/t/0") == Progress(0, 0)


def test_a_spoiled_decision_removes_nothing() -> None:
    clock = ManualClock()
    operation, disk = 0, FaultyDisk()
    paths: list[str] = []
    while not paths:
        operation += 1
        disk = compacted(clock, crash_at=operation)
        paths = [path for path in disk.paths() if path.endswith(".swap")]
    content = disk.read_file(paths[0])
    kept = [b"only %d" % number * 100 for number in range(6)]
    for spoiled in (content, *shortened(content), *flipped(content), *lengthened(content)):
        left = disk.after_crash("everything")
        left.write_file(paths[0], spoiled)
        store = open_store(left)
        found = [message.value for message in messages(store.logs["t/0"])]
        assert [value for value in found if value.startswith(b"only")] == kept
        assert b"5" * 500 in found
