"""The fault model: each sentence of `goqueue.testing.disk` as a test."""

import errno
from collections.abc import Callable
from threading import Thread

import pytest

from goqueue.errors import AccessDenied, DataDirectoryInUse, DiskFailed, DiskFull, PathInvalid
from goqueue.storage.disk import read_all
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


def do(disk: FaultyDisk, script: str) -> FaultyDisk:
    """Carry out steps such as `write /d/a 3 new; sync /d/a`; return the disk, which `kill` and `lose_power` replace.

    `put` writes a durable file; `sync!` and `sync_directory!` fail.
    """
    for step in script.split("; "):
        match step.split(" "):
            case ["put", path, *content]:
                disk.write_file(path, "".join(content).encode())
            case ["create", path, *content]:
                disk.open(path, "create").write(0, ["".join(content).encode()])
            case ["write", path, position, content]:
                disk.open(path, "write").write(int(position), [content.encode()])
            case ["truncate", path, size]:
                disk.open(path, "write").truncate(int(size))
            case ["sync" | "drop_cache" as name, path]:
                getattr(disk.open(path, "read"), name)()
            case ["sync!" | "sync_directory!" as name, path]:
                disk.fail(name[:-1])
                with pytest.raises(DiskFailed):
                    do(disk, f"{name[:-1]} {path}")
            case ["kill" | "lose_power" as name]:
                disk = disk.crash("everything" if name == "kill" else "synced")
            case [name, *paths]:
                getattr(disk, name)(*paths)
    return disk


def state(disk: FaultyDisk) -> str:
    return " ".join(f"{path}={disk.read_file(path).decode()}" for path in disk.paths())


# --- what is durable ---

NEW = "put /d/a old; write /d/a 0 new"
GROWN = "put /d/a old; write /d/a 3 new; sync! /d/a"
REMOVED = "put /d/a content; remove /d/a"
RENAMED = "put /d/a new; put /d/b old; rename /d/a /d/b"
MOVED = "put /d/a content; make_directory /e; rename /d/a /e/a"
DROPPED = f"{NEW}; sync! /d/a; write /d/a 1 !; drop_cache /d/a"
TWICE_RENAMED = "put /e/a; rename /e/a /e/b; rename /e/b /e/c; create /d/a; sync_directory /d; sync_directory /e"


