"""`goqueue-cli cluster`: the nodes of a cluster, and its controller."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.failure import doing
from goqueue.console.flags import WatchOptions
from goqueue.console.formatting import format_ago, format_names
from goqueue.console.rows import Column, struct_to_row
from goqueue.console.session import Session, session_flags
from goqueue.console.watch import show_rows
from goqueue.quantities import format_count, format_duration

if TYPE_CHECKING:
    from goqueue.client import Client, ClusterHealthInfo, ClusterStateInfo


def _silence(seconds: float) -> str:
    return format_duration(round(seconds, 1))


_NODES = (
    Column("NODE", "name"),
    Column("STATUS", "status"),
    Column("ROLE", "role"),
    Column("SILENT", "silent_seconds", _silence),
    Column("ADDRESS", "address"),
    Column("PROBLEM", "problem"),
    Column("PEER-ADDRESS", "peer_address", wide=True),
    Column("VERSION", "version", wide=True),
    Column("LEVEL", "feature_level", format_count, wide=True),
    Column("REGISTERED", "registered_at", format_ago, wide=True),
    Column("BROKER-EPOCH", "broker_epoch", format_count, wide=True),
    Column("DIRECTORY", "directory_id", wide=True),
)


@session_flags
def nodes(*, options: WatchOptions, session: Session) -> None:
    """List the nodes of the cluster.

    \b
      goqueue-cli cluster nodes
      goqueue-cli cluster nodes -o wide
      goqueue-cli cluster nodes --watch

    It shows what the broker that answers sees. SILENT is how long it has not heard of a node: suspect after 6 seconds,
    dead after 9. An observer has no vote.
    """
    show_rows(
        session,
        "list the nodes of the cluster",
        lambda client: [{"name": one.node_id, **struct_to_row(one)} for one in client.cluster_state().nodes],
        _NODES,
        options,
        volatile=("silent_seconds",),
    )


def _replicas(found: "list[dict[str, Any]]") -> str:
    """Return the nodes: those out of sync with a mark, each with its lag if it is known and not 0."""
    return " ".join(
        f"{one['node']}{'' if one['in_sync'] else '!'}{'(-' + format_count(one['lag']) + ')' if one['lag'] else ''}"
        for one in found
    )


_PARTITIONS = (
    Column("PARTITION", "name"),
    Column("STATUS", "status"),
    Column("LEADER", "leader"),
    Column("EPOCH", "leader_epoch", format_count),
    Column("REPLICAS", "replicas", _replicas),
    Column("ISR", "isr", format_names),
    Column("MIN-ISR", "min_isr", format_count),
    Column("ELR", "elr", format_names),
    Column("PREFERRED", "preferred_leader", wide=True),
    Column("UNCLEAN", "unclean_epoch", format_count, wide=True),
)


@session_flags
def partitions(
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic.")] = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only those with replicas that are not in sync.")
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Only those without a leader.")] = False,
    *,
    options: WatchOptions,
    session: Session,
) -> None:
    """List the partitions of the cluster with their leaders and replicas.

    \b
      goqueue-cli cluster partitions
      goqueue-cli cluster partitions --topic orders
      goqueue-cli cluster partitions --under-replicated --watch

    The first replica is the preferred leader. One that is not in sync has a `!`, and one that lags the messages that it
    lacks, such as n3!(-120): known for partitions that the broker leads which answers. With fewer in sync than MIN-ISR,
    publishes with acks=all are refused.
    """

    def rows(client: "Client") -> "list[dict[str, Any]]":
        found = client.cluster_partitions(topic, unhealthy=under_replicated or offline)
        return [
            {"name": f"{one.topic}/{one.partition}", **struct_to_row(one)}
            for one in found
            if not offline or one.leader is None
        ]

    show_rows(session, "list the partitions of the cluster", rows, _PARTITIONS, options)


@session_flags
def status(
    node: Annotated[
        str | None, typer.Option("--node", metavar="ID", help="Also tell whether this node can be stopped.")
    ] = None,
    *,
    session: Session,
) -> None:
    """Show whether the cluster has a controller and a majority.

    \b
      goqueue-cli cluster status
      goqueue-cli cluster status --node n2

    The exit code is 1 if there is no controller, or a partition has no leader.
    """
    with doing("show the status of the cluster"), session.client() as client:
        health = client.cluster_health(node=node)
        state = client.cluster_state()
    if session.for_people:
        terminal.write_lines(_sentences(health, state))
    else:
        row: dict[str, Any] = {"name": state.cluster_id or "", **struct_to_row(state), **struct_to_row(health)}
        session.write([row], (Column("CLUSTER", "name"),))
    if health.status == "fail":
        raise typer.Exit(exit_codes.FAILED)


def _sentences(health: "ClusterHealthInfo", state: "ClusterStateInfo") -> Iterator[str]:
    yield f"cluster     {state.cluster_id or 'not formed yet'}, seen from node {state.node_id}"
    yield f"status      {health.status}"
    if state.controller_id is not None:
        yield f"controller  {state.controller_id}, epoch {state.epoch}"
    elif state.waiting_for:
        yield f"controller  none: the first formation waits for {', '.join(state.waiting_for)}"
    else:
        yield f"controller  none{'' if health.quorum else ': no majority of the voters is alive'}"
    without_vote = "" if state.has_vote else "; this node has no vote"
    yield f"voters      {health.voters_alive} of {health.voters} alive{without_vote}"
    levels = {one.node_id: one.feature_level for one in state.nodes if one.feature_level is not None}
    later = max(levels.values(), default=0)
    if state.feature_level and later > state.feature_level:
        old = ", ".join(node for node, level in levels.items() if level < later)
        yield f"upgrade     feature level {state.feature_level} of {later}, until {old} has the later version"
    missing = [f"{one.node_id} is {one.status}" for one in state.nodes if one.status != "alive"]
    if missing:
        yield f"missing     {', '.join(missing)}"
    for one in state.nodes:
        if one.problem is not None:
            yield f"problem     {one.node_id}: {one.problem}"
    if health.safe_to_stop is not None:
        safe = "safe: a majority and enough replicas are left"
        yield f"stop        {safe if health.safe_to_stop else f'NOT safe: {health.unsafe_because}'}"
    if health.draining:
        yield f"draining    {', '.join(health.draining)}"
    yield f"partitions  {describe_partitions(health)}"


def describe_partitions(health: "ClusterHealthInfo") -> str:
    if health.topics == "not_replicated":
        return "each node has its own: not all nodes have a version that shares them"
    if health.topics == "unknown":
        return "not known yet: this node has not followed the cluster since it was started"
    lacks = {
        "without a leader": health.offline_partitions,
        "under-replicated": health.under_replicated_partitions,
        "below min_isr": health.under_min_isr_partitions,
    }
    found = [f"{count} {what}" for what, count in lacks.items() if count]
    if health.controller_id is None:  # replicas that are lost now are not taken out of the ISR
        return f"{health.partitions}; without a controller only as last known: {', '.join(found) or 'nothing missing'}"
    return f"{health.partitions}, {', '.join(found) or 'all replicas are in sync'}"
