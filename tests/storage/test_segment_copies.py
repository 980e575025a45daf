"""Copies of a log restore damage, and never bring back removed messages."""

import errno
from collections.abc import Callable

import pytest

from goqueue.limits import COPY_SYNC_SECONDS
from goqueue.storage import frame
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.retention import plan_retention
from goqueue.storage.store import Store
from goqueue.storage.truncation import truncate
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import DATA, append, batch, finish, open_store, values

NAME = "t/0"
LOG = f"{DATA}/logs/{NAME}/{0:020d}.log"
COPY = f"{DATA}/logs/{NAME}/{0:020d}.copy"
WRITTEN = [b"one", b"two" * 10, b"three", b"four" * 30, b"five"]


def written(*contents: bytes, clean: bool = False, segment_bytes: int = 4096) -> FaultyDisk:
    """A disk with a log that has copies, whose process was killed or stopped."""
    disk = FaultyDisk()
    store = open_store(disk, segment_bytes=segment_bytes)
    log = store.create(NAME)
    log.writer.keep_copies(log.segments)
    for content in contents or WRITTEN:
        append(store, log, content)
    if clean:
        store.close()
    return disk.crash("everything")


def opened(disk: FaultyDisk) -> Store:
    store = open_store(disk)
    assert all(one.damages == [] and one.cut is None for one in store.recovered.values())
    return store


def pairs(disk: FaultyDisk) -> list[tuple[bytes, bytes]]:
    """The content of each log, and of its copy."""
    logs = [path for path in disk.paths() if path.endswith(".log")]
    return [(disk.read_file(path), disk.read_file(path.replace(".log", ".copy"))) for path in logs]


def is_twice(disk: FaultyDisk) -> bool:
    return all(log == copy for log, copy in pairs(disk))


@pytest.mark.parametrize("clean", [False, True])
def test_flipped_bit_at_any_byte_of_the_log_is_restored(clean: bool) -> None:
    before = written(clean=clean)
    content = before.read_file(LOG)
    for position in range(0, len(content), 3):
        disk = before.after_crash("everything")
        disk.flip(LOG, position, position % 8)
        store = opened(disk)
        assert len(store.recovered[NAME].restored) == 1
        assert store.recovered[NAME].was_clean == clean
        assert values(store.logs[NAME]) == WRITTEN
        assert disk.crash("synced").read_file(LOG) == content


@pytest.mark.parametrize(
    ("path", "spoiled"),
    [
        pytest.param(
            COPY, lambda whole, at: whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :], id="flip"
        ),
        pytest.param(COPY, lambda whole, size: whole[:size] + b"\xa5" * (size % 3), id="torn_copy"),
        pytest.param(LOG, lambda whole, size: whole[:size], id="short_log"),
    ],
)
def test_file_spoiled_at_any_byte_is_restored_from_the_other(path: str, spoiled: Callable[[bytes, int], bytes]) -> None:
    before = written()
    whole = before.read_file(path)
    for position in range(0, len(whole), 3):
        disk = before.after_crash("everything")
        disk.write_file(path, spoiled(whole, position))
        store = opened(disk)
        assert path == LOG or store.recovered[NAME].restored == []
        assert values(store.logs[NAME]) == WRITTEN
        assert disk.crash("synced").read_file(path) == whole


@pytest.mark.parametrize("size", [1, 40, 200, 512, 4096])
def test_damaged_range_of_any_size_is_restored(size: int) -> None:
    before = written(*[b"%d" % number * 50 for number in range(60)], segment_bytes=100_000)
    content = before.read_file(LOG)
    for position in range(0, len(content), 97):
        disk = before.after_crash("everything")
        disk.overwrite(LOG, position, b"\xa5" * min(size, len(content) - position))
        opened(disk)
        assert disk.read_file(LOG) == content


def test_synced_copy_survives_power_loss(disk: FaultyDisk, clock: ManualClock, store: Store) -> None:
    log = store.create(NAME)
    log.writer.keep_copies(log.segments)
    for content in WRITTEN:
        append(store, log, content)
    clock.advance(COPY_SYNC_SECONDS)
    store.flush()
    disk = disk.crash("synced")
    disk.flip(LOG, 70, 3)
    assert values(opened(disk).logs[NAME]) == WRITTEN


def test_sealed_segments_are_restored_too() -> None:
    before = written(*[b"%d" % number * 500 for number in range(20)])
    logs = [path for path in before.paths() if path.endswith(".log")]
    assert len(logs) > 3
    assert is_twice(before)
    for path in logs:
        disk = before.after_crash("everything")
        content = disk.read_file(path)
        disk.overwrite(path, 700, bytes(1000))
        opened(disk)
        assert disk.read_file(path) == content


