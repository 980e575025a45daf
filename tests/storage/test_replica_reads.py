"""Logs that follow a leader: stamped frames, gaps, what readers do not see yet, and beginning anew."""

import pytest

from goqueue.errors import GoQueueError, OffsetOutOfRange
from goqueue.storage import frame, scan
from goqueue.storage.compaction_progress import load_progress
from goqueue.storage.log import Log
from goqueue.storage.reads import PendingRead
from goqueue.storage.replica_reads import hide, locate_stored
from goqueue.storage.store import Store
from goqueue.storage.truncation import reset
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from goqueue.testing.kernel import Crashed
from tests.storage.stores import Answers, append, batch, offset_for_time, open_store, values


def stamped(first_offset: int, *contents: bytes, time: int = 1_000) -> bytes:
    frames = batch(list(contents))
    scan.stamp(frames, first_offset, time)
    return bytes(frames.buffer)


def follow(store: Store, log: Log, content: bytes) -> None:
    log.append_stamped(scan.walk(bytearray(content)))
    store.flush()


def stored(log: Log, offset: int, max_bytes: int = 1 << 20) -> list[bytes]:
    """Everything from an offset on, seen by readers or not."""
    found: list[bytes] = []
    while offset < log.next_offset:
        located = locate_stored(log, offset, max_bytes)
        read = located.load() if isinstance(located, PendingRead) else located
        assert read.next_offset > offset
        found += [frame.decode(buffer, place).value for buffer in read.buffers for place in frame.walk(buffer)]
        offset = read.next_offset
    return found


def test_stamped_frames_are_appended_as_they_are(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock)
    log = store.create("t/0")
    content = stamped(0, b"a", b"b", time=5) + stamped(2, b"c" * 5000, time=9) + stamped(3, b"d", time=9_000)
    follow(store, log, content)

    assert b"".join(bytes(one) for one in log.read(0, 1 << 20).buffers) == content
    assert (log.next_offset, log.last_time, log.segments[0].first_time) == (4, 9_000, 5)
    assert log.index_of(log.active).times.tolist() == [5, 9_000]
    assert [offset_for_time(log, time) for time in (5, 6, 9, 10)] == [0, 2, 2, 3]
    left = open_store(disk.after_crash("synced"))
    assert values(left.logs["t/0"]) == [b"a", b"b", b"c" * 5000, b"d"]


def test_frames_behind_a_gap_are_read_from_memory_and_disk(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock)
    log = store.create("t/0")
    follow(store, log, stamped(0, b"a"))
    follow(store, log, stamped(7, b"b", b"c"))

    assert values(log) == [b"a", b"b", b"c"]
    assert log.next_offset == 9
    assert not log.is_dense(0, 9)
    assert log.read(3, 100).next_offset == 9
    assert values(open_store(disk.after_crash("synced")).logs["t/0"]) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("max_bytes", [1, 100, 1 << 20])
def test_replicas_read_what_readers_do_not_see(disk: FaultyDisk, clock: ManualClock, max_bytes: int) -> None:
    store = open_store(disk, clock)
    log = store.create("t/0")
    log.on_report = lambda: log.show(2)
    append(store, log, b"shown", b"too")
    append(store, log, b"stored", b"and more")
    log.append(batch([b"being", b"written"]))

    assert values(log) == [b"shown", b"too"]
    for offset, contents in ((0, 6), (1, 5), (3, 3), (4, 2), (5, 1), (6, 0)):
        assert len(stored(log, offset, max_bytes)) == contents
    with pytest.raises(OffsetOutOfRange):
        locate_stored(log, 7, 1)


@pytest.mark.parametrize("hidden_from", range(13))
def test_what_the_disk_held_is_hidden_until_all_of_it_is_shown(
    disk: FaultyDisk, clock: ManualClock, hidden_from: int
) -> None:
    store = open_store(disk, clock)
    log = store.create("t/0")
    contents = [b"%d" % number * 900 for number in range(12)]
    for start in range(0, 12, 3):
        append(store, log, *contents[start : start + 3])
    disk = disk.crash("everything")
    store = open_store(disk, clock)
    log = store.logs["t/0"]
    hide(log, disk, hidden_from)

    assert log.readable_end == hidden_from
    assert values(log) == contents[:hidden_from]
    assert stored(log, 0) == contents
    if hidden_from < 12:
        log.show(11)
        assert log.readable_end == hidden_from
    log.on_report = lambda: log.show(hidden_from)
    append(store, log, b"new")
    assert stored(log, 0) == [*contents, b"new"]
    log.show(13)
    assert values(log) == [*contents, b"new"]


def test_reset_log_goes_on_at_the_offset(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock)
    log = store.create("t/0")
    for start in range(0, 12, 3):
        append(store, log, *(b"%d" % number * 900 for number in range(start, start + 3)))
    reset(log, disk, 500, [(3, 499)])

    assert (log.first_offset, log.next_offset, log.readable_end) == (500, 500, 500)
    assert (log.epochs.last, log.epochs.epoch_of(500)) == (3, 3)
    follow(store, log, stamped(500, b"a"))
    assert values(log) == [b"a"]
    for keep in ("everything", "synced"):
        left = open_store(disk.after_crash(keep))
        assert left.recovered["t/0"].damages == []
        assert (left.logs["t/0"].first_offset, values(left.logs["t/0"])) == (500, [b"a"])


def test_offsets_that_the_leader_leaves_out_are_noted_before_the_frames_behind_them(
    disk: FaultyDisk, clock: ManualClock
) -> None:
    store = open_store(disk, clock)
    log = store.create("t/0")
    follow(store, log, stamped(0, b"0", b"1"))
    assert load_progress(disk, log.directory).gaps == 0
    disk.fail("rename", path="*/compacted")
    answers = Answers()

    log.append_stamped(scan.walk(bytearray(stamped(5, b"5"))), answers)
    store.flush()

    assert len(answers.given) == 1
    assert isinstance(answers.given[0], GoQueueError)
    store = open_store(disk.crash(), clock)
    log = store.log("t/0")
    assert log.next_offset == 2
    follow(store, log, stamped(5, b"5"))
    follow(store, log, stamped(6, b"6"))
    assert load_progress(log.disk, log.directory).gaps == 5


def test_first_frames_of_a_log_may_be_left_out(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock)
    log = store.create("t/0")

    follow(store, log, stamped(3, b"3"))

    assert load_progress(disk, log.directory).gaps == 3


@pytest.mark.parametrize("segment_bytes", [1, 4096])
def test_crash_leaves_no_gap_that_is_not_noted(disk: FaultyDisk, clock: ManualClock, segment_bytes: int) -> None:
    store = open_store(disk, clock, segment_bytes=segment_bytes)
    log = store.create("t/0")
    follow(store, log, stamped(0, b"0", b"1"))
    first = disk.operations

    follow(store, log, stamped(5, b"5"))

    assert load_progress(disk, log.directory).gaps == 5
    for operation in range(first + 1, disk.operations + 1):
        again = FaultyDisk()
        store = open_store(again, clock, segment_bytes=segment_bytes)
        log = store.create("t/0")
        follow(store, log, stamped(0, b"0", b"1"))
        again.crash_at(operation)
        with pytest.raises(Crashed):
            follow(store, log, stamped(5, b"5"))
        left = again.after_crash("everything")
        log = open_store(left, clock, segment_bytes=segment_bytes).log("t/0")
        assert log.next_offset == 2 or load_progress(left, log.directory).gaps == 5
