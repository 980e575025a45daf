"""The backlog of a partition equals a full count, with as few reads as possible."""

from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.view import Backlog, PartitionView, count_between, measure_backlog
from goqueue.broker.core.work import Work, run_work
from goqueue.storage import frame
from goqueue.storage.retention import plan_retention
from goqueue.storage.segment import OffsetSpan
from goqueue.storage.truncation import truncate
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.broker.brokers import Running, before_each_job, frames_of
from tests.storage.stores import append, batch, open_store

LARGE = bytes(3000)  # two of them need two segments

T = TypeVar("T")


def jobs_of(work: Work[T]) -> tuple[T, int]:
    """The result, and how many jobs it took."""
    seen: list[None] = []
    result = run_work(before_each_job(work, lambda: seen.append(None)))
    return result, len(seen)


class Queue:
    """A partition, and what is asked of it."""

    def __init__(self, running: Running | None = None) -> None:
        self.running = running or Running()
        if running is None:  # a restarted one has its topic already
            self.running.create(cleanup="compact")

    @property
    def partition(self) -> Partition:
        return self.running.partition()

    def publish(self, *values: bytes, key: bytes | None = None) -> None:
        self.running.clock.advance(1)
        self.running.publish(frames_of(values, key=key))

    def control(self) -> None:
        self.running.clock.advance(1)
        self.partition.log.append(batch([b"commit"], key=b"a", flags=frame.CONTROL | frame.COMMIT))
        self.running.flush()

    def roll(self) -> None:
        self.running.roll()

    def compact(self) -> None:
        self.running.maintain()
        self.running.flush()

    def restarted(self) -> "Queue":
        return Queue(self.running.restart())

    def left(self, first: int = 0, *settled: OffsetSpan) -> Backlog:
        return run_work(measure_backlog(PartitionView(self.partition), first, settled))

    def times(self, *offsets: int) -> list[int]:
        return [time for offset, time in readable(self.partition) if offset in offsets]


def readable(partition: Partition) -> list[tuple[int, int]]:
    """Offset and time of every message, the naive way."""
    found: list[tuple[int, int]] = []
    offset = partition.earliest
    while offset < partition.last_stable:
        read = run_work(partition.read(offset, 10_000, skip_damage=True))
        for buffer in read.buffers:
            messages = (frame.decode(buffer, position) for position in frame.walk(buffer))
            found += ((one.offset, one.timestamp_ns) for one in messages if not one.flags & frame.CONTROL)
        offset = read.next_offset
    return found


def twin(partition: Partition, first: int, settled: tuple[OffsetSpan, ...]) -> Backlog:
    times = [
        time
        for offset, time in readable(partition)
        if offset >= first and not any(start <= offset < end for start, end in settled)
    ]
    return Backlog(len(times), times[0] if times else None)


@pytest.fixture
def queue() -> Queue:
    return Queue()


# --- by offsets alone ---


def test_backlog_of_messages_in_memory_needs_no_job() -> None:
    clock = ManualClock()
    store = open_store(FaultyDisk(), clock)
    log = store.create("orders/0")
    for number in range(10):
        append(store, log, b"%d" % number)
        clock.advance(1)
    partition = Partition("orders", 0, log)
    assert jobs_of(measure_backlog(PartitionView(partition), 3, [(4, 6)])) == (Backlog(5, readable(partition)[3][1]), 0)


def test_backlog_of_dense_log_reads_only_the_oldest_time(queue: Queue) -> None:
    for number in range(10):
        queue.publish(b"%d" % number + LARGE)
    assert jobs_of(measure_backlog(PartitionView(queue.partition), 0, [(1, 2), (5, 7)])) == (
        Backlog(7, *queue.times(0)),
        1,
    )
    assert jobs_of(count_between(PartitionView(queue.partition), 1, 9)) == (8, 0)


def test_segments_are_scanned_once_after_a_start(queue: Queue) -> None:
    for number in range(10):
        queue.publish(b"%d" % number + LARGE)
    queue = queue.restarted()
    assert run_work(count_between(PartitionView(queue.partition), 0, 10)) == 10
    assert jobs_of(count_between(PartitionView(queue.partition), 0, 10)) == (10, 0)


def test_backlog_skips_file_removed_by_retention_meanwhile(queue: Queue) -> None:
    for number in range(4):
        queue.publish(b"%d" % number + LARGE)
    job = plan_retention(queue.partition.log, queue.running.disk, bytes_kept=9000)
    job.run()
    assert queue.partition.earliest == 0
    gone = len(job.removed)
    assert gone
    answer = queue.left(0)
    job.apply()
    assert answer == queue.left(0) == Backlog(4 - gone, *queue.times(gone))


# --- by counting ---


def compacted(queue: Queue) -> None:
    """Offsets 0 to 7 in two segments, of which 1, 3, 5 and 7 stay; 8 is not sealed."""
    for _ in range(2):
        for key in (b"a", b"b"):
            queue.publish(b"old", key=key)
            queue.publish(b"no key")
        queue.roll()
    queue.publish(b"new", key=b"a")
    queue.publish(b"new", key=b"b")
    queue.roll()
    queue.publish(b"active")
    queue.compact()
    assert [offset for offset, _ in readable(queue.partition)] == [1, 3, 5, 7, 8, 9, 10]


