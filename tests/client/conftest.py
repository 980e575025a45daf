"""Fixtures of the client's tests: a peer that plays a group, and both kinds of client."""

import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from goqueue.client import Client
from goqueue.client._sync.transaction import TransactionalProducer
from goqueue.testing.broker import LocalBroker
from tests.client.bridge import BridgedClient, Interruption
from tests.client.group_peers import Group, group_of
from tests.client.over_httpx import BridgedHttpxClient, HttpxClient
from tests.client.peers import Peer


@pytest.fixture
def group() -> Group:
    return Group()


@pytest.fixture
def server(group: Group) -> Iterator[Peer]:
    with group_of(group) as made:
        yield made


OWN = {"threads": Client, "loop": BridgedClient}
OVER_HTTPX = {"threads over httpx": HttpxClient, "loop over httpx": BridgedHttpxClient}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give `client_class` both kinds of client, and with the mark `over_httpx` those over httpx as well."""
    if "client_class" in metafunc.fixturenames:
        marks = {mark.name: mark for mark in metafunc.definition.iter_markers()}
        kinds = OWN | OVER_HTTPX if "over_httpx" in marks and "own_connection" not in marks else OWN
        metafunc.parametrize("client_class", list(kinds.values()), ids=list(kinds))


@pytest.fixture
def client(server: Peer, client_class: type[Client]) -> Iterator[Client]:
    with client_class(server.url, timeout="60s") as made:
        yield made


@pytest.fixture
def connected(broker: LocalBroker, client_class: type[Client]) -> Iterator[Client]:
    """A client of either kind with a fresh broker."""
    with client_class(broker.url) as made:
        yield made


@pytest.fixture
def blocking(broker: LocalBroker) -> Iterator[Client]:
    """A client for threads with a fresh broker."""
    with Client(broker.url) as made:
        yield made


@pytest.fixture
def producer(connected: Client) -> Iterator[TransactionalProducer]:
    """A transactional producer of a client of either kind with a fresh broker."""
    with connected.producer(transactional_id="p") as made:
        yield made


@pytest.fixture
def thread_client(server: Peer) -> Iterator[Client]:
    """A client for tests of threads, signals or forks."""
    with Client(server.url, timeout="60s") as made:
        yield made


@pytest.fixture
def ask(client_class: type[Client]) -> Callable[..., Any]:
    """Call one method of a client of either kind."""

    def call(url: str, method: str, *given: Any, timeout: float = 60, **options: Any) -> Any:
        with client_class(url, timeout=timeout) as client:
            return getattr(client, method)(*given, **options)

    return call


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let the clock of this process's clients jump ahead, as a long pause does."""
    now, passed = time.monotonic, 0.0

    def jump(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now() + passed)
    return jump


@pytest.fixture
def interrupts() -> Iterator[int]:
    """A signal that interrupts whatever the main thread does."""

    def handle(*_: Any) -> None:
        raise Interruption

    before = signal.signal(signal.SIGUSR1, handle)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, before)
