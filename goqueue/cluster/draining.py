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
    """Record that a node is drained, or is not any more, and move at once what it leads."""
    node = request.node
    if node not in state.nodes:
        raise NodeNotFound(f"the cluster has no node {quoted(node)}", hint="`goqueue-cli cluster nodes` lists them")
    if request.is_draining == (node in state.draining):
        return []
    moved = _moved_away(state, {*state.draining, node}, is_up) if request.is_draining else iter(())
    return [NodeDraining(node, request.is_draining), *in_pieces(moved)]


def move_leaders_away(state: ClusterState, is_up: Callable[[str], bool]) -> list[ClusterRecord]:
    """Move what drained nodes lead, where another replica has come into the ISR since."""
    return list(in_pieces(_moved_away(state, state.draining, is_up))) if state.draining else []


def _moved_away(
    state: ClusterState, draining: set[str], is_up: Callable[[str], bool]
) -> Iterator[tuple[PartitionId, PartitionState]]:
    for log, one in state.partitions.items():
        if one.leader in draining:
            others = [node for node in one.isr if node not in draining and is_up(node)]
            if others:
                yield log, lead_with(one, others[0])
