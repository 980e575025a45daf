"""`goqueue-cli dlq`: count, browse, sample and describe dead letters."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.console import terminal
from goqueue.console.dead_letters import dead_letter_topic, error_text, holds_dead_letters
from goqueue.console.failure import doing, suggesting
from goqueue.console.formatting import format_age
from goqueue.console.names import for_each_name, in_blocks, reject_empty_names, shorten_name
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.errors import OffsetOutOfRange, PartitionNotFound
from goqueue.quantities import format_count, format_size
from goqueue_cli.dead_letters import rows as dead_letters
from goqueue_cli.dead_letters.rows import (
    UNKNOWN_TOPIC_HINT,
    DeadLetterFilter,
    ErrorFlag,
    Row,
    TopicName,
    origin,
)

if TYPE_CHECKING:
    from goqueue.client import Client

_LIMIT = 100
_SAMPLE_CHARACTERS = 2_000  # of a value, in a sample

_TOPICS = (
    Column("TOPIC", "name"),
    Column("LETTERS", "letters", format_count),
    Column("REASONS", "reasons", format_count),
    Column("MOST-FREQUENT", "most_frequent"),
    Column("MESSAGES", "total_messages", format_count, wide=True),
    Column("SIZE", "total_size_bytes", format_size, wide=True),
)
_ERRORS = (
    Column("COUNT", "count", format_count),
    Column("AGE", "newest", format_age),
    Column("EXAMPLE", "example", lambda place: place.rpartition("/")[2]),
    Column("ERROR", "error", error_text),
)


@contextmanager
def _reading(session: Session, topic: str) -> "Iterator[Client]":
    reject_empty_names(topic)
    what = f"read the dead letters of topic {shorten_name(topic)}"
    with doing(what), session.client() as client, suggesting(client, otherwise=UNKNOWN_TOPIC_HINT):
        yield client


def _note_none(session: Session, topic: str, *, filtered: bool = False) -> None:
    session.note(f"no such dead letters of {topic}" if filtered else f"there are no dead letters of {topic}")


# --- counts ---


@session_flags
def list_topics(
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC...", help="Only these topics.")] = None,
    *,
    session: Session,
) -> None:
    """List the topics with dead letters, and how many each has.

    \b
      goqueue-cli dlq list
      goqueue-cli dlq list orders payments
      goqueue-cli dlq list -o json

    LETTERS counts dead letters that were not redriven; MESSAGES (-o wide) includes the others, which stay until
    retention deletes them. A topic can be named by itself or by its dead-letter topic.
    """
    with doing("list the dead letters"), session.client() as client:
        known = {one.name: one for one in client.topic_details()}
    chosen = list(dict.fromkeys(dead_letter_topic(topic, known.values()) for topic in topics or ()))
    names = chosen or sorted(name for name, one in known.items() if holds_dead_letters(one))
    if not names:
        session.write([], _TOPICS)
        session.note("there are no dead letters")
        return

    def work(client: "Client", name: str) -> Row:
        details = known.get(name)
        with suggesting(client, otherwise=UNKNOWN_TOPIC_HINT):
            counts = client.dead_letter_errors(name if name in known else origin(name))
        return {
            "topic": origin(name),
            "letters": sum(counts["errors"].values()),
            "complete": counts["complete"],
            "reasons": len(counts["errors"]),
            "most_frequent": next(iter(counts["errors"]), None),
            "errors": counts["errors"],
            "total_messages": details.total_messages if details else 0,
            "total_size_bytes": details.total_size_bytes if details else 0,
        }

    def write(rows: list[Row], session: Session) -> None:
        session.write(rows, _TOPICS)
        _warn_incomplete(row["name"] for row in rows if not row.get("complete", True))

    for_each_name(session, names, "count dead letters of topic", work, write)


@session_flags
def errors(topic: TopicName, *, session: Session) -> None:
    """Count the dead letters of a topic by error.

    \b
      goqueue-cli dlq errors orders
      goqueue-cli dlq errors orders -o json

    The most frequent error comes first. EXAMPLE is one of its newest dead letters, and AGE the age of that one:
    `dlq describe TOPIC EXAMPLE` shows it.
    """
    with _reading(session, topic) as client:
        topic = dead_letters.known_name(client, topic)
        found = client.dead_letter_errors(topic)
        examples: dict[str, Row] = {}
        for row in dead_letters.newest(client, topic, found["dlq_topic"]) if found["errors"] else []:
            examples.setdefault(row["error"], row)
    rows = [_error_row(error, count, examples.get(error)) for error, count in found["errors"].items()]
    session.write(rows, _ERRORS)
    if not rows:
        _note_none(session, topic)
    elif not found["complete"]:
        _warn_incomplete([found["dlq_topic"]])


def _error_row(error: str, count: int, example: Row | None) -> Row:
    newest, place = (example["timestamp"], example["name"]) if example else (None, None)
    return {"name": error, "error": error, "count": count, "newest": newest, "example": place}


def _warn_incomplete(names: Iterable[str]) -> None:
    """Report the topics in which one request did not reach the end."""
    if listed := ", ".join(names):
        terminal.say(f"there are more in {listed} than were read: the counts are those of the oldest")


# --- browse and sample ---


@session_flags
def browse(
    topic: TopicName,
    *,
    chosen: DeadLetterFilter,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=0, help="Maximum number of rows.")] = _LIMIT,
    session: Session,
) -> None:
    """List the dead letters of a topic that were not redriven.

    \b
      goqueue-cli dlq browse orders
      goqueue-cli dlq browse orders --error timeout --from -1h
      goqueue-cli dlq browse orders --where 'json.total>40' --where key=tea
      goqueue-cli dlq browse orders --group billing --limit 1000 -o jsonl

    PLACE is partition and offset in the dead-letter topic, AGE the time since it arrived there, ORIGIN the place that
    it came from. -o json has all fields: value, headers and times. `dlq describe TOPIC PLACE` shows one in full.
    """
    criteria = chosen.criteria()
    with _reading(session, topic) as client:
        name = dead_letters.known_name(client, topic)
        rows = list(dead_letters.find(client, name, limit + 1, criteria, chosen.where or ())) if limit else []
    session.write(rows[:limit], dead_letters.COLUMNS)
    if len(rows) > limit:
        terminal.say(f"the first {format_count(limit)}; `--limit {10 * limit}` shows more")
    elif not rows:
        _note_none(session, topic, filtered=bool(chosen.where or criteria))


@session_flags
def sample(
    topic: TopicName,
    error: ErrorFlag = None,
    limit: Annotated[
        int, typer.Option("-n", "--limit", metavar="N", min=1, max=100, help="Maximum number of dead letters.")
    ] = 5,
    *,
    session: Session,
) -> None:
    """Show some of the newest dead letters in full.

    \b
      goqueue-cli dlq sample orders
      goqueue-cli dlq sample orders --error timeout -n 3

    One of each error comes first, then others. Long values are cut; -o json has the whole value.
    """
    with _reading(session, topic) as client:
        found = _sample(client, dead_letters.known_name(client, topic), error, limit)
    _write_all(found, session, _SAMPLE_CHARACTERS)
    if not found:
        _note_none(session, topic, filtered=error is not None)


def _sample(client: "Client", topic: str, error: str | None, count: int) -> list[Row]:
    """Take from the newest, and if there are too few, from the oldest."""
    oldest = list(dead_letters.find(client, topic, count, {"error": error}))
    if len(oldest) < count:
        return _varied(reversed(oldest))[:count]
    newest = dead_letters.newest(client, topic, oldest[0]["topic"])
    rows = [row for row in newest if error is None or error in row["error"]]
    known = {row["name"] for row in rows}
    return _varied([*rows, *(row for row in oldest if row["name"] not in known)])[:count]


def _varied(rows: Iterable[Row]) -> list[Row]:
    """Order rows so that the first of each error comes before the second of any."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, Row]] = []
    for row in rows:
        ranked.append((seen[row["error"]], row))
        seen[row["error"]] += 1
    return [row for _, row in sorted(ranked, key=lambda pair: pair[0])]


