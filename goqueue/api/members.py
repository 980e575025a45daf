"""Members of groups: join, heartbeat, revoke, leave."""

from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from goqueue.api.delivery import DeliveryRequest, check_dead_letter_topic, delivery_changes, visibility_seconds
from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import END, Duration, Generation, MemberId
from goqueue.api.groups import (
    GroupState,
    PartitionRefJson,
    RebalanceState,
    bodies,
    described_places,
    name_of,
    rebalance_state_of,
    state_of,
)
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.view import Isolation
from goqueue.broker.groups.membership import JoinOptions
from goqueue.broker.groups.records import Group, MessageOrder, RebalanceProtocol, StartPosition, Strategy
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

UNNAMED = "client"
_PRINTABLE = rf"^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+{END}"
"""No control characters, line ends or changes of direction, which a terminal would obey."""


class SessionTimeout(Duration, least=SESSION_SECONDS_MIN, most=SESSION_SECONDS_MAX):
    noun = "a session timeout"


class JoinRequest(DeliveryRequest, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A member; the delivery settings that it names become the group's, for all members."""

    topics: Annotated[list[str], Meta(min_length=1, max_length=GROUP_TOPICS_MAX)]
    client_id: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=CLIENT_ID_CHARACTERS_MAX,
            pattern=_PRINTABLE,
            description="A name for operators, without control characters.",
        ),
    ] = UNNAMED
    session_timeout: SessionTimeout | None = None
    protocol: Annotated[
        RebalanceProtocol | None, Meta(description="How the group rebalances; the first member decides.")
    ] = None
    member_id: Annotated[MemberId | None, Meta(description="The id of a member that joins again.")] = None
    assignment_strategy: Strategy | None = None
    order: Annotated[
        MessageOrder | None, Meta(description="With `key`, messages wait while an earlier one of their key is retried.")
    ] = None
    start: Annotated[
        StartPosition | None, Meta(description="Where to start in partitions that the group never read.")
    ] = None
    isolation: Annotated[
        Isolation | None, Meta(description="With `read_uncommitted`, messages of open transactions are delivered.")
    ] = None
    max_in_flight: (
        Annotated[int, Meta(ge=1, le=IN_FLIGHT_MESSAGES_MAX, description="Maximum number of messages in flight.")]
        | None
    ) = None


class JoinResponse(Struct, kw_only=True):
    member_id: str
    generation: int
    leader: bool
    leader_id: str
    members: list[str]
    assigned_partitions: list[str]
    partitions: list[PartitionRefJson]
    rebalance_required: bool
    protocol: RebalanceProtocol
    assignment_strategy: Strategy
    state: GroupState
    rebalance_state: RebalanceState
    session_timeout: float
    heartbeat_interval: float
    revocation_timeout: float
    visibility_timeout: float


class HeartbeatRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    member_id: MemberId
    generation: Generation | None = None


class HeartbeatResponse(Struct):
    rebalance_required: bool
    state: GroupState
    generation: int


class CooperativeHeartbeatResponse(Struct, kw_only=True):
    rebalance_required: bool
    partitions_to_revoke: list[PartitionRefJson]
    partitions_assigned: Annotated[list[PartitionRefJson], Meta(description="All partitions that the member keeps.")]
    generation: int
    protocol: RebalanceProtocol
    state: GroupState
    rebalance_state: RebalanceState
    revocation_deadline: str | None


class RevokeRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    member_id: MemberId
    revoked_partitions: Annotated[list[PartitionRefJson], Meta(max_length=10_000)]
    generation: Generation | None = None


class RevokeResponse(Struct):
    status: str
    pending_count: int
    rebalance_state: RebalanceState
    generation: int


class MemberRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    member_id: MemberId


class LeaveResponse(Struct):
    left: bool


class AssignmentResponse(Struct):
    member_id: str
    generation: int
    partitions: list[PartitionRefJson]
    partitions_to_revoke: list[PartitionRefJson]


async def join(call: ApiCall, body: JoinRequest) -> JoinResponse:
    return await _join(call, body, confirms=False)


async def join_cooperative(call: ApiCall, body: JoinRequest) -> JoinResponse:
    body.protocol = body.protocol or "cooperative"
    return await _join(call, body, confirms=True)


