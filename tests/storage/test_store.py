"""A data directory: whose it is, what it holds, how it is opened and stopped, and how logs come and go."""

import errno
from collections import Counter
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
from goqueue.storage.disk import DirectoryEntry, File, Mode
from goqueue.storage.layout import check_directory, find_logs
from goqueue.storage.log import Log
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import DATA, Answers, append, batch, offset_for_time, open_store, values


def snapshot(disk: FaultyDisk) -> dict[str, bytes]:
    return {path: disk.read_file(path) for path in disk.paths()}


# --- whose directory it is ---


def test_a_missing_directory_is_made(disk: FaultyDisk) -> None:
    open_store(disk, path="/some/where/data")
    assert disk.read_file("/some/where/data/FORMAT") == b"goqueue 1\n"


@pytest.mark.parametrize("ours", ["lock", "FORMAT.tmp", "clean.tmp", "lost+found"])
def test_start_accepts_files_of_an_interrupted_first_start(disk: FaultyDisk, ours: str) -> None:
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
def test_foreign_directory_is_refused_unchanged(
    disk: FaultyDisk, path: str, content: bytes, error: type[GoQueueError], match: str
) -> None:
    disk.write_file(f"/{path}", content)
    before = snapshot(disk)
    with pytest.raises(error, match=match) as caught:
        open_store(disk)
    assert caught.value.hint
    assert caught.value.sentence.isprintable()
    assert snapshot(disk) == before


@pytest.mark.parametrize("operation", ["kind", "entries", "open", "read"])
@pytest.mark.parametrize(("code", "error"), [(errno.EACCES, AccessDenied), (errno.EIO, DiskFailed)])
def test_unreadable_directory_is_refused_unchanged(
    disk: FaultyDisk, store: Store, operation: str, code: int, error: type[GoQueueError]
) -> None:
    append(store, store.create("t/0"), b"kept")
    store.close()
    disk = disk.crash("everything")
    before = snapshot(disk)
    disk.fail(operation, code, path=f"{DATA}*")
    with pytest.raises(error, match=DATA):
        open_store(disk)
    disk.end_faults()
    assert snapshot(disk) == before
    assert values(open_store(disk).logs["t/0"]) == [b"kept"]


def test_format_directory_is_refused(disk: FaultyDisk) -> None:
    disk.make_directory(f"{DATA}/FORMAT")
    with pytest.raises(FormatUnsupported, match="FORMAT is not a file"):
        open_store(disk)


def test_check_directory_requires_an_existing_data_directory(disk: FaultyDisk) -> None:
    with pytest.raises(PathInvalid, match="does not exist"):
        check_directory(disk, DATA)
    disk.write_file(f"{DATA}/notes.txt", b"mine")
    with pytest.raises(DataDirectoryForeign, match=r"notes\.txt"):
        check_directory(disk, DATA)
    assert disk.paths() == [f"{DATA}/notes.txt"]


def test_second_process_is_refused_with_the_owner(disk: FaultyDisk, store: Store) -> None:
    with pytest.raises(DataDirectoryInUse, match="this test"):
        open_store(disk)
    store.close()
    open_store(disk)


def test_failed_start_releases_the_directory_lock(disk: FaultyDisk, store: Store) -> None:
    append(store, store.create("t/0"), b"kept")
    disk = disk.crash("everything")
    disk.fail("entries", path=f"{DATA}/logs")
    with pytest.raises(DiskFailed):
        open_store(disk)
    assert values(open_store(disk).logs["t/0"]) == [b"kept"]


def test_unreadable_log_does_not_stop_other_logs_from_opening(disk: FaultyDisk, store: Store) -> None:
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
    store.close()
    assert values(open_store(disk).log("t/0")) == [b"kept"]


# --- the logs in it ---


@pytest.mark.parametrize("name", ["t", "t/0", "t/0/delayed", "__x/a.b-c_d/0/1", "n" * 255])
def test_a_log_is_found_again_by_its_name(disk: FaultyDisk, store: Store, name: str) -> None:
    append(store, store.create(name), b"x")
    store.close()
    assert list(open_store(disk).logs) == [name]


