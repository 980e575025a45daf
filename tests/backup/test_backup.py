"""Backups of a store: the same bytes at the same offsets, only what is new, and nothing lost by a crash."""

import errno
from contextlib import suppress

import pytest

from goqueue.backup.catalog import BackupCatalog
from goqueue.backup.create import BackupWriter, Throttle
from goqueue.backup.opening import open_target
from goqueue.errors import (
    BackupDamaged,
    BackupNotFound,
    BackupTargetInvalid,
    DiskFull,
    FormatUnsupported,
    RestoreImpossible,
)
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.retention import plan_retention
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import Crashed, FaultyDisk, Keep
from tests.backup.backups import RESTORED, TARGET, Held, back_up, cut_of, held, name_of, problems, restore, restored
from tests.crash.life import telling
from tests.storage.stores import DATA, append, finish, open_store


def filled(disk: FaultyDisk, clock: ManualClock) -> Store:
    """A store with a log of several segments, one below it, an internal one, and an empty one."""
    store = open_store(disk, clock, segment_bytes=1000)
    for name in ("t/0", "t/0/delayed", "__groups/3", "empty/0"):
        store.create(name)
    write(store, clock, 6)
    return store


def write(store: Store, clock: ManualClock, count: int) -> None:
    for number in range(count):
        append(store, store.log("t/0"), b"%d" % number * 300, key=b"k%d" % (number % 2))
        append(store, store.log("__groups/3"), b"record %d" % number)
        clock.advance(1)
    append(store, store.log("t/0/delayed"), b"later")


def stored_objects(disk: FaultyDisk) -> list[str]:
    return [path for path in disk.paths() if path.startswith(f"{TARGET}/objects/")]


def test_restored_directory_has_the_same_messages_at_the_same_offsets() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = filled(disk, clock)
    write(store, clock, 4)
    log = store.log("t/0")
    finish(plan_compaction(log, disk, now_ns=clock.now_ns()))
    expected = held(store)
    manifest = back_up(disk, store)
    append(store, log, b"behind the cut")
    finish(plan_retention(log, disk, before_time=clock.now_ns()))  # takes its time to copy, and the files live on
    assert disk.kind(f"{DATA}/cut") == "absent"
    assert problems(disk) == []
    restore(disk)
    assert restored(disk) == expected
    restored_logs = {p.removeprefix(RESTORED): p for p in disk.paths() if p.startswith(RESTORED) and ".log" in p}
    assert len(restored_logs) == sum(len(one.segments) for one in manifest.logs)
    note = f"{RESTORED}/logs/t/0/compacted"
    assert disk.kind(note) == "file", "without it, what compaction removed would look like a loss"


def test_next_backup_reads_and_stores_only_what_is_new() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = filled(disk, clock)
    first = back_up(disk, store)
    unchanged = back_up(disk, store, 1)
    assert (first.new_objects, unchanged.new_objects, unchanged.new_bytes) == (len(stored_objects(disk)), 0, 0)
    before = len(stored_objects(disk))
    for _ in range(3):
        append(store, store.log("__groups/3"), b"more")
    grown = back_up(disk, store, 2)
    assert (grown.new_objects, len(stored_objects(disk))) == (1, before + 1)
    finish(plan_compaction(store.log("t/0"), disk, now_ns=clock.now_ns()))
    append(store, store.log("t/0"), b"x")
    back_up(disk, store, 3)
    expected = held(store)
    assert [problems(disk, number) for number in range(4)] == [[], [], [], []]
    restore(disk, 3)
    assert restored(disk) == expected
    catalog = BackupCatalog(open_target(TARGET, disk=disk))
    for number in (0, 3, 1):
        catalog.delete(name_of(number))
    assert [one.id for one in catalog.summaries()] == [name_of(2)]
    assert problems(disk, 2) == []
    catalog.delete(name_of(2))
    assert stored_objects(disk) == []


def test_progress_tells_what_must_be_copied_apart_from_what_is_unchanged() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = filled(disk, clock)
    back_up(disk, store)
    write(store, clock, 1)
    cut = cut_of(disk, store)
    job = BackupWriter(disk, f"{DATA}/cut", cut, open_target(TARGET, disk=disk), Throttle(0))
    told = job.progress
    job.run(name_of(1), "1", 2)
    assert told.bytes_done == told.bytes_total == cut.size
    assert told.bytes_unchanged + told.bytes_copied == told.bytes_total
    assert 0 < told.bytes_copied < told.bytes_unchanged


def test_grown_segment_is_copied_anew_after_many_small_pieces() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = open_store(disk, clock, segment_bytes=10**6)
    log = store.create("t/0")
    counts = []
    for number in range(12):
        append(store, log, b"x")
        counts.append(len(back_up(disk, store, number).logs[0].segments[0].pieces))
    assert counts == [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3]
    restore(disk, 11)
    assert restored(disk) == held(store)


@pytest.mark.parametrize("keep", ["synced", "some"])
def test_backup_that_is_killed_at_any_step_leaves_the_earlier_one_and_can_be_repeated(keep: Keep) -> None:
    disk, clock = FaultyDisk(7), ManualClock()
    store = filled(disk, clock)
    expected = held(store)
    back_up(disk, store)
    write(store, clock, 1)
    later, operation, is_finished = held(store), 0, False
    while not is_finished:
        operation += 1
        life = disk.after_crash("everything")
        store = open_store(life, clock, segment_bytes=1000)
        began = life.operations
        life.crash_at(began + operation)
        try:
            back_up(life, store, 1)
            is_finished = True
        except Crashed:
            left = life.crash(keep, torn=True)
            with telling(f"operation {operation}, {keep}", left):
                check_left(left, expected, later)
    assert operation > 30


