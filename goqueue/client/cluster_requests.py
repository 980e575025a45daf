"""The client's methods for a cluster: its nodes and its controller, as the broker at the address sees them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from goqueue.client import api_request
from goqueue.client.api_request import ApiRequest, json_request, with_query
from goqueue.client.cluster_metadata import ClusterMetadata


class ClusterNodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One node of a cluster."""

    node_id: str
    status: str
    """unknown, alive, suspect, dead or leaving: by how long the broker that answers has not heard of it."""
    role: str
    """controller, voter or observer."""
    address: str | None = None
    """For clients; None until it is registered."""
    peer_address: str | None = None
    directory_id: str | None = None
    broker_epoch: int | None = None
    """The epoch of its process: each start has a greater one."""
    version: str | None = None
    registered_at: str | None = None
    silent_seconds: float | None = None
    """Since it was heard; None if it never was."""
    problem: str | None = None
    """Why there is no connection with it or why it has no vote, where an operator must act."""


class ClusterStateInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster as one of its nodes sees it."""

    node_id: str
    """The node that answers."""
    cluster_id: str | None
    """None until all voters were there once."""
    controller_id: str | None
    epoch: int
    """The term of the controller."""
    version: int
    """Number of records of the cluster that the node has applied."""
    has_vote: bool
    waiting_for: list[str]
    """Nodes that the first formation waits for."""
    nodes: list[ClusterNodeInfo]
    events: list[dict[str, Any]]
    """The latest events that the node has seen, the newest first: `at`, `event`, `node_id`."""


class ClusterHealthInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a cluster."""

    status: str
    """ok, degraded (nodes or replicas are missing) or fail (no controller, or partitions without a leader)."""
    controller_id: str | None
    quorum: bool
    voters: int
    voters_alive: int
    safe_to_stop: bool | None = None
    """Whether a majority and enough replicas are left without the node that was asked for."""
    topics: str = "not_replicated"
    partitions: int = 0
    offline_partitions: int = 0
    under_replicated_partitions: int = 0
    under_min_isr_partitions: int = 0


def cluster_metadata(topics: Sequence[str] = ()) -> ApiRequest[ClusterMetadata]:
    return json_request("GET", with_query("/cluster/metadata", topic=list(topics)), ClusterMetadata)


class ClusterAdmin:
    """The nodes of a cluster."""

    @api_request.operation
    def cluster_state(self, *, since: int | None = None, wait: float = 0) -> ApiRequest[ClusterStateInfo]:
        """Return the nodes and the controller; with `wait`, once there are more records than `since`, or in time.

        Raises ClusterOff if the broker runs alone.
        """
        path = with_query("/cluster/state", since=since, wait=wait or None)
        return json_request("GET", path, ClusterStateInfo)

    @api_request.operation
    def cluster_metadata(self, *topics: str) -> ApiRequest[ClusterMetadata]:
        """Return the nodes and who leads the partitions of these topics, or of all."""
        return cluster_metadata(topics)

    @api_request.operation
    def cluster_health(self, *, node: str | None = None) -> ApiRequest[ClusterHealthInfo]:
        """Return whether there is a controller, and whether `node` can be stopped."""
        return json_request("GET", with_query("/cluster/health", node=node), ClusterHealthInfo)
