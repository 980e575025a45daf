"""Nodes that are drained: others lead what they lead, so that they can be stopped without a failed request."""

from collections.abc import Callable, Iterator

from goqueue.cluster.controller_requests import DrainNode
from goqueue.cluster.elections import lead_with
from goqueue.cluster.metadata import ClusterRecord, ClusterState, in_pieces
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.reassignment_records import NodeDraining
from goqueue.errors import NodeNotFound
from goqueue.quantities import quoted


def drain(state: ClusterState, request: DrainNode, is_up: Callable[[str], bool]) -> list[ClusterRecord]:
    """Record that a node is drained, or is not any more; asked again, move what it leads.

    The node asks again itself when it has finished the publishes that are under way.
    """
    node = request.node
    if node not in state.nodes:
        raise NodeNotFound(f"the cluster has no node {quoted(node)}", hint="`goqueue-cli cluster nodes` lists them")
    if request.is_draining != (node in state.draining):
        return [NodeDraining(node, request.is_draining)]
    return move_leaders_away(state, {node}, is_up) if request.is_draining else []


def move_leaders_away(state: ClusterState, nodes: set[str], is_up: Callable[[str], bool]) -> list[ClusterRecord]:
    """Move what these nodes, which are drained, lead, where another replica is in the ISR."""
    return list(in_pieces(_moved_away(state, nodes, is_up))) if nodes else []


def _moved_away(
    state: ClusterState, nodes: set[str], is_up: Callable[[str], bool]
) -> Iterator[tuple[PartitionId, PartitionState]]:
    for log, one in state.partitions.items():
        if one.leader in nodes:
            others = [node for node in one.isr if node not in state.draining and is_up(node)]
            if others:
                yield log, lead_with(one, others[0])
