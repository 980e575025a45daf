"""Reassignments of partitions: plans, progress, speed, and the way back."""

from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict

from goqueue.api.cluster import member_of
from goqueue.api.cluster_peers import NodeName
from goqueue.api.endpoint import ApiCall
from goqueue.broker.internal_topics import FOLLOWED
from goqueue.cluster.controller_requests import CancelReassignment, ChangeReassignment, DrainNode, StartReassignment
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.peer_messages import ReplicaSizes
from goqueue.cluster.reassigner import MoveStage
from goqueue.cluster.reassignment_plans import PlannedCluster, plan_balance, plan_drain
from goqueue.errors import NodeNotFound, PartitionNotFound, ReassignmentNotFound, RequestInvalid, TopicNotFound
from goqueue.limits import (
    CLUSTER_CATCH_UP_RATE_MAX,
    CLUSTER_MOVES_AT_ONCE,
    CLUSTER_MOVES_MAX,
    CLUSTER_REPLICAS_MAX,
    PARTITIONS_MAX,
)
from goqueue.quantities import format_time, quoted
from goqueue.runtime.cluster.cluster_node import ClusterNode
from goqueue.runtime.cluster.reassignment_facts import (
    MoveFacts,
    ReassignmentFacts,
    ReassignmentState,
    reassignment_facts,
)

PlanKind = Literal["balance", "drain", "add"]
_Throttle = Annotated[
    int, Meta(ge=0, le=CLUSTER_CATCH_UP_RATE_MAX, description="Bytes of a second that each node sends; 0: no limit.")
]
_AtOnce = Annotated[int, Meta(ge=1, le=100, description="How many partitions move at a time.")]


