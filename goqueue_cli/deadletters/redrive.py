"""`goqueue-cli dlq redrive`: send dead letters back to where they came from."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import exits, terminal
from goqueue.console.danger import ConfirmFlag, DryRunFlag, YesFlag, agree
from goqueue.console.failure import doing
from goqueue.console.groups import UsageInvalid
from goqueue.console.names import refuse_empty, short
from goqueue.console.redrives import Record
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.quantities import format_count, quoted
from goqueue_cli.deadletters import redriving
from goqueue_cli.deadletters.choice import ErrorFlag, FromFlag, GroupFlag, ToFlag, TopicName, WhereFlag, times
from goqueue_cli.deadletters.letters import dead_letter_topic, origin
from goqueue_cli.deadletters.redriving import Outcome, Pace, Plan
from goqueue_cli.groups import resets
from goqueue_cli.interruption import after_this_step
from goqueue_cli.nearest import naming_dead_letters

if TYPE_CHECKING:
    from goqueue.client import Client

_FAILURES_TOLD = 5

_RESULT = (
    Column("TOPIC", "name"),
    Column("MOVED", "moved", format_count),
    Column("FAILED", "failed", format_count),
    Column("SCANNED", "scanned", format_count),
    Column("COMPLETE", "complete", lambda complete: "yes" if complete else "no"),
)


@session_flags
def redrive(  # noqa: PLR0913 - flags, each given by name
    topic: TopicName,
    *,
    error: ErrorFlag = None,
    group: GroupFlag = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only those with this key.")] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="Only those with this header; more than one must all fit."),
    ] = None,
    where: WhereFlag = None,
    start: FromFlag = None,
    until: ToFlag = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many.")] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="N", min=0.1, max=1e6, help="At most so many in a second.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", metavar="TOPIC", help="To this topic, and not where each came from.")
    ] = None,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
    confirm: ConfirmFlag = None,
    session: Session,
) -> None:
    """Send dead letters back to where they came from.

    \b
      goqueue-cli dlq redrive orders --dry-run
      goqueue-cli dlq redrive orders --error timeout --rate 100
      goqueue-cli dlq redrive orders --key customer-4 --from -1h --yes
      goqueue-cli dlq redrive orders --where 'json.total>40' --dry-run
      goqueue-cli dlq redrive orders --target orders-repair --limit 1000

    They become new messages at the end of the topic, for every group that reads it. What fails again meanwhile and
    comes back stays. Each is sent once, whatever happens: ^C stops between two requests and says how many went, and
    the same command goes on with the rest. It asks before, where somebody can answer; elsewhere it needs --yes,
    and in a protected context --confirm.
    """
    refuse_empty(topic, *([] if target is None else [target]))
    wishes = _wishes(error=error, group=group, key=key, header=_headers(headers), target=target, filters=where)
    wishes |= times(start, until)
    own_name = dead_letter_topic(topic)
    with doing(f"send back the dead letters of topic {short(topic)}"), session.client() as client:
        with naming_dead_letters(client):
            planned = redriving.plan(client, origin(topic), wishes, limit)
        if dry_run:
            session.write(planned.rows, redriving.COLUMNS)
            _tell_plan(planned, own_name)
            return
        outcome, stopped = Outcome(scanned=planned.scanned, complete=True), False
        if planned.count:
            _agree(session, planned, topic, yes=yes, confirm=confirm)
            outcome, stopped = _carry_out(client, planned, own_name, limit, rate, session)
    _write(session, outcome, planned, own_name)
    if stopped:
        terminal.say(f"interrupted: {format_count(outcome.moved, 'dead letter')} sent back")
        raise typer.Exit(exits.INTERRUPTED)
    if outcome.failed or planned.stuck:
        raise typer.Exit(exits.FAILED)


def _carry_out(
    client: "Client", planned: Plan, topic: str, limit: int | None, rate: float | None, session: Session
) -> tuple[Outcome, bool]:
    """What has come of it, and whether somebody has stopped it. Its record is told whatever happens."""
    outcome, record = Outcome(), Record(topic, resets.server_of(session))
    try:
        with after_this_step() as is_stopped:
            redriving.carry_out(client, topic, planned, Pace(limit, rate), record, is_stopped, outcome)
            return outcome, is_stopped() and not outcome.complete
    except BaseException:
        terminal.show_status("")
        terminal.say(f"{format_count(outcome.moved, 'dead letter')} sent back before, and maybe more")
        raise
    finally:
        terminal.show_status("")
        if (path := record.close()) is not None:
            terminal.say(f"`{resets.undoing(path, session)}` shows what was sent where")


def _agree(session: Session, planned: Plan, topic: str, *, yes: bool, confirm: str | None) -> None:
    if not yes and confirm is None and terminal.may_ask():
        terminal.say(*redriving.lines(planned))
    count = format_count(planned.count, "dead letter")
    what = f"send {count} of {dead_letter_topic(topic)} to {', '.join(planned.targets)}"
    agree(session, what, name=topic, yes=yes, confirm=confirm)


def _tell_plan(planned: Plan, topic: str) -> None:
    if planned.count:
        terminal.say(
            f"{format_count(planned.count, 'dead letter')} of {topic} would go to {', '.join(planned.targets)}"
        )
    _tell_stuck(planned)
    if not planned.rows:
        terminal.say(f"no such dead letters of {topic}")


def _tell_stuck(planned: Plan) -> None:
    for row in planned.stuck[:_FAILURES_TOLD]:
        terminal.say(f"{format_count(row['count'], 'dead letter')} cannot go: {row['problem']}")


def _write(session: Session, outcome: Outcome, planned: Plan, topic: str) -> None:
    row: dict[str, Any] = {
        "name": topic,
        "moved": outcome.moved,
        "failed": outcome.failed or sum(one["count"] for one in planned.stuck),
        "scanned": outcome.scanned,
        "complete": outcome.complete,
    }
    session.write([row], _RESULT)
    if not planned.count:
        _tell_stuck(planned)
        if not planned.rows:
            terminal.say(f"no such dead letters of {topic}")
    for told, count in outcome.failures.most_common(_FAILURES_TOLD):
        hint = outcome.hints.get(told)
        terminal.say(f"{format_count(count, 'dead letter')} not sent: {told}{f' ({hint})' if hint else ''}")


def _wishes(**said: Any) -> dict[str, Any]:
    """What a request says, without what was not said."""
    return {name: wish for name, wish in said.items() if wish not in (None, {}, [])}


def _headers(texts: list[str] | None) -> dict[str, str]:
    return dict(map(_header, texts or ()))


def _header(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise UsageInvalid(f"--header {quoted(text)} is no header", hint="write it as in --header source=shop")
    return name, value
