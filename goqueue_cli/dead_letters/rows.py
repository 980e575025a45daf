"""Dead letters as rows, one of them in full, and the flags that choose them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console.dead_letters import SUFFIX, dead_letter_topic, error_text, origin_of
from goqueue.console.failure import UsageInvalid
from goqueue.console.flags import WhereFlag
from goqueue.console.formatting import format_age
from goqueue.console.rows import Column
from goqueue.errors import TopicNotFound
from goqueue.quantities import quoted
from goqueue_cli import message_details

if TYPE_CHECKING:
    from goqueue.client import Client

Row = dict[str, Any]

UNKNOWN_TOPIC_HINT = "`goqueue-cli dlq list` shows the topics with dead letters"
_PREFIX = "dlq."
_ANSWER_MAX = 10_000  # dead letters in one answer of the broker
_TAIL = 200  # newest dead letters of each partition that a sample looks at

_PLACE = re.compile(r"(?:(.+)/)?([0-9]{1,9})@([0-9]{1,18})")

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Topic, or its dead-letter topic.")]
ErrorFlag = Annotated[str | None, typer.Option("--error", metavar="TEXT", help="Only errors that contain this text.")]


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Flags that choose dead letters."""

    error: ErrorFlag = None
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="Only messages that failed in this group.")
    ] = None
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Only from this time on: a time, a day, or -1h.")
    ] = None
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Only before this time: a time, a day, or -1h.")
    ] = None
    where: WhereFlag = None

    def criteria(self) -> dict[str, Any]:
        """Return the fields of a request, without `where`."""
        from goqueue.console.positions import parse_end, parse_start  # noqa: PLC0415 - with the SDK

        found = {
            "error": self.error,
            "group": self.group,
            "from_time": _time("--from", self.start, parse_start, {"earliest"}),
            "to_time": _time("--to", self.until, parse_end, {"now", "latest"}),
        }
        return {name: value for name, value in found.items() if value is not None}


def _time(flag: str, text: str | None, parse: Callable[[str], Any], unbounded: set[str]) -> int | None:
    """Parse a time; an offset would mean something else in each partition."""
    if text is None or text in unbounded:
        return None
    from goqueue.client import Nanoseconds  # noqa: PLC0415 - with the SDK

    place = parse(text)
    if isinstance(place, Nanoseconds):
        return place
    raise UsageInvalid(f"{flag} {text} is not a time", hint=f"use {flag} -1h, or {flag} 2026-03-01T12:00:00Z")


def origin(topic: str) -> str:
    """Return the topic of a dead-letter topic: it exists even if it never had any dead letters."""
    return topic.removesuffix(SUFFIX)


COLUMNS = (
    Column("PLACE", "name", lambda name: name.rpartition("/")[2]),
    Column("AGE", "timestamp", format_age),
    Column("ATTEMPTS", "attempts"),
    Column("ORIGIN", "origin"),
    Column("KEY", "key"),
    Column("ERROR", "error"),
    Column("WHEN", "timestamp", wide=True),
    Column("GROUP", "group", wide=True),
    Column("VALUE", "value", wide=True),
)


def find(
    client: "Client", topic: str, limit: int, criteria: Mapping[str, Any], filters: Sequence[str] = ()
) -> Iterator[Row]:
    """Yield up to `limit` dead letters that were not redriven, partition by partition, the oldest first."""
    start: dict[str, int] | None = None
    while limit > 0:
        answer = client.dead_letters(topic, min(limit, _ANSWER_MAX), start=start, filters=filters, **criteria)
        yield from (row_of(answer["dlq_topic"], message) for message in answer["messages"])
        limit -= len(answer["messages"])
        start = answer["next"]
        if answer["complete"]:
            return


