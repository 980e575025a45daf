"""`goqueue-cli group reset`: move a group to other offsets."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from goqueue.console import terminal
from goqueue.console.consumer_groups import may_be_done, reset_row, reset_summary, topics_of
from goqueue.console.failure import UsageInvalid, doing, suggesting
from goqueue.console.flags import Consent, PartitionsFlag
from goqueue.console.names import reject_empty_names, shorten_name
from goqueue.console.rows import Column
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue.console.undo import undo_command
from goqueue.errors import GoQueueError, GroupNotFound
from goqueue.quantities import format_count

if TYPE_CHECKING:
    from goqueue.client import Client

_SHIFT = re.compile(r"[+-][0-9]+")

_Row = dict[str, Any]

COLUMNS = (
    Column("PARTITION", "name", lambda name: name.partition("/")[2]),
    Column("BEFORE", "before", format_count),
    Column("AFTER", "after", format_count),
    Column("READ-AGAIN", "again", format_count),
    Column("SKIPPED", "skipped", format_count),
)


class _Step(NamedTuple):
    """One request: a topic, the target, and its parameters."""

    topic: str
    to: str
    options: Mapping[str, Any]


@session_flags
def reset(  # noqa: PLR0913 - flags, each given by name
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the group.")],
    *,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Only this topic; may be repeated. Default: all that it reads."),
    ] = None,
    partitions: PartitionsFlag = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="PLACE", help="Earliest, latest, an offset, a time, a day, or -1h.")
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option("--shift", metavar="N", help="Number of messages to move forward, or back if negative."),
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the group if it does not exist.")] = False,
    consent: Consent,
    session: Session,
) -> None:
    """Reset the offsets of a group.

    \b
      goqueue-cli group reset billing --to earliest --dry-run
      goqueue-cli group reset billing --topic orders --to -1h
      goqueue-cli group reset billing --topic orders --partition 3 --to 1200
      goqueue-cli group reset billing --shift -100 --yes

    The command shows how many messages are read again or skipped at most, asks for confirmation (--yes without a
    terminal, --confirm in a protected context), and names the command that undoes it. Acks above the new offset are
    dropped, so those messages are read again too. The group may have members: their leases end, and delivery counts
    start at 1 again.
    """
    reject_empty_names(name, noun="group")
    reject_empty_names(*(topics or ()))
    target, options = _target(to, shift)
    options |= {"partitions": partitions} if partitions else {}
    with doing(f"reset group {shorten_name(name)}"), session.client() as client, suggesting(client):
        group = _group(client, name, create=bool(create and topics))
        steps = [_Step(topic, target, options) for topic in dict.fromkeys(topics or topics_of(group))]
        if not steps:
            raise UsageInvalid(f"group {name} reads no topic", hint="`--topic TOPIC` names the one to reset")
        rows = _plan(client, name, steps, group["lag"])
        if consent.dry_run:
            session.write(rows, COLUMNS)
            terminal.say(f"that would mean {reset_summary(rows)}")
            return
        if consent.must_ask and terminal.can_prompt():
            terminal.say(*_plan_lines(rows))
        require_confirmation(session, _describe(name, group, rows), name=name, consent=consent)
        _carry_out(client, session, name, steps, rows)


def _group(client: "Client", name: str, *, create: bool) -> _Row:
    """Fetch the group; the reset of a mistyped name would create one."""
    try:
        return client.group(name)
    except GroupNotFound:
        if not create:
            raise
        return {"members": [], "lag": {}}


def _describe(name: str, group: _Row, rows: list[_Row]) -> str:
    members = len(group["members"])
    active = f", while it has {format_count(members, 'active member')}" if members else ""
    return f"reset group {name}, {reset_summary(rows)}{active}"


def _target(to: str | None, shift: int | None) -> tuple[str, dict[str, Any]]:
    """Return the `to` of the request, and the fields that it needs."""
    if to is None or shift is not None:
        if to is None and shift is not None:
            if shift == 0:
                raise UsageInvalid("--shift 0 moves nothing", hint="--shift -100 goes back by 100 messages")
            return "shift", {"shift": shift}
        problem = "no target: give --to or --shift" if to is None else "--to and --shift exclude each other"
        raise UsageInvalid(problem, hint="use one of them, as in --to earliest, --to -1h or --shift -100")
    if _SHIFT.fullmatch(to):
        back = f", `--to {to}s` goes to what came {to[1:]} seconds ago" if to.startswith("-") else ""
        raise UsageInvalid(f"--to: {to!r} has no unit", hint=f"`--shift {to}` counts messages{back}")
    if to == "earliest":
        return "earliest", {}
    from goqueue.client import Nanoseconds  # noqa: PLC0415 - once the flags are valid
    from goqueue.console.positions import parse_end  # noqa: PLC0415

    place = parse_end(to)
    if isinstance(place, str):
        return "latest", {}
    return ("time", {"time": place}) if isinstance(place, Nanoseconds) else ("offset", {"offset": place})


# --- steps ---


def _plan(client: "Client", group: str, steps: Sequence[_Step], lag: Mapping[str, Mapping[str, Any]]) -> list[_Row]:
    """Return a row for each partition that would move; `lag` is the current lag of the group."""
    return [
        reset_row(group, step.topic, found, lag)
        for step in steps
        for found in client.reset_offsets(group, step.topic, step.to, **step.options, dry_run=True)["partitions"]
    ]


def _carry_out(client: "Client", session: Session, group: str, steps: Sequence[_Step], rows: Sequence[_Row]) -> None:
    """Reset topic by topic, as one operation."""
    number: int | None = None
    try:
        for step in steps:
            done = client.reset_offsets(group, step.topic, step.to, **step.options, operation=number)
            number = done["operation"]
            _add_result(rows, step.topic, done["partitions"])
    except GoQueueError as error:
        if may_be_done(error):
            error.hint = f"`goqueue-cli undo --subject {group}` shows whether it was done"
        elif number is not None:
            terminal.say(f"`{undo_command(session, number)}` undoes what was done until then")
        raise
    session.write(rows, COLUMNS)
    if number is not None:
        terminal.say(f"`{undo_command(session, number)}` undoes it")


def _add_result(rows: Sequence[_Row], topic: str, resets: Sequence[Mapping[str, Any]]) -> None:
    found = {reset["partition"]: reset for reset in resets}
    for row in rows:
        if row["topic"] == topic and row["partition"] in found:
            row.update(found[row["partition"]], result="reset")


def _plan_lines(rows: Sequence[_Row], most: int = 20) -> Iterator[str]:
    for row in rows[:most]:
        before = "-" if row["before"] is None else format_count(row["before"])
        line = f"  {row['topic']}/{row['partition']}: {before} -> {format_count(row['after'])}"
        yield line + "".join(f", {format_count(row[word])} {word}" for word in ("again", "skipped") if row[word])
    if len(rows) > most:
        yield f"  and {format_count(len(rows) - most, 'more partition')}"