PATHS = ["", "/", "/t", "t/", "t//0", ".", "..", "../t", "t/../u", "t\\0", "a/b/c/d/e"]
CHARACTERS = ["a b", "a\0b", "ä", "n" * 256, "a\n"]


@pytest.mark.parametrize("name", [*PATHS, *CHARACTERS])
def test_invalid_log_name_is_refused(disk: FaultyDisk, store: Store, name: str) -> None:
    before = disk.operations
    with pytest.raises(LogNameInvalid) as caught:
        store.create(name)
    assert caught.value.sentence.isprintable()
    assert disk.operations == before


def test_unknown_log_is_refused(store: Store) -> None:
    for use in (store.log, store.delete):
        with pytest.raises(LogNotFound, match="'t/9'"):
            use("t/9")


def test_existing_log_cannot_be_created(store: Store) -> None:
    store.create("t/0")
    with pytest.raises(LogExists, match="t/0"):
        store.create("t/0")


def test_foreign_files_are_kept(disk: FaultyDisk, store: Store) -> None:
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
def test_directory_with_invalid_log_name_is_ignored(disk: FaultyDisk, name: str) -> None:
    open_store(disk).create("t/0")
    disk = disk.crash("everything")
    disk.write_file(f"{DATA}/logs/{name}/{0:020d}.log", b"another's")
    assert list(open_store(disk).logs) == ["t/0"]
    assert disk.read_file(f"{DATA}/logs/{name}/{0:020d}.log") == b"another's"


def test_deleting_a_log_deletes_its_children(disk: FaultyDisk, store: Store) -> None:
    answers = Answers()
    for name in ("t/0", "t/0/delayed", "t/01", "t/1"):
        append(store, store.create(name), b"x")
    store.logs["t/0/delayed"].append(batch([b"waiting"]), answers)
    store.delete("t/0")
    assert list(store.logs) == ["t/01", "t/1"]
    assert [type(error).__name__ for error in answers.given] == ["LogClosed"]
    assert sorted(open_store(disk.after_crash("synced")).logs) == ["t/01", "t/1"]
    store.empty_trash()
    assert not [path for path in disk.paths() if "/trash/" in path or "/t/0/" in path]


def test_recreated_log_starts_empty(disk: FaultyDisk, store: Store) -> None:
    for turn in range(3):
        log = store.create("t/0")
        assert append(store, log, b"%d" % turn) == range(1)
        store.delete("t/0")
    assert append(store, store.create("t/0"), b"last") == range(1)
    left = disk.crash("synced")
    assert values(open_store(left).logs["t/0"]) == [b"last"]
    assert not [path for path in left.paths() if "/trash/" in path]


def test_a_fenced_log_can_be_deleted(disk: FaultyDisk, store: Store, log: Log) -> None:
    disk.fail("sync")
    append(store, log, b"lost")
    store.delete("t/0")
    assert open_store(disk.crash("synced")).logs == {}


def test_failed_deletion_does_not_affect_other_logs(disk: FaultyDisk, store: Store) -> None:
    answers = Answers()
    store.create("going")
    store.create("staying").append(batch([b"x"]), answers)
    disk.fail("rename", path="*/going", times="forever")
    with pytest.raises(DiskFailed):
        store.delete("going")
    assert answers.given == [None]


@pytest.mark.parametrize(
    ("operation", "path"), [("rename", "*/going"), ("sync_directory", "*/trash"), ("sync_directory", "*/logs")]
)
@pytest.mark.parametrize("retry", ["create", "settle"])
def test_refused_deletion_is_retried(disk: FaultyDisk, store: Store, operation: str, path: str, retry: str) -> None:
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


def test_creating_a_deleted_log_raises_the_disk_error(disk: FaultyDisk, store: Store) -> None:
    store.create("going")
    disk.fail("rename", path="*/going", times="forever")
    with pytest.raises(DiskFailed):
        store.delete("going")
    with pytest.raises(DiskFailed):
        store.create("going")
    disk.end_faults()
    assert append(store, store.create("going"), b"new") == range(1)


def test_deleted_log_cannot_be_read(store: Store, log: Log) -> None:
    append(store, log, b"x")
    store.delete("t/0")
    with pytest.raises(LogClosed, match="t/0"):
        log.read(0, 100)
    with pytest.raises(LogClosed, match="t/0"):
        offset_for_time(log, 0)


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