def newest(client: "Client", topic: str, own_name: str) -> list[Row]:
    """Return some of the newest dead letters of each partition of their topic, the newest of all first."""
    held = client.topic(own_name).partition_offsets
    start = {number: max(offsets.earliest, offsets.latest - _TAIL) for number, offsets in held.items()}
    answer = client.dead_letters(topic, min(_TAIL * len(start), _ANSWER_MAX), start=start)
    rows = [row_of(own_name, message) for message in answer["messages"]]
    return sorted(rows, key=lambda row: (row["timestamp"], row["offset"]), reverse=True)


def row_of(own_name: str, message: Mapping[str, Any]) -> Row:
    """Return all fields of the broker, with the place and the origin as other commands take them."""
    place = name_of(own_name, message["partition"], message["offset"])
    return {
        "name": place,
        "topic": own_name,
        **message,
        "error": message.get("error", ""),
        "origin": origin_of(message),
    }


def name_of(topic: str, partition: int, offset: int) -> str:
    return f"{topic}/{partition}@{offset}"


# --- one of them ---


def known_name(client: "Client", topic: str) -> str:
    """Return the name that the broker knows: a topic without dead letters has no dead-letter topic yet."""
    return topic if not topic.endswith(SUFFIX) or topic in client.topics() else origin(topic)


def topic_of(client: "Client", topic: str) -> str:
    """Return the topic that has the dead letters of a topic; the topic itself may be gone."""
    try:
        return client.topic(topic).dlq_topic
    except TopicNotFound:
        return dead_letter_topic(topic)


def parse_place(text: str) -> tuple[str | None, int, int]:
    """Parse partition and offset, with or without the topic in front."""
    place = _PLACE.fullmatch(text)
    if place is None:
        raise UsageInvalid(f"{quoted(text)} is not the place of a dead letter", hint="write it as in 0@17")
    return place[1], int(place[2]), int(place[3])


def place_in(own_name: str, text: str) -> tuple[int, int]:
    """Return partition and offset of a place that is in this dead-letter topic."""
    topic, partition, offset = parse_place(text)
    if topic is not None and own_name not in (topic, dead_letter_topic(topic)):
        raise UsageInvalid(
            f"{quoted(text)} is not in topic {own_name}",
            hint=f"`goqueue-cli dlq describe {topic} {text}`",
        )
    return partition, offset


def from_headers(record: Mapping[str, Any]) -> Row:
    """Read the failure from the headers of a message: the broker reports it only until the message is redriven."""
    headers = record["headers"].items()
    texts = {name.removeprefix(_PREFIX): text for name, text in headers if name.startswith(_PREFIX)}
    texts = {name: text for name, text in texts.items() if isinstance(text, str)}
    return {
        "origin_topic": texts.get("topic"),
        "origin_partition": _number(texts.get("partition")),
        "origin_offset": _number(texts.get("offset")),
        "group": texts.get("group"),
        "error": texts.get("error", ""),
        "attempts": _number(texts.get("attempts")),
        "first_time": texts.get("first-time"),
        "last_time": texts.get("last-time"),
    }


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 20 else None


def view(row: Row, most: int | None = None) -> Iterator[str]:
    """Yield the lines that describe one dead letter, with at most `most` characters of its value."""
    yield f"{row['name']}{', redriven already' if row.get('sent_back') else ''}"
    yield from (message_details.fact(title, text) for title, text in _facts(row) if text)
    yield from message_details.header_lines(row, _PREFIX)
    yield from message_details.value_lines(row, most)


def _facts(row: Row) -> Iterator[tuple[str, str | None]]:
    yield "error", error_text(row["error"])
    yield "attempts", _attempts(row)
    yield "group", row.get("group")
    yield "origin", row.get("origin")
    yield "when", row["timestamp"]
    yield "key", message_details.key_of(row)
    yield "priority", str(row["priority"])


def _attempts(row: Row) -> str | None:
    if row.get("attempts") is None:
        return None
    first, last = row.get("first_time"), row.get("last_time")
    return f"{row['attempts']}" + (f", from {first} to {last}" if first and last else "")
