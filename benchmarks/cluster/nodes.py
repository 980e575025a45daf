"""Three `goqueue serve` on this machine that are one cluster."""

import json
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.broker.goqueue import ADDRESS, ROOT, GoQueue
from benchmarks.broker.server import LOOPBACK, Server, free_port
from benchmarks.harness.suite import Bench
from goqueue.client import Client
from goqueue.errors import GoQueueError

NAMES = ("n1", "n2", "n3")
TOPIC = "orders"
_SECRET = "the secret of a benchmark"  # noqa: S105 - of a cluster that lives for a minute
_FORM_SECONDS_MAX = 60
_PAUSE_SECONDS = 0.1


class Node(GoQueue):
    """A broker alone, or the leader of the topic in a cluster: what `publish_…` talks to."""

    others: tuple[Server, ...] = ()

    def processor_seconds(self) -> tuple[float, float]:
        """Seconds of the processor: of this broker, and of the followers together."""
        return self.server.processor_seconds(), sum(one.processor_seconds() for one in self.others)


@contextmanager
def broker_alone(bench: Bench) -> Iterator[Node]:
    node = Node()
    try:
        node.start(bench.room())
        node.create(TOPIC)
        yield node
    finally:
        node.stop()


@contextmanager
def leader_of_cluster(bench: Bench) -> Iterator[Node]:
    """Run three nodes with a topic of three replicas; yield the one that leads it."""
    servers: dict[str, Server] = {}
    try:
        peers = ", ".join(f"{name}={LOOPBACK}:{free_port()}" for name in NAMES)
        for name in NAMES:
            servers[name] = start_node(name, peers, f"{bench.room()}/{name}")
        ports = {name: port_of(server) for name, server in servers.items()}
        node = Node()
        leader = _create(ports)
        node.port, node._server = ports[leader], servers[leader]
        node._client = Client(f"http://{LOOPBACK}:{node.port}")
        node.others = tuple(server for name, server in servers.items() if name != leader)
        yield node
        node.client.close()
    finally:
        for server in servers.values():
            server.end()


def start_node(name: str, peers: str, directory: str, *flags: str) -> Server:
    Path(directory).mkdir(parents=True)
    secret = Path(directory, "secret")
    secret.write_text(_SECRET)
    own = ["--data-dir", f"{directory}/data", "--port", "0", "--cluster-node-id", name, "--cluster-peers", peers]
    command = [sys.executable, "-m", "goqueue", "serve", *own, "--cluster-secret-file", str(secret), *flags]
    return Server(command, directory, {"PYTHONPATH": str(ROOT)})


def port_of(server: Server) -> int:
    server.wait_until(lambda: ADDRESS.search(server.said()) is not None)
    found = ADDRESS.search(server.said())
    assert found is not None
    return int(found[1])


def _create(ports: dict[str, int]) -> str:
    """Create the topic once the cluster is formed; return who leads it when all replicas are in sync."""
    url, until = f"http://{LOOPBACK}:{ports[NAMES[0]]}", time.monotonic() + _FORM_SECONDS_MAX
    with Client(url) as client:
        while time.monotonic() < until:
            with suppress(GoQueueError):
                client.create_topic(TOPIC, 1, exist_ok=True)
                with urllib.request.urlopen(f"{url}/topics/{TOPIC}/partitions") as answer:  # noqa: S310 - our own
                    (partition,) = json.load(answer)["partitions"]
                if len(partition["in_sync_replicas"]) == len(NAMES) and partition["leader"]:
                    return str(partition["leader"])
            time.sleep(_PAUSE_SECONDS)
    raise TimeoutError("the cluster was not formed")
