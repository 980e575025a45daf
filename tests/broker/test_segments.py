"""Listing and reading a partition's segments, with whatever happens between the decision and its end."""

import pytest

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import run_work
from goqueue.errors import LogClosed
from goqueue.storage.store import Store
from goqueue.testing.disk import FaultyDisk
from tests.broker.brokers import next_job
from tests.storage.stores import append, open_store


@pytest.fixture
def store() -> Store:
    """After a restart, so that the first times of its segments are not known."""
    disk = FaultyDisk()
    store = open_store(disk)
    log = store.create("t/0")
    for number in range(9):
        append(store, log, b"%d" % number + b"x" * 1500)
    store.close()
    return open_store(disk)


@pytest.fixture
def partition(store: Store) -> Partition:
    return Partition("t", 0, store.logs["t/0"])


def test_first_time_of_a_segment_is_read_from_the_index_once(partition: Partition) -> None:
    found = run_work(partition.segments())
    assert [one.base_offset for one in found] == [0, 2, 4, 6, 8]
    assert all(one.first_time for one in found)
    with pytest.raises(StopIteration) as ended:  # without a job
        next(partition.segments())
    assert ended.value.value == found


def test_listing_segments_does_not_store_first_times_for_retention(partition: Partition) -> None:
    run_work(partition.segments())
    assert [segment.first_time for segment in partition.log.segments[:-1]] == [None] * 4


def test_listing_fails_when_the_log_is_closed_meanwhile(partition: Partition) -> None:
    work = partition.segments()
    job = next_job(work)
    partition.log.close()
    with pytest.raises(LogClosed):
        work.send(job())


def test_started_segment_read_completes_after_the_log_is_closed(partition: Partition) -> None:
    work = partition.segment_bytes(0, 0, 10**6)
    job = next_job(work)
    partition.log.close()
    with pytest.raises(StopIteration) as ended:
        work.send(job())
    assert len(ended.value.value.content) == partition.log.segments[0].size
