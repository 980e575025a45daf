"""What is left of a partition: counted as by somebody who reads everything, with as little reading as it takes."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.backlog import Backlog, backlog, count_between
from goqueue.broker.partition import Partition
from goqueue.broker.upkeep import keep_up
from goqueue.broker.view import View
from goqueue.broker.work import Work, run
from goqueue.storage import frame
from goqueue.storage.census import Span
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.retention import plan_expiry
from goqueue.storage.truncation import truncate
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.broker.brokers import Running, frames_of
from tests.storage.stores import append, batch, open_store

LARGE = bytes(3000)  # two of them need two segments

T = TypeVar("T")


def jobs_of(work: Work[T]) -> tuple[T, int]:
    """What came of it, and how many jobs that took."""
    seen: list[None] = []
    result = run(before_each_job(work, lambda: seen.append(None)))
    return result, len(seen)


def before_each_job(work: Work[T], happens: Callable[[], object]) -> Work[T]:
    """The same work, with something that happens on the owner's thread before each job is done."""
    try:
        job = next(work)
        while True:
            happens()
            job = work.send((yield job))
    except StopIteration as end:
        result: T = end.value
        return result


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
        self.partition.log.roll()
        self.running.flush()

    def compact(self) -> None:
        settings = self.running.broker.topics["orders"].settings
        run(keep_up(self.partition, settings, self.running.disk, self.running.clock.now_ns()))
        self.running.flush()

    def expire(self, bytes_kept: int) -> None:
        job = plan_expiry(self.partition.log, self.running.disk, bytes_kept=bytes_kept)
        job.run()
        job.apply()

    def restarted(self) -> "Queue":
        return Queue(self.running.restart())

    def left(self, first: int = 0, *settled: Span) -> Backlog:
        return run(backlog(View(self.partition), first, settled))

    def times(self, *offsets: int) -> list[int]:
        return [time for offset, time in readable(self.partition) if offset in offsets]


def readable(partition: Partition) -> list[tuple[int, int]]:
    """Offset and time of every message, the naive way."""
    found: list[tuple[int, int]] = []
    offset = partition.earliest
    while offset < partition.last_stable:
        read = run(partition.read(offset, 10_000, skip_damage=True))
        for buffer in read.buffers:
            messages = (frame.decode(buffer, position) for position in frame.walk(buffer))
            found += ((one.offset, one.timestamp_ns) for one in messages if not one.flags & frame.CONTROL)
        offset = read.next_offset
    return found


def twin(partition: Partition, first: int, settled: tuple[Span, ...]) -> Backlog:
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


def test_what_is_left_is_what_lies_between_the_settled(queue: Queue) -> None:
    for number in range(10):
        queue.publish(b"%d" % number)
    assert queue.left(2, (3, 5), (8, 9)) == Backlog(5, *queue.times(2))
    assert queue.left(2, (2, 5), (5, 6)) == Backlog(4, *queue.times(6))


def test_who_has_read_everything_has_nothing_left(queue: Queue) -> None:
    assert queue.left(0) == Backlog(0, None)
    queue.publish(b"a", b"b")
    assert queue.left(2) == Backlog(0, None)
    assert queue.left(0, (0, 2)) == Backlog(0, None)
    assert queue.left(5) == Backlog(0, None)


def test_in_memory_it_takes_no_job() -> None:
    clock = ManualClock()
    store = open_store(FaultyDisk(), clock)
    log = store.create("orders/0")
    for number in range(10):
        append(store, log, b"%d" % number)
        clock.advance(1)
    partition = Partition("orders", 0, log)
    assert jobs_of(backlog(View(partition), 3, [(4, 6)])) == (Backlog(5, readable(partition)[3][1]), 0)


def test_a_plain_log_is_not_read_but_for_the_time_of_the_oldest(queue: Queue) -> None:
    for number in range(10):
        queue.publish(b"%d" % number + LARGE)
    assert jobs_of(backlog(View(queue.partition), 0, [(1, 2), (5, 7)])) == (Backlog(7, *queue.times(0)), 1)
    assert jobs_of(count_between(View(queue.partition), 1, 9)) == (8, 0)


