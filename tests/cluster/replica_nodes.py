"""Nodes with real disks and connections in one process, whose leaders a test decides as the controller would."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from goqueue.broker.core.commit import CommitLevel
from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.topic import TopicSpec
from goqueue.clock import SystemClock
from goqueue.cluster.elections import remove_replica
from goqueue.cluster.feature_levels import FEATURE_LEVEL
from goqueue.cluster.leader_replica import ReplicaSettings
from goqueue.cluster.messages import NodeIdentity
from goqueue.cluster.metadata import ClusterState
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.peer_messages import PROTOCOL, Hello
from goqueue.cluster.replication_messages import IsrChange, RaiseEpoch, ResignLeadership
from goqueue.errors import ControllerUnavailable, IsrChangeRefused
from goqueue.observe.metrics import Metrics
from goqueue.runtime.cluster.local_replica import LocalReplica
from goqueue.runtime.cluster.peer_network import PeerHandlers, PeerNetwork
from goqueue.runtime.cluster.replicas import Replicas
from goqueue.runtime.runtime import Runtime
from goqueue.storage import frame
from goqueue.storage.disk import Disk, SystemDisk
from goqueue.storage.store import StoreSettings
from tests.cluster.processes import free_ports

NODES = ("n1", "n2", "n3")
LOG = PartitionId(1, 0)
TOPIC = "orders"
SECRET = b"the secret of a test"
WAIT_SECONDS = 60


class ReplicaNode:
    """One node: a runtime, connections, and the committed state as the test gives it."""

    def __init__(self, cluster: "ReplicaCluster", name: str, disk: Disk, store: StoreSettings) -> None:
        self.cluster = cluster
        self.me = self.node = name
        self.state = ClusterState()
        self.state.feature_level = FEATURE_LEVEL
        self.broker_epoch, self.applied_end = 1, 0
        self.is_held, self.feature_level = True, FEATURE_LEVEL
        self.settings = self.log = self.presence = self.lease = self
        self.runtime = Runtime(disk, SystemClock(), Metrics("1"))
        self._store = store
        self.network: PeerNetwork
        self.replicas: Replicas

    async def start(self) -> None:
        self.runtime.start(str(self.cluster.path / self.me), "a test", self._store)
        if TOPIC not in self.runtime.broker.topics:
            await self.runtime.create_topic(TopicSpec(name=TOPIC, partitions=1))
        self.runtime.broker.topics[TOPIC].created_ns = LOG.topic_id
        self.replicas = Replicas(self, self.runtime, ReplicaSettings())
        self.replicas.start()
        handlers = PeerHandlers(
            lambda: Hello(PROTOCOL, NodeIdentity(self.me, "d"), "", NODES, (), ""),
            lambda _: None,
            self.replicas.connected,
            lambda _, __: None,
            self.replicas.ended,
            lambda _: None,
            self.replicas.received,
            self.replicas.data,
        )
        self.network = PeerNetwork(self.me, self.cluster.addresses, SECRET, handlers)
        await self.network.start(self.cluster.addresses[self.me])

    async def stop(self) -> None:
        await self.network.stop()
        await self.replicas.stop()
        await self.runtime.stop()

    async def ask(self, request: IsrChange | ResignLeadership | RaiseEpoch) -> None:
        self.cluster.decide(request)

    @property
    def replica(self) -> LocalReplica:
        return self.replicas.local[LOG]

    @property
    def partition(self) -> Partition:
        return self.runtime.broker.topics[TOPIC].partitions[0]

    def take(self, state: PartitionState) -> None:
        self.state.partitions[LOG] = state
        self.replicas.on_state(frozenset([LOG]))

    async def publish(self, *values: bytes, level: CommitLevel = CommitLevel.COMMITTED) -> Placement:
        frames = [frame.encode(value) for value in values]
        return await self.runtime.offer(self.partition, frames, sum(map(len, frames)), level)

    async def content(self) -> bytes:
        """Return all frames that readers see here."""
        found, offset = b"", self.partition.earliest
        while True:
            read = await self.runtime.perform(self.partition.read_uncommitted(offset, 1 << 20))
            if not read.buffers:
                return found
            found += b"".join(map(bytes, read.buffers))
            offset = read.next_offset

    async def values(self) -> list[bytes]:
        content = await self.content()
        messages = [frame.decode(content, place) for place in frame.walk(content)]
        return [one.value for one in messages if not one.flags & frame.CONTROL]


class ReplicaCluster:
    """Three nodes with one partition."""

    def __init__(self, path: Path, disks: dict[str, Disk] | None = None, store: StoreSettings | None = None) -> None:
        self.path = path
        self.addresses = {name: ("127.0.0.1", port) for name, port in zip(NODES, free_ports(len(NODES)), strict=True)}
        self._disks, self._store = disks or {}, store or StoreSettings()
        self.nodes: dict[str, ReplicaNode] = {}
        self.state = PartitionState(NODES, "", 0, 0, NODES, 2)
        self.asked: list[IsrChange | ResignLeadership | RaiseEpoch] = []
        self.refuses = self.is_away = False
        self.reason = "partition_epoch"

    async def start(self, *names: str) -> None:
        for name in names or NODES:
            node = self.nodes[name] = ReplicaNode(self, name, self._disks.get(name) or SystemDisk(), self._store)
            await node.start()

    async def stop(self, *names: str) -> None:
        for name in names or list(self.nodes):
            await self.nodes.pop(name).stop()
        for _ in range(5):  # connections that were just accepted are closed
            await asyncio.sleep(0)

    def change(self, **changes: object) -> None:
        """Commit another state of the partition."""
        self.state = replace(self.state, partition_epoch=self.state.partition_epoch + 1, **changes)
        self.tell()

    def tell(self) -> None:
        for node in self.nodes.values():
            node.take(self.state)

    def lead(self, name: str, **changes: object) -> ReplicaNode:
        self.change(leader=name, leader_epoch=self.state.leader_epoch + 1, **changes)
        return self.nodes[name]

    def decide(self, request: IsrChange | ResignLeadership | RaiseEpoch) -> None:
        self.asked.append(request)
        if self.is_away:
            raise ControllerUnavailable("the controller is away")
        if isinstance(request, IsrChange):
            if self.refuses or request.partition_epoch != self.state.partition_epoch:
                raise IsrChangeRefused("no", reason=self.reason)
            self.change(isr=tuple(node for node, _ in request.isr))
        elif (
            isinstance(request, ResignLeadership)
            and request.is_damaged
            and (request.leader, request.leader_epoch)
            == (
                self.state.leader,
                self.state.leader_epoch,
            )
        ):
            following = remove_replica(self.state, request.leader, lambda one: one in self.nodes, is_damaged=True)
            if following is not None and following.leader:
                self.state = following
                self.tell()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition is true, or fail."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not condition():
                await asyncio.sleep(0.001)

    async def until_settled(self, name: str) -> None:
        role = self.nodes[name].replica.leadership
        await self.until(lambda: role.is_leading and role.is_settled)

    async def until_alike(self) -> bytes:
        """Wait until all replicas show the same; return their frames."""
        ends = [node.partition for node in self.nodes.values()]
        await self.until(lambda: len({(one.high_watermark, one.log_end) for one in ends}) == 1)
        contents = {await node.content() for node in self.nodes.values()}
        assert len(contents) == 1
        return contents.pop()
