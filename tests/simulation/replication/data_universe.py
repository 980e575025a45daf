"""A whole cluster with replicated topics in one seed: controllers, replicas, connections, disks and clients."""

from functools import partial
from itertools import combinations
from typing import Literal, cast

from goqueue.broker.core.topic import TopicSettings
from goqueue.cluster.controller import ControllerSettings
from goqueue.cluster.controller_requests import (
    CancelReassignment,
    CreateTopic,
    DeleteTopic,
    StartReassignment,
)
from goqueue.cluster.leader_replica import ReplicaSettings
from goqueue.cluster.partitions import PartitionId
from tests.simulation.cluster.universe import MS, SECOND, Universe
from tests.simulation.replication.data_node import DataNode
from tests.simulation.replication.data_oracles import DataOracles
from tests.simulation.replication.links import Connection

TOPIC = "t"
PARTITIONS = 2
_CONNECT_NS = 100 * MS
_BREAKS = 0.05
"""The chance that a connection over a link that is cut ends within that time."""


class SimulatedClient:
    """Publishes to one partition, one value after the other; each is sent again until it is answered."""

    def __init__(self, universe: "DataUniverse", number: int) -> None:
        self.universe, self.number = universe, number
        self.value = 0
        self.is_waiting = False
        self._attempt = 0

    def work(self) -> None:
        """Send the next value, or the same once more."""
        universe, random = self.universe, self.universe.random
        if not self.is_waiting and not universe.is_quiet:
            self.is_waiting, self.value = True, self.value + 1
        node = random.choice(universe.data_nodes)
        found = universe.partition(node, self.number)
        if self.is_waiting and found is not None:
            log, leader = found
            self._attempt += 1
            to = universe.node(leader)
            if to.raft is not None:
                reply = partial(self._answered, self._attempt, self.value)
                to.later(universe.delay(), to.publish, log, f"{self.number}-{self.value}", reply)
        universe.at(universe.now + round(random.uniform(0.1, 1) * universe.patience_ns), self.work)

    def _answered(self, attempt: int, value: int, offset: int | None) -> None:
        if offset is not None and value == self.value and random_arrives(self.universe):
            self.is_waiting = False
        del attempt


def random_arrives(universe: "DataUniverse") -> bool:
    """Return whether an answer reaches its client."""
    return universe.random.random() >= universe.loss


class DataUniverse(Universe):
    """A cluster with one topic."""

    node_type = DataNode

    def __init__(self, seed: int, count: int) -> None:
        super().__init__(seed, count)
        self.is_quiet = False
        self.controller_settings = ControllerSettings(replication_factor=3, min_isr=2)
        self.replica_settings = ReplicaSettings(
            lag_ns=500 * MS, steady_ns=300 * MS, steady_ns_max=SECOND, repeat_ns=400 * MS
        )
        self.data_nodes = cast("list[DataNode]", self.nodes)
        self.data_oracles = DataOracles(self)
        self.retention = self.random.choice((0, 0.05))
        self.lost_nodes: set[str] = set()
        """Nodes whose disk has lost what they had confirmed."""
        self.joiner_fault: Literal["lose", "stall"] | None = {3: "lose", 2: "stall"}.get(seed % 4)  # type: ignore[assignment]
        """What happens to the disk of a node that is about to enter an ISR."""
        self.next_joiner_ns = 0
        self.patience_ns = 400 * MS
        """After which time, at the most, a client asks again."""
        self.moves_partitions = count > 3 and seed % 3 == 0
        self.recreates_topics = self.random.random() < 0.2
        self.clients = [SimulatedClient(self, number) for number in range(PARTITIONS)]
        self._connections = [Connection(self, *pair) for pair in combinations(self.data_nodes, 2)]
        self._has_topic = False

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        self.at(0, self._connect)
        self.at(0, self._operate)
        for client in self.clients:
            self.at(round(self.random.random() * SECOND), client.work)

    def node(self, name: str) -> DataNode:
        return next(node for node in self.data_nodes if node.name == name)

    def delay(self) -> int:
        return round(self.random.expovariate(1) * self.delay_ns)

    def connections_of(self, name: str) -> list[Connection]:
        return [one for one in self._connections if name in one.nodes]

    def partition(self, node: DataNode, number: int) -> tuple[PartitionId, str] | None:
        """Return a partition and its leader as a node knows them."""
        topic = node.state.topics.get(TOPIC)
        if node.raft is None or topic is None:
            return None
        log = PartitionId(topic.created_ns, number)
        state = node.state.partitions.get(log)
        return (log, state.leader) if state is not None and state.leader else None

    # --- what goes on beside ---

    def _connect(self) -> None:
        for one in self._connections:
            if one.is_up:
                if one.is_cut and self.random.random() < _BREAKS:
                    one.end()
            elif not one.is_cut and all(self._is_running(node) for node in one.nodes.values()):
                one.connect()
        self.at(self.now + _CONNECT_NS, self._connect)

    def _is_running(self, node: DataNode) -> bool:
        return node.raft is not None and node.paused_until <= self.now

    def _operate(self) -> None:
        """Create the topic as soon as all nodes are there; sometimes delete it, and create it again."""
        node = self.random.choice(self.data_nodes)
        if node.raft is not None and len(node.state.nodes) == len(self.nodes):
            if TOPIC not in node.state.topics:
                node.ask(CreateTopic(TOPIC, PARTITIONS, TopicSettings()))
            elif self.recreates_topics and not self.is_quiet and self.random.random() < 0.05:
                node.ask(DeleteTopic(TOPIC))
            elif self.moves_partitions and not self.is_quiet:
                self._move(node)
        self.at(self.now + 200 * MS, self._operate)

    def _move(self, node: DataNode) -> None:
        """Move a partition to other nodes; sometimes cancel that."""
        random, topic = self.random, node.state.topics[TOPIC]
        target = tuple(random.sample([one.name for one in self.data_nodes], random.choice((2, 3, 3, 4))))
        if random.random() < 0.3:
            log = PartitionId(topic.created_ns, random.randrange(PARTITIONS))
            node.ask(StartReassignment(((log, target),)))
        elif node.state.reassignments and random.random() < 0.1:
            node.ask(CancelReassignment(max(node.state.reassignments)))

    def break_connections(self) -> None:
        """Reset some of them."""
        for one in self._connections:
            if self.random.random() < 0.5:
                one.end()
