"""`goqueue-cli transaction abort`: end transactions of which their producers do nothing any more."""

from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.console import terminal
from goqueue.console.danger import ConfirmFlag, DryRunFlag, YesFlag, agree
from goqueue.console.each import each
from goqueue.console.failure import doing
from goqueue.console.groups import UsageInvalid
from goqueue.console.names import refuse_empty, short
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.console.transactions import OPERATOR, Row, consequences, ending, is_open
from goqueue.errors import ProducerNotFound, TransactionNotOpen, TransactionPending
from goqueue.limits import REASON_CHARACTERS_MAX
from goqueue.quantities import format_count
from goqueue_cli.nearest import naming_transactions
from goqueue_cli.transactions.listing import Names
from goqueue_cli.transactions.outlook import row_of

if TYPE_CHECKING:
    from goqueue.client import Client

_COLUMNS = (
    Column("ID", "name"),
    Column("TRANSACTION", "transaction_id"),
    Column("MESSAGES", "messages", format_count),
    Column("HELD-BACK", "held_back", format_count),
    Column("GROUPS", "groups", lambda groups: " ".join(groups) or "-"),
    Column("RESULT", "result"),
)


def _reason(text: str) -> str:
    if not text.strip() or len(text) > REASON_CHARACTERS_MAX:
        raise UsageInvalid(
            f"--reason has {len(text)} characters", hint=f"it needs one to {REASON_CHARACTERS_MAX}, in a few words"
        )
    return text


@session_flags
def abort(
    names: Names,
    *,
    transaction: Annotated[
        str | None,
        typer.Option("--transaction", metavar="ID", help="Only if it is this one, as in 7-3; `list -o wide` shows it."),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", parser=_reason, help="Why; its producer is told.")
    ] = OPERATOR,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
    confirm: ConfirmFlag = None,
    session: Session,
) -> None:
    """Abort open transactions: nobody ever sees anything of them.

    \b
      goqueue-cli transaction abort orders-1 --dry-run
      goqueue-cli transaction abort orders-1 --reason 'till 4 hangs'
      goqueue-cli transaction abort orders-1 --transaction 7-3 --yes
      goqueue-cli transaction abort orders-1 orders-2 --yes

    Its messages go, what groups acknowledged in it is handed out again, what waited behind it is seen, and its producer
    is told. It shows that and asks, where somebody can answer; elsewhere it needs --yes, and in a protected context
    --confirm. The transaction that it has looked at is ended, and never the one behind it. Nothing undoes it.
    """
    refuse_empty(*names, noun="transactional id")
    if transaction is not None and len(set(names)) > 1:
        raise UsageInvalid("--transaction is one, and several ids are named", hint="name the id that it belongs to")
    seen = _look(session, names)
    open_ones = [row for row in seen.values() if _is_meant(row, transaction)]
    if session.for_people and open_ones and (dry_run or not yes):
        terminal.say(*(line for row in open_ones for line in consequences(row)))
    if open_ones and not dry_run:
        agree(session, _what(open_ones), name=" ".join(dict.fromkeys(names)), yes=yes, confirm=confirm)

    def work(client: "Client", name: str) -> Row:
        with naming_transactions(client, name):
            row = seen.get(name) or row_of(client.transaction(name))
        _refuse_unless_open(row, transaction)
        if dry_run:
            return {**row, "result": "would be aborted"}
        return {**row, **_aborted(client, row, reason)}

    each(session, names, "abort the transaction of", work, lambda rows, session: session.write(rows, _COLUMNS))


def _look(session: Session, names: list[str]) -> dict[str, Row]:
    """What is open now, by its id; an id that is not there is told later."""
    seen: dict[str, Row] = {}
    with doing(f"abort the transaction of {', '.join(map(short, names))}"), session.client() as client:
        for name in dict.fromkeys(names):
            try:
                seen[name] = row_of(client.transaction(name))
            except ProducerNotFound:
                continue
    return seen


def _what(rows: list[Row]) -> str:
    named = ", ".join(f"{row['transaction_id']} of {row['name']}" for row in rows)
    return f"abort transaction{'s' if len(rows) > 1 else ''} {named} for good"


def _is_meant(row: Row, transaction: str | None) -> bool:
    return row["state"] in {"ongoing", "prepare_abort"} and transaction in {None, row["transaction_id"]}


def _refuse_unless_open(row: Row, transaction: str | None) -> None:
    name, last, current = row["name"], row["last"], row["transaction_id"]
    if transaction is not None and transaction != current:
        raise TransactionNotOpen(
            f"{transaction} is not the transaction of {name}: that is {current} by now",
            hint=f"`goqueue-cli transaction describe {name}` shows it",
        )
    if row["state"] == "prepare_commit":
        raise TransactionNotOpen(f"transaction {current} is being committed", hint="what is decided stays so")
    if not is_open(row):
        ended = "" if last is None else f"; {last['transaction_id']} was {ending(last)}"
        raise TransactionNotOpen(f"nothing is open under {name}{ended}", hint="there is nothing to abort")


def _aborted(client: "Client", row: Row, reason: str) -> Row:
    try:
        ended = client.abort_transaction(row["name"], row["producer_id"], row["epoch"], reason)
    except TransactionPending as error:
        error.hint = f"it will be: `goqueue-cli transaction describe {row['name']}` says what that waits for"
        raise
    return {"state": ended["state"], "result": "aborted"}
