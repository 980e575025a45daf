"""Space that is kept for deletions, and deletions on a disk that has none left."""

import errno

import pytest

from goqueue.errors import DiskFull
from goqueue.limits import RESERVE_BYTES
from goqueue.storage.retention import plan_expiry
from goqueue.storage.store import Store
from goqueue.testing.disk import Crashed, FaultyDisk
from tests.storage.stores import DATA, Answers, append, batch, open_store, values


def fill(disk: FaultyDisk) -> None:
    space = disk.space(DATA)
    disk.capacity_bytes = space.total_bytes - space.free_bytes


def with_a_log(disk: FaultyDisk) -> Store:
    """Of four segments, read from the disk once, so that its files may be open."""
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


def test_the_reserve_is_a_whole_file_after_any_crash() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
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


def test_the_reserve_is_given_up_for_deletions_alone() -> None:
    disk = FaultyDisk()
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


def test_a_reserve_for_which_there_is_no_room_leaves_nothing_behind() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    fill(disk)
    disk.capacity_bytes = (disk.capacity_bytes or 0) + RESERVE_BYTES - 1
    with pytest.raises(DiskFull):
        store.reserve.make()
    assert disk.space(DATA).free_bytes == RESERVE_BYTES - 1


@pytest.mark.parametrize("operation", ["rename", "sync_directory"])
def test_a_deleted_log_returns_its_space_when_the_disk_has_no_room_to_move_it(operation: str) -> None:
    disk = FaultyDisk()
    store = with_a_log(disk)
    size = store.log("t/0").size
    fill(disk)
    disk.fail(operation, errno.ENOSPC, path="*/trash*", times=1)
    store.delete("t/0")
    store.empty_trash()
    assert disk.kind(f"{DATA}/logs/t/0") == "absent"
    assert disk.space(DATA).free_bytes > size
    assert open_store(disk.crash("synced")).logs == {}


def test_a_removal_in_place_that_a_crash_interrupts_leaves_a_log_without_damage_or_none() -> None:
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


def test_retention_frees_space_on_a_full_disk_and_appends_are_taken_again() -> None:
    disk = FaultyDisk()
    store = with_a_log(disk)
    fill(disk)
    assert refused(store, "t/0")
    assert store.refusal == "the disk is full"
    job = plan_expiry(store.log("t/0"), disk, bytes_kept=4096)
    job.run()
    job.apply()
    assert not refused(store, "t/0")
    assert store.refusal is None


def test_a_refusal_holds_until_that_log_is_written_to_or_deleted() -> None:
    disk = FaultyDisk()
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
