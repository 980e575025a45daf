"""Delayed messages as rows, one of them in full, and the flags that choose them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.flags import WhereFlag
from goqueue.console.formatting import format_ago, format_to_second, format_until, priority_name
from goqueue.console.rows import Column
from goqueue.quantities import format_size, quoted
from goqueue_cli import message_details

if TYPE_CHECKING:
    from goqueue.client import Client

Row = dict[str, Any]

_PAGE = 10_000
"""Messages in one answer."""

_PLACE = re.compile(r"(?:(.+)/)?(?:([0-9]{1,9})@)?([0-9]{1,18})")

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]


@dataclass(frozen=True, slots=True)
class DelayedFilter:
    """Flags that choose delayed messages."""

    where: WhereFlag = None
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="N", min=0, help="Only messages of this partition.")
    ] = None
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Only messages due at this time, +1h, or later.")
    ] = None
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Only messages due before a time, a day, or +1h.")
    ] = None

    def is_set(self) -> bool:
        return bool(self.where) or any(one is not None for one in (self.partition, self.start, self.until))

    def criteria(self) -> dict[str, Any]:
        """Return the fields of a request."""
        found = {
            "partition": self.partition,
            "due_from": _time("--from", self.start, "earliest"),
            "due_to": _time("--to", self.until, "latest"),
        }
        return {"filters": self.where or []} | {name: value for name, value in found.items() if value is not None}


def _time(flag: str, text: str | None, unbounded: str) -> Any:
    if text is None or text == unbounded:
        return None
    from goqueue.console.positions import parse_time_flag  # noqa: PLC0415 - with the SDK

    return parse_time_flag(flag, text)


def bare(name: str) -> str:
    """Return a place without its topic."""
    return name.rpartition("/")[2]


PLACE = Column("PLACE", "name", bare)
DUE_IN = Column("DUE-IN", "deliver_at", format_until)
DUE = Column("DUE", "deliver_at", format_to_second)
PRIORITY = Column("PRIORITY", "priority", priority_name)
KEY = Column("KEY", "key")

COLUMNS = (
    *(PLACE, DUE_IN, DUE, PRIORITY, KEY),
    Column("SIZE", "size", format_size),
    Column("SCHEDULED", "scheduled_at", format_ago, wide=True),
    Column("STATE", "state", wide=True),
)


def find(client: "Client", topic: str, limit: int, skip: int, criteria: Mapping[str, Any]) -> tuple[list[Row], int]:
    """Return up to `limit` messages by due time, and how many are pending in the topic.

    A page begins at the due time where the one before ended: messages that are delivered meanwhile leave the front, so
    that a count would skip as many.
    """
    rows: list[Row] = []
    total, ahead, page = 0, dict(criteria), skip
    while len(rows) < limit:
        wanted = min(limit - len(rows), _PAGE)
        answer = client.delayed(topic, wanted, page, **ahead)
        total = max(total, answer["total"])
        new = [row_of(one) for one in answer["messages"]]
        rows += new
        if not answer.get("complete", True):
            terminal.say("the search ended before it reached all messages: choose fewer with --from and --to")
        if len(new) < wanted:
            break
        last = new[-1]["deliver_at"]
        if rows[0]["deliver_at"] == last:  # maybe also of the skipped ones
            page += len(new)
        else:
            page = sum(row["deliver_at"] == last for row in rows)
            ahead["due_from"] = last
    return rows, total


def row_of(message: Mapping[str, Any]) -> Row:
    """Return all fields of the broker, with the place as other commands take it."""
    return {"name": name_of(message["topic"], message["partition"], message["offset"]), **message}


def name_of(topic: str, partition: int | None, offset: int) -> str:
    return f"{topic}/{offset}" if partition is None else f"{topic}/{partition}@{offset}"


# --- one of them ---


def parse_places(topic: str, texts: list[str]) -> dict[str, tuple[int | None, int]]:
    """Parse places, and return each by its name; without a partition the offset must be unique."""
    return {name_of(topic, *place): place for place in (_parse_place(topic, text) for text in texts)}


def _parse_place(topic: str, text: str) -> tuple[int | None, int]:
    place = _PLACE.fullmatch(text)
    if place is None:
        raise UsageInvalid(f"{quoted(text)} is not the place of a delayed message", hint="write it as in 0@17")
    if place[1] is not None and place[1] != topic:
        raise UsageInvalid(f"{quoted(text)} is not in topic {topic}", hint=f"name topic {place[1]}, or {bare(text)}")
    return None if place[2] is None else int(place[2]), int(place[3])


def view(row: Row) -> Iterator[str]:
    """Yield the lines that describe one delayed message."""
    yield row["name"] if row["state"] == "pending" else f"{row['name']}, {row['state']} already"
    yield from (message_details.fact(title, text) for title, text in _facts(row) if text)
    yield from message_details.header_lines(row)
    if row["scheduled_at"] is None:
        yield message_details.fact("value", "not available: removed or damaged")
    else:
        yield from message_details.value_lines(row)


def _facts(row: Row) -> Iterator[tuple[str, str | None]]:
    yield "due", f"{format_until(row['deliver_at'])}, at {row['deliver_at']}"
    if row["scheduled_at"] is not None:
        yield "scheduled", f"{format_ago(row['scheduled_at'])}, at {row['scheduled_at']}"
    yield "key", message_details.key_of(row)
    yield "priority", priority_name(row["priority"])
    yield "size", format_size(row["size"])
