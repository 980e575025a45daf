"""`goqueue-admin alert`: list, test and silence the alerts that a broker sends itself."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.failure import doing
from goqueue.console.flags import parse_duration_flag
from goqueue.console.formatting import format_ago
from goqueue.console.names import for_each_name, in_table, reject_empty_names
from goqueue.console.rows import Column, struct_to_row
from goqueue.console.session import Session, session_flags
from goqueue.quantities import format_count

if TYPE_CHECKING:
    from goqueue.client import AlertOverview, Client


def _optional_ago(text: str | None) -> str:
    return "-" if text is None else format_ago(text)


_ALERTS = (
    Column("STATUS", "status"),
    Column("SEVERITY", "severity"),
    Column("CODE", "code"),
    Column("SUBJECT", "subject"),
    Column("SINCE", "since", format_ago),
    Column("SENT", "sent_at", _optional_ago),
    Column("SILENCED-UNTIL", "silenced_until", lambda text: text or "-"),
    Column("SENTENCE", "sentence", wide=True),
    Column("HINT", "hint", wide=True),
)
_SILENCES = (
    Column("ID", "id"),
    Column("CODE", "code"),
    Column("SUBJECT", "subject"),
    Column("UNTIL", "until"),
    Column("REASON", "reason"),
    Column("BY", "created_by", wide=True),
    Column("CREATED", "created_at", format_ago, wide=True),
)


@session_flags
def list_alerts(
    silences: Annotated[bool, typer.Option("--silences", help="Show the silences instead of the alerts.")] = False,
    *,
    session: Session,
) -> None:
    """List the alerts that the broker sends itself, the worst first.

    \b
      goqueue-admin alert list
      goqueue-admin alert list -o wide
      goqueue-admin alert list --silences

    A finding of the doctor is pending until it has lasted for `alerts.after`; then it is firing and sent, until it is
    resolved. A silenced alert is not sent.
    """
    with doing("list alerts"), session.client() as client:
        found = client.alerts()
    if silences:
        session.write([{"name": str(one.id), **struct_to_row(one)} for one in found.silences], _SILENCES)
    else:
        session.write([{"name": f"{one.code} {one.subject}", **struct_to_row(one)} for one in found.alerts], _ALERTS)
    if session.for_people:
        terminal.say(*_notes(found))


def _notes(found: "AlertOverview") -> list[str]:
    """Say what the tables do not."""
    if not found.enabled:
        return [
            "the broker sends no alerts: `alerts.webhook_file` names no file; `goqueue-admin doctor` shows findings"
        ]
    counts = f"{format_count(len(found.alerts), 'alert')}, {format_count(len(found.silences), 'silence')}"
    problem = found.delivery.problem
    if problem is None:
        return [counts]
    return [counts, f"{format_count(found.delivery.failures, 'delivery', 'deliveries')} failed: {problem}"]


@session_flags
def test(*, session: Session) -> None:
    """Send a test message to the webhook.

    \b
      goqueue-admin alert test

    The exit code is 1 if the webhook does not accept it.
    """
    with doing("send a test message"), session.client() as client:
        found = client.test_alerts()
    row = {"name": "test", "delivered": found.delivered, "problem": found.problem}
    session.write([row], (Column("DELIVERED", "delivered"), Column("PROBLEM", "problem", lambda text: text or "-")))
    if not found.delivered:
        raise typer.Exit(exit_codes.FAILED)


@session_flags
def silence(
    code: Annotated[str, typer.Argument(metavar="CODE", help="A code of the doctor, or a pattern such as 'disk_*'.")],
    subject: Annotated[
        str, typer.Option("--subject", metavar="PATTERN", help="Only of this subject. Default: all.")
    ] = "*",
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long. Default: 1h.")] = "1h",
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for others to read.")] = "",
    *,
    session: Session,
) -> None:
    """Send nothing about some alerts for a time.

    \b
      goqueue-admin alert silence disk_filling --for 2h --reason 'new disk'
      goqueue-admin alert silence group_stuck --subject 'batch-*' --for 1d
      goqueue-admin alert silence '*'

    Silences survive a restart of the broker, and end by themselves.
    """
    reject_empty_names(code, noun="code")
    seconds = parse_duration_flag("--for", duration)
    with doing(f"silence {code}"), session.client() as client:
        made = client.silence_alerts(code, seconds, subject, reason)
    session.write([{"name": str(made.id), **struct_to_row(made)}], _SILENCES)


@session_flags
def unsilence(
    names: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of silences.")], *, session: Session
) -> None:
    """End silences before their time.

    \b
      goqueue-admin alert unsilence 3
    """
    reject_empty_names(*names, noun="silence")

    def work(client: "Client", name: str) -> dict[str, Any]:
        return {"name": name, **client.end_silence(name)}

    for_each_name(session, names, "end silence", work, in_table((Column("ID", "name"), Column("ENDED", "ended"))))
