"""What groups look like: who is in them, who has what, how far behind they are, how their rebalances went."""

from functools import partial
from typing import Annotated, Any, Literal

import msgspec

from goqueue.api.call import Call
from goqueue.broker.delivery.changes import Place
from goqueue.broker.groups.assignors import Strategy
from goqueue.broker.groups.group import Group, Order, Protocol
from goqueue.broker.groups.lag import Lag
from goqueue.broker.groups.statistics import RebalanceStats
from goqueue.broker.view import Isolation
from goqueue.clock import NANOSECONDS
from goqueue.limits import PARTITIONS_MAX, TOPIC_NAME_CHARACTERS_MAX
from goqueue.quantities import format_time

_MILLISECOND_NS = 1_000_000

State = Literal["stable", "rebalancing", "empty"]
RebalanceState = Literal["none", "pending_revoke", "pending_assign", "complete"]


END = r"(?![\s\S])"
"""The end of a text in a pattern: a dollar sign would let a line end through."""

TopicName = Annotated[
    str, msgspec.Meta(min_length=1, max_length=TOPIC_NAME_CHARACTERS_MAX, pattern=f"^[A-Za-z0-9._-]+{END}")
]
GroupName = TopicName


class PlaceBody(msgspec.Struct, forbid_unknown_fields=True):
    topic: TopicName
    partition: Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_MAX - 1)]


class MemberDescription(msgspec.Struct, kw_only=True):
    member_id: str
    client_id: str
    topics: list[str]
    assigned_partitions: list[str]
    last_heartbeat: str
    joined_at: str
    session_timeout: float
    max_in_flight: int
    in_flight: int


class PartitionLag(msgspec.Struct, kw_only=True):
    member_id: str | None
    committed: Annotated[int, msgspec.Meta(description="Everything below is done with.")]
    end: int
    messages: int
    seconds: Annotated[float, msgspec.Meta(description="The age of the oldest message that is not done with.")]
    in_flight: int
    waiting: Annotated[int, msgspec.Meta(description="To be handed out again.")]
    pledged: Annotated[int, msgspec.Meta(description="Acknowledged in transactions that have not come to their end.")]
    lost: Annotated[int, msgspec.Meta(description="Removed by retention before the group had them.")]
    rate: Annotated[float, msgspec.Meta(description="Messages done with in a second, over the last minute.")]
    incoming: Annotated[float, msgspec.Meta(description="Messages published in a second, over the last minute.")]
    drain_seconds: Annotated[
        float | None, msgspec.Meta(description="Until nothing is left, if all goes on so; null: never.")
    ]


class GroupDescription(msgspec.Struct, kw_only=True):
    group_id: str
    state: State
    generation: int
    protocol: Protocol
    assignment_strategy: Strategy
    order: Order
    isolation: Isolation
    rebalance_state: RebalanceState
    members: list[MemberDescription]
    lag: Annotated[dict[str, dict[str, PartitionLag]], msgspec.Meta(description="By topic and partition.")]
    total_lag: int
    lag_seconds: float
    drain_seconds: float | None


class GroupRemoved(msgspec.Struct):
    deleted: bool
    group_id: str


class RebalanceNumbers(msgspec.Struct, kw_only=True):
    total_rebalances: int
    successful_rebalances: int
    failed_rebalances: int
    total_partitions_revoked: int
    total_partitions_assigned: int
    total_revocation_timeouts: int
    last_rebalance_duration_ms: float
    average_rebalance_duration_ms: float
    longest_rebalance_duration_ms: float
    last_rebalance_at: str | None
    rebalances_by_reason: dict[str, int]


class CooperativeGroup(msgspec.Struct, kw_only=True):
    id: str
    state: State
    generation: int
    protocol: Protocol
    assignment_strategy: Strategy
    rebalance_state: RebalanceState
    topics: list[str]
    members: list[str]
    member_assignments: dict[str, list[PlaceBody]]
    partitions_to_revoke: Annotated[
        dict[str, list[PlaceBody]], msgspec.Meta(description="By member, what it has and is asked to give up.")
    ]
    rebalance_metrics: RebalanceNumbers


async def describe(call: Call) -> GroupDescription:
    group = call.runtime.broker.coordinator.membership.group(call.parameters["group"])
    lags: list[Lag] = await call.runtime.perform(call.runtime.broker.coordinator.lags.of(group.group))
    by_topic: dict[str, dict[str, PartitionLag]] = {}
    for lag in lags:
        by_topic.setdefault(lag.place[0], {})[str(lag.place[1])] = _lag(lag)
    return GroupDescription(
        group_id=group.group,
        state=state_of(call, group),
        generation=group.generation,
        protocol=group.protocol,
        assignment_strategy=group.strategy,
        order=group.order,
        isolation=group.isolation,
        rebalance_state=rebalance_state_of(call, group),
        members=[_member(call, group, name) for name in group.members],
        lag=by_topic,
        total_lag=sum(lag.messages for lag in lags),
        lag_seconds=max((lag.seconds for lag in lags), default=0.0),
        drain_seconds=longest([lag.drain_seconds for lag in lags]),
    )


