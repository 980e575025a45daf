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
from goqueue.storage.disk import (
    DirectoryEntry,
    Disk,
    File,
    Mode,
    SystemDisk,
    SystemFile,
    raise_translated,
    read_all,
    replace_file,
)
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


def test_linked_file_lives_as_long_as_one_of_its_names(disk: Disk, home: str) -> None:
    path = write(disk, f"{home}/a", b"one")
    disk.link(path, f"{home}/b")
    file = disk.open(path, "write")
    file.write(3, [b"two"])
    disk.remove(path)
    file.close()
    assert read_all(disk, f"{home}/b") == b"onetwo"
    if isinstance(disk, FaultyDisk):
        disk.sync_directory(home)
        assert disk.after_crash("everything")._kernel.used_bytes == disk._kernel.used_bytes == 6
        disk.remove(f"{home}/b")
        assert disk._kernel.used_bytes == 0


# --- opening ---


def test_a_created_file_is_empty_and_can_be_read_and_written(disk: Disk, home: str) -> None:
    file = disk.open(f"{home}/a", "create")
    assert file.size() == 0
    file.write(0, [b"hello"])
    assert read(file, 0, 5) == b"hello"


@pytest.mark.parametrize("mode", ["read", "write"])
def test_missing_file_cannot_be_opened(disk: Disk, home: str, mode: Mode) -> None:
    with pytest.raises(PathInvalid, match="does not exist"):
        disk.open(f"{home}/a", mode)


MODES = ("read", "write", "create")
MISFITS = [
    *(("open", "empty", mode) for mode in MODES),
    *(("open", "file/below", mode) for mode in MODES),
    ("open", "file", "create"),
    ("open", "missing/new", "create"),
    ("kind", "file/below"),
    ("space", "missing"),
    *(("entries", name) for name in ("file", "missing")),
    *(("make_directory", name) for name in ("file", "file/below")),
    *(("remove_directory", name) for name in ("full", "full/inner", "missing")),
    *(("remove", name) for name in ("empty", "missing", "file/below")),
    *(("sync_directory", name) for name in ("file", "missing")),
    *(("link", "file", new) for new in ("file", "missing/file")),
    ("link", "missing", "new"),
    *(("rename", "file", new) for new in ("missing/file", "empty", "file/below")),
    *(("rename", "full", new) for new in ("file/below", "file")),
    *(("rename", "empty", new) for new in ("file", "full")),
    ("rename", "missing", "file"),
    *(("lock", name, "another owner") for name in ("", "missing/lock")),
]


@pytest.mark.parametrize("call", MISFITS, ids=" ".join)
def test_path_that_does_not_fit_is_refused_and_changes_nothing(disk: Disk, home: str, call: tuple[str, ...]) -> None:
    disk.make_directory(f"{home}/empty")
    disk.make_directory(f"{home}/full")
    for path in ("file", "full/inner"):
        write(disk, f"{home}/{path}", b"kept")
    disk.sync_directory(home)
    method, path, *rest = call
    with pytest.raises(PathInvalid):
        getattr(disk, method)(
            f"{home}/{path}", *(f"{home}/{new}" if method in ("rename", "link") else new for new in rest)
        )
    assert [entry.name for entry in disk.entries(home)] == ["empty", "file", "full"]
    assert read_all(disk, f"{home}/file") == read_all(disk, f"{home}/full/inner") == b"kept"


def test_too_long_name_is_refused(disk: Disk, home: str) -> None:
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


def test_closed_file_refuses_all_calls_but_close(disk: Disk, home: str) -> None:
    file = disk.open(f"{home}/a", "create")
    file.close()
    file.close()
    for use in (file.size, file.sync, file.drop_cache, lambda: file.write(0, [b"x"]), lambda: read(file, 0, 1)):
        with pytest.raises(DiskFailed):
            use()
    assert "closed" in repr(file)


# --- reading and writing ---


def test_reading_stops_at_the_end_of_the_file(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"hello"), "read")
    assert read(file, 3, 10) == b"lo"
    assert read(file, 5, 10) == b""
    assert read(file, 1000, 10) == b""


