"""`goqueue-cli dlq`: find dead letters, and see why they failed."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.each import each
from goqueue.console.failure import doing
from goqueue.console.groups import UsageInvalid
from goqueue.console.names import refuse_empty, short
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.errors import OffsetOutOfRange, PartitionNotFound
from goqueue.quantities import format_count, format_size
from goqueue_cli.deadletters import letters
from goqueue_cli.deadletters.letters import SUFFIX, Row, dead_letter_topic, origin
from goqueue_cli.nearest import naming_dead_letters

if TYPE_CHECKING:
    from goqueue.client import Client

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic, or that of its dead letters.")]
ErrorFlag = Annotated[
    str | None, typer.Option("--error", metavar="TEXT", help="Only those that failed with this in it.")
]
GroupFlag = Annotated[
    str | None, typer.Option("--group", metavar="GROUP", help="Only those that failed in this group.")
]
FromFlag = Annotated[str | None, typer.Option("--from", metavar="TIME", help="Only those since a time, a day, or -1h.")]
ToFlag = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Only those before a time, a day, or -1h.")]

WhereFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--where", metavar="FILTER", help="Only those that fit, as in 'json.total>40'; more than one must all."
    ),
]

_FOR_PEOPLE = {"table", "wide"}
_LIMIT = 100
_SAMPLE_CHARACTERS = 2_000  # of a value, in a sample

_TOPICS = (
    Column("NAME", "name"),
    Column("LETTERS", "letters", format_count),
    Column("REASONS", "reasons", format_count),
    Column("MOST-FREQUENT", "most_frequent"),
    Column("MESSAGES", "total_messages", format_count, wide=True),
    Column("SIZE", "total_size_bytes", format_size, wide=True),
)
_ERRORS = (
    Column("COUNT", "count", format_count),
    Column("AGE", "newest", letters.age),
    Column("EXAMPLE", "example", lambda place: place.rpartition("/")[2]),
    Column("ERROR", "error", lambda error: error or "(nobody has said why)"),
)


@session_flags
def list_topics(
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC...", help="Of these topics only.")] = None,
    *,
    session: Session,
) -> None:
    """List the topics with dead letters, and how many each has.

    \b
      goqueue-cli dlq list
      goqueue-cli dlq list orders payments
      goqueue-cli dlq list -o json

    LETTERS were not sent back yet; MESSAGES (-o wide) counts the others too, which lie there until retention takes
    them. A topic is named by itself, or by that of its dead letters.
    """
    with doing("list the dead letters"), session.client() as client:
        known = {one.name: one for one in client.topic_details()}
        chosen = list(dict.fromkeys(map(dead_letter_topic, topics))) if topics else []
        names = chosen or sorted(name for name in known if name.endswith(SUFFIX))
    if not names:
        session.write([], _TOPICS)
        if session.output in _FOR_PEOPLE:
            terminal.say("there are no dead letters")
        return

    def work(client: "Client", name: str) -> Row:
        details = known.get(name)
        with naming_dead_letters(client):
            counts = client.dead_letter_errors(origin(name))
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
        _warn_of_more(row["name"] for row in rows if not row.get("complete", True))

    each(session, names, "count dead letters of topic", work, write)


@session_flags
def errors(topic: TopicName, *, session: Session) -> None:
    """Show why the dead letters of a topic have failed, and how many.

    \b
      goqueue-cli dlq errors orders
      goqueue-cli dlq errors orders -o json

    The most frequent reason comes first. EXAMPLE is one of its newest dead letters, and AGE how long that one has been
    there: `dlq describe TOPIC EXAMPLE` shows it.
    """
    refuse_empty(topic)
    with _looking(session, topic) as client:
        found = client.dead_letter_errors(origin(topic))
        examples: dict[str, Row] = {}
        for row in letters.newest(client, topic) if found["errors"] else []:
            examples.setdefault(row["error"], row)
    rows = [_error_row(error, count, examples.get(error)) for error, count in found["errors"].items()]
    session.write(rows, _ERRORS)
    if not rows:
        _tell_none(session, topic)
    elif not found["complete"]:
        _warn_of_more([dead_letter_topic(topic)])


def _error_row(error: str, count: int, example: Row | None) -> Row:
    newest, place = (example["timestamp"], example["name"]) if example else (None, None)
    return {"name": error, "error": error, "count": count, "newest": newest, "example": place}


@session_flags
def browse(  # noqa: PLR0913 - flags, each given by name
    topic: TopicName,
    *,
    error: ErrorFlag = None,
    group: GroupFlag = None,
    start: FromFlag = None,
    until: ToFlag = None,
    where: WhereFlag = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, help="At most so many; 100 unless told.")
    ] = _LIMIT,
    session: Session,
) -> None:
    """Show the dead letters of a topic that were not sent back.

    \b
      goqueue-cli dlq browse orders
      goqueue-cli dlq browse orders --error timeout --from -1h
      goqueue-cli dlq browse orders --where 'json.total>40' --where header.source=shop
      goqueue-cli dlq browse orders --group billing --limit 1000 -o jsonl

    PLACE is partition and offset among the dead letters, AGE how long it has been there, ORIGIN where it came from.
    -o json has everything: value, headers and times. `dlq describe TOPIC PLACE` shows one in full.
    """
    refuse_empty(topic)
    wishes = {"error": error, "group": group, **times(start, until)}
    with _looking(session, topic) as client:
        rows = list(letters.found(client, topic, limit + 1, wishes, where or ())) if limit else []
    session.write(rows[:limit], letters.COLUMNS)
    if len(rows) > limit:
        terminal.say(f"the first {format_count(limit)}; `--limit {10 * limit}` shows more")
    elif not rows:
        _tell_none(session, topic, chosen=bool(where) or any(wishes.values()))


def times(start: str | None, until: str | None) -> dict[str, Any]:
    """The bounds of a choice by time, as a request has them."""
    from goqueue_cli.places import parse_end, parse_start  # noqa: PLC0415 - with the SDK, once it is needed

    chosen = {
        "from_time": None if start in {None, "earliest"} else _moment("--from", start, parse_start(start)),
        "to_time": None if until in {None, "now", "latest"} else _moment("--to", until, parse_end(until)),
    }
    return {name: moment for name, moment in chosen.items() if moment is not None}


def _moment(flag: str, text: str, place: Any) -> int:
    """Dead letters are chosen by when they came: an offset would mean something else in each partition."""
    from goqueue.client import Nanoseconds  # noqa: PLC0415 - as above

    if isinstance(place, Nanoseconds):
        return place
    raise UsageInvalid(f"{flag} {text} is no time", hint=f"write it as in {flag} -1h, or {flag} 2026-03-01T12:00:00Z")


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

    A PLACE is partition and offset among the dead letters, as `dlq browse` and `dlq errors` show it. JSON is indented,
    and what a terminal would obey is shown as an escape; -o json has the value as it is.
    """
    refuse_empty(topic)
    own_name = dead_letter_topic(topic)
    chosen = {
        letters.name_of(own_name, *place): place for place in (letters.parse_place(topic, text) for text in places)
    }

    def work(client: "Client", name: str) -> Row:
        with naming_dead_letters(client):
            return _letter(client, own_name, *chosen[name])

    def write(rows: list[Row], session: Session) -> None:
        _write_letters(rows, session)

    each(session, list(chosen), "describe dead letter", work, write)


