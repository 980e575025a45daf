"""Space that is kept for deletions, and deletions on a disk that has none left."""

import errno

import pytest

from goqueue.errors import DiskFull
from goqueue.limits import RESERVE_BYTES
from goqueue.storage.retention import plan_retention
from goqueue.storage.store import Store
from goqueue.testing.disk import Crashed, FaultyDisk
from tests.storage.stores import DATA, Answers, append, batch, finish, open_store, values


def fill(disk: FaultyDisk) -> None:
    space = disk.space(DATA)
    disk.capacity_bytes = space.total_bytes - space.free_bytes


def with_a_log(disk: FaultyDisk) -> Store:
    """Return a log of four segments that was read once, so that its files may be open."""
    store = open_store(disk, tail_bytes=1)
    log = store.create("t/0")
    for _ in range(16):
        append(store, log, b"x" * 1000)
    assert len(values(log)) == 16
    return store


def refused(store: Store, name: str) -> bool:
    answers = Answers()
    store.log(name).append(batch([b"y" * 100]), answers)
    store.flush()
    return isinstance(answers.given[0], DiskFull)


def test_reserve_is_complete_or_absent_after_crash(disk: FaultyDisk, store: Store) -> None:
    before = disk.operations
    store.reserve.make()
    for operation in range(before + 1, disk.operations + 1):
        ended = FaultyDisk()
        store = open_store(ended)
        ended.crash_at(operation, after_bytes=1000)
        with pytest.raises(Crashed):
            store.reserve.make()
        left = ended.crash("some", torn=True)
        again = open_store(left)
        assert again.reserve.is_made == (f"{DATA}/reserve" in left.paths())
        again.reserve.make()
        assert len(left.read_file(f"{DATA}/reserve")) == RESERVE_BYTES
        assert f"{DATA}/reserve.tmp" not in left.paths()


def test_reserve_is_released_only_for_deletions(disk: FaultyDisk) -> None:
    store = with_a_log(disk)
    store.reserve.make()
    store.log("t/0").writer.reserve = store.reserve
    fill(disk)
    assert refused(store, "t/0")
    assert f"{DATA}/reserve" in disk.paths()
    store.reserve.deletions += 1
    assert not refused(store, "t/0")
    assert f"{DATA}/reserve" not in disk.paths()
    assert not store.reserve.is_made


def test_reserve_without_room_leaves_no_file(disk: FaultyDisk, store: Store) -> None:
    fill(disk)
    disk.capacity_bytes = (disk.capacity_bytes or 0) + RESERVE_BYTES - 1
    with pytest.raises(DiskFull):
        store.reserve.make()
    assert disk.space(DATA).free_bytes == RESERVE_BYTES - 1


@pytest.mark.parametrize("operation", ["rename", "sync_directory"])
def test_deletion_frees_space_when_the_log_cannot_be_moved(disk: FaultyDisk, operation: str) -> None:
    store = with_a_log(disk)
    size = store.log("t/0").size
    fill(disk)
    disk.fail(operation, errno.ENOSPC, path="*/trash*", times=1)
    store.delete("t/0")
    store.empty_trash()
    assert disk.kind(f"{DATA}/logs/t/0") == "absent"
    assert disk.space(DATA).free_bytes > size
    assert open_store(disk.crash("synced")).logs == {}


def test_crash_during_removal_in_place_leaves_no_damage() -> None:
    finished, operation = False, 0
    while not finished:
        operation += 1
        disk = FaultyDisk(operation)
        store = with_a_log(disk)
        disk.fail("rename", errno.ENOSPC, path="*/trash*", times="forever")
        disk.crash_at(disk.operations + operation)
        try:
            store.delete("t/0")
            finished = True
        except Crashed:
            again = open_store(disk.crash("some"))
            assert all(found.damages == [] for found in again.recovered.values())
            for name in list(again.logs):
                again.delete(name)
            assert append(again, again.create("t/0"), b"new") == range(1)
    assert operation > 10


def test_retention_on_a_full_disk_allows_appends_again(disk: FaultyDisk) -> None:
    store = with_a_log(disk)
    fill(disk)
    assert refused(store, "t/0")
    assert store.refusal == "the disk is full"
    finish(plan_retention(store.log("t/0"), disk, bytes_kept=4096))
    assert not refused(store, "t/0")
    assert store.refusal is None


def test_refusal_ends_when_its_log_is_written_or_deleted(disk: FaultyDisk) -> None:
    store = with_a_log(disk)
    store.create("u")
    disk.fail("write", errno.ENOSPC, path="*/t/0/*.log", times=1)
    assert refused(store, "t/0")
    append(store, store.log("u"), b"elsewhere")
    assert store.refused.keys() == {"t/0"}
    append(store, store.log("t/0"), b"here")
    assert store.refusal is None
    disk.fail("write", errno.ENOSPC, path="*/t/0/*.log", times=1)
    assert refused(store, "t/0")
    store.delete("t/0")
    assert store.refusal is None
