"""Options of the random crash tests, and a store on a fresh disk."""

import random
from collections.abc import Iterable, Iterator
from itertools import islice
from random import Random
from typing import Any

import pytest

from goqueue.storage.log import Log
from goqueue.storage.store import Store
from goqueue.testing.disk import FaultyDisk
from tests.crash.scenarios import Sample
from tests.storage.stores import open_store

THOROUGH_KILLS = 100


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> str:
    """Return the seed of all choices; the scheduling of processes is not repeatable."""
    given: int | None = request.config.getoption("--seed")
    return str(random.getrandbits(32) if given is None else given)


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """Return how often a test kills; the module's SHARE is the number of `--kills` for each of its own."""
    share: int = request.module.SHARE
    return max(int(request.config.getoption("--kills")) // share, 1)


@pytest.fixture
def sample(request: pytest.FixtureRequest, seed: str) -> Sample:
    """Return a choice of one case in `share` from a random first one on, or of all cases for 100 kills or more."""
    takes_all = int(request.config.getoption("--kills")) >= THOROUGH_KILLS

    def chosen(cases: Iterable[Any], share: int = 6) -> Iterator[Any]:
        return islice(cases, 0 if takes_all else Random(seed).randrange(share), None, 1 if takes_all else share)

    return chosen


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def store(disk: FaultyDisk) -> Store:
    return open_store(disk)


@pytest.fixture
def log(store: Store) -> Log:
    return store.create("t/0")