def longest(drains: list[float | None]) -> float | None:
    """Until all are through; None when one never is."""
    known = [one for one in drains if one is not None]
    return max(known, default=0.0) if len(known) == len(drains) else None


def _lag(lag: Lag) -> PartitionLag:
    return PartitionLag(
        member_id=lag.member,
        committed=lag.floor,
        end=lag.end,
        messages=lag.messages,
        seconds=round(lag.seconds, 3),
        in_flight=lag.leased,
        waiting=lag.waiting,
        pledged=lag.pledged,
        lost=lag.lost,
        rate=round(lag.rate, 3),
        incoming=round(lag.incoming, 3),
        drain_seconds=None if lag.drain_seconds is None else round(lag.drain_seconds, 1),
    )


def _member(call: Call, group: Group, name: str) -> MemberDescription:
    coordinator, member = call.runtime.broker.coordinator, group.members[name]
    cursors = coordinator.ledger.cursors(group.group)
    places = group.assignment.get(name, [])
    return MemberDescription(
        member_id=name,
        client_id=member.client_id,
        topics=list(member.topics),
        assigned_partitions=[name_of(place) for place in places],
        last_heartbeat=format_time(coordinator.on_wall_ns(coordinator.membership.presence(group.group, name).seen_ns)),
        joined_at=format_time(member.joined_ns),
        session_timeout=member.session_ns / NANOSECONDS,
        max_in_flight=member.in_flight_max,
        in_flight=sum(cursors[place].leased for place in places if place in cursors),
    )


async def delete(call: Call) -> GroupRemoved:
    name = call.parameters["group"]
    await call.runtime.ask(partial(call.runtime.broker.coordinator.membership.delete, name))
    return GroupRemoved(True, name)


async def cooperative(call: Call) -> CooperativeGroup:
    coordinator = call.runtime.broker.coordinator
    group = coordinator.membership.group(call.parameters["group"])
    return CooperativeGroup(
        id=group.group,
        state=state_of(call, group),
        generation=group.generation,
        protocol=group.protocol,
        assignment_strategy=group.strategy,
        rebalance_state=rebalance_state_of(call, group),
        topics=sorted(group.topics()),
        members=list(group.members),
        member_assignments={name: bodies(places) for name, places in group.assignment.items()},
        partitions_to_revoke={name: bodies(places) for name in group.members if (places := group.to_give_up(name))},
        rebalance_metrics=_numbers(coordinator.rebalancer.attendance(group.group).stats),
    )


async def rebalance_stats(call: Call) -> RebalanceNumbers:
    """Of one group, or of all."""
    coordinator, name = call.runtime.broker.coordinator, call.parameters.get("group")
    if name is None:
        return _numbers(coordinator.rebalancer.totals)
    return _numbers(coordinator.rebalancer.attendance(coordinator.membership.group(name).group).stats)


def _numbers(stats: RebalanceStats) -> RebalanceNumbers:
    return RebalanceNumbers(
        total_rebalances=stats.total,
        successful_rebalances=stats.successful,
        failed_rebalances=stats.failed,
        total_partitions_revoked=stats.revoked,
        total_partitions_assigned=stats.assigned,
        total_revocation_timeouts=stats.timeouts,
        last_rebalance_duration_ms=round(stats.last_ns / _MILLISECOND_NS, 3),
        average_rebalance_duration_ms=round(stats.average_ns / _MILLISECOND_NS, 3),
        longest_rebalance_duration_ms=round(stats.longest_ns / _MILLISECOND_NS, 3),
        last_rebalance_at=format_time(stats.last_at_ns) if stats.last_at_ns else None,
        rebalances_by_reason=dict(stats.by_reason),
    )


def state_of(call: Call, group: Group) -> State:
    if not group.members:
        return "empty"
    return "rebalancing" if rebalance_state_of(call, group).startswith("pending") else "stable"


def rebalance_state_of(call: Call, group: Group) -> RebalanceState:
    if group.phase == "complete" and not call.runtime.broker.coordinator.membership.is_heard(group):
        return "pending_assign"
    return group.phase


def name_of(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def bodies(places: Any) -> list[PlaceBody]:
    return [PlaceBody(*place) for place in places]
