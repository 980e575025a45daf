"""`goqueue-admin partition`: a leader for a partition of which no replica is left that has everything."""

from typing import Annotated

import typer

from goqueue.client.cluster_requests import RecoveryCandidate, RecoveryPlan
from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid, doing
from goqueue.console.flags import Consent
from goqueue.console.rows import Column, struct_to_row
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue.errors import ControllerUnavailable, ElectionRefused
from goqueue.quantities import format_count

_PLAN = (
    Column("REPLICA", "node"),
    Column("LEADS", "leads"),
    Column("EPOCH", "last_epoch", format_count),
    Column("END", "log_end", format_count),
    Column("HIGH-WATERMARK", "high_watermark", format_count),
    Column("LAST-RECORD", "last_time"),
    Column("LOSES", "loses"),
    Column("COMMITTED", "lost_committed", format_count),
    Column("PROBLEM", "problem"),
)


_WITHOUT_MAJORITY = (
    "start the voters that are missing; if a majority is lost for good, begin a new cluster with a node that is left:"
    " `goqueue cluster forget`"
)


@session_flags
def recover(
    partition: Annotated[str, typer.Argument(metavar="TOPIC/PARTITION", help="Partition without a leader.")],
    node: Annotated[
        str | None, typer.Option("--node", metavar="NODE", help="The next leader. Default: the one that loses least.")
    ] = None,
    *,
    consent: Consent,
    session: Session,
) -> None:
    """Make a replica the leader that may lack committed messages, where no other is left.

    \b
      goqueue-admin partition recover orders/0 --dry-run
      goqueue-admin partition recover orders/0 --yes
      goqueue-admin partition recover orders/0 --node n2 --yes

    The plan shows what each replica has, and how many records of the others would be lost if it led. What is only on
    replicas that do not answer is lost as well, so start their nodes first if you can: with one that has everything
    the partition has a leader again by itself.
    """
    topic, number = _split(partition)
    with doing(f"ask for the replicas of {partition}"), session.client() as client:
        plan = client.plan_recovery(topic, number)
    candidate = _choice(plan, node)
    chosen = candidate if plan.leader is None else None
    rows = [
        {"leads": "yes" if one is chosen else "-", "loses": _count_lost(plan, one), **struct_to_row(one)}
        for one in plan.candidates
    ]
    session.write(rows, _PLAN)
    if not plan.has_controller:
        sentence = "the cluster has no controller, so no leader can be elected"
        if not consent.dry_run:
            raise ControllerUnavailable(sentence, hint=_WITHOUT_MAJORITY)
        terminal.say(sentence, f"hint: {_WITHOUT_MAJORITY}")
        return
    if plan.leader is not None:
        terminal.say(f"node {plan.leader} leads {partition}: there is nothing to recover")
        return
    if candidate is None:
        who = f"node {node} cannot" if node is not None else "no replica that answers can"
        raise ElectionRefused(f"{who} lead {partition}", hint="start the nodes of its replicas")
    what = loss_of(plan, candidate)
    if consent.dry_run:
        terminal.say(f"that would make node {candidate.node} the leader of {partition}{what}")
        return
    require_confirmation(
        session, f"make node {candidate.node} the leader of {partition}{what}", name=partition, consent=consent
    )
    with doing(f"make node {candidate.node} the leader of {partition}"), session.client() as client:
        client.elect_leader(topic, number, candidate.node, unclean=True)
    terminal.say(f"node {candidate.node} leads {partition}")


def _split(partition: str) -> tuple[str, int]:
    topic, _, number = partition.rpartition("/")
    if not topic or not number.isdecimal():
        raise UsageInvalid(f"{partition!r} is not a partition", hint="write TOPIC/PARTITION, such as orders/0")
    return topic, int(number)


def _choice(plan: RecoveryPlan, node: str | None) -> RecoveryCandidate | None:
    return next((one for one in plan.candidates if one.can_lead and node in (None, one.node)), None)


def _count_lost(plan: RecoveryPlan, candidate: RecoveryCandidate) -> str:
    lost = candidate.lost
    if lost is None or (not lost and not plan.losses_known):
        return "unknown"
    return f"{lost:,}" if plan.losses_known else f"{lost:,} or more"


def loss_of(plan: RecoveryPlan, candidate: RecoveryCandidate) -> str:
    """Return what is lost, as the end of a sentence."""
    lost = candidate.lost or 0
    silent = [one.node for one in plan.candidates if one.log_end is None or (one.problem and not one.log_end)]
    parts = []
    if (candidate.last_epoch or 0) < plan.leader_epoch - 1:
        parts.append(f"all since leader epoch {candidate.last_epoch}")
    if lost:
        parts.append(
            f"{format_count(lost, 'record')} of the others, {candidate.lost_committed or 0:,} known as committed"
        )
    if silent:
        parts.append(f"what only {' and '.join(silent)} may have")
    elif not plan.losses_known:
        parts.append("an unknown number of records: no replica is known to have had them all")
    empty = "" if candidate.log_end else " with an empty log"
    return f"{empty} and lose {', and '.join(parts)}" if parts else f"{empty}, which loses nothing that is known"
