"""Group commit: rounds, syncs, the thread that makes them, and logs that are more than the files."""

import errno
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Event, current_thread

import pytest

from goqueue.clock import NANOSECONDS, SystemClock
from goqueue.errors import FilesExhausted, GoQueueError, LogFenced
from goqueue.limits import COPY_SYNC_SECONDS
from goqueue.storage.disk import Disk, SystemDisk
from goqueue.storage.flusher import Flusher, FlushReport
from goqueue.storage.log import Log
from goqueue.storage.store import Store, StoreSettings
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import Answers, append, batch, open_store, read_again, values

PATIENCE_SECONDS = 30


def made(disk: FaultyDisk, operation: str) -> int:
    """Return how many operations of a kind there were."""
    return sum(line.split()[1] == operation for line in disk.journal if line[0].isdigit())


def with_room_for(store: Store, logs_open: int) -> None:
    """Let the flusher keep fewer files open."""
    store.resources.flusher._logs_open_max = logs_open


# --- rounds ---


def test_one_sync_covers_all_gathered_appends(disk: FaultyDisk, store: Store) -> None:
    log, answers = store.create("t/0"), Answers()
    append(store, log, b"first")
    before = made(disk, "sync")
    for _ in range(20):
        log.append(batch([b"x"]), answers)
    store.flush()
    assert answers.given == [None] * 20
    assert made(disk, "sync") == before + 1


def test_segment_is_synced_before_the_next_is_created(disk: FaultyDisk, store: Store, log: Log) -> None:
    for _ in range(3):
        log.append(batch([b"x" * 3000]))
    store.flush()
    lines = [line.split(maxsplit=1)[1] for line in disk.journal]
    stem = "/data/logs/t/0/"
    for number in (1, 2):
        synced = lines.index(f"sync {stem}{number - 1:020d}.log")
        assert synced < lines.index(f"create {stem}{number:020d}.log")


def test_logs_are_handed_over_when_their_owner_has_done_what_it_is_at(store: Store) -> None:
    later: list[Callable[[], None]] = []
    store.resources.flusher.defer = later.append
    logs, answers = [store.create(f"t/{number}") for number in range(2)], Answers()
    for log in [*logs, *logs]:
        log.append(batch([b"x"]), answers)
    (hand_over,) = later
    store.flush()
    assert answers.given == [], "the owner is not done"
    hand_over()
    store.flush()
    assert answers.given == [None] * 4


def test_stop_writes_what_was_not_handed_over(store: Store) -> None:
    store.resources.flusher.defer = lambda _: None
    answers = Answers()
    store.create("t/0").append(batch([b"x"]), answers)
    store.close()
    assert answers.given == [None]


def test_round_without_work_writes_nothing(disk: FaultyDisk, store: Store) -> None:
    append(store, store.create("t/0"), b"x")
    operations = disk.operations
    store.flush()
    assert disk.operations == operations


def test_interval_mode_answers_appends_when_written() -> None:
    disk, clock, answers = FaultyDisk(), ManualClock(), Answers()
    store = open_store(disk, clock, flush="interval")
    log = store.create("t/0")
    flusher = store.resources.flusher
    log.append(batch([b"one"]), answers)
    flusher._round(flusher._gathered(), sync=flusher._is_due())
    assert answers.given == [None]
    assert (log.written_end, log.durable_end, log.readable_end) == (1, 0, 1)
    assert values(log) == [b"one"]
    clock.advance(1)
    flusher._round(flusher._gathered(), sync=flusher._is_due())
    assert log.durable_end == 1


def test_interval_mode_sync_is_due_after_the_interval(clock: ManualClock) -> None:
    flusher = Flusher(clock, "interval", 2 * NANOSECONDS, lambda _: None)
    assert not flusher._is_due()
    assert flusher._patience() is None
    clock.advance(2)
    assert flusher._is_due()
    flusher._round([], sync=True)
    assert not flusher._is_due()