def test_short_read_leaves_the_rest_of_the_buffer(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"hello"), "read")
    into = bytearray(b"........")
    assert file.read(3, memoryview(into)) == 2
    assert into == b"lo......"


MANY = [b"%04d" % number for number in range(3 * WRITE_BUFFERS_MAX + 1)]  # more than the kernel takes at once


@pytest.mark.parametrize(
    ("old", "position", "buffers", "new"),
    [
        pytest.param(b"hello", 1, [b"E"], b"hEllo", id="rest_is_kept"),
        pytest.param(b"ab", 4, [b"yz"], b"ab\0\0yz", id="zeros_fill_the_gap"),
        pytest.param(b"ab", 100, [], b"ab", id="no_buffer"),
        pytest.param(b"ab", 100, [b"", b""], b"ab", id="empty_buffers"),
        pytest.param(
            b"", 2, [b"1", bytearray(b"2"), b"", memoryview(b"-3-")[1:-1]], b"\0\x00123", id="kinds_of_buffers"
        ),
        pytest.param(b"", 0, MANY, b"".join(MANY), id="many_buffers"),
    ],
)
def test_write_changes_only_its_range(
    disk: Disk, home: str, old: bytes, position: int, buffers: list[bytes], new: bytes
) -> None:
    disk.open(write(disk, f"{home}/a", old), "write").write(position, buffers)
    assert read_all(disk, f"{home}/a") == new


def test_changing_a_written_buffer_changes_no_file(disk: Disk, home: str) -> None:
    buffer = bytearray(b"then")
    file = disk.open(f"{home}/a", "create")
    file.write(0, [buffer])
    buffer[:] = b"late"
    file.sync()
    file.drop_cache()
    assert read(file, 0, 4) == b"then"


def test_truncating_cuts_and_extends_with_zeros(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"hello"), "write")
    file.truncate(2)
    assert file.size() == 2
    file.truncate(4)
    assert read_all(disk, f"{home}/a") == b"he\0\0"


def test_free_space_is_at_most_the_total(disk: Disk, home: str) -> None:
    space = disk.space(home)
    assert 0 <= space.free_bytes <= space.total_bytes > 0


def test_negative_positions_are_refused(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"hello"), "write")
    for use in (lambda: file.write(-1, [b"x"]), lambda: read(file, -1, 1), lambda: file.truncate(-1)):
        with pytest.raises(DiskFailed):
            use()
    assert read(file, 0, 10) == b"hello"


def test_file_is_unchanged_after_dropping_its_cache(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"synced"), "write")
    file.sync()
    file.write(6, [b" and not"])
    file.drop_cache()
    assert read(file, 0, 100) == b"synced and not"


# --- names ---


def test_kind_of_a_path(disk: Disk, home: str) -> None:
    write(disk, f"{home}/a")
    kinds = [disk.kind(path) for path in (home, f"{home}/", f"{home}/a", f"{home}/b", f"{home}/b/c")]
    assert kinds == ["directory", "directory", "file", "absent", "absent"]


def test_entries_are_sorted_by_name(disk: Disk, home: str) -> None:
    write(disk, f"{home}/b", b"123")
    write(disk, f"{home}/a")
    write(disk, f"{home}/B")
    disk.make_directory(f"{home}/aa/inner")
    assert disk.entries(home) == [
        DirectoryEntry("B", "file", 0),
        DirectoryEntry("a", "file", 0),
        DirectoryEntry("aa", "directory", 0),
        DirectoryEntry("b", "file", 3),
    ]


@pytest.mark.parametrize("ending", ["", "/", "//"])
def test_directories_are_made_with_their_parents(disk: Disk, home: str, ending: str) -> None:
    disk.make_directory(f"{home}/a/b/c{ending}")
    disk.make_directory(f"{home}/a/b/c{ending}")
    assert disk.kind(f"{home}/a/b/c") == "directory"


