"""Delayed messages as rows, and a single one in full."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from goqueue.console import terminal
from goqueue.console.figures import ago, priority, second, until
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column
from goqueue.quantities import format_size, quoted
from goqueue_cli import content

if TYPE_CHECKING:
    from goqueue.client import Client

Row = dict[str, Any]

_PAGE = 10_000
"""Messages of one answer."""

_PLACE = re.compile(r"(?:(.+)/)?(?:([0-9]{1,9})@)?([0-9]{1,18})")


def bare(name: str) -> str:
    """A place without its topic."""
    return name.rpartition("/")[2]


PLACE = Column("PLACE", "name", bare)
DUE_IN = Column("DUE-IN", "deliver_at", until)
DUE = Column("DUE", "deliver_at", second)
PRIORITY = Column("PRIORITY", "priority", priority)
KEY = Column("KEY", "key")
SIZE = Column("SIZE", "size", format_size)
SCHEDULED = Column("SCHEDULED", "scheduled_at", ago, wide=True)
STATE = Column("STATE", "state", wide=True)

COLUMNS = (PLACE, DUE_IN, DUE, PRIORITY, KEY, SIZE, SCHEDULED, STATE)


def found(client: "Client", topic: str, limit: int, skip: int, wishes: Mapping[str, Any]) -> tuple[list[Row], int]:
    """Up to `limit` of them by when they are due, and how many wait in the topic.

    A page begins where the one before has ended, by its due time: those that are delivered meanwhile are gone from
    the front, so a count would pass over as many.
    """
    rows: list[Row] = []
    total, ahead, page = 0, dict(wishes), skip
    while len(rows) < limit:
        wanted = min(limit - len(rows), _PAGE)
        answer = client.delayed(topic, wanted, page, **ahead)
        total = max(total, answer["total"])
        new = [row_of(one) for one in answer["messages"]]
        rows += new
        if not answer.get("complete", True):
            terminal.say("the filters had no time to look at all messages: choose fewer with --from and --to")
        if len(new) < wanted:
            break
        last = new[-1]["deliver_at"]
        if rows[0]["deliver_at"] == last:  # perhaps of those that were passed over, too
            page += len(new)
        else:
            page = sum(row["deliver_at"] == last for row in rows)
            ahead["due_from"] = last
    return rows, total


def row_of(message: Mapping[str, Any]) -> Row:
    """All that the broker has told, and its place in the words that other commands take."""
    return {"name": name_of(message["topic"], message["partition"], message["offset"]), **message}


def name_of(topic: str, partition: int | None, offset: int) -> str:
    return f"{topic}/{offset}" if partition is None else f"{topic}/{partition}@{offset}"


# --- one of them ---


def parse_place(topic: str, text: str) -> tuple[int | None, int]:
    """Partition and offset, with or without the topic. The offset may be enough: then there is no partition."""
    place = _PLACE.fullmatch(text)
    if place is None:
        raise UsageInvalid(f"{quoted(text)} is not the place of a delayed message", hint="write it as in 0@17")
    if place[1] is not None and place[1] != topic:
        raise UsageInvalid(f"{quoted(text)} is not in topic {topic}", hint=f"name topic {place[1]}, or {bare(text)}")
    return None if place[2] is None else int(place[2]), int(place[3])


def parse_places(topic: str, texts: list[str]) -> dict[str, tuple[int | None, int]]:
    """Each by its name."""
    return {name_of(topic, *place): place for place in (parse_place(topic, text) for text in texts)}


def view(row: Row) -> Iterator[str]:
    """Everything about one, for people."""
    yield row["name"] if row["state"] == "pending" else f"{row['name']}, {row['state']} already"
    yield from (content.fact(title, text) for title, text in _facts(row) if text)
    yield from content.header_lines(row)
    if row["scheduled_at"] is None:
        yield content.fact("value", "its bytes are gone, or damaged")
    else:
        yield from content.value_lines(row)


def _facts(row: Row) -> Iterator[tuple[str, str | None]]:
    yield "due", f"{until(row['deliver_at'])}, at {row['deliver_at']}"
    if row["scheduled_at"] is not None:
        yield "scheduled", f"{ago(row['scheduled_at'])}, at {row['scheduled_at']}"
    yield "key", content.key_of(row)
    yield "priority", priority(row["priority"])
    yield "size", format_size(row["size"])
