"""`goqueue-cli undo`: put back what a reset has changed, or show what a redrive has moved."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import redrives, terminal
from goqueue.console.danger import ConfirmFlag, DryRunFlag, YesFlag
from goqueue.console.failure import doing
from goqueue.console.figures import age
from goqueue.console.groups import UsageInvalid
from goqueue.console.names import short
from goqueue.console.resets import KIND as RESET
from goqueue.console.resets import summary
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.console.undo import read_undo, undo_directory
from goqueue.errors import GoQueueError, OffsetOutOfRange, PartitionNotFound, PathInvalid, TopicNotFound
from goqueue.quantities import format_count, quoted
from goqueue_cli.groups import resets
from goqueue_cli.groups.resets import Consent, Step
from goqueue_cli.nearest import naming

if TYPE_CHECKING:
    from goqueue.client import Client

_Row = dict[str, Any]

_FILES = (
    Column("FILE", "name"),
    Column("AGE", "made_at", age),
    Column("KIND", "kind", wide=True),
    Column("NAME", "of", wide=True),
    Column("SERVER", "server", wide=True),
)
_MOVES = (
    Column("FROM", "source"),
    Column("TO", "target"),
    Column("OFFSETS", "ranges", lambda ranges: ",".join(_range(*pair) for pair in ranges)),
    Column("MESSAGES", "messages", format_count),
)


@session_flags
def undo(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="What to undo, as the command has said it.")
    ] = None,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
    confirm: ConfirmFlag = None,
    *,
    session: Session,
) -> None:
    """Undo a reset, or list what can be undone.

    \b
      goqueue-cli undo
      goqueue-cli undo 20260301T120000-group-reset-billing.json --dry-run
      goqueue-cli undo 20260301T120000-group-reset-billing.json

    A group that was reset reads on from the offsets where it was; what it had done above them is read again. Dead
    letters that were sent back cannot be taken back: it shows which went where. Without a FILE it lists those
    under ~/.goqueue/undo, the newest first.
    """
    if file is None:
        _list(session)
        return
    document = _read(file)
    if document["kind"] == redrives.KIND:
        _show_redrive(document, session)
        return
    if document["kind"] != RESET:
        raise PathInvalid(f"{file} is about {quoted(document['kind'])}, which this program has not done")
    _check_server(document, file, session)
    _restore(document, session, Consent(dry_run, yes, confirm))


def _list(session: Session) -> None:
    rows = sorted(_files(), key=lambda row: str(row["made_at"]), reverse=True)
    session.write(rows, _FILES)
    if not rows and session.for_people:
        terminal.say("there is nothing to undo")


def _files() -> Iterator[_Row]:
    with suppress(OSError):
        for path in undo_directory().iterdir():
            with suppress(GoQueueError):  # something else may lie there
                document = read_undo(path)
                about = {field: document.get(field) for field in ("kind", "made_at", "server")}
                yield {"name": path.name, "of": document["name"]} | about


def _read(file: str) -> _Row:
    """A path, or the bare name of a file that the list has shown."""
    bare = "/" not in file and not os.path.exists(file)
    document = read_undo(undo_directory() / file if bare else os.path.expanduser(file))
    offsets, moved = document.get("offsets"), document.get("moved")
    fits = _are_offsets(offsets) if document["kind"] == RESET else _are_moves(moved)
    if document["kind"] in {RESET, redrives.KIND} and not fits:
        raise PathInvalid(f"{file} is damaged: it does not say what was changed")
    return document


def _are_offsets(found: Any) -> bool:
    return isinstance(found, dict) and all(
        isinstance(held, dict)
        and all(number.isdecimal() and (offset is None or type(offset) is int) for number, offset in held.items())
        for held in found.values()
    )


def _are_moves(found: Any) -> bool:
    return isinstance(found, list) and all(
        isinstance(move, dict)
        and isinstance(move.get("source"), str)
        and isinstance(move.get("target"), str)
        and isinstance(move.get("ranges"), list)
        and all(isinstance(pair, list) and [type(end) for end in pair] == [int, int] for pair in move["ranges"])
        for move in found
    )


def _check_server(document: _Row, file: str, session: Session) -> None:
    """Groups of one name are on many brokers."""
    server, here = document.get("server"), resets.server_of(session)
    if server is not None and server != here:
        raise UsageInvalid(
            f"that was done at {server}, and this would go to {here}",
            hint=f"`goqueue-cli undo {file} --server {server}`",
        )


# --- a reset ---


def _restore(document: _Row, session: Session, consent: Consent) -> None:
    name = document["name"]
    with doing(f"undo the reset of group {short(name)}"), session.client() as client, naming(client):
        group = client.group(name)
        steps = list(_steps(client, name, document["offsets"]))
        rows = resets.plan(client, name, steps, group["lag"])
        unread = sum(offset is None for held in document["offsets"].values() for offset in held.values())
        if unread:
            terminal.say(f"{format_count(unread, 'partition')} had not been read before: left as it is now")
        if not rows:
            terminal.say(f"nothing to restore: `goqueue-cli group delete {name}` forgets the group")
            return
        what = f"restore group {name}, {summary(rows)}"
        path = resets.reset_if_agreed(client, session, name, steps, rows, what, consent)
    if path is not None:
        session.write(rows, resets.COLUMNS)
        terminal.say(f"`{resets.undoing(path, session)}` undoes that in turn")


def _steps(client: "Client", group: str, offsets: Mapping[str, Mapping[str, int | None]]) -> Iterator[Step]:
    """A request for all partitions of a topic that go to the same offset: each takes from members what they have."""
    for topic, held in offsets.items():
        known = sorted((offset, int(number)) for number, offset in held.items() if offset is not None)
        for offset, pairs in groupby(known, key=lambda pair: pair[0]):
            numbers = [number for _, number in pairs]
            try:
                client.reset_offsets(group, topic, "offset", offset=offset, partitions=numbers, dry_run=True)
            except (TopicNotFound, PartitionNotFound) as error:
                terminal.say(f"{error.sentence} any more: what the group had read of it is left out")
            except OffsetOutOfRange as error:
                if offset > int(error.details.get("first", 0)):
                    raise
                yield Step(topic, "earliest", {"partitions": numbers})  # retention has removed what it was at
            else:
                yield Step(topic, "offset", {"offset": offset, "partitions": numbers})


# --- a redrive ---


def _show_redrive(document: _Row, session: Session) -> None:
    rows = [
        {
            "name": f"{move['source']}->{move['target']}",
            **move,
            "messages": sum(end - first for first, end in move["ranges"]),
        }
        for move in document["moved"]
    ]
    session.write(rows, _MOVES)
    count = format_count(sum(row["messages"] for row in rows), "message")
    terminal.say(
        f"{count} of {document['name']} sent back at {document['made_at'][:19]}Z cannot be taken back:",
        "they are new messages at the end of the topic, and groups may have read them.",
    )


def _range(first: int, end: int) -> str:
    return str(first) if end - first == 1 else f"{first}-{end - 1}"