def _write_all(rows: list[Row], session: Session, most: int | None = None) -> None:
    if session.for_people:
        in_blocks(lambda row, _: terminal.write_lines(dead_letters.view(row, most)))(rows, session)
    else:
        session.write(rows, dead_letters.COLUMNS)


# --- describe ---


@session_flags
def describe(
    topic: TopicName,
    places: Annotated[list[str], typer.Argument(metavar="PLACE...", help="Partition and offset, as in 0@17.")],
    *,
    session: Session,
) -> None:
    """Show dead letters in full.

    \b
      goqueue-cli dlq describe orders 0@17
      goqueue-cli dlq describe orders 0@17 1@4 -o json

    PLACE is partition and offset in the dead-letter topic, as `dlq browse` and `dlq errors` show it. JSON values are
    indented and control characters escaped; -o json has the value as it is.
    """
    reject_empty_names(topic)
    for text in places:
        dead_letters.parse_place(text)
    with _reading(session, topic) as client:
        own_name = dead_letters.topic_of(client, topic)
    parsed = (dead_letters.place_in(own_name, text) for text in places)
    chosen = {dead_letters.name_of(own_name, *place): place for place in parsed}

    def work(client: "Client", name: str) -> Row:
        with suggesting(client, otherwise=UNKNOWN_TOPIC_HINT):
            return _fetch_one(client, own_name, *chosen[name])

    for_each_name(session, list(chosen), "describe dead letter", work, _write_all)


def _fetch_one(client: "Client", topic: str, partition: int, offset: int) -> Row:
    """Fetch the message at a place, redriven or not."""
    from goqueue_cli.consuming.formats import record  # noqa: PLC0415 - with the SDK's messages

    held = client.topic(topic).partition_offsets
    if str(partition) not in held:
        raise PartitionNotFound(f"topic {topic} has no partition {partition}: {format_count(len(held), 'partition')}")
    message = None
    if held[str(partition)].earliest <= offset < held[str(partition)].latest:
        with client.reader(topic, partitions=[partition], start=offset, until=offset + 1) as reader:
            message = next(iter(reader), None)
    if message is None:
        hint = f"`goqueue-cli dlq browse {topic}` shows the dead letters"
        raise OffsetOutOfRange(f"no message at {dead_letters.name_of(topic, partition, offset)}", hint=hint)
    found = record(message)
    start = {number: offsets.latest for number, offsets in held.items()} | {str(partition): offset}
    unsent = client.dead_letters(topic, 1, start=start)["messages"]
    is_unsent = any((one["partition"], one["offset"]) == (partition, offset) for one in unsent)
    return dead_letters.row_of(topic, {**found, **dead_letters.from_headers(found), "sent_back": not is_unsent})
