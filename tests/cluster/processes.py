"""Clusters of real brokers on this machine."""

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from goqueue.client import Client, ClusterNodeInfo, ClusterStateInfo
from goqueue.errors import GoQueueError
from tests.processes import Served

NAMES = ("n1", "n2", "n3")
SECRET = "the secret of a test, long enough"  # noqa: S105 - of a cluster that lives for seconds
WAIT_SECONDS = 60
_HELD_MAX = 30
"""More than a test has at the same time."""
_held: deque[socket.socket] = deque()


class ServedCluster:
    """Three brokers, each with a directory below one."""

    def __init__(self, directory: Path, *words: str) -> None:
        self.directory = directory
        self._words = words
        ports = free_ports(len(NAMES))
        self.peers = ", ".join(f"{name}=127.0.0.1:{port}" for name, port in zip(NAMES, ports, strict=True))
        self.brokers: dict[str, Served] = {}

    def launch(self, name: str, *, secret: str = SECRET) -> Served:
        path = self.directory / f"{name}-secret"
        path.write_text(secret)
        return Served(
            *("--data-dir", str(self.directory / name), "--cluster-node-id", name, "--cluster-peers", self.peers),
            *("--cluster-secret-file", str(path), *self._words, *self.words_of(name)),
        ).launch()

    def words_of(self, name: str) -> tuple[str, ...]:
        """Flags of one node."""
        del name
        return ()

    def start(self, *names: str, secret: str = SECRET) -> None:
        launched = {name: self.launch(name, secret=secret) for name in names}
        self.brokers |= launched
        for broker in launched.values():
            broker.await_start()

    @property
    def urls(self) -> list[str]:
        return [broker.url for broker in self.brokers.values()]

    def kill(self, name: str) -> None:
        self.brokers.pop(name).kill()

    def state(self, name: str) -> ClusterStateInfo:
        with Client(self.brokers[name].url) as client:
            return client.cluster_state()

    def node(self, seen_from: str, name: str) -> ClusterNodeInfo:
        return next(one for one in self.state(seen_from).nodes if one.node_id == name)

    def controller(self, *, other_than: str = "", seen_from: tuple[str, ...] = ()) -> str:
        """Wait for a controller that these nodes agree on."""
        found: set[str | None] = set()

        def agree() -> bool:
            nonlocal found
            found = {self.state(name).controller_id for name in seen_from or self.brokers}
            return len(found) == 1 and found.isdisjoint({None, other_than})

        self.wait(agree)
        return str(found.pop())

    def wait(self, condition: Callable[[], bool]) -> None:
        self.wait_for(condition)

    @staticmethod
    def wait_for(condition: Callable[[], bool]) -> None:
        """Wait for a condition; a broker that cannot answer now, or does not know a node yet, is asked again."""
        pause, until = threading.Event(), time.monotonic() + WAIT_SECONDS
        while time.monotonic() < until:
            with suppress(GoQueueError, StopIteration):
                if condition():
                    return
            pause.wait(0.02)
        raise AssertionError("it never came to be so")

    def end(self) -> None:
        for broker in self.brokers.values():
            broker.kill()


@contextmanager
def cluster(directory: Path, *words: str, made: type[ServedCluster] = ServedCluster) -> Iterator[ServedCluster]:
    """A formed cluster, with all nodes registered."""
    found = made(directory, *words)
    try:
        found.start(*NAMES)
        found.wait(lambda: all(one.address for name in NAMES for one in found.state(name).nodes))
        yield found
    finally:
        found.end()


def free_ports(count: int) -> list[int]:
    """Return ports that no connection of another process gets, while a node that has one is stopped."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the broker's, which may use it besides
        one.bind(("127.0.0.1", 0))
    _held.extend(held)
    while len(_held) > _HELD_MAX:
        _held.popleft().close()
    return [one.getsockname()[1] for one in held]
