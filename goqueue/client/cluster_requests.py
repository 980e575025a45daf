"""The client's methods for a cluster: its nodes and its controller, as the broker at the address sees them."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

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
    feature_level: int | None = None
    """The feature level that its version knows."""
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
    feature_level: int = 0
    """What all nodes know: nothing of a later level is in use."""
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
    unsafe_because: str | None = None
    """What would be missing without it."""
    draining: list[str] = []
    """Nodes that shall lead nothing."""
    topics: str = "not_replicated"
    partitions: int = 0
    offline_partitions: int = 0
    under_replicated_partitions: int = 0
    under_min_isr_partitions: int = 0


def cluster_metadata(topics: Sequence[str] = ()) -> ApiRequest[ClusterMetadata]:
    return json_request("GET", with_query("/cluster/metadata", topic=list(topics)), ClusterMetadata)


class ReplicaInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of a partition."""

    node: str
    in_sync: bool
    lag: int | None = None
    """Messages behind the leader; None unless the node that answers leads the partition."""


class ClusterPartitionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a cluster."""

    topic: str
    partition: int
    status: str
    """ok, under_replicated, under_min_isr (publishes are refused) or offline (no leader)."""
    leader: str | None
    leader_epoch: int
    preferred_leader: str
    min_isr: int
    isr: list[str]
    elr: list[str]
    """Not in sync, and with all that is committed."""
    replicas: list[ReplicaInfo]
    unclean_epoch: int | None = None
    """The leader epoch of the last unclean election."""


class RecoveryCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of a partition, and what would be lost if it led. Unknown fields are None."""

    node: str
    can_lead: bool
    problem: str | None = None
    log_start: int | None = None
    log_end: int | None = None
    last_epoch: int | None = None
    high_watermark: int | None = None
    last_time: str | None = None
    lost: int | None = None
    """Records of other replicas that answer and that it lacks."""
    lost_committed: int | None = None
    """How many of them are known to be committed."""


class RecoveryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The replicas of a partition, for an election that is not clean."""

    topic: str
    partition: int
    leader: str | None
    """If there is one, nothing has to be recovered."""
    leader_epoch: int
    isr: list[str]
    elr: list[str]
    unclean_election: str
    has_controller: bool
    candidates: list[RecoveryCandidate]
    """All replicas; the first loses least."""
    losses_known: bool = False
    """If not, more than `lost` may be lost: not all that replicas had is known."""


class ControllerTransferred(msgspec.Struct, frozen=True, kw_only=True):
    """The controller after a transfer."""

    controller_id: str | None
    epoch: int


class VoterReplaced(msgspec.Struct, frozen=True, kw_only=True):
    """A node with the data directory that votes."""

    node_id: str
    directory_id: str
    changed: bool
    """False if it had the vote before."""


class PlannedMove(msgspec.Struct, frozen=True, kw_only=True):
    """The replicas that a partition shall have, the preferred leader first."""

    topic: str
    partition: int
    replicas: list[str]
    before: list[str] = []
    bytes: int = 0
    """To be copied."""


class MoveInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of one partition in a reassignment."""

    topic: str | None
    """None if it was deleted."""
    partition: int
    stage: str
    """waiting, moving, done, kept (cancelled before it moved) or gone (deleted, or moved elsewhere later)."""
    before: list[str]
    replicas: list[str]
    """Those of the plan."""
    isr: list[str]
    bytes: int
    bytes_left: int
    rate: int
    """Bytes of a second, of late."""
    waits_for: str | None = None
    verified: bool = False
    """It has the replicas of the plan, and all are in sync."""


class ReassignmentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Moves of replicas that belong together."""

    id: int
    state: str
    """running, paused, completed or cancelled."""
    moves: int
    done: int
    bytes_left: int
    rate: int
    seconds_left: float | None
    throttle: int
    at_once: int
    started_at: str
    ended_at: str | None
    verified: bool
    partitions: list[MoveInfo] = []
    """Empty in a list of reassignments."""


class NodeDrained(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is drained, or not any more."""

    node_id: str
    draining: bool
    leaders: int
    """Partitions that it still leads."""
    replicas: int


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

    @api_request.operation
    def cluster_partitions(
        self, topic: str | None = None, *, unhealthy: bool = False
    ) -> ApiRequest[list[ClusterPartitionInfo]]:
        """Return the partitions with their replicas: of all topics or of one, and only `unhealthy` ones on request.

        The lag of replicas is known where the node that answers leads.
        """
        path = with_query("/cluster/partitions", topic=topic, unhealthy=unhealthy)
        return json_request("GET", path, list[ClusterPartitionInfo], field="partitions")

    @api_request.operation
    def plan_recovery(self, topic: str, partition: int) -> ApiRequest[RecoveryPlan]:
        """Return what each replica of a partition has, and what would be lost if it led."""
        return json_request("GET", f"/cluster/partition/{quote(topic)}/{partition}/recovery", RecoveryPlan)

    @api_request.operation
    def elect_leader(
        self, topic: str, partition: int, node: str | None = None, *, unclean: bool = False
    ) -> ApiRequest[dict[str, Any]]:
        """Move a leader to a replica in sync, the preferred one by default.

        With `unclean`, a replica that may lack committed messages leads if no other can: what it lacks is lost.
        """
        body = {"topic": topic, "partition": partition, "unclean": unclean} | ({} if node is None else {"node": node})
        return json_request("POST", "/cluster/leader-election", dict[str, Any], body)

    @api_request.operation
    def transfer_controller(self, node: str | None = None) -> ApiRequest[ControllerTransferred]:
        """Let another voter become the controller: the given one, or the one that is the furthest."""
        body = {} if node is None else {"node_id": node}
        return json_request("POST", "/admin/cluster/transfer", ControllerTransferred, body)

    @api_request.operation
    def replace_voter(self, node: str) -> ApiRequest[VoterReplaced]:
        """Give the data directory that a node has now the vote of the one that is lost."""
        return json_request("POST", f"/admin/cluster/voters/{quote(node)}/replace", VoterReplaced)

    @api_request.operation
    def remove_node(self, node: str) -> ApiRequest[dict[str, Any]]:
        """Take a node out of the list: one that is stopped, no voter, and without replicas."""
        return json_request("DELETE", f"/admin/cluster/nodes/{quote(node)}", dict[str, Any])

    @api_request.operation
    def drain_node(self, node: str) -> ApiRequest[NodeDrained]:
        """Have others lead what a node leads, until it is undrained."""
        return json_request("POST", f"/admin/cluster/nodes/{quote(node)}/drain", NodeDrained)

    @api_request.operation
    def undrain_node(self, node: str) -> ApiRequest[NodeDrained]:
        """Let a drained node lead again."""
        return json_request("POST", f"/admin/cluster/nodes/{quote(node)}/undrain", NodeDrained)

    @api_request.operation
    def plan_reassignment(
        self, plan: str, *, node: str | None = None, topics: Sequence[str] | None = None
    ) -> ApiRequest[list[PlannedMove]]:
        """Return the moves of a plan: `balance`, or `drain` or `add` of a node. Nothing is moved."""
        body = {"plan": plan, "node": node, "topics": None if topics is None else list(topics)}
        return json_request("POST", "/admin/reassignment/plan", list[PlannedMove], body, field="moves")

    @api_request.operation
    def start_reassignment(
        self, moves: Sequence[PlannedMove], *, throttle: int = 0, at_once: int | None = None
    ) -> ApiRequest[ReassignmentInfo]:
        """Move replicas; `throttle` is in bytes of a second for each node that sends."""
        rows = [{"topic": one.topic, "partition": one.partition, "replicas": one.replicas} for one in moves]
        body = {"moves": rows, "throttle": throttle, **({} if at_once is None else {"at_once": at_once})}
        return json_request("POST", "/admin/reassignment", ReassignmentInfo, body)

    @api_request.operation
    def reassignments(self) -> ApiRequest[list[ReassignmentInfo]]:
        """Return those under way and the latest that have ended, the newest first."""
        return json_request("GET", "/admin/reassignment", list[ReassignmentInfo], field="reassignments")

    @api_request.operation
    def reassignment(self, number: int) -> ApiRequest[ReassignmentInfo]:
        """Return one reassignment with the progress of its partitions."""
        return json_request("GET", f"/admin/reassignment/{number}", ReassignmentInfo)

    @api_request.operation
    def change_reassignment(
        self, number: int, *, throttle: int | None = None, paused: bool | None = None
    ) -> ApiRequest[ReassignmentInfo]:
        """Pause or resume a reassignment, or change its throttle."""
        body = {"throttle": throttle, "paused": paused}
        return json_request("PATCH", f"/admin/reassignment/{number}", ReassignmentInfo, body)

    @api_request.operation
    def cancel_reassignment(self, number: int) -> ApiRequest[ReassignmentInfo]:
        """Cancel a reassignment: what is on its way goes back, what has moved stays."""
        return json_request("DELETE", f"/admin/reassignment/{number}", ReassignmentInfo)
