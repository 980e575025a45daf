"""A data directory: whose it is, what it holds, how it is opened and stopped, and how logs come and go."""

import errno
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from goqueue.errors import (
    AccessDenied,
    DataDirectoryForeign,
    DataDirectoryInUse,
    DiskFailed,
    FormatUnsupported,
    GoQueueError,
    LogClosed,
    LogExists,
    LogFenced,
    LogNameInvalid,
    LogNotFound,
    PathInvalid,
    RangeDamaged,
)
from goqueue.storage.disk import Disk, Entry, File, Mode, SystemDisk
from goqueue.storage.layout import check_directory, find_logs
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import DATA, Answers, append, batch, open_store, values


def snapshot(disk: FaultyDisk) -> dict[str, bytes]:
    return {path: disk.read_file(path) for path in disk.paths()}


# --- whose directory it is ---


def test_a_missing_directory_is_made() -> None:
    disk = FaultyDisk()
    open_store(disk, path="/some/where/data")
    assert disk.read_file("/some/where/data/FORMAT") == b"goqueue 1\n"


@pytest.mark.parametrize("ours", ["lock", "FORMAT.tmp", "clean.tmp", "lost+found"])
def test_what_an_interrupted_first_start_leaves_is_no_obstacle(ours: str) -> None:
    disk = FaultyDisk()
    disk.write_file(f"{DATA}/{ours}", b"")
    open_store(disk).create("t/0")
    assert list(open_store(disk.crash("synced")).logs) == ["t/0"]


REFUSED: list[tuple[str, bytes, type[GoQueueError], str]] = [
    ("data", b"a file", PathInvalid, "not a directory"),
    ("data/holiday.jpg", b"", DataDirectoryForeign, "'holiday.jpg'"),
    ("data/\x1b[31m\udcff", b"", DataDirectoryForeign, r"\\x1b\[31m\\udcff"),
    ("data/FORMAT", b"goqueue 2\n", FormatUnsupported, "format 2"),
    ("data/FORMAT", b"goqueue 999999999\n", FormatUnsupported, "format 999999999"),
    ("data/FORMAT", b"", FormatUnsupported, "b''"),
    ("data/FORMAT", b"\xff\x00garbage", FormatUnsupported, "garbage"),
    ("data/FORMAT", b"goqueue", FormatUnsupported, "goqueue"),
    ("data/FORMAT", b"goqueue -1", FormatUnsupported, "-1"),
    ("data/FORMAT", b"goqueue " + b"9" * 5000, FormatUnsupported, "9999"),
    ("data/FORMAT", b"kafka 1", FormatUnsupported, "kafka"),
]


