"""`goqueue-cli dlq browse`, `dlq sample` and `dlq describe`: dead letters as rows, and in full."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.console import terminal
from goqueue.console.each import each
from goqueue.console.names import refuse_empty
from goqueue.console.session import Session, session_flags
from goqueue.errors import OffsetOutOfRange, PartitionNotFound
from goqueue.quantities import format_count
from goqueue_cli.deadletters import letters
from goqueue_cli.deadletters.choice import (
    ErrorFlag,
    FromFlag,
    GroupFlag,
    ToFlag,
    TopicName,
    WhereFlag,
    looking,
    tell_none,
    times,
)  # fmt: skip
from goqueue_cli.deadletters.letters import Row, dead_letter_topic
from goqueue_cli.nearest import naming_dead_letters

if TYPE_CHECKING:
    from goqueue.client import Client

_LIMIT = 100
_SAMPLE_CHARACTERS = 2_000  # of a value, in a sample


@session_flags
def browse(  # noqa: PLR0913 - flags, each given by name
    topic: TopicName,
    *,
    error: ErrorFlag = None,
    group: GroupFlag = None,
    start: FromFlag = None,
    until: ToFlag = None,
    where: WhereFlag = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=0, help="At most so many.")] = _LIMIT,
    session: Session,
) -> None:
    """Show the dead letters of a topic that were not sent back.

    \b
      goqueue-cli dlq browse orders
      goqueue-cli dlq browse orders --error timeout --from -1h
      goqueue-cli dlq browse orders --where 'json.total>40' --where key=tea
      goqueue-cli dlq browse orders --group billing --limit 1000 -o jsonl

    PLACE is partition and offset among the dead letters, AGE how long it has been there, ORIGIN where it came from.
    -o json has everything: value, headers and times. `dlq describe TOPIC PLACE` shows one in full.
    """
    refuse_empty(topic)
    wishes = {"error": error, "group": group, **times(start, until)}
    with looking(session, topic) as client:
        rows = list(letters.found(client, topic, limit + 1, wishes, where or ())) if limit else []
    session.write(rows[:limit], letters.COLUMNS)
    if len(rows) > limit:
        terminal.say(f"the first {format_count(limit)}; `--limit {10 * limit}` shows more")
    elif not rows:
        tell_none(session, topic, chosen=bool(where) or any(wishes.values()))


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
    limit: Annotated[int, typer.Option("-n", "--limit", metavar="N", min=1, max=100, help="At most so many.")] = 5,
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
    with looking(session, topic) as client:
        rows = _sampled(client, topic, error, limit)
    _write_letters(rows, session, _SAMPLE_CHARACTERS)
    if not rows:
        tell_none(session, topic, chosen=error is not None)


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
    if not session.for_people:
        session.write(rows, letters.COLUMNS)
        return
    for number, row in enumerate(row for row in rows if row.get("result") != "failed"):
        terminal.write_lines([*([""] if number else []), *letters.view(row, most)])
