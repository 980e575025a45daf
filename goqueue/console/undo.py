"""Operations in all programs: the command that undoes one, and what it changed as rows."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from goqueue.console import terminal
from goqueue.console.rows import Column
from goqueue.quantities import format_count

if TYPE_CHECKING:
    from goqueue.console.session import Session

Row = dict[str, Any]


def _text(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return format_count(value)
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


CHANGES = (
    Column("CHANGED", "name"),
    Column("BEFORE", "before", _text),
    Column("AFTER", "after", _text),
)
MOVES = (
    Column("FROM", "source"),
    Column("TO", "target"),
    Column("OFFSETS", "offsets"),
    Column("MESSAGES", "messages", format_count),
)


def undo_command(session: "Session", *numbers: int) -> str:
    """Return the command that undoes operations, the newest first."""
    from goqueue.client import address  # noqa: PLC0415 - loaded with the client

    servers = address.parse_all(session.server)
    elsewhere = "" if servers == address.parse_all(None) else f" --server {','.join(map(str, servers))}"
    return f"goqueue-cli undo {' '.join(map(str, sorted(numbers, reverse=True)))}{elsewhere}"


def say_undo(session: "Session", rows: Sequence[Mapping[str, Any]]) -> None:
    """Name the command that undoes what these results did."""
    numbers = {row["operation"] for row in rows if row.get("operation") is not None}
    if numbers:
        terminal.say(f"`{undo_command(session, *numbers)}` undoes {'it' if len(numbers) == 1 else 'them'}")


def change_rows(changes: Mapping[str, Any]) -> list[Row]:
    """Return what an operation changed: offsets, settings and due times."""
    return [
        *({"name": f"{one['topic']}/{one['partition']}", **one} for one in changes.get("offsets", ())),
        *({"name": one["setting"], **one} for one in changes.get("settings", ())),
        *({"name": f"{one['partition']}@{one['offset']}", **one} for one in changes.get("due_times", ())),
    ]


def move_rows(subject: str, changes: Mapping[str, Any]) -> list[Row]:
    """Return where a redrive moved messages."""
    return [
        {
            "name": f"{subject}/{one['partition']}@{one['first']}",
            "source": f"{subject}/{one['partition']}",
            "target": f"{one['target_topic']}/{one['target_partition']}",
            "offsets": f"{one['first']}-{one['end'] - 1}" if one["end"] - one["first"] > 1 else str(one["first"]),
            "messages": one["end"] - one["first"],
            **one,
        }
        for one in changes.get("moves", ())
    ]


def change_value(value: Any) -> str:
    """Format a value before or after a change; - is none."""
    return "-" if value is None else _text(value)


def undo_state(*, undone_by: int | None, state: str, is_undoable: bool) -> str:
    """Return whether an operation can be undone, as lists show it."""
    if undone_by is not None:
        return f"by {undone_by}"
    if state != "done":
        return state
    return "yes" if is_undoable else "no"


def user_of(client: str) -> str:
    """Return the user and the machine of a client, or what else it says of itself."""
    last = client.rpartition(" ")[2]
    return last if "@" in last else client
