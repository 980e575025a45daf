"""Listing and reading a partition's segments, with whatever happens between the decision and its end."""

import pytest

from goqueue.broker.partition import Partition
from goqueue.broker.work import Promise, run
from goqueue.errors import LogClosed
from goqueue.storage.store import Store
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import append, open_store


@pytest.fixture
def store() -> Store:
    """After a restart, so that nobody knows when its segments begin."""
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


def test_an_index_is_asked_once_when_a_segment_begins(partition: Partition) -> None:
    found = run(partition.segments())
    assert [one.base_offset for one in found] == [0, 2, 4, 6, 8]
    assert all(one.first_time for one in found)
    with pytest.raises(StopIteration) as ended:  # without a job
        next(partition.segments())
    assert ended.value.value == found


def test_what_an_index_says_is_kept_from_retention(partition: Partition) -> None:
    run(partition.segments())
    assert [segment.first_time for segment in partition.log.segments[:-1]] == [None] * 4


def test_a_log_that_is_closed_while_it_is_listed_is_refused(partition: Partition) -> None:
    work = partition.segments()
    job = next(work)
    assert not isinstance(job, Promise)
    partition.log.close()
    with pytest.raises(LogClosed):
        work.send(job())


def test_a_read_that_was_decided_ends_well_though_the_log_was_closed(partition: Partition) -> None:
    work = partition.segment_bytes(0, 0, 10**6)
    job = next(work)
    assert not isinstance(job, Promise)
    partition.log.close()
    with pytest.raises(StopIteration) as ended:
        work.send(job())
    assert len(ended.value.value.content) == partition.log.segments[0].size
