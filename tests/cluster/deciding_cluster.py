"""A controller whose records are applied at once: no log, no network, no time."""

from msgspec import convert

from goqueue.broker.core.topic import TopicSettings
from goqueue.cluster.controller import Controller, ControllerSettings, Records
from goqueue.cluster.controller_requests import ControllerRequest, CreateTopic
from goqueue.cluster.messages import NodeIdentity
from goqueue.cluster.metadata import ClusterCreated, ClusterState, NodeRegistered
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.replication_messages import IsrChange

NODES = ("n1", "n2", "n3")


class Cluster:
    """A controller whose records are applied at once."""

    def __init__(self, *nodes: str, min_isr: int = 2, level: int = 1) -> None:
        self.state = ClusterState()
        self.controller = Controller(self.state, ControllerSettings(3, min_isr))
        self.offset = 0
        self.apply([ClusterCreated("c", tuple(NodeIdentity(node, f"disk-{node}") for node in nodes), 0)])
        for node in nodes:
            self.start(node, level=level)

    def apply(self, records: Records) -> Records:
        for record in records:
            self.state.apply(record, self.offset)
            self.offset += 1
        return records

    def ask(self, request: ControllerRequest, now_ns: int = 1) -> Records:
        return self.apply(self.controller.decide(request, now_ns))

    def start(
        self,
        node: str,
        *,
        disk: str = "",
        damaged: tuple[PartitionId, ...] = (),
        is_whole: bool = True,
        rack: str = "",
        level: int = 1,
    ) -> None:
        """Start a process of a node."""
        record = NodeRegistered(node, disk or f"disk-{node}", "p", "http://a", "a:1", "1", 0, rack, level)
        self.apply(self.controller.register(record, damaged, is_whole=is_whole))

    def fence(self, *nodes: str) -> None:
        for node in nodes:
            self.apply(self.controller.fence(node))

    def unfence(self, node: str) -> None:
        self.apply(self.controller.unfence(node))

    def create(self, name: str = "t", partitions: int = 1, now_ns: int = 1, **settings: int) -> PartitionId:
        self.ask(CreateTopic(name, partitions, convert(settings, TopicSettings)), now_ns)
        return PartitionId(self.state.topics[name].created_ns, 0)

    def change_isr(self, partition: PartitionId, *nodes: str, **other: object) -> Records:
        state = self.state.partitions[partition]
        isr = tuple((node, self.epoch(node)) for node in nodes)
        fields = {"leader": state.leader, "leader_epoch": state.leader_epoch, "partition_epoch": state.partition_epoch}
        return self.ask(IsrChange(**{"log": partition, **fields, "isr": isr, "reason": "test", **other}))  # type: ignore[arg-type]

    def epoch(self, node: str) -> int:
        return self.state.nodes[node][1] if node in self.state.nodes else 99

    def shown(self, partition: PartitionId) -> str:
        """Return leader and epoch, ISR, and ELR."""
        state = self.state.partitions[partition]
        elr = f" elr {','.join(state.elr)}" if state.elr else ""
        return f"{state.leader or 'none'} in {state.leader_epoch}: {','.join(state.isr)}{elr}"
