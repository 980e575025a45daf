"""`goqueue-cli transaction list` and `transaction describe`: what is open, and what it holds back."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from goqueue.console import terminal
from goqueue.console import transactions as words
from goqueue.console.each import each, write_blocks
from goqueue.console.failure import doing
from goqueue.console.figures import ago, second
from goqueue.console.groups import UsageInvalid
from goqueue.console.names import refuse_empty
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.console.transactions import Row, duration
from goqueue.console.watch import EveryFlag, WatchFlag, watch
from goqueue.quantities import format_count, format_duration
from goqueue_cli import content
from goqueue_cli.nearest import naming_transactions
from goqueue_cli.transactions import outlook
from goqueue_cli.transactions.outlook import row_of

if TYPE_CHECKING:
    from goqueue.client import Client

_LIMIT = 100
_LIMIT_MAX = 10_000

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="The transactional ids.")]
_Glob = Annotated[str | None, typer.Argument(metavar="GLOB", help="Only ids that fit, such as 'orders-*'.")]

State = Literal["ongoing", "prepare_commit", "prepare_abort", "empty", "complete_commit", "complete_abort"]

_PARTITIONS = (
    Column("PARTITION", "name"),
    Column("FIRST", "first_offset", format_count),
    Column("MESSAGES", "messages", format_count),
    Column("HELD-BACK", "held_back", format_count),
)


@session_flags
def list_transactions(  # noqa: PLR0913 - flags, each given by name
    glob: _Glob = None,
    *,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="TOPIC", help="Only those that have touched this topic.")
    ] = None,
    state: Annotated[
        State | None, typer.Option("--state", metavar="STATE", help="Only those in it; ongoing, for example.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also the ids of which nothing is open, the latest used first.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=_LIMIT_MAX, help="At most so many.")
    ] = _LIMIT,
    watched: WatchFlag = False,
    every: EveryFlag = 2.0,
    session: Session,
) -> None:
    """List the open transactions, the oldest first.

    \b
      goqueue-cli transaction list
      goqueue-cli transaction list --topic orders
      goqueue-cli transaction list 'orders-*' --sort-by held_back:desc
      goqueue-cli transaction list --all -o wide
      goqueue-cli transaction list --watch

    HELD-BACK are messages that no reader sees until it ends: its own, and those of others behind its first one. IDLE is
    since something was heard of it, LEFT until it is aborted if nothing more is. States are ongoing, prepare_commit and
    prepare_abort (decided, and being carried out), and with --all empty, complete_commit and complete_abort.
    """
    if everything and state is not None:
        raise UsageInvalid("--all and --state contradict each other", hint="give one of the two")
    refuse_empty(*([topic] if topic is not None else ()))
    wished = "all" if everything else state
    columns = outlook.columns_for(everything=everything)

    def look(client: "Client") -> list[Row]:
        asked = limit if glob is None and topic is None else _LIMIT_MAX
        found = [row_of(one) for one in client.transactions(wished, limit=asked)]
        return [row for row in found if _fits(row, glob, topic)][:limit]

    with doing("list the transactions"), session.client() as client:
        if watched:
            watch(session, lambda: look(client), columns, every=every, passes=outlook.PASSING)
            return
        rows = look(client)
    session.write(rows, columns)
    if session.for_people:
        terminal.say(*outlook.advice(rows), *_told(len(rows), limit, glob, topic, wished))


def _fits(row: Row, glob: str | None, topic: str | None) -> bool:
    touches = topic is None or any(one["topic"] == topic for one in row["partitions"])
    return touches and (glob is None or fnmatchcase(row["name"], glob))


def _told(count: int, limit: int, glob: str | None, topic: str | None, wished: str | None) -> Iterator[str]:
    """Why there are so few, or that there may be more."""
    if count == limit:
        yield f"the first {format_count(limit)}; `--limit {min(10 * limit, _LIMIT_MAX)}` may show more"
    if not count:
        kind = "transactions" if wished == "all" else f"{wished} transactions" if wished else "open transactions"
        like = "" if glob is None else f" like {glob}"
        yield f"there are no {kind}{like}{'' if topic is None else f' in {topic}'}"


# --- describe ---


@session_flags
def describe(names: Names, *, session: Session) -> None:
    """Show all about transactions, and what happens next.

    \b
      goqueue-cli transaction describe orders-1
      goqueue-cli transaction describe orders-1 orders-2 -o json

    NAME is the transactional id of a producer. It has one transaction at a time: of that it says what it has touched,
    and what readers and groups wait for, and of the one before how it has ended.
    """

    def work(client: "Client", name: str) -> Row:
        with naming_transactions(client, name):
            return row_of(client.transaction(name))

    each(session, names, "describe transactional id", work, partial(write_blocks, write_one=_write_description))


def _write_description(row: Row, session: Session) -> None:
    terminal.write_lines([words.headline(row), *(content.fact(title, text) for title, text in _facts(row))])
    if row["partitions"]:
        terminal.write("\n")
        session.write([_place(one) for one in row["partitions"]], _PARTITIONS)
    if row["state"] == "ongoing":
        terminal.say(f"`goqueue-cli transaction abort {row['name']}` ends it now")


def _facts(row: Row) -> Iterator[tuple[str, str]]:
    yield "next", words.outlook(row)
    yield "producer", f"{row['producer_id']}, epoch {row['epoch']}"
    if words.is_open(row):
        yield "began", f"{ago(row['started_at'])}, at {second(row['started_at'])}"
        yield "heard of", f"{duration(row['idle_seconds'])} ago; timeout {format_duration(row['timeout_seconds'])}"
        yield "state", row["state"]
        others = max(0, row["held_back"] - row["messages"])
        behind = f", and {format_count(others)} of others behind them" if others else ""
        yield "messages", f"{format_count(row['messages'])} of its own{behind}, which no reader sees"
        for group, count in (row["pledged"] or {}).items():
            yield "group", f"{group}: {format_count(count, 'message')} acknowledged in it, and nobody's until it ends"
        if row["members"]:
            yield "members", f"{format_count(len(row['members']), 'producer')} beside it"
    if row["last"] is not None:
        yield from _last(row["last"])


def _last(last: dict[str, Any]) -> Iterator[tuple[str, str]]:
    because = f": {last['reason']}" if last["reason"] else ""
    yield (
        "last",
        f"{last['transaction_id']} was {words.ending(last)}, after {words.lasted(last)}{because}",
    )
    if last["note"]:
        yield "note", last["note"]


def _place(one: Row) -> Row:
    late = " (delayed)" if one["delayed"] else ""
    return {"name": f"{one['topic']}/{one['partition']}{late}", **one}
