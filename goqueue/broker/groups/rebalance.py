"""How a group gets from one assignment to the next. Every function takes a group and returns the group as it is then.

Cooperative: what moves is asked back from who has it, and everybody else goes on. As soon as something is free it
is given to whom it is meant for. Eager: everybody stops, joins again, and then everything is given out anew. In both,
whoever does not answer until the deadline loses what was asked for.

What must stay true: a partition has one owner at most, and every change of who has what is a generation of its own.
"""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from goqueue.broker.delivery.changes import Place
from goqueue.broker.groups.assignors import Request, assign
from goqueue.broker.groups.group import Group, Member, Reason

Partitions = Mapping[str, int]
"""How many each topic has."""


def begin(
    group: Group,
    *,
    joining: Collection[Member] = (),
    leaving: Collection[str] = (),
    partitions: Partitions,
    reasons: Collection[Reason],
    now_ns: int,
) -> Group:
    """Members come and go, or topics change: work out who is to have what, and do what can be done at once."""
    stayed = {name: member for name, member in group.members.items() if name not in leaving}
    members = stayed | {member.id: _returned(stayed.get(member.id), member) for member in joining}
    to_ask = stayed.keys() - {member.id for member in joining}
    assignment = {name: group.assignment.get(name, []) for name in members}
    under_way = group.phase == "pending_revoke"
    group = replace(
        group,
        members=members,
        assignment=assignment,
        phase="pending_revoke",
        target={},
        awaited=_awaited(group, to_ask),
        reasons=sorted({*reasons, *(group.reasons if under_way else ())}),
        began_ns=group.began_ns if under_way else now_ns,
        emptied_ns=0 if members else (group.emptied_ns or now_ns),
    )
    if group.protocol == "eager":
        return give_all(group, partitions) if not group.awaited else group
    group = replace(group, target=_target(group, partitions))
    return _give_free(group)


def _returned(former: Member | None, member: Member) -> Member:
    """Who was here before may have lost something since it asked to join again."""
    return member if former is None else replace(member, since=max(former.since, member.since))


def _awaited(group: Group, to_ask: Collection[str]) -> list[str]:
    if group.protocol != "eager":
        return []
    asked = group.awaited if group.phase == "pending_revoke" else group.members
    return [name for name in asked if name in to_ask]


def _target(group: Group, partitions: Partitions) -> dict[str, list[Place]]:
    subscriptions = {name: member.topics for name, member in group.members.items()}
    return assign(group.strategy, Request(subscriptions, partitions, group.assignment))


def give_up(group: Group, member: str, places: Collection[Place]) -> Group:
    """A member has let go of some of what it was asked for."""
    return give_up_all(group, {member: places})


def give_up_all(group: Group, given: Mapping[str, Collection[Place]]) -> Group:
    """Cooperative: members have let go, all at once, of some of what each was asked for.

    Eager ones let go by joining again.
    """
    if group.protocol != "cooperative":
        return group
    gone = {name: set(places) & set(group.to_give_up(name)) for name, places in given.items() if places}
    losers = [name for name, places in gone.items() if places]
    if not losers:
        return group
    kept = {name: [place for place in group.assignment[name] if place not in gone[name]] for name in losers}
    members = {name: replace(group.members[name], since=group.generation + 1) for name in losers}
    return _give_free(replace(group, assignment={**group.assignment, **kept}, members={**group.members, **members}))


def come_back(group: Group, member: str, partitions: Partitions) -> Group:
    """Eager: a member has stopped and joined again."""
    if member not in group.awaited:
        return group
    group = replace(group, awaited=[name for name in group.awaited if name != member])
    return group if group.awaited else give_all(group, partitions)


def force(group: Group, late: Collection[str], partitions: Partitions, now_ns: int) -> Group:
    """These members have not answered in time: take what they were asked for, or go on without them."""
    reasons: list[Reason] = sorted({*group.reasons, "revocation_timeout"})
    group = replace(group, reasons=reasons)
    if group.protocol == "cooperative":
        return give_up_all(group, {name: group.to_give_up(name) for name in late})
    members = {name: member for name, member in group.members.items() if name not in late}
    group = replace(
        group,
        members=members,
        assignment={name: group.assignment[name] for name in members},
        awaited=[name for name in group.awaited if name not in late],
        emptied_ns=0 if members else now_ns,
    )
    return group if group.awaited else give_all(group, partitions)


def give_all(group: Group, partitions: Partitions) -> Group:
    """Eager: everybody has stopped, so everything can be given out."""
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


def fence(group: Group) -> Group:
    """Whatever members say of the generations up to now is stale."""
    generation = group.generation + 1
    members = {name: replace(member, since=generation) for name, member in group.members.items()}
    return replace(group, generation=generation, members=members)


def _give_free(group: Group) -> Group:
    """Give what nobody has to whom it is meant for; when nothing more is asked back, the rebalance is complete."""
    taken = {place for places in group.assignment.values() for place in places}
    given = {
        name: sorted({*places, *(place for place in group.target.get(name, ()) if place not in taken)})
        for name, places in group.assignment.items()
    }
    generation = group.generation + 1
    newcomers = {
        name: replace(member, since=generation) if member.since == 0 else member
        for name, member in group.members.items()
    }
    group = replace(group, assignment=given, generation=generation, members=newcomers)
    if any(group.to_give_up(name) for name in group.members):
        return group
    return replace(group, phase="complete", target={})
