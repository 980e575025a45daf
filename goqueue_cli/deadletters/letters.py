"""Dead letters as rows, and a single one in full."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from goqueue.console.figures import age
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column
from goqueue.quantities import quoted
from goqueue_cli import content

if TYPE_CHECKING:
    from goqueue.client import Client

Row = dict[str, Any]

SUFFIX = ".dlq"
_PREFIX = "dlq."
_ANSWER_MAX = 10_000  # dead letters that the broker gives at once
_TAIL = 200  # of the newest of each partition, where a look at some is enough

_PLACE = re.compile(r"(?:(.+)/)?([0-9]{1,9})@([0-9]{1,18})")


def dead_letter_topic(topic: str) -> str:
    """A topic is named by itself or by its dead letters."""
    return topic if topic.endswith(SUFFIX) else f"{topic}{SUFFIX}"


def origin(topic: str) -> str:
    """The other way round. Asked for so, a topic that never had any dead letters has none, and is not missing."""
    return topic.removesuffix(SUFFIX)


COLUMNS = (
    Column("PLACE", "name", lambda name: name.rpartition("/")[2]),
    Column("AGE", "timestamp", age),
    Column("ATTEMPTS", "attempts"),
    Column("ORIGIN", "origin"),
    Column("KEY", "key"),
    Column("ERROR", "error"),
    Column("WHEN", "timestamp", wide=True),
    Column("GROUP", "group", wide=True),
    Column("VALUE", "value", wide=True),
)


def found(
    client: "Client", topic: str, limit: int, wishes: Mapping[str, Any], filters: Sequence[str] = ()
) -> Iterator[Row]:
    """Up to `limit` that were not sent back, partition by partition, the oldest of each first."""
    start: dict[str, int] | None = None
    while limit > 0:
        answer = client.dead_letters(origin(topic), min(limit, _ANSWER_MAX), start=start, filters=filters, **wishes)
        yield from (row_of(topic, message) for message in answer["messages"])
        limit -= len(answer["messages"])
        start = answer["next"]
        if answer["complete"]:
            return


def newest(client: "Client", topic: str) -> list[Row]:
    """Some of the newest of each partition, the newest of all first."""
    own_name = dead_letter_topic(topic)
    held = client.topic(own_name).partition_offsets
    start = {number: max(offsets.earliest, offsets.latest - _TAIL) for number, offsets in held.items()}
    answer = client.dead_letters(own_name, min(_TAIL * len(start), _ANSWER_MAX), start=start)
    rows = [row_of(own_name, message) for message in answer["messages"]]
    return sorted(rows, key=lambda row: (row["timestamp"], row["offset"]), reverse=True)


def row_of(topic: str, message: Mapping[str, Any]) -> Row:
    """All that the broker has told, and where it is and was in the words that other commands take."""
    own_name = dead_letter_topic(topic)
    place = name_of(own_name, message["partition"], message["offset"])
    return {"name": place, "topic": own_name, **message, "error": message.get("error", ""), "origin": _origin(message)}


def name_of(topic: str, partition: int, offset: int) -> str:
    return f"{topic}/{partition}@{offset}"


def _origin(message: Mapping[str, Any]) -> str | None:
    topic, partition, offset = (message.get(f"origin_{part}") for part in ("topic", "partition", "offset"))
    if topic is None:
        return None
    return str(topic) if partition is None or offset is None else name_of(topic, partition, offset)


# --- one of them ---


def parse_place(topic: str, text: str) -> tuple[int, int]:
    """Partition and offset, with or without the topic in front, as tables and `-o name` have them."""
    place = _PLACE.fullmatch(text)
    if place is None:
        raise UsageInvalid(f"{quoted(text)} is not the place of a dead letter", hint="write it as in 0@17")
    if place[1] is not None and dead_letter_topic(place[1]) != dead_letter_topic(topic):
        raise UsageInvalid(
            f"{quoted(text)} is not in topic {dead_letter_topic(topic)}",
            hint=f"`goqueue-cli dlq describe {place[1]} {text}`",
        )
    return int(place[2]), int(place[3])


def of_headers(record: Mapping[str, Any]) -> Row:
    """How a message has failed, from its own headers: the broker tells it only of those that were not sent back."""
    headers = record["headers"]
    told = {name.removeprefix(_PREFIX): text for name, text in headers.items() if name.startswith(_PREFIX)}
    texts = {name: text for name, text in told.items() if isinstance(text, str)}
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
    """Everything about one, for people; of a value at most so many characters."""
    sent_back = ", sent back already" if row.get("sent_back") else ""
    yield f"{row['name']}{sent_back}"
    yield from (content.fact(title, text) for title, text in _facts(row) if text)
    yield from content.header_lines(row, _PREFIX)
    yield from content.value_lines(row, most)


def _facts(row: Row) -> Iterator[tuple[str, str | None]]:
    yield "error", row["error"] or "(nobody has said why)"
    yield "attempts", _attempts(row)
    yield "group", row.get("group")
    yield "origin", row.get("origin")
    yield "when", row["timestamp"]
    yield "key", content.key_of(row)
    yield "priority", str(row["priority"])


def _attempts(row: Row) -> str | None:
    if row.get("attempts") is None:
        return None
    first, last = row.get("first_time"), row.get("last_time")
    return f"{row['attempts']}" + (f", from {first} to {last}" if first and last else "")
