"""One contract for both disks: what the machine's own does, the faulty twin does as well."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from goqueue.errors import (
    AccessDenied,
    DataDirectoryInUse,
    DiskFailed,
    DiskFull,
    FilesExhausted,
    GoQueueError,
    PathInvalid,
)
from goqueue.limits import WRITE_BUFFERS_MAX
from goqueue.storage.disk import Disk, Entry, File, Mode, SystemDisk, SystemFile, read_all, refuse, replace
from goqueue.testing.disk import FaultyDisk


@pytest.fixture(params=[SystemDisk, FaultyDisk])
def disk(request: pytest.FixtureRequest) -> Disk:
    made: Disk = request.param()
    return made


@pytest.fixture
def home(disk: Disk, tmp_path: Path) -> str:
    disk.make_directory(str(tmp_path))
    return str(tmp_path)


def write(disk: Disk, path: str, content: bytes = b"") -> str:
    file = disk.open(path, "create")
    file.write(0, [content])
    file.close()
    return path


def read(file: File, position: int, count: int) -> bytes:
    into = bytearray(count)
    return bytes(into[: file.read(position, memoryview(into))])


# --- opening ---


def test_a_created_file_is_empty_and_can_be_read_and_written(disk: Disk, home: str) -> None:
    file = disk.open(f"{home}/a", "create")
    assert file.size() == 0
    file.write(0, [b"hello"])
    assert read(file, 0, 5) == b"hello"


def test_what_exists_cannot_be_created(disk: Disk, home: str) -> None:
    write(disk, f"{home}/a", b"old")
    with pytest.raises(PathInvalid):
        disk.open(f"{home}/a", "create")
    assert read_all(disk, f"{home}/a") == b"old"


@pytest.mark.parametrize("mode", ["read", "write"])
def test_what_does_not_exist_cannot_be_opened(disk: Disk, home: str, mode: Mode) -> None:
    with pytest.raises(PathInvalid, match="does not exist"):
        disk.open(f"{home}/a", mode)


def test_writing_to_an_existing_file_keeps_the_rest_of_it(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"hello"), "write")
    file.write(1, [b"E"])
    assert read_all(disk, f"{home}/a") == b"hEllo"


@pytest.mark.parametrize("mode", ["read", "write", "create"])
def test_a_directory_is_not_a_file(disk: Disk, home: str, mode: Mode) -> None:
    with pytest.raises(PathInvalid):
        disk.open(home, mode)


@pytest.mark.parametrize("mode", ["read", "write", "create"])
def test_nothing_is_below_a_file(disk: Disk, home: str, mode: Mode) -> None:
    write(disk, f"{home}/a")
    with pytest.raises(PathInvalid):
        disk.open(f"{home}/a/b", mode)


def test_nothing_is_created_in_a_missing_directory(disk: Disk, home: str) -> None:
    with pytest.raises(PathInvalid):
        disk.open(f"{home}/missing/a", "create")


def test_a_name_can_be_too_long(disk: Disk, home: str) -> None:
    write(disk, f"{home}/{'n' * 255}")
    with pytest.raises(PathInvalid):
        disk.open(f"{home}/{'n' * 256}", "create")


def test_a_file_opened_for_reading_cannot_be_changed(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"old"), "read")
    with pytest.raises(DiskFailed):
        file.write(0, [b"new"])
    with pytest.raises(DiskFailed):
        file.truncate(0)
    file.sync()
    assert read(file, 0, 10) == b"old"


def test_a_closed_file_refuses_everything_but_closing(disk: Disk, home: str) -> None:
    file = disk.open(f"{home}/a", "create")
    file.close()
    file.close()
    for use in (file.size, file.sync, file.forget_cache, lambda: file.write(0, [b"x"]), lambda: read(file, 0, 1)):
        with pytest.raises(DiskFailed):
            use()
    assert "closed" in repr(file)


# --- reading and writing ---


def test_reading_stops_at_the_end_of_the_file(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"hello"), "read")
    assert read(file, 3, 10) == b"lo"
    assert read(file, 5, 10) == b""
    assert read(file, 1000, 10) == b""


def test_a_read_leaves_the_rest_of_the_buffer_alone(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"hello"), "read")
    into = bytearray(b"........")
    assert file.read(3, memoryview(into)) == 2
    assert into == b"lo......"


def test_a_write_past_the_end_leaves_zeros_between(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"ab"), "write")
    file.write(4, [b"yz"])
    assert read_all(disk, f"{home}/a") == b"ab\0\0yz"


def test_writing_nothing_changes_nothing(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"ab"), "write")
    file.write(100, [])
    file.write(100, [b"", b""])
    assert file.size() == 2


def test_buffers_of_all_kinds_are_gathered_in_order(disk: Disk, home: str) -> None:
    file = disk.open(f"{home}/a", "create")
    file.write(2, [b"one", bytearray(b"two"), b"", memoryview(b"-three-")[1:-1]])
    assert read_all(disk, f"{home}/a") == b"\0\0onetwothree"


def test_a_write_may_have_more_buffers_than_the_kernel_takes_at_once(disk: Disk, home: str) -> None:
    buffers = [b"%04d" % number for number in range(3 * WRITE_BUFFERS_MAX + 1)]
    file = disk.open(f"{home}/a", "create")
    file.write(0, buffers)
    assert read_all(disk, f"{home}/a") == b"".join(buffers)


def test_what_was_written_does_not_follow_its_buffer(disk: Disk, home: str) -> None:
    buffer = bytearray(b"then")
    file = disk.open(f"{home}/a", "create")
    file.write(0, [buffer])
    buffer[:] = b"late"
    file.sync()
    file.forget_cache()
    assert read(file, 0, 4) == b"then"


def test_truncating_cuts_and_extends_with_zeros(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"hello"), "write")
    file.truncate(2)
    assert file.size() == 2
    file.truncate(4)
    assert read_all(disk, f"{home}/a") == b"he\0\0"


def test_what_is_free_is_a_part_of_the_whole(disk: Disk, home: str) -> None:
    space = disk.space(home)
    assert 0 <= space.free_bytes <= space.total_bytes > 0
    with pytest.raises(PathInvalid):
        disk.space(f"{home}/absent")


def test_there_is_nothing_before_the_beginning(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"hello"), "write")
    for use in (lambda: file.write(-1, [b"x"]), lambda: read(file, -1, 1), lambda: file.truncate(-1)):
        with pytest.raises(DiskFailed):
            use()
    assert read(file, 0, 10) == b"hello"


def test_a_file_reads_the_same_after_its_cache_is_forgotten(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"synced"), "write")
    file.sync()
    file.write(6, [b" and not"])
    file.forget_cache()
    assert read(file, 0, 100) == b"synced and not"


# --- names ---


def test_the_kind_of_a_path(disk: Disk, home: str) -> None:
    write(disk, f"{home}/a")
    kinds = [disk.kind(path) for path in (home, f"{home}/", f"{home}/a", f"{home}/b", f"{home}/b/c")]
    assert kinds == ["directory", "directory", "file", "absent", "absent"]


def test_what_is_below_a_file_has_no_kind(disk: Disk, home: str) -> None:
    write(disk, f"{home}/a")
    with pytest.raises(PathInvalid):
        disk.kind(f"{home}/a/b")


def test_entries_come_in_the_order_of_names(disk: Disk, home: str) -> None:
    write(disk, f"{home}/b", b"123")
    write(disk, f"{home}/a")
    write(disk, f"{home}/B")
    disk.make_directory(f"{home}/aa/inner")
    assert disk.entries(home) == [
        Entry("B", "file", 0),
        Entry("a", "file", 0),
        Entry("aa", "directory", 0),
        Entry("b", "file", 3),
    ]


@pytest.mark.parametrize("name", ["a", "missing"])
def test_only_a_directory_has_entries(disk: Disk, home: str, name: str) -> None:
    write(disk, f"{home}/a")
    with pytest.raises(PathInvalid):
        disk.entries(f"{home}/{name}")


@pytest.mark.parametrize("ending", ["", "/", "//"])
def test_directories_are_made_with_their_parents(disk: Disk, home: str, ending: str) -> None:
    disk.make_directory(f"{home}/a/b/c{ending}")
    disk.make_directory(f"{home}/a/b/c{ending}")
    assert disk.kind(f"{home}/a/b/c") == "directory"


def test_the_root_is_a_directory(disk: Disk) -> None:
    disk.make_directory("/")
    assert disk.kind("/") == "directory"


@pytest.mark.parametrize("name", ["a", "a/b"])
def test_a_file_stands_in_the_way_of_a_directory(disk: Disk, home: str, name: str) -> None:
    write(disk, f"{home}/a")
    with pytest.raises(PathInvalid):
        disk.make_directory(f"{home}/{name}")


def test_an_empty_directory_can_be_removed(disk: Disk, home: str) -> None:
    disk.make_directory(f"{home}/a")
    disk.remove_directory(f"{home}/a")
    assert disk.entries(home) == []


@pytest.mark.parametrize("name", ["full", "full/file", "missing"])
def test_nothing_else_is_removed_as_a_directory(disk: Disk, home: str, name: str) -> None:
    disk.make_directory(f"{home}/full")
    write(disk, f"{home}/full/file")
    with pytest.raises(PathInvalid):
        disk.remove_directory(f"{home}/{name}")
    assert disk.kind(f"{home}/full/file") == "file"


@pytest.mark.parametrize("name", ["directory", "missing", "file/below"])
def test_only_a_file_can_be_removed(disk: Disk, home: str, name: str) -> None:
    disk.make_directory(f"{home}/directory")
    write(disk, f"{home}/file")
    with pytest.raises(PathInvalid):
        disk.remove(f"{home}/{name}")


@pytest.mark.parametrize("name", ["file", "missing"])
def test_only_a_directory_can_be_synced_as_one(disk: Disk, home: str, name: str) -> None:
    write(disk, f"{home}/file")
    disk.sync_directory(home)
    with pytest.raises(PathInvalid):
        disk.sync_directory(f"{home}/{name}")


def test_a_rename_replaces_what_was_there(disk: Disk, home: str) -> None:
    write(disk, f"{home}/new", b"new")
    write(disk, f"{home}/old", b"old")
    disk.rename(f"{home}/new", f"{home}/old")
    assert [entry.name for entry in disk.entries(home)] == ["old"]
    assert read_all(disk, f"{home}/old") == b"new"


def test_a_rename_may_lead_to_another_directory(disk: Disk, home: str) -> None:
    disk.make_directory(f"{home}/there")
    disk.rename(write(disk, f"{home}/a", b"moved"), f"{home}/there/b")
    assert read_all(disk, f"{home}/there/b") == b"moved"
    assert disk.kind(f"{home}/a") == "absent"


def test_a_rename_to_itself_changes_nothing(disk: Disk, home: str) -> None:
    write(disk, f"{home}/a", b"same")
    disk.rename(f"{home}/a", f"{home}/a")
    assert read_all(disk, f"{home}/a") == b"same"


def test_a_directory_moves_with_what_it_holds(disk: Disk, home: str) -> None:
    disk.make_directory(f"{home}/a")
    disk.make_directory(f"{home}/empty")
    write(disk, f"{home}/a/file", b"kept")
    disk.rename(f"{home}/a", f"{home}/empty")
    assert read_all(disk, f"{home}/empty/file") == b"kept"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("missing", "file"),
        ("file", "missing/file"),
        ("file", "empty"),
        ("file", "file/below"),
        ("empty", "file"),
        ("empty", "full"),
        ("full", "file/below"),
    ],
)
def test_a_rename_that_does_not_fit_is_refused(disk: Disk, home: str, old: str, new: str) -> None:
    write(disk, f"{home}/file", b"kept")
    disk.make_directory(f"{home}/empty")
    disk.make_directory(f"{home}/full/inner")
    with pytest.raises(PathInvalid):
        disk.rename(f"{home}/{old}", f"{home}/{new}")
    assert [entry.name for entry in disk.entries(home)] == ["empty", "file", "full"]


def test_a_directory_cannot_move_into_itself(disk: Disk, home: str) -> None:
    disk.make_directory(f"{home}/a")
    with pytest.raises(DiskFailed):
        disk.rename(f"{home}/a", f"{home}/a/b")


def test_a_handle_outlives_the_removal_of_its_file(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"still"), "write")
    disk.remove(f"{home}/a")
    file.write(5, [b" here"])
    file.sync()
    assert disk.kind(f"{home}/a") == "absent"
    assert read(file, 0, 100) == b"still here"


def test_a_handle_outlives_the_replacement_of_its_file(disk: Disk, home: str) -> None:
    old = disk.open(write(disk, f"{home}/a", b"old"), "read")
    disk.rename(write(disk, f"{home}/b", b"new"), f"{home}/a")
    assert read(old, 0, 10) == b"old"
    assert read_all(disk, f"{home}/a") == b"new"


def test_a_handle_follows_a_rename(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a"), "write")
    disk.rename(f"{home}/a", f"{home}/b")
    file.write(0, [b"followed"])
    assert read_all(disk, f"{home}/b") == b"followed"


# --- replacing a file ---


@pytest.mark.parametrize("content", [b"new", b"", bytes(5000)])
def test_replace_gives_a_file_new_content(disk: Disk, home: str, content: bytes) -> None:
    replace(disk, f"{home}/a", b"old and longer")
    replace(disk, f"{home}/a", content)
    assert read_all(disk, f"{home}/a") == content
    assert [entry.name for entry in disk.entries(home)] == ["a"]


def test_replace_ignores_what_an_interrupted_one_left_behind(disk: Disk, home: str) -> None:
    write(disk, f"{home}/a.tmp", b"half of something long")
    replace(disk, f"{home}/a", b"new")
    assert read_all(disk, f"{home}/a") == b"new"


# --- locks ---


def test_a_second_lock_is_refused_and_names_the_holder(disk: Disk, home: str) -> None:
    disk.lock(f"{home}/lock", "process 7 on here")
    with pytest.raises(DataDirectoryInUse, match="process 7 on here") as caught:
        disk.lock(f"{home}/lock", "process 8")
    assert caught.value.details["holder"] == "process 7 on here"
    assert home in caught.value.sentence


def test_a_nameless_holder_is_another_process(disk: Disk, home: str) -> None:
    disk.lock(f"{home}/lock", "")
    with pytest.raises(DataDirectoryInUse, match="another process"):
        disk.lock(f"{home}/lock", "8")


def test_a_released_lock_can_be_taken_again(disk: Disk, home: str) -> None:
    first = disk.lock(f"{home}/lock", "a long name for the first")
    first.release()
    second = disk.lock(f"{home}/lock", "second")
    first.release()
    assert read_all(disk, f"{home}/lock") == b"second"
    with pytest.raises(DataDirectoryInUse, match="second"):
        disk.lock(f"{home}/lock", "third")
    second.release()


def test_a_refused_lock_does_not_stay_in_the_way(disk: Disk, home: str) -> None:
    first = disk.lock(f"{home}/lock", "first")
    with pytest.raises(DataDirectoryInUse):
        disk.lock(f"{home}/lock", "second")
    first.release()
    disk.lock(f"{home}/lock", "third").release()


@pytest.mark.parametrize("name", ["", "missing/lock"])
def test_a_lock_needs_a_place_for_its_file(disk: Disk, home: str, name: str) -> None:
    with pytest.raises(PathInvalid):
        disk.lock(f"{home}/{name}", "anybody")


# --- errors and space ---


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EACCES, AccessDenied),
        (errno.EPERM, AccessDenied),
        (errno.EROFS, AccessDenied),
        (errno.ENOENT, PathInvalid),
        (errno.ENOTDIR, PathInvalid),
        (errno.ELOOP, PathInvalid),
        (errno.EMFILE, FilesExhausted),
        (errno.EIO, DiskFailed),
    ],
)
def test_errors_of_the_system_become_ours_and_name_the_path(code: int, error: type[GoQueueError]) -> None:
    with pytest.raises(error, match="/data/a") as caught:
        refuse(OSError(code, os.strerror(code)), "/data/a")
    assert isinstance(caught.value.__cause__, OSError)


# --- the real one alone ---


@contextmanager
def nobody() -> Iterator[None]:
    """Act as a user without rights: to root, modes mean nothing."""
    user = os.geteuid()
    os.seteuid(65534 if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_forbidden_directory_is_denied(tmp_path: Path) -> None:
    disk = SystemDisk()
    disk.make_directory(f"{tmp_path}/forbidden")
    path = write(disk, f"{tmp_path}/forbidden/a")
    (tmp_path / "forbidden").chmod(0)
    with nobody():
        for use in (lambda: disk.open(path, "read"), lambda: disk.kind(path), lambda: disk.lock(path, "me")):
            with pytest.raises(AccessDenied, match=path):
                use()
    (tmp_path / "forbidden").chmod(0o700)


def test_an_existing_directory_is_fine_even_where_its_parent_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SystemDisk()
    disk.make_directory(f"{tmp_path}/closed/ours")
    (tmp_path / "closed").chmod(0o111)
    tmp_path.chmod(0o711)
    monkeypatch.chdir(tmp_path)
    with nobody():
        disk.make_directory("closed/ours")
    (tmp_path / "closed").chmod(0o700)


def test_every_name_on_the_way_to_a_directory_is_synced_even_if_an_earlier_process_made_it(tmp_path: Path) -> None:
    synced = []

    class Watched(SystemDisk):
        def sync_directory(self, path: str) -> None:
            super().sync_directory(path)
            synced.append(os.path.relpath(path, tmp_path))

    (tmp_path / "a").mkdir()
    Watched().make_directory(f"{tmp_path}/a/b/c")
    assert synced == [".", "a", "a/b"]


@pytest.mark.parametrize("count", [1, 3 * WRITE_BUFFERS_MAX])
def test_a_full_device_says_so(count: int) -> None:
    file = SystemFile("/dev/full", os.open("/dev/full", os.O_RDWR))
    with pytest.raises(DiskFull, match="/dev/full"):
        file.write(0, [b"x"] * count)


def test_a_device_or_a_broken_link_is_neither_file_nor_directory(tmp_path: Path) -> None:
    disk = SystemDisk()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "device").symlink_to("/dev/null")
    assert disk.kind("/dev/null") == "other"
    assert disk.entries(str(tmp_path)) == [Entry("device", "other", 0), Entry("link", "other", 0)]


def test_a_relative_path_starts_where_the_process_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    disk = SystemDisk()
    disk.make_directory("here/below")
    replace(disk, "a", b"content")
    assert [entry.name for entry in disk.entries(".")] == ["a", "here"]
    assert read_all(disk, "a") == b"content"


def test_a_file_closes_itself_when_its_last_user_lets_go(tmp_path: Path) -> None:
    file: File | None = SystemDisk().open(f"{tmp_path}/a", "create")
    opened = len(os.listdir("/proc/self/fd"))
    del file
    assert len(os.listdir("/proc/self/fd")) == opened - 1


def test_no_descriptor_is_left_behind_by_what_was_refused(tmp_path: Path) -> None:
    disk, home = SystemDisk(), str(tmp_path)
    lock = disk.lock(f"{home}/lock", "first")
    opened = len(os.listdir("/proc/self/fd"))
    for use in (
        lambda: disk.open(home, "read"),
        lambda: disk.lock(f"{home}/lock", "second"),
        lambda: disk.lock("/dev/full", "nobody"),
        lambda: disk.sync_directory(f"{home}/lock"),
    ):
        with pytest.raises(GoQueueError):
            use()
    assert len(os.listdir("/proc/self/fd")) == opened
    lock.release()


HOLD = """
import sys
from goqueue.storage.disk import SystemDisk
lock = SystemDisk().lock(sys.argv[1], "the other process")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_of_another_process_ends_when_it_is_killed(tmp_path: Path) -> None:
    disk, path = SystemDisk(), f"{tmp_path}/lock"
    command = [sys.executable, "-c", HOLD, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(DataDirectoryInUse, match="the other process"):
            disk.lock(path, "this process")
        other.kill()
        other.wait()
        disk.lock(path, "this process").release()
