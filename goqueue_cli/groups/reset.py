"""`goqueue-cli group reset`: have a group read on from elsewhere."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.danger import ConfirmFlag, DryRunFlag, YesFlag
from goqueue.console.failure import doing
from goqueue.console.groups import UsageInvalid
from goqueue.console.names import refuse_empty, short
from goqueue.console.resets import summary
from goqueue.console.session import Session, session_flags
from goqueue.errors import GroupNotFound
from goqueue.quantities import format_count
from goqueue_cli.groups import resets
from goqueue_cli.groups.resets import Consent, Step
from goqueue_cli.nearest import naming

if TYPE_CHECKING:
    from goqueue.client import Client

_SHIFT = re.compile(r"[+-][0-9]+")


@session_flags
def reset(  # noqa: PLR0913 - flags, each given by name
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the group.")],
    *,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Only this one; may be given more than once. Else all it reads."),
    ] = None,
    partitions: Annotated[
        list[int] | None,
        typer.Option("--partition", metavar="N", min=0, help="Only this one; may be given more than once."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="PLACE", help="To earliest, latest, an offset, a time, a day, or -1h."),
    ] = None,
    shift: Annotated[
        int | None, typer.Option("--shift", metavar="N", help="So many messages forward, or back with a minus.")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Make the group, where there is none yet.")] = False,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
    confirm: ConfirmFlag = None,
    session: Session,
) -> None:
    """Have a group read on from elsewhere.

    \b
      goqueue-cli group reset billing --to earliest --dry-run
      goqueue-cli group reset billing --topic orders --to -1h
      goqueue-cli group reset billing --topic orders --partition 3 --to 1200
      goqueue-cli group reset billing --shift -100 --yes

    It says how many messages are read again or skipped at most, and asks, where somebody can answer; elsewhere it
    needs --yes, and in a protected context --confirm. Then it says how to undo it. What was done above the new
    offset is forgotten, and read again too. The group may be at work: what its members have in hand is theirs no
    more, and attempts begin at 1 again.
    """
    refuse_empty(name, noun="group")
    refuse_empty(*(topics or ()))
    word, wishes = _target(to, shift)
    wishes |= {"partitions": partitions} if partitions else {}
    with doing(f"reset group {short(name)}"), session.client() as client, naming(client):
        group = _group(client, name, topics if create else None)
        steps = [Step(topic, word, wishes) for topic in dict.fromkeys(topics or _topics_of(group))]
        if not steps:
            raise UsageInvalid(f"group {name} reads no topic", hint="`--topic TOPIC` names the one to reset")
        rows = resets.plan(client, name, steps, group["lag"])
        what, consent = _what(name, group, rows), Consent(dry_run, yes, confirm)
        path = resets.reset_if_agreed(client, session, name, steps, rows, what, consent)
    if path is not None:
        session.write(rows, resets.COLUMNS)
        terminal.say(f"`{resets.undoing(path, session)}` undoes it")


def _group(client: "Client", name: str, creates: list[str] | None) -> dict[str, Any]:
    """As it is. Without this look, a name that was mistyped would make a group."""
    try:
        return client.group(name)
    except GroupNotFound:
        if not creates:
            raise
        return {"members": [], "lag": {}}


def _topics_of(group: dict[str, Any]) -> list[str]:
    """What it has read, or is about to."""
    return sorted({*group["lag"], *(topic for member in group["members"] for topic in member["topics"])})


def _what(name: str, group: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    members = len(group["members"])
    at_work = f", while {format_count(members, 'member')} {'is' if members == 1 else 'are'} at work" if members else ""
    return f"reset group {name}, {summary(rows)}{at_work}"


def _target(to: str | None, shift: int | None) -> tuple[str, dict[str, Any]]:
    """The request's `to`, and what it needs."""
    if (to is None) == (shift is None):
        said = "nothing says where to" if to is None else "--to and --shift both say where to"
        raise UsageInvalid(said, hint="give one of the two, as in --to earliest, --to -1h or --shift -100")
    if to is None:
        if shift == 0:
            raise UsageInvalid("--shift 0 moves nothing", hint="--shift -100 goes back by 100 messages")
        return "shift", {"shift": shift}
    if _SHIFT.fullmatch(to):
        back = f", `--to {to}s` goes to what came {to[1:]} seconds ago" if to.startswith("-") else ""
        raise UsageInvalid(f"--to: {to!r} has no unit", hint=f"`--shift {to}` counts messages{back}")
    if to == "earliest":
        return "earliest", {}
    from goqueue.client import Nanoseconds  # noqa: PLC0415 - once the flags make sense
    from goqueue.console.places import parse_end  # noqa: PLC0415

    place = parse_end(to)
    if isinstance(place, str):
        return "latest", {}
    return ("time", {"time": place}) if isinstance(place, Nanoseconds) else ("offset", {"offset": place})
