"""The fault model: each sentence of `goqueue.testing.disk` as a test."""

import errno
from collections.abc import Callable
from threading import Thread

import pytest

from goqueue.errors import AccessDenied, DataDirectoryInUse, DiskFailed, DiskFull, PathInvalid
from goqueue.storage.disk import read_all, replace
from goqueue.testing.disk import Crashed, FaultyDisk, FaultyFile, Keep

OUTCOMES = range(200)  # how often chance is asked, where every outcome must be seen


@pytest.fixture
def disk() -> FaultyDisk:
    disk = FaultyDisk(seed=1)
    disk.make_directory("/d")
    return disk


def durable(disk: FaultyDisk, path: str, content: bytes = b"") -> FaultyFile:
    disk.write_file(path, content)
    return disk.open(path, "write")


def read(file: FaultyFile) -> bytes:
    into = bytearray(1000)
    return bytes(into[: file.read(0, memoryview(into))])


# --- sync ---


def test_unsynced_bytes_are_lost_with_the_power(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a", b"old")
    file.write(0, [b"new!"])
    assert disk.read_file("/d/a") == b"new!"
    assert disk.after_crash("synced").read_file("/d/a") == b"old"


def test_sync_brings_content_and_size_to_the_device(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a", b"12345")
    file.write(3, [b"abcdef"])
    file.truncate(7)
    file.sync()
    assert disk.after_crash("synced").read_file("/d/a") == b"123abcd"


def test_an_unsynced_truncation_is_lost_with_the_power(disk: FaultyDisk) -> None:
    durable(disk, "/d/a", b"12345").truncate(2)
    assert disk.after_crash("synced").read_file("/d/a") == b"12345"


def test_a_synced_file_without_a_synced_name_is_lost(disk: FaultyDisk) -> None:
    file = disk.open("/d/a", "create")
    file.write(0, [b"content"])
    file.sync()
    assert disk.after_crash("synced").kind("/d/a") == "absent"


def test_a_synced_name_without_synced_bytes_is_an_empty_file(disk: FaultyDisk) -> None:
    disk.open("/d/a", "create").write(0, [b"content"])
    disk.sync_directory("/d")
    assert disk.after_crash("synced").read_file("/d/a") == b""


def test_a_removal_is_undone_by_a_loss_of_power_until_its_directory_is_synced(disk: FaultyDisk) -> None:
    durable(disk, "/d/a", b"content")
    disk.remove("/d/a")
    assert disk.after_crash("synced").read_file("/d/a") == b"content"
    disk.sync_directory("/d")
    assert disk.after_crash("synced").kind("/d/a") == "absent"


def test_a_rename_is_undone_by_a_loss_of_power_until_its_directory_is_synced(disk: FaultyDisk) -> None:
    durable(disk, "/d/a", b"new")
    durable(disk, "/d/b", b"old")
    disk.rename("/d/a", "/d/b")
    before = disk.after_crash("synced")
    assert (before.read_file("/d/a"), before.read_file("/d/b")) == (b"new", b"old")
    disk.sync_directory("/d")
    after = disk.after_crash("synced")
    assert (after.paths(), after.read_file("/d/b")) == (["/d/b"], b"new")


@pytest.mark.parametrize("synced", ["/d", "/e"])
def test_a_file_that_changes_directories_is_in_one_of_them(disk: FaultyDisk, synced: str) -> None:
    durable(disk, "/d/a", b"content")
    disk.make_directory("/e")
    disk.rename("/d/a", "/e/a")
    assert disk.after_crash("synced").paths() == ["/d/a"]
    disk.sync_directory(synced)
    assert disk.after_crash("synced").paths() == ["/e/a"]


def test_directories_are_durable_once_they_are_made(disk: FaultyDisk) -> None:
    disk.make_directory("/d/e/f")
    assert disk.after_crash("synced").kind("/d/e/f") == "directory"


def test_a_removed_directory_comes_back_until_its_parent_is_synced(disk: FaultyDisk) -> None:
    durable(disk, "/d/e/a")
    disk.remove("/d/e/a")
    disk.remove_directory("/d/e")
    assert disk.after_crash("synced").paths() == ["/d/e/a"]
    disk.sync_directory("/d")
    assert disk.after_crash("synced").kind("/d/e") == "absent"


def test_what_is_in_a_lost_directory_is_lost_with_it(disk: FaultyDisk) -> None:
    disk.fail("sync_directory", path="/d")
    with pytest.raises(DiskFailed):
        disk.make_directory("/d/e")
    disk.open("/d/e/a", "create").sync()
    disk.sync_directory("/d/e")
    assert disk.after_crash("synced").kind("/d/e") == "absent"


def test_making_a_directory_again_syncs_the_name_that_the_first_attempt_left_unsynced(disk: FaultyDisk) -> None:
    disk.crash_at(disk.operations + 3)
    with pytest.raises(Crashed):
        disk.make_directory("/d/e")
    survivor = disk.crash("everything")
    survivor.make_directory("/d/e")
    assert survivor.crash("synced").kind("/d/e") == "directory"


# --- handles ---


def test_a_removed_file_takes_space_until_all_its_handles_are_closed(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 10
    file, other = durable(disk, "/d/a", b"12345"), disk.open("/d/a", "read")
    disk.remove("/d/a")
    file.close()
    file.close()
    assert disk.free_bytes("/") == 5
    other.close()
    assert disk.free_bytes("/") == 10


def test_a_file_that_came_back_keeps_its_space(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 10
    durable(disk, "/d/a", b"12345").close()
    disk.remove("/d/a")
    after = disk.crash("synced")
    after.open("/d/a", "read").close()
    assert after.free_bytes("/") == 5


def test_a_replaced_file_takes_space_until_its_last_user_lets_go(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 10
    old = durable(disk, "/d/a", b"old")
    durable(disk, "/d/b", b"new").close()
    disk.rename("/d/b", "/d/a")
    assert disk.free_bytes("/") == 4
    del old
    assert disk.free_bytes("/") == 7


# --- death ---


def test_a_killed_process_loses_nothing(disk: FaultyDisk) -> None:
    disk.open("/d/a", "create").write(0, [b"content"])
    assert disk.crash("everything").read_file("/d/a") == b"content"


def test_what_a_killed_process_did_not_sync_is_still_lost_when_the_power_goes_later(disk: FaultyDisk) -> None:
    durable(disk, "/d/a", b"old").write(0, [b"new"])
    disk.open("/d/b", "create")
    after = disk.crash("everything").crash("synced")
    assert after.paths() == ["/d/a"]
    assert after.read_file("/d/a") == b"old"


def test_what_a_killed_process_did_not_sync_can_be_synced_by_the_next(disk: FaultyDisk) -> None:
    durable(disk, "/d/a", b"old").write(0, [b"new"])
    survivor = disk.crash("everything")
    survivor.open("/d/a", "read").sync()
    assert survivor.crash("synced").read_file("/d/a") == b"new"


def test_what_a_killed_process_removed_while_using_it_still_comes_back_when_the_power_goes(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 10
    file = durable(disk, "/d/a", b"12345")
    disk.remove("/d/a")
    survivor = disk.crash("everything")
    assert (survivor.free_bytes("/"), survivor.crash("synced").free_bytes("/")) == (10, 5)
    assert repr(file) == "<FaultyFile /d/a open>"


def survivors(disk: FaultyDisk, path: str, *, torn: bool = False) -> set[bytes]:
    """All that a file may hold after the power went."""
    return {disk.after_crash("some", torn=torn).read_file(path) for _ in OUTCOMES}


def test_any_subset_of_the_unsynced_blocks_survives() -> None:
    disk = FaultyDisk(block_bytes=2)
    durable(disk, "/a", b"......").write(0, [b"aabbcc"])
    every = {
        bytes([*one, *two, *three]) for one in (b"..", b"aa") for two in (b"..", b"bb") for three in (b"..", b"cc")
    }
    assert survivors(disk, "/a") == every


def test_blocks_begin_at_their_multiples() -> None:
    disk = FaultyDisk(block_bytes=4)
    durable(disk, "/a", b"........").write(3, [b"abb"])
    assert survivors(disk, "/a") == {b"........", b"...a....", b"....bb..", b"...abb.."}


def test_a_block_is_as_it_was_after_one_of_its_writes() -> None:
    disk = FaultyDisk()
    file = durable(disk, "/a", b"....")
    file.write(0, [b"1"])
    file.write(2, [b"2"])
    file.write(0, [b"3"])
    assert survivors(disk, "/a") == {b"....", b"1...", b"1.2.", b"3.2."}


def test_a_block_may_be_torn_at_any_byte() -> None:
    disk = FaultyDisk()
    durable(disk, "/a", b"....").write(0, [b"abcd"])
    assert survivors(disk, "/a") == {b"....", b"abcd"}
    assert survivors(disk, "/a", torn=True) == {b"....", b"a...", b"ab..", b"abc.", b"abcd"}


def test_a_file_may_grow_without_its_data_and_reads_zeros_there() -> None:
    disk = FaultyDisk()
    file = durable(disk, "/a", b"old")
    file.write(3, [b"new"])
    assert survivors(disk, "/a") == {b"old", b"old\0\0\0", b"oldnew"}


def test_sizes_arrive_in_their_order_and_stop_anywhere() -> None:
    disk = FaultyDisk()
    file = durable(disk, "/a", b"12345")
    file.truncate(2)
    file.truncate(4)
    file.truncate(1)
    assert survivors(disk, "/a") == {b"12345", b"12", b"12\0\0", b"1"}


def test_synced_bytes_survive_whatever_becomes_of_later_ones(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a")
    file.write(0, [b"synced"])
    file.sync()
    file.write(6, [b"later"])
    assert all(content.startswith(b"synced") for content in survivors(disk, "/d/a", torn=True))


def names(disk: FaultyDisk) -> set[tuple[str, ...]]:
    """All the files that there may be after the power went."""
    return {tuple(disk.after_crash("some").paths()) for _ in OUTCOMES}


def test_names_arrive_in_any_order(disk: FaultyDisk) -> None:
    durable(disk, "/d/a")
    disk.remove("/d/a")
    disk.open("/d/b", "create")
    assert names(disk) == {("/d/a",), ("/d/a", "/d/b"), (), ("/d/b",)}


def test_a_name_keeps_the_order_of_its_own_changes(disk: FaultyDisk) -> None:
    durable(disk, "/d/a")
    disk.rename("/d/a", "/d/b")
    disk.rename("/d/b", "/d/c")
    assert names(disk) == {("/d/a",), ("/d/b",), ("/d/c",)}


def test_a_moved_file_is_never_lost_with_the_directory_that_it_left(disk: FaultyDisk) -> None:
    durable(disk, "/d/e/a")
    disk.make_directory("/d/f")
    disk.rename("/d/e/a", "/d/f/a")
    disk.remove_directory("/d/e")
    assert names(disk) == {("/d/e/a",), ("/d/f/a",)}


def test_a_file_is_never_lost_by_moving_it_into_a_directory_whose_name_is_not_synced(disk: FaultyDisk) -> None:
    durable(disk, "/d/a")
    disk.fail("sync_directory", path="/d")
    with pytest.raises(DiskFailed):
        disk.make_directory("/d/e")
    disk.rename("/d/a", "/d/e/a")
    assert names(disk) == {("/d/a",), ("/d/e/a",)}


def test_names_that_wait_keep_their_order_while_another_directory_is_synced(disk: FaultyDisk) -> None:
    durable(disk, "/e/a")
    disk.rename("/e/a", "/e/b")
    disk.rename("/e/b", "/e/c")
    disk.open("/d/a", "create")
    disk.sync_directory("/d")
    disk.sync_directory("/e")
    assert disk.crash("synced").paths() == ["/d/a", "/e/c"]


def test_a_moved_directory_is_never_lost(disk: FaultyDisk) -> None:
    durable(disk, "/d/e/a")
    durable(disk, "/d/f/b")
    disk.rename("/d/e", "/d/f/e")
    disk.rename("/d/f/e", "/d/g")
    disk.rename("/d/f", "/d/g/f")
    assert all(len(paths) == 2 for paths in names(disk))


@pytest.mark.parametrize("keep", ["everything", "synced", "some"])
def test_old_handles_and_locks_are_dead(disk: FaultyDisk, keep: Keep) -> None:
    file = durable(disk, "/d/a", b"content")
    lock = disk.lock("/d/lock", "old")
    after = disk.crash(keep)
    for use in (file.size, file.sync, file.forget_cache, lambda: file.write(0, [b"x"]), lambda: disk.kind("/d/a")):
        with pytest.raises(Crashed):
            use()
    held = after.lock("/d/lock", "new")
    file.close()
    lock.release()
    with pytest.raises(DataDirectoryInUse, match="new"):
        after.lock("/d/lock", "third")
    held.release()


def test_looking_at_what_would_be_left_does_not_end_the_process(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a", b"old")
    file.write(0, [b"new"])
    left = [disk.after_crash(keep).read_file("/d/a") for keep in ("synced", "everything")]
    file.sync()
    assert [*left, disk.crash("synced").read_file("/d/a")] == [b"old", b"new", b"new"]


def test_one_moment_can_be_crashed_many_times(disk: FaultyDisk) -> None:
    durable(disk, "/d/a", b"old").write(0, [b"new"])
    first, second = disk.crash("everything"), disk.crash("everything")
    first.overwrite("/d/a", 0, b"mad")
    first.remove("/d/a")
    assert second.read_file("/d/a") == b"new"
    assert disk.crash("synced").read_file("/d/a") == b"old"


def test_no_handler_of_exceptions_stops_a_crash() -> None:
    assert not issubclass(Crashed, Exception)


# --- a failed sync ---


def test_a_failed_sync_raises_once_and_the_next_one_writes_nothing(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a", b"old")
    file.write(0, [b"new"])
    disk.fail("sync")
    with pytest.raises(DiskFailed):
        file.sync()
    file.sync()
    assert disk.read_file("/d/a") == b"new"
    assert disk.after_crash("synced").read_file("/d/a") == b"old"


def test_forgetting_the_cache_after_a_failed_sync_shows_the_device(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a", b"old")
    file.write(0, [b"new"])
    disk.fail("sync")
    with pytest.raises(DiskFailed):
        file.sync()
    file.write(1, [b"!"])
    file.forget_cache()
    assert read(file) == b"o!d"
    file.sync()
    assert disk.after_crash("synced").read_file("/d/a") == b"o!d"


def test_the_next_process_still_sees_the_cache_after_a_failed_sync(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a", b"old")
    file.write(0, [b"new"])
    disk.fail("sync")
    with pytest.raises(DiskFailed):
        file.sync()
    survivor = disk.crash("everything").open("/d/a", "read")
    assert read(survivor) == b"new"
    survivor.forget_cache()
    assert read(survivor) == b"old"


def test_after_a_failed_sync_the_size_is_synced_without_the_data(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a", b"old")
    file.write(3, [b"new"])
    disk.fail("sync")
    with pytest.raises(DiskFailed):
        file.sync()
    assert disk.after_crash("synced").read_file("/d/a") == b"old"
    file.sync()
    assert disk.read_file("/d/a") == b"oldnew"
    assert disk.after_crash("synced").read_file("/d/a") == b"old\0\0\0"
    assert disk.crash("everything").crash("synced").read_file("/d/a") == b"old\0\0\0"


def test_forgetting_the_cache_keeps_the_size_and_whatever_is_not_synced(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a", b"old")
    file.write(3, [b"lost"])
    disk.fail("sync")
    with pytest.raises(DiskFailed):
        file.sync()
    file.write(7, [b"new"])
    file.forget_cache()
    assert read(file) == b"old\0\0\0\0new"


def test_a_failed_sync_of_a_directory_leaves_its_names_unsynced(disk: FaultyDisk) -> None:
    disk.open("/d/a", "create")
    disk.fail("sync_directory")
    with pytest.raises(DiskFailed):
        disk.sync_directory("/d")
    assert disk.after_crash("synced").paths() == []
    disk.sync_directory("/d")
    assert disk.after_crash("synced").paths() == ["/d/a"]


# --- faults ---


CHANGES: dict[str, Callable[[FaultyDisk], object]] = {
    "create": lambda disk: disk.open("/d/new", "create"),
    "write": lambda disk: disk.open("/d/a", "write").write(0, [b"new"]),
    "truncate": lambda disk: disk.open("/d/a", "write").truncate(0),
    "sync": lambda disk: disk.open("/d/a", "write").sync(),
    "rename": lambda disk: disk.rename("/d/a", "/d/new"),
    "remove": lambda disk: disk.remove("/d/a"),
    "make_directory": lambda disk: disk.make_directory("/d/new"),
    "remove_directory": lambda disk: disk.remove_directory("/d/empty"),
    "sync_directory": lambda disk: disk.sync_directory("/d"),
    "lock": lambda disk: disk.lock("/d/lock", "me"),
}
LOOKS: dict[str, Callable[[FaultyDisk], object]] = {
    "open": lambda disk: disk.open("/d/a", "read"),
    "read": lambda disk: disk.open("/d/a", "read").read(0, memoryview(bytearray(1))),
    "size": lambda disk: disk.open("/d/a", "read").size(),
    "forget_cache": lambda disk: disk.open("/d/a", "read").forget_cache(),
    "entries": lambda disk: disk.entries("/d"),
    "kind": lambda disk: disk.kind("/d/a"),
    "free_bytes": lambda disk: disk.free_bytes("/d"),
}


@pytest.fixture
def furnished(disk: FaultyDisk) -> FaultyDisk:
    disk.write_file("/d/a", b"old")
    disk.make_directory("/d/empty")
    return disk


def view(disk: FaultyDisk) -> object:
    return [(path, disk.read_file(path)) for path in disk.paths()], disk.entries("/d")


@pytest.mark.parametrize("name", CHANGES)
def test_an_operation_that_changes_the_disk_is_counted(furnished: FaultyDisk, name: str) -> None:
    before = furnished.operations
    CHANGES[name](furnished)
    assert furnished.operations == before + (3 if name == "make_directory" else 1)
    assert f"{before + (2 if name == 'make_directory' else 1)} {name} /d" in "\n".join(furnished.journal)


@pytest.mark.parametrize("name", LOOKS)
def test_an_operation_that_changes_nothing_is_not_counted(furnished: FaultyDisk, name: str) -> None:
    before = furnished.operations
    LOOKS[name](furnished)
    assert furnished.operations == before


@pytest.mark.parametrize("name", CHANGES)
def test_the_process_dies_before_the_operation_is_carried_out(furnished: FaultyDisk, name: str) -> None:
    before = view(furnished)
    furnished.crash_at(furnished.operations + (2 if name == "make_directory" else 1))
    with pytest.raises(Crashed, match=name):
        CHANGES[name](furnished)
    with pytest.raises(Crashed):
        furnished.kind("/d")
    assert view(furnished.crash("everything")) == before


@pytest.mark.parametrize("name", [*CHANGES, *LOOKS])
def test_every_operation_can_fail(furnished: FaultyDisk, name: str) -> None:
    before = view(furnished)
    furnished.fail(name)
    with pytest.raises(DiskFailed, match="/d"):
        {**CHANGES, **LOOKS}[name](furnished)
    assert view(furnished) == before
    {**CHANGES, **LOOKS}[name](furnished)


@pytest.mark.parametrize("after_bytes", range(5))
def test_the_process_may_die_within_a_write(disk: FaultyDisk, after_bytes: int) -> None:
    file = durable(disk, "/d/a", b"....")
    disk.crash_at(disk.operations + 1, after_bytes=after_bytes)
    with pytest.raises(Crashed):
        file.write(0, [b"ab", b"cd"])
    assert disk.crash("everything").read_file("/d/a") == b"abcd"[:after_bytes] + b"...."[after_bytes:]


def test_a_write_may_come_up_short(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a")
    disk.fail("write", errno.ENOSPC, after_bytes=2)
    with pytest.raises(DiskFull):
        file.write(0, [b"abcd"])
    assert disk.read_file("/d/a") == b"ab"


def test_a_fault_strikes_once_or_so_many_times_or_for_ever(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a")
    disk.fail("sync", times=2)
    for _ in range(2):
        with pytest.raises(DiskFailed):
            file.sync()
    file.sync()
    disk.fail("sync", times="forever")
    for _ in range(5):
        with pytest.raises(DiskFailed):
            file.sync()
    disk.heal()
    file.sync()


def test_a_fault_may_let_some_pass_first(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a")
    disk.fail("sync", skip=2)
    file.sync()
    file.sync()
    with pytest.raises(DiskFailed):
        file.sync()


def test_a_fault_can_be_bound_to_paths(disk: FaultyDisk) -> None:
    disk.fail("*", errno.EACCES, path="*.index", times="forever")
    disk.open("/d/a.log", "create")
    with pytest.raises(AccessDenied):
        disk.open("/d/a.index", "create")
    with pytest.raises(AccessDenied):
        disk.rename("/d/a.log", "/d/a.index")


def test_a_function_can_decide_what_fails(disk: FaultyDisk) -> None:
    disk.fail(lambda operation, path: operation == "create" and path > "/d/m", errno.ENOENT)
    disk.open("/d/a", "create")
    with pytest.raises(PathInvalid):
        disk.open("/d/z", "create")


def test_faults_end_with_the_process_and_the_capacity_stays(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 10
    disk.fail("*", times="forever")
    after = disk.crash()
    after.open("/d/a", "create")
    assert after.free_bytes("/") == 10
    assert after.operations == 1


def test_an_operation_that_is_over_cannot_be_crashed(disk: FaultyDisk) -> None:
    with pytest.raises(ValueError, match="is over"):
        disk.crash_at(disk.operations)


@pytest.mark.parametrize("keep", ["everything", "synced", "some"])
@pytest.mark.parametrize("operation", range(1, 6))
def test_replacing_a_file_leaves_the_old_or_the_new_wherever_the_process_dies(keep: Keep, operation: int) -> None:
    disk = FaultyDisk(operation)
    disk.write_file("/d/a", b"old")
    disk.crash_at(operation)
    with pytest.raises(Crashed):
        replace(disk, "/d/a", b"new")
    assert disk.crash(keep).read_file("/d/a") in {b"old", b"new"}


def test_a_replaced_file_is_the_new_one_when_the_power_goes(disk: FaultyDisk) -> None:
    disk.write_file("/d/a", b"old")
    replace(disk, "/d/a", b"new")
    assert disk.crash("synced").read_file("/d/a") == b"new"


# --- space ---


def test_a_write_beyond_the_capacity_writes_what_fits(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 8
    file = durable(disk, "/d/a", b"12345")
    with pytest.raises(DiskFull):
        file.write(4, [b"abcdefgh"])
    assert disk.read_file("/d/a") == b"1234abcd"
    assert disk.free_bytes("/") == 0


def test_a_full_disk_still_overwrites(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 5
    durable(disk, "/d/a", b"12345").write(1, [b"abc"])
    assert disk.read_file("/d/a") == b"1abc5"


def test_a_hole_takes_space(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 5
    file = durable(disk, "/d/a")
    with pytest.raises(DiskFull):
        file.write(10, [b"x"])
    with pytest.raises(DiskFull):
        file.truncate(6)
    assert file.size() == 0


def test_removing_truncating_and_a_larger_capacity_give_space(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 10
    file = durable(disk, "/d/a", b"12345")
    disk.write_file("/d/b", b"12345")
    disk.remove("/d/b")
    file.truncate(2)
    assert disk.free_bytes("/") == 8
    disk.capacity_bytes = 3
    assert disk.free_bytes("/") == 1
    disk.capacity_bytes = 100
    file.write(0, [bytes(100)])
    assert disk.free_bytes("/") == 0


def test_a_lock_that_finds_no_space_is_not_held(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 2
    with pytest.raises(DiskFull):
        disk.lock("/d/lock", "first")
    disk.capacity_bytes = None
    disk.lock("/d/lock", "second")


# --- damage ---


def test_a_flipped_bit_is_seen_and_survives(disk: FaultyDisk) -> None:
    durable(disk, "/d/a", b"AAAA")
    disk.flip("/d/a", 1, bit=5)
    assert [disk.read_file("/d/a"), disk.after_crash("synced").read_file("/d/a")] == [b"AaAA", b"AaAA"]


def test_overwritten_bytes_are_seen_and_survive_even_the_sync_of_what_was_there(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a", b"....")
    file.write(2, [b"12345"])
    disk.overwrite("/d/a", 1, b"xxx")
    assert read(file) == b".xxx345"
    assert disk.after_crash("synced").read_file("/d/a") == b".xxx"
    file.sync()
    assert disk.after_crash("synced").read_file("/d/a") == b".xxx345"


def test_damage_never_makes_a_file_longer(disk: FaultyDisk) -> None:
    durable(disk, "/d/a", b"1234")
    with pytest.raises(ValueError, match="not within"):
        disk.overwrite("/d/a", 3, b"xx")
    assert disk.read_file("/d/a") == b"1234"


@pytest.mark.parametrize("content", [b"", b"new", b"longer than the old"])
def test_a_file_put_there_by_an_operator_is_durable_at_once(disk: FaultyDisk, content: bytes) -> None:
    durable(disk, "/d/e/a", b"the old").write(0, [b"unsynced"])
    disk.remove("/d/e/a")
    disk.write_file("/d/e/a", content)
    disk.write_file("/x/y/b", content)
    after = disk.crash("synced")
    assert after.paths() == ["/d/e/a", "/x/y/b"]
    assert after.read_file("/d/e/a") == after.read_file("/x/y/b") == content


def test_an_operator_changes_the_file_that_is_open(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a", b"old and long")
    disk.write_file("/d/a", b"new")
    assert read(file) == b"new"


# --- what helps reading a failure ---


def test_the_journal_tells_what_was_done(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a")
    file.write(0, [b"hello"])
    disk.fail("sync")
    with pytest.raises(DiskFailed):
        file.sync()
    disk.rename("/d/a", "/d/b")
    assert disk.journal == [
        "1 sync_directory /",
        "2 make_directory /d",
        "3 sync_directory /",
        "-- write_file /d/a 0 bytes --",
        "4 write /d/a at 0 5 bytes",
        "5 sync /d/a EIO",
        "6 rename /d/a /d/b",
    ]


def test_the_journal_goes_on_after_a_crash(disk: FaultyDisk) -> None:
    disk.crash_at(4)
    with pytest.raises(Crashed):
        disk.sync_directory("/d")
    after = disk.crash("some")
    after.sync_directory("/d")
    assert after.journal[-3:] == ["4 sync_directory /d CRASHED", "-- crash, keeping some --", "1 sync_directory /d"]


def test_the_journal_is_bounded(disk: FaultyDisk) -> None:
    for _ in range(2000):
        disk.sync_directory("/d")
    assert len(disk.journal) == 1000


def test_a_disk_says_what_state_it_is_in(disk: FaultyDisk) -> None:
    disk.write_file("/d/a", b"12345")
    assert repr(disk) == "<FaultyDisk alive seed=1 files=1 bytes=5 operations=3>"
    disk.capacity_bytes = 9
    disk.crash()
    assert repr(disk) == "<FaultyDisk ended seed=1 files=1 bytes=5/9 operations=3>"


def test_two_threads_can_use_one_disk(disk: FaultyDisk) -> None:
    def append(name: str) -> None:
        file = disk.open(f"/d/{name}", "create")
        for number in range(500):
            file.write(number, [b"x"])
        file.sync()

    threads = [Thread(target=append, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    disk.sync_directory("/d")
    after = disk.crash()
    assert read_all(after, "/d/a") == read_all(after, "/d/b") == b"x" * 500
    assert disk.operations == 3 + 2 * 502 + 1
