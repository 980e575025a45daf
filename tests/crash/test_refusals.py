"""A disk that refuses: fences after a failure, clean refusals while it is full, and how work goes on."""

import errno
from collections.abc import Callable

import pytest

from goqueue.errors import DiskFailed, DiskFull, GoQueueError, LogFenced
from goqueue.storage.log import Log
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.crash.life import Ledger, Life, check, held, telling
from tests.crash.scenarios import Sample
from tests.storage.stores import Answers, append, batch, open_store, read_again, values

ATTEMPTS_MAX = 30
SPACE_TAKING = {"create", "write", "sync", "make_directory", "sync_directory", "rename"}
CHANGES = SPACE_TAKING | {"truncate", "remove"}


def refuse(disk: FaultyDisk, first: int, count: int, error: int, kinds: set[str]) -> None:
    """Let the operations from number `first` on fail."""

    def strikes(operation: str, _: str) -> bool:
        return first <= disk.operations < first + count and operation in kinds

    disk.fail(strikes, error, times="forever")


def persevere(life: Life, name: str, *sizes: int) -> None:
    """Publish until it is answered, as a patient client and an attentive operator would."""
    for _ in range(ATTEMPTS_MAX):
        refused = len(life.refused)
        try:
            if life.log(name).fence is not None:
                read_again(life.store, life.disk, name)
            life.publish(name, *sizes)
        except GoQueueError:
            continue
        if len(life.refused) == refused:
            return
        if life.log(name).fence is None:
            assert isinstance(life.refused[-1], DiskFull)
            assert_state_equals_disk(life)
    raise AssertionError("publishing does not resume")


def assert_state_equals_disk(life: Life) -> None:
    found = open_store(life.disk.after_crash("everything"))
    assert held(found) == held(life.store)
    assert {log.name: log.next_offset for log in found.logs.values()} == {
        log.name: log.next_offset for log in life.store.logs.values()
    }


