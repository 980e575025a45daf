"""A large partition moves to another node, and a node returns with everything to fetch, while clients publish.

The 99th percentile of publishes meanwhile is set against that of the same clients before, in the same run.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from shutil import rmtree

from benchmarks.broker.server import LOOPBACK, Server, free_port
from benchmarks.cluster.nodes import NAMES, port_of, start_node
from benchmarks.harness.suite import Bench, Figure, Sample, at_most, measurement
from goqueue.client import Client, PlannedMove
from goqueue.errors import GoQueueError

_LATE = "n4"
_LARGE, _SMALL = "large", "small"
_MIB = 1 << 20
_PAUSE_SECONDS = 0.1
_WAIT_SECONDS_MAX = 600


@dataclass
class Publisher:
    """Publishes one message after the other, and notes how long each took."""

    urls: list[str]
    topic: str
    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    is_over: bool = False

    def run(self) -> None:
        with Client(self.urls) as client:
            while not self.is_over:
                began = time.perf_counter()
                try:
                    client.publish(self.topic, "x" * 200, partition=0)
                except GoQueueError as error:
                    self.errors.append(str(error))
                self.seconds.append(time.perf_counter() - began)


@dataclass
class MovingCluster:
    """Four nodes, the last of which has no vote and no replica at first."""

    bench: Bench
    servers: dict[str, Server] = field(default_factory=dict)
    urls: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.room = self.bench.room()
        self.peers = ", ".join(f"{name}={LOOPBACK}:{free_port()}" for name in NAMES)
        self.late_listen = f"{LOOPBACK}:{free_port()}"
        for name in NAMES:
            self.servers[name] = start_node(name, self.peers, f"{self.room}/{name}")
        self.urls = [f"http://{LOOPBACK}:{port_of(server)}" for server in self.servers.values()]

    def start_late(self) -> None:
        flags = ("--cluster-listen", self.late_listen)
        self.servers[_LATE] = start_node(_LATE, self.peers, f"{self.room}/{_LATE}", *flags)
        port_of(self.servers[_LATE])

    def stop_late(self) -> None:
        self.servers.pop(_LATE).end()
        rmtree(f"{self.room}/{_LATE}")

    def end(self) -> None:
        for server in self.servers.values():
            server.end()


def _wait(condition: Callable[[], bool]) -> float:
    """Wait for a condition; return for how long."""
    began = time.monotonic()
    while time.monotonic() - began < _WAIT_SECONDS_MAX:
        try:
            if condition():
                return time.monotonic() - began
        except GoQueueError:
            pass
        time.sleep(_PAUSE_SECONDS)
    raise TimeoutError("the cluster did not get there")


def _fill(client: Client, count: int) -> None:
    """Publish so many MiB to the large partition."""
    value = b"v" * 10_000
    with client.producer() as producer:
        for _ in range(count * _MIB // len(value)):
            producer.send(_LARGE, value, partition=0)
        producer.flush()


def _most(seconds: list[float]) -> float:
    """Return the 99th percentile in milliseconds."""
    return 1000 * sorted(seconds)[int(len(seconds) * 0.99)] if seconds else 0.0


@measurement(
    "move a large partition, and return an empty node",
    Figure("MiB/s", "to the node that it moves to"),
    Figure("x p99 of publishes", "while it moves", less_is_better=True, budget=at_most(3)),
    Figure("x p99 of publishes", "while an empty node fetches it", less_is_better=True, budget=at_most(3)),
    Figure("ms", "p99 of publishes before", less_is_better=True),
    Figure("errors", "of all publishes", less_is_better=True, budget=at_most(0)),
    repeats=1,
)
def moving(bench: Bench) -> Iterator[Sample]:
    """Two clients publish to the large partition and to another one."""
    size = bench.size(1024, 64)
    cluster = MovingCluster(bench)
    with ExitStack() as stack:
        stack.callback(cluster.end)
        cluster.start()
        client = stack.enter_context(Client(cluster.urls))
        _wait(lambda: client.cluster_health().partitions > 0 and client.cluster_health().status == "ok")
        for topic in (_LARGE, _SMALL):
            client.create_topic(topic, 1)
        _fill(client, size)
        cluster.start_late()
        _wait(lambda: any(one.node_id == _LATE and one.address for one in client.cluster_state().nodes))
        while True:
            yield _measured(cluster, client, size)


def _measured(cluster: MovingCluster, client: Client, size: int) -> Sample:
    (large,) = client.cluster_partitions(_LARGE)
    replicas = [one.node for one in large.replicas]
    publishers = [Publisher(cluster.urls, topic) for topic in (_LARGE, _SMALL)]
    threads = [threading.Thread(target=one.run) for one in publishers]
    for thread in threads:
        thread.start()

    def lap(work: Callable[[], float]) -> tuple[float, float]:
        """Return the result of some work, and the 99th percentile meanwhile."""
        first = [len(one.seconds) for one in publishers]
        result = work()
        return result, max(_most(one.seconds[since:]) for one, since in zip(publishers, first, strict=True))

    def idle() -> float:
        time.sleep(cluster.bench.size(10, 2))
        return 0.0

    def move() -> float:
        target = [*(one for one in replicas if one != large.leader), _LATE]
        found = client.start_reassignment([PlannedMove(topic=_LARGE, partition=0, replicas=target)])
        return _wait(lambda: client.reassignment(found.id).ended_at is not None)

    def return_empty() -> float:
        cluster.stop_late()
        cluster.start_late()
        return _wait(lambda: _LATE in client.cluster_partitions(_LARGE)[0].isr)

    try:
        _, before = lap(idle)
        seconds, moving = lap(move)
        _, returning = lap(return_empty)
    finally:
        for publisher in publishers:
            publisher.is_over = True
        for thread in threads:
            thread.join()
    errors = [error for one in publishers for error in one.errors]
    if errors:
        print(errors[0], file=sys.stderr)
    return size / seconds, moving / before, returning / before, before, float(len(errors))