def test_after_a_start_it_is_found_out_once_that_offsets_can_be_counted(queue: Queue) -> None:
    for number in range(10):
        queue.publish(b"%d" % number + LARGE)
    queue = queue.restarted()
    assert run(count_between(View(queue.partition), 0, 10)) == 10
    assert jobs_of(count_between(View(queue.partition), 0, 10)) == (10, 0)


def test_what_retention_has_removed_is_not_left(queue: Queue) -> None:
    for number in range(6):
        queue.publish(b"%d" % number + LARGE)
    queue.expire(7000)
    earliest = queue.partition.earliest
    assert earliest > 1
    assert queue.left(0) == Backlog(6 - earliest, *queue.times(earliest))
    assert queue.left(0, (1, earliest + 1)) == Backlog(5 - earliest, *queue.times(earliest + 1))


def test_a_file_that_retention_has_removed_while_nobody_was_told_is_passed(queue: Queue) -> None:
    for number in range(4):
        queue.publish(b"%d" % number + LARGE)
    job = plan_expiry(queue.partition.log, queue.running.disk, bytes_kept=9000)
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


def test_offsets_that_compaction_took_are_not_left(queue: Queue) -> None:
    compacted(queue)
    assert queue.left(0) == Backlog(7, *queue.times(1))
    assert queue.left(2, (3, 4), (6, 8)) == Backlog(4, *queue.times(5))
    counts = [run(count_between(View(queue.partition), 0, end)) for end in range(12)]
    assert counts == [0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7]


def test_so_it_is_after_a_start(queue: Queue) -> None:
    compacted(queue)
    queue = queue.restarted()
    assert queue.left(2, (3, 4)) == Backlog(5, *queue.times(5))


def test_what_was_counted_is_not_counted_again(queue: Queue) -> None:
    compacted(queue)
    assert jobs_of(backlog(View(queue.partition), 0, ()))[1] > 0
    assert jobs_of(backlog(View(queue.partition), 0, ())) == (Backlog(7, *queue.times(1)), 0)


def test_a_segment_in_the_place_of_one_that_was_counted_is_counted_anew(queue: Queue) -> None:
    compacted(queue)
    assert queue.left(0).messages == 7
    queue.publish(b"newest", key=b"a")
    queue.publish(b"newest", key=b"b")
    queue.roll()
    queue.compact()
    assert queue.left(0) == twin(queue.partition, 0, ()) == Backlog(7, *queue.times(1))


def test_segments_may_be_replaced_while_they_are_counted(queue: Queue) -> None:
    compacted(queue)
    before = queue.partition.log.segments[0]
    newest = [b"a", b"b"]

    def supersede() -> None:
        if newest:
            queue.publish(b"newest", key=newest.pop())
            queue.roll()
            queue.compact()

    end = queue.partition.log_end
    left = run(before_each_job(backlog(View(queue.partition), 2, [(3, 4)]), supersede))
    assert before not in queue.partition.log.segments
    assert left.oldest_ns in queue.times(5)
    assert left.messages in (5, 4, 3)  # as it was before, or has become since
    assert queue.left(2, (3, 4), (end, end + 2)) == twin(queue.partition, 2, ((3, 4), (end, end + 2)))


def test_segments_may_expire_before_they_are_counted(queue: Queue) -> None:
    for number in range(6):
        queue.publish(b"%d" % number + LARGE)
    queue = queue.restarted()
    left = run(before_each_job(backlog(View(queue.partition), 0, ()), lambda: queue.expire(7000)))
    assert queue.partition.earliest > 1
    assert left == twin(queue.partition, 0, ())


def test_control_records_are_not_left(queue: Queue) -> None:
    queue.publish(b"a")
    queue.control()
    queue.publish(b"b")
    queue.control()
    assert queue.left(0) == Backlog(2, *queue.times(0))
    assert queue.left(1) == Backlog(1, *queue.times(2))
    assert queue.left(3) == Backlog(0, None)
    queue.publish(b"c")
    assert queue.left(1, (2, 3)) == Backlog(1, *queue.times(4))


