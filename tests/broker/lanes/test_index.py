"""Where messages of each lane are, over segments of which some are in memory, some on disk, and some in neither."""

import errno
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.partition import Partition
from goqueue.broker.work import Promise, run
from goqueue.errors import DiskFull
from goqueue.limits import LANES_HELD
from goqueue.storage.compaction import plan_compaction
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


@settings(max_examples=60)
@given(LANE_LISTS, LANE_LISTS, st.data())
def test_it_says_what_a_list_says_through_stores_crashes_and_what_comes_later(
    before: list[int], after: list[int], data: st.DataObject
) -> None:
    running = Running()
    running.create()
    publish(running, before)
    if data.draw(st.booleans()):
        run(running.partition().lanes.store(running.disk))
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
    assert run(partition.lanes.next(lane, first, stop)) == (wanted[0] if wanted else None)
    assert run(partition.lanes.count(lane, first, stop, 10**9)) == len(wanted)
    assert run(partition.lanes.count(lane, first, stop, 3)) == min(3, len(wanted))
    singles = np.array([(offset, offset + 1) for offset in range(first, stop)], np.int64).reshape(-1, 2)
    assert run(partition.lanes.count_in(lane, singles)) == len(wanted)
    spans = run(partition.lanes.spans(lane, first, stop, 10, 1000))
    assert [offset for span in spans for offset in range(*span)] == wanted[:10]
    assert run(partition.lanes.is_single(first)) == (len(set(lanes[first:])) <= 1)
    if stop == end:
        assert partition.lanes.roughly(lane, first, end) == len(wanted)


def test_one_lane_is_known_at_once_when_it_was_looked_up() -> None:
    running = Running()
    running.create()
    publish(running, [0, 1, *[2] * 100])
    partition = running.crash().partition()
    assert partition.log.lanes.since == 102
    assert run(partition.lanes.is_single(50))
    assert partition.log.lanes.since == 50
    assert not run(partition.lanes.is_single(1))


def test_of_segments_whose_lanes_alternate_few_are_in_memory() -> None:
    running = Running()
    running.create(segment_bytes=32_768)
    publish(running, [0, 4] * 2_000)
    partition = running.partition()
    run(partition.lanes.store(running.disk))
    for offset in range(0, 4_000, 50):
        assert run(partition.lanes.next(4, offset, 4_000)) == offset + 1
    held = [segment for segment in partition.log.sealed() if segment.lanes is not None]
    assert len(partition.log.sealed()) > LANES_HELD
    assert len(held) <= LANES_HELD
    assert partition.lanes.roughly(0, 0, 4_000) == 2_000


def test_a_file_that_is_missing_or_garbage_is_made_again() -> None:
    running = Running()
    running.create()
    publish(running, [0, 4, 2] * 100)
    run(running.partition().lanes.store(running.disk))
    running = running.restart()
    paths = [path for path in running.disk.paths() if path.endswith(".lanes")]
    assert paths
    for number, path in enumerate(paths):
        if number % 2:
            running.disk.remove(path)
        else:
            running.disk.open(path, "write").write(0, [b"garbage"])
    partition = running.partition()
    assert run(partition.lanes.count(4, 0, 300, 10**9)) == 100
    running = running.restart()
    assert sorted(path for path in running.disk.paths() if path.endswith(".lanes")) == sorted(paths)


def test_compaction_leaves_every_message_in_its_lane() -> None:
    running = Running()
    running.create(cleanup="compact")
    for number in range(60):
        running.publish(frames_of([VALUE] * 2, key=b"k%d" % (number % 3), lanes=[0, 3]))
    partition = running.partition()
    run(partition.lanes.store(running.disk))
    job = plan_compaction(partition.log, running.disk, now_ns=running.clock.now_ns())
    job.run()
    job.apply()
    assert job.messages_removed
    left = [_of(partition, offset) for offset in range(partition.log_end)]
    for lane in LANES:
        mine = [offset for offset, found in enumerate(left) if found == lane]
        assert run(partition.lanes.next(lane, 0, partition.log_end)) == (mine[0] if mine else None)
        assert run(partition.lanes.count(lane, 0, partition.log_end, 10**9)) >= len(mine)


def _of(partition: Partition, offset: int) -> int | None:
    read = run(partition.read(offset, 1))
    buffer: Any = read.buffers[0]
    return int(buffer[24]) if int.from_bytes(buffer[8:16], "big") == offset else None


@pytest.mark.parametrize("lanes", [[2] * 300, [0] * 150 + [2] * 150])
def test_retention_takes_nothing_from_what_is_left(lanes: list[int]) -> None:
    running = Running()
    running.create()
    publish(running, lanes)
    partition = running.partition()
    job = running.store.logs["orders/0"]
    first = job.segments[3].base_offset
    job.replace_segments(job.segments[:3], [])
    assert run(partition.lanes.count(0, 0, 300, 10**9)) == lanes[first:].count(0)
    assert run(partition.lanes.next(2, 0, 300)) == max(first, lanes.index(2))


def test_what_the_disk_refuses_of_a_segment_that_was_sealed_meanwhile_is_not_remembered() -> None:
    running = Running()
    running.create()
    publish(running, [2] * 3)
    partition = running.partition()
    refused = offer_batch(partition, frames_of([b"v"] * 3, lanes=[2, 2, 1]))
    partition.log.roll()
    run(partition.lanes.store(running.disk))
    running.disk.fail("write", errno.ENOSPC, path="*.log")
    running.flush()
    assert isinstance(refused.refusal, DiskFull)
    running.disk.heal()
    publish(running, [4, 2])
    assert [run(partition.lanes.next(lane, 0, 5)) for lane in LANES] == [None, None, 0, None, 3]
    assert [run(partition.lanes.count(lane, 0, 5, 9)) for lane in LANES] == [0, 0, 4, 0, 1]


def test_a_look_comes_to_an_end_though_the_disk_refuses_what_it_was_to_reach() -> None:
    running = Running()
    running.create()
    publish(running, [2] * 3)
    running = running.restart()
    partition = running.partition()
    refused = offer_batch(partition, frames_of([b"v"] * 3, lanes=[2, 2, 2]))
    looks = [partition.lanes.is_single(0), partition.lanes.next(1, 0, 6), partition.lanes.count(2, 0, 6, 9)]
    jobs = [next(look) for look in looks]
    running.disk.fail("write", errno.ENOSPC, path="*/orders/0/*.log")
    running.flush()
    assert isinstance(refused.refusal, DiskFull)
    found: list[object] = []
    for look, job in zip(looks, jobs, strict=True):
        assert not isinstance(job, Promise)
        with pytest.raises(StopIteration) as end:
            look.send(job())
        found.append(end.value.value)
    assert found == [True, None, 3]
