"""A log: what appends and rolls do to its positions, who is answered when, and that it behaves like a list."""

from functools import partial
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.clock import NANOSECONDS
from goqueue.errors import DiskFull, GoQueueError, LogClosed, LogExists, LogFenced, OffsetOutOfRange
from goqueue.storage import frame
from goqueue.storage.log import Log
from goqueue.storage.retention import Retention, plan_retention
from goqueue.storage.store import Store
from goqueue.storage.truncation import truncate
from goqueue.storage.writer import call_all
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import (
    Answers,
    append,
    batch,
    finish,
    messages,
    offset_for_time,
    open_store,
    read_again,
    values,
)


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


# --- positions ---


def test_append_returns_offsets_at_once_and_is_readable_when_durable(
    store: Store, log: Log, clock: ManualClock
) -> None:
    appended = log.append(batch([b"one", b"two"]))
    assert (appended.first_offset, appended.next_offset, appended.time) == (0, 2, clock.now_ns())
    assert (log.next_offset, log.readable_end) == (2, 0)
    assert values(log) == []
    store.flush()
    assert (log.next_offset, log.readable_end) == (2, 2)
    assert values(log) == [b"one", b"two"]


def test_log_size_includes_pending_appends(store: Store, log: Log) -> None:
    frames = batch([b"x" * 3000])
    for count in range(1, 4):
        log.append(batch([b"x" * 3000]))
        assert log.size == count * len(frames.buffer)
    store.flush()
    assert log.size == sum(segment.size for segment in log.segments) == 3 * len(frames.buffer)


def test_message_fields_round_trip(store: Store, log: Log, clock: ManualClock) -> None:
    headers = frame.encode_headers([("trace", b"1"), ("trace", b"2")])
    append(store, log, b"value", key=b"key", headers=headers, priority=0, flags=frame.COMPRESSED)
    (message,) = messages(log)
    flags = frame.COMPRESSED | frame.HAS_HEADERS
    expected = frame.StoredMessage(
        0, clock.now_ns(), b"key", b"value", (("trace", b"1"), ("trace", b"2")), priority=0, flags=flags
    )
    assert message == expected


@pytest.mark.parametrize("offset", [-1, 3, 100])
def test_offset_outside_the_log_is_refused(store: Store, log: Log, offset: int) -> None:
    append(store, log, b"one", b"two")
    with pytest.raises(OffsetOutOfRange) as caught:
        log.read(offset, 100)
    assert caught.value.details == {"first": 0, "next": 2}


# --- rolling ---


def test_segment_rolls_before_its_size_limit(store: Store, log: Log) -> None:
    size = len(batch([b"x" * 1000]).buffer)
    for _ in range(9):
        append(store, log, b"x" * 1000)
    assert bases(log) == [0, 3, 6]
    assert [segment.size for segment in log.segments] == [3 * size] * 3


def test_batch_is_never_split_across_segments(store: Store, log: Log) -> None:
    append(store, log, b"small")
    append(store, log, b"x" * 5000, b"y" * 5000)
    append(store, log, b"small")
    assert bases(log) == [0, 1, 3]


def test_segment_rolls_when_too_old(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock, segment_age_ns=10 * NANOSECONDS)
    log = store.create("t/0")
    append(store, log, b"first")
    clock.advance(10)
    append(store, log, b"not older than allowed")
    clock.advance(0.001)
    append(store, log, b"in the next segment")
    assert bases(log) == [0, 2]


@pytest.mark.parametrize("clean", [True, False])
def test_segment_age_is_known_after_restart(disk: FaultyDisk, clock: ManualClock, clean: bool) -> None:
    store = open_store(disk, clock, segment_age_ns=10 * NANOSECONDS)
    append(store, store.create("t/0"), b"first")
    if clean:
        store.close()
    clock.advance(11)
    store = open_store(disk.crash("everything"), clock, segment_age_ns=10 * NANOSECONDS)
    append(store, store.logs["t/0"], b"later")
    assert bases(store.logs["t/0"]) == [0, 1]