def _letter(client: "Client", topic: str, partition: int, offset: int) -> Row:
    """The message that lies there, whether it was sent back or not."""
    from goqueue_cli.consuming.forms import record  # noqa: PLC0415 - with the SDK's messages, which nobody else here needs

    held = client.topic(topic).partition_offsets
    if str(partition) not in held:
        raise PartitionNotFound(f"topic {topic} has no partition {partition}: {format_count(len(held), 'partition')}")
    message = None
    if held[str(partition)].earliest <= offset < held[str(partition)].latest:
        with client.reader(topic, partitions=[partition], start=offset, until=offset + 1) as reader:
            message = next(iter(reader), None)
    if message is None:
        hint = f"`goqueue-cli dlq browse {topic}` shows those that there are"
        raise OffsetOutOfRange(f"no message is at {letters.name_of(topic, partition, offset)}", hint=hint)
    found = record(message)
    lying = {number: offsets.latest for number, offsets in held.items()} | {str(partition): offset}
    still = client.dead_letters(topic, 1, start=lying)["messages"]
    lies = any((one["partition"], one["offset"]) == (partition, offset) for one in still)
    return letters.row_of(topic, {**found, **letters.of_headers(found), "sent_back": not lies})


@session_flags
def sample(
    topic: TopicName,
    error: ErrorFlag = None,
    count: Annotated[int, typer.Option("-n", "--count", metavar="N", min=1, max=100, help="How many; 5.")] = 5,
    *,
    session: Session,
) -> None:
    """Show some of the newest dead letters in full.

    \b
      goqueue-cli dlq sample orders
      goqueue-cli dlq sample orders --error timeout -n 3

    One of each reason comes first, then others. Long values are cut; -o json has all of them.
    """
    refuse_empty(topic)
    with _looking(session, topic) as client:
        rows = _sampled(client, topic, error, count)
    _write_letters(rows, session, _SAMPLE_CHARACTERS)
    if not rows:
        _tell_none(session, topic, chosen=error is not None)


def _sampled(client: "Client", topic: str, error: str | None, count: int) -> list[Row]:
    """From the newest. Where there are too few among them, from the oldest on."""
    wishes = {"error": error}
    oldest = list(letters.found(client, topic, count, wishes))
    if len(oldest) < count:
        return _varied(reversed(oldest))[:count]
    rows = [row for row in letters.newest(client, topic) if error is None or error in row["error"]]
    known = {row["name"] for row in rows}
    return _varied([*rows, *(row for row in oldest if row["name"] not in known)])[:count]


def _varied(rows: Iterable[Row]) -> list[Row]:
    """The first of each reason before the second of any."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, Row]] = []
    for row in rows:
        ranked.append((seen[row["error"]], row))
        seen[row["error"]] += 1
    return [row for _, row in sorted(ranked, key=lambda pair: pair[0])]


def _write_letters(rows: list[Row], session: Session, most: int | None = None) -> None:
    if session.output not in _FOR_PEOPLE:
        session.write(rows, letters.COLUMNS)
        return
    for number, row in enumerate(row for row in rows if row.get("result") != "failed"):
        terminal.write_lines([*([""] if number else []), *letters.view(row, most)])


@contextmanager
def _looking(session: Session, topic: str) -> "Iterator[Client]":
    what = f"look at the dead letters of topic {short(topic)}"
    with doing(what), session.client() as client, naming_dead_letters(client):
        yield client


def _tell_none(session: Session, topic: str, *, chosen: bool = False) -> None:
    if session.output in _FOR_PEOPLE:
        terminal.say(f"no such dead letters of {topic}" if chosen else f"there are no dead letters of {topic}")


def _warn_of_more(names: Iterable[str]) -> None:
    """A request looks at so many, and no further."""
    if told := ", ".join(names):
        terminal.say(f"there are more in {told} than were looked at: the counts are those of the oldest")
