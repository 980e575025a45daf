"""Cutting a log back: to every offset it is what a list would be, and life goes on from there."""

import pytest

from goqueue.errors import LogFenced, OffsetOutOfRange, RangeDamaged
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.compaction_progress import load_progress
from goqueue.storage.log import Log
from goqueue.storage.store import Store
from goqueue.storage.truncation import truncate
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import append, batch, finish, messages, open_store, read_again, values

CONTENTS = [b"%d-" % number * (number * 37 % 500) for number in range(30)]


def filled(disk: FaultyDisk, clock: ManualClock | None = None) -> tuple[Store, Log]:
    """Messages in several segments and batches."""
    store = open_store(disk, clock)
    log = store.create("t/0")
    for start in range(0, 30, 3):
        append(store, log, *CONTENTS[start : start + 3])
    assert len(log.segments) > 4
    return store, log


@pytest.mark.parametrize("restart", [None, True, False])
@pytest.mark.parametrize("offset", range(31))
def test_truncated_log_equals_a_shorter_list(
    disk: FaultyDisk, clock: ManualClock, offset: int, restart: bool | None
) -> None:
    store, log = filled(disk, clock)
    if restart is not None:  # then indexes are on disk only
        if restart:
            store.close()
        disk = disk.crash("everything")
        store = open_store(disk, clock)
        log = store.logs["t/0"]
    truncate(log, disk, offset)
    assert values(log) == CONTENTS[:offset]
    assert (log.next_offset, log.readable_end) == (offset, offset)
    assert log.size == sum(segment.size for segment in log.segments)
    assert append(store, log, b"new") == range(offset, offset + 1)
    for keep in ("everything", "synced"):
        left = open_store(disk.after_crash(keep))
        assert left.recovered["t/0"].damages == []
        assert values(left.logs["t/0"]) == [*CONTENTS[:offset], b"new"]


@pytest.mark.parametrize("offset", [-1, 31, 1000])
def test_truncation_to_an_unknown_offset_is_refused(disk: FaultyDisk, offset: int) -> None:
    _, log = filled(disk)
    before = disk.operations
    with pytest.raises(OffsetOutOfRange, match=f"cut back to {offset}"):
        truncate(log, disk, offset)
    assert disk.operations == before


def test_truncation_to_the_end_writes_nothing(disk: FaultyDisk) -> None:
    _, log = filled(disk)
    before = disk.operations
    truncate(log, disk, 30)
    assert disk.operations == before


def test_times_continue_from_the_last_kept_message(
    clock: ManualClock, store: Store, log: Log, disk: FaultyDisk
) -> None:
    for content in CONTENTS:
        append(store, log, content)
        clock.advance(1)
    kept = messages(log)[11].timestamp_ns
    clock.jump(-100)
    truncate(log, disk, 12)
    assert log.last_time == kept
    append(store, log, b"new")
    assert messages(log)[12].timestamp_ns == kept


@pytest.mark.parametrize("offset", [1, 5, 14, 25])
def test_crash_during_truncation_without_index_is_not_damage(offset: int) -> None:
    for operation in range(1, 60):
        disk = FaultyDisk()
        store, _ = filled(disk)
        store.close()
        store = open_store(disk)
        for path in disk.paths():
            if path.endswith("index"):
                disk.remove(path)
        disk.crash_at(disk.operations + operation)
        try:
            truncate(store.logs["t/0"], disk, offset)
        except BaseException:
            left = open_store(disk.crash("everything"))
            assert left.recovered["t/0"].damages == []
            found = values(left.logs["t/0"])
            assert found == CONTENTS[: len(found)]
            assert left.logs["t/0"].next_offset == len(found) >= offset
        else:
            break


@pytest.mark.parametrize("position", [0, 8, 15, 16, 31])
def test_truncation_ignores_a_wrong_index(disk: FaultyDisk, position: int) -> None:
    store, log = filled(disk)
    store.close()
    for path in disk.paths():
        if path.endswith(".index"):
            disk.flip(path, min(position, len(disk.read_file(path)) - 30), 3)
    log = open_store(disk).logs["t/0"]
    truncate(log, disk, 17)
    assert values(log) == CONTENTS[:17]


def test_truncated_damage_is_forgotten(disk: FaultyDisk) -> None:
    store = open_store(disk, tail_bytes=1)
    log = store.create("t/0")
    append(store, log, *[b"%d" % number * 20 for number in range(20)])
    append(store, log, b"behind")
    disk.flip(log.active.path, log.active.size // 2)
    with pytest.raises(RangeDamaged):
        values(log)
    truncate(log, disk, 2)
    append(store, log, *[b"new" * 20] * 30)
    append(store, log, b"behind")
    assert values(log)[2:] == [*[b"new" * 20] * 30, b"behind"]


def test_read_located_before_truncation_returns_old_messages(disk: FaultyDisk) -> None:
    store = open_store(disk, tail_bytes=1)
    log = store.create("t/0")
    for content in CONTENTS:
        append(store, log, content)
    found = log.locate(12, 10_000)
    truncate(log, disk, 3)
    assert found.load().next_offset > 12  # type: ignore[union-attr]


def test_failed_truncation_fences_the_log(disk: FaultyDisk) -> None:
    store, log = filled(disk)
    disk.fail("remove", skip=1)
    with pytest.raises(Exception, match="failed"):
        truncate(log, disk, 10)
    with pytest.raises(LogFenced):
        log.append(batch([b"x"]))
    read_again(store, disk, "t/0")
    found = values(log)
    assert found == CONTENTS[: len(found)]
    truncate(log, disk, 10)
    assert values(log) == CONTENTS[:10]


def test_messages_written_after_truncation_are_compacted(clock: ManualClock, disk: FaultyDisk) -> None:
    store = open_store(disk, clock, tail_bytes=1)
    log = store.create("t/0")

    def publish(value: bytes, flags: int = 0) -> None:
        append(store, log, value, key=b"key", flags=flags)
        log.roll()
        store.flush()

    def compact() -> None:
        finish(plan_compaction(log, disk, now_ns=clock.now_ns(), tombstone_grace_seconds=0))

    for number in range(4):
        publish(b"%d" % number)
    compact()
    truncate(log, disk, 1)
    assert load_progress(disk, log.directory).clean == 1
    publish(b"again")
    publish(b"", flags=4)
    clock.advance(10)
    compact()
    assert values(log) == []


def test_truncation_waits_for_a_pending_roll(disk: FaultyDisk) -> None:
    store, log = filled(disk)
    log.roll()
    with pytest.raises(AssertionError, match="every append and roll is on disk"):
        truncate(log, disk, 10)
    store.flush()
    truncate(log, disk, 10)
    assert values(log) == CONTENTS[:10]


def test_truncation_of_a_fenced_log_is_refused(disk: FaultyDisk) -> None:
    store, log = filled(disk)
    disk.fail("sync", path="*.log")
    append(store, log, b"lost")
    before = disk.operations
    with pytest.raises(LogFenced):
        truncate(log, disk, 10)
    assert disk.operations == before
