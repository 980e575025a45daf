"""The plan of an election that is not clean: what each replica has, and what would be lost if it led."""

from typing import Annotated

from msgspec import Meta, Struct

from goqueue.api.cluster import member_of
from goqueue.api.cluster_metadata import find_partition
from goqueue.api.endpoint import ApiCall
from goqueue.cluster.recovery import Candidate, are_losses_known, plan_recovery
from goqueue.quantities import format_time


class RecoveryCandidateJson(Struct, kw_only=True):
    node: str
    can_lead: bool
    problem: Annotated[str | None, Meta(description="Why it cannot lead.")]
    log_start: int | None
    log_end: int | None
    last_epoch: Annotated[int | None, Meta(description="The leader epoch of its last record.")]
    high_watermark: Annotated[int | None, Meta(description="All below is known there to be committed.")]
    last_time: Annotated[str | None, Meta(description="The time of its last record.")]
    lost: Annotated[int | None, Meta(description="Records of other replicas that answer and that it lacks.")]
    lost_committed: Annotated[int | None, Meta(description="How many of them are known to be committed.")]


class RecoveryPlanResponse(Struct, kw_only=True):
    topic: str
    partition: int
    leader: Annotated[str | None, Meta(description="If there is one, nothing has to be recovered.")]
    leader_epoch: int
    isr: list[str]
    elr: Annotated[list[str], Meta(description="Not in sync, and with all that is committed.")]
    unclean_election: Annotated[str, Meta(description="What the topic or the cluster says: never or longest.")]
    has_controller: bool
    losses_known: Annotated[
        bool, Meta(description="False: more than `lost` may be lost, as not all that replicas had is known.")
    ]
    candidates: Annotated[list[RecoveryCandidateJson], Meta(description="All replicas; the first loses least.")]


async def describe_recovery(call: ApiCall) -> RecoveryPlanResponse:
    """Ask all nodes that are connected what they have of a partition. Needs no controller."""
    member, name, number = member_of(call), call.parameters["topic"], int(call.parameters["partition"])
    partition, state = find_partition(member, name, number)
    found = plan_recovery(state.replicas, (await member.recovery.ask([partition]))[partition])
    own = member.log.state.topics[name].settings.unclean_election
    return RecoveryPlanResponse(
        topic=name,
        partition=number,
        leader=state.leader or None,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        elr=list(state.elr),
        unclean_election=own or member.settings.unclean_election,
        has_controller=member.controller is not None,
        losses_known=are_losses_known(state, found),
        candidates=[_candidate(one) for one in found],
    )


def _candidate(one: Candidate) -> RecoveryCandidateJson:
    end = one.end
    return RecoveryCandidateJson(
        node=one.node,
        can_lead=one.can_lead,
        problem="it does not answer" if end is None else end.problem or None,
        log_start=None if end is None else end.start,
        log_end=None if end is None else end.end,
        last_epoch=None if end is None else end.index.last_epoch,
        high_watermark=None if end is None else end.high_watermark,
        last_time=None if end is None or not end.last_time_ns else format_time(end.last_time_ns),
        lost=None if end is None else one.lost,
        lost_committed=None if end is None else one.lost_committed,
    )
