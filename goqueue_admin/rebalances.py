"""`goqueue-admin rebalance`: assignments of groups, and running rebalances."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.consumer_groups import all_groups
from goqueue.console.failure import doing
from goqueue.console.flags import EveryFlag
from goqueue.console.formatting import format_ago, format_milliseconds, format_partitions
from goqueue.console.names import for_each_name, in_blocks, reject_empty_names
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.console.watch import watch
from goqueue.errors import GroupNotFound
from goqueue.quantities import format_count

if TYPE_CHECKING:
    from goqueue.client import Client

_Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="The names of the groups.")]
_Row = dict[str, Any]


def _reasons(counts: dict[str, int]) -> str:
    return " ".join(f"{reason}={count}" for reason, count in Counter(counts).most_common()) or "-"


_COLUMNS = (
    Column("GROUP", "name"),
    Column("STATE", "state"),
    Column("REBALANCE", "rebalance_state"),
    Column("MEMBERS", "members", format_count),
    Column("GENERATION", "generation", format_count),
    Column("REBALANCES", "total_rebalances", format_count),
    Column("LAST", "last_rebalance_at", format_ago),
    Column("TOOK", "last_rebalance_duration_ms", format_milliseconds),
    Column("AVERAGE", "average_rebalance_duration_ms", format_milliseconds),
    Column("REASONS", "rebalances_by_reason", _reasons),
    Column("LONGEST", "longest_rebalance_duration_ms", format_milliseconds, wide=True),
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
    """List the rebalances of all groups.

    \b
      goqueue-admin rebalance list
      goqueue-admin rebalance list --sort-by total_rebalances:desc
      goqueue-admin rebalance list -o wide

    Counts are since the broker started. REASONS are join, leave, session_expired, topics_changed and
    revocation_timeout (a member did not revoke its partitions in time).
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

    A terminal shows the current table; a pipe gets a line per change. ^C ends it.
    """
    with doing("watch the rebalances"), session.client() as client:
        watch(session, lambda: list(_all(client)), _COLUMNS, every=every)


@session_flags
def describe(names: _Names, *, session: Session) -> None:
    """Show the assignment of a group and pending revocations.

    \b
      goqueue-admin rebalance describe billing
      goqueue-admin rebalance describe billing shipping -o json

    During a rebalance, GIVES-UP lists partitions that a member must revoke.
    """
    reject_empty_names(*names, noun="group")

    def work(client: "Client", name: str) -> _Row:
        try:
            return client.cooperative_group(name)
        except GroupNotFound as error:
            if not (error.hint or "").startswith("did you mean"):
                error.hint = "`goqueue-admin rebalance list` shows the groups"
            raise

    for_each_name(session, names, "describe group", work, in_blocks(_write_description))


def _all(client: "Client") -> Iterator[_Row]:
    for details in all_groups(client):
        with suppress(GroupNotFound):  # it was deleted since they were listed
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
        last = format_ago(numbers["last_rebalance_at"])
        took = format_milliseconds(numbers["last_rebalance_duration_ms"])
        count = format_count(numbers["total_rebalances"], "rebalance")
        yield f"  {count}, the last {last} in {took}: {_reasons(numbers['rebalances_by_reason'])}"


def _member(row: _Row, name: str) -> _Row:
    places = row["member_assignments"].get(name, [])
    asked = row.get("partitions_to_revoke", {}).get(name, [])
    return {
        "member_id": name,
        "partitions": len(places),
        "has": _partition_names(places),
        "gives_up": _partition_names(asked),
    }


def _partition_names(places: list[_Row]) -> str:
    return format_partitions((place["topic"], place["partition"]) for place in places)