def test_second_count_of_compacted_segments_needs_no_job(queue: Queue) -> None:
    compacted(queue)
    assert jobs_of(measure_backlog(PartitionView(queue.partition), 0, ()))[1] > 0
    assert jobs_of(measure_backlog(PartitionView(queue.partition), 0, ())) == (Backlog(7, *queue.times(1)), 0)


def test_backlog_is_correct_when_segments_expire_before_they_are_counted(queue: Queue) -> None:
    for number in range(6):
        queue.publish(b"%d" % number + LARGE)
    queue = queue.restarted()
    left = run_work(
        before_each_job(measure_backlog(PartitionView(queue.partition), 0, ()), lambda: queue.running.expire(7000))
    )
    assert queue.partition.earliest > 1
    assert left == twin(queue.partition, 0, ())


def test_oldest_control_record_is_excluded_after_restart(queue: Queue) -> None:
    queue.publish(b"a")
    queue.control()
    queue.control()
    queue.publish(b"b")
    queue = queue.restarted()
    assert queue.left(1) == Backlog(1, *queue.times(3))
    assert queue.left(0) == Backlog(2, *queue.times(0))


def test_backlog_after_truncation_into_compacted_segments(queue: Queue) -> None:
    compacted(queue)
    truncate(queue.partition.log, queue.running.disk, 6)
    queue.publish(b"again")
    assert queue.left(0) == twin(queue.partition, 0, ()) == Backlog(4, *queue.times(1))


# --- whatever happens ---


@st.composite
def questions(draw: st.DrawFn, end: int) -> tuple[int, tuple[OffsetSpan, ...]]:
    first = draw(st.integers(0, end + 2))
    edges = sorted(draw(st.sets(st.integers(first, end + 4), max_size=10)))
    return first, tuple(zip(edges[::2], edges[1::2], strict=False))


KEYS = (None, b"a", b"b", b"c")
ACTIONS = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(KEYS), st.integers(1, 5), st.sampled_from([1, 100, 1500])),
    st.sampled_from(["control", "roll", "compact", "expire", "ask"]),
)


def act(queue: Queue, action: Any) -> None:
    match action:
        case ("publish", key, count, size):
            queue.publish(*([bytes(size)] * count), key=key)
        case "control":
            queue.control()
        case "roll":
            queue.roll()
        case "compact":
            queue.compact()
        case "expire":
            queue.running.expire(queue.partition.log.size * 2 // 3)


def agree(queue: Queue, data: st.DataObject) -> None:
    partition = queue.partition
    first, settled = data.draw(questions(partition.log_end))
    assert queue.left(first, *settled) == twin(partition, first, settled)
    end = data.draw(st.integers(0, partition.log_end + 1))
    expected = sum(first <= offset < end for offset, _ in readable(partition))
    assert run_work(count_between(PartitionView(partition), first, end)) == expected


@given(data=st.data(), actions=st.lists(ACTIONS, max_size=25))
def test_backlog_matches_a_full_read(data: st.DataObject, actions: list[Any]) -> None:
    queue = Queue()
    for action in actions:
        if action == "ask":
            agree(queue, data)
        else:
            act(queue, action)
    agree(queue, data)
    agree(queue, data)


@given(data=st.data(), actions=st.lists(ACTIONS.filter(lambda action: action != "control"), max_size=20))
def test_backlog_matches_a_full_read_after_restart(data: st.DataObject, actions: list[Any]) -> None:
    queue = Queue()
    for number, action in enumerate(actions):
        queue = queue.restarted() if action == "ask" and number % 2 else queue
        if action == "ask":
            agree(queue, data)
        else:
            act(queue, action)
    queue = queue.restarted()
    agree(queue, data)
    queue.publish(b"more")
    agree(queue, data)


@given(data=st.data(), actions=st.lists(ACTIONS.filter(lambda action: action != "control"), max_size=15))
def test_backlog_counts_readable_messages_of_damaged_compacted_segments(
    data: st.DataObject, actions: list[Any]
) -> None:
    queue = Queue()
    for action in actions:
        if action != "ask":
            act(queue, action)
    queue.roll()
    queue.running.compact()
    queue = queue.restarted()
    sealed = [segment for segment in queue.partition.log.segments[:-1] if segment.size]
    for segment in sealed:
        for position in data.draw(st.lists(st.integers(0, segment.size - 1), max_size=2)):
            queue.running.disk.flip(segment.path, position, bit=2)
    agree(queue, data)


@given(
    data=st.data(),
    actions=st.lists(ACTIONS, max_size=20),
    meanwhile=st.lists(st.sampled_from(["roll", "compact", "expire", None]), max_size=8),
)
def test_backlog_stays_within_bounds_when_messages_are_removed_meanwhile(
    data: st.DataObject, actions: list[Any], meanwhile: list[str | None]
) -> None:
    queue = Queue()
    for action in actions:
        if action != "ask":
            act(queue, action)
    partition = queue.partition
    first, settled = data.draw(questions(partition.log_end))
    before = twin(partition, first, settled)

    def happen() -> None:
        if meanwhile:
            act(queue, meanwhile.pop())

    left = run_work(before_each_job(measure_backlog(PartitionView(partition), first, settled), happen))
    after = twin(partition, first, settled)
    assert after.messages <= left.messages <= before.messages
    assert (left.oldest_ns is None) == (left.messages == 0)
    if left.oldest_ns is not None:
        assert (before.oldest_ns or 0) <= left.oldest_ns <= (after.oldest_ns or left.oldest_ns)
    agree(queue, data)