@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_lost_log_file_is_made_again_from_its_copy(number: int) -> None:
    disk = written(*[b"%d" % number * 500 for number in range(20)])
    path = [path for path in disk.paths() if path.endswith(".log")][number]
    content = disk.read_file(path)
    disk.remove(path)
    store = open_store(disk)
    if number == 0:  # it may have gone by retention, which removes the copy without waiting for that
        assert disk.kind(path) == "absent"
    else:
        assert disk.read_file(path) == content
        assert store.recovered[NAME].restored[0].reason == "the file was missing"


def test_all_log_files_lost_are_made_again_from_their_copies() -> None:
    disk = written(*[b"%d" % number * 500 for number in range(20)])
    content = pairs(disk)
    for path in [path for path in disk.paths() if path.endswith(".log")]:
        disk.remove(path)
    opened(disk)
    assert pairs(disk) == content


def test_damage_at_the_same_range_of_log_and_copy_costs_its_messages() -> None:
    disk = written()
    first = len(frame.encode(WRITTEN[0]))
    for path in (LOG, COPY):
        disk.overwrite(path, first + 5, b"\xa5" * 20)
    store = open_store(disk)
    assert store.recovered[NAME].restored == []
    assert values(store.logs[NAME], skip=True) == [WRITTEN[0], *WRITTEN[2:]]
    assert is_twice(disk)


def test_damage_at_different_ranges_of_log_and_copy_is_restored() -> None:
    disk = written()
    content = disk.read_file(LOG)
    first = len(frame.encode(WRITTEN[0]))
    disk.overwrite(LOG, 0, bytes(first + 40))
    disk.overwrite(COPY, len(content) - 5, bytes(5))
    assert values(opened(disk).logs[NAME]) == WRITTEN
    assert is_twice(disk)


def test_missing_copy_is_rebuilt() -> None:
    disk = written(*[b"%d" % number * 500 for number in range(20)])
    disk.remove(COPY)
    opened(disk)
    assert is_twice(disk.crash("synced"))


def test_copy_of_another_segment_is_ignored() -> None:
    disk = written(*[b"%d" % number * 500 for number in range(20)])
    last = [path for path in disk.paths() if path.endswith(".copy")][-1]
    disk.write_file(COPY, disk.read_file(last))
    disk.flip(LOG, 50)
    store = open_store(disk)
    assert store.recovered[NAME].restored == []
    assert values(store.logs[NAME], skip=True) == [b"%d" % number * 500 for number in range(1, 20)]
    assert is_twice(disk)


def test_a_copy_that_cannot_be_written_fails_no_append(disk: FaultyDisk, store: Store) -> None:
    log = store.create(NAME)
    log.writer.keep_copies(log.segments)
    append(store, log, b"one")
    disk.fail("write", errno.ENOSPC, path="*.copy*", times="forever")
    append(store, log, b"two")
    assert disk.kind(COPY) == "absent"
    disk.end_faults()
    append(store, log, b"three" * 2000)  # a segment of its own
    append(store, log, b"four" * 2000)
    assert values(log) == [b"one", b"two", b"three" * 2000, b"four" * 2000]
    assert is_twice(disk)


def test_refused_append_does_not_return_from_the_copy(disk: FaultyDisk, store: Store) -> None:
    log = store.create(NAME)
    log.writer.keep_copies(log.segments)
    append(store, log, b"one")
    disk.fail("write", errno.ENOSPC, path="*.log")
    log.append(batch([b"refused"]))
    store.flush()
    assert values(open_store(disk.after_crash("everything")).logs[NAME]) == [b"one"]
    append(store, log, b"two")
    assert values(open_store(disk.crash("everything")).logs[NAME]) == [b"one", b"two"]


def test_longer_copy_does_not_extend_a_truncated_log() -> None:
    disk = written()
    store = opened(disk)
    truncate(store.logs[NAME], disk, 2)
    assert values(opened(disk.after_crash("synced")).logs[NAME]) == WRITTEN[:2]
    append(store, store.logs[NAME], b"else")
    left = disk.crash("everything")
    assert is_twice(left)
    assert values(opened(left).logs[NAME]) == [*WRITTEN[:2], b"else"]


def test_compacted_segment_gets_a_new_copy(disk: FaultyDisk, store: Store) -> None:
    log = store.create(NAME)
    log.writer.keep_copies(log.segments)
    for number in range(40):
        append(store, log, b"%d" % number * 200, key=b"%d" % (number % 3))
    finish(plan_compaction(log, disk, now_ns=store.resources.clock.now_ns()))
    assert is_twice(disk)
    kept = values(log)
    disk.flip(LOG, 60)
    assert values(opened(disk.crash("everything")).logs[NAME]) == kept


def test_copy_is_removed_with_its_segment() -> None:
    disk = written(*[b"%d" % number * 500 for number in range(20)])
    store = opened(disk)
    finish(plan_retention(store.logs[NAME], disk, bytes_kept=5000))
    names = [path for path in disk.paths() if path.startswith(f"{DATA}/logs/")]
    assert {path.rpartition(".")[0] for path in names if path.endswith(".copy")} == {
        path.rpartition(".")[0] for path in names if path.endswith(".log")
    }
