"""Retention by time and by size: what goes, what stays, and who may still read it."""

import pytest

from goqueue.clock import NANOSECONDS
from goqueue.errors import DiskFailed, LogFenced, OffsetOutOfRange
from goqueue.storage.extent import Extent
from goqueue.storage.log import Log
from goqueue.storage.retention import plan_expiry
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import append, batch, open_store, values

SIZE = len(batch([b"x" * 1000]).buffer)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def store(disk: FaultyDisk, clock: ManualClock) -> Store:
    """Five segments of three messages, ten seconds from one message to the next."""
    store = open_store(disk, clock, tail_bytes=1)
    log = store.create("t/0")
    for number in range(15):
        append(store, log, b"%03d" % number + b"x" * 997)
        clock.advance(10)
    assert len(log.segments) == 5
    return store


@pytest.fixture
def log(store: Store) -> Log:
    return store.logs["t/0"]


def expire(log: Log, disk: FaultyDisk, *, before_time: int = 0, bytes_kept: int | None = None) -> int:
    job = plan_expiry(log, disk, before_time=before_time, bytes_kept=bytes_kept)
    job.run()
    job.apply()
    return len(job.removed)


def test_without_a_limit_nothing_goes(log: Log, disk: FaultyDisk) -> None:
    assert expire(log, disk) == 0
    assert log.first_offset == 0


@pytest.mark.parametrize(("kept", "first"), [(15, 0), (14, 0), (12, 3), (11, 3), (9, 6), (3, 12), (0, 12)])
def test_by_size_the_oldest_segments_above_it_go(log: Log, disk: FaultyDisk, kept: int, first: int) -> None:
    expire(log, disk, bytes_kept=kept * SIZE)
    assert log.first_offset == first
    assert log.size == (15 - first) * SIZE
    assert len(values(log)) == 15 - first


@pytest.mark.parametrize(("seconds", "first"), [(0, 0), (20, 0), (21, 3), (50, 3), (51, 6), (119, 12), (141, 12)])
@pytest.mark.parametrize("restart", [False, True])
def test_by_time_segments_go_when_their_newest_message_is_too_old(
    store: Store, disk: FaultyDisk, clock: ManualClock, seconds: int, first: int, restart: bool
) -> None:
    begin = clock.now_ns() - 150 * NANOSECONDS
    if restart:  # then the times are on disk only
        store.close()
        store = open_store(disk, clock)
    expire(store.logs["t/0"], disk, before_time=begin + seconds * NANOSECONDS)
    assert store.logs["t/0"].first_offset == first


def test_the_active_segment_is_sealed_when_all_in_it_is_too_old_and_goes_the_next_time(
    store: Store, log: Log, disk: FaultyDisk, clock: ManualClock
) -> None:
    assert expire(log, disk, before_time=clock.now_ns()) == 4
    assert (log.first_offset, len(log.segments)) == (12, 2)
    store.flush()
    assert expire(log, disk, before_time=clock.now_ns()) == 1
    assert (log.first_offset, log.next_offset, log.size) == (15, 15, 0)
    assert values(log) == []
    assert open_store(disk.crash("synced")).logs["t/0"].next_offset == 15


def test_an_active_segment_with_a_newer_message_stays(log: Log, disk: FaultyDisk) -> None:
    expire(log, disk, before_time=log.last_time)
    assert len(log.segments) == 1
    assert values(log, 12)[-1].startswith(b"014")


def test_what_waits_for_the_disk_is_never_removed(store: Store, disk: FaultyDisk, clock: ManualClock) -> None:
    log = store.create("t/1")
    log.append(batch([b"x" * 4000]))
    log.append(batch([b"x" * 4000]))
    assert expire(log, disk, before_time=clock.now_ns() + NANOSECONDS, bytes_kept=0) == 0
    store.flush()
    assert len(values(log)) == 2


def test_removed_offsets_are_out_of_range_and_the_error_says_where_to_begin(log: Log, disk: FaultyDisk) -> None:
    expire(log, disk, bytes_kept=6 * SIZE)
    with pytest.raises(OffsetOutOfRange, match="no offset 8") as caught:
        log.read(8, 100)
    assert caught.value.hint == "read from 9, the earliest, or 15, the latest"