@pytest.mark.parametrize(
    ("script", "seen", "durable"),
    [
        pytest.param(NEW, "/d/a=new", "/d/a=old", id="unsynced_bytes_are_lost"),
        pytest.param("put /d/a 12345; truncate /d/a 2", "/d/a=12", "/d/a=12345", id="unsynced_truncation_is_lost"),
        pytest.param(
            "put /d/a 12345; write /d/a 3 abcdef; truncate /d/a 7; sync /d/a",
            *["/d/a=123abcd"] * 2,
            id="sync_keeps_content_and_size",
        ),
        pytest.param(
            "create /d/a content; sync /d/a", "/d/a=content", "", id="synced_file_without_synced_name_is_lost"
        ),
        pytest.param(
            "create /d/a content; sync_directory /d", "/d/a=content", "/d/a=", id="synced_name_keeps_no_bytes"
        ),
        pytest.param(REMOVED, "", "/d/a=content", id="unsynced_removal_is_undone"),
        pytest.param(f"{REMOVED}; sync_directory /d", "", "", id="synced_removal_stays"),
        pytest.param(RENAMED, "/d/b=new", "/d/a=new /d/b=old", id="unsynced_rename_is_undone"),
        pytest.param(f"{RENAMED}; sync_directory /d", "/d/b=new", "/d/b=new", id="synced_rename_stays"),
        pytest.param(MOVED, "/e/a=content", "/d/a=content", id="unsynced_move_is_undone"),
        pytest.param(f"{MOVED}; sync_directory /d", *["/e/a=content"] * 2, id="move_stays_with_old_directory_synced"),
        pytest.param(f"{MOVED}; sync_directory /e", *["/e/a=content"] * 2, id="move_stays_with_new_directory_synced"),
        pytest.param(TWICE_RENAMED, *["/d/a= /e/c="] * 2, id="renames_keep_their_order_past_another_directory"),
        pytest.param("create /d/a content; kill", "/d/a=content", "", id="kill_loses_nothing"),
        pytest.param(f"{NEW}; create /d/b; kill", "/d/a=new /d/b=", "/d/a=old", id="power_loss_after_kill_still_loses"),
        pytest.param(f"{NEW}; kill; sync /d/a", "/d/a=new", "/d/a=new", id="next_process_can_sync"),
        pytest.param(f"{NEW}; lose_power; sync /d/a", *["/d/a=old"] * 2, id="sync_after_power_loss_restores_nothing"),
        pytest.param(
            f"{NEW}; sync! /d/a; sync /d/a", "/d/a=new", "/d/a=old", id="sync_after_failed_sync_writes_nothing"
        ),
        pytest.param(
            f"{NEW}; sync! /d/a; kill; drop_cache /d/a", *["/d/a=old"] * 2, id="next_process_drops_lost_cache"
        ),
        pytest.param(DROPPED, "/d/a=o!d", "/d/a=old", id="dropping_cache_after_failed_sync_shows_device"),
        pytest.param(f"{DROPPED}; sync /d/a", "/d/a=o!d", "/d/a=o!d", id="later_write_is_synced_after_failed_sync"),
        pytest.param(GROWN, "/d/a=oldnew", "/d/a=old", id="failed_sync_leaves_size"),
        pytest.param(
            f"{GROWN}; sync /d/a", "/d/a=oldnew", "/d/a=old\0\0\0", id="sync_after_failed_sync_keeps_only_size"
        ),
        pytest.param(
            f"{GROWN}; sync /d/a; kill", "/d/a=oldnew", "/d/a=old\0\0\0", id="kill_does_not_restore_lost_data"
        ),
        pytest.param(
            "put /d/a old; write /d/a 3 lost; sync! /d/a; write /d/a 7 new; drop_cache /d/a",
            "/d/a=old\0\0\0\0new",
            "/d/a=old",
            id="dropping_cache_keeps_size_and_unsynced_writes",
        ),
        pytest.param("create /d/a; sync_directory! /d", "/d/a=", "", id="failed_directory_sync_leaves_names_unsynced"),
        pytest.param(
            "create /d/a; sync_directory! /d; sync_directory /d", "/d/a=", "/d/a=", id="next_directory_sync_works"
        ),
    ],
)
def test_durable_state(disk: FaultyDisk, script: str, seen: str, durable: str) -> None:
    disk = do(disk, script)
    left = [state(one) for one in (disk, disk.after_crash("everything"), disk.after_crash("synced"))]
    assert left == [seen, seen, durable]


@pytest.mark.parametrize(
    ("block_bytes", "script", "torn", "survivors"),
    [
        pytest.param(
            2,
            "put /a ......; write /a 0 aabbcc",
            False,
            "...... aa.... ..bb.. ....cc aabb.. aa..cc ..bbcc aabbcc",
            id="any_subset_of_unsynced_blocks",
        ),
        pytest.param(
            4, "put /a ........; write /a 3 abb", False, "........ ...a.... ....bb.. ...abb..", id="blocks_are_aligned"
        ),
        pytest.param(
            512,
            "put /a ....; write /a 0 1; write /a 2 2; write /a 0 3",
            False,
            ".... 1... 1.2. 3.2.",
            id="block_after_any_of_its_writes",
        ),
        pytest.param(512, "put /a ....; write /a 0 abcd", False, ".... abcd", id="block_is_whole_unless_torn"),
        pytest.param(
            512, "put /a ....; write /a 0 abcd", True, ".... a... ab.. abc. abcd", id="block_torn_at_any_byte"
        ),
        pytest.param(512, "put /a old; write /a 3 new", False, "old old\0\0\0 oldnew", id="file_grows_without_data"),
        pytest.param(512, "put /a old; write /a 5 new", False, "old old\0\0\0\0\0 old\0\0new", id="zeros_fill_a_gap"),
        pytest.param(
            512,
            "put /a 12345; truncate /a 2; truncate /a 4; truncate /a 1",
            False,
            "12345 12 12\0\0 1",
            id="sizes_arrive_in_order",
        ),
    ],
)
def test_content_after_power_loss(block_bytes: int, script: str, torn: bool, survivors: str) -> None:
    disk = do(FaultyDisk(block_bytes=block_bytes), script)
    assert {disk.after_crash("some", torn=torn).read_file("/a").decode() for _ in OUTCOMES} == set(survivors.split(" "))