def publishing(life: Life) -> None:
    for size in (10, 3000, 900, 200, 5000, 40, 2500, 2500, 600):
        persevere(life, "t/0", size, size // 3)
        persevere(life, "t/1", size // 2)


def operations(scenario: Callable[[Life], None], prepare: Callable[[Life], None]) -> range:
    """The numbers of the operations that a scenario makes."""
    life = Life(FaultyDisk())
    prepare(life)
    first = life.disk.operations + 1
    scenario(life)
    return range(first, life.disk.operations + 1)


def two_logs(life: Life) -> None:
    life.create("t/0", "t/1")
    life.publish("t/0", 100)
    life.publish("t/1", 100)
    life.restart()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_publishing_resumes_after_a_refusal_of_any_operation(count: int, error: int, sample: Sample) -> None:
    for operation in sample(operations(publishing, two_logs)):
        ledger: Ledger = {}
        life = Life(FaultyDisk(operation), ledger)
        two_logs(life)
        refuse(life.disk, operation, count, error, SPACE_TAKING if error == errno.ENOSPC else CHANGES)
        with telling(f"operations {operation} to {operation + count - 1}", life.disk):
            publishing(life)
            assert [owed.certain for owed in ledger.values()] == [log.next_offset for log in life.store.logs.values()]
            check(life.disk.crash("synced"), ledger)


def test_full_disk_refuses_writes_without_fencing(sample: Sample) -> None:
    for operation in sample(operations(publishing, two_logs)):
        life = Life(FaultyDisk(operation))
        two_logs(life)
        refuse(life.disk, operation, 1, errno.ENOSPC, {"write", "create"})
        publishing(life)
        assert all(isinstance(error, DiskFull) for error in life.refused)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("keep", ["everything", "synced"])
@pytest.mark.parametrize("job", ["compact", "expire", "truncate"])
def test_refused_maintenance_leaves_the_old_state_the_new_one_or_a_fence(job: str, keep: str, error: int) -> None:
    def prepare(life: Life) -> None:
        life.create("t/0")
        for keys in ("abc", "aBc", "bca", "cc-", "aab"):
            life.publish("t/0", *[300] * len(keys), keys=keys if job == "compact" else "")
            life.log("t/0").roll()
            life.flush()

    def maintain(life: Life) -> None:
        jobs = {
            "compact": lambda: life.compact("t/0"),
            "expire": lambda: life.expire("t/0", bytes_kept=2000),
            "truncate": lambda: life.truncate("t/0", 7),
        }
        jobs[job]()

    for operation in operations(maintain, prepare):
        ledger: Ledger = {}
        life = Life(FaultyDisk(operation), ledger)
        prepare(life)
        refuse(life.disk, operation, 1, error, CHANGES)
        with telling(f"{job}, operation {operation}", life.disk):
            try:
                maintain(life)
            except GoQueueError:
                if life.log("t/0").fence is not None:
                    read_again(life.store, life.disk, "t/0")
                if job != "expire":
                    assert_state_equals_disk(life)
                life.disk.end_faults()
                maintain(life)
            assert_state_equals_disk(life)
            assert not [path for path in life.disk.paths() if path.endswith(("cleaned", "swap"))]
            persevere(life, "t/0", 10)
            check(life.disk.crash("everything" if keep == "everything" else "synced"), ledger)


# --- fences ---


@pytest.mark.parametrize("operation", ["sync", "write", "create", "sync_directory"])
def test_failure_fences_only_its_log(operation: str) -> None:
    disk, broken, sound = FaultyDisk(), Answers(), Answers()
    store = open_store(disk)
    one, other = store.create("one"), store.create("other")
    for log in (one, other):
        append(store, log, b"before")
    for log in (one, other):
        log.roll()
    one.append(batch([b"lost"]), broken)
    one.append(batch([b"lost too"]), broken)
    other.append(batch([b"kept"]), sound)
    disk.fail(operation, path="*/one/*.log" if operation == "sync" else "*/one*")
    store.flush()
    assert [type(error) for error in broken.given] == [LogFenced, LogFenced]
    assert sound.given == [None]
    assert one.next_offset == one.readable_end == 1
    assert values(one) == [b"before"]
    with pytest.raises(LogFenced, match="one"):
        one.append(batch([b"refused"]))
    with pytest.raises(LogFenced):
        one.roll()
    assert append(store, other, b"further") == range(2, 3)


def test_reopened_log_keeps_synced_and_drops_unsynced_messages(disk: FaultyDisk, store: Store, log: Log) -> None:
    answers = Answers()
    append(store, log, b"kept")
    log.append(batch([b"lost"]), answers)
    disk.fail("sync")
    store.flush()
    recovered = read_again(store, disk, "t/0")
    assert recovered.next_offset == 1
    assert values(log) == [b"kept"]
    assert append(store, log, b"new") == range(1, 2)
    assert values(open_store(disk.crash("synced")).logs["t/0"]) == [b"kept", b"new"]


def test_failed_sync_is_not_repeated_on_the_same_pages(disk: FaultyDisk, store: Store, log: Log) -> None:
    append(store, log, b"kept")
    log.append(batch([b"lost"]))
    disk.fail("sync")
    store.flush()
    operations = disk.operations
    store.flush()
    store.flush()
    assert disk.operations == operations


def test_sync_failing_on_a_full_disk_fences_the_log(disk: FaultyDisk, store: Store, log: Log) -> None:
    answers = Answers()
    append(store, log, b"kept")
    log.append(batch([b"lost"]), answers)
    log.roll()  # so that the sync is that of a segment's end
    disk.fail("sync", errno.ENOSPC)
    store.flush()
    assert [type(error) for error in answers.given] == [LogFenced]
    read_again(store, disk, "t/0")
    assert values(log) == [b"kept"]


def test_failed_interval_sync_fences_after_answers_were_given() -> None:
    disk, clock, answers = FaultyDisk(), ManualClock(), Answers()
    store = open_store(disk, clock, flush="interval")
    log = store.create("t/0")
    append(store, log, b"kept")
    log.append(batch([b"written"]), answers)
    store.resources.flusher._round([log], sync=False)
    assert answers.given == [None]
    disk.fail("sync")
    store.flush()
    assert log.fence is not None
    read_again(store, disk, "t/0")
    assert values(log) == [b"kept"]


def test_only_the_fenced_log_is_scanned_after_a_clean_stop(disk: FaultyDisk, store: Store) -> None:
    one, other = store.create("one"), store.create("other")
    append(store, one, b"kept")
    append(store, other, b"kept")
    one.append(batch([b"lost"]))
    disk.fail("sync", path="*/one/*")
    store.flush()
    store.close()
    again = open_store(disk.crash("everything"))
    assert not again.recovered["one"].was_clean
    assert again.recovered["other"].was_clean
    assert values(again.logs["other"]) == [b"kept"]


def test_log_stays_fenced_while_it_cannot_be_read(disk: FaultyDisk, store: Store, log: Log) -> None:
    log.append(batch([b"lost"]))
    disk.fail("sync", times="forever")
    store.flush()
    with pytest.raises(DiskFailed):
        read_again(store, disk, "t/0")
    assert log.fence is not None
    disk.end_faults()
    read_again(store, disk, "t/0")
    assert append(store, log, b"new") == range(1)


# --- full disks ---


def filled(store: Store) -> int:
    """Append until the disk is full; how many were answered."""
    log, answers = store.logs["t/0"], Answers()
    while not [error for error in answers.given if error]:
        log.append(batch([b"x" * 500]), answers)
        store.flush()
    assert isinstance(answers.given[-1], DiskFull)
    return len(answers.given) - 1


@pytest.mark.parametrize("room", range(600, 12_000, 370))
def test_publishing_resumes_at_the_next_offset_when_space_returns(room: int) -> None:
    disk = FaultyDisk(capacity_bytes=room)
    store = open_store(disk)
    log = store.create("t/0")
    for _ in range(3):
        count = log.next_offset + filled(store)
        assert log.next_offset == count
        assert len(values(open_store(disk.after_crash("everything")).logs["t/0"])) == count
        assert disk.capacity_bytes is not None
        disk.capacity_bytes += 700
        assert append(store, log, b"small") == range(count, count + 1)
    assert len(values(log)) == log.next_offset
    assert held(open_store(disk.crash("synced"))) == held(store)


def test_clean_stop_on_a_full_disk_raises_and_loses_only_its_marker() -> None:
    disk = FaultyDisk(capacity_bytes=5000)
    store = open_store(disk)
    store.create("t/0")
    count = filled(store)
    disk.fail("create", errno.ENOSPC, path="*/clean.tmp")
    with pytest.raises(DiskFull):
        store.close()
    again = open_store(disk.crash("everything"))
    assert not again.recovered["t/0"].was_clean
    assert again.logs["t/0"].next_offset == count


def test_log_creation_can_be_repeated_after_a_full_disk() -> None:
    for operation in range(1, 8):
        disk = FaultyDisk()
        store = open_store(disk)
        refuse(disk, disk.operations + operation, 1, errno.ENOSPC, SPACE_TAKING)
        try:
            store.create("t/0")
        except DiskFull:
            assert store.logs == {}
            store.create("t/0")
        assert append(store, store.logs["t/0"], b"one") == range(1)
        assert held(open_store(disk.crash("synced"))) == held(store)