@pytest.mark.parametrize(("path", "content", "error", "match"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_not_ours_is_refused_and_left_as_it_is(
    path: str, content: bytes, error: type[GoQueueError], match: str
) -> None:
    disk = FaultyDisk()
    disk.write_file(f"/{path}", content)
    before = snapshot(disk)
    with pytest.raises(error, match=match) as caught:
        open_store(disk)
    assert caught.value.hint
    assert caught.value.sentence.isprintable()
    assert snapshot(disk) == before


@pytest.mark.parametrize("operation", ["kind", "entries", "open", "read"])
@pytest.mark.parametrize(("code", "error"), [(errno.EACCES, AccessDenied), (errno.EIO, DiskFailed)])
def test_what_cannot_be_read_is_refused_and_left_as_it_is(operation: str, code: int, error: type[GoQueueError]) -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    append(store, store.create("t/0"), b"kept")
    store.close()
    disk = disk.crash("everything")
    before = snapshot(disk)
    disk.fail(operation, code, path=f"{DATA}*")
    with pytest.raises(error, match=DATA):
        open_store(disk)
    disk.heal()
    assert snapshot(disk) == before
    assert values(open_store(disk).logs["t/0"]) == [b"kept"]


def test_a_format_that_is_a_directory_is_refused() -> None:
    disk = FaultyDisk()
    disk.make_directory(f"{DATA}/FORMAT")
    with pytest.raises(FormatUnsupported, match="FORMAT is not a file"):
        open_store(disk)


def test_a_directory_that_is_only_looked_at_has_to_be_there() -> None:
    disk = FaultyDisk()
    with pytest.raises(PathInvalid, match="does not exist"):
        check_directory(disk, DATA)
    disk.write_file(f"{DATA}/notes.txt", b"mine")
    with pytest.raises(DataDirectoryForeign, match=r"notes\.txt"):
        check_directory(disk, DATA)
    assert disk.paths() == [f"{DATA}/notes.txt"]


def test_the_second_process_is_told_who_is_first() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    with pytest.raises(DataDirectoryInUse, match="this test"):
        open_store(disk)
    store.close()
    open_store(disk)


HOLD = """
import os, sys
from goqueue.clock import SystemClock
from goqueue.storage.disk import SystemDisk
from goqueue.storage.store import Store, process_name
store = Store.open(SystemDisk(), sys.argv[1], SystemClock(), owner=process_name("other broker", os.getpid()))
store.create("t/0")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_real_second_process_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(DataDirectoryInUse, match=rf"other broker \(process {other.pid}\)"):
            open_store(SystemDisk(), path=str(tmp_path))
        other.kill()
        other.wait()
    store = open_store(SystemDisk(), path=str(tmp_path))
    assert list(store.logs) == ["t/0"]
    store.close()


def test_a_start_that_fails_gives_the_directory_free() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    append(store, store.create("t/0"), b"kept")
    disk = disk.crash("everything")
    disk.fail("entries", path=f"{DATA}/logs")
    with pytest.raises(DiskFailed):
        open_store(disk)
    assert values(open_store(disk).logs["t/0"]) == [b"kept"]


def test_a_log_that_the_device_does_not_give_keeps_no_other_from_opening() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    for name in ("t/0", "t/1"):
        append(store, store.create(name), b"kept")
    disk = disk.crash("everything")
    disk.fail("sync", path="*/t/0/*")
    store = open_store(disk)
    assert values(store.log("t/1")) == [b"kept"]
    with pytest.raises(LogFenced, match="t/0 could not be opened"):
        store.log("t/0")
    with pytest.raises(LogExists):
        store.create("t/0")
    store.reopen("t/0")
    assert values(store.log("t/0")) == [b"kept"]


# --- the logs in it ---


@pytest.mark.parametrize("name", ["t", "t/0", "t/0/delayed", "__x/a.b-c_d/0/1", "n" * 255])
def test_a_log_is_found_again_by_its_name(name: str) -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    append(store, store.create(name), b"x")
    store.close()
    assert list(open_store(disk).logs) == [name]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "/t",
        "t/",
        "t//0",
        ".",
        "..",
        "../t",
        "t/../u",
        "a b",
        "a\0b",
        "ä",
        "t\\0",
        "n" * 256,
        "a/b/c/d/e",
        "a\n",
    ],
)
def test_a_name_that_could_leave_the_directory_is_refused(name: str) -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    before = disk.operations
    with pytest.raises(LogNameInvalid) as caught:
        store.create(name)
    assert caught.value.sentence.isprintable()
    assert disk.operations == before


def test_an_unknown_log_is_named() -> None:
    store = open_store(FaultyDisk())
    for use in (store.log, store.delete, store.reopen):
        with pytest.raises(LogNotFound, match="'t/9'"):
            use("t/9")


def test_a_log_exists_once() -> None:
    store = open_store(FaultyDisk())
    store.create("t/0")
    with pytest.raises(LogExists, match="t/0"):
        store.create("t/0")


def test_files_that_are_not_ours_are_left_alone() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    append(store, store.create("t/0"), b"kept")
    disk = disk.crash("everything")
    foreign = {
        "t/0/notes.txt": b"hello",
        "t/0/0000.log": b"short name",
        "t/0/00000000000000000000.log.bak": b"copy",
        "t/0/99999999999999999999.log": b"beyond every offset",
        "t/0/00000000000000000000.swap": b"not a decision",
        "t/0/sub/readme": b"no log",
        "stray": b"file among topics",
    }
    for name, content in foreign.items():
        disk.write_file(f"{DATA}/logs/{name}", content)
    store = open_store(disk)
    assert list(store.logs) == ["t/0"]
    assert append(store, store.logs["t/0"], b"more") == range(1, 2)
    store.close()
    assert {name: disk.read_file(f"{DATA}/logs/{name}") for name in foreign} == foreign


@pytest.mark.parametrize("name", ["ü x", "t/ü", "t/a b/0"])
def test_a_directory_whose_name_is_no_log_name_is_no_log(name: str) -> None:
    disk = FaultyDisk()
    open_store(disk).create("t/0")
    disk = disk.crash("everything")
    disk.write_file(f"{DATA}/logs/{name}/{0:020d}.log", b"somebody's")
    assert list(open_store(disk).logs) == ["t/0"]
    assert disk.read_file(f"{DATA}/logs/{name}/{0:020d}.log") == b"somebody's"


def test_a_deleted_log_is_gone_with_those_below_it() -> None:
    disk, answers = FaultyDisk(), Answers()
    store = open_store(disk)
    for name in ("t/0", "t/0/delayed", "t/01", "t/1"):
        append(store, store.create(name), b"x")
    store.logs["t/0/delayed"].append(batch([b"waiting"]), answers)
    store.delete("t/0")
    assert list(store.logs) == ["t/01", "t/1"]
    assert [type(error).__name__ for error in answers.given] == ["LogClosed"]
    assert sorted(open_store(disk.after_crash("synced")).logs) == ["t/01", "t/1"]
    store.empty_trash()
    assert not [path for path in disk.paths() if "/trash/" in path or "/t/0/" in path]


def test_a_log_with_a_deleted_name_begins_anew() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    for turn in range(3):
        log = store.create("t/0")
        assert append(store, log, b"%d" % turn) == range(1)
        store.delete("t/0")
    assert append(store, store.create("t/0"), b"last") == range(1)
    left = disk.crash("synced")
    assert values(open_store(left).logs["t/0"]) == [b"last"]
    assert not [path for path in left.paths() if "/trash/" in path]


def test_a_fenced_log_can_be_deleted() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    log = store.create("t/0")
    disk.fail("sync")
    append(store, log, b"lost")
    store.delete("t/0")
    assert open_store(disk.crash("synced")).logs == {}


def test_a_deletion_that_fails_costs_no_other_log_its_answers() -> None:
    disk, answers = FaultyDisk(), Answers()
    store = open_store(disk)
    store.create("going")
    store.create("staying").append(batch([b"x"]), answers)
    disk.fail("rename", path="*/going", times="forever")
    with pytest.raises(DiskFailed):
        store.delete("going")
    assert answers.given == [None]


@pytest.mark.parametrize(
    ("operation", "path"),
    [("rename", "*/going"), ("sync_directory", "*/trash"), ("sync_directory", "*/logs")],
)
@pytest.mark.parametrize("retry", ["create", "settle"])
def test_a_deletion_that_the_disk_refused_is_tried_again(operation: str, path: str, retry: str) -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    append(store, store.create("going"), b"old")
    disk.fail(operation, path=path, times=2)  # when the flusher has let go, and when the owner tries
    with pytest.raises(DiskFailed):
        store.delete("going")
    assert list(store.logs) == []
    if retry == "settle":
        store.settle()
        assert disk.kind(f"{DATA}/logs/going") == "absent"
    assert append(store, store.create("going"), b"new") == range(1)
    assert values(open_store(disk.crash("synced")).logs["going"]) == [b"new"]


def test_whoever_wants_a_deleted_name_back_is_told_that_the_disk_refuses() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    store.create("going")
    disk.fail("rename", path="*/going", times="forever")
    with pytest.raises(DiskFailed):
        store.delete("going")
    with pytest.raises(DiskFailed):
        store.create("going")
    disk.heal()
    assert append(store, store.create("going"), b"new") == range(1)


def test_a_deleted_log_is_neither_read_nor_searched() -> None:
    store = open_store(FaultyDisk())
    log = store.create("t/0")
    append(store, log, b"x")
    store.delete("t/0")
    with pytest.raises(LogClosed, match="t/0"):
        log.read(0, 100)
    with pytest.raises(LogClosed, match="t/0"):
        log.offset_for_time(0)


def stopped_and_robbed(name: str) -> FaultyDisk:
    """A directory of two logs that was stopped cleanly, and of which one log was removed afterwards."""
    disk = FaultyDisk()
    store = open_store(disk)
    for one in ("t/0", "t/1"):
        append(store, store.create(one), b"kept")
    store.close()
    directory = f"{DATA}/logs/{name}"
    for entry in disk.entries(directory):
        disk.remove(f"{directory}/{entry.name}")
    disk.remove_directory(directory)
    return disk.crash("everything")


def test_a_log_that_was_there_at_the_clean_stop_is_missed() -> None:
    store = open_store(stopped_and_robbed("t/0"))
    assert list(store.logs) == ["t/1"]
    assert isinstance(store.unopened["t/0"], RangeDamaged)
    with pytest.raises(LogFenced, match="t/0 is gone: at the last clean stop it went up to offset 1"):
        store.log("t/0")
    with pytest.raises(LogExists):
        store.create("t/0")


def test_a_log_that_is_missed_can_be_given_up() -> None:
    store = open_store(stopped_and_robbed("t/0"))
    store.delete("t/0")
    assert store.unopened == {}
    with pytest.raises(LogNotFound):
        store.log("t/0")
    assert append(store, store.create("t/0"), b"new") == range(1)


def test_a_log_that_could_not_be_opened_can_be_deleted() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    append(store, store.create("t/0"), b"old")
    disk = disk.crash("everything")
    disk.fail("sync", path="*/t/0/*")
    store = open_store(disk)
    store.delete("t/0")
    assert append(store, store.create("t/0"), b"new") == range(1)
    assert values(open_store(disk.crash("synced")).logs["t/0"]) == [b"new"]


# --- starts and stops ---


class WatchedDisk(FaultyDisk):
    """Counts what a start asks of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def open(self, path: str, mode: Mode) -> File:  # type: ignore[override]
        self.asked["open"] += path.startswith(f"{DATA}/logs/")
        return super().open(path, mode)

    def entries(self, path: str) -> list[Entry]:
        self.asked["entries"] += path.startswith(f"{DATA}/logs/")
        return super().entries(path)


def test_ten_thousand_logs_open_after_a_clean_stop_without_one_file_being_opened() -> None:
    disk, topics, partitions = WatchedDisk(), 100, 100
    for topic in range(topics):
        for partition in range(partitions):
            disk.write_file(f"{DATA}/logs/t{topic}/{partition}/{0:020d}.log", b"")
    open_store(disk).close()
    disk.asked.clear()
    operations = disk.operations
    store = open_store(disk)
    assert len(store.logs) == topics * partitions
    assert all(recovered.was_clean for recovered in store.recovered.values())
    assert disk.asked["open"] == 0
    assert disk.asked["entries"] <= 3 * (topics * partitions + topics)
    assert disk.operations - operations < 10


def test_a_clean_stop_is_followed_by_a_start_without_a_survey() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = open_store(disk, clock)
    log = store.create("t/0")
    for number in range(10):
        append(store, log, b"%d" % number * 500)
    told = (log.first_offset, log.next_offset, log.last_time, log.size, log.active.first_time)
    store.close()
    store = open_store(disk, clock)
    log = store.logs["t/0"]
    assert store.recovered["t/0"].was_clean
    assert (log.first_offset, log.next_offset, log.last_time, log.size, log.active.first_time) == told
    assert append(store, log, b"more") == range(10, 11)


def test_the_marker_stands_only_while_nobody_writes() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    store.create("t/0")
    store.close()
    assert f"{DATA}/clean" in disk.paths()
    open_store(disk)
    assert f"{DATA}/clean" not in disk.crash("synced").paths()


def test_a_log_that_changed_since_the_clean_stop_is_surveyed() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    for name in ("changed", "same"):
        append(store, store.create(name), b"kept")
    store.close()
    path = f"{DATA}/logs/changed/{0:020d}.log"
    disk.write_file(path, disk.read_file(path) + b"torn")
    store = open_store(disk)
    assert (store.recovered["changed"].was_clean, store.recovered["same"].was_clean) == (False, True)
    assert store.recovered["changed"].cut is not None
    assert values(store.logs["changed"]) == values(store.logs["same"]) == [b"kept"]


def test_a_stop_writes_what_waits() -> None:
    disk, answers = FaultyDisk(), Answers()
    store = open_store(disk, flush="interval")
    store.create("t/0").append(batch([b"x"]), answers)
    store.close()
    assert answers.given == [None]
    assert values(open_store(disk.crash("synced")).logs["t/0"]) == [b"x"]


def test_closing_twice_is_harmless_even_when_somebody_else_has_the_directory_by_then() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    append(store, store.create("t/0"), b"x")
    store.close()
    marker = snapshot(disk)
    store.close()
    assert snapshot(disk) == marker
    other = open_store(disk)
    append(other, other.log("t/0"), b"y")
    before = snapshot(disk)
    store.close()
    assert snapshot(disk) == before
    with pytest.raises(DataDirectoryInUse):
        open_store(disk)


def test_who_is_answered_during_a_stop_cannot_append_again() -> None:
    disk, refusals = FaultyDisk(), list[GoQueueError]()
    store = open_store(disk)
    log = store.create("t/0")

    def again(_: GoQueueError | None) -> None:
        with pytest.raises(LogClosed) as caught:
            log.append(batch([b"too late"]))
        refusals.append(caught.value)

    log.append(batch([b"x"]), again)
    store.close()
    assert len(refusals) == 1
    store = open_store(disk.crash("synced"))
    assert store.recovered["t/0"].was_clean
    assert values(store.log("t/0")) == [b"x"]
    assert append(store, store.log("t/0"), b"y") == range(1, 2)


def test_names_of_logs_are_found_at_every_depth_and_no_deeper() -> None:
    disk = FaultyDisk()
    for name in ("a", "a/b", "a/b/c", "a/b/c/d", "a/b/c/d/e", "x/y"):
        disk.write_file(f"/logs/{name}/{0:020d}.log", b"")
    assert sorted(find_logs(disk, "/logs")) == ["a", "a/b", "a/b/c", "a/b/c/d", "x/y"]


def test_the_same_store_works_on_a_real_disk(tmp_path: Path) -> None:
    disk: Disk = SystemDisk()
    contents = [b"%d" % number * 400 for number in range(40)]
    for stop in range(4):
        store = open_store(disk, path=str(tmp_path))
        log = store.logs.get("t/0") or store.create("t/0")
        append(store, log, *contents[stop * 10 : stop * 10 + 10])
        assert values(log) == contents[: stop * 10 + 10]
        store.close()


class FoldingDisk(FaultyDisk):
    """A file system that takes upper case for lower, as some do."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in {"open", "entries", "kind", "make_directory", "rename", "remove", "sync_directory"}:
            return found
        return lambda *words: found(*(word.lower() for word in words))


def test_a_log_never_gets_the_files_of_another_whose_name_differs_in_case() -> None:
    store = open_store(FoldingDisk())
    append(store, store.create("orders/0"), b"kept")
    with pytest.raises(LogExists, match="Orders/0 cannot be created"):
        store.create("Orders/0")
    assert values(store.log("orders/0")) == [b"kept"]
