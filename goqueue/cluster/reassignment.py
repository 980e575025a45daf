"""Reassignment of one partition: its replicas move to other nodes. Pure functions from state to state.

    at rest ── begin ──> moving ── complete ──> at rest on the nodes of the target
                            └───── cancel ────> at rest on the nodes from before

While it moves, a partition has the replicas from before and those that come (`adding`); the ones that go (`removing`)
lead and are in sync as always. What must stay true:

* A move completes only when all that come are in sync, and cancels only when enough of those from before are: behind
  both, at least `min_isr` replicas in sync are left, so nothing committed is lost with one of them.
* The node of a replica that went deletes its log only after the committed record: the ISR of the record does not need
  it.
"""

from collections.abc import Callable
from enum import StrEnum

from msgspec.structs import replace

from goqueue.cluster.partitions import PartitionState


class MoveObstacle(StrEnum):
    """Why a move can be neither completed nor cancelled now."""

    COPYING = "replicas that come are not in sync yet"
    TOO_FEW = "too few replicas would be in sync"
    NO_LEADER = "no replica in sync is there that could lead"


def begin(state: PartitionState, target: tuple[str, ...]) -> PartitionState:
    """Return the state of a partition that begins to move. It is at rest."""
    adding = tuple(node for node in target if node not in state.replicas)
    removing = tuple(node for node in state.replicas if node not in target)
    following = replace(state, replicas=(*state.replicas, *adding), adding=adding, removing=removing)
    return following.next(leader=state.leader, isr=state.isr, elr=state.elr)


def obstacle_to_complete(
    state: PartitionState, target: tuple[str, ...], min_isr: int, is_up: Callable[[str], bool]
) -> MoveObstacle | None:
    """Return why a move cannot end on its target now. `min_isr` is that of the target."""
    left = [node for node in target if node in state.isr]
    if not set(state.adding) <= set(state.isr):
        return MoveObstacle.COPYING
    if len(state.isr) < state.min_isr or len(left) < min_isr:
        return MoveObstacle.TOO_FEW
    return None if any(map(is_up, left)) else MoveObstacle.NO_LEADER


def obstacle_to_cancel(
    state: PartitionState, before: tuple[str, ...], is_up: Callable[[str], bool]
) -> MoveObstacle | None:
    """Return why a move cannot go back now."""
    left = [node for node in before if node in state.isr]
    if len(left) < state.min_isr:
        return MoveObstacle.TOO_FEW
    return None if any(map(is_up, left)) else MoveObstacle.NO_LEADER


def settle_on(
    state: PartitionState, nodes: tuple[str, ...], min_isr: int, is_up: Callable[[str], bool]
) -> PartitionState:
    """End a move: only these replicas are left. Nothing may be in the way."""
    isr = [node for node in nodes if node in state.isr]
    first = nodes[0] in isr and is_up(nodes[0])
    leader = nodes[0] if first else state.leader if state.leader in isr else next(node for node in isr if is_up(node))
    following = replace(state, replicas=nodes, adding=(), removing=())
    return following.next(leader=leader, isr=isr, elr=[one for one in state.elr if one in nodes], min_isr=min_isr)
