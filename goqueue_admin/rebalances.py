"""`goqueue-admin rebalance`: how groups share their partitions, and what a rebalance waits for."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.each import each, write_blocks
from goqueue.console.failure import doing
from goqueue.console.figures import ago, milliseconds, partitions
from goqueue.console.names import refuse_empty
from goqueue.console.pages import all_groups
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.console.watch import EveryFlag, watch
from goqueue.errors import GroupNotFound
from goqueue.quantities import format_count

if TYPE_CHECKING:
    from goqueue.client import Client

_Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="The names of the groups.")]
_Row = dict[str, Any]


def _reasons(counts: dict[str, int]) -> str:
    """The most frequent first."""
    return " ".join(f"{reason}={count}" for reason, count in Counter(counts).most_common()) or "-"


_COLUMNS = (
    Column("GROUP", "name"),
    Column("STATE", "state"),
    Column("REBALANCE", "rebalance_state"),
    Column("MEMBERS", "members", format_count),
    Column("GENERATION", "generation", format_count),
    Column("REBALANCES", "total_rebalances", format_count),
    Column("LAST", "last_rebalance_at", ago),
    Column("TOOK", "last_rebalance_duration_ms", milliseconds),
    Column("AVERAGE", "average_rebalance_duration_ms", milliseconds),
    Column("REASONS", "rebalances_by_reason", _reasons),
    Column("LONGEST", "longest_rebalance_duration_ms", milliseconds, wide=True),
    Column("FAILED", "failed_rebalances", format_count, wide=True),
    Column("REVOKED", "total_partitions_revoked", format_count, wide=True),
    Column("ASSIGNED", "total_partitions_assigned", format_count, wide=True),
    Column("TIMEOUTS", "total_revocation_timeouts", format_count, wide=True),
)
_MEMBERS = (
    Column("MEMBER", "member_id"),
    Column("PARTITIONS", "partitions", format_count),
    Column("HAS", "has"),
    Column("GIVES-UP", "gives_up"),
)


@session_flags
def list_groups(*, session: Session) -> None:
    """List how the groups were rebalanced.

    \b
      goqueue-admin rebalance list
      goqueue-admin rebalance list --sort-by total_rebalances:desc
      goqueue-admin rebalance list -o wide

    Numbers are those since the broker started. REASONS says what began rebalances: join, leave, session_expired,
    topics_changed, and revocation_timeout where somebody did not give up in time what it was asked for.
    """
    with doing("list the rebalances"), session.client() as client:
        rows = list(_all(client))
    session.write(rows, _COLUMNS)
    if not rows and session.for_people:
        terminal.say("there are no groups")


@session_flags
def watch_groups(every: EveryFlag = 2.0, *, session: Session) -> None:
    """Watch the rebalances of all groups.

    \b
      goqueue-admin rebalance watch
      goqueue-admin rebalance watch --every 500ms
      goqueue-admin rebalance watch -o jsonl >> rebalances.log

    A terminal shows the table as it is now; anything else gets a line for each change. ^C ends it.
    """
    with doing("watch the rebalances"), session.client() as client:
        watch(session, lambda: list(_all(client)), _COLUMNS, every=every)


@session_flags
def describe(names: _Names, *, session: Session) -> None:
    """Show who has what in a group, and what is to be given up.

    \b
      goqueue-admin rebalance describe billing
      goqueue-admin rebalance describe billing shipping -o json

    While a rebalance is under way, GIVES-UP names what a member still has and others wait for.
    """
    refuse_empty(*names, noun="group")

    def work(client: "Client", name: str) -> _Row:
        try:
            return client.cooperative_group(name)
        except GroupNotFound as error:
            if not (error.hint or "").startswith("did you mean"):
                error.hint = "`goqueue-admin rebalance list` shows the groups"
            raise

    each(session, names, "describe group", work, partial(write_blocks, write_one=_write_description))


def _all(client: "Client") -> Iterator[_Row]:
    """One request for the list, and one for each group."""
    for details in all_groups(client):
        with suppress(GroupNotFound):  # it went since they were listed
            yield {
                "name": details.group_id,
                "group_id": details.group_id,
                "state": details.state,
                "rebalance_state": details.rebalance_state,
                "members": details.members,
                "generation": details.generation,
                **client.rebalance_stats(details.group_id),
            }


def _write_description(row: _Row, session: Session) -> None:
    """Facts, and a table of members."""
    terminal.write_lines(_facts(row))
    if row["members"]:
        terminal.write("\n")
        session.write([_member(row, name) for name in row["members"]], _MEMBERS)


def _facts(row: _Row) -> Iterator[str]:
    numbers = row["rebalance_metrics"]
    yield (
        f"{row['name']}: {row['state']}, {format_count(len(row['members']), 'member')}, "
        f"generation {row['generation']}, {row['protocol']}, {row['assignment_strategy']}"
    )
    yield f"  rebalance: {row['rebalance_state']}"
    if row["topics"]:
        yield f"  topics: {' '.join(row['topics'])}"
    if numbers["last_rebalance_at"] is not None:
        yield (
            f"  {format_count(numbers['total_rebalances'], 'rebalance')}, the last "
            f"{ago(numbers['last_rebalance_at'])} in {milliseconds(numbers['last_rebalance_duration_ms'])}: "
            f"{_reasons(numbers['rebalances_by_reason'])}"
        )


def _member(row: _Row, name: str) -> _Row:
    places = row["member_assignments"].get(name, [])
    asked = row.get("partitions_to_revoke", {}).get(name, [])
    return {
        "member_id": name,
        "partitions": len(places),
        "has": _named(places),
        "gives_up": _named(asked),
    }


def _named(places: list[_Row]) -> str:
    return partitions((place["topic"], place["partition"]) for place in places)
