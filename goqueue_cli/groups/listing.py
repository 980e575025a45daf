"""`goqueue-cli group`: list, describe, watch and delete groups."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.danger import ConfirmFlag, DryRunFlag, YesFlag, agree
from goqueue.console.each import each, write_blocks
from goqueue.console.failure import doing
from goqueue.console.figures import ago, partitions, rate
from goqueue.console.names import refuse_empty
from goqueue.console.pages import all_groups
from goqueue.console.rows import Column, of_fields
from goqueue.console.session import Session, session_flags
from goqueue.console.watch import EveryFlag, WatchFlag, watch
from goqueue.quantities import format_count, format_duration
from goqueue_cli.groups import lag as group_lag
from goqueue_cli.nearest import naming

if TYPE_CHECKING:
    from goqueue.client import Client

_Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="The names of the groups.")]
_Glob = Annotated[str | None, typer.Argument(metavar="GLOB", help="Only groups whose names fit, such as 'bill*'.")]
_Row = dict[str, Any]


def _assigned(names: Sequence[str]) -> str:
    """Of `orders-0 orders-1 orders-2`."""
    return partitions((topic, int(number)) for topic, _, number in (name.rpartition("-") for name in names))


_COLUMNS = (
    Column("GROUP", "name"),
    Column("STATE", "state"),
    Column("MEMBERS", "members", format_count),
    Column("TOPICS", "topics", " ".join),
    Column("LAG", "total_lag", format_count),
    Column("BEHIND", "lag_seconds", format_duration),
    Column("DRAINS-IN", "drain_seconds", format_duration),
    Column("RATE", "rate", rate),
    Column("INCOMING", "incoming", rate, wide=True),
    Column("IN-FLIGHT", "in_flight", format_count, wide=True),
    Column("LOST", "lost", format_count, wide=True),
    Column("GENERATION", "generation", wide=True),
    Column("REBALANCE", "rebalance_state", wide=True),
)
_MEMBER_COLUMNS = (
    Column("MEMBER", "member_id"),
    Column("PARTITIONS", "assigned_partitions", _assigned),
    Column("HEARTBEAT", "last_heartbeat", ago),
    Column("IN-FLIGHT", "in_flight", format_count),
    Column("CLIENT", "client_id", wide=True),
    Column("JOINED", "joined_at", ago, wide=True),
    Column("SESSION", "session_timeout", format_duration, wide=True),
)
_RESULT_COLUMNS = (
    Column("GROUP", "name"),
    Column("RESULT", "result"),
    Column("LAG", "total_lag", format_count),
)
_SETTINGS = ("protocol", "assignment_strategy", "order", "generation", "rebalance_state")


@session_flags
def list_groups(glob: _Glob = None, watched: WatchFlag = False, every: EveryFlag = 2.0, *, session: Session) -> None:
    """List the groups, with how far behind each is.

    \b
      goqueue-cli group list
      goqueue-cli group list 'bill*' -o wide
      goqueue-cli group list --watch

    LAG counts messages that are not done, BEHIND is the age of the oldest. DRAINS-IN is when nothing is left if all
    goes on as in the last minute, and - where it does not get less.
    """
    if watched:
        _follow_all(session, glob, every)
        return
    with doing("list the groups"), session.client() as client:
        rows = _all(client, glob)
    session.write(rows, _COLUMNS)
    if not rows and session.for_people:
        terminal.say("there are no groups" if glob is None else f"there are no groups like {glob}")


@session_flags
def watch_groups(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Of this group, partition by partition.")] = None,
    every: EveryFlag = 2.0,
    *,
    session: Session,
) -> None:
    """Watch all groups, or the lag of one.

    \b
      goqueue-cli group watch
      goqueue-cli group watch billing --every 5s
      goqueue-cli group watch -o jsonl >> groups.log

    A terminal shows the table as it is now; anything else gets a line for each change. ^C ends it.
    """
    if name is None:
        _follow_all(session, None, every)
    else:
        refuse_empty(name, noun="group")
        group_lag.follow(session, [name], every)


def _follow_all(session: Session, glob: str | None, every: float) -> None:
    with doing("watch the groups"), session.client() as client:
        watch(session, lambda: _all(client, glob), _COLUMNS, every=every)


def _all(client: "Client", glob: str | None) -> list[_Row]:
    return [
        {"name": one.group_id, **of_fields(one)}
        for one in all_groups(client)
        if glob is None or fnmatchcase(one.group_id, glob)
    ]


# --- describe ---


@session_flags
def describe(names: _Names, *, session: Session) -> None:
    """Show all about groups: their settings, members and lag.

    \b
      goqueue-cli group describe billing
      goqueue-cli group describe billing shipping -o json

    What waits to be tried again, and what was given up, is said with the command that shows why.
    """

    def work(client: "Client", name: str) -> _Row:
        with naming(client):
            found = client.group(name)
        dead = _dead_letter_topics(client, found) if session.for_people else []
        return {**found, "dead_letter_topics": dead} if dead else found

    each(session, names, "describe group", work, partial(write_blocks, write_one=_write_description))


def _dead_letter_topics(client: "Client", group: _Row) -> list[str]:
    """Those of its topics that have dead letters, whichever group gave them up."""
    known = set(client.topics())
    return [topic for topic in group["lag"] if f"{topic}.dlq" in known]


def _write_description(row: _Row, session: Session) -> None:
    """Facts, a table of members and one of partitions."""
    terminal.write_lines(_facts(row))
    if row["members"]:
        terminal.write("\n")
        session.write(row["members"], _MEMBER_COLUMNS)
    if row["lag"]:
        terminal.write("\n")
        session.write(group_lag.lag_rows(row), group_lag.COLUMNS)
    terminal.say(*_advice(row))


def _facts(row: _Row) -> Iterator[str]:
    yield f"{row['name']}: {row['state']}, {format_count(len(row['members']), 'member')}, {_distance(row)}"
    yield from (f"  {name}={row[name]}" for name in _SETTINGS)


def _distance(row: _Row) -> str:
    if not row["total_lag"]:
        return "nothing left to do"
    behind = f"{format_count(row['total_lag'], 'message')} behind, the oldest for {format_duration(row['lag_seconds'])}"
    drain = row["drain_seconds"]
    return f"{behind}, {'not getting less' if drain is None else f'done in {format_duration(drain)}'}"


def _advice(row: _Row) -> Iterator[str]:
    """The way to a message that fails again and again: where it lies, and why others of its topic were given up."""
    places = group_lag.lag_rows(row)
    for place in [place for place in places if place["waiting"]][:3]:
        topic, partition = place["topic"], place["partition"]
        yield (
            f"{topic}/{partition}: {format_count(place['waiting'], 'message')} to be tried again; the oldest not done: "
            f"`goqueue-cli consume {topic} --partition {partition} --from {place['committed']} --limit 1`"
        )
    for topic in row.get("dead_letter_topics", ()):
        yield f"{topic} has dead letters: `goqueue-cli dlq errors {topic}` shows why"
    if pledged := sum(place["pledged"] for place in places):
        yield (
            f"{format_count(pledged, 'message')} acknowledged in open transactions; `goqueue-cli transaction list` "
            "shows them"
        )
    if lost := sum(place["lost"] for place in places):
        yield f"{format_count(lost, 'message')} removed by retention before the group had them"


# --- delete ---


@session_flags
def delete(
    names: _Names,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
    confirm: ConfirmFlag = None,
    *,
    session: Session,
) -> None:
    """Delete groups without members, and what they have read.

    \b
      goqueue-cli group delete billing
      goqueue-cli group delete billing shipping --yes
      goqueue-cli group delete billing --dry-run

    Whoever joins a group of this name later begins anew. A group with members is refused: stop them first. It asks
    before, where somebody can answer; elsewhere it needs --yes, and in a protected context --confirm.
    """
    refuse_empty(*names, noun="group")
    if not dry_run:
        what = f"delete group{'s' if len(names) > 1 else ''} {', '.join(names)} and forget what was read"
        agree(session, what, name=" ".join(names), yes=yes, confirm=confirm)

    def work(client: "Client", name: str) -> _Row:
        with naming(client):
            return _would_delete(client.group(name)) if dry_run else _deleted(client, name)

    def write(rows: list[_Row], session: Session) -> None:
        session.write(rows, _RESULT_COLUMNS if dry_run else _RESULT_COLUMNS[:2])

    each(session, names, "delete group", work, write)


def _deleted(client: "Client", name: str) -> _Row:
    client.delete_group(name)
    return {"result": "deleted"}


def _would_delete(group: _Row) -> _Row:
    members = len(group["members"])
    refusal = f"would be refused: it has {format_count(members, 'member')}"
    return {"result": refusal if members else "would be deleted", "members": members, "total_lag": group["total_lag"]}
