"""A broker that speaks gRPC, for all tests of a process, and what the tests of the SDK ask for, over gRPC."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.client import Client
from goqueue.client._sync.transaction import TransactionalProducer
from goqueue.testing.broker import LocalBroker
from tests.rpc.sdk_transport import RpcClient
from tests.rpc.stubs import Stubs, stubs_of


@pytest.fixture(scope="session")
def rpc_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    with LocalBroker(str(tmp_path_factory.mktemp("rpc") / "data"), grpc__port="0") as local:
        yield local


@pytest.fixture(scope="session")
def rpc(rpc_broker: LocalBroker) -> Iterator[Stubs]:
    with stubs_of(rpc_broker) as stubs:
        yield stubs


# --- the contract of the SDK ---


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    with LocalBroker(str(tmp_path / "data"), grpc__port="0") as local:
        yield RpcClient.know(local)


@pytest.fixture(scope="module")
def module_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    with LocalBroker(str(tmp_path_factory.mktemp("module") / "data"), grpc__port="0") as local:
        yield RpcClient.know(local)


@pytest.fixture
def client_class() -> type[Client]:
    return RpcClient


@pytest.fixture
def connected(broker: LocalBroker) -> Iterator[Client]:
    with RpcClient(broker.url) as made:
        yield made


@pytest.fixture
def blocking(connected: Client) -> Client:
    return connected


@pytest.fixture
def producer(connected: Client) -> Iterator[TransactionalProducer]:
    with connected.producer(transactional_id="p") as made:
        yield made
