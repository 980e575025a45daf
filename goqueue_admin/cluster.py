"""`goqueue-admin cluster`: another controller, a lost voter replaced, a node taken out of the list."""

from typing import Annotated

import typer

from goqueue.console import terminal
from goqueue.console.failure import doing
from goqueue.console.flags import Consent
from goqueue.console.rows import Column, struct_to_row
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue.quantities import format_count

_NodeId = Annotated[str, typer.Argument(metavar="NODE", help="Id of a node.")]
_VOTER = (Column("NODE", "name"), Column("CHANGED", "changed"), Column("DIRECTORY", "directory_id"))
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