class MoveJson(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    topic: str
    partition: Annotated[int, Meta(ge=0, lt=PARTITIONS_MAX)]
    replicas: Annotated[
        list[NodeName], Meta(min_length=1, max_length=CLUSTER_REPLICAS_MAX, description="The preferred leader first.")
    ]


class PlanRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    plan: Annotated[
        PlanKind,
        Meta(
            description="balance: even out leaders, bytes and racks; drain: give all replicas of `node` to others; "
            "add: give `node` its share."
        ),
    ]
    node: NodeName | None = None
    topics: Annotated[list[str] | None, Meta(description="Only these; null: all, internal ones included.")] = None


class PlannedMoveJson(Struct, kw_only=True):
    topic: str
    partition: int
    replicas: list[str]
    before: list[str]
    bytes: Annotated[int, Meta(description="To be copied, as far as the leaders could be asked.")]


class PlanResponse(Struct, kw_only=True):
    moves: list[PlannedMoveJson]
    bytes: Annotated[int, Meta(description="To be copied by all of them.")]


class ReassignmentRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    moves: Annotated[list[MoveJson], Meta(min_length=1, max_length=CLUSTER_MOVES_MAX)]
    throttle: _Throttle = 0
    at_once: _AtOnce = CLUSTER_MOVES_AT_ONCE


class ReassignmentChange(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    throttle: _Throttle | None = None
    paused: bool | None = None


class MoveProgressJson(Struct, kw_only=True):
    topic: Annotated[str | None, Meta(description="Null if it was deleted.")]
    partition: int
    stage: Annotated[
        MoveStage,
        Meta(description="kept: cancelled before it moved; gone: deleted, or moved elsewhere by a later reassignment."),
    ]
    before: list[str]
    replicas: Annotated[list[str], Meta(description="Those of the plan.")]
    isr: list[str]
    bytes: int
    bytes_left: int
    rate: int
    waits_for: str | None
    verified: Annotated[bool, Meta(description="It has the replicas of the plan, and all are in sync.")]


class ReassignmentJson(Struct, kw_only=True):
    id: int
    state: ReassignmentState
    moves: int
    done: int
    bytes_left: int
    rate: Annotated[int, Meta(description="Bytes of a second, of late.")]
    seconds_left: Annotated[float | None, Meta(description="At this rate; null while nothing is copied.")]
    throttle: int
    at_once: int
    started_at: str
    ended_at: str | None
    verified: Annotated[bool, Meta(description="All partitions have the replicas of the plan, all in sync.")]


class ReassignmentResponse(ReassignmentJson, kw_only=True):
    partitions: list[MoveProgressJson]


class ReassignmentsResponse(Struct, kw_only=True):
    reassignments: Annotated[list[ReassignmentJson], Meta(description="The newest first; the latest that have ended.")]


class DrainResponse(Struct, kw_only=True):
    node_id: str
    draining: bool
    leaders: Annotated[int, Meta(description="Partitions that the node still leads.")]
    replicas: int


async def plan(call: ApiCall, body: PlanRequest) -> PlanResponse:
    member = member_of(call)
    cluster = await _planned(call, member, body)
    node = body.node or ""
    if body.plan == "drain":
        changes = plan_drain(cluster, node)
    else:
        changes = plan_balance(cluster, node if body.plan == "add" else None)
    names = member.log.state.names
    moves = [
        PlannedMoveJson(
            topic=names[log.topic_id],
            partition=log.partition,
            replicas=list(replicas),
            before=list(cluster.before[log]),
            bytes=cluster.bytes.get(log, 0) * len(set(replicas) - set(cluster.before[log])),
        )
        for log, replicas in sorted(changes.items(), key=lambda one: (names[one[0].topic_id], one[0].partition))
    ]
    return PlanResponse(moves=moves, bytes=sum(one.bytes for one in moves))


async def _planned(call: ApiCall, member: ClusterNode, body: PlanRequest) -> PlannedCluster:
    """Return the partitions that a plan is about, and the nodes that may get replicas."""
    state = member.log.state
    if body.node is not None and body.node not in state.nodes:
        raise NodeNotFound(f"the cluster has no node {quoted(body.node)}", hint="GET /cluster/state lists the nodes")
    if (body.node is None) != (body.plan == "balance"):
        raise RequestInvalid(
            f"plan {body.plan} {'needs' if body.node is None else 'takes no'} node",
            hint="drain and add name a node, balance does not",
            problems=[],
        )
    for name in body.topics or ():
        if name not in state.topics:
            raise TopicNotFound(f"the cluster has no topic {quoted(name)}", topic=name)
    nodes = {
        name: registered.rack
        for name, (registered, _) in state.nodes.items()
        if name not in state.fenced
        and (name not in state.draining or (body.plan == "add" and name == body.node))
        and (body.plan != "drain" or name != body.node)
    }
    before = {
        log: one.replicas
        for log, one in state.partitions.items()
        if not one.is_moving
        and (body.topics is None or state.names[log.topic_id] in body.topics)
        and state.names[log.topic_id] not in FOLLOWED  # they have a replica on each node
    }
    sizes = await _sizes(call, before)
    return PlannedCluster(nodes, before, {log: size.bytes for log, size in sizes.items()})


async def _sizes(call: ApiCall, logs: Iterable[PartitionId]) -> dict[PartitionId, ReplicaSizes]:
    return {} if call.app.replica_sizes is None else await call.app.replica_sizes.sizes(logs)


async def start(call: ApiCall, body: ReassignmentRequest) -> ReassignmentResponse:
    member = member_of(call)
    moves = tuple((_log(member, one.topic, one.partition), tuple(one.replicas)) for one in body.moves)
    answer = await member.ask(StartReassignment(moves, body.throttle, body.at_once))
    return await _described(call, member, answer.reassignment)


def _log(member: ClusterNode, topic: str, partition: int) -> PartitionId:
    found = member.log.state.topics.get(topic)
    if found is None:
        raise TopicNotFound(f"the cluster has no topic {quoted(topic)}", topic=topic)
    if partition >= found.partitions:
        raise PartitionNotFound(
            f"topic {quoted(topic)} has no partition {partition}",
            hint=f"it has the partitions 0 to {found.partitions - 1}",
            partitions=found.partitions,
        )
    return PartitionId(found.created_ns, partition)


async def list_all(call: ApiCall) -> ReassignmentsResponse:
    member = member_of(call)
    known = list(reversed(member.log.state.reassignments.values()))
    sizes = await _sizes(call, {move.log for one in known if not one.outcome for move in one.moves})
    return ReassignmentsResponse(reassignments=[_summary(reassignment_facts(member, one, sizes)) for one in known])


async def describe(call: ApiCall) -> ReassignmentResponse:
    return await _described(call, member_of(call), _number(call))


async def change(call: ApiCall, body: ReassignmentChange) -> ReassignmentResponse:
    member, number = member_of(call), _number(call)
    await member.ask(ChangeReassignment(number, body.throttle, body.paused))
    return await _described(call, member, number)


async def cancel(call: ApiCall) -> ReassignmentResponse:
    member, number = member_of(call), _number(call)
    await member.ask(CancelReassignment(number))
    return await _described(call, member, number)


async def drain(call: ApiCall) -> DrainResponse:
    return await _drain(call, is_draining=True)


async def undrain(call: ApiCall) -> DrainResponse:
    return await _drain(call, is_draining=False)


async def _drain(call: ApiCall, *, is_draining: bool) -> DrainResponse:
    member, node = member_of(call), call.parameters["node"]
    state = member.log.state  # asked again, the controller would not let the node finish its publishes
    if is_draining != (node in state.draining) or node not in state.nodes:
        await member.ask(DrainNode(node, is_draining))
    states = member.log.state.partitions.values()
    return DrainResponse(
        node_id=node,
        draining=node in member.log.state.draining,
        leaders=sum(one.leader == node for one in states),
        replicas=sum(node in one.replicas for one in states),
    )


def _number(call: ApiCall) -> int:
    text = call.parameters["reassignment"]
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise _unknown(text)
    return int(text)


def _unknown(number: object) -> ReassignmentNotFound:
    return ReassignmentNotFound(
        f"the cluster has no reassignment {number}", hint="GET /admin/reassignment lists the latest"
    )


async def _described(call: ApiCall, member: ClusterNode, number: int) -> ReassignmentResponse:
    found = member.log.state.reassignments.get(number)
    if found is None:
        raise _unknown(number)
    facts = reassignment_facts(member, found, await _sizes(call, [move.log for move in found.moves]))
    up = member.log.state.nodes.keys() - member.log.state.fenced.keys()
    return ReassignmentResponse(**asdict(_summary(facts)), partitions=[_move(one, up) for one in facts.moves])


def _summary(facts: ReassignmentFacts) -> ReassignmentJson:
    found = facts.reassignment
    return ReassignmentJson(
        id=found.number,
        state=facts.state,
        moves=len(facts.moves),
        done=facts.done,
        bytes_left=facts.left,
        rate=facts.rate,
        seconds_left=None if facts.seconds_left is None else round(facts.seconds_left, 1),
        throttle=found.throttle,
        at_once=found.at_once,
        started_at=format_time(found.started_ns),
        ended_at=format_time(found.ended_ns) if found.outcome else None,
        verified=all(one.is_verified for one in facts.moves),
    )


def _move(facts: MoveFacts, up: Iterable[str]) -> MoveProgressJson:
    return MoveProgressJson(
        topic=facts.topic or None,
        partition=facts.partition,
        stage=facts.stage,
        before=list(facts.move.before),
        replicas=list(facts.move.target),
        isr=[] if facts.state is None else list(facts.state.isr),
        bytes=facts.size,
        bytes_left=facts.left,
        rate=facts.rate,
        waits_for=facts.waits_for(up),
        verified=facts.is_verified,
    )
