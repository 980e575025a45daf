"""`goqueue-cli delayed timeline` and `delayed stats`: how many wait, and until when."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.clock import NANOSECONDS
from goqueue.console import terminal
from goqueue.console.each import each, write_blocks
from goqueue.console.failure import doing
from goqueue.console.figures import milliseconds, second, until
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.quantities import format_count, format_duration, parse_time
from goqueue_cli.delayed.choice import naming

if TYPE_CHECKING:
    from goqueue.client import Client

Row = dict[str, Any]

_BUCKETS = 9
_BAR_CELLS = 40

_TIMELINE = (
    Column("DUE", "due"),
    Column("UNTIL", "to", lambda moment: "-" if moment is None else second(moment)),
    Column("MESSAGES", "count", format_count),
    Column("SHARE", "bar"),
)
_WHEEL = (
    Column("LEVEL", "level"),
    Column("TICK", "tick_ms", milliseconds),
    Column("SLOTS", "slots", format_count),
    Column("MESSAGES", "entries", format_count),
)
_TOPICS = (Column("TOPIC", "name"), Column("PENDING", "pending", format_count))


# --- timeline ---


@session_flags
def timeline(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The topics.")],
    buckets: Annotated[
        int, typer.Option("--buckets", metavar="N", min=1, max=_BUCKETS, help="The nearest N of ten seconds to a year.")
    ] = _BUCKETS,
    *,
    session: Session,
) -> None:
    """Show how many delayed messages are due when.

    \b
      goqueue-cli delayed timeline orders
      goqueue-cli delayed timeline orders payments --buckets 4
      goqueue-cli delayed timeline orders -o json

    What is overdue comes first: it is being delivered. The times between get longer, from ten seconds to a year.
    """

    def work(client: "Client", name: str) -> Row:
        with naming(client, name):
            return client.delayed_timeline(name, buckets)

    each(session, topics, "show the timeline of topic", work, partial(write_blocks, write_one=_write_timeline))


def _write_timeline(row: Row, session: Session) -> None:
    next_due = row["next_due"]
    ahead = f", the next {until(next_due)}, at {second(next_due)}" if next_due else ""
    terminal.write_lines([f"{row['name']}: {format_count(row['pending'], 'delayed message')}{ahead}"])
    session.write(list(_lines(row)), _TIMELINE)


def _lines(row: Row) -> Iterator[Row]:
    """Those of the buckets, with what comes before and behind them."""
    buckets = row["buckets"]
    found = [(f"within {_ahead(buckets, place)}", one["to"], one["count"]) for place, one in enumerate(buckets)]
    later = row["pending"] - row["overdue"] - sum(one["count"] for one in buckets)
    if row["overdue"]:
        found.insert(0, ("overdue", None, row["overdue"]))
    if later:
        found.append(("later", None, later))
    for due, end, count in found:
        yield {"name": due, "due": due, "to": end, "count": count, "bar": _bar(count, row["pending"])}


def _ahead(buckets: list[Row], place: int) -> str:
    """How far ahead a bucket ends."""
    return format_duration((parse_time(buckets[place]["to"]) - parse_time(buckets[0]["from"])) / NANOSECONDS)


def _bar(count: int, total: int) -> str:
    """What is there at all is to be seen."""
    return "#" * max(1, round(count / total * _BAR_CELLS)) if count else ""


# --- stats ---


@session_flags
def stats(*, session: Session) -> None:
    """Show what waits in all topics, and how late the others were.

    \b
      goqueue-cli delayed stats
      goqueue-cli delayed stats -o json

    LEVEL and what follows is of the wheel that holds what is due next; what is further ahead than it reaches is parked.
    """
    with doing("show the numbers of delayed messages"), session.client() as client:
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
    next_due = found["next_due"]
    ahead = f", the next {until(next_due)}, at {second(next_due)}" if next_due else ""
    parked = f", {format_count(found['parked'])} of them parked" if found["parked"] else ""
    yield f"{format_count(found['pending_count'], 'delayed message')}{ahead}{parked}"
    counts = [(word, found[f"{word}_count"]) for word in ("delivered", "cancelled", "expired", "rescheduled")]
    yield f"  {', '.join(f'{format_count(count)} {word}' for word, count in counts)}"
    if found["avg_delay"] is not None:
        yield f"  delayed by {format_duration(found['avg_delay'])} on average"
    if found["late_p50"] is not None:
        late = f"{format_duration(found['late_p50'])}, p99 {format_duration(found['late_p99'])}"
        yield f"  late by {late} (of the latest)"
