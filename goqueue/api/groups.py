"""Groups: list, describe and delete them; their members, lag and rebalances."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from goqueue.api.delivery import DeliveryJson, DeliveryRequest, check_dead_letter_topic, delivery_changes, delivery_of
from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import PartitionNumber, TopicName
from goqueue.api.operations import OperationId, author_of
from goqueue.broker.core.delivery_settings import DeliverySettings
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.view import Isolation
from goqueue.broker.groups.lag import GroupLag
from goqueue.broker.groups.records import Group, MessageOrder, RebalanceProtocol, Strategy
from goqueue.broker.groups.sessions import RebalanceStats
from goqueue.broker.groups.split_gate import Obstacle
from goqueue.clock import NANOSECONDS
from goqueue.limits import GROUP_ROWS, GROUPS_MAX, TOPIC_NAME_CHARACTERS_MAX
from goqueue.observe.group_condition import GroupCondition, group_condition
from goqueue.quantities import format_time
from goqueue.runtime.event_loop import TimeSlices

_MILLISECOND_NS = 1_000_000

GroupState = Literal["stable", "rebalancing", "empty"]
RebalanceState = Literal["none", "pending_revoke", "pending_assign", "complete"]


class PartitionRefJson(Struct, forbid_unknown_fields=True, omit_defaults=True):
    topic: TopicName
    partition: PartitionNumber


class MemberJson(Struct, kw_only=True):
    member_id: str
    client_id: str
    topics: list[str]
    assigned_partitions: list[str]
    last_heartbeat: str
    joined_at: str
    session_timeout: float
    max_in_flight: int
    in_flight: int


class ParentJson(Struct):
    partition: int
    split_offset: Annotated[int | None, Meta(description="What the group must commit there; null: not recorded yet.")]


class PartitionLagJson(Struct, kw_only=True):
    member_id: str | None
    committed: Annotated[int, Meta(description="The committed offset.")]
    end: int
    messages: int
    seconds: Annotated[float, Meta(description="The age of the oldest message that is not settled.")]
    in_flight: int
    waiting: Annotated[int, Meta(description="Waiting for a retry.")]
    pledged: Annotated[int, Meta(description="Acknowledged in transactions that are still open.")]
    lost: Annotated[int, Meta(description="Removed by retention before the group received them.")]
    rate: Annotated[float, Meta(description="Messages settled per second, over the last minute.")]
    incoming: Annotated[float, Meta(description="Messages published per second, over the last minute.")]
    drain_seconds: Annotated[float | None, Meta(description="Seconds until the lag is 0 at this speed; null: never.")]
    waits_for: Annotated[
        ParentJson | None, Meta(description="An added partition waits for older messages of its keys; else null.")
    ]


_Condition = Annotated[
    GroupCondition, Meta(description="How it keeps up; trouble counts after half a minute. docs/groups.md explains it.")
]


class GroupResponse(Struct, kw_only=True):
    group_id: str
    state: GroupState
    condition: _Condition
    generation: int
    protocol: RebalanceProtocol
    assignment_strategy: Strategy
    order: MessageOrder
    isolation: Isolation
    rebalance_state: RebalanceState
    members: list[MemberJson]
    lag: Annotated[dict[str, dict[str, PartitionLagJson]], Meta(description="By topic and partition.")]
    total_lag: int
    lag_seconds: float
    drain_seconds: float | None
    settings: Annotated[DeliverySettings, Meta(description="What the group sets itself.")]
    delivery: Annotated[dict[str, DeliveryJson], Meta(description="How messages are delivered, by topic.")]


class AlterGroupRequest(DeliveryRequest, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The settings to change; the others stay as they are, and null leaves one to the topic or to the broker."""


class AlterGroupResponse(GroupResponse, kw_only=True):
    operation: OperationId


class DeleteGroupResponse(Struct):
    deleted: bool
    group_id: str
    operation: OperationId


class RebalanceStatsResponse(Struct, kw_only=True):
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


class CooperativeGroupResponse(Struct, kw_only=True):
    id: str
    state: GroupState
    generation: int
    protocol: RebalanceProtocol
    assignment_strategy: Strategy
    rebalance_state: RebalanceState
    topics: list[str]
    members: list[str]
    member_assignments: dict[str, list[PartitionRefJson]]
    partitions_to_revoke: Annotated[
        dict[str, list[PartitionRefJson]], Meta(description="By member, the partitions it must give up.")
    ]
    rebalance_metrics: RebalanceStatsResponse


async def describe(call: ApiCall) -> GroupResponse:
    return await _described(call)


async def alter(call: ApiCall, body: AlterGroupRequest) -> AlterGroupResponse:
    """Change the delivery settings of a group. They hold from the next lease, failure and poll on."""
    changes, name = call.runtime.broker.changes, call.parameters["group"]
    check_dead_letter_topic(call, delivery_changes(body))
    operation = await call.runtime.decide(changes.alter_group(author_of(call), name, delivery_changes(body)))
    return AlterGroupResponse(**asdict(await _described(call)), operation=operation)