def names(disk: FaultyDisk) -> set[tuple[str, ...]]:
    """All the files that there may be after a loss of power."""
    return {tuple(disk.after_crash("some").paths()) for _ in OUTCOMES}


@pytest.mark.parametrize(
    ("script", "possible"),
    [
        pytest.param(
            "put /d/a; remove /d/a; create /d/b",
            {("/d/a",), ("/d/a", "/d/b"), (), ("/d/b",)},
            id="different_names_in_any_order",
        ),
        pytest.param(
            "put /d/a; rename /d/a /d/b; rename /d/b /d/c",
            {("/d/a",), ("/d/b",), ("/d/c",)},
            id="changes_of_one_name_in_order",
        ),
        pytest.param(
            "put /d/e/a; make_directory /d/f; rename /d/e/a /d/f/a; remove_directory /d/e",
            {("/d/e/a",), ("/d/f/a",)},
            id="moved_file_is_kept_when_its_old_directory_is_removed",
        ),
    ],
)
def test_names_after_power_loss(disk: FaultyDisk, script: str, possible: set[tuple[str, ...]]) -> None:
    assert names(do(disk, script)) == possible


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


def test_files_of_a_lost_directory_are_lost(disk: FaultyDisk) -> None:
    disk.fail("sync_directory", path="/d")
    with pytest.raises(DiskFailed):
        disk.make_directory("/d/e")
    disk.open("/d/e/a", "create").sync()
    disk.sync_directory("/d/e")
    assert disk.after_crash("synced").kind("/d/e") == "absent"


def test_repeated_make_directory_syncs_an_unsynced_name(disk: FaultyDisk) -> None:
    disk.crash_at(disk.operations + 3)
    with pytest.raises(Crashed):
        disk.make_directory("/d/e")
    survivor = disk.crash("everything")
    survivor.make_directory("/d/e")
    assert survivor.crash("synced").kind("/d/e") == "directory"


# --- handles ---


