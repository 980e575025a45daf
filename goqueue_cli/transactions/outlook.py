"""Transactions as rows, and what is to be said of one: what it has touched, what it holds back, what comes next."""

from collections.abc import Iterator, Mapping
from typing import Any

from goqueue.console.figures import ago, partitions
from goqueue.console.rows import Column
from goqueue.limits import TRANSACTION_HUNG_SECONDS, TRANSACTION_SECONDS_MAX
from goqueue.quantities import format_count, format_duration

Row = dict[str, Any]

OPEN = ("ongoing", "prepare_commit", "prepare_abort")

PASSING = ("age_seconds", "idle_seconds", "expires_in_seconds")
"""What is different at every look, and no news."""

_ADVISED = 3  # transactions that a list says something of


def duration(seconds: float) -> str:
    """As exact as somebody needs who looks at what goes on."""
    return format_duration(round(seconds) if seconds >= 10 else round(seconds, 1))


def touched(places: list[Row]) -> str:
    """`orders/0-2 payments/1 (delayed)`: what stands in brackets is behind where messages wait for their time."""
    found = [
        partitions((one["topic"], one["partition"]) for one in places if one["delayed"] is late)
        for late in (False, True)
    ]
    named = [text for text in (found[0], f"{found[1]} (delayed)") if not text.startswith("-")]
    return " ".join(named) or "-"


def ending(last: Mapping[str, Any]) -> str:
    """How the latest one has ended, and when."""
    return f"{'committed' if last['state'] == 'complete_commit' else 'aborted'} {ago(last['ended_at'])}"


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


def is_open(row: Row) -> bool:
    return row["state"] in OPEN


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


# --- of one ---


def headline(row: Row) -> str:
    name, transaction = row["name"], row["transaction_id"]
    if is_open(row):
        return f"{name}: transaction {transaction} is open for {duration(row['age_seconds'])}"
    last = row["last"]
    return (
        f"{name}: nothing is open"
        if last is None
        else f"{name}: nothing is open; {last['transaction_id']} was {ending(last)}"
    )


def outlook(row: Row) -> str:
    """What happens next, if nobody does anything."""
    state = row["state"]
    if state == "ongoing":
        return _expiry(row)
    if state in OPEN:
        verb = "committed" if state == "prepare_commit" else f"aborted ({row['reason']})"
        if row["obstacle"]:
            return f"is to be {verb}, which is tried every second and cannot be carried out: {row['obstacle']}"
        return f"is being {verb}: that is decided, whatever happens"
    return f"its next transaction is {row['transaction_id']}, which begins when its producer wants"


def _expiry(row: Row) -> str:
    left, at_most = row["expires_in_seconds"], max(0.0, TRANSACTION_SECONDS_MAX - row["age_seconds"])
    if left >= at_most - 0.5:
        return f"is aborted in {duration(left)}, whatever is heard of it: that is as long as one may last"
    return f"is aborted in {duration(left)} unless something is heard of it, and in {duration(at_most)} at the latest"


def consequences(row: Row) -> Iterator[str]:
    """What it means to abort it now."""
    yield f"transaction {row['transaction_id']} of {row['name']}, open for {duration(row['age_seconds'])}:"
    if row["messages"]:
        count = format_count(row["messages"], "message")
        yield f"  {count} of its own gone: {touched(row['partitions'])}"
    others = row["held_back"] - row["messages"]
    if others > 0:
        yield f"  {format_count(others, 'message')} of others behind it seen, unless an older transaction is in front"
    for group, acked in (row["pledged"] or {}).items():
        yield f"  {format_count(acked, 'message')} handed out again that group {group} has acknowledged in it"
    yield "  its producer is told when it speaks next, and has to do all of it again"
