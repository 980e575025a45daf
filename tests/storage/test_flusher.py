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
from goqueue.storage.flusher import Flusher, Report
from goqueue.storage.log import Log
from goqueue.storage.store import Store, StoreSettings
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import Answers, append, batch, open_store, values

PATIENCE_SECONDS = 30


def made(disk: FaultyDisk, operation: str) -> int:
    """How many operations of a kind there were."""
    return sum(line.split()[1] == operation for line in disk.journal if line[0].isdigit())


def with_room_for(store: Store, logs_open: int) -> None:
    """Let the flusher keep fewer files open."""
    store.resources.flusher._logs_open_max = logs_open


# --- rounds ---


def test_one_sync_covers_all_appends_of_a_log_that_gathered() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    log, answers = store.create("t/0"), Answers()
    append(store, log, b"first")
    before = made(disk, "sync")
    for _ in range(20):
        log.append(batch([b"x"]), answers)
    store.flush()
    assert answers.given == [None] * 20
    assert made(disk, "sync") == before + 1


def test_a_segment_is_synced_before_its_successor_is_created() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    log = store.create("t/0")
    for _ in range(3):
        log.append(batch([b"x" * 3000]))
    store.flush()
    lines = [line.split(maxsplit=1)[1] for line in disk.journal]
    stem = "/data/logs/t/0/"
    for number in (1, 2):
        synced = lines.index(f"sync {stem}{number - 1:020d}.log")
        assert synced < lines.index(f"create {stem}{number:020d}.log")


def test_a_round_without_work_touches_nothing() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    append(store, store.create("t/0"), b"x")
    operations = disk.operations
    store.flush()
    assert disk.operations == operations


def test_between_two_syncs_messages_are_answered_and_read_once_they_are_written() -> None:
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


def test_a_sync_is_due_an_interval_after_the_last_one() -> None:
    clock = ManualClock()
    flusher = Flusher(clock, "interval", 2 * NANOSECONDS, lambda _: None)
    assert not flusher._is_due()
    assert flusher._patience() is None
    clock.advance(2)
    assert flusher._is_due()
    flusher._round([], sync=True)
    assert not flusher._is_due()


def test_the_flusher_waits_no_longer_than_the_interval_allows() -> None:
    clock = ManualClock()
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


def test_the_flusher_wakes_to_sync_copies_and_waits_for_nothing_afterwards() -> None:
    clock = ManualClock()
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


def test_a_failure_of_one_log_leaves_the_round_to_the_others() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    answers = {name: Answers() for name in ("a", "b", "c")}
    for name, given in answers.items():
        store.create(name).append(batch([b"x"]), given)
    disk.fail("sync", path="*/b/*")
    store.flush()
    assert [type(given.given[0]) for given in answers.values()] == [type(None), LogFenced, type(None)]


def test_what_is_appended_after_a_failure_waits_for_the_owner_to_see_it() -> None:
    disk = FaultyDisk()
    reports: list[Callable[[], None]] = []
    store = open_store(disk)
    store._deliver = reports.append  # from now on somebody else hands the reports over
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


def test_more_logs_than_files_are_written_with_few_files_open() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
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


def test_the_log_unused_for_longest_lets_its_files_go() -> None:
    store = open_store(FaultyDisk())
    with_room_for(store, 2)
    one, two, three = (store.create(name) for name in ("one", "two", "three"))
    for log in (one, two, one, three):
        append(store, log, b"x")
    assert [log.writer.is_open for log in (one, two, three)] == [True, False, True]


def test_an_index_that_could_not_be_written_does_not_stop_a_log_whose_files_were_let_go() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
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
def test_the_thread_writes_and_syncs_what_is_handed_over(tmp_path: Path, flush: str) -> None:
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


def test_stopping_writes_what_is_left() -> None:
    disk = FaultyDisk()
    owner, answers = Owner(disk), Answers()
    log = owner.store.create("t/0")
    for number in range(50):
        log.append(batch([b"%d" % number]), answers)
    owner.store.close()
    assert answers.given == [None] * 50
    assert len(values(open_store(disk.crash("synced")).logs["t/0"])) == 50


def test_a_failure_in_the_thread_reaches_those_who_wait() -> None:
    disk, answers = FaultyDisk(), Answers()
    owner = Owner(disk)
    log = owner.store.create("t/0")
    disk.fail("sync", path="*.log")
    log.append(batch([b"lost"]), answers)
    owner.run_until(lambda: bool(answers.given))
    assert isinstance(answers.given[0], LogFenced)
    owner.store.reopen("t/0")
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


def test_while_one_round_is_at_the_disk_the_next_one_gathers() -> None:
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


def test_deletions_of_a_log_and_of_one_below_it_may_overtake_each_other() -> None:
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


def test_a_report_says_how_far_each_log_of_the_round_has_come() -> None:
    store = open_store(FaultyDisk())
    reports: list[Report] = []
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


# --- what nobody expected ---


def test_a_mistake_of_our_own_costs_the_log_that_it_happened_to_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    store = open_store(disk)
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
    store.reopen("b")
    assert append(store, store.log("b"), b"after it") == range(1)
    left = open_store(disk.crash("synced"))
    assert [values(left.log(name)) for name in "abc"] == [[b"x", b"y"], [b"after it"], [b"x", b"y"]]


def raising(error: BaseException) -> Callable[..., None]:
    def raise_it(*_: object) -> None:
        raise error

    return raise_it


def test_the_end_of_the_thread_reaches_the_owner_and_is_no_clean_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
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
def test_a_sync_that_fails_when_files_are_let_go_fences_the_log(order: tuple[str, str]) -> None:
    disk = FaultyDisk()
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
def test_a_process_without_free_files_refuses_and_goes_on_when_it_has_some(operation: str, path: str) -> None:
    disk, answers = FaultyDisk(), Answers()
    store = open_store(disk)
    log = store.create("t/0")
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


def test_who_cannot_wait_for_the_interval_has_one_log_synced() -> None:
    store = open_store(FaultyDisk(), flush="interval")
    flusher, wanted, other = store.resources.flusher, store.create("wanted"), store.create("other")
    for log in (wanted, other):
        log.append(batch([b"a"]))
    flusher._round(flusher._gathered(), sync=False)
    assert (wanted.readable_end, wanted.durable_end) == (1, 0)
    wanted.sync_soon()
    flusher._round(flusher._gathered(), sync=False)
    assert (wanted.durable_end, other.durable_end) == (1, 0)
