"""`goqueue-cli transaction`: list, describe and abort transactions."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid, doing
from goqueue.console.flags import Consent, WatchOptions
from goqueue.console.formatting import format_ago, format_to_second
from goqueue.console.names import for_each_name, in_blocks, in_table, reject_empty_names, shorten_name
from goqueue.console.rows import Column
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue.console.transactions import (
    DEFAULT_ABORT_REASON,
    Row,
    abort_consequences,
    describe_next_step,
    format_ending,
    format_lifetime,
    format_rounded_duration,
    format_touched_partitions,
    headline,
    is_open,
)
from goqueue.console.watch import show_rows
from goqueue.errors import ProducerNotFound, TransactionNotOpen, TransactionPending
from goqueue.limits import REASON_CHARACTERS_MAX, TRANSACTION_HUNG_SECONDS
from goqueue.quantities import format_count, format_duration
from goqueue_cli import message_details

if TYPE_CHECKING:
    from goqueue.client import Client

_LIMIT = 100
_LIMIT_MAX = 10_000
_ADVISED = 3  # transactions that the notes below a list mention

State = Literal["ongoing", "prepare_commit", "prepare_abort", "empty", "complete_commit", "complete_abort"]

_Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Transactional ids.")]
_VOLATILE = ("age_seconds", "idle_seconds", "expires_in_seconds")

_GROUPS = Column("GROUPS", "groups", lambda groups: " ".join(groups) or "-")
_COLUMNS = (
    Column("ID", "name"),
    Column("STATE", "state"),
    Column("AGE", "age_seconds", format_rounded_duration),
    Column("IDLE", "idle_seconds", format_rounded_duration),
    Column("LEFT", "expires_in_seconds", format_rounded_duration),
    Column("HELD-BACK", "held_back", format_count),
    Column("PARTITIONS", "partitions", format_touched_partitions),
    _GROUPS,
    Column("MESSAGES", "messages", format_count, wide=True),
    Column("TRANSACTION", "transaction_id", wide=True),
    Column("MEMBERS", "members", lambda members: format_count(len(members)), wide=True),
    Column("TIMEOUT", "timeout_seconds", format_duration, wide=True),
    Column("LAST", "last", format_ending, wide=True),
)
_WIDE_WITH_ALL = {"partitions": True, "groups": True, "last": False}
"""With --all, the last end of each transactional id takes the room of these columns."""

_PARTITIONS = (
    Column("PARTITION", "name"),
    Column("FIRST", "first_offset", format_count),
    Column("MESSAGES", "messages", format_count),
    Column("HELD-BACK", "held_back", format_count),
)
_ABORTED = (
    Column("ID", "name"),
    Column("TRANSACTION", "transaction_id"),
    Column("MESSAGES", "messages", format_count),
    Column("HELD-BACK", "held_back", format_count),
    _GROUPS,
    Column("RESULT", "result"),
)


def _row(found: Row) -> Row:
    row = {"name": found["transactional_id"], **found}
    return row if row["started_at"] is not None else {**row, "age_seconds": None}


# --- list ---


@session_flags
def list_transactions(
    glob: Annotated[str | None, typer.Argument(metavar="GLOB", help="Only ids that match, such as 'orders-*'.")] = None,
    *,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="TOPIC", help="Only transactions that touch this topic.")
    ] = None,
    state: Annotated[
        State | None, typer.Option("--state", metavar="STATE", help="Only transactions in this state, as in ongoing.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Include ids without an open transaction, the latest used first.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=_LIMIT_MAX, help="Maximum number of rows.")
    ] = _LIMIT,
    options: WatchOptions,
    session: Session,
) -> None:
    """List the open transactions, the oldest first.

    \b
      goqueue-cli transaction list
      goqueue-cli transaction list --topic orders
      goqueue-cli transaction list 'orders-*' --sort-by held_back:desc
      goqueue-cli transaction list --all -o wide
      goqueue-cli transaction list --watch

    HELD-BACK counts messages that readers cannot see until the transaction ends: its own, and those of others behind
    its first one. IDLE is the time since the last request of its producer, LEFT the time until it is aborted without
    another one. States are ongoing, prepare_commit and prepare_abort (decided, in progress), and with --all empty,
    complete_commit and complete_abort.
    """
    if everything and state is not None:
        raise UsageInvalid("--all and --state exclude each other", hint="leave out one of them")
    reject_empty_names(*([topic] if topic is not None else ()))
    chosen_state = "all" if everything else state
    columns = [one._replace(wide=_WIDE_WITH_ALL.get(one.field, one.wide)) if everything else one for one in _COLUMNS]

    silent: tuple[str, ...] = ()

    def fetch(client: "Client") -> list[Row]:
        nonlocal silent
        most = limit if glob is None and topic is None else _LIMIT_MAX
        listed = client.transactions(chosen_state, limit=most)
        silent = listed.missing
        return [row for row in map(_row, listed) if _matches(row, glob, topic)][:limit]

    rows = show_rows(session, "list the transactions", fetch, columns, options, volatile=_VOLATILE)
    session.note(*_advice(rows), *_list_notes(len(rows), limit, glob, topic, chosen_state))
    if silent:
        session.note(f"without those that {' and '.join(silent)} may coordinate: no answer in time")


def _matches(row: Row, glob: str | None, topic: str | None) -> bool:
    touches = topic is None or any(one["topic"] == topic for one in row["partitions"])
    return touches and (glob is None or fnmatchcase(row["name"], glob))


def _advice(rows: "list[Row] | Any") -> Iterator[str]:
    for row in [row for row in rows if row["obstacle"]][:_ADVISED]:
        yield f"{row['name']}: its end is decided and blocked: {row['obstacle']}"
    hung = [row for row in rows if row["state"] == "ongoing" and row["age_seconds"] >= TRANSACTION_HUNG_SECONDS]
    for row in [row for row in hung if row["held_back"]][:_ADVISED]:
        yield (
            f"{row['name']}: {format_count(row['held_back'], 'message')} held back until it ends; "
            f"`goqueue-cli transaction describe {row['name']}` shows more"
        )


def _list_notes(count: int, limit: int, glob: str | None, topic: str | None, state: str | None) -> Iterator[str]:
    if count == limit:
        yield f"the first {format_count(limit)}; `--limit {min(10 * limit, _LIMIT_MAX)}` may show more"
    if not count:
        kind = "transactions" if state == "all" else f"{state or 'open'} transactions"
        like = "" if glob is None else f" like {glob}"
        yield f"there are no {kind}{like}{'' if topic is None else f' in {topic}'}"


# --- describe ---


@session_flags
def describe(names: _Names, *, session: Session) -> None:
    """Show all details of transactions, and what happens next.

    \b
      goqueue-cli transaction describe orders-1
      goqueue-cli transaction describe orders-1 orders-2 -o json

    NAME is the transactional id of a producer, which has one transaction at a time. The output has its partitions, what
    it holds back, and the end of the transaction before.
    """
    for_each_name(
        session,
        names,
        "describe transactional id",
        lambda client, name: _row(client.transaction(name)),
        in_blocks(_write_description),
    )


def _write_description(row: Row, session: Session) -> None:
    terminal.write_lines([headline(row), *(message_details.fact(title, text) for title, text in _facts(row))])
    if row["partitions"]:
        terminal.write("\n")
        session.write([_partition_row(one) for one in row["partitions"]], _PARTITIONS)
    if row["state"] == "ongoing":
        terminal.say(f"`goqueue-cli transaction abort {row['name']}` ends it now")


def _partition_row(one: Row) -> Row:
    return {"name": f"{one['topic']}/{one['partition']}{' (delayed)' if one['delayed'] else ''}", **one}


def _facts(row: Row) -> Iterator[tuple[str, str]]:
    yield "next", describe_next_step(row)
    yield "producer", f"{row['producer_id']}, epoch {row['epoch']}"
    if is_open(row):
        yield "began", f"{format_ago(row['started_at'])}, at {format_to_second(row['started_at'])}"
        idle, timeout = format_rounded_duration(row["idle_seconds"]), format_duration(row["timeout_seconds"])
        yield "idle", f"for {idle}; timeout {timeout}"
        yield "state", row["state"]
        others = max(0, row["held_back"] - row["messages"])
        behind = f", and {format_count(others)} of others behind them" if others else ""
        yield "messages", f"{format_count(row['messages'])} of its own{behind}, not visible to readers"
        for group, count in (row["pledged"] or {}).items():
            yield "group", f"{group}: {format_count(count, 'message')} acked in it, and not delivered until it ends"
        if row["members"]:
            yield "members", f"{format_count(len(row['members']), 'producer')} besides it"
    if (last := row["last"]) is not None:
        because = f": {last['reason']}" if last["reason"] else ""
        yield "last", f"{last['transaction_id']} was {format_ending(last)}, after {format_lifetime(last)}{because}"
        if last["note"]:
            yield "note", last["note"]


# --- abort ---


def _reason(text: str) -> str:
    if not text.strip() or len(text) > REASON_CHARACTERS_MAX:
        raise UsageInvalid(
            f"--reason has {len(text)} characters", hint=f"a reason has 1 to {REASON_CHARACTERS_MAX} characters"
        )
    return text


@session_flags
def abort(
    names: _Names,
    *,
    transaction: Annotated[
        str | None,
        typer.Option("--transaction", metavar="ID", help="Only this transaction, as in 7-3; `list -o wide` shows it."),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", parser=_reason, help="Reason, which its producer gets.")
    ] = DEFAULT_ABORT_REASON,
    consent: Consent,
    session: Session,
) -> None:
    """Abort open transactions and discard their messages.

    \b
      goqueue-cli transaction abort orders-1 --dry-run
      goqueue-cli transaction abort orders-1 --reason 'till 4 hangs'
      goqueue-cli transaction abort orders-1 --transaction 7-3 --yes
      goqueue-cli transaction abort orders-1 orders-2 --yes

    Messages that groups acked in it are delivered again, messages behind it become visible, and its producer gets an
    error. The command shows this and asks for confirmation; without a terminal it needs --yes, and in a protected
    context --confirm. Only the transaction that was shown is aborted, not a later one. This cannot be undone.
    """
    reject_empty_names(*names, noun="transactional id")
    if transaction is not None and len(set(names)) > 1:
        raise UsageInvalid("--transaction is for one id, and several are named", hint="name the id that it belongs to")
    seen = _fetch(session, names)
    open_rows = [row for row in seen.values() if _can_abort(row, transaction)]
    if open_rows and (consent.dry_run or not consent.yes):
        session.note(*(line for row in open_rows for line in abort_consequences(row)))
    if open_rows and not consent.dry_run:
        what = ", ".join(f"{row['transaction_id']} of {row['name']}" for row in open_rows)
        what = f"abort transaction{'s' if len(open_rows) > 1 else ''} {what} for good"
        require_confirmation(session, what, name=" ".join(dict.fromkeys(names)), consent=consent)

    def work(client: "Client", name: str) -> Row:
        row = seen.get(name) or _row(client.transaction(name))
        _refuse_unless_open(row, transaction)
        result = {"result": "would be aborted"} if consent.dry_run else _abort(client, row, reason)
        return {**row, **result}

    for_each_name(session, names, "abort the transaction of", work, in_table(_ABORTED))


def _fetch(session: Session, names: list[str]) -> dict[str, Row]:
    """Fetch each transactional id; one that does not exist is reported later."""
    seen: dict[str, Row] = {}
    with doing(f"abort the transaction of {', '.join(map(shorten_name, names))}"), session.client() as client:
        for name in dict.fromkeys(names):
            try:
                seen[name] = _row(client.transaction(name))
            except ProducerNotFound:
                continue
    return seen


def _can_abort(row: Row, transaction: str | None) -> bool:
    return row["state"] in {"ongoing", "prepare_abort"} and transaction in {None, row["transaction_id"]}


def _refuse_unless_open(row: Row, transaction: str | None) -> None:
    name, last, current = row["name"], row["last"], row["transaction_id"]
    if transaction is not None and transaction != current:
        raise TransactionNotOpen(
            f"{transaction} is not the transaction of {name}: that is {current} now",
            hint=f"`goqueue-cli transaction describe {name}` shows it",
        )
    if row["state"] == "prepare_commit":
        raise TransactionNotOpen(f"transaction {current} is being committed", hint="a decided commit is final")
    if not is_open(row):
        ended = "" if last is None else f"; {last['transaction_id']} was {format_ending(last)}"
        raise TransactionNotOpen(f"no transaction of {name} is open{ended}", hint="there is nothing to abort")


def _abort(client: "Client", row: Row, reason: str) -> Row:
    try:
        ended = client.abort_transaction(row["name"], row["producer_id"], row["epoch"], reason)
    except TransactionPending as error:
        error.hint = f"the abort is decided: `goqueue-cli transaction describe {row['name']}` shows what it waits for"
        raise
    return {"state": ended["state"], "result": "aborted"}
