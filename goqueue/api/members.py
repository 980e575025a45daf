"""Members of groups: joining, signs of life, giving up, leaving."""

from functools import partial
from typing import Annotated

import msgspec

from goqueue.api.call import Call
from goqueue.api.groups import END, PlaceBody, RebalanceState, State, bodies, name_of, rebalance_state_of, state_of
from goqueue.api.scalars import Duration
from goqueue.broker.groups.assignors import Strategy
from goqueue.broker.groups.group import Group, Order, Protocol, Start
from goqueue.broker.groups.membership import Wish
from goqueue.broker.view import Isolation
from goqueue.clock import NANOSECONDS
from goqueue.limits import (
    CLIENT_ID_CHARACTERS_MAX,
    GROUP_TOPICS_MAX,
    HEARTBEAT_SECONDS,
    IN_FLIGHT_MESSAGES_MAX,
    SESSION_SECONDS_MAX,
    SESSION_SECONDS_MIN,
)
from goqueue.quantities import format_time

Generation = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1, description="The generation that the member knows of.")]
MemberId = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]

UNNAMED = "client"
_PRINTABLE = rf"^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+{END}"
"""Nothing that a terminal would obey: no control characters, no line ends, no changes of direction."""


class SessionTimeout(Duration, least=SESSION_SECONDS_MIN, most=SESSION_SECONDS_MAX):
    noun = "a session timeout"


class JoinRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    topics: Annotated[list[str], msgspec.Meta(min_length=1, max_length=GROUP_TOPICS_MAX)]
    client_id: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=CLIENT_ID_CHARACTERS_MAX,
            pattern=_PRINTABLE,
            description="For people to know it by, so without control characters.",
        ),
    ] = UNNAMED
    session_timeout: SessionTimeout | None = None
    protocol: Annotated[
        Protocol | None, msgspec.Meta(description="How the group rebalances; whoever is first decides.")
    ] = None
    member_id: Annotated[MemberId | None, msgspec.Meta(description="Of a member that joins again.")] = None
    assignment_strategy: Strategy | None = None
    order: Annotated[
        Order | None,
        msgspec.Meta(description="With `key`, messages wait while an earlier one of their key is tried again."),
    ] = None
    start: Annotated[
        Start | None, msgspec.Meta(description="Where partitions are read from that the group never read.")
    ] = None
    isolation: Annotated[
        Isolation | None,
        msgspec.Meta(description="With `read_uncommitted`, messages of transactions come before those have ended."),
    ] = None
    max_in_flight: (
        Annotated[
            int,
            msgspec.Meta(ge=1, le=IN_FLIGHT_MESSAGES_MAX, description="Messages it may have and not have settled."),
        ]
        | None
    ) = None


class Joined(msgspec.Struct, kw_only=True):
    member_id: str
    generation: int
    leader: bool
    leader_id: str
    members: list[str]
    assigned_partitions: list[str]
    partitions: list[PlaceBody]
    rebalance_required: bool
    protocol: Protocol
    assignment_strategy: Strategy
    state: State
    rebalance_state: RebalanceState
    session_timeout: float
    heartbeat_interval: float
    revocation_timeout: float
    visibility_timeout: float


class HeartbeatRequest(msgspec.Struct, forbid_unknown_fields=True):
    member_id: MemberId
    generation: Generation | None = None


class Heartbeat(msgspec.Struct):
    rebalance_required: bool
    state: State
    generation: int


class CooperativeHeartbeat(msgspec.Struct, kw_only=True):
    rebalance_required: bool
    partitions_to_revoke: list[PlaceBody]
    partitions_assigned: Annotated[list[PlaceBody], msgspec.Meta(description="All that the member has and keeps.")]
    generation: int
    protocol: Protocol
    state: State
    rebalance_state: RebalanceState
    revocation_deadline: str | None


class RevokeRequest(msgspec.Struct, forbid_unknown_fields=True):
    member_id: MemberId
    revoked_partitions: Annotated[list[PlaceBody], msgspec.Meta(max_length=10_000)]
    generation: Generation | None = None


class Revoked(msgspec.Struct):
    status: str
    pending_count: int
    rebalance_state: RebalanceState
    generation: int


class LeaveRequest(msgspec.Struct, forbid_unknown_fields=True):
    member_id: MemberId


class Left(msgspec.Struct):
    left: bool


class AssignmentQuery(msgspec.Struct, forbid_unknown_fields=True):
    member_id: MemberId


