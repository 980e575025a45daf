"""Transactions as rows, and what is to be said of a list of them."""

from collections.abc import Iterator

from goqueue.console.rows import Column
from goqueue.console.transactions import Row, duration, ending, touched
from goqueue.limits import TRANSACTION_HUNG_SECONDS
from goqueue.quantities import format_count, format_duration

PASSING = ("age_seconds", "idle_seconds", "expires_in_seconds")
"""What is different at every look, and no news."""

_ADVISED = 3  # transactions that a list says something of


_COLUMNS = (
    Column("ID", "name"),
    Column("STATE", "state"),
    Column("AGE", "age_seconds", duration),
    Column("IDLE", "idle_seconds", duration),
    Column("LEFT", "expires_in_seconds", duration),
    Column("HELD-BACK", "held_back", format_count),
    Column("PARTITIONS", "partitions", touched),
    Column("GROUPS", "groups", lambda groups: " ".join(groups) or "-"),
    Column("MESSAGES", "messages", format_count, wide=True),
    Column("TRANSACTION", "transaction_id", wide=True),
    Column("MEMBERS", "members", lambda members: format_count(len(members)), wide=True),
    Column("TIMEOUT", "timeout_seconds", format_duration, wide=True),
)
_LAST = Column("LAST", "last", ending)
_ROOM = {"partitions", "groups"}
"""What is left out of a narrow table that says how others have ended."""


def columns_for(*, everything: bool) -> tuple[Column, ...]:
    if not everything:
        return (*_COLUMNS, _LAST._replace(wide=True))
    return (*(one._replace(wide=one.wide or one.field in _ROOM) for one in _COLUMNS), _LAST)


def row_of(found: Row) -> Row:
    """All that the broker has told; where nothing is open, nothing has an age."""
    row = {"name": found["transactional_id"], **found}
    return row if row["started_at"] is not None else {**row, "age_seconds": None}


# --- of a list ---


def advice(rows: list[Row]) -> Iterator[str]:
    """What somebody should look at, the oldest first."""
    stuck = [row for row in rows if row["obstacle"]]
    for row in stuck[:_ADVISED]:
        yield f"{row['name']}: how it ends is decided, and cannot be carried out: {row['obstacle']}"
    hung = [row for row in rows if row["state"] == "ongoing" and row["age_seconds"] >= TRANSACTION_HUNG_SECONDS]
    for row in [row for row in hung if row["held_back"]][:_ADVISED]:
        yield (
            f"{row['name']}: {format_count(row['held_back'], 'message')} held back until it ends; "
            f"`goqueue-cli transaction describe {row['name']}` tells more"
        )