def test_a_control_record_of_an_earlier_process_is_noticed_when_it_is_the_oldest(queue: Queue) -> None:
    queue.publish(b"a")
    queue.control()
    queue.control()
    queue.publish(b"b")
    queue = queue.restarted()
    assert queue.left(1) == Backlog(1, *queue.times(3))
    assert queue.left(0) == Backlog(2, *queue.times(0))


def test_damage_is_noticed_when_it_is_the_oldest(queue: Queue) -> None:
    for number in range(4):
        queue.publish(b"%d" % number * 100)
    queue.roll()
    size = queue.partition.log.segments[0].size
    queue = queue.restarted()
    queue.running.disk.flip(queue.partition.log.segments[0].path, size // 4 + 60)
    assert queue.left(1) == Backlog(2, *queue.times(2))
    assert queue.left(0) == Backlog(3, *queue.times(0))


def test_where_a_log_was_cut_back_into_what_was_compacted_its_end_is_counted(queue: Queue) -> None:
    compacted(queue)
    truncate(queue.partition.log, queue.running.disk, 6)
    queue.publish(b"again")
    assert queue.left(0) == twin(queue.partition, 0, ()) == Backlog(4, *queue.times(1))


# --- whatever happens ---


@st.composite
def questions(draw: st.DrawFn, end: int) -> tuple[int, tuple[Span, ...]]:
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
            queue.expire(queue.partition.log.size * 2 // 3)


def agree(queue: Queue, data: st.DataObject) -> None:
    partition = queue.partition
    first, settled = data.draw(questions(partition.log_end))
    assert queue.left(first, *settled) == twin(partition, first, settled)
    end = data.draw(st.integers(0, partition.log_end + 1))
    expected = sum(first <= offset < end for offset, _ in readable(partition))
    assert run(count_between(View(partition), first, end)) == expected


@settings(max_examples=100)
@given(data=st.data(), actions=st.lists(ACTIONS, max_size=25))
def test_it_counts_as_one_who_reads_everything(data: st.DataObject, actions: list[Any]) -> None:
    queue = Queue()
    for action in actions:
        if action == "ask":
            agree(queue, data)
        else:
            act(queue, action)
    agree(queue, data)
    agree(queue, data)


@settings(max_examples=100)
@given(data=st.data(), actions=st.lists(ACTIONS.filter(lambda action: action != "control"), max_size=20))
def test_so_it_does_after_a_start(data: st.DataObject, actions: list[Any]) -> None:
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


@settings(max_examples=100)
@given(data=st.data(), actions=st.lists(ACTIONS.filter(lambda action: action != "control"), max_size=15))
def test_of_what_is_damaged_after_compaction_it_counts_what_can_be_read(
    data: st.DataObject, actions: list[Any]
) -> None:
    queue = Queue()
    for action in actions:
        if action != "ask":
            act(queue, action)
    queue.roll()
    job = plan_compaction(queue.partition.log, queue.running.disk, now_ns=queue.running.clock.now_ns())
    job.run()
    job.apply()
    queue = queue.restarted()
    sealed = [segment for segment in queue.partition.log.segments[:-1] if segment.size]
    for segment in sealed:
        for position in data.draw(st.lists(st.integers(0, segment.size - 1), max_size=2)):
            queue.running.disk.flip(segment.path, position, bit=2)
    agree(queue, data)


@settings(max_examples=100)
@given(
    data=st.data(),
    actions=st.lists(ACTIONS, max_size=20),
    meanwhile=st.lists(st.sampled_from(["roll", "compact", "expire", None]), max_size=8),
)
def test_what_goes_while_it_is_counted_is_counted_as_it_was_or_as_it_is(
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

    left = run(before_each_job(backlog(View(partition), first, settled), happen))
    after = twin(partition, first, settled)
    assert after.messages <= left.messages <= before.messages
    assert (left.oldest_ns is None) == (left.messages == 0)
    if left.oldest_ns is not None:
        assert (before.oldest_ns or 0) <= left.oldest_ns <= (after.oldest_ns or left.oldest_ns)
    agree(queue, data)
