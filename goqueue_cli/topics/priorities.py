"""`goqueue-cli topic priorities`: what is ready, in hand and was handed out of each priority."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.each import each, write_blocks
from goqueue.console.figures import PRIORITIES, ago
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.quantities import format_count, format_duration
from goqueue_cli.topics.listing import Names

if TYPE_CHECKING:
    from goqueue.client import Client

Row = dict[str, Any]

_COUNTS = ("ready", "in_flight", "waiting", "enqueued", "dequeued")
_COLUMNS = (
    Column("PRIORITY", "name"),
    *(Column(name.upper().replace("_", "-"), name, format_count) for name in _COUNTS),
    Column("LAST-SERVED", "last_served", lambda moment: "-" if moment is None else ago(moment)),
    Column("WAIT", "avg_wait_time", lambda seconds: "-" if not seconds else format_duration(round(seconds, 3))),
)


@session_flags
def priorities(
    topics: Names,
    group: Annotated[
        str | None, typer.Option("--group", "-g", metavar="GROUP", help="As this group has them, not all of them.")
    ] = None,
    *,
    session: Session,
) -> None:
    """Show what is ready, in hand and was handed out of each priority.

    \b
      goqueue-cli topic priorities orders
      goqueue-cli topic priorities orders --group billing
      goqueue-cli topic priorities orders -o json

    READY is what a group may be handed now; without --group, in the group that has most before it. What came and went
    is counted since the broker started. WAIT is how long a message lay before it was handed out, on average.
    """

    def work(client: "Client", name: str) -> Row:
        return {"partitions": client.priority_stats(name, group)["topics"].get(name, {})}

    each(session, topics, "show the priorities of topic", work, partial(write_blocks, write_one=_write_one))


def _write_one(row: Row, session: Session) -> None:
    partitions = row["partitions"]
    terminal.write_lines([f"{row['name']}: {format_count(len(partitions), 'partition')}"])
    session.write([_added_up(name, [lanes[name] for lanes in partitions.values()]) for name in PRIORITIES], _COLUMNS)


def _added_up(name: str, lanes: list[Row]) -> Row:
    """Of all partitions."""
    moments = [lane["last_served"] for lane in lanes if lane["last_served"] is not None]
    counts = {count: sum(lane[count] for lane in lanes) for count in _COUNTS}
    waited = sum(lane["avg_wait_time"] * lane["dequeued"] for lane in lanes)
    wait = waited / counts["dequeued"] if counts["dequeued"] else 0.0
    return {"name": name, **counts, "last_served": max(moments, default=None), "avg_wait_time": wait}
