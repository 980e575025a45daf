"""The metadata of a cluster as its nodes give it to clients."""

import msgspec


class NodeEndpoint(msgspec.Struct, frozen=True):
    """A node as clients reach it."""

    node: str
    client_address: str | None = None
    rack: str | None = None
    status: str = ""


class PartitionLeader(msgspec.Struct, frozen=True):
    """The leader of a partition, and the nodes with replicas of it."""

    partition: int
    leader: str | None = None
    """None or empty while there is none."""
    leader_epoch: int = 0
    replicas: list[str] = []
    isr: list[str] = []


class TopicLeaders(msgspec.Struct, frozen=True):
    """The leaders of a topic's partitions."""

    name: str
    partitions: list[PartitionLeader]


class ClusterMetadata(msgspec.Struct, frozen=True):
    """The nodes of a cluster, and the leaders of topics; `version` grows with each change."""

    version: int
    nodes: list[NodeEndpoint]
    topics: list[TopicLeaders]
    controller: str | None = None