def test_a_reader_that_had_begun_goes_on_in_a_removed_segment(log: Log, disk: FaultyDisk) -> None:
    found = log.locate(1, 10_000)
    assert isinstance(found, Extent)
    expire(log, disk, bytes_kept=0)
    assert found.load().next_offset == 3


def test_a_read_that_comes_between_removal_and_its_report_is_out_of_range(log: Log, disk: FaultyDisk) -> None:
    job = plan_expiry(log, disk, bytes_kept=0)
    job.run()
    with pytest.raises(OffsetOutOfRange):
        log.read(0, 100)
    job.apply()
    assert len(values(log)) == 3


def test_all_files_of_a_removed_segment_go(log: Log, disk: FaultyDisk) -> None:
    expire(log, disk, bytes_kept=0)
    assert len([path for path in disk.paths() if "/t/0/" in path]) == 3


def test_an_interrupted_removal_is_finished_the_next_time(log: Log, disk: FaultyDisk) -> None:
    for skip in (0, 1, 2, 3, 4):
        disk.fail("remove", skip=skip)
        job = plan_expiry(log, disk, bytes_kept=0)
        with pytest.raises(DiskFailed):
            job.run()
        job.apply()
        assert len(values(log)) == 15 - log.first_offset
    expire(log, disk, bytes_kept=0)
    assert len(values(log)) == 3


def test_a_fenced_log_is_left_as_it_is(store: Store, log: Log, disk: FaultyDisk) -> None:
    disk.fail("sync")
    append(store, log, b"lost")
    with pytest.raises(LogFenced):
        plan_expiry(log, disk, bytes_kept=0)


@pytest.mark.parametrize(("seconds", "first"), [(51, 3), (80, 3), (81, 9)])
def test_a_segment_that_cannot_be_read_is_as_new_as_its_successor(
    store: Store, disk: FaultyDisk, clock: ManualClock, seconds: int, first: int
) -> None:
    begin, unreadable = clock.now_ns() - 150 * NANOSECONDS, store.logs["t/0"].segments[1]
    store.close()
    disk.overwrite(unreadable.path, 0, bytes(unreadable.size))
    log = open_store(disk, clock).logs["t/0"]
    expire(log, disk, before_time=begin + seconds * NANOSECONDS)
    assert log.first_offset == first


def test_when_nobody_knows_whether_a_segment_stays_gone_the_log_is_read_again(
    store: Store, log: Log, disk: FaultyDisk
) -> None:
    disk.fail("sync_directory", path="*/t/0", skip=1)
    job = plan_expiry(log, disk, bytes_kept=0)
    with pytest.raises(DiskFailed):
        job.run()
    job.apply()
    with pytest.raises(LogFenced):
        log.append(batch([b"x"]))
    assert store.reopen("t/0").damages == []
    assert log.first_offset == 6
    assert len(values(log)) == 9
    assert append(store, log, b"new") == range(15, 16)


def test_the_expiry_of_a_deleted_log_removes_nothing(store: Store, log: Log, disk: FaultyDisk) -> None:
    job = plan_expiry(log, disk, bytes_kept=0)
    store.delete("t/0")
    before = disk.paths()
    job.run()
    assert disk.paths() == before
    assert job.removed == []
    job.apply()
    assert append(store, store.create("t/0"), b"new") == range(1)


def test_a_segment_that_compaction_emptied_goes_with_its_neighbours(disk: FaultyDisk, clock: ManualClock) -> None:
    for base in (0, 5, 9):
        disk.write_file(f"/data/logs/t/0/{base:020d}.log", b"")
    store = open_store(disk, clock)
    expire(store.logs["t/0"], disk, before_time=1)
    assert (store.logs["t/0"].first_offset, store.logs["t/0"].next_offset) == (9, 9)


def test_a_time_is_found_behind_segments_that_are_gone_and_not_yet_forgotten() -> None:
    store = open_store(FaultyDisk(), tail_bytes=0)
    log = store.create("t/0")
    for _ in range(3):
        append(store, log, b"x" * 3000)
    job = plan_expiry(log, store.resources.disk, bytes_kept=3000)
    job.run()
    assert len(job.removed) == 2
    assert log.offset_for_time(-1) == log.offset_for_time(0) == 2
    job.apply()
    assert log.offset_for_time(0) == 2
