"""A disk, a clock, a store with small segments and an empty log, for each test of storage."""

import pytest

from goqueue.storage.log import Log
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import open_store


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(disk: FaultyDisk, clock: ManualClock) -> Store:
    return open_store(disk, clock)


@pytest.fixture
def log(store: Store) -> Log:
    return store.create("t/0")
