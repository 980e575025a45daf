"""Fixtures that the tests of the rules share."""

import pytest

from goqueue.broker.core.partition import Partition
from tests.broker.brokers import Running
from tests.broker.groupwork import Team


@pytest.fixture
def running() -> Running:
    """A broker with the topic `orders`."""
    running = Running()
    running.create()
    return running


@pytest.fixture
def partition(running: Running) -> Partition:
    """The only partition of `orders`."""
    return running.partition()


@pytest.fixture
def team(running: Running) -> Team:
    """A group without members that reads `orders`."""
    return Team(running)
