"""The newest frames in memory: what they give back, and what makes room for what."""

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.storage import frame, scan
from goqueue.storage.reads import ReadResult
from goqueue.storage.retention import plan_retention
from goqueue.storage.segment import Segment
from goqueue.storage.tail import BLOCK_OVERHEAD_BYTES, SMALL_BYTES, LogTail, TailBlock, TailBudget
from goqueue.storage.writer import PendingAppend
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import append, batch, finish, messages, open_store, values

SEGMENT = Segment("/data/logs/t/0", 0)
PLENTY = 1 << 30


def chunk(first_offset: int, count: int = 1, *, time: int = 0, size: int = 10) -> PendingAppend:
    frames = batch([b"x" * size] * count)
    scan.stamp(frames, first_offset, time)
    return PendingAppend(SEGMENT, 0, first_offset, frames, 0, b"", b"", None)


def chunks_of(counts: list[int], **options: int) -> list[PendingAppend]:
    edges = [0, *accumulate(counts)]
    return [chunk(first, last - first, time=100 * n, **options) for n, (first, last) in enumerate(pairwise(edges))]


def tail_of(counts: list[int], *, together: bool = True) -> LogTail:
    tail, budget, chunks = LogTail(), TailBudget(PLENTY), chunks_of(counts)
    for group in [chunks] if together else [[one] for one in chunks]:
        budget.keep(tail, group)
    return tail


def read(tail: LogTail, offset: int, limit: int, max_bytes: int) -> tuple[list[int], int]:
    found = tail.read(offset, limit, max_bytes)
    return [frame.offset_at(view, place) for view in found.buffers for place in frame.walk(view)], found.next_offset


@pytest.mark.parametrize("together", [True, False])
@given(
    counts=st.lists(st.sampled_from([0, 1, 2, 3, 400]), min_size=1, max_size=8).filter(any),
    data=st.data(),
    max_bytes=st.integers(1, 30_000),
)
def test_tail_read_returns_as_many_whole_frames_as_fit(
    together: bool, counts: list[int], data: st.DataObject, max_bytes: int
) -> None:
    offset = data.draw(st.integers(0, sum(counts) - 1))
    limit = data.draw(st.integers(offset + 1, sum(counts)))
    fitting = max(1, max_bytes // len(batch([b"x" * 10]).buffer))
    found, next_offset = read(tail_of(counts, together=together), offset, limit, max_bytes)
    assert found == list(range(offset, min(limit, offset + fitting)))
    assert next_offset == found[-1] + 1


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(("time", "found"), [(0, None), (1, 2), (100, 2), (101, 5), (200, 5), (201, 6)])
def test_tail_time_lookup_is_unknown_for_older_times(time: int, found: int | None, together: bool) -> None:
    assert tail_of([2, 3, 1], together=together).first_since(time) == found


def test_empty_tail_has_no_offset_and_no_time() -> None:
    assert (LogTail().first_offset, LogTail().first_since(5)) == (None, None)


def test_cleared_tail_accepts_new_blocks() -> None:
    tail, budget = LogTail(), TailBudget(PLENTY)
    budget.keep(tail, chunks_of([3]))
    tail.clear()
    assert tail.first_offset is None
    budget.keep(tail, [chunk(7)])
    assert read(tail, 7, 8, 1000) == ([7], 8)


def test_oldest_block_of_all_tails_is_evicted() -> None:
    one, other = LogTail(), LogTail()
    cost = len(chunk(0, size=SMALL_BYTES).frames.buffer) + 8 + BLOCK_OVERHEAD_BYTES
    budget = TailBudget(3 * cost)
    for offset in range(6):
        budget.keep((one, other)[offset % 2], [chunk(offset // 2, size=SMALL_BYTES)])
    assert (one.first_offset, other.first_offset) == (2, 1)
    assert budget.held_bytes == 3 * cost


def test_cleared_blocks_do_not_evict_newer_ones() -> None:
    tail = LogTail()
    budget = TailBudget(5 * (SMALL_BYTES + BLOCK_OVERHEAD_BYTES + 100))
    for offset in range(4):
        budget.keep(tail, [chunk(offset, size=SMALL_BYTES)])
    tail.clear()
    for offset in range(4):
        budget.keep(tail, [chunk(offset, size=SMALL_BYTES)])
    assert tail.first_offset == 0
    assert read(tail, 0, 4, PLENTY) == ([0, 1, 2, 3], 4)


def test_small_appends_share_a_block() -> None:
    budget = TailBudget(PLENTY)
    budget.keep(LogTail(), chunks_of([1] * 300))
    assert budget.held_bytes < 300 * (len(chunk(0).frames.buffer) + 8) + 2 * BLOCK_OVERHEAD_BYTES


def test_logs_share_one_tail_budget() -> None:
    store = open_store(FaultyDisk(), tail_bytes=20_000)
    logs = [store.create(f"t/{number}") for number in range(4)]
    contents: list[bytes] = []
    for number in range(60):
        contents.append(b"%d" % number * 100)
        for log in logs:
            append(store, log, contents[-1])
        assert store.resources.tails.held_bytes <= 20_000
    assert all(values(log) == contents for log in logs)


def test_log_without_tail_budget_is_read_from_disk() -> None:
    store = open_store(FaultyDisk(), tail_bytes=0)
    log = store.create("t/0")
    contents = [b"%d" % number for number in range(50)]
    for content in contents:
        log.append(batch([content]))
    store.flush()
    assert values(log) == contents
    assert [message.offset for message in messages(log, 20)] == list(range(20, 50))


@pytest.mark.parametrize("together", [True, False])
@given(counts=st.lists(st.sampled_from([1, 2, 3, 400]), min_size=1, max_size=8), data=st.data())
def test_drop_before_keeps_everything_from_its_offset(together: bool, counts: list[int], data: st.DataObject) -> None:
    tail, end = tail_of(counts, together=together), sum(counts)
    offset = data.draw(st.integers(0, end))
    tail.drop_before(offset)
    assert tail.first_offset == (offset if offset < end else None)
    if offset < end:
        assert read(tail, offset, end, PLENTY) == (list(range(offset, end)), end)
        oldest = frame.timestamp_at(tail.read(offset, end, PLENTY).buffers[0])
        assert tail.first_since(oldest) is None, "what went may have that time too"
        assert tail.first_since(PLENTY) == end
    new = chunk(end).frames
    tail.add(TailBlock(end, new.buffer, new.positions))
    assert read(tail, end, end + 1, PLENTY) == ([end], end + 1)


def test_read_keeps_its_buffers_when_blocks_are_dropped() -> None:
    tail = tail_of([5])
    held = tail.read(1, 5, PLENTY)
    tail.drop_before(3)
    assert [frame.offset_at(held.buffers[0], place) for place in frame.walk(held.buffers[0])] == [1, 2, 3, 4]


def test_retention_keeps_the_newest_messages_in_memory() -> None:
    """They may share a block with some that go."""
    disk = FaultyDisk()
    store = open_store(disk, segment_bytes=1000)
    log = store.create("t/0")
    for number in range(100):
        append(store, log, b"%02d" % number)
    first_kept = log.active.base_offset
    finish(plan_retention(log, disk, bytes_kept=0))
    assert log.first_offset == first_kept
    assert isinstance(log.locate(first_kept, 1000), ReadResult)
    assert values(log) == [b"%02d" % number for number in range(first_kept, 100)]
