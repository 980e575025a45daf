"""`goqueue-cli trace list`, `search`, `follow` and `stats`."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from goqueue.clock import NANOSECONDS
from goqueue.console import terminal
from goqueue.console.failure import doing
from goqueue.console.flags import WatchOptions
from goqueue.console.formatting import format_age, format_milliseconds
from goqueue.console.names import reject_empty_names
from goqueue.console.positions import parse_time_flag
from goqueue.console.rows import Column, json_text
from goqueue.console.session import Session, session_flags, stream_flags
from goqueue.console.table import fit
from goqueue.console.watch import show_rows
from goqueue.console.waterfall import position_text
from goqueue.limits import TRACES, TRACES_MAX
from goqueue.quantities import format_count, format_size, format_time

if TYPE_CHECKING:
    from goqueue.client import Client

Row = dict[str, Any]
Status = Literal["completed", "pending", "error"]

_COLUMNS = (
    Column("TRACE", "trace_id"),
    Column("STATUS", "status"),
    Column("MESSAGE", "message"),
    Column("BATCH", "batch", format_count),
    Column("AGE", "end", format_age),
    Column("TOOK", "duration_ms", format_milliseconds),
    Column("EVENTS", "count", format_count),
    Column("LAST", "last"),
)
_FOLLOW_SECONDS = 1.0
_FOLLOWED_MAX = 100  # traces that change within that time

_Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=TRACES_MAX, help="Maximum number of traces.")]
_Topic = Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Only traces of this topic.")]
_Group = Annotated[
    str | None, typer.Option("--group", metavar="GROUP", help="Only messages with which this group did something.")
]
_Status = Annotated[
    Status | None, typer.Option("--status", metavar="STATUS", help="Only traces that are completed, pending or error.")
]


def _row(found: Any) -> Row:
    row = dict(found)
    return {
        "name": row["trace_id"],
        "message": position_text(row),
        "duration_ms": 1000 * row["duration"],
        "count": len(row["events"]),
        "last": row["events"][-1]["event_type"],
        **row,
    }


@session_flags
def list_traces(*, limit: _Limit = TRACES, options: WatchOptions, session: Session) -> None:
    """List traces, the newest first.

    \b
      goqueue-cli trace list
      goqueue-cli trace list --limit 10 -o json
      goqueue-cli trace list --watch

    One row stands for all messages to which the same happened: BATCH is their number, MESSAGE the first one.
    `trace get` shows a trace with its events.
    """
    rows = show_rows(
        session, "list traces", lambda client: [_row(one) for one in client.traces(limit)], _COLUMNS, options
    )
    if not rows:
        session.note("there are no traces")


@session_flags
def search(  # noqa: PLR0913 - flags, each given by name
    *,
    topic: _Topic = None,
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="N", min=0, help="Only traces of this partition.")
    ] = None,
    offset: Annotated[
        int | None, typer.Option("--offset", metavar="N", min=0, help="Only traces of messages at this offset.")
    ] = None,
    group: _Group = None,
    status: _Status = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Something happened from this time on, as in -1h.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Something happened before this time, as in now.")
    ] = None,
    limit: _Limit = TRACES,
    session: Session,
) -> None:
    """Search traces, the newest first.

    \b
      goqueue-cli trace search --status error --from -1h
      goqueue-cli trace search --topic orders --group billing
      goqueue-cli trace search --topic orders --partition 0 --offset 17

    The newest records are searched: name a topic, a group or times to go further back.
    """
    reject_empty_names(*(one for one in (topic, group) if one is not None))
    begins = None if start is None else format_time(parse_time_flag("--from", start))
    ends = None if end is None else format_time(parse_time_flag("--to", end))
    with doing("search traces"), session.client() as client:
        found = client.search_traces(
            topic, partition, offset, group=group, status=status, start=begins, end=ends, limit=limit
        )
    rows = [_row(one) for one in found]
    session.write(rows, _COLUMNS)
    if not rows:
        session.note("there are no such traces")


@stream_flags
def follow(*, topic: _Topic = None, group: _Group = None, status: _Status = None, session: Session) -> None:
    """Print traces as they change, until ^C.

    \b
      goqueue-cli trace follow
      goqueue-cli trace follow --topic orders --status error
      goqueue-cli trace follow -o jsonl

    A trace is printed again when something more has happened to its message.
    """
    reject_empty_names(*(one for one in (topic, group) if one is not None))
    with doing("follow traces"), session.client() as client:
        headers = [_line([column.title for column in _COLUMNS])] if session.for_people and session.headers else []
        for rows in _changes(client, topic, group, status):
            if headers:  # only after the first answer: an error has none
                terminal.write_lines(headers)
            headers = []
            for row in rows:
                if session.for_people:
                    terminal.write_lines([_line([column.show(row[column.field]) for column in _COLUMNS])])
                else:
                    terminal.write(f"{json_text(row)}\n")


_WIDTHS = (32, 9, 24, 6, 6, 8, 6, 0)


def _line(cells: list[str]) -> str:
    return "  ".join(fit(cell, max(width, len(cell)), right=False) for cell, width in zip(cells, _WIDTHS, strict=True))


def _changes(client: "Client", topic: str | None, group: str | None, status: str | None) -> Iterator[list[Row]]:
    """Yield the traces that have changed since the former look, the oldest change first."""
    printed: dict[str, str] = {}
    since_ns = time.time_ns()
    while True:
        start = format_time(since_ns - round(2 * _FOLLOW_SECONDS * NANOSECONDS))
        since_ns = time.time_ns()
        found = client.search_traces(topic, group=group, status=status, start=start, limit=_FOLLOWED_MAX)
        in_order = sorted(found, key=lambda trace: trace.end)
        yield [_row(one) for one in in_order if printed.get(one.trace_id) != one.end]
        printed = {one.trace_id: one.end for one in found}
        time.sleep(_FOLLOW_SECONDS)


@session_flags
def stats(*, session: Session) -> None:
    """Show statistics of traces.

    \b
      goqueue-cli trace stats
      goqueue-cli trace stats -o json

    Statuses are those of the newest traces. RECORDS counts those in memory, since the broker started. SAMPLED-OUT
    counts records that were not kept, DROPPED those that the disk refused or was too slow for.
    """
    with doing("show statistics of traces"), session.client() as client:
        found = dict(client.trace_stats())
    session.write([{"name": "traces", **found}], _STATS)


_STATS = (
    Column("COMPLETED", "statuses", lambda found: format_count(found["completed"])),
    Column("PENDING", "statuses", lambda found: format_count(found["pending"])),
    Column("ERROR", "statuses", lambda found: format_count(found["error"])),
    Column("RECORDS", "records", format_count),
    Column("SAMPLING", "sampling", lambda rate: f"{rate:g}"),
    Column("SAMPLED-OUT", "sampled_out", format_count),
    Column("DROPPED", "dropped", format_count),
    Column("FILES", "file_bytes", format_size),
    Column("OLDEST", "oldest", lambda moment: "-" if moment is None else format_age(moment)),
)
