"""Changes of the cluster by an operator: any node takes them, and asks the controller."""

import asyncio
from contextlib import suppress
from typing import Annotated

from msgspec import Meta, Struct

from goqueue.api.cluster import member_of
from goqueue.api.cluster_peers import NodeName
from goqueue.api.endpoint import ApiCall
from goqueue.cluster.controller_requests import HandOver, RemoveNode, ReplaceVoter
from goqueue.errors import ClusterChangeRefused
from goqueue.runtime.cluster.cluster_node import ClusterNode

_TRANSFER_SECONDS = 5.0
"""Longer than a voter needs that begins an election at once."""
_FETCH_SECONDS = 10.0
"""Longer than a node with an empty directory needs for the records of a usual cluster."""
_PAUSE_SECONDS = 0.1
"""Before the controller is asked again whether a node has all records: it knows that, this node need not."""


class TransferRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    node_id: Annotated[
        NodeName | None, Meta(description="The next controller; null takes the voter that is the furthest.")
    ] = None


class TransferResponse(Struct, kw_only=True):
    controller_id: Annotated[str | None, Meta(description="Null if none is known yet.")]
    epoch: int


class VoterResponse(Struct, kw_only=True):
    node_id: str
    directory_id: Annotated[str, Meta(description="The one that votes.")]
    changed: Annotated[bool, Meta(description="False if it had the vote before.")]


class NodeRemovedResponse(Struct, kw_only=True):
    node_id: str


async def transfer(call: ApiCall, body: TransferRequest) -> TransferResponse:
    member = member_of(call)
    before = member.controller
    await member.ask(HandOver(body.node_id or ""))
    if before is None or body.node_id != before.node:
        with suppress(TimeoutError):
            async with asyncio.timeout(_TRANSFER_SECONDS):
                while member.controller in (None, before):
                    await member.changed.wait()
    controller = member.controller
    return TransferResponse(
        controller_id=None if controller is None else controller.node,
        epoch=0 if member.raft is None else member.raft.term,
    )


async def replace_voter(call: ApiCall) -> VoterResponse:
    """Give the data directory that a node has now the vote of the lost one, in two steps."""
    member, node = member_of(call), call.parameters["node"]
    before = _voting_directory(member, node)
    await _replace_directory(member, node)
    if _voting_directory(member, node) is None:  # the lost one is out
        await _replace_directory(member, node)
    directory = _voting_directory(member, node)
    assert directory is not None, "the second step adds it, or is refused"
    return VoterResponse(node_id=node, directory_id=directory, changed=directory != before)


async def _replace_directory(member: ClusterNode, node: str) -> None:
    """Take the next step; wait for a node that still fetches the records of the cluster."""
    until = asyncio.get_running_loop().time() + _FETCH_SECONDS
    while True:
        try:
            await member.ask(ReplaceVoter(node))
        except ClusterChangeRefused as error:
            if "retry_after" not in error.details or asyncio.get_running_loop().time() > until:
                raise
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE_SECONDS):
                    await member.changed.wait()
        else:
            return


def _voting_directory(member: ClusterNode, node: str) -> str | None:
    return next((one.directory for one in member.log.state.voters if one.node == node), None)


async def remove_node(call: ApiCall) -> NodeRemovedResponse:
    member, node = member_of(call), call.parameters["node"]
    await member.ask(RemoveNode(node))
    return NodeRemovedResponse(node_id=node)
