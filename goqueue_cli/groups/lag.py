"""How far behind groups are, partition by partition: `goqueue-cli group lag`, and what `group describe` shows of it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console.each import each
from goqueue.console.figures import rate
from goqueue.console.names import refuse_empty
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.console.watch import EveryFlag, WatchFlag, watch
from goqueue.quantities import format_count, format_duration
from goqueue_cli.nearest import naming

if TYPE_CHECKING:
    from goqueue.client import Client

_Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="The names of the groups.")]
_Row = dict[str, Any]


_SUMS = ("in_flight", "waiting", "rate", "incoming", "pledged", "lost")
_GROUP = Column("GROUP", "group_id")
COLUMNS = (
    Column("PARTITION", "name", lambda name: name.partition("/")[2]),
    Column("COMMITTED", "committed", format_count),
    Column("END", "end", format_count),
    Column("LAG", "messages", format_count),
    Column("BEHIND", "seconds", format_duration),
    Column("IN-FLIGHT", "in_flight", format_count),
    Column("WAITING", "waiting", format_count),
    Column("RATE", "rate", rate),
    Column("DRAINS-IN", "drain_seconds", format_duration),
    Column("INCOMING", "incoming", rate, wide=True),
    Column("PLEDGED", "pledged", format_count, wide=True),
    Column("LOST", "lost", format_count, wide=True),
    Column("MEMBER", "member_id", wide=True),
)


@session_flags
def lag(names: _Names, watched: WatchFlag = False, every: EveryFlag = 2.0, *, session: Session) -> None:
    """Show how far behind groups are.

    \b
      goqueue-cli group lag billing
      goqueue-cli group lag billing --watch
      goqueue-cli group lag billing shipping -o jsonl

    Everything below COMMITTED is done, LAG messages are not, BEHIND is the age of the oldest of them. IN-FLIGHT are
    with members at this moment, WAITING are to be tried again. DRAINS-IN is when nothing is left if all goes on as in
    the last minute, and - where it does not get less. -o wide has what comes in, too, and as PLEDGED what is
    acknowledged in transactions that have not ended.
    """
    refuse_empty(*names, noun="group")
    if watched:
        follow(session, names, every)
        return

    def work(client: "Client", name: str) -> _Row:
        with naming(client):
            return client.group(name)

    def write(found: list[_Row], session: Session) -> None:
        known = [one for one in found if "error" not in one]
        rows = list(_rows(known, totals=session.for_people))
        session.write(rows, columns_for(len(known)))

    each(session, names, "describe group", work, write)


def follow(session: Session, names: Sequence[str], every: float) -> None:
    """The same again and again."""
    with session.client() as client:

        def look() -> list[_Row]:
            with naming(client):
                return list(_rows([client.group(name) for name in names], totals=session.for_people))

        watch(session, look, columns_for(len(names)), every=every)


def columns_for(groups: int) -> tuple[Column, ...]:
    return COLUMNS if groups == 1 else (_GROUP, *COLUMNS)


def _rows(groups: Sequence[_Row], *, totals: bool) -> Iterator[_Row]:
    for group in groups:
        rows = lag_rows(group)
        yield from rows
        if totals and len(rows) > 1:
            yield _total(group, rows)


def lag_rows(group: _Row) -> list[_Row]:
    """A row for each partition, with the numbers of the broker."""
    return [
        {
            "name": f"{group['group_id']}/{topic}/{partition}",
            "group_id": group["group_id"],
            "topic": topic,
            "partition": int(partition),
            **numbers,
        }
        for topic, partitions in group["lag"].items()
        for partition, numbers in partitions.items()
    ]


def _total(group: _Row, rows: Sequence[_Row]) -> _Row:
    """What the broker says of the whole group, and sums of what it says of no more than partitions."""
    sums = {field: sum(row[field] for row in rows) for field in _SUMS}
    return {
        "name": f"{group['group_id']}/total",
        "group_id": group["group_id"],
        "messages": group["total_lag"],
        "seconds": group["lag_seconds"],
        "drain_seconds": group["drain_seconds"],
        **sums,
    }
