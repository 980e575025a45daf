"""`goqueue-cli delayed`: list and describe delayed messages, and count them by due time."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.clock import NANOSECONDS
from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid, doing
from goqueue.console.flags import WatchOptions
from goqueue.console.formatting import format_milliseconds, format_to_second, format_until
from goqueue.console.names import for_each_name, in_blocks, reject_empty_names, shorten_name
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.console.watch import show_rows
from goqueue.drawing.bars import bar
from goqueue.limits import OFFSET_MAX
from goqueue.nearest import nearest
from goqueue.quantities import format_count, format_duration, parse_time, quoted
from goqueue_cli.delayed import rows as delayed
from goqueue_cli.delayed.rows import DelayedFilter, Row, TopicName

if TYPE_CHECKING:
    from goqueue.client import Client

_LIMIT = 100
_SKIP_MAX = 1_000_000
_BUCKETS = 9
_BAR_CELLS = 40
_STATES = ("pending", "delivered", "cancelled", "expired")

_TIMELINE = (
    Column("DUE", "due"),
    Column("UNTIL", "to", format_to_second),
    Column("MESSAGES", "count", format_count),
    Column("SHARE", "bar"),
)
_WHEEL = (
    Column("LEVEL", "level"),
    Column("TICK", "tick_ms", format_milliseconds),
    Column("SLOTS", "slots", format_count),
    Column("MESSAGES", "entries", format_count),
)
_TOPICS = (Column("TOPIC", "name"), Column("PENDING", "pending", format_count))


# --- list and describe ---


def _state(text: str) -> str:
    if text in _STATES:
        return text
    guess = nearest(text, _STATES)
    hint = f"did you mean {guess}?" if guess else f"states: {', '.join(_STATES)}"
    raise UsageInvalid(f"--state {quoted(text)} is not a state", hint=hint)


@session_flags
def list_messages(
    topic: TopicName,
    *,
    chosen: DelayedFilter,
    state: Annotated[
        str,
        typer.Option(
            "--state", metavar="STATE", parser=_state, help="Pending, delivered, cancelled or expired messages."
        ),
    ] = "pending",
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, max=OFFSET_MAX, help="Maximum number of rows.")
    ] = _LIMIT,
    skip: Annotated[
        int, typer.Option("--skip", metavar="N", min=0, max=_SKIP_MAX, help="Number of messages to skip.")
    ] = 0,
    options: WatchOptions,
    session: Session,
) -> None:
    """List the delayed messages of a topic, the next due first.

    \b
      goqueue-cli delayed list orders
      goqueue-cli delayed list orders --to +10m
      goqueue-cli delayed list orders --where key=tea --where 'json.total>40'
      goqueue-cli delayed list orders --limit 1000 --skip 1000 -o jsonl
      goqueue-cli delayed list orders --state cancelled --watch

    PLACE is partition and offset in the delayed log, as publishing returned it: `delayed describe TOPIC PLACE` shows
    one in full. --from and --to apply to the due time: a time, a day, now, +1h for in an hour, or -1h.
    """
    reject_empty_names(topic)
    criteria = chosen.criteria() | ({} if state == "pending" else {"state": state})
    total = 0

    def fetch(client: "Client") -> list[Row]:
        nonlocal total
        rows, total = delayed.find(client, topic, limit, skip, criteria)
        return rows

    what = f"list the delayed messages of topic {shorten_name(topic)}"
    rows = show_rows(session, what, fetch, delayed.COLUMNS, options)
    known_total = total if state == "pending" and not chosen.is_set() else None
    session.note(*_list_notes(topic, len(rows), skip, limit, known_total, state))


def _list_notes(topic: str, count: int, skip: int, limit: int, total: int | None, state: str) -> Iterator[str]:
    """Say how many messages there are besides those in the list, as far as it is known."""
    more = f"`--limit {10 * max(limit, 1)}`"
    if not count and not skip and limit:
        kind = "no delayed messages" if total is not None else f"no such {state} messages"
        yield f"there are {kind} in {topic}"
    elif total is not None and total > skip + count:
        yield f"{format_count(count)} of {format_count(total)}; {more} shows more, `--skip {skip + count}` the next"
    elif total is None and count == limit:
        yield f"the first {format_count(count)}; {more} may show more"


@session_flags
def describe(
    topic: TopicName,
    places: Annotated[list[str], typer.Argument(metavar="PLACE...", help="Partition and offset, as in 0@17.")],
    *,
    session: Session,
) -> None:
    """Show delayed messages in full.

    \b
      goqueue-cli delayed describe orders 0@17
      goqueue-cli delayed describe orders 0@17 1@4 -o json
      goqueue-cli delayed describe orders 0@17 -o jsonl > kept.jsonl

    PLACE is partition and offset in the delayed log, as `delayed list` shows it; the offset is enough if one partition
    alone has it. JSON values are indented and control characters escaped; -o json has the value as it is.
    `publish --jsonl` schedules the output of -o jsonl again.
    """
    reject_empty_names(topic)
    chosen = delayed.parse_places(topic, places)
    for_each_name(
        session,
        list(chosen),
        "describe delayed message",
        lambda client, name: delayed.row_of(client.delayed_message(topic, *chosen[name])),
        in_blocks(lambda row, _: terminal.write_lines(delayed.view(row))),
    )


# --- timeline and statistics ---


@session_flags
def timeline(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The topics.")],
    buckets: Annotated[
        int, typer.Option("--buckets", metavar="N", min=1, max=_BUCKETS, help="Number of periods, from ten seconds on.")
    ] = _BUCKETS,
    *,
    session: Session,
) -> None:
    """Count delayed messages by due time.

    \b
      goqueue-cli delayed timeline orders
      goqueue-cli delayed timeline orders payments --buckets 4
      goqueue-cli delayed timeline orders -o json

    Overdue messages come first: they are being delivered. Periods get longer, from ten seconds to a year.
    """
    for_each_name(
        session,
        topics,
        "show the timeline of topic",
        lambda client, name: client.delayed_timeline(name, buckets),
        in_blocks(_write_timeline),
    )


def _write_timeline(row: Row, session: Session) -> None:
    terminal.write_lines([f"{row['name']}: {format_count(row['pending'], 'delayed message')}{_next_due(row)}"])
    session.write(list(_timeline_rows(row)), _TIMELINE)


def _next_due(found: Row) -> str:
    moment = found["next_due"]
    return f", the next {format_until(moment)}, at {format_to_second(moment)}" if moment else ""


def _timeline_rows(row: Row) -> Iterator[Row]:
    buckets = row["buckets"]
    found = [(f"within {_distance(buckets, place)}", one["to"], one["count"]) for place, one in enumerate(buckets)]
    later = row["pending"] - row["overdue"] - sum(one["count"] for one in buckets)
    if row["overdue"]:
        found.insert(0, ("overdue", None, row["overdue"]))
    if later:
        found.append(("later", None, later))
    for due, end, count in found:
        share = bar(count, row["pending"], _BAR_CELLS, blocks=False)
        yield {"name": due, "due": due, "to": end, "count": count, "bar": share}


def _distance(buckets: list[Row], place: int) -> str:
    """Return how far ahead a period ends."""
    return format_duration((parse_time(buckets[place]["to"]) - parse_time(buckets[0]["from"])) / NANOSECONDS)


@session_flags
def stats(*, session: Session) -> None:
    """Show statistics of delayed messages in all topics.

    \b
      goqueue-cli delayed stats
      goqueue-cli delayed stats -o json

    LEVEL, TICK and SLOTS describe the timing wheel, which holds the messages that are due next; messages beyond its
    reach are parked.
    """
    with doing("show the statistics of delayed messages"), session.client() as client:
        found = client.delay_stats()
    if not session.for_people:
        session.write([{"name": "delayed", **found}], ())
        return
    terminal.write_lines(_facts(found))
    terminal.write("\n")
    session.write([{"name": str(level["level"]), **level} for level in found["wheel"]], _WHEEL)
    if found["topics"]:
        terminal.write("\n")
        session.write([{"name": name, "pending": count} for name, count in found["topics"].items()], _TOPICS)


def _facts(found: Row) -> Iterator[str]:
    parked = f", {format_count(found['parked'])} of them parked" if found["parked"] else ""
    yield f"{format_count(found['pending_count'], 'delayed message')}{_next_due(found)}{parked}"
    counts = [(word, found[f"{word}_count"]) for word in ("delivered", "cancelled", "expired", "rescheduled")]
    yield f"  {', '.join(f'{format_count(count)} {word}' for word, count in counts)}"
    if found["avg_delay"] is not None:
        yield f"  average delay {format_duration(found['avg_delay'])}"
    if found["late_p50"] is not None:
        late = f"{format_duration(found['late_p50'])}, p99 {format_duration(found['late_p99'])}"
        yield f"  delivered late by {late} (of the latest)"
