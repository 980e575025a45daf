"""`goqueue-admin cluster`: another controller, a lost voter replaced, a node drained or taken out of the list."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.failure import doing
from goqueue.console.flags import Consent, duration_parser
from goqueue.console.rows import Column, struct_to_row
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue.quantities import format_count
from goqueue_admin.reassignments import follow

if TYPE_CHECKING:
    from goqueue.client import Client, NodeDrained

_LOOK_SECONDS = 0.25
_NodeId = Annotated[str, typer.Argument(metavar="NODE", help="Id of a node.")]
_VOTER = (Column("NODE", "name"), Column("CHANGED", "changed"), Column("DIRECTORY", "directory_id"))
_DRAINED = (
    Column("NODE", "name"),
    Column("DRAINING", "draining"),
    Column("LEADERS", "leaders", format_count),
    Column("REPLICAS", "replicas", format_count),
)
_CONTROLLER = (Column("CONTROLLER", "name"), Column("EPOCH", "epoch", format_count))


@session_flags
def transfer(
    node: Annotated[
        str | None, typer.Option("--to", metavar="NODE", help="The next controller. Default: the voter that is ahead.")
    ] = None,
    *,
    session: Session,
) -> None:
    """Let another node become the controller.

    \b
      goqueue-admin cluster transfer
      goqueue-admin cluster transfer --to n2

    A node that is stopped does so by itself. Nothing is lost, and clients see no pause.
    """
    with doing("transfer the controllership"), session.client() as client:
        found = client.transfer_controller(node)
    session.write([{"name": found.controller_id, **struct_to_row(found)}], _CONTROLLER)


@session_flags
def replace_voter(node: _NodeId, *, consent: Consent, session: Session) -> None:
    """Give a node with a new data directory the vote of the one that is lost.

    \b
      goqueue-admin cluster replace-voter n3 --dry-run
      goqueue-admin cluster replace-voter n3 --yes

    Start the node first: with its cluster.node_id and an empty data directory it follows without a vote. The lost
    directory has no vote any more, even if it comes back. If the command fails, repeat it: what is done is kept.
    """
    if consent.dry_run:
        with doing("look at the cluster"), session.client() as client:
            found = next((one for one in client.cluster_state().nodes if one.node_id == node), None)
        directory = None if found is None else found.directory_id
        terminal.say(
            f"there is no node {node}"
            if found is None
            else f"that would give node {node}, {found.status}, with directory {directory}, its vote again"
            if found.role == "observer"
            else f"node {node} has its vote: there is nothing to replace"
        )
        return
    require_confirmation(session, f"replace the voter {node} for good", name=node, consent=consent)
    with doing(f"replace the voter {node}"), session.client() as client:
        replaced = client.replace_voter(node)
    session.write([{"name": replaced.node_id, **struct_to_row(replaced)}], _VOTER)


@session_flags
def remove(node: _NodeId, *, consent: Consent, session: Session) -> None:
    """Take a node that is gone for good out of the list.

    \b
      goqueue-admin cluster remove n7 --yes

    The node must be stopped, be no voter and have no replicas. It is listed again when it starts again.
    """
    if consent.dry_run:
        terminal.say(f"that would remove node {node} from the list")
        return
    require_confirmation(session, f"remove node {node}", name=node, consent=consent)
    with doing(f"remove node {node}"), session.client() as client:
        client.remove_node(node)
    terminal.say(f"node {node} is removed")


@session_flags
def drain(
    node: _NodeId,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it leads nothing, and stopping it costs nothing.")
    ] = False,
    within: Annotated[
        float,
        typer.Option(
            "--within",
            metavar="DURATION",
            parser=duration_parser("--within"),
            show_default="5m",
            help="How long --wait waits.",
        ),
    ] = 300.0,
    decommission: Annotated[
        bool, typer.Option("--decommission", help="Also move all its replicas to other nodes, and wait for that.")
    ] = False,
    *,
    consent: Consent,
    session: Session,
) -> None:
    """Have others lead what a node leads, so that it can be stopped.

    \b
      goqueue-admin cluster drain n2 --wait --yes
      goqueue-admin cluster drain n2 --decommission --yes

    It keeps its replicas, gets no new ones, and leads nothing until `cluster undrain`, also after a restart. With
    --decommission it has no replicas in the end: stop it, and take it out of the list with `cluster remove`.
    """
    with doing(f"drain node {node}"), session.client() as client:
        if consent.dry_run:
            found = client.cluster_partitions()
            led = sum(one.leader == node for one in found)
            held = sum(any(replica.node == node for replica in one.replicas) for one in found)
            replicas = f", and {format_count(held, 'replica')} would move to other nodes" if decommission else ""
            alone = [] if decommission else _led_alone(client, node)
            stays = f"; {alone[0]} has no other replica, so it stays" if len(alone) == 1 else ""
            stays = f"; {len(alone)} have no other replica, so they stay: {', '.join(alone)}" if alone[1:] else stays
            terminal.say(
                f"{format_count(led - len(alone), 'partition')} led by node {node} would get another"
                f" leader{replicas}{stays}"
            )
            return
        require_confirmation(session, f"drain node {node}", name=node, consent=consent)
        drained = client.drain_node(node)
        if decommission:
            drained = _decommission(session, client, node)
        elif wait:
            drained = _wait_until_safe(client, node, within)
    session.write([{"name": drained.node_id, **struct_to_row(drained)}], _DRAINED)


def _led_alone(client: "Client", node: str) -> list[str]:
    """Return the partitions that a node leads as their only replica."""
    return [
        f"{one.topic}/{one.partition}"
        for one in client.cluster_partitions()
        if one.leader == node and [replica.node for replica in one.replicas] == [node]
    ]


def _wait_until_safe(client: "Client", node: str, seconds: float) -> "NodeDrained":
    until = time.monotonic() + seconds
    try:
        while True:
            drained, health = client.drain_node(node), client.cluster_health(node=node)
            if not drained.leaders and health.safe_to_stop:
                return drained
            why = f"it leads {format_count(drained.leaders, 'partition')}" if drained.leaders else health.unsafe_because
            if drained.leaders and len(alone := _led_alone(client, node)) == drained.leaders:
                terminal.say_error(
                    f"node {node} cannot be stopped",
                    cause=f"no other node has a replica of {', '.join(alone)}",
                    hint="give them another replica: `goqueue-cli topic edit TOPIC --set replication_factor=2`",
                )
                raise typer.Exit(exit_codes.FAILED)
            if time.monotonic() > until:
                terminal.say_error(f"node {node} cannot be stopped yet", cause=why or "it is not known why")
                raise typer.Exit(exit_codes.TIMED_OUT)
            terminal.show_status(f"node {node} cannot be stopped yet: {why}")
            time.sleep(_LOOK_SECONDS)
    finally:
        terminal.show_status("")


def _decommission(session: Session, client: "Client", node: str) -> "NodeDrained":
    """Move all replicas away, and wait for it."""
    moves = client.plan_reassignment("drain", node=node)
    if moves:
        found = client.start_reassignment(moves)
        session.note(f"reassignment {found.id} moves {format_count(len(moves), 'replica')} away")
        found = follow(client, found)
        if not found.verified:
            terminal.say_error(f"reassignment {found.id} is {found.state}", cause="not all replicas have moved")
            raise typer.Exit(exit_codes.FAILED)
    return client.drain_node(node)


@session_flags
def undrain(node: _NodeId, *, session: Session) -> None:
    """Let a drained node lead again.

    \b
      goqueue-admin cluster undrain n2

    The partitions that prefer it come back when it has been in sync for a minute.
    """
    with doing(f"undrain node {node}"), session.client() as client:
        drained = client.undrain_node(node)
    session.write([{"name": drained.node_id, **struct_to_row(drained)}], _DRAINED)
