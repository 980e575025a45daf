"""A broker that speaks gRPC, for all tests of a process."""

from collections.abc import Iterator

import pytest

from goqueue.testing.broker import LocalBroker
from tests.rpc.stubs import Stubs, stubs_of


@pytest.fixture(scope="session")
def rpc_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    with LocalBroker(str(tmp_path_factory.mktemp("rpc") / "data"), grpc__port="0") as local:
        yield local


@pytest.fixture(scope="session")
def rpc(rpc_broker: LocalBroker) -> Iterator[Stubs]:
    with stubs_of(rpc_broker) as stubs:
        yield stubs
