"""The cluster as a node sees it."""

import asyncio
from contextlib import suppress
from typing import Annotated, Literal

from msgspec import Meta, Struct

from goqueue.api.endpoint import ApiCall
from goqueue.cluster.membership import EventKind, NodeStatus
from goqueue.errors import ClusterOff, NodeNotFound
from goqueue.limits import OFFSET_MAX
from goqueue.quantities import format_time, quoted
from goqueue.runtime.cluster.cluster_facts import ClusterFacts, ClusterHealth, NodeFacts, NodeRole, cluster_facts
from goqueue.runtime.cluster.cluster_node import ClusterNode

_WAIT_SECONDS_MAX = 30.0
_LOOK_SECONDS = 0.5
"""Between two looks whether the broker stops."""


class ClusterNodeJson(Struct, kw_only=True):
    node_id: str
    status: Annotated[NodeStatus, Meta(description="By how long the node that answers has not heard of it.")]
    role: Annotated[NodeRole, Meta(description="An observer has no vote.")]
    directory_id: str | None
    broker_epoch: Annotated[int | None, Meta(description="Of its process; null until it is registered.")]
    address: Annotated[str | None, Meta(description="For clients.")]
    peer_address: str | None
    version: str | None
    feature_level: Annotated[int | None, Meta(description="The feature level that its version knows.")]
    registered_at: str | None
    silent_seconds: Annotated[float | None, Meta(description="Since it was heard; null if it never was.")]
    problem: Annotated[str | None, Meta(description="Why there is no connection with it, or it has no vote.")]


class ClusterEventJson(Struct):
    at: str
    event: EventKind
    node_id: str


class ClusterStateResponse(Struct, kw_only=True):
    node_id: Annotated[str, Meta(description="The node that answers.")]
    cluster_id: Annotated[str | None, Meta(description="Null until all voters were there once.")]
    controller_id: Annotated[str | None, Meta(description="Null while there is none.")]
    epoch: Annotated[int, Meta(description="The term of the controller.")]
    version: Annotated[int, Meta(description="Number of records of the cluster that this node has applied.")]
    feature_level: Annotated[int, Meta(description="What all nodes know; nothing of a later level is in use.")]
    has_vote: bool
    waiting_for: Annotated[list[str], Meta(description="Nodes that the first formation waits for.")]
    nodes: list[ClusterNodeJson]
    events: Annotated[list[ClusterEventJson], Meta(description="What this node has seen of late, the newest first.")]


class ClusterStateQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    since: Annotated[
        Annotated[int, Meta(ge=0, le=OFFSET_MAX)] | None,
        Meta(description="With `wait`: answer once `version` is above."),
    ] = None
    wait: Annotated[float, Meta(ge=0, le=_WAIT_SECONDS_MAX, description="Seconds to wait.")] = 0.0


class ClusterHealthQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    node: Annotated[str | None, Meta(description="Fills `safe_to_stop` for this node.")] = None
    safe_to_stop: Annotated[str | None, Meta(description="The same as `node`.")] = None


class ClusterHealthResponse(Struct, kw_only=True):
    status: Annotated[
        ClusterHealth,
        Meta(
            description="fail: no controller, or partitions without a leader; degraded: nodes or replicas are missing."
        ),
    ]
    controller_id: str | None
    quorum: Annotated[bool, Meta(description="Whether this node sees a majority of the voters.")]
    voters: int
    voters_alive: int
    safe_to_stop: Annotated[
        bool | None, Meta(description="Whether a majority and enough replicas are left without `node`.")
    ]
    unsafe_because: Annotated[str | None, Meta(description="What would be missing without `node`.")]
    draining: Annotated[list[str], Meta(description="Nodes that shall lead nothing.")]
    topics: Annotated[
        Literal["replicated", "not_replicated", "unknown"],
        Meta(
            description="not_replicated: each node has its own, until all nodes have a version that shares them; "
            "unknown: this node has not followed the cluster since it was started."
        ),
    ]
    partitions: int
    offline_partitions: Annotated[int, Meta(description="Without a leader.")]
    under_replicated_partitions: Annotated[int, Meta(description="With replicas that are not in sync.")]
    under_min_isr_partitions: Annotated[int, Meta(description="With fewer replicas in sync than `min_isr`.")]


def member_of(call: ApiCall) -> ClusterNode:
    """Return this node as a member of its cluster. Raises ClusterOff."""
    if call.app.cluster is None:
        raise ClusterOff(
            "the broker runs alone: it has no cluster settings",
            hint="set cluster.peers and cluster.secret_file, or try `goqueue cluster dev`",
        )
    return call.app.cluster


async def describe_state(call: ApiCall, query: ClusterStateQuery) -> ClusterStateResponse:
    member = member_of(call)
    if query.since is not None and query.wait:
        await _wait_for_more(call, member, query.since, query.wait)
    facts = cluster_facts(member)
    return ClusterStateResponse(
        node_id=facts.node,
        cluster_id=facts.cluster_id,
        controller_id=facts.controller,
        epoch=facts.term,
        version=facts.version,
        feature_level=facts.feature_level,
        has_vote=facts.has_vote,
        waiting_for=list(facts.waiting_for),
        nodes=[_node(one) for one in facts.nodes],
        events=[ClusterEventJson(format_time(at), kind, node) for at, kind, node in reversed(member.events)],
    )


async def _wait_for_more(call: ApiCall, member: ClusterNode, version: int, seconds: float) -> None:
    """Wait for a record above this version, or until the broker stops."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while member.log.applied_end <= version and not call.runtime.is_stopping and (left := until - loop.time()) > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(min(left, _LOOK_SECONDS)):
                await member.changed.wait()


def _node(facts: NodeFacts) -> ClusterNodeJson:
    return ClusterNodeJson(
        node_id=facts.node,
        status=facts.status,
        role=facts.role,
        directory_id=facts.directory,
        broker_epoch=facts.broker_epoch,
        address=facts.client_address,
        peer_address=facts.peer_address,
        version=facts.version,
        feature_level=facts.feature_level,
        registered_at=None if facts.registered_ns is None else format_time(facts.registered_ns),
        silent_seconds=None if facts.silence_seconds is None else round(facts.silence_seconds, 3),
        problem=facts.problem,
    )


def _sharing(member: ClusterNode) -> Literal["replicated", "not_replicated", "unknown"]:
    if member.log.state.feature_level:
        return "replicated"
    return "not_replicated" if member.is_registered else "unknown"


async def describe_health(call: ApiCall, query: ClusterHealthQuery) -> ClusterHealthResponse:
    member = member_of(call)
    facts: ClusterFacts = cluster_facts(member)
    node = query.safe_to_stop if query.node is None else query.node
    if node is not None and all(one.node != node for one in facts.nodes):
        raise NodeNotFound(f"the cluster has no node {quoted(node)}", hint="GET /cluster/state lists the nodes")
    return ClusterHealthResponse(
        status=facts.health,
        controller_id=facts.controller,
        quorum=facts.has_quorum,
        voters=facts.voters_max,
        voters_alive=facts.voters_alive,
        safe_to_stop=None if node is None else facts.is_safe_to_stop(node),
        unsafe_because=None if node is None else facts.why_not_to_stop(node),
        draining=sorted(facts.draining),
        topics=_sharing(member),
        partitions=facts.partitions.count,
        offline_partitions=facts.partitions.offline,
        under_replicated_partitions=facts.partitions.under_replicated,
        under_min_isr_partitions=facts.partitions.under_min_isr,
    )