def test_repeated_roll_creates_one_empty_segment(store: Store, log: Log, disk: FaultyDisk) -> None:
    append(store, log, b"one")
    log.roll()
    log.roll()
    store.flush()
    log.roll()
    assert bases(log) == [0, 1]
    assert disk.paths().count("/data/logs/t/0/00000000000000000001.log") == 1
    assert append(store, log, b"two") == range(1, 2)
    assert values(log) == [b"one", b"two"]


def test_segment_is_sealed_once_its_successor_is_on_disk(store: Store, log: Log) -> None:
    append(store, log, b"one")
    log.roll()
    assert log.sealed() == []
    store.flush()
    assert log.sealed() == log.segments[:1]


# --- answers ---


def test_callbacks_run_in_append_order(store: Store, log: Log) -> None:
    given: list[int] = []

    def note(number: int, error: GoQueueError | None) -> None:
        assert error is None
        given.append(number)

    for number in range(20):
        log.append(batch([b"x" * 700]), partial(note, number))
    assert given == []
    store.flush()
    assert given == list(range(20))
    assert log.is_settled


def test_offsets_of_appends_refused_by_a_full_disk_are_reused(disk: FaultyDisk, store: Store, log: Log) -> None:
    append(store, log, b"kept")
    answers = Answers()
    for _ in range(5):
        log.append(batch([b"x" * 3000]), answers)
    disk.fail("write", 28, path="*.log")
    store.flush()
    assert [type(error) for error in answers.given] == [DiskFull] * 5
    assert (bases(log), log.next_offset, log.fence) == ([0], 1, None)
    assert append(store, log, b"next") == range(1, 2)
    assert values(open_store(disk.crash("synced")).logs["t/0"]) == [b"kept", b"next"]


def test_appends_written_before_a_full_disk_succeed(disk: FaultyDisk, store: Store, log: Log) -> None:
    answers = Answers()
    for _ in range(4):
        log.append(batch([b"x" * 3000]), answers)
    disk.fail("write", 28, path="*2.log")
    store.flush()
    assert [type(error) for error in answers.given] == [type(None), type(None), DiskFull, DiskFull]
    assert values(log) == [b"x" * 3000] * 2


def test_single_empty_segment_survives_a_refused_append(disk: FaultyDisk, store: Store, log: Log) -> None:
    append(store, log, b"old")
    log.roll()
    store.flush()
    finish(plan_retention(log, disk, bytes_kept=0))
    disk.fail("write", 28)
    log.append(batch([b"refused"]))
    store.flush()
    assert open_store(disk.after_crash("synced")).logs["t/0"].next_offset == 1
    assert append(store, log, b"next") == range(1, 2)


def test_refused_segment_does_not_return_after_restart(disk: FaultyDisk, store: Store, log: Log) -> None:
    append(store, log, b"x" * 3000)
    log.append(batch([b"too much" * 500]))
    disk.fail("write", 28, path="*1.log")
    store.flush()
    assert append(store, log, b"fits") == range(1, 2)
    assert bases(log) == [0]
    for keep in ("everything", "synced"):
        assert values(open_store(disk.after_crash(keep)).logs["t/0"]) == [b"x" * 3000, b"fits"]


def test_closed_log_fails_pending_and_new_appends(log: Log) -> None:
    answers = Answers()
    log.append(batch([b"waiting"]), answers)
    call_all(chunk.answer for chunk in log.close())
    assert [type(error) for error in answers.given] == [LogClosed]
    with pytest.raises(LogClosed, match="t/0"):
        log.append(batch([b"late"]))


# --- time ---


def test_callback_error_does_not_stop_other_callbacks(store: Store, log: Log) -> None:
    answers = Answers()

    def broken(_: GoQueueError | None) -> None:
        raise ValueError("mine")

    other = store.create("t/1")
    for one in (log, other):
        one.append(batch([b"x"]), answers)
        one.append(batch([b"x"]), broken)
        one.append(batch([b"x"]), answers)
    with pytest.raises(ExceptionGroup) as caught:
        store.flush()
    assert answers.given == [None] * 4
    assert len(caught.value.exceptions) == 2
    assert (log.durable_end, other.durable_end) == (3, 3)
    store.settle()


