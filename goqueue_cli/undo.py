"""`goqueue-cli undo`: list what was changed on the broker, by anyone, and undo it."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.failure import UsageInvalid, doing
from goqueue.console.flags import Consent
from goqueue.console.formatting import format_age
from goqueue.console.rows import Column, struct_to_row
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue.console.undo import (
    CHANGES,
    MOVES,
    Row,
    change_rows,
    change_value,
    move_rows,
    undo_command,
    undo_state,
    user_of,
)
from goqueue.errors import OperationOutdated
from goqueue.quantities import format_count

if TYPE_CHECKING:
    from goqueue.client import Client, OperationInfo, UndoResult

_SHOWN = 20

_OPERATIONS = (
    Column("ID", "id"),
    Column("AGE", "time", format_age),
    Column("KIND", "kind"),
    Column("SUBJECT", "subject"),
    Column("SUMMARY", "summary"),
    Column("BY", "client", user_of),
    Column("UNDO", "undo"),
    Column("CLIENT", "client", wide=True),
    Column("ADDRESS", "address", wide=True),
    Column("REASON", "reason", wide=True),
)

_Kind = Literal[
    "group_reset", "group_deleted", "group_restored", "group_altered", "topic_created", "topic_altered",
    "topic_scaled", "topic_deleted", "delayed_rescheduled", "delayed_cancelled", "redrive",
]  # fmt: skip


@session_flags
def undo(
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="ID", min=1, help="Operations, as the list has them.")
    ] = None,
    *,
    kind: Annotated[
        _Kind | None, typer.Option("--kind", metavar="KIND", help="List only changes such as group_reset.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="NAME", help="List only changes of this group or topic.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="The most to list.")] = _SHOWN,
    force: Annotated[bool, typer.Option("--force", help="Undo it although what it changed has changed since.")] = False,
    consent: Consent,
    session: Session,
) -> None:
    """Undo a change, or list what was changed.

    \b
      goqueue-cli undo
      goqueue-cli undo --subject billing
      goqueue-cli undo 17 --dry-run
      goqueue-cli undo 17

    The broker records the last 1,000 changes of 30 days at most, of all clients. Resets,
    deleted groups, settings of topics and groups, and due times can be undone; other changes are listed. A reset group
    gets its former offsets back; messages that it had acked above them are read again. What would do harm, because the
    group has gone on or the setting was changed again, needs --force. To undo is a change too, and can be undone.
    """
    if not ids:
        _list(session, kind, subject, limit)
        return
    if kind is not None or subject is not None:
        raise UsageInvalid("--kind and --subject are for the list", hint="leave them out, or leave out the ids")
    failed = False
    for number in sorted(set(ids), reverse=True):
        with doing(f"undo operation {number}"), session.client() as client:
            operation = client.operation(number)
            if operation.undoable:
                _undo(client, session, operation, consent, force=force)
            else:
                _show(session, operation)
                failed |= not consent.dry_run
    if failed:
        raise typer.Exit(exit_codes.FAILED)


def _list(session: Session, kind: str | None, subject: str | None, limit: int) -> None:
    with doing("list operations"), session.client() as client:
        rows = [struct_to_row(one) for one in client.operations(limit, kind=kind, subject=subject)]
    for row in rows:
        row |= {"name": str(row["id"]), "undo": _undo_state(row)}
        del row["changes"], row["omitted"]
    session.write(rows, _OPERATIONS)
    if rows and (node := rows[0]["node"]) is not None:
        session.note(f"these are the changes that node {node} recorded: each node of a cluster has its own")
    if not rows:
        session.note("no changes are recorded" if kind is None and subject is None else "no such changes are recorded")


def _undo_state(row: Row) -> str:
    return undo_state(undone_by=row["undone_by"], state=row["state"], is_undoable=row["undoable"])


def _show(session: Session, operation: "OperationInfo") -> None:
    """Show what cannot be undone: where messages went, or what was changed."""
    if moves := move_rows(operation.subject, operation.changes):
        session.write(moves, MOVES)
    else:
        session.write(change_rows(operation.changes), CHANGES)
    terminal.say(
        f"{operation.subject}: {operation.summary}",
        f"operation {operation.id} cannot be undone: {operation.reason}",
    )


def _undo(client: "Client", session: Session, operation: "OperationInfo", consent: Consent, *, force: bool) -> None:
    number = operation.id
    what = f"undo operation {number} on {operation.subject}: {operation.summary}"
    try:
        plan = client.undo(number, dry_run=True, force=force)
    except OperationOutdated as error:
        error.hint = f"`{undo_command(session, number)} --force` undoes it all the same"
        raise
    if consent.dry_run:
        session.write(change_rows(plan.changes), CHANGES)
        terminal.say(f"that would {what}", *plan.notes)
        return
    if consent.must_ask and terminal.can_prompt():
        terminal.say(*_plan_lines(plan))
    require_confirmation(session, what, name=operation.subject, consent=consent)
    done = client.undo(number, force=force)
    session.write(change_rows(done.changes), CHANGES)
    terminal.say(*done.notes)
    if done.operation is not None:
        terminal.say(f"`{undo_command(session, done.operation)}` undoes this")


def _plan_lines(plan: "UndoResult", most: int = 20) -> list[str]:
    rows = change_rows(plan.changes)
    lines = [f"  {row['name']}: {change_value(row['before'])} -> {change_value(row['after'])}" for row in rows[:most]]
    if len(rows) > most:
        lines.append(f"  and {format_count(len(rows) - most, 'more change')}")
    return [*lines, *plan.notes]
