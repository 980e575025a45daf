"""Elections: which replica leads a partition after a change of its nodes. Pure functions from state to state.

    preferred and in the ISR ─> another of the ISR ─> the ELR ─> no leader

A replica that leaves the ISR keeps all that is committed while the ISR is smaller than `min_isr`, because the high
watermark stands still. So it stays eligible, unless its log has lost something. The only replica of a partition is
eligible as long as its log is there: no other can have more.
"""

from collections.abc import Callable, Iterable
from typing import Literal

from msgspec.structs import replace

from goqueue.cluster.partitions import PartitionState

Verdict = Literal["intact", "damaged", "missing"]
"""The state of a replica's log after a start of its node: all that was ever confirmed is there, not all, or nothing."""


def settle(
    state: PartitionState, isr: Iterable[str], elr: Iterable[str], is_up: Callable[[str], bool], *, is_new: bool = False
) -> PartitionState:
    """Return the state with this ISR and this ELR, and with a leader if any replica may lead.

    `is_new`: the leader's process is a new one.
    """
    members = set(isr)
    in_sync = {one for one in members if is_up(one)}
    eligible = set(elr) | (members - in_sync)
    if state.leader in in_sync:
        leader = state.leader
    else:
        candidates = state.ordered(in_sync) or tuple(one for one in state.ordered(eligible) if is_up(one))
        leader = candidates[0] if candidates else ""
    if leader:
        in_sync.add(leader)
    return state.next(leader=leader, isr=in_sync, elr=eligible - {leader}, is_new=is_new)


def remove_replica(
    state: PartitionState, node: str, is_up: Callable[[str], bool], *, is_damaged: bool = False
) -> PartitionState | None:
    """Take a node out of the ISR: it is gone, stops, or its disk has failed. None if nothing changes.

    It stays eligible unless its log `is_damaged`: such a leader stays as it is if no other replica can lead.
    """
    if node not in state.isr:
        return None
    eligible = {*state.elr, node} - ({node} if is_damaged else set())
    following = settle(state, set(state.isr) - {node}, eligible, lambda one: one != node and is_up(one))
    return None if is_damaged and not following.leader else following


def restart_replica(
    state: PartitionState, node: str, verdict: Verdict, is_up: Callable[[str], bool]
) -> PartitionState | None:
    """Judge the replica of a process that has just started. None if nothing changes.

    A new process never leads in an epoch of an earlier one, which may have sent what this one does not have.
    """
    if node not in state.replicas:
        return None
    isr, elr = set(state.isr), set(state.elr)
    if verdict != "intact":
        isr.discard(node)
        elr.discard(node)
        if verdict == "damaged" and state.replicas == (node,):
            elr.add(node)
    is_new = state.leader == node
    if not is_new and state.leader and (isr, elr) == (set(state.isr), set(state.elr)):
        return None
    following = settle(state, isr, elr, is_up, is_new=is_new)
    is_same = not following.leader and not state.leader and (following.isr, following.elr) == (state.isr, state.elr)
    return None if is_same else following


def adopt(node: str, *, has_log: bool) -> PartitionState:
    """Return the first state of a partition of a topic that a node brings.

    The node has no log of it if it was restored from a backup of one that had no replica.
    """
    return PartitionState((node,), node if has_log else "", 1, 1, (node,) if has_log else ())


def find_leader(state: PartitionState, is_up: Callable[[str], bool]) -> PartitionState | None:
    """Elect a leader if there is none and a replica may lead."""
    if state.leader:
        return None
    following = settle(state, state.isr, state.elr, is_up)
    return following if following.leader else None


def lead_with(state: PartitionState, node: str) -> PartitionState:
    """Make a replica of the ISR the leader."""
    return state.next(leader=node, isr=state.isr, elr=state.elr)


def lead_above(state: PartitionState, epoch: int) -> PartitionState | None:
    """Let the leader begin an epoch above one that its log has already. None if its epoch is above that."""
    if state.leader_epoch > epoch:
        return None
    following = state.next(leader=state.leader, isr=state.isr, elr=state.elr)
    return replace(following, leader_epoch=epoch + 1)


def lead_unclean(state: PartitionState, node: str) -> PartitionState:
    """Make a replica the leader that may lack what is committed. The others follow it, and lose what it lacks."""
    following = state.next(leader=node, isr=(node,), is_new=True)
    return replace(following, unclean_epoch=following.leader_epoch)