def test_the_root_is_a_directory(disk: Disk) -> None:
    disk.make_directory("/")
    assert disk.kind("/") == "directory"


def test_an_empty_directory_can_be_removed(disk: Disk, home: str) -> None:
    disk.make_directory(f"{home}/a")
    disk.remove_directory(f"{home}/a")
    assert disk.entries(home) == []


def test_rename_replaces_existing_file(disk: Disk, home: str) -> None:
    write(disk, f"{home}/new", b"new")
    write(disk, f"{home}/old", b"old")
    disk.rename(f"{home}/new", f"{home}/old")
    assert [entry.name for entry in disk.entries(home)] == ["old"]
    assert read_all(disk, f"{home}/old") == b"new"


def test_rename_into_another_directory(disk: Disk, home: str) -> None:
    disk.make_directory(f"{home}/there")
    disk.rename(write(disk, f"{home}/a", b"moved"), f"{home}/there/b")
    assert read_all(disk, f"{home}/there/b") == b"moved"
    assert disk.kind(f"{home}/a") == "absent"


def test_a_rename_to_itself_changes_nothing(disk: Disk, home: str) -> None:
    write(disk, f"{home}/a", b"same")
    disk.rename(f"{home}/a", f"{home}/a")
    assert read_all(disk, f"{home}/a") == b"same"


def test_directory_moves_with_its_files(disk: Disk, home: str) -> None:
    disk.make_directory(f"{home}/a")
    disk.make_directory(f"{home}/empty")
    write(disk, f"{home}/a/file", b"kept")
    disk.rename(f"{home}/a", f"{home}/empty")
    assert read_all(disk, f"{home}/empty/file") == b"kept"


def test_a_directory_cannot_move_into_itself(disk: Disk, home: str) -> None:
    disk.make_directory(f"{home}/a")
    with pytest.raises(DiskFailed):
        disk.rename(f"{home}/a", f"{home}/a/b")


def test_open_file_is_usable_after_its_removal(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"still"), "write")
    disk.remove(f"{home}/a")
    file.write(5, [b" here"])
    assert disk.kind(f"{home}/a") == "absent"
    assert read(file, 0, 100) == b"still here"