def test_flusher_wait_ends_when_a_sync_is_due(clock: ManualClock) -> None:
    store = Store.open(
        FaultyDisk(), "/data", clock, owner="t", settings=StoreSettings("interval", 2 * NANOSECONDS), deliver=None
    )
    flusher = store.resources.flusher
    store.create("t/0").append(batch([b"x"]))
    flusher._round(flusher._gathered(), sync=False)
    assert flusher._patience() == 2
    clock.advance(1.5)
    assert flusher._patience() == 0.5
    clock.advance(5)
    assert flusher._patience() == 0


def test_flusher_wakes_to_sync_copies(clock: ManualClock) -> None:
    store = open_store(FaultyDisk(), clock)
    flusher, log = store.resources.flusher, store.create("t/0")
    log.writer.keep_copies(log.segments)
    append(store, log, b"x")
    assert flusher._patience() == COPY_SYNC_SECONDS
    assert flusher._copied == {log: None}
    clock.advance(COPY_SYNC_SECONDS)
    flusher._round([], sync=True)
    assert flusher._copied == {}
    assert flusher._patience() is None


def test_append_after_a_failure_waits_for_its_report(disk: FaultyDisk) -> None:
    reports: list[Callable[[], None]] = []
    store = open_store(disk)
    store._deliver = reports.append  # from now on a client else hands the reports over
    log, answers = store.create("t/0"), Answers()
    flusher = store.resources.flusher
    log.append(batch([b"refused"]), answers)
    disk.fail("write", errno.ENOSPC, path="*.log")
    flusher.flush()
    log.append(batch([b"too early"]), answers)
    flusher.flush()
    assert answers.given == []
    reports[0]()
    assert [type(error).__name__ for error in answers.given] == ["DiskFull", "DiskFull"]
    log.append(batch([b"after it"]), answers)
    flusher.flush()
    reports[-1]()
    assert values(log) == [b"after it"]


# --- more logs than files ---


def test_number_of_open_files_is_limited(disk: FaultyDisk, store: Store) -> None:
    with_room_for(store, 5)
    logs = [store.create(f"t/{number}") for number in range(40)]
    for turn in range(3):
        for log in logs:
            log.append(batch([b"%d" % turn]))
        store.flush()
        assert sum(log.writer.is_open for log in logs) <= 5
    assert all(values(log) == [b"0", b"1", b"2"] for log in logs)
    left = open_store(disk.crash("synced"))
    assert all(values(log) == [b"0", b"1", b"2"] for log in left.logs.values())


def test_least_recently_used_log_closes_its_files(store: Store) -> None:
    with_room_for(store, 2)
    one, two, three = (store.create(name) for name in ("one", "two", "three"))
    for log in (one, two, one, three):
        append(store, log, b"x")
    assert [log.writer.is_open for log in (one, two, three)] == [True, False, True]


def test_failed_index_write_does_not_stop_a_log_with_closed_files(disk: FaultyDisk, store: Store) -> None:
    with_room_for(store, 1)
    one, other = store.create("one"), store.create("other")
    disk.fail("write", errno.ENOSPC, path="*/one/*.index")
    append(store, one, b"first")
    append(store, other, b"x")
    assert append(store, one, b"second") == range(1, 2)
    assert one.fence is None
    assert values(open_store(disk.crash("synced")).logs["one"]) == [b"first", b"second"]


# --- the thread ---


class Owner:
    """The owner's thread of a store with a flusher of its own: runs what is delivered, until something holds."""

    def __init__(self, disk: Disk, path: str = "/data", *, flush: str = "always") -> None:
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.threads: set[str] = set()
        settings = StoreSettings("interval" if flush == "interval" else "always", 1_000_000)
        self.store = Store.open(disk, path, SystemClock(), owner="test", settings=settings, deliver=self._deliver)

    def _deliver(self, report: Callable[[], None]) -> None:
        self.threads.add(current_thread().name)
        self._inbox.put(report)

    def run_until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._inbox.get(timeout=PATIENCE_SECONDS)()


@pytest.mark.parametrize("flush", ["always", "interval"])
def test_thread_writes_and_syncs_appends(tmp_path: Path, flush: str) -> None:
    owner, answers = Owner(SystemDisk(), str(tmp_path), flush=flush), Answers()
    logs = [owner.store.create(f"t/{number}") for number in range(3)]
    for number in range(300):
        logs[number % 3].append(batch([b"%d" % number]), answers)
    owner.run_until(lambda: all(log.durable_end == 100 for log in logs))
    assert answers.given == [None] * 300
    assert owner.threads == {"goqueue-flusher"}
    owner.store.close()
    again = open_store(SystemDisk(), path=str(tmp_path))
    assert values(again.logs["t/1"]) == [b"%d" % number for number in range(1, 300, 3)]
    again.close()


