"""Where messages of each lane are, over segments of which some are in memory, some on disk, and some in neither."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.work import Promise, run_work
from goqueue.errors import DiskFull
from goqueue.limits import LANE_INDEXES_CACHED
from goqueue.storage.lanes import LANES
from tests.broker.brokers import Running, frames_of, offer_batch

VALUE = b"v" * 200  # some twenty of them are a segment


def publish(running: Running, lanes: Sequence[int]) -> None:
    for start in range(0, len(lanes), 7):
        piece = lanes[start : start + 7]
        running.publish(frames_of([VALUE] * len(piece), lanes=piece))


LANE_LISTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(LANES), st.integers(1, 60)).map(lambda pair: [pair[0]] * pair[1]),
        st.lists(st.sampled_from(LANES), min_size=1, max_size=40),
    ),
    min_size=1,
    max_size=6,
).map(lambda parts: [lane for part in parts for lane in part])


@given(LANE_LISTS, LANE_LISTS, st.data())
def test_lane_queries_match_naive_model(before: list[int], after: list[int], data: st.DataObject) -> None:
    running = Running()
    running.create()
    publish(running, before)
    if data.draw(st.booleans()):
        run_work(running.partition().lanes.store(running.disk))
    match data.draw(st.sampled_from(["go on", "crash", "restart"])):
        case "crash":
            running = running.crash()
        case "restart":
            running = running.restart()
    publish(running, after)
    lanes, partition = before + after, running.partition()
    end = len(lanes)
    lane = data.draw(st.sampled_from(LANES))
    first, stop = sorted(data.draw(st.integers(0, end)) for _ in range(2))
    wanted = [offset for offset in range(first, stop) if lanes[offset] == lane]
    assert run_work(partition.lanes.next(lane, first, stop)) == (wanted[0] if wanted else None)
    assert run_work(partition.lanes.count(lane, first, stop, 10**9)) == len(wanted)
    assert run_work(partition.lanes.count(lane, first, stop, 3)) == min(3, len(wanted))
    singles = np.array([(offset, offset + 1) for offset in range(first, stop)], np.int64).reshape(-1, 2)
    assert run_work(partition.lanes.count_in(lane, singles)) == len(wanted)
    spans = run_work(partition.lanes.spans(lane, first, stop, 10, 1000))
    assert [offset for span in spans for offset in range(*span)] == wanted[:10]
    assert run_work(partition.lanes.is_single(first)) == (len(set(lanes[first:])) <= 1)
    if stop == end:
        assert partition.lanes.roughly(lane, first, end) == len(wanted)


def test_single_lane_lookup_is_remembered(running: Running) -> None:
    publish(running, [0, 1, *[2] * 100])
    partition = running.crash().partition()
    assert partition.log.lanes.since == 102
    assert run_work(partition.lanes.is_single(50))
    assert partition.log.lanes.since == 50
    assert not run_work(partition.lanes.is_single(1))


def test_number_of_cached_lane_indexes_is_limited() -> None:
    running = Running()
    running.create(segment_bytes=32_768)
    publish(running, [0, 4] * 2_000)
    partition = running.partition()
    run_work(partition.lanes.store(running.disk))
    for offset in range(0, 4_000, 50):
        assert run_work(partition.lanes.next(4, offset, 4_000)) == offset + 1
    held = [segment for segment in partition.log.sealed() if segment.lanes is not None]
    assert len(partition.log.sealed()) > LANE_INDEXES_CACHED
    assert len(held) <= LANE_INDEXES_CACHED
    assert partition.lanes.roughly(0, 0, 4_000) == 2_000


def test_missing_or_garbage_lane_file_is_rebuilt(running: Running) -> None:
    publish(running, [0, 4, 2] * 100)
    run_work(running.partition().lanes.store(running.disk))
    running = running.restart()
    paths = [path for path in running.disk.paths() if path.endswith(".lanes")]
    assert paths
    for number, path in enumerate(paths):
        if number % 2:
            running.disk.remove(path)
        else:
            running.disk.open(path, "write").write(0, [b"garbage"])
    partition = running.partition()
    assert run_work(partition.lanes.count(4, 0, 300, 10**9)) == 100
    running = running.restart()
    assert sorted(path for path in running.disk.paths() if path.endswith(".lanes")) == sorted(paths)


@pytest.mark.parametrize("lanes", [[2] * 300, [0] * 150 + [2] * 150])
def test_lane_counts_are_correct_after_retention(running: Running, lanes: list[int]) -> None:
    publish(running, lanes)
    partition = running.partition()
    job = running.store.logs["orders/0"]
    first = job.segments[3].base_offset
    job.replace_segments(job.segments[:3], [])
    assert run_work(partition.lanes.count(0, 0, 300, 10**9)) == lanes[first:].count(0)
    assert run_work(partition.lanes.next(2, 0, 300)) == max(first, lanes.index(2))


def test_lanes_of_refused_messages_are_not_remembered(running: Running) -> None:
    publish(running, [2] * 3)
    partition = running.partition()
    refused = offer_batch(partition, frames_of([b"v"] * 3, lanes=[2, 2, 1]))
    partition.log.roll()
    run_work(partition.lanes.store(running.disk))
    running.refuse_writes("*.log")
    running.flush()
    assert isinstance(refused.refusal, DiskFull)
    running.disk.end_faults()
    publish(running, [4, 2])
    assert [run_work(partition.lanes.next(lane, 0, 5)) for lane in LANES] == [None, None, 0, None, 3]
    assert [run_work(partition.lanes.count(lane, 0, 5, 9)) for lane in LANES] == [0, 0, 4, 0, 1]


def test_lane_queries_end_when_their_last_messages_are_refused(running: Running) -> None:
    publish(running, [2] * 3)
    running = running.restart()
    partition = running.partition()
    refused = offer_batch(partition, frames_of([b"v"] * 3, lanes=[2, 2, 2]))
    looks = [partition.lanes.is_single(0), partition.lanes.next(1, 0, 6), partition.lanes.count(2, 0, 6, 9)]
    jobs = [next(look) for look in looks]
    running.refuse_writes("*/orders/0/*.log")
    running.flush()
    assert isinstance(refused.refusal, DiskFull)
    found: list[object] = []
    for look, job in zip(looks, jobs, strict=True):
        assert not isinstance(job, Promise)
        with pytest.raises(StopIteration) as end:
            look.send(job())
        found.append(end.value.value)
    assert found == [True, None, 3]
