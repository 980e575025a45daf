"""Nodes of a cluster in one process: real disks, connections and timers.

Their times are short, but longer than a busy machine lets this process wait.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from goqueue.broker.core.topic import Topic, TopicSettings, TopicSpec
from goqueue.clock import NANOSECONDS, SystemClock
from goqueue.cluster.feature_levels import FEATURE_LEVEL
from goqueue.cluster.membership import MembershipSettings
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.raft_state import RaftSettings
from goqueue.observe.metrics import Metrics
from goqueue.runtime.cluster.cluster_node import ClusterNode
from goqueue.runtime.cluster.cluster_settings import ClusterSettings
from goqueue.runtime.runtime import Runtime
from goqueue.storage.disk import SystemDisk
from goqueue.storage.store import StoreSettings
from tests.cluster.processes import free_ports

NAMES = ("n1", "n2", "n3")
_MS = NANOSECONDS // 1000
_WAIT_SECONDS = 60


class RunningNode:
    """One node; it can end without a word, and start again."""

    def __init__(self, directory: Path, settings: ClusterSettings) -> None:
        self.directory, self.settings = directory, settings
        self.runtime: Runtime
        self.member: ClusterNode

    async def start(self) -> None:
        self.runtime = Runtime(SystemDisk(), SystemClock(), Metrics("1"))
        self.runtime.start(str(self.directory), "test", StoreSettings())
        self.member = ClusterNode(self.runtime, self.settings)
        await self.member.start()

    async def stop(self) -> None:
        await self.member.stop()
        await self.runtime.stop()

    async def crash(self) -> None:
        """End all connections at once. What is on the disk stays."""
        self.member.is_stopping = True
        for link in self.member.network.links.values():
            link.abort()
        self.member.raft = None
        await self.stop()

    @property
    def name(self) -> str:
        return self.settings.node

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        """Return the state of a partition that is applied here."""
        state = self.member.log.state
        return state.partitions[PartitionId(state.topics[topic].created_ns, partition)]

    async def create(self, name: str, partitions: int = 1, **settings: int | str) -> Topic:
        spec = TopicSpec(name=name, partitions=partitions, settings=TopicSettings(**settings))  # type: ignore[arg-type]
        return await self.runtime.create_topic(spec)


class RunningCluster:
    """Nodes below one directory."""

    def __init__(
        self, directory: Path, *names: str, session_ms: int = 2_000, feature_level: int = FEATURE_LEVEL
    ) -> None:
        self._directory = directory
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        peers = {name: ("127.0.0.1", port) for name, port in ports.items()}
        membership = MembershipSettings(2 * NANOSECONDS, 3 * NANOSECONDS)
        self.nodes = {
            name: RunningNode(
                directory / name,
                ClusterSettings(
                    name, peers, peers[name], b"a secret for tests", None, f"http://{name}", 0.5, membership,
                    RaftSettings(500 * _MS, 50 * _MS),
                    session_ns=session_ms * _MS, feature_level=feature_level,
                ),
            )
            for name in names
        }  # fmt: skip

    async def grow(self, name: str) -> None:
        """Start another node, without a vote, and wait until it is registered."""
        (port,) = free_ports(1)
        settings = replace(
            next(iter(self.nodes.values())).settings,
            node=name,
            listen=("127.0.0.1", port),
            client_address=f"http://{name}",
        )
        self.nodes[name] = RunningNode(self._directory / name, settings)
        await self.nodes[name].start()
        await self.agree(lambda node: name in node.member.log.state.nodes)

    def __getitem__(self, name: str) -> RunningNode:
        return self.nodes[name]

    async def start(self) -> None:
        await asyncio.gather(*(node.start() for node in self.nodes.values()))

    async def form(self) -> None:
        """Start all, and wait until all know each other."""
        await self.start()
        for node in self.nodes.values():
            await wait(node, lambda node=node: node.member.log.state.feature_level > 0)  # type: ignore[misc]
        await self.agree(lambda _: any(node.member.office.controller is not None for node in self.nodes.values()))

    async def end(self) -> None:
        for node in self.nodes.values():
            if not node.member.is_stopping:
                await node.stop()

    @property
    def controller(self) -> RunningNode:
        return next(node for node in self.nodes.values() if node.member.office.controller is not None)

    async def agree(self, condition: Callable[[RunningNode], bool], *names: str) -> None:
        """Wait until these nodes see it so."""
        for name in names or self.nodes:
            await wait(self.nodes[name], lambda name=name: condition(self.nodes[name]))  # type: ignore[misc]


async def wait(node: RunningNode, condition: Callable[[], bool]) -> None:
    """Wait for a condition; it is looked at after each change at this node."""
    async with asyncio.timeout(_WAIT_SECONDS):
        while not condition():
            try:
                async with asyncio.timeout(0.05):
                    await node.member.changed.wait()
            except TimeoutError:
                pass


def run(main: Callable[[RunningCluster], object], directory: Path, *names: str, **how: int) -> None:
    """Run a test against a cluster that has formed."""

    async def running() -> None:
        cluster = RunningCluster(directory, *(names or NAMES), **how)
        await cluster.form()
        try:
            await main(cluster)  # type: ignore[misc]
        finally:
            await cluster.end()

    asyncio.run(running())