class Assignment(msgspec.Struct):
    member_id: str
    generation: int
    partitions: list[PlaceBody]
    partitions_to_revoke: list[PlaceBody]


async def join(call: Call) -> Joined:
    return await _join(call, confirms=False)


async def join_cooperative(call: Call) -> Joined:
    call.body.protocol = call.body.protocol or "cooperative"
    return await _join(call, confirms=True)


async def _join(call: Call, *, confirms: bool) -> Joined:
    body: JoinRequest = call.body
    defaults, coordinator = call.app.groups, call.runtime.broker.coordinator
    session = defaults.session_timeout if body.session_timeout is None else float(body.session_timeout)
    wish = Wish(
        topics=tuple(dict.fromkeys(body.topics)),
        client_id=body.client_id,
        session_ns=round(session * NANOSECONDS),
        in_flight_max=body.max_in_flight or defaults.max_in_flight,
        member_id=body.member_id,
        protocol=body.protocol,
        strategy=body.assignment_strategy,
        order=body.order,
        start=body.start,
        isolation=body.isolation,
        confirms=confirms,
        is_named=body.client_id != UNNAMED,
    )
    member, group = await call.runtime.ask(partial(coordinator.membership.join, call.parameters["group"], wish))
    return _joined(call, group, member)


def _joined(call: Call, group: Group, member: str) -> Joined:
    leader, settings = next(iter(group.members), ""), call.runtime.broker.coordinator.settings
    places = group.to_work_on(member)
    session = group.members[member].session_ns / NANOSECONDS if member in group.members else HEARTBEAT_SECONDS
    return Joined(
        member_id=member,
        generation=group.generation,
        leader=member == leader,
        leader_id=leader,
        members=list(group.members),
        assigned_partitions=[name_of(place) for place in places],
        partitions=bodies(places),
        rebalance_required=bool(group.to_give_up(member)),
        protocol=group.protocol,
        assignment_strategy=group.strategy,
        state=state_of(call, group),
        rebalance_state=rebalance_state_of(call, group),
        session_timeout=session,
        heartbeat_interval=min(HEARTBEAT_SECONDS, session / 3),
        revocation_timeout=settings.revocation_ns / NANOSECONDS,
        visibility_timeout=settings.rules.visibility_ns / NANOSECONDS,
    )


async def heartbeat(call: Call) -> Heartbeat:
    group, is_news = _beat(call)
    return Heartbeat(is_news, state_of(call, group), group.generation)


async def heartbeat_cooperative(call: Call) -> CooperativeHeartbeat:
    group, is_news = _beat(call)
    member = call.body.member_id
    coordinator = call.runtime.broker.coordinator
    deadline_ns = coordinator.rebalancer.deadline_of(group.group, member)
    return CooperativeHeartbeat(
        rebalance_required=is_news,
        partitions_to_revoke=bodies(group.to_give_up(member)),
        partitions_assigned=bodies(group.to_work_on(member)),
        generation=group.generation,
        protocol=group.protocol,
        state=state_of(call, group),
        rebalance_state=rebalance_state_of(call, group),
        revocation_deadline=None if deadline_ns is None else format_time(coordinator.on_wall_ns(deadline_ns)),
    )


def _beat(call: Call) -> tuple[Group, bool]:
    body: HeartbeatRequest = call.body
    membership = call.runtime.broker.coordinator.membership
    return membership.heartbeat(call.parameters["group"], body.member_id, body.generation)


async def revoke(call: Call) -> Revoked:
    body: RevokeRequest = call.body
    rule = partial(
        call.runtime.broker.coordinator.membership.give_up,
        call.parameters["group"],
        body.member_id,
        body.generation,
        [(place.topic, place.partition) for place in body.revoked_partitions],
    )
    _, group = await call.runtime.ask(rule)
    return Revoked("ok", len(group.to_give_up(body.member_id)), rebalance_state_of(call, group), group.generation)


async def leave(call: Call) -> Left:
    membership = call.runtime.broker.coordinator.membership
    await call.runtime.ask(partial(membership.leave, call.parameters["group"], call.body.member_id))
    return Left(True)


async def assignment(call: Call) -> Assignment:
    member = call.query.member_id
    group = call.runtime.broker.coordinator.membership.assignment(call.parameters["group"], member)
    return Assignment(member, group.generation, bodies(group.to_work_on(member)), bodies(group.to_give_up(member)))