async def _described(call: ApiCall) -> GroupResponse:
    coordinator = call.runtime.broker.groups.of(call.parameters["group"])
    group = coordinator.membership.group(call.parameters["group"])
    lags: list[GroupLag] = await call.runtime.perform(coordinator.lags.of_group(group.group))
    lags = [lag for lag in lags if call.access.may("describe", "topic", lag.ref[0])]
    by_topic: dict[str, dict[str, PartitionLagJson]] = {}
    for lag in lags:
        by_topic.setdefault(lag.ref[0], {})[str(lag.ref[1])] = _lag(lag)
    return GroupResponse(
        group_id=group.group,
        state=state_of(call, group),
        condition=condition_of(call, group, lags),
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
        settings=group.delivery,
        delivery=delivery_of(call, group),
    )


def longest(drains: list[float | None]) -> float | None:
    """Return the time until all partitions are drained; None if one never is."""
    known = [one for one in drains if one is not None]
    return max(known, default=0.0) if len(known) == len(drains) else None


def _lag(lag: GroupLag) -> PartitionLagJson:
    return PartitionLagJson(
        member_id=lag.member,
        committed=lag.floor,
        end=lag.end,
        messages=lag.messages,
        seconds=round(lag.seconds, 3),
        in_flight=lag.in_flight,
        waiting=lag.waiting,
        pledged=lag.transactional,
        lost=lag.lost,
        rate=round(lag.rate, 3),
        incoming=round(lag.incoming, 3),
        drain_seconds=None if lag.drain_seconds is None else round(lag.drain_seconds, 1),
        waits_for=None if (found := lag.obstacle) is None else parent_json(found),
    )


def parent_json(found: Obstacle) -> ParentJson:
    return ParentJson(found.parent, found.offset if found.is_recorded else None)


def _member(call: ApiCall, group: Group, name: str) -> MemberJson:
    groups, member = call.runtime.broker.groups, group.members[name]
    coordinator = groups.of(group.group)
    cursors = coordinator.store.cursors(group.group)
    places = group.assignment.get(name, [])
    return MemberJson(
        member_id=name,
        client_id=member.client_id,
        topics=call.access.described("topic", member.topics),
        assigned_partitions=[name_of(place) for place in described_places(call, places)],
        last_heartbeat=format_time(groups.on_wall_ns(coordinator.membership.session(group.group, name).seen_ns)),
        joined_at=format_time(member.joined_ns),
        session_timeout=member.session_ns / NANOSECONDS,
        max_in_flight=member.in_flight_max,
        in_flight=sum(cursors[place].leased for place in places if place in cursors),
    )


async def delete(call: ApiCall) -> DeleteGroupResponse:
    name = call.parameters["group"]
    operation = await call.runtime.decide(call.runtime.broker.changes.delete_group(author_of(call), name))
    return DeleteGroupResponse(True, name, operation)


async def cooperative(call: ApiCall) -> CooperativeGroupResponse:
    coordinator = call.runtime.broker.groups.of(call.parameters["group"])
    group = coordinator.membership.group(call.parameters["group"])
    return CooperativeGroupResponse(
        id=group.group,
        state=state_of(call, group),
        generation=group.generation,
        protocol=group.protocol,
        assignment_strategy=group.strategy,
        rebalance_state=rebalance_state_of(call, group),
        topics=call.access.described("topic", sorted(group.topics())),
        members=list(group.members),
        member_assignments={name: bodies(described_places(call, places)) for name, places in group.assignment.items()},
        partitions_to_revoke={
            name: bodies(described_places(call, places))
            for name in group.members
            if (places := group.partitions_to_revoke(name))
        },
        rebalance_metrics=_numbers(coordinator.rebalancer.group_session(group.group).stats),
    )


async def rebalance_stats(call: ApiCall) -> RebalanceStatsResponse:
    """Return rebalance counts of one group, or of all."""
    groups, name = call.runtime.broker.groups, call.parameters.get("group")
    if name is None:
        return _numbers(groups.totals.rebalances)
    coordinator = groups.of(name)
    return _numbers(coordinator.rebalancer.group_session(coordinator.membership.group(name).group).stats)


