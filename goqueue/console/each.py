"""One command for several names: a row for each, and no failure keeps the others from being done."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from goqueue.console import exits, failure, terminal
from goqueue.console.failure import Refusal, doing
from goqueue.console.names import refuse_empty, short
from goqueue.console.session import Session, suggesting
from goqueue.errors import BrokerUnreachable

if TYPE_CHECKING:
    from goqueue.client import Client

Work = Callable[["Client", str], dict[str, Any]]
"""What is done for one name, and what there is to say of it."""

Write = Callable[[list[dict[str, Any]], Session], None]


WriteOne = Callable[[dict[str, Any], Session], None]


def each(session: Session, names: Sequence[str], verb: str, work: Work, write: Write) -> None:
    """A row for each name. What fails is told on stderr and does not keep the others from being done.

    `verb` ends with the noun, as in "delete topic". A broker that has gone away is asked for no further name.
    """
    rows: list[dict[str, Any]] = []
    refusals: list[Refusal] = []
    unique = list(dict.fromkeys(names))
    refuse_empty(*unique, noun=verb.rpartition(" ")[2])
    with doing(f"{verb} {', '.join(map(short, unique))}"), session.client() as client:
        for name in unique:
            try:
                with doing(f"{verb} {short(name)}"), suggesting(client):
                    rows.append({"name": name, **work(client, name)})
            except Refusal as refusal:
                refusals.append(refusal)
                rows.append({"name": name, "result": "failed", "error": refusal.as_json()})
                if isinstance(refusal.error, BrokerUnreachable):
                    break
    if len(unique) > 1 or not refusals:
        write(rows, session)
    for told in refusals:
        failure.explain_refusal(told)
    if refusals:
        alone = len(unique) == 1 or isinstance(refusals[-1].error, BrokerUnreachable)
        raise typer.Exit(refusals[-1].exit_code if alone else exits.FAILED)


def write_blocks(rows: list[dict[str, Any]], session: Session, write_one: WriteOne) -> None:
    """For people a block for each name that did not fail, with an empty line between two; else all as one document."""
    if not session.for_people:
        session.write(rows, ())
        return
    for number, row in enumerate(row for row in rows if "error" not in row):
        if number:
            terminal.write("\n")
        write_one(row, session)
