"""The newest frames in memory: what they hold, what they give back, and what they may not lose."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.storage import frame
from goqueue.storage.segment import Segment
from goqueue.storage.tail import CHUNK_OVERHEAD_BYTES, Chunk, Tail, TailBudget
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import append, batch, open_store, values

SEGMENT = Segment("/data/logs/t/0", 0)


def chunk(first_offset: int, count: int = 1, *, time: int = 0, size: int = 10) -> Chunk:
    frames = batch([b"x" * size] * count) if count else batch([])
    for number, position in enumerate(np.asarray(frames.positions).tolist()):
        frame.stamp(frames.buffer.data, position, int(frames.lengths[number]), first_offset + number, time)
    return Chunk(SEGMENT, 0, first_offset, time, frames, 0, b"", b"", None)


def tail_of(*counts: int) -> Tail:
    tail, offset = Tail(), 0
    for number, count in enumerate(counts):
        tail.add(chunk(offset, count, time=100 * number))
        offset += count
    return tail


def read(tail: Tail, offset: int, limit: int, max_bytes: int) -> tuple[list[int], int]:
    found = tail.read(offset, limit, max_bytes)
    return [frame.offset_at(view, place) for view in found.buffers for place in frame.walk(view)], found.next_offset


@given(
    counts=st.lists(st.integers(0, 4), min_size=1, max_size=8).filter(any),
    data=st.data(),
    max_bytes=st.integers(1, 1000),
)
def test_a_read_gives_what_a_list_would_give(counts: list[int], data: st.DataObject, max_bytes: int) -> None:
    end = sum(counts)
    offset = data.draw(st.integers(0, end - 1))
    limit = data.draw(st.integers(offset + 1, end))
    fitting = max(1, max_bytes // len(batch([b"x" * 10]).buffer))
    expected = list(range(offset, min(limit, offset + fitting)))
    assert read(tail_of(*counts), offset, limit, max_bytes) == (expected, expected[-1] + 1)


@pytest.mark.parametrize(("time", "found"), [(0, None), (1, 2), (100, 2), (101, 5), (200, 5), (201, 6)])
def test_a_time_is_found_unless_it_may_be_older(time: int, found: int | None) -> None:
    assert tail_of(2, 3, 1).first_since(time) == found


def test_a_tail_is_cut_where_an_append_was_taken_back() -> None:
    tail = Tail()
    chunks = [chunk(offset) for offset in range(4)]
    for one in chunks:
        tail.add(one)
    tail.cut(chunks[2])
    assert read(tail, 0, 2, 1000) == ([0, 1], 2)
    tail.cut(chunks[0])
    assert tail.first_offset is None


def test_a_cleared_tail_no_longer_waits_for_the_disk() -> None:
    tail, one = Tail(), chunk(0)
    tail.add(one)
    tail.clear()
    assert tail.first_offset is None
    assert one.settled


def test_the_oldest_leaves_when_the_budget_is_spent() -> None:
    one, other = Tail(), Tail()
    chunks = [chunk(offset, size=1000) for offset in range(6)]
    budget = TailBudget(3 * (chunks[0].size + CHUNK_OVERHEAD_BYTES))
    for number, each in enumerate(chunks):
        each.settled = True
        budget.add((one, other)[number % 2], each)
    assert (one.first_offset, other.first_offset) == (4, 3)
    assert budget.held_bytes == 3 * (chunks[0].size + CHUNK_OVERHEAD_BYTES)


def test_what_the_disk_does_not_have_never_leaves() -> None:
    tail, budget = Tail(), TailBudget(1)
    chunks = [chunk(offset, size=1000) for offset in range(5)]
    for each in chunks:
        budget.add(tail, each)
    assert tail.first_offset == 0
    for each in chunks:
        each.settled = True
    budget.add(tail, chunk(5))
    assert tail.first_offset == 5


def test_tiny_chunks_count_with_what_they_cost() -> None:
    tail, budget = Tail(), TailBudget(10 * CHUNK_OVERHEAD_BYTES)
    for offset in range(100):
        each = chunk(offset, size=0)
        each.settled = True
        budget.add(tail, each)
    assert budget.held_bytes <= 10 * CHUNK_OVERHEAD_BYTES


def test_all_logs_share_one_budget_and_read_the_same_from_memory_and_from_disk() -> None:
    store = open_store(FaultyDisk(), tail_bytes=20_000)
    logs = [store.create(f"t/{number}") for number in range(4)]
    contents: list[bytes] = []
    for number in range(60):
        contents.append(b"%d" % number * 100)
        for log in logs:
            append(store, log, contents[-1])
        assert store.resources.tails.held_bytes <= 20_000 + 1000
    assert all(values(log) == contents for log in logs)


def test_a_log_that_waits_holds_the_budget_open_and_loses_nothing() -> None:
    store = open_store(FaultyDisk(), tail_bytes=1)
    log = store.create("t/0")
    contents = [b"%d" % number for number in range(50)]
    for content in contents:
        log.append(batch([content]))
    store.flush()
    assert values(log) == contents
