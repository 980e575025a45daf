"""`goqueue-cli group`: list, watch, describe and delete groups, and show their lag."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.consumer_groups import DELIVERY_SETTINGS, all_groups, delivery_value
from goqueue.console.flags import Consent, EveryFlag, WatchOptions
from goqueue.console.formatting import format_ago, format_partitions, format_rate
from goqueue.console.names import for_each_name, in_blocks, reject_empty_names
from goqueue.console.rows import Column, struct_to_row
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue.console.undo import say_undo
from goqueue.console.watch import show_rows
from goqueue.quantities import format_count, format_duration

if TYPE_CHECKING:
    from goqueue.client import Client

_Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of groups.")]
_Row = dict[str, Any]


def _assigned(names: Sequence[str]) -> str:
    """Format `orders-0 orders-1 orders-2` as `orders/0-2`."""
    return format_partitions((topic, int(number)) for topic, _, number in (name.rpartition("-") for name in names))


_GROUPS = (
    Column("GROUP", "name"),
    Column("STATE", "state"),
    Column("CONDITION", "condition"),
    Column("MEMBERS", "members", format_count),
    Column("TOPICS", "topics", " ".join),
    Column("LAG", "total_lag", format_count),
    Column("BEHIND", "lag_seconds", format_duration),
    Column("DRAINS-IN", "drain_seconds", format_duration),
    Column("RATE", "rate", format_rate, wide=True),
    Column("INCOMING", "incoming", format_rate, wide=True),
    Column("IN-FLIGHT", "in_flight", format_count, wide=True),
    Column("LOST", "lost", format_count, wide=True),
    Column("GENERATION", "generation", wide=True),
    Column("REBALANCE", "rebalance_state", wide=True),
)
_MEMBERS = (
    Column("MEMBER", "member_id"),
    Column("PARTITIONS", "assigned_partitions", _assigned),
    Column("HEARTBEAT", "last_heartbeat", format_ago),
    Column("IN-FLIGHT", "in_flight", format_count),
    Column("CLIENT", "client_id", wide=True),
    Column("JOINED", "joined_at", format_ago, wide=True),
    Column("SESSION", "session_timeout", format_duration, wide=True),
)
_PARTITIONS = (
    Column("PARTITION", "name", lambda name: name.partition("/")[2]),
    Column("COMMITTED", "committed", format_count),
    Column("END", "end", format_count),
    Column("LAG", "messages", format_count),
    Column("BEHIND", "seconds", format_duration),
    Column("IN-FLIGHT", "in_flight", format_count),
    Column("WAITING", "waiting", format_count),
    Column("RATE", "rate", format_rate),
    Column("DRAINS-IN", "drain_seconds", format_duration),
    Column("INCOMING", "incoming", format_rate, wide=True),
    Column("PLEDGED", "pledged", format_count, wide=True),
    Column("LOST", "lost", format_count, wide=True),
    Column("MEMBER", "member_id", wide=True),
)
_GROUP = Column("GROUP", "group_id")
_SUMS = ("in_flight", "waiting", "rate", "incoming", "pledged", "lost")
_DELETED = (Column("GROUP", "name"), Column("RESULT", "result"), Column("LAG", "total_lag", format_count))
_SETTINGS = ("protocol", "assignment_strategy", "order", "generation", "rebalance_state")
_DELIVERY = (
    Column("TOPIC", "topic"),
    Column("MAX-RETRIES", "max_retries"),
    Column("RETRY-DELAY", "retry_delay"),
    Column("MAX-RETRY-DELAY", "max_retry_delay"),
    Column("VISIBILITY", "visibility_timeout"),
    Column("DEAD-LETTERS", "dead_letter_topic"),
)


# --- list and watch ---


@session_flags
def list_groups(
    glob: Annotated[str | None, typer.Argument(metavar="GLOB", help="Only groups that match, such as 'bill*'.")] = None,
    *,
    options: WatchOptions,
    session: Session,
) -> None:
    """List the groups with their lag.

    \b
      goqueue-cli group list
      goqueue-cli group list 'bill*' -o wide
      goqueue-cli group list --watch

    LAG counts unfinished messages, BEHIND is the age of the oldest one. DRAINS-IN estimates when the lag is gone at the
    speed of the last minute; - means that it does not shrink.
    """
    rows = _show_groups(session, glob, options)
    if not rows:
        session.note("there are no groups" if glob is None else f"there are no groups like {glob}")


@session_flags
def watch_groups(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only this group, partition by partition.")] = None,
    every: EveryFlag = 2.0,
    *,
    session: Session,
) -> None:
    """Watch all groups, or the lag of one.

    \b
      goqueue-cli group watch
      goqueue-cli group watch billing --every 5s
      goqueue-cli group watch -o jsonl >> groups.log

    A terminal shows the table in place; any other output gets a line for each change. ^C ends it.
    """
    options = WatchOptions(watch=True, every=every)
    if name is None:
        _show_groups(session, None, options)
    else:
        reject_empty_names(name, noun="group")
        _watch_lag(session, [name], options)


def _show_groups(session: Session, glob: str | None, options: WatchOptions) -> Sequence[Any]:
    def fetch(client: "Client") -> list[_Row]:
        found = (one for one in all_groups(client) if glob is None or fnmatchcase(one.group_id, glob))
        return [{"name": one.group_id, **struct_to_row(one)} for one in found]

    return show_rows(session, "list the groups", fetch, _GROUPS, options)


# --- lag ---


@session_flags
def lag(names: _Names, *, options: WatchOptions, session: Session) -> None:
    """Show the lag of groups, partition by partition.

    \b
      goqueue-cli group lag billing
      goqueue-cli group lag billing --watch
      goqueue-cli group lag billing shipping -o jsonl

    Every message below COMMITTED is finished, LAG messages are not, BEHIND is the age of the oldest one. IN-FLIGHT
    messages are delivered and not settled, WAITING messages wait for a retry. DRAINS-IN estimates when the lag is gone
    at the speed of the last minute; - means that it does not shrink. -o wide adds the incoming rate, and as PLEDGED
    the messages that are acked in open transactions.
    """
    reject_empty_names(*names, noun="group")
    if options.watch:
        _watch_lag(session, names, options)

    def write(found: list[_Row], session: Session) -> None:
        known = [one for one in found if "error" not in one]
        session.write(list(_lag_table(known, totals=session.for_people)), _lag_columns(len(known)))

    for_each_name(session, names, "describe group", lambda client, name: client.group(name), write)


def _watch_lag(session: Session, names: Sequence[str], options: WatchOptions) -> None:
    def fetch(client: "Client") -> list[_Row]:
        return list(_lag_table([client.group(name) for name in names], totals=session.for_people))

    show_rows(session, f"watch group {', '.join(names)}", fetch, _lag_columns(len(names)), options)


def _lag_columns(groups: int) -> tuple[Column, ...]:
    return _PARTITIONS if groups == 1 else (_GROUP, *_PARTITIONS)


def _lag_table(groups: Sequence[_Row], *, totals: bool) -> Iterator[_Row]:
    for group in groups:
        rows = _lag_rows(group)
        yield from rows
        if totals and len(rows) > 1:
            yield {
                "name": f"{group['group_id']}/total",
                "group_id": group["group_id"],
                "messages": group["total_lag"],
                "seconds": group["lag_seconds"],
                "drain_seconds": group["drain_seconds"],
                **{field: sum(row[field] for row in rows) for field in _SUMS},
            }


def _lag_rows(group: _Row) -> list[_Row]:
    """Convert the lag of a group to a row for each partition."""
    return [
        {
            "name": f"{group['group_id']}/{topic}/{partition}",
            "group_id": group["group_id"],
            "topic": topic,
            "partition": int(partition),
            **numbers,
        }
        for topic, partitions in group["lag"].items()
        for partition, numbers in partitions.items()
    ]


# --- describe ---


@session_flags
def describe(names: _Names, *, session: Session) -> None:
    """Show all details of groups: settings, members and lag.

    \b
      goqueue-cli group describe billing
      goqueue-cli group describe billing shipping -o json

    For each topic it shows retries, leases and dead letters, and whose setting each is unless it is the broker's:
    `group edit` and `topic edit` change them. If messages wait for a retry or became dead letters, the output names the
    command that shows why.
    """

    def work(client: "Client", name: str) -> _Row:
        found = client.group(name)
        dead = _dead_letter_topics(client, found) if session.for_people else []
        return {**found, "dead_letter_topics": dead} if dead else found

    for_each_name(session, names, "describe group", work, in_blocks(_write_description))


def _dead_letter_topics(client: "Client", group: _Row) -> list[str]:
    """Return the topics of a group that have dead letters, of this or another group."""
    known = set(client.topics())
    targets = {topic: told["dead_letter_topic"] for topic, told in group["delivery"].items()}
    usual = {topic: f"{topic}.dlq" for topic in group["lag"]}
    found = [topic for topic, name in usual.items() if name in known]
    return found + sorted({name for topic, name in targets.items() if name in known and name != usual.get(topic)})


def _write_description(row: _Row, session: Session) -> None:
    headline = f"{row['name']}: {row['state']}, {format_count(len(row['members']), 'member')}, {_progress(row)}"
    terminal.write_lines([headline, *(f"  {name}={row[name]}" for name in _SETTINGS)])
    if row["delivery"]:
        terminal.write("\n")
        session.write([_delivery_row(topic, told) for topic, told in row["delivery"].items()], _DELIVERY)
    if row["members"]:
        terminal.write("\n")
        session.write(row["members"], _MEMBERS)
    if row["lag"]:
        terminal.write("\n")
        session.write(_lag_rows(row), _PARTITIONS)
    terminal.say(*_advice(row))


def _delivery_row(topic: str, told: _Row) -> _Row:
    return {"name": topic, "topic": topic, **{name: delivery_value(told, name) for name in DELIVERY_SETTINGS}}


def _progress(row: _Row) -> str:
    if not row["total_lag"]:
        return "no lag"
    lag = f"{format_count(row['total_lag'], 'message')} behind, the oldest for {format_duration(row['lag_seconds'])}"
    drain = row["drain_seconds"]
    return f"{lag}, {'not shrinking' if drain is None else f'done in {format_duration(drain)}'}"


def _advice(row: _Row) -> Iterator[str]:
    """Name the commands that show a message which keeps failing, and why others became dead letters."""
    partitions = _lag_rows(row)
    for one in [one for one in partitions if one["waiting"]][:3]:
        topic, partition = one["topic"], one["partition"]
        yield (
            f"{topic}/{partition}: {format_count(one['waiting'], 'message')} waiting for a retry; the first one: "
            f"`goqueue-cli consume {topic} --partition {partition} --from {one['committed']} --limit 1`"
        )
    for one in [one for one in partitions if one.get("waits_for")][:3]:
        topic, parent = one["topic"], one["waits_for"]
        until = "" if parent["split_offset"] is None else f" up to offset {format_count(parent['split_offset'])}"
        yield (
            f"{topic}/{one['partition']} was added: its messages wait until the older ones of their keys, in "
            f"{topic}/{parent['partition']}{until}, are finished"
        )
    for topic in row.get("dead_letter_topics", ()):
        yield f"{topic} has dead letters: `goqueue-cli dlq errors {topic}` shows why"
    if acked := sum(one["pledged"] for one in partitions):
        count = format_count(acked, "message")
        yield f"{count} acked in open transactions; `goqueue-cli transaction list` shows them"
    if lost := sum(one["lost"] for one in partitions):
        yield f"{format_count(lost, 'message')} removed by retention before the group received them"


# --- delete ---


@session_flags
def delete(names: _Names, *, consent: Consent, session: Session) -> None:
    """Delete groups without members, and their offsets.

    \b
      goqueue-cli group delete billing
      goqueue-cli group delete billing shipping --yes
      goqueue-cli group delete billing --dry-run

    A group of the same name starts from scratch later. A group with members is refused: stop them first. The command
    asks for confirmation, without a terminal it needs --yes, and in a protected context --confirm; it names the command
    that restores the group.
    """
    reject_empty_names(*names, noun="group")
    if not consent.dry_run:
        what = f"delete group{'s' if len(names) > 1 else ''} {', '.join(names)} with all offsets"
        require_confirmation(session, what, name=" ".join(names), consent=consent)

    def work(client: "Client", name: str) -> _Row:
        if consent.dry_run:
            return _would_delete(client.group(name))
        return {"result": "deleted", "operation": client.delete_group(name)["operation"]}

    def write(rows: list[_Row], session: Session) -> None:
        session.write(rows, _DELETED if consent.dry_run else _DELETED[:2])
        say_undo(session, rows)

    for_each_name(session, names, "delete group", work, write)


def _would_delete(group: _Row) -> _Row:
    members = len(group["members"])
    refusal = f"would be refused: it has {format_count(members, 'member')}"
    return {"result": refusal if members else "would be deleted", "members": members, "total_lag": group["total_lag"]}
