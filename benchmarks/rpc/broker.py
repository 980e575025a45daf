"""`goqueue serve` with a port for gRPC, and a channel to it."""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import ROOT, GoQueue
from benchmarks.broker.server import LOOPBACK, Server, library
from benchmarks.harness.suite import Bench
from goqueue.client import Client

T = TypeVar("T")

TOPIC = "orders"
VALUE_BYTES = 100
_RPC_ADDRESS = re.compile(rf"gRPC +({re.escape(LOOPBACK)}:\d+)")


class RpcBroker(GoQueue):
    """A broker that speaks gRPC."""

    rpc_address = ""

    def start(self, directory: str) -> None:
        library("grpc", "grpcio")
        flags = ["--data-dir", f"{directory}/data", "--port", "0", "--grpc-port", "0"]
        command = [sys.executable, "-m", "goqueue", "serve", *flags]
        self._server = Server(command, directory, {"PYTHONPATH": str(ROOT)})
        self._server.wait_until(self._has_addresses)
        self._client = Client(f"http://{LOOPBACK}:{self.port}")

    def _has_addresses(self) -> bool:
        found = _RPC_ADDRESS.search(self.server.said())
        self.rpc_address = found[1] if found else ""
        return found is not None and self._says_where()

    def with_channel(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Do something with a channel, on a loop of its own."""
        import grpc.aio  # noqa: PLC0415 - other suites run without it

        async def run() -> T:
            options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
            async with grpc.aio.insecure_channel(self.rpc_address, options) as channel:
                return await work(channel)

        return asyncio.run(run())


@contextmanager
def rpc_broker(bench: Bench) -> Iterator[RpcBroker]:
    """Run a broker with one topic of one partition."""
    broker = RpcBroker()
    with running(broker, bench.room()):
        broker.create(TOPIC, 1, retention_bytes=0)
        yield broker
