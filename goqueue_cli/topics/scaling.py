"""`goqueue-cli topic scale`: add partitions to topics."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console.flags import Consent
from goqueue.console.names import for_each_name, reject_empty_names
from goqueue.console.rows import Column
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue.errors import KeysWouldMove
from goqueue.quantities import format_count
from goqueue_cli.topics.listing import Names, Row

if TYPE_CHECKING:
    from goqueue.client import Client

_COLUMNS = (
    Column("TOPIC", "name"),
    Column("BEFORE", "old_partition_count", format_count),
    Column("AFTER", "new_partition_count", format_count),
    Column("ADDED", "partitions_added", format_count),
    Column("RESULT", "result"),
)
_SHOWN_MAX = 3  # groups that the notes below the table mention


@session_flags
def scale(
    names: Names,
    *,
    partitions: Annotated[int, typer.Option(metavar="N", min=1, help="How many partitions each topic is to have.")],
    accept_key_moves: Annotated[
        bool,
        typer.Option("--accept-key-moves", help="Take a number that does not keep the order of keys as well."),
    ] = False,
    consent: Consent,
    session: Session,
) -> None:
    """Add partitions to topics while they are used.

    \b
      goqueue-cli topic scale orders --partitions 12 --dry-run
      goqueue-cli topic scale orders --partitions 12
      goqueue-cli topic scale orders payments --partitions 8 --yes

    With a multiple of the present number, groups keep the order of every key: they get messages of an added partition
    once they have finished the older messages of its keys. Other numbers need --accept-key-moves, unless the topic is
    empty; compacted topics always do. Partitions cannot be removed: the command asks for confirmation, without a
    terminal it needs --yes, and in a protected context --confirm.
    """
    reject_empty_names(*names)
    if not consent.dry_run:
        what = f"give topic{'s' if len(names) > 1 else ''} {', '.join(names)} {format_count(partitions, 'partition')}"
        require_confirmation(session, f"{what}, which cannot be undone", name=" ".join(names), consent=consent)

    def work(client: "Client", name: str) -> Row:
        try:
            scaled = client.scale_topic(name, partitions, accept_key_moves=accept_key_moves, dry_run=consent.dry_run)
        except KeysWouldMove as error:
            error.hint = (error.hint or "").replace("accept_key_moves", "`--accept-key-moves`")
            raise
        done = "would be scaled" if consent.dry_run else "scaled"
        waiting = [] if consent.dry_run else _waiting_groups(client, name)
        return {**scaled, "result": done, "groups_waiting": waiting}

    def write(rows: list[Row], session: Session) -> None:
        session.write(rows, _COLUMNS)
        session.note(*(line for row in rows for line in _notes(row)))

    for_each_name(session, names, "scale topic", work, write)


def _waiting_groups(client: "Client", topic: str) -> list[str]:
    added = client.scaling_status(topic).added
    return sorted({group.group_id for one in added for group in one.groups_waiting})


def _notes(row: dict[str, Any]) -> Iterator[str]:
    groups = row.get("groups_waiting") or ()
    for group in groups[:_SHOWN_MAX]:
        yield f"{group} finishes older messages first: `goqueue-cli group describe {group}` shows how far it is"
    if len(groups) > _SHOWN_MAX:
        yield f"{format_count(len(groups) - _SHOWN_MAX, 'more group')} as well"
