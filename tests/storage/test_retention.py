"""Retention by time and by size: what goes, what stays, and who may still read it."""

import pytest

from goqueue.clock import NANOSECONDS
from goqueue.errors import DiskFailed, LogFenced, OffsetOutOfRange
from goqueue.storage.log import Log
from goqueue.storage.reads import PendingRead
from goqueue.storage.retention import plan_retention
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import (
    append,
    batch,
    fill_five_segments,
    finish,
    offset_for_time,
    open_store,
    read_again,
    values,
)

SIZE = len(batch([b"x" * 1000]).buffer)


@pytest.fixture
def store(disk: FaultyDisk, clock: ManualClock) -> Store:
    return fill_five_segments(disk, clock)


@pytest.fixture
def log(store: Store) -> Log:
    return store.logs["t/0"]


def expire(log: Log, disk: FaultyDisk, *, before_time: int = 0, bytes_kept: int | None = None) -> int:
    job = plan_retention(log, disk, before_time=before_time, bytes_kept=bytes_kept)
    finish(job)
    return len(job.removed)


def test_retention_without_a_limit_removes_nothing(log: Log, disk: FaultyDisk) -> None:
    assert expire(log, disk) == 0
    assert log.first_offset == 0


@pytest.mark.parametrize(("kept", "first"), [(15, 0), (14, 0), (12, 3), (11, 3), (9, 6), (3, 12), (0, 12)])
def test_size_retention_removes_the_oldest_segments(log: Log, disk: FaultyDisk, kept: int, first: int) -> None:
    expire(log, disk, bytes_kept=kept * SIZE)
    assert log.first_offset == first
    assert log.size == (15 - first) * SIZE
    assert len(values(log)) == 15 - first


@pytest.mark.parametrize(("seconds", "first"), [(0, 0), (20, 0), (21, 3), (50, 3), (51, 6), (119, 12), (141, 12)])
@pytest.mark.parametrize("restart", [False, True])
def test_time_retention_removes_segments_with_only_old_messages(
    store: Store, disk: FaultyDisk, clock: ManualClock, seconds: int, first: int, restart: bool
) -> None:
    begin = clock.now_ns() - 150 * NANOSECONDS
    if restart:  # then the times are on disk only
        store.close()
        store = open_store(disk, clock)
    expire(store.logs["t/0"], disk, before_time=begin + seconds * NANOSECONDS)
    assert store.logs["t/0"].first_offset == first


def test_expired_active_segment_is_sealed_and_removed_next_time(
    store: Store, log: Log, disk: FaultyDisk, clock: ManualClock
) -> None:
    assert expire(log, disk, before_time=clock.now_ns()) == 4
    assert (log.first_offset, len(log.segments)) == (12, 2)
    store.flush()
    assert expire(log, disk, before_time=clock.now_ns()) == 1
    assert (log.first_offset, log.next_offset, log.size) == (15, 15, 0)
    assert values(log) == []
    assert open_store(disk.crash("synced")).logs["t/0"].next_offset == 15


def test_active_segment_with_a_newer_message_is_kept(log: Log, disk: FaultyDisk) -> None:
    expire(log, disk, before_time=log.last_time)
    assert len(log.segments) == 1
    assert values(log, 12)[-1].startswith(b"014")


def test_pending_segments_are_not_removed(store: Store, disk: FaultyDisk, clock: ManualClock) -> None:
    log = store.create("t/1")
    log.append(batch([b"x" * 4000]))
    log.append(batch([b"x" * 4000]))
    assert expire(log, disk, before_time=clock.now_ns() + NANOSECONDS, bytes_kept=0) == 0
    store.flush()
    assert len(values(log)) == 2


def test_removed_offset_is_refused_with_a_hint(log: Log, disk: FaultyDisk) -> None:
    expire(log, disk, bytes_kept=6 * SIZE)
    with pytest.raises(OffsetOutOfRange, match="no offset 8") as caught:
        log.read(8, 100)
    assert caught.value.hint == "read from 9, the earliest, or 15, the latest"


def test_read_located_before_retention_uses_the_removed_segment(log: Log, disk: FaultyDisk) -> None:
    found = log.locate(1, 10_000)
    assert isinstance(found, PendingRead)
    expire(log, disk, bytes_kept=0)
    assert found.load().next_offset == 3


def test_read_between_removal_and_apply_is_out_of_range(log: Log, disk: FaultyDisk) -> None:
    job = plan_retention(log, disk, bytes_kept=0)
    job.run()
    with pytest.raises(OffsetOutOfRange):
        log.read(0, 100)
    job.apply()
    assert len(values(log)) == 3


def test_all_files_of_a_removed_segment_are_deleted(log: Log, disk: FaultyDisk) -> None:
    expire(log, disk, bytes_kept=0)
    assert len([path for path in disk.paths() if "/t/0/" in path]) == 3


def test_retention_of_a_fenced_log_is_refused(store: Store, log: Log, disk: FaultyDisk) -> None:
    disk.fail("sync")
    append(store, log, b"lost")
    with pytest.raises(LogFenced):
        plan_retention(log, disk, bytes_kept=0)


@pytest.mark.parametrize(("seconds", "first"), [(51, 3), (80, 3), (81, 9)])
def test_unreadable_segment_is_as_new_as_its_successor(
    store: Store, disk: FaultyDisk, clock: ManualClock, seconds: int, first: int
) -> None:
    begin, unreadable = clock.now_ns() - 150 * NANOSECONDS, store.logs["t/0"].segments[1]
    store.close()
    disk.overwrite(unreadable.path, 0, bytes(unreadable.size))
    log = open_store(disk, clock).logs["t/0"]
    expire(log, disk, before_time=begin + seconds * NANOSECONDS)
    assert log.first_offset == first


def test_log_is_read_again_when_the_removal_of_a_segment_is_in_doubt(store: Store, log: Log, disk: FaultyDisk) -> None:
    disk.fail("sync_directory", path="*/t/0", skip=1)
    job = plan_retention(log, disk, bytes_kept=0)
    with pytest.raises(DiskFailed):
        job.run()
    job.apply()
    with pytest.raises(LogFenced):
        log.append(batch([b"x"]))
    assert read_again(store, disk, "t/0").damages == []
    assert log.first_offset == 6
    assert len(values(log)) == 9
    assert append(store, log, b"new") == range(15, 16)


def test_retention_job_of_a_deleted_log_removes_nothing(store: Store, log: Log, disk: FaultyDisk) -> None:
    job = plan_retention(log, disk, bytes_kept=0)
    store.delete("t/0")
    before = disk.paths()
    job.run()
    assert disk.paths() == before
    assert job.removed == []
    job.apply()
    assert append(store, store.create("t/0"), b"new") == range(1)


def test_emptied_segments_expire_with_their_neighbors(disk: FaultyDisk, clock: ManualClock) -> None:
    for base in (0, 5, 9):
        disk.write_file(f"/data/logs/t/0/{base:020d}.log", b"")
    store = open_store(disk, clock)
    expire(store.logs["t/0"], disk, before_time=1)
    assert (store.logs["t/0"].first_offset, store.logs["t/0"].next_offset) == (9, 9)


def test_time_lookup_between_removal_and_apply() -> None:
    store = open_store(FaultyDisk(), tail_bytes=0)
    log = store.create("t/0")
    for _ in range(3):
        append(store, log, b"x" * 3000)
    job = plan_retention(log, store.resources.disk, bytes_kept=3000)
    job.run()
    assert len(job.removed) == 2
    assert offset_for_time(log, -1) == offset_for_time(log, 0) == 2
    job.apply()
    assert offset_for_time(log, 0) == 2