def test_removed_file_uses_space_until_closed(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 10
    file, other = durable(disk, "/d/a", b"12345"), disk.open("/d/a", "read")
    disk.remove("/d/a")
    file.close()
    file.close()
    assert disk.space("/").free_bytes == 5
    other.close()
    assert disk.space("/").free_bytes == 10


def test_a_file_that_came_back_keeps_its_space(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 10
    durable(disk, "/d/a", b"12345").close()
    disk.remove("/d/a")
    after = disk.crash("synced")
    after.open("/d/a", "read").close()
    assert after.space("/").free_bytes == 5


def test_replaced_file_uses_space_until_unreferenced(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 10
    old = durable(disk, "/d/a", b"old")
    durable(disk, "/d/b", b"new").close()
    disk.rename("/d/b", "/d/a")
    assert disk.space("/").free_bytes == 4
    del old
    assert disk.space("/").free_bytes == 7


# --- death ---


def test_open_file_removed_before_a_kill_comes_back_after_power_loss(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 10
    file = durable(disk, "/d/a", b"12345")
    disk.remove("/d/a")
    survivor = disk.crash("everything")
    assert (survivor.space("/").free_bytes, survivor.crash("synced").space("/").free_bytes) == (10, 5)
    assert repr(file) == "<FaultyFile /d/a open>"


def test_synced_bytes_survive_lost_later_writes(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a")
    file.write(0, [b"synced"])
    file.sync()
    file.write(6, [b"later"])
    left = [disk.after_crash("some", torn=True).read_file("/d/a") for _ in OUTCOMES[:50]]
    assert all(content.startswith(b"synced") for content in left)


def test_file_moved_into_unsynced_directory_is_not_lost(disk: FaultyDisk) -> None:
    durable(disk, "/d/a")
    disk.fail("sync_directory", path="/d")
    with pytest.raises(DiskFailed):
        disk.make_directory("/d/e")
    disk.rename("/d/a", "/d/e/a")
    assert names(disk) == {("/d/a",), ("/d/e/a",)}


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
    for use in (file.size, file.sync, file.drop_cache, lambda: file.write(0, [b"x"]), lambda: disk.kind("/d/a")):
        with pytest.raises(Crashed):
            use()
    held = after.lock("/d/lock", "new")
    file.close()
    lock.release()
    with pytest.raises(DataDirectoryInUse, match="new"):
        after.lock("/d/lock", "third")
    held.release()


def test_after_crash_does_not_end_the_process(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a", b"old")
    file.write(0, [b"new"])
    left = [disk.after_crash(keep).read_file("/d/a") for keep in ("synced", "everything")]
    file.sync()
    assert [*left, disk.crash("synced").read_file("/d/a")] == [b"old", b"new", b"new"]


def test_disk_can_be_crashed_repeatedly_from_one_state(disk: FaultyDisk) -> None:
    durable(disk, "/d/a", b"old").write(0, [b"new"])
    first, second = disk.crash("everything"), disk.crash("everything")
    first.overwrite("/d/a", 0, b"mad")
    first.remove("/d/a")
    assert second.read_file("/d/a") == b"new"
    assert disk.crash("synced").read_file("/d/a") == b"old"


def test_equal_seeds_and_equal_calls_give_equal_outcomes() -> None:
    disks = [do(FaultyDisk(7, block_bytes=1), "put /a ......; write /a 0 abcdef; create /b new") for _ in range(2)]
    for _ in OUTCOMES[:50]:
        one, other = (state(disk.after_crash("some", torn=True)) for disk in disks)
        assert one == other


def test_crashed_is_not_an_exception_subclass() -> None:
    assert not issubclass(Crashed, Exception)


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
    "drop_cache": lambda disk: disk.open("/d/a", "read").drop_cache(),
    "entries": lambda disk: disk.entries("/d"),
    "kind": lambda disk: disk.kind("/d/a"),
    "free_bytes": lambda disk: disk.space("/d").free_bytes,
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


def test_fault_applies_the_given_number_of_times(disk: FaultyDisk) -> None:
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
    disk.end_faults()
    file.sync()


def test_fault_can_skip_operations(disk: FaultyDisk) -> None:
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
    assert after.space("/").free_bytes == 10
    assert after.operations == 1


def test_crash_at_a_past_operation_is_refused(disk: FaultyDisk) -> None:
    with pytest.raises(ValueError, match="is over"):
        disk.crash_at(disk.operations)


# --- space ---


def test_a_write_beyond_the_capacity_writes_what_fits(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 8
    file = durable(disk, "/d/a", b"12345")
    with pytest.raises(DiskFull):
        file.write(4, [b"abcdefgh"])
    assert disk.read_file("/d/a") == b"1234abcd"
    assert disk.space("/").free_bytes == 0


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


def test_free_space_after_removal_truncation_and_growth(disk: FaultyDisk) -> None:
    disk.capacity_bytes = 10
    file = durable(disk, "/d/a", b"12345")
    disk.write_file("/d/b", b"12345")
    disk.remove("/d/b")
    file.truncate(2)
    assert disk.space("/").free_bytes == 8
    disk.capacity_bytes = 3
    assert disk.space("/").free_bytes == 1
    disk.capacity_bytes = 100
    file.write(0, [bytes(100)])
    assert disk.space("/").free_bytes == 0


def test_lock_refused_by_full_disk_is_not_held(disk: FaultyDisk) -> None:
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


def test_overwritten_bytes_survive_a_later_sync(disk: FaultyDisk) -> None:
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
def test_written_file_is_durable_at_once(disk: FaultyDisk, content: bytes) -> None:
    durable(disk, "/d/e/a", b"the old").write(0, [b"unsynced"])
    disk.remove("/d/e/a")
    disk.write_file("/d/e/a", content)
    disk.write_file("/x/y/b", content)
    after = disk.crash("synced")
    assert after.paths() == ["/d/e/a", "/x/y/b"]
    assert after.read_file("/d/e/a") == after.read_file("/x/y/b") == content


def test_write_file_changes_an_open_file(disk: FaultyDisk) -> None:
    file = durable(disk, "/d/a", b"old and long")
    disk.write_file("/d/a", b"new")
    assert read(file) == b"new"


# --- what helps reading a failure ---


def test_journal_lists_operations(disk: FaultyDisk) -> None:
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


def test_repr_shows_the_state_of_the_disk(disk: FaultyDisk) -> None:
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
