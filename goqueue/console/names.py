"""Commands that take several names: a result for each, and one failure does not stop the others."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from goqueue.console import exit_codes, failure, terminal
from goqueue.console.failure import ActionFailed, UsageInvalid, doing, suggesting
from goqueue.console.rows import Column
from goqueue.console.session import Session
from goqueue.errors import BrokerUnreachable

if TYPE_CHECKING:
    from goqueue.client import Client

_SHOWN = 80
_LISTS = {
    "backup": "goqueue-admin backup list",
    "code": "goqueue-admin alert list",
    "key": "goqueue-admin key list",
    "role": "goqueue-admin role list",
    "silence": "goqueue-admin alert list --silences",
    "tenant": "goqueue-admin tenant list",
    "transactional id": "goqueue-cli transaction list",
}
"""The commands that list what is not listed by a command of its own name in `goqueue-cli`."""

Results = list[dict[str, Any]]

Work = Callable[["Client", str], dict[str, Any]]
"""Does the work for one name, and returns the fields of its result."""

Write = Callable[[Results, Session], None]
"""Writes the results of all names."""


def reject_empty_names(*names: str, noun: str = "topic", is_new: bool = False) -> None:
    """Refuse an empty name before any request: most likely a shell variable is not set."""
    if "" in names and is_new:
        raise UsageInvalid(f"'' cannot be the name of a {noun}", hint="choose a name; if it is a variable, set it")
    if "" in names:
        lists = _LISTS.get(noun, f"goqueue-cli {noun} list")
        raise UsageInvalid(f"'' is not the name of a {noun}", hint=f"name one, as `{lists}` shows them")


def shorten_name(name: str) -> str:
    """Cut a name to what fits into a sentence."""
    return name if len(name) <= _SHOWN else f"{name[: _SHOWN - 3]}..."


def for_each_name(session: Session, names: Sequence[str], verb: str, work: Work, write: Write) -> None:
    """Do `work` for each name and write the results; failures are reported on stderr at the end.

    `verb` ends with the noun, as in "delete topic". Once the broker is unreachable, no further name is tried.
    """
    results: Results = []
    failed: list[ActionFailed] = []
    unique = list(dict.fromkeys(names))
    reject_empty_names(*unique, noun=verb.rpartition(" ")[2], is_new=verb.startswith("create "))
    with doing(f"{verb} {', '.join(map(shorten_name, unique))}"), session.client() as client:
        for name in unique:
            try:
                with doing(f"{verb} {shorten_name(name)}"), suggesting(client, name):
                    results.append({"name": name, **work(client, name)})
            except ActionFailed as error:
                failed.append(error)
                results.append({"name": name, "result": "failed", "error": error.as_json()})
                if isinstance(error.error, BrokerUnreachable):
                    break
    if len(unique) > 1 or not failed:
        write(results, session)
    for one in failed:
        failure.report_failed_action(one)
    if failed:
        alone = len(unique) == 1 or isinstance(failed[-1].error, BrokerUnreachable)
        raise typer.Exit(failed[-1].exit_code if alone else exit_codes.FAILED)


def in_table(columns: Sequence[Column]) -> Write:
    return lambda results, session: session.write(results, columns)


def in_blocks(write_one: Callable[[dict[str, Any], Session], None]) -> Write:
    """Write a block for each name that did not fail, with an empty line between two; other formats get one document."""

    def write(results: Results, session: Session) -> None:
        if not session.for_people:
            session.write(results, ())
            return
        for number, row in enumerate(row for row in results if row.get("result") != "failed"):
            if number:
                terminal.write("\n")
            write_one(row, session)

    return write
