"""`goqueue-cli trace get`: what happened to messages."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.formatting import format_milliseconds, format_to_second
from goqueue.console.names import for_each_name, in_blocks
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.quantities import format_count, quoted

if TYPE_CHECKING:
    from goqueue.client import Client

Row = dict[str, Any]

_BAR_CELLS = 24
_POSITION = re.compile(r"([A-Za-z0-9._-]+)/(\d{1,9})@(\d{1,19})", re.ASCII)
_TRACE_ID = re.compile(r"[0-9a-f]{32}", re.ASCII | re.IGNORECASE)

COLUMNS = (
    Column("AFTER", "after_ms", format_milliseconds),
    Column("WATERFALL", "bar"),
    Column("EVENT", "event"),
    Column("MESSAGE", "message"),
    Column("DETAILS", "details"),
)


@session_flags
def get(
    names: Annotated[
        list[str],
        typer.Argument(metavar="TRACE...", help="Trace ids, or positions of messages as TOPIC/PARTITION@OFFSET."),
    ],
    *,
    delayed: Annotated[
        bool, typer.Option("--delayed", help="Positions are those of delayed messages, as their publish answered.")
    ] = False,
    session: Session,
) -> None:
    """Show what happened to messages, as a waterfall.

    \b
      goqueue-cli trace get orders/0@17
      goqueue-cli trace get orders/0@3 --delayed
      goqueue-cli trace get 0af7651916cd43dd8448eb211c80319c -o json

    A trace has the message and what became of it: its delivery when it was delayed, its dead letters, and the messages
    that were redriven from there or have the same trace id. Bars end where an event happened; a long bar began with the
    delivery that it settles. Times count from the first event.
    """
    for name in names:
        if not _TRACE_ID.fullmatch(name) and not _POSITION.fullmatch(name):
            raise UsageInvalid(
                f"{quoted(name)} is neither a trace id nor the position of a message",
                hint="a trace id has 32 hexadecimal digits; a position is written as in orders/0@17",
            )

    def fetch(client: "Client", name: str) -> Row:
        found = _POSITION.fullmatch(name)
        if found is None:
            return dict(client.trace(name.lower()))
        topic, partition, offset = found.groups()
        return dict(client.message_trace(topic, int(partition), int(offset), delayed=delayed))

    for_each_name(session, names, "show the trace of", fetch, in_blocks(write_waterfall))


def write_waterfall(row: Row, session: Session) -> None:
    from goqueue.console.waterfall import position_text, waterfall_rows  # noqa: PLC0415 - draws, which programs do not need

    terminal.write_lines([f"trace {row['trace_id']}: {row['status']}", *_facts(row)])
    for number, one in enumerate(row["messages"]):
        source = one["source"]
        origin = "" if source is None else f" of {position_text(row['messages'][source])}"
        groups = "".join(f", {group}: {phase}" for group, phase in one["groups"].items())
        relation = one["relation"].replace("_", " ")
        terminal.write_lines([f"  {number}  {position_text(one)}  {relation}{origin}; {one['state']}{groups}"])
    terminal.write("\n")
    session.write(waterfall_rows(row, _BAR_CELLS), COLUMNS)
    if row["truncated"]:
        messages, events = format_count(len(row["messages"]), "message"), format_count(len(row["events"]), "event")
        session.note(f"{messages} and {events}: there are more")
    if not row["sampled"]:
        session.note("the message is not sampled: some of its events may be missing")


def _facts(row: Row) -> list[str]:
    facts = [f"  began {format_to_second(row['start'])}, took {format_milliseconds(1000 * row['duration'])}"]
    if row["parent_span_id"] is not None:
        facts.append(f"  sent by span {row['parent_span_id']}")
    if row["tracestate"]:
        facts.append(f"  tracestate {row['tracestate']}")
    return facts
