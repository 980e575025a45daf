"""Requests between nodes over HTTP, by the names that other GoQueue clients know. Nodes use their connections.

Each request is signed with the secret of the cluster: `goqueue-peer: TIME PROOF`, see `request_proof`.
"""

import asyncio
from typing import Annotated, Literal

from msgspec import Meta, Struct

from goqueue.api.cluster import member_of
from goqueue.api.endpoint import ApiCall
from goqueue.clock import NANOSECONDS
from goqueue.cluster.handshake import is_same_proof, request_proof
from goqueue.cluster.membership import NodeStatus
from goqueue.cluster.messages import NodeIdentity, VoteRequest
from goqueue.cluster.peer_messages import Register
from goqueue.errors import ControllerUnavailable, PermissionDenied
from goqueue.limits import CLUSTER_PROOF_SECONDS, OFFSET_MAX
from goqueue.runtime.cluster.cluster_node import ClusterNode

PROOF_HEADER = "goqueue-peer"
_ANSWER_SECONDS = 10.0

NodeName = Annotated[str, Meta(min_length=1, max_length=64)]


class VoteRequestJson(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    candidate_id: NodeName
    directory_id: Annotated[str, Meta(max_length=64)]
    cluster_id: Annotated[str, Meta(max_length=64)]
    epoch: Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="The term; in a pre-vote the one that would follow.")]
    last_epoch: Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="The epoch of the candidate's last record.")]
    last_offset: Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="The end of its log.")]
    pre_vote: bool = False
    lease_expiry: Annotated[str | None, Meta(description="Ignored.")] = None


class VoteResponse(Struct, kw_only=True):
    voter_id: str
    vote_granted: bool
    epoch: int
    current_controller_id: str | None
    error: str | None = None


class PeerHeartbeatRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    node_id: NodeName


class PeerHeartbeatResponse(Struct, kw_only=True):
    node_id: str
    status: Annotated[NodeStatus, Meta(description="Of the node that asks, as this one sees it.")]
    controller_id: str | None
    epoch: int
    cluster_version: Annotated[int, Meta(description="Number of records that this node has applied.")]


class JoinClusterRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    node_id: NodeName
    directory_id: Annotated[str, Meta(max_length=64)]
    incarnation: Annotated[str, Meta(min_length=1, max_length=64, description="Made by each start of the process.")]
    address: Annotated[str, Meta(max_length=300)] = ""
    peer_address: Annotated[str, Meta(max_length=300)] = ""
    version: Annotated[str, Meta(max_length=64)] = ""


class JoinClusterResponse(Struct, kw_only=True):
    success: bool
    redirect_required: bool
    controller_id: str | None
    controller_addr: Annotated[str | None, Meta(description="Where clients reach the controller.")]
    broker_epoch: int | None


class LeaveClusterRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    node_id: NodeName
    graceful: bool = True


class LeaveClusterResponse(Struct, kw_only=True):
    success: bool
    redirect_required: bool
    controller_id: str | None
    controller_addr: str | None


def _signed(call: ApiCall) -> ClusterNode:
    """Return the node if the request is signed with its secret. Raises PermissionDenied."""
    member, request = member_of(call), call.request
    if not member.settings.secret:
        raise PermissionDenied(
            "requests between nodes are signed with the secret of the cluster, and it has none",
            hint="set cluster.secret_file on all nodes; without it, nodes use their own connections only",
        )
    at, _, proof = request.headers.get(PROOF_HEADER, "").partition(" ")
    now = call.runtime.clock.now_ns() / NANOSECONDS
    if at.isascii() and at.isdecimal() and len(at) < 12 and abs(now - int(at)) <= CLUSTER_PROOF_SECONDS:
        wanted = request_proof(member.settings.secret, request.method, request.path, int(at), bytes(request.body))
        if is_same_proof(wanted.encode(), proof.encode("utf-8", "replace")):
            return member
    raise PermissionDenied(
        f"the header {PROOF_HEADER} does not prove that the request knows the secret of the cluster, or is too old",
        hint="docs/cluster.md tells how nodes sign their requests",
    )


def _controller(member: ClusterNode) -> tuple[str | None, str | None]:
    """Return the id of the controller, and its address for clients."""
    controller = member.controller
    if controller is None:
        return None, None
    found = member.log.state.nodes.get(controller.node)
    return controller.node, None if found is None else found[0].client_address


async def vote(call: ApiCall, body: VoteRequestJson) -> VoteResponse:
    """Answer when the vote is on the device."""
    member = _signed(call)
    error: Literal["", "another cluster", "not a voter", "no answer"] = ""
    granted = False
    candidate = NodeIdentity(body.candidate_id, body.directory_id)
    if body.cluster_id != member.note.cluster_id:
        error = "another cluster"
    elif member.raft is None or member.note.me not in member.raft.voters or candidate not in member.raft.voters:
        error = "not a voter"
    else:
        asked = VoteRequest(body.epoch, body.last_epoch, body.last_offset, body.pre_vote)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                granted = (await member.votes.ask(candidate, asked)).granted
        except TimeoutError:
            error = "no answer"
    return VoteResponse(
        voter_id=member.settings.node,
        vote_granted=granted,
        epoch=0 if member.raft is None else member.raft.term,
        current_controller_id=_controller(member)[0],
        error=error or None,
    )


async def heartbeat(call: ApiCall, body: PeerHeartbeatRequest) -> PeerHeartbeatResponse:
    member = _signed(call)
    if body.node_id in member.membership.nodes:
        member.membership.heard(body.node_id, member.now())
    return PeerHeartbeatResponse(
        node_id=member.settings.node,
        status=member.membership.status(body.node_id),
        controller_id=_controller(member)[0],
        epoch=0 if member.raft is None else member.raft.term,
        cluster_version=member.log.applied_end,
    )


async def join(call: ApiCall, body: JoinClusterRequest) -> JoinClusterResponse:
    """Register a node, as the controller; answer when the record is committed."""
    member = _signed(call)
    controller, address = _controller(member)
    is_controller = member.raft is not None and member.raft.is_controller
    broker_epoch = None
    if is_controller:
        registered = Register(
            body.incarnation, body.address, body.peer_address, body.version, "", member.log.state.feature_level
        )
        broker_epoch = await member.office.register_now(NodeIdentity(body.node_id, body.directory_id), registered)
    elif controller is None:
        raise _none()
    return JoinClusterResponse(
        success=is_controller,
        redirect_required=not is_controller,
        controller_id=controller,
        controller_addr=address,
        broker_epoch=broker_epoch,
    )


async def leave(call: ApiCall, body: LeaveClusterRequest) -> LeaveClusterResponse:
    """Take a node out of the list, as the controller; answer when the record is committed."""
    member = _signed(call)
    controller, address = _controller(member)
    is_controller = member.raft is not None and member.raft.is_controller
    if is_controller:
        await member.remove(body.node_id)
        if body.graceful:
            member.membership.leaves(body.node_id)
    elif controller is None:
        raise _none()
    return LeaveClusterResponse(
        success=is_controller, redirect_required=not is_controller, controller_id=controller, controller_addr=address
    )


def _none() -> ControllerUnavailable:
    return ControllerUnavailable("the cluster has no controller now", hint="try again in a moment", retry_after=1)
