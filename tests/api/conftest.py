"""Fixtures of the tests of the HTTP interface."""

import pytest

from goqueue.testing.broker import LocalBroker
from goqueue.testing.disk import FaultyDisk
from tests.api.members import Member
from tests.brokers import create, publish


@pytest.fixture(scope="module")
def unchanged(module_broker: LocalBroker) -> str:
    """A broker with the topic `t` of one partition and one message, for requests that change nothing."""
    create(module_broker.url, "t")
    publish(module_broker.url, "t", "a")
    return module_broker.url


@pytest.fixture
def topic_broker(broker: LocalBroker) -> LocalBroker:
    """A fresh broker with the topic `t` of one partition."""
    create(broker.url, "t")
    return broker


@pytest.fixture
def url(broker: LocalBroker) -> str:
    """A broker with the topic `orders` of two partitions."""
    create(broker.url, "orders", partitions=2)
    return broker.url


@pytest.fixture
def member(url: str) -> Member:
    """The only member of its group."""
    return Member(url).join()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FaultyDisk:
    """Used by every broker that is started after this."""
    made = FaultyDisk()
    monkeypatch.setattr("goqueue.daemon.SystemDisk", lambda: made)
    return made