def test_callback_may_append(store: Store, log: Log) -> None:
    answers = Answers()

    def again(_: GoQueueError | None) -> None:
        log.append(batch([b"three"]), answers)

    log.append(batch([b"one"]), again)
    log.append(batch([b"two"]), answers)
    store.flush()
    assert answers.given == [None]
    store.flush()
    assert answers.given == [None, None]
    assert values(log) == [b"one", b"two", b"three"]


def test_callback_of_a_fenced_log_can_reopen_it_and_append(store: Store, disk: FaultyDisk, log: Log) -> None:
    answers = Answers()

    def insist(error: GoQueueError | None) -> None:
        assert isinstance(error, LogFenced)
        with pytest.raises(LogFenced):
            log.append(batch([b"again"]))
        read_again(store, disk, "t/0")
        log.append(batch([b"again"]), answers)

    append(store, log, b"one")
    log.append(batch([b"refused"]), insist)
    log.append(batch([b"refused as well"]), answers)
    disk.fail("sync", path="*.log")
    store.flush()
    store.flush()
    assert [type(error) for error in answers.given] == [LogFenced, type(None)]
    assert values(log) == [b"one", b"again"]


def test_times_never_fall_when_the_clock_is_set_back(store: Store, disk: FaultyDisk, clock: ManualClock) -> None:
    store.create("t/0")
    for stop in (True, False, True):
        log = store.logs["t/0"]
        append(store, log, b"x" * 1500)
        clock.jump(-3600)
        append(store, log, b"x" * 1500)
        log.roll()
        if stop:
            store.close()
        disk = disk.crash("everything")
        store = open_store(disk, clock)
    times = [message.timestamp_ns for message in messages(store.logs["t/0"])]
    assert all(earlier <= later for earlier, later in pairwise(times))


def test_times_do_not_fall_after_emptied_segments(store: Store, log: Log, disk: FaultyDisk, clock: ManualClock) -> None:
    append(store, log, b"kept")
    time = log.last_time
    for offset in (1, 2):  # as compaction may leave them
        disk.write_file(f"/data/logs/t/0/{offset:020d}.log", b"")
    clock.jump(-3600)
    store = open_store(disk.crash("everything"), clock)
    assert append(store, store.logs["t/0"], b"later") == range(2, 3)
    assert [message.timestamp_ns for message in messages(store.logs["t/0"])] == [time, time]


def test_time_lookup_with_pending_segments(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock, tail_bytes=1)
    log = store.create("t/0")
    append(store, log, b"x" * 4000)
    clock.advance(1)
    append(store, log, b"x" * 4000)
    for _ in range(3):
        clock.advance(1)
        log.append(batch([b"x" * 4000]))
    assert offset_for_time(log, 0) == 0


def test_time_lookup_starts_at_the_first_offset(disk: FaultyDisk, store: Store, log: Log, clock: ManualClock) -> None:
    for _ in range(3):
        append(store, log, b"x" * 4000)
        clock.advance(1)
    finish(plan_retention(log, disk, bytes_kept=5000))  # of what is still in memory
    times = [clock.now_ns() - second * NANOSECONDS for second in (9, 3, 2, 1, 0)]
    assert [offset_for_time(log, time) for time in times] == [1, 1, 1, 2, 3]


# --- the twin ---