def test_stopping_writes_what_is_left(disk: FaultyDisk) -> None:
    owner, answers = Owner(disk), Answers()
    log = owner.store.create("t/0")
    for number in range(50):
        log.append(batch([b"%d" % number]), answers)
    owner.store.close()
    assert answers.given == [None] * 50
    assert len(values(open_store(disk.crash("synced")).logs["t/0"])) == 50


def test_sync_failure_in_the_thread_fails_pending_appends(disk: FaultyDisk) -> None:
    answers = Answers()
    owner = Owner(disk)
    log = owner.store.create("t/0")
    disk.fail("sync", path="*.log")
    log.append(batch([b"lost"]), answers)
    owner.run_until(lambda: bool(answers.given))
    assert isinstance(answers.given[0], LogFenced)
    read_again(owner.store, disk, "t/0")
    log.append(batch([b"kept"]), answers)
    owner.run_until(lambda: len(answers.given) == 2)
    assert answers.given[1] is None
    owner.store.close()


class SlowDisk(FaultyDisk):
    """Holds a sync of a directory until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held, self.go_on = Event(), Event()
        self.held_path = ""

    def sync_directory(self, path: str) -> None:
        if path == self.held_path:
            self.is_held.set()
            assert self.go_on.wait(PATIENCE_SECONDS)
        super().sync_directory(path)


def test_appends_during_a_round_are_gathered() -> None:
    disk, answers = SlowDisk(), Answers()
    owner = Owner(disk)
    one, other = owner.store.create("one"), owner.store.create("other")
    disk.held_path = one.directory
    one.append(batch([b"x"]), answers)
    assert disk.is_held.wait(PATIENCE_SECONDS)
    before = made(disk, "sync")
    for _ in range(20):
        other.append(batch([b"x"]), answers)
    disk.go_on.set()
    owner.run_until(lambda: len(answers.given) == 21)
    assert made(disk, "sync") == before + 2
    owner.store.close()


def test_a_log_can_be_deleted_while_the_thread_writes_to_it() -> None:
    disk = SlowDisk()
    owner, answers = Owner(disk), Answers()
    log: Log = owner.store.create("t/0")
    disk.held_path = log.directory
    log.append(batch([b"x"]), answers)
    assert disk.is_held.wait(PATIENCE_SECONDS)
    owner.store.delete("t/0")
    assert [type(error).__name__ for error in answers.given] == ["LogClosed"]
    with pytest.raises(GoQueueError, match="still being deleted"):
        owner.store.create("t/0")
    disk.go_on.set()
    owner.run_until(lambda: disk.kind("/data/logs/t/0") == "absent")
    again = owner.store.create("t/0")
    again.append(batch([b"new"]), answers)
    owner.run_until(lambda: len(answers.given) == 2)
    assert values(again) == [b"new"]
    owner.store.close()


def test_log_and_its_child_can_be_deleted_in_any_order() -> None:
    disk = SlowDisk()
    owner = Owner(disk)
    parent, child = owner.store.create("t/0"), owner.store.create("t/0/delayed")
    other = owner.store.create("other")
    disk.held_path = other.directory
    other.append(batch([b"x"]))
    assert disk.is_held.wait(PATIENCE_SECONDS)
    parent.append(batch([b"x"]))
    owner.store.delete(child.name)
    owner.store.delete(parent.name)
    disk.go_on.set()
    owner.run_until(lambda: disk.kind("/data/logs/t/0") == "absent" and other.is_settled)
    owner.store.close()
    assert list(open_store(disk.crash("synced")).logs) == ["other"]


def test_flush_report_contains_written_and_durable_ends(store: Store) -> None:
    reports: list[FlushReport] = []
    store.resources.flusher._deliver = reports.append
    log = store.create("t/0")
    log.append(batch([b"one", b"two"]))
    log.append(batch([b"three"]))
    store.flush()
    ((reported, outcome),) = reports[0]
    assert reported is log
    assert outcome.written is outcome.durable
    assert outcome.durable is not None
    assert outcome.durable.next_offset == 3


# --- unexpected errors ---


def test_unexpected_error_fences_only_its_log(disk: FaultyDisk, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {name: Answers() for name in ("a", "b", "c")}
    for name, given in answers.items():
        store.create(name).append(batch([b"x"]), given)
        store.log(name).append(batch([b"y"]), given)
    monkeypatch.setattr(store.log("b").writer, "_append", raising(MemoryError("no room")))
    store.flush()
    assert answers["a"].given == answers["c"].given == [None, None]
    assert [type(error) for error in answers["b"].given] == [LogFenced, LogFenced]
    assert "MemoryError('no room')" in str(store.log("b").fence)
    monkeypatch.undo()
    read_again(store, disk, "b")
    assert append(store, store.log("b"), b"after it") == range(1)
    left = open_store(disk.crash("synced"))
    assert [values(left.log(name)) for name in "abc"] == [[b"x", b"y"], [b"after it"], [b"x", b"y"]]


def raising(error: BaseException) -> Callable[..., None]:
    def raise_it(*_: object) -> None:
        raise error

    return raise_it


def test_dead_flusher_thread_fails_the_owner_and_its_stop(disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = Owner(disk)
    log = owner.store.create("t/0")
    monkeypatch.setattr(log.writer, "_append", raising(SystemExit("the end")))
    log.append(batch([b"x"]))
    with pytest.raises(RuntimeError, match="has died") as caught:
        owner.run_until(lambda: False)
    assert isinstance(caught.value.__cause__, SystemExit)
    with pytest.raises(RuntimeError, match="has died"):
        owner.store.close()
    assert "/data/clean" not in disk.paths()
    assert not open_store(disk).recovered["t/0"].was_clean  # the lock was given back


@pytest.mark.parametrize("order", [("other", "one"), ("one", "other")])
def test_failed_sync_while_closing_files_fences_the_log(disk: FaultyDisk, order: tuple[str, str]) -> None:
    store = open_store(disk, flush="interval")
    with_room_for(store, 1)
    logs = {name: store.create(name) for name in order}
    flusher, answers = store.resources.flusher, Answers()
    logs["one"].append(batch([b"first"]))
    flusher._round(flusher._gathered(), sync=False)
    disk.fail("sync", path="*/one/*")
    for name in order:
        logs[name].append(batch([b"second"]), answers if name == "other" else None)
    flusher._round(flusher._gathered(), sync=False)
    assert logs["one"].fence is not None
    assert (logs["other"].fence, answers.given) == (None, [None])
    assert logs["one"].durable_end == 0


@pytest.mark.parametrize("operation", ["open", "create"])
@pytest.mark.parametrize("path", ["*.log", "*.index", "*.timeindex"])
def test_append_without_free_descriptors_is_refused_and_later_works(
    disk: FaultyDisk, store: Store, log: Log, operation: str, path: str
) -> None:
    answers = Answers()
    append(store, log, b"x" * 3000)
    disk.fail(operation, errno.EMFILE, path=path)
    log.append(batch([b"y" * 3000]), answers)
    store.flush()
    assert [type(error) for error in answers.given] == [FilesExhausted]
    assert (log.fence, log.next_offset) == (None, 1)
    assert append(store, log, b"z" * 3000) == range(1, 2)
    left = open_store(disk.crash("synced"))
    assert left.recovered["t/0"].damages == []
    assert values(left.logs["t/0"]) == [b"x" * 3000, b"z" * 3000]


def test_sync_soon_syncs_one_log_before_the_interval() -> None:
    store = open_store(FaultyDisk(), flush="interval")
    flusher, wanted, other = store.resources.flusher, store.create("wanted"), store.create("other")
    for log in (wanted, other):
        log.append(batch([b"a"]))
    flusher._round(flusher._gathered(), sync=False)
    assert (wanted.readable_end, wanted.durable_end) == (1, 0)
    wanted.sync_soon()
    flusher._round(flusher._gathered(), sync=False)
    assert (wanted.durable_end, other.durable_end) == (1, 0)
