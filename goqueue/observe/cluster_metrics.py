"""Metrics of a cluster, as one of its nodes sees it; missing where the broker runs alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from goqueue.observe.state_metrics import Samples

CLUSTER_METRICS: Final[tuple[tuple[str, Literal["counter", "gauge"], str, tuple[str, ...]], ...]] = (
    ("has_controller", "gauge", "1 if this node knows a controller of its cluster, else 0.", ()),
    ("is_controller", "gauge", "1 if this node is the controller, else 0.", ()),
    ("epoch", "gauge", "The term of the controller.", ()),
    ("records", "gauge", "Records of the cluster that this node has applied.", ()),
    ("nodes", "gauge", "Nodes of the cluster by status, as this node sees them.", ("status",)),
    ("partitions", "gauge", "Partitions of the cluster.", ()),
    ("offline_partitions", "gauge", "Partitions of the cluster without a leader.", ()),
    ("under_replicated_partitions", "gauge", "Partitions with replicas that are not in sync.", ()),
    ("under_min_isr_partitions", "gauge", "Partitions with fewer replicas in sync than `min_isr`.", ()),
    ("led_partitions", "gauge", "Partitions that this node leads.", ()),
    ("replica_lag_messages", "gauge", "Messages that a node lacks of the partitions that this node leads.", ("node",)),
    ("replication_bytes_sent", "counter", "Bytes of frames sent to the replicas of a node.", ("node",)),
    ("replication_bytes_received", "counter", "Bytes of frames that came from the leaders of a node.", ("node",)),
    ("isr_shrinks", "counter", "Times that replicas were taken out of an ISR, by the cluster's records.", ()),
    ("isr_expansions", "counter", "Times that replicas came back into an ISR, by the cluster's records.", ()),
    ("leader_elections", "counter", "Leaders that partitions have got, by the cluster's records.", ()),
    ("unclean_elections", "counter", "Those that may lack committed messages, by the cluster's records.", ()),
    ("damaged_replicas", "gauge", "Replicas of this node that are damaged and not repaired yet.", ()),
    ("repaired_ranges", "counter", "Damaged ranges of this node that were repaired from other replicas.", ()),
    ("moving_partitions", "gauge", "Partitions whose replicas move to other nodes.", ()),
    ("move_bytes_left", "gauge", "Bytes that new replicas lack of the partitions that this node leads.", ()),
    ("controller_changes", "counter", "Controllers that this node has come to know.", ()),
    ("authentication_failures", "counter", "Connections between nodes that ended because the secrets differ.", ()),
)
"""Name, kind, description and labels of each metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetricValues:
    """The numbers of a node."""

    has_controller: bool
    is_controller: bool
    epoch: int
    records: int
    controller_changes: int
    authentication_failures: int
    nodes: Mapping[str, int]
    """By status."""
    partitions: int = 0
    offline_partitions: int = 0
    under_replicated_partitions: int = 0
    under_min_isr_partitions: int = 0
    led_partitions: int = 0
    replica_lag_messages: Mapping[str, int] = field(default_factory=dict)
    """By node, as the two that follow."""
    replication_bytes_sent: Mapping[str, int] = field(default_factory=dict)
    replication_bytes_received: Mapping[str, int] = field(default_factory=dict)
    isr_shrinks: int = 0
    isr_expansions: int = 0
    leader_elections: int = 0
    unclean_elections: int = 0
    damaged_replicas: int = 0
    repaired_ranges: int = 0
    moving_partitions: int = 0
    move_bytes_left: int = 0


def collect_cluster(values: ClusterMetricValues | None) -> Iterator[tuple[str, Samples]]:
    for name, _, _, labels in CLUSTER_METRICS:
        samples: Samples = []
        if values is not None and labels:
            counts: Mapping[str, int] = getattr(values, name)
            samples = [((label,), float(count)) for label, count in sorted(counts.items())]
        elif values is not None:
            samples = [((), float(getattr(values, name)))]
        yield f"goqueue_cluster_{name}", samples