def _numbers(stats: RebalanceStats) -> RebalanceStatsResponse:
    return RebalanceStatsResponse(
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


def state_of(call: ApiCall, group: Group) -> GroupState:
    if not group.members:
        return "empty"
    return "rebalancing" if rebalance_state_of(call, group).startswith("pending") else "stable"


def condition_of(call: ApiCall, group: Group, lags: list[GroupLag]) -> GroupCondition:
    now_ns = call.runtime.broker.groups.clock.now_ns()
    return group_condition(lags, None if group.members else max(0, now_ns - group.emptied_ns) / NANOSECONDS)


def rebalance_state_of(call: ApiCall, group: Group) -> RebalanceState:
    membership = call.runtime.broker.groups.of(group.group).membership
    if group.phase == "complete" and not membership.is_assignment_delivered(group):
        return "pending_assign"
    return group.phase


def described_places(call: ApiCall, places: Iterable[PartitionRef]) -> list[PartitionRef]:
    """Return the partitions of topics that the client may see."""
    return [place for place in places if call.access.may("describe", "topic", place[0])]


def name_of(place: PartitionRef) -> str:
    return f"{place[0]}-{place[1]}"


def bodies(places: Any) -> list[PartitionRefJson]:
    return [PartitionRefJson(*place) for place in places]


class GroupListQuery(Struct, forbid_unknown_fields=True):
    details: Annotated[bool, Meta(description="Include a row of details for each.")] = False
    limit: (
        Annotated[
            int,
            Meta(ge=1, le=GROUPS_MAX, description=f"The most in an answer; else all, and with details {GROUP_ROWS:,}."),
        ]
        | None
    ) = None
    after: Annotated[
        str,
        Meta(
            max_length=TOPIC_NAME_CHARACTERS_MAX,
            description="Only those after this name: the last one of the previous page.",
        ),
    ] = ""


class GroupSummaryJson(Struct, kw_only=True):
    group_id: str
    state: GroupState
    condition: _Condition
    generation: int
    rebalance_state: RebalanceState
    members: Annotated[int, Meta(description="How many.")]
    topics: list[str]
    total_lag: int
    lag_seconds: float
    rate: Annotated[float, Meta(description="Messages settled per second, over the last minute.")]
    incoming: Annotated[float, Meta(description="Messages published per second, over the last minute.")]
    drain_seconds: Annotated[float | None, Meta(description="Seconds until the lag is 0 at this speed; null: never.")]
    in_flight: int
    lost: Annotated[int, Meta(description="Removed by retention before the group received them.")]


class GroupListResponse(Struct, omit_defaults=True):
    groups: list[str]
    details: Annotated[list[GroupSummaryJson] | None, Meta(description="Only if requested.")] = None
    missing: Annotated[
        list[str], Meta(description="Nodes of the cluster that did not list the groups that they coordinate.")
    ] = []


async def list_groups(call: ApiCall, query: GroupListQuery) -> GroupListResponse:
    """List the groups of all coordinators."""
    found, exchange = await list_coordinated(call, query), call.app.coordinators
    if exchange is None:
        return found
    others = await exchange.groups_of_others(query.after, query.limit or 0, has_details=query.details)
    names, rows = set(found.groups), {row.group_id: row for row in found.details or ()}
    for content in others.values():
        if content is not None:
            more = msgspec.json.decode(content, type=GroupListResponse)
            names |= set(call.access.described("group", more.groups))
            for row in more.details or ():
                row.topics = call.access.described("topic", row.topics)
                rows[row.group_id] = row
    most = query.limit or (GROUP_ROWS if query.details else len(names))
    chosen = sorted(names)[:most]
    details = [rows[name] for name in chosen if name in rows] if query.details else None
    return GroupListResponse(chosen, details, [node for node, content in others.items() if content is None])


async def list_coordinated(call: ApiCall, query: GroupListQuery) -> GroupListResponse:
    """List the groups that this node coordinates."""
    names = sorted(group.group for group in call.runtime.broker.groups.groups())
    names = [name for name in names if name > query.after and not is_internal(name)]
    names = call.access.described("group", names)
    most = query.limit or (GROUP_ROWS if query.details else len(names))
    if not query.details:
        return GroupListResponse(names[:most])
    slices, incoming = TimeSlices(), dict[PartitionRef, float]()
    rows = [await _row(call, name, slices, incoming) for name in names[:most]]
    return GroupListResponse(names[:most], [row for row in rows if row is not None])


async def _row(
    call: ApiCall, name: str, slices: TimeSlices, incoming: dict[PartitionRef, float]
) -> GroupSummaryJson | None:
    lags = await _lags(call, name, slices, incoming)
    group = call.runtime.broker.groups.group(name)
    if group is None:  # it went since the names were taken
        return None
    return GroupSummaryJson(
        group_id=name,
        state=state_of(call, group),
        condition=condition_of(call, group, lags),
        generation=group.generation,
        rebalance_state=rebalance_state_of(call, group),
        members=len(group.members),
        topics=call.access.described("topic", sorted(group.topics() | {lag.ref[0] for lag in lags})),
        total_lag=sum(lag.messages for lag in lags),
        lag_seconds=round(max((lag.seconds for lag in lags), default=0.0), 3),
        rate=round(sum(lag.rate for lag in lags), 3),
        incoming=round(sum(lag.incoming for lag in lags), 3),
        drain_seconds=longest([lag.drain_seconds for lag in lags]),
        in_flight=sum(lag.in_flight for lag in lags),
        lost=sum(lag.lost for lag in lags),
    )


async def _lags(call: ApiCall, name: str, slices: TimeSlices, incoming: dict[PartitionRef, float]) -> list[GroupLag]:
    """Return the lag of every partition of a group; other requests are served in between."""
    coordinator = call.runtime.broker.groups.of(name)
    group = coordinator.store.group(name)
    owners = group.owners() if group is not None else {}
    found: list[GroupLag] = []
    for place in sorted(coordinator.store.cursors(name)):
        await slices.rest()
        lag: GroupLag | None = await call.runtime.perform(
            coordinator.lags.of_partition(name, place, owners.get(place), incoming)
        )
        if lag is not None:
            found.append(lag)
    return found