class LogAndList(RuleBasedStateMachine):
    """Whatever is done to a log, a list of (value, time) behaves the same."""

    @initialize(seed=st.integers(0, 2**32), tail_bytes=st.sampled_from([1, 3000, 10**6]))
    def begin(self, seed: int, tail_bytes: int) -> None:
        self.disk, self.clock = FaultyDisk(seed), ManualClock()
        self.tail_bytes = tail_bytes
        self.durable: list[tuple[bytes, int]] = []
        self.waiting: list[tuple[bytes, int]] = []
        self.first = 0
        self.job: Retention | None = None
        self._open()
        self.store.create("t/0")

    def _open(self) -> None:
        self.store = open_store(self.disk, self.clock, tail_bytes=self.tail_bytes, segment_age_ns=60 * NANOSECONDS)

    @property
    def log(self) -> Log:
        return self.store.logs["t/0"]

    @rule(sizes=st.lists(st.integers(0, 2500), min_size=1, max_size=4), letter=st.sampled_from([b"a", b"b"]))
    def append(self, sizes: list[int], letter: bytes) -> None:
        contents = [letter * size for size in sizes]
        appended = self.log.append(batch(contents))
        assert appended.first_offset == len(self.durable) + len(self.waiting)
        self.waiting += [(content, appended.time) for content in contents]

    @rule()
    def flush(self) -> None:
        self.store.flush()
        self.durable += self.waiting
        self.waiting = []

    @rule()
    def full_disk(self) -> None:
        self.disk.fail("write", 28, path="*.log")
        self.store.flush()
        self.disk.end_faults()
        assert self.log.next_offset in (len(self.durable), len(self.durable) + len(self.waiting))
        if self.log.next_offset > len(self.durable):
            self.durable += self.waiting
        self.waiting = []

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(seconds=st.sampled_from([0, 1, 30, 100]), jump=st.sampled_from([0, -50, 50]))
    def wait(self, seconds: int, jump: int) -> None:
        self.clock.advance(seconds)
        self.clock.jump(jump)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if clean:
            self.apply_job()
            self.store.close()
            self.durable += self.waiting
        self.waiting = []
        self.first, self.job = self._first_on_disk(), None
        self.disk = self.disk.crash("everything" if clean else "synced")
        self._open()

    @precondition(lambda self: self.job is None)
    @rule(kept=st.integers(0, 9000))
    def plan_to_expire(self, kept: int) -> None:
        self.job = plan_retention(self.log, self.disk, bytes_kept=kept)

    @precondition(lambda self: self.job is not None and not self.job.removed)
    @rule()
    def run_job(self) -> None:
        assert self.job is not None
        self.job.run()

    @rule()
    def apply_job(self) -> None:
        self._end_job()
        assert self.log.first_offset >= self.first
        self.first = self.log.first_offset

    def _end_job(self) -> None:
        if self.job is not None:
            self.job.apply()
        self.job = None

    def _first_on_disk(self) -> int:
        """Between the run of a job and its end the log still begins where it began, and its files later."""
        gone = len(self.job.removed) if self.job is not None else 0
        return self.log.segments[gone].base_offset if gone else self.first

    @rule()
    def delete_and_begin_anew(self) -> None:
        self.store.delete("t/0")
        if self.job is not None:
            with pytest.raises(LogExists, match="still being deleted"):
                self.store.create("t/0")
            self.job.run()
            self._end_job()
        self.store.create("t/0")
        self.durable, self.waiting, self.first = [], [], 0

    @precondition(lambda self: not self.waiting and self.job is None)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        self.store.flush()
        offset = data.draw(st.integers(self.first, len(self.durable)), "offset")
        truncate(self.log, self.disk, offset)
        del self.durable[offset:]

    @rule(data=st.data(), max_bytes=st.integers(1, 8000))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(self._first_on_disk(), len(self.durable)), "offset")
        expected = [content for content, _ in self.durable[offset:]]
        assert values(self.log, offset, max_bytes=max_bytes) == expected

    @rule(data=st.data(), shift=st.sampled_from([-1, 0, 1]))
    def look_up(self, data: st.DataObject, shift: int) -> None:
        times = [0, self.clock.now_ns(), *(time for _, time in self.durable)]
        time = data.draw(st.sampled_from(times), "time") + shift
        assert offset_for_time(self.log, time) in {
            # Between the run of a job and its end, memory may still have what the disk has lost.
            next((n for n in range(first, len(self.durable)) if self.durable[n][1] >= time), len(self.durable))
            for first in (self.first, self._first_on_disk())
        }

    @invariant()
    def positions_agree(self) -> None:
        assert self.log.first_offset == self.first
        assert self.log.durable_end == self.log.readable_end == len(self.durable)
        assert self.log.next_offset == len(self.durable) + len(self.waiting)
        assert (self.log.job is None) == (self.job is None)
        assert self.log.size == sum(segment.size for segment in self.log.segments)


LogAndList.TestCase.settings = settings(stateful_step_count=40)
TestLogAndList = LogAndList.TestCase