def test_log_removed_after_a_clean_stop_is_reported_missing_and_can_be_deleted() -> None:
    store = open_store(stopped_and_robbed("t/0"))
    assert list(store.logs) == ["t/1"]
    assert isinstance(store.unopened["t/0"], RangeDamaged)
    with pytest.raises(LogFenced, match="t/0 is gone: at the last clean stop it went up to offset 1"):
        store.log("t/0")
    with pytest.raises(LogExists):
        store.create("t/0")
    store.delete("t/0")
    assert store.unopened == {}
    with pytest.raises(LogNotFound):
        store.log("t/0")
    assert append(store, store.create("t/0"), b"new") == range(1)


def test_a_log_that_could_not_be_opened_can_be_deleted(disk: FaultyDisk, store: Store) -> None:
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

    def entries(self, path: str) -> list[DirectoryEntry]:
        self.asked["entries"] += path.startswith(f"{DATA}/logs/")
        return super().entries(path)


def test_clean_start_with_a_thousand_logs_opens_no_file() -> None:
    disk, topics, partitions = WatchedDisk(), 10, 100
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


def test_start_after_a_clean_stop_scans_nothing(disk: FaultyDisk, clock: ManualClock, store: Store, log: Log) -> None:
    for number in range(10):
        append(store, log, b"%d" % number * 500)
    told = (log.first_offset, log.next_offset, log.last_time, log.size, log.active.first_time)
    store.close()
    store = open_store(disk, clock)
    log = store.logs["t/0"]
    assert store.recovered["t/0"].was_clean
    assert (log.first_offset, log.next_offset, log.last_time, log.size, log.active.first_time) == told
    assert append(store, log, b"more") == range(10, 11)


def test_clean_marker_exists_only_while_no_process_writes(disk: FaultyDisk, store: Store) -> None:
    store.create("t/0")
    store.close()
    assert f"{DATA}/clean" in disk.paths()
    open_store(disk)
    assert f"{DATA}/clean" not in disk.crash("synced").paths()


def test_log_changed_since_clean_stop_is_recovered(disk: FaultyDisk, store: Store) -> None:
    for name in ("changed", "same"):
        append(store, store.create(name), b"kept")
    store.close()
    path = f"{DATA}/logs/changed/{0:020d}.log"
    disk.write_file(path, disk.read_file(path) + b"torn")
    store = open_store(disk)
    assert (store.recovered["changed"].was_clean, store.recovered["same"].was_clean) == (False, True)
    assert store.recovered["changed"].cut is not None
    assert values(store.logs["changed"]) == values(store.logs["same"]) == [b"kept"]


def test_stop_writes_pending_appends(disk: FaultyDisk) -> None:
    answers = Answers()
    store = open_store(disk, flush="interval")
    store.create("t/0").append(batch([b"x"]), answers)
    store.close()
    assert answers.given == [None]
    assert values(open_store(disk.crash("synced")).logs["t/0"]) == [b"x"]


def test_second_close_does_not_touch_the_directory_of_another_process(disk: FaultyDisk, store: Store) -> None:
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


def test_callback_during_a_stop_cannot_append() -> None:
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


def test_find_logs_depth(disk: FaultyDisk) -> None:
    for name in ("a", "a/b", "a/b/c", "a/b/c/d", "a/b/c/d/e", "x/y"):
        disk.write_file(f"/logs/{name}/{0:020d}.log", b"")
    assert sorted(find_logs(disk, "/logs")) == ["a", "a/b", "a/b/c", "a/b/c/d", "x/y"]


class FoldingDisk(FaultyDisk):
    """A file system that takes upper case for lower, as some do."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in {"open", "entries", "kind", "make_directory", "rename", "remove", "sync_directory"}:
            return found
        return lambda *words: found(*(word.lower() for word in words))


def test_log_name_differing_in_case_is_refused_on_case_insensitive_disk() -> None:
    store = open_store(FoldingDisk())
    append(store, store.create("orders/0"), b"kept")
    with pytest.raises(LogExists, match="Orders/0 cannot be created"):
        store.create("Orders/0")
    assert values(store.log("orders/0")) == [b"kept"]