def check_left(left: FaultyDisk, expected: Held, later: Held) -> None:
    target = open_target(TARGET, disk=left)
    assert target.ids()[0] == name_of(0)
    assert [problems(left, number) for number, _ in enumerate(target.ids())] == [[] for _ in target.ids()]
    restore(left)
    assert restored(left) == expected
    if len(target.ids()) == 1:
        back_up(left, open_store(left, segment_bytes=1000), 1)
    restore(left, 1, "/later")
    assert restored(left, "/later") == later


@pytest.mark.parametrize("keep", ["synced", "some"])
def test_restore_that_is_killed_at_any_step_is_refused_as_a_directory_and_can_be_continued(keep: Keep) -> None:
    disk, clock = FaultyDisk(8), ManualClock()
    store = filled(disk, clock)
    back_up(disk, store)
    expected, operation, is_finished = held(store), 0, False
    while not is_finished:
        operation += 1
        life = disk.after_crash("everything")
        life.crash_at(operation)
        try:
            restore(life)
            is_finished = True
        except Crashed:
            left = life.crash(keep, torn=True)
            with telling(f"operation {operation}, {keep}", left):
                check_continues(left, expected)
    assert operation > 30


def check_continues(left: FaultyDisk, expected: Held) -> None:
    """A broker refuses what is not complete, and takes what is; a repeated restore continues."""
    if left.kind(f"{RESTORED}/logs") != "absent":
        with suppress(FormatUnsupported):
            assert restored(left.after_crash("everything")) == expected
    with suppress(RestoreImpossible):  # it was complete
        restore(left)
    assert restored(left) == expected


def test_flipped_bit_at_each_byte_of_a_backup_is_found() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = open_store(disk, clock)
    append(store, store.create("t/0"), b"one", key=b"k")
    append(store, store.create("__groups/3"), b"two")
    back_up(disk, store)
    paths = [path for path in disk.paths() if path.startswith(TARGET) and not path.endswith("/lock")]
    assert len(paths) == 5
    for path in paths:
        for position in range(len(disk.read_file(path))):
            disk.flip(path, position, position % 8)
            assert problems(disk), f"{path} at {position}"
            disk.flip(path, position, position % 8)
        content = disk.read_file(path)
        disk.remove(path)
        with telling(path), suppress(BackupNotFound, BackupTargetInvalid):
            assert problems(disk) or path.endswith("/id")
        disk.write_file(path, content)
    assert problems(disk) == []


def test_damaged_source_is_copied_as_it_is_and_told() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = filled(disk, clock)
    segment = store.log("t/0").segments[1]
    disk.flip(segment.path, 500)
    manifest = back_up(disk, store)
    (log,) = [one for one in manifest.logs if one.damages]
    assert (log.name, log.damages[0].base_offset) == ("t/0", segment.base_offset)
    assert problems(disk) == []
    restore(disk)
    assert disk.read_file(f"{RESTORED}/logs/t/0/{segment.base_offset:020d}.log") == disk.read_file(segment.path)
    disk.flip(segment.path, 500)  # repaired
    assert not any(one.damages for one in back_up(disk, store, 1).logs)


def test_restore_and_target_refuse_directories_of_others() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = filled(disk, clock)
    manifest = back_up(disk, store)
    back_up(disk, store, 1)
    with pytest.raises(RestoreImpossible, match="/data is not empty"):
        restore(disk, path=DATA)
    disk.write_file(f"{RESTORED}/FORMAT", b"goqueue-restoring %s\n" % name_of(1).encode())
    with pytest.raises(RestoreImpossible, match="another restore was interrupted"):
        restore(disk)
    restore(disk, 1)
    (piece, *_) = next(log for log in manifest.logs if log.name == "t/0").segments[0].pieces
    disk.flip(f"{TARGET}/objects/{piece.object_name[:2]}/{piece.object_name}", 100)
    with pytest.raises(BackupDamaged, match=r"log t/0 cannot be restored: object .* is damaged") as refused:
        restore(disk, path="/half")
    assert f"list --from {TARGET}" in str(refused.value.hint)
    assert "remove /half" in str(refused.value.hint)
    disk.write_file("/other/mail", b"")
    with pytest.raises(BackupTargetInvalid, match="holds no backups but 'mail'"):
        open_target("/other", disk=disk).open("this test")
    disk.capacity_bytes = disk._kernel.used_bytes + 100
    with pytest.raises(RestoreImpossible, match="free space"):
        restore(disk, path="/elsewhere")


def test_full_target_keeps_no_unfinished_piece() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = filled(disk, clock)
    disk.fail("write", errno.ENOSPC, path=f"{TARGET}/objects/*", times="forever", after_bytes=10)
    with pytest.raises(DiskFull) as failed:
        back_up(disk, store)
    assert "the next one continues with what was copied" in str(failed.value.hint)
    assert stored_objects(disk) == []


def test_target_that_was_there_is_not_made_anew_where_it_vanishes() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    back_up(disk, filled(disk, clock))
    target = open_target(TARGET, disk=disk)
    assert target.ids() == [name_of(0)]
    for path in [path for path in disk.paths() if path.startswith(TARGET)]:
        disk.remove(path)
    for use in (target.ids, target.check, target.refuse_vanished, lambda: target.open("this test")):
        with pytest.raises(BackupTargetInvalid, match="has no backups any more"):
            use()
    open_target(TARGET, disk=disk).open("another process").release()
