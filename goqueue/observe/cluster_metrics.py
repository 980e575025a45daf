"""Metrics of a cluster, as one of its nodes sees it; missing where the broker runs alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from goqueue.observe.state_metrics import Samples

CLUSTER_METRICS: Final[tuple[tuple[str, Literal["counter", "gauge"], str, tuple[str, ...]], ...]] = (
    ("has_controller", "gauge", "1 if this node knows a controller of its cluster, else 0.", ()),
    ("is_controller", "gauge", "1 if this node is the controller, else 0.", ()),
    ("epoch", "gauge", "The term of the controller.", ()),
    ("records", "gauge", "Records of the cluster that this node has applied.", ()),
    ("nodes", "gauge", "Nodes of the cluster by status, as this node sees them.", ("status",)),
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


def collect_cluster(values: ClusterMetricValues | None) -> Iterator[tuple[str, Samples]]:
    for name, _, _, labels in CLUSTER_METRICS:
        samples: Samples = []
        if values is not None and labels:
            samples = [((status,), float(count)) for status, count in sorted(values.nodes.items())]
        elif values is not None:
            samples = [((), float(getattr(values, name)))]
        yield f"goqueue_cluster_{name}", samples