def test_sync_of_a_file_without_names_is_refused(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a", b"still"), "write")
    disk.link(f"{home}/a", f"{home}/b")
    disk.remove(f"{home}/a")
    file.sync()
    disk.remove(f"{home}/b")
    with pytest.raises(PathInvalid, match="was removed while it was written"):
        file.sync()


def test_open_file_is_readable_after_its_replacement(disk: Disk, home: str) -> None:
    old = disk.open(write(disk, f"{home}/a", b"old"), "read")
    disk.rename(write(disk, f"{home}/b", b"new"), f"{home}/a")
    assert read(old, 0, 10) == b"old"
    assert read_all(disk, f"{home}/a") == b"new"


def test_open_file_follows_a_rename(disk: Disk, home: str) -> None:
    file = disk.open(write(disk, f"{home}/a"), "write")
    disk.rename(f"{home}/a", f"{home}/b")
    file.write(0, [b"followed"])
    assert read_all(disk, f"{home}/b") == b"followed"


# --- replacing a file ---


@pytest.mark.parametrize("content", [b"new", b"", bytes(5000)])
def test_replace_file_sets_new_content(disk: Disk, home: str, content: bytes) -> None:
    replace_file(disk, f"{home}/a", b"old and longer")
    replace_file(disk, f"{home}/a", content)
    assert read_all(disk, f"{home}/a") == content
    assert [entry.name for entry in disk.entries(home)] == ["a"]


def test_replace_file_ignores_leftovers_of_an_interrupted_one(disk: Disk, home: str) -> None:
    write(disk, f"{home}/a.tmp", b"half of something long")
    replace_file(disk, f"{home}/a", b"new")
    assert read_all(disk, f"{home}/a") == b"new"


# --- locks ---


def test_a_second_lock_is_refused_and_names_the_holder(disk: Disk, home: str) -> None:
    disk.lock(f"{home}/lock", "process 7 on here")
    with pytest.raises(DataDirectoryInUse, match="process 7 on here") as caught:
        disk.lock(f"{home}/lock", "process 8")
    assert caught.value.details["holder"] == "process 7 on here"
    assert home in caught.value.sentence


def test_lock_without_owner_name_belongs_to_another_process(disk: Disk, home: str) -> None:
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


def test_refused_lock_does_not_block_later_ones(disk: Disk, home: str) -> None:
    first = disk.lock(f"{home}/lock", "first")
    with pytest.raises(DataDirectoryInUse):
        disk.lock(f"{home}/lock", "second")
    first.release()
    disk.lock(f"{home}/lock", "third").release()


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
def test_system_errors_are_translated_with_their_path(code: int, error: type[GoQueueError]) -> None:
    with pytest.raises(error, match="/data/a") as caught:
        raise_translated(OSError(code, os.strerror(code)), "/data/a")
    assert isinstance(caught.value.__cause__, OSError)


# --- the real one alone ---


@contextmanager
def no_lock_holder() -> Iterator[None]:
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
    with no_lock_holder():
        for use in (lambda: disk.open(path, "read"), lambda: disk.kind(path), lambda: disk.lock(path, "me")):
            with pytest.raises(AccessDenied, match=path):
                use()
    (tmp_path / "forbidden").chmod(0o700)


def test_existing_directory_may_have_an_unreadable_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SystemDisk()
    disk.make_directory(f"{tmp_path}/closed/ours")
    (tmp_path / "closed").chmod(0o111)
    tmp_path.chmod(0o711)
    monkeypatch.chdir(tmp_path)
    with no_lock_holder():
        disk.make_directory("closed/ours")
    (tmp_path / "closed").chmod(0o700)


def test_make_directory_syncs_all_parents(tmp_path: Path) -> None:
    synced = []

    class Watched(SystemDisk):
        def sync_directory(self, path: str) -> None:
            super().sync_directory(path)
            synced.append(os.path.relpath(path, tmp_path))

    (tmp_path / "a").mkdir()
    Watched().make_directory(f"{tmp_path}/a/b/c")
    assert synced == [".", "a", "a/b"]


@pytest.mark.parametrize("count", [1, 3 * WRITE_BUFFERS_MAX])
def test_write_to_a_full_device_raises_disk_full(count: int) -> None:
    file = SystemFile("/dev/full", os.open("/dev/full", os.O_RDWR))
    with pytest.raises(DiskFull, match="/dev/full"):
        file.write(0, [b"x"] * count)


def test_device_and_broken_link_have_kind_other(tmp_path: Path) -> None:
    disk = SystemDisk()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "device").symlink_to("/dev/null")
    assert disk.kind("/dev/null") == "other"
    assert disk.entries(str(tmp_path)) == [DirectoryEntry("device", "other", 0), DirectoryEntry("link", "other", 0)]


def test_relative_path_starts_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    disk = SystemDisk()
    disk.make_directory("here/below")
    replace_file(disk, "a", b"content")
    assert [entry.name for entry in disk.entries(".")] == ["a", "here"]
    assert read_all(disk, "a") == b"content"


def test_unreferenced_file_is_closed(tmp_path: Path) -> None:
    file: File | None = SystemDisk().open(f"{tmp_path}/a", "create")
    opened = len(os.listdir("/proc/self/fd"))
    del file
    assert len(os.listdir("/proc/self/fd")) == opened - 1


def test_refused_calls_leak_no_descriptor(tmp_path: Path) -> None:
    disk, home = SystemDisk(), str(tmp_path)
    lock = disk.lock(f"{home}/lock", "first")
    opened = len(os.listdir("/proc/self/fd"))
    for use in (
        lambda: disk.open(home, "read"),
        lambda: disk.lock(f"{home}/lock", "second"),
        lambda: disk.lock("/dev/full", "no owner"),
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


def test_lock_of_a_killed_process_is_released(tmp_path: Path) -> None:
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
