"""Brokers with and without tenants, side by side."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import ROOT, GoQueue
from benchmarks.broker.server import LOOPBACK, Server
from benchmarks.harness.suite import Bench
from goqueue.client import Client

TENANT = "team-a"
TOPIC = "orders"
RATES_HIGH = {
    "publish_rate_limit": 10**9,
    "publish_bytes_rate_limit": 10**12,
    "max_storage_bytes": 10**14,
    "max_message_size_bytes": 10**7,
}
"""Quotas of which everything that is published is charged, and nothing is refused."""


class TenantBroker(GoQueue):
    """A broker that may have tenants, and keys."""

    def __init__(self, *, has_tenants: bool, has_keys: bool = False) -> None:
        super().__init__()
        self.has_tenants = has_tenants
        self.has_keys = has_keys

    def start(self, directory: str) -> None:
        key_file = Path(directory, "admin.key")
        flags = {"data-dir": f"{directory}/data", "port": "0"}
        if self.has_tenants:
            flags["tenants-enabled"] = "true"
        if self.has_keys:
            flags |= {"security-authentication": "keys", "admin-key-file": str(key_file)}
        command = [sys.executable, "-m", "goqueue", "serve"]
        command += chain.from_iterable((f"--{name}", value) for name, value in flags.items())
        self._server = Server(command, directory, {"PYTHONPATH": str(ROOT)})
        self._server.wait_until(self._says_where)
        key = key_file.read_text(encoding="ascii").strip() if self.has_keys else None
        self._client = Client(f"http://{LOOPBACK}:{self.port}", api_key=key)

    def header(self) -> str:
        """Make the header of publishers: a key, or the name of a tenant, which a broker without tenants ignores."""
        if self.has_keys:
            tenant = {"tenant": TENANT} if self.has_tenants else {}
            return f"x-api-key: {self.client.create_api_key('publisher', roles=['producer'], **tenant).key}"
        return f"x-tenant: {TENANT}"


@contextmanager
def pair(
    bench: Bench, *, has_keys: bool = False, has_tenants_first: bool = False
) -> Iterator[tuple[TenantBroker, TenantBroker]]:
    """Run a broker without tenants, and one with, or in the other order."""
    ways = (has_tenants_first, not has_tenants_first)
    brokers = [TenantBroker(has_tenants=has_tenants, has_keys=has_keys) for has_tenants in ways]
    with ExitStack() as stack:
        for broker in brokers:
            room = bench.room()
            os.makedirs(room)
            stack.enter_context(running(broker, room))
        yield brokers[0], brokers[1]