async def _join(call: ApiCall, body: JoinRequest, *, confirms: bool) -> JoinResponse:
    defaults, name = call.app.groups, call.parameters["group"]
    for topic in body.topics:
        call.access.require("read", "topic", topic)
    await call.learn_ends(*body.topics)
    check_dead_letter_topic(call, delivery_changes(body, nulls=False))
    session = defaults.session_timeout if body.session_timeout is None else float(body.session_timeout)
    options = JoinOptions(
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
        delivery=delivery_changes(body, nulls=False),
        confirms=confirms,
        is_named=body.client_id != UNNAMED,
    )
    join = partial(call.runtime.broker.groups.of(name).membership.join, name, options)
    member, group = await call.runtime.ask(join)
    return _joined(call, group, member)


def _joined(call: ApiCall, group: Group, member: str) -> JoinResponse:
    leader, settings = next(iter(group.members), ""), call.runtime.broker.groups.settings
    places = group.partitions_to_process(member)
    session = group.members[member].session_ns / NANOSECONDS if member in group.members else HEARTBEAT_SECONDS
    return JoinResponse(
        member_id=member,
        generation=group.generation,
        leader=member == leader,
        leader_id=leader,
        members=list(group.members),
        assigned_partitions=[name_of(place) for place in places],
        partitions=bodies(places),
        rebalance_required=bool(group.partitions_to_revoke(member)),
        protocol=group.protocol,
        assignment_strategy=group.strategy,
        state=state_of(call, group),
        rebalance_state=rebalance_state_of(call, group),
        session_timeout=session,
        heartbeat_interval=min(HEARTBEAT_SECONDS, session / 3),
        revocation_timeout=settings.revocation_ns / NANOSECONDS,
        visibility_timeout=visibility_seconds(call, group, member),
    )


async def heartbeat(call: ApiCall, body: HeartbeatRequest) -> HeartbeatResponse:
    group, is_news = _beat(call, body)
    return HeartbeatResponse(is_news, state_of(call, group), group.generation)


async def heartbeat_cooperative(call: ApiCall, body: HeartbeatRequest) -> CooperativeHeartbeatResponse:
    group, is_news = _beat(call, body)
    member = body.member_id
    groups = call.runtime.broker.groups
    deadline_ns = groups.of(group.group).rebalancer.revocation_deadline(group.group, member)
    return CooperativeHeartbeatResponse(
        rebalance_required=is_news,
        partitions_to_revoke=bodies(group.partitions_to_revoke(member)),
        partitions_assigned=bodies(group.partitions_to_process(member)),
        generation=group.generation,
        protocol=group.protocol,
        state=state_of(call, group),
        rebalance_state=rebalance_state_of(call, group),
        revocation_deadline=None if deadline_ns is None else format_time(groups.on_wall_ns(deadline_ns)),
    )


def _beat(call: ApiCall, body: HeartbeatRequest) -> tuple[Group, bool]:
    name = call.parameters["group"]
    return call.runtime.broker.groups.of(name).membership.heartbeat(name, body.member_id, body.generation)


async def revoke(call: ApiCall, body: RevokeRequest) -> RevokeResponse:
    name = call.parameters["group"]
    rule = partial(
        call.runtime.broker.groups.of(name).membership.revoke,
        name,
        body.member_id,
        body.generation,
        [PartitionRef(place.topic, place.partition) for place in body.revoked_partitions],
    )
    _, group = await call.runtime.ask(rule)
    return RevokeResponse(
        "ok", len(group.partitions_to_revoke(body.member_id)), rebalance_state_of(call, group), group.generation
    )


async def leave(call: ApiCall, body: MemberRequest) -> LeaveResponse:
    name = call.parameters["group"]
    await call.runtime.ask(partial(call.runtime.broker.groups.of(name).membership.leave, name, body.member_id))
    return LeaveResponse(True)


async def assignment(call: ApiCall, query: MemberRequest) -> AssignmentResponse:
    member = query.member_id
    name = call.parameters["group"]
    group = call.runtime.broker.groups.of(name).membership.assignment(name, member)
    return AssignmentResponse(
        member,
        group.generation,
        bodies(described_places(call, group.partitions_to_process(member))),
        bodies(described_places(call, group.partitions_to_revoke(member))),
    )
