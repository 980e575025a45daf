"""Moving groups to other offsets: what it would mean, doing it, and what is kept to undo it.

What must stay true: what would undo a reset is on the disk before the reset is asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from goqueue.console import terminal
from goqueue.console.danger import agree
from goqueue.console.resets import KIND, document, row_of, summary
from goqueue.console.rows import Column
from goqueue.console.session import Session
from goqueue.console.undo import write_undo
from goqueue.errors import GoQueueError
from goqueue.quantities import format_count

if TYPE_CHECKING:
    from goqueue.client import Client

_UNSURE = {"broker_unreachable", "request_timed_out"}
"""Refusals after which nobody knows whether it was done."""

_Row = dict[str, Any]


class Step(NamedTuple):
    """One request: a topic, where to, and what that needs."""

    topic: str
    to: str
    wishes: Mapping[str, Any]


class Consent(NamedTuple):
    """What the flags say about going ahead."""

    dry_run: bool
    yes: bool
    confirm: str | None


COLUMNS = (
    Column("PARTITION", "name", lambda name: name.partition("/")[2]),
    Column("BEFORE", "before", format_count),
    Column("AFTER", "after", format_count),
    Column("READ-AGAIN", "again", format_count),
    Column("SKIPPED", "skipped", format_count),
)


def plan(client: "Client", group: str, steps: Sequence[Step], lag: Mapping[str, Mapping[str, Any]]) -> list[_Row]:
    """A row for each partition that would be moved; `lag` is that of the group as it is now."""
    return [
        row_of(group, step.topic, found, lag)
        for step in steps
        for found in client.reset_offsets(group, step.topic, step.to, **step.wishes, dry_run=True)["partitions"]
    ]


def reset_if_agreed(
    client: "Client", session: Session, group: str, steps: Sequence[Step], rows: list[_Row], what: str, consent: Consent
) -> Path | None:
    """Do what was planned, once whoever must agree to `what` has; gives the file that undoes it, of a dry run None."""
    if consent.dry_run:
        session.write(rows, COLUMNS)
        terminal.say(f"that would mean {summary(rows)}")
        return None
    if not consent.yes and consent.confirm is None and terminal.may_ask():
        terminal.say(*_lines(rows))
    agree(session, what, name=group, yes=consent.yes, confirm=consent.confirm)
    return _carry_out(client, session, group, steps, rows)


def _carry_out(client: "Client", session: Session, group: str, steps: Sequence[Step], rows: list[_Row]) -> Path:
    """The rows then have what has become of them."""
    path = write_undo(KIND, group, document(server_of(session), rows))
    done = False
    try:
        for step in steps:
            _note(rows, step.topic, client.reset_offsets(group, step.topic, step.to, **step.wishes)["partitions"])
            done = True
    except GoQueueError as error:
        if done or error.code in _UNSURE:
            terminal.say(f"`{undoing(path, session)}` undoes what was done until then")
        else:
            with suppress(OSError):
                path.unlink()
        raise
    return path


def _note(rows: Sequence[_Row], topic: str, resets: Sequence[Mapping[str, Any]]) -> None:
    found = {reset["partition"]: reset for reset in resets}
    for row in rows:
        if row["topic"] == topic and row["partition"] in found:
            row.update(found[row["partition"]], result="reset")


def _lines(rows: Sequence[_Row], most: int = 20) -> Iterator[str]:
    """The plan for a person who is asked."""
    for row in rows[:most]:
        before = "-" if row["before"] is None else format_count(row["before"])
        told = f"  {row['topic']}/{row['partition']}: {before} -> {format_count(row['after'])}"
        yield told + "".join(f", {format_count(row[word])} {word}" for word in ("again", "skipped") if row[word])
    if len(rows) > most:
        yield f"  and {format_count(len(rows) - most, 'more partition')}"


def server_of(session: Session) -> str:
    """The broker that this is about, so that no other one is changed when it is undone."""
    from goqueue.client import address  # noqa: PLC0415 - loaded with the client

    return str(address.parse(session.server))


def undoing(path: Path, session: Session) -> str:
    """The command that undoes it, from wherever it is run."""
    from goqueue.client import address  # noqa: PLC0415

    server = server_of(session)
    elsewhere = "" if server == str(address.parse(None)) else f" --server {server}"
    return f"goqueue-cli undo {path.name}{elsewhere}"
