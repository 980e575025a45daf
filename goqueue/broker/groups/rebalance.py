"""The rules of a rebalance: how a group gets from one assignment to the next. Pure: a group in, the next group out.

Cooperative: partitions that move are revoked from their owners, and all other partitions continue. A partition is
assigned to its target as soon as it is free. Eager: all members stop and rejoin, then everything is assigned anew. In
both, members that do not answer before the deadline lose what was asked of them.

Invariants: a partition has at most one owner, and each change of owners is a generation of its own.
"""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.assignors import AssignmentInput, assign
from goqueue.broker.groups.records import Group, Member, RebalanceReason

PartitionCounts = Mapping[str, int]
"""The number of partitions of each topic."""


def begin(
    group: Group,
    *,
    joining: Collection[Member] = (),
    leaving: Collection[str] = (),
    partitions: PartitionCounts,
    reasons: Collection[RebalanceReason],
    now_ns: int,
) -> Group:
    """Begin a rebalance after a change of members or topics: compute the target and assign what is free."""
    stayed = {name: member for name, member in group.members.items() if name not in leaving}
    members = stayed | {member.id: _rejoined(stayed.get(member.id), member) for member in joining}
    to_ask = stayed.keys() - {member.id for member in joining}
    is_running = group.phase == "pending_revoke"
    group = replace(
        group,
        members=members,
        assignment={name: group.assignment.get(name, []) for name in members},
        phase="pending_revoke",
        target={},
        awaited=_awaited(group, to_ask),
        reasons=sorted({*reasons, *(group.reasons if is_running else ())}),
        began_ns=group.began_ns if is_running else now_ns,
        emptied_ns=0 if members else (group.emptied_ns or now_ns),
    )
    if group.protocol == "eager":
        return group if group.awaited else assign_all(group, partitions)
    return _assign_free(replace(group, target=_target(group, partitions)))


def _rejoined(former: Member | None, member: Member) -> Member:
    """A member may have lost partitions after it asked to rejoin: keep the later `since`."""
    return member if former is None else replace(member, since=max(former.since, member.since))


def _awaited(group: Group, to_ask: Collection[str]) -> list[str]:
    if group.protocol != "eager":
        return []
    asked = group.awaited if group.phase == "pending_revoke" else group.members
    return [name for name in asked if name in to_ask]


def _target(group: Group, partitions: PartitionCounts) -> dict[str, list[PartitionRef]]:
    subscriptions = {name: member.topics for name, member in group.members.items()}
    return assign(group.strategy, AssignmentInput(subscriptions, partitions, group.assignment))


def revoke(group: Group, revoked: Mapping[str, Collection[PartitionRef]]) -> Group:
    """Cooperative: take from members, all at once, what they released of the partitions asked for.

    Eager members release partitions by rejoining.
    """
    if group.protocol != "cooperative":
        return group
    gone = {name: set(refs) & set(group.partitions_to_revoke(name)) for name, refs in revoked.items() if refs}
    losers = [name for name, refs in gone.items() if refs]
    if not losers:
        return group
    kept = {name: [ref for ref in group.assignment[name] if ref not in gone[name]] for name in losers}
    members = {name: replace(group.members[name], since=group.generation + 1) for name in losers}
    return _assign_free(replace(group, assignment={**group.assignment, **kept}, members={**group.members, **members}))


def rejoin(group: Group, member: str, partitions: PartitionCounts) -> Group:
    """Eager: a member has stopped and rejoined."""
    if member not in group.awaited:
        return group
    group = replace(group, awaited=[name for name in group.awaited if name != member])
    return group if group.awaited else assign_all(group, partitions)


def force(group: Group, late: Collection[str], partitions: PartitionCounts, now_ns: int) -> Group:
    """Continue without late members: revoke what was asked of them, or remove them from an eager group."""
    reasons: list[RebalanceReason] = sorted({*group.reasons, "revocation_timeout"})
    group = replace(group, reasons=reasons)
    if group.protocol == "cooperative":
        return revoke(group, {name: group.partitions_to_revoke(name) for name in late})
    members = {name: member for name, member in group.members.items() if name not in late}
    group = replace(
        group,
        members=members,
        assignment={name: group.assignment[name] for name in members},
        awaited=[name for name in group.awaited if name not in late],
        emptied_ns=0 if members else now_ns,
    )
    return group if group.awaited else assign_all(group, partitions)


def assign_all(group: Group, partitions: PartitionCounts) -> Group:
    """Eager: all members have stopped, so assign every partition."""
    generation = group.generation + 1
    return replace(
        group,
        generation=generation,
        assignment=_target(group, partitions),
        members={name: replace(member, since=generation) for name, member in group.members.items()},
        phase="complete",
        awaited=[],
        target={},
    )


def fence(group: Group, now_ns: int) -> Group:
    """Make all generations up to now stale. Until its members know the new one, the group rebalances: from now on."""
    generation = group.generation + 1
    members = {name: replace(member, since=generation) for name, member in group.members.items()}
    began_ns = group.began_ns if group.phase == "pending_revoke" else now_ns
    return replace(group, generation=generation, members=members, began_ns=began_ns)


def _assign_free(group: Group) -> Group:
    """Assign unowned partitions to their targets. The rebalance is complete when nothing is left to revoke."""
    taken = {ref for refs in group.assignment.values() for ref in refs}
    assignment = {
        name: sorted({*refs, *(ref for ref in group.target.get(name, ()) if ref not in taken)})
        for name, refs in group.assignment.items()
    }
    generation = group.generation + 1
    members = {
        name: replace(member, since=generation) if member.since == 0 else member
        for name, member in group.members.items()
    }
    group = replace(group, assignment=assignment, generation=generation, members=members)
    if any(group.partitions_to_revoke(name) for name in group.members):
        return group
    return replace(group, phase="complete", target={})
