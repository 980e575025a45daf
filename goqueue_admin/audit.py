"""`goqueue-admin audit`: list, verify and export the audit trail."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.failure import doing
from goqueue.console.formatting import format_ago
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.errors import PathInvalid
from goqueue.quantities import format_count

if TYPE_CHECKING:
    from goqueue.client import Client

_COLUMNS = (
    Column("NUMBER", "number"),
    Column("AGE", "time", format_ago),
    Column("PRINCIPAL", "principal"),
    Column("ACTION", "action"),
    Column("SUBJECT", "subject"),
    Column("OUTCOME", "outcome"),
    Column("CODE", "code"),
    Column("COUNT", "count"),
    Column("ADDRESS", "address"),
    Column("CLIENT", "client", wide=True),
    Column("REQUEST", "request_id", wide=True),
)


@session_flags
def list_records(
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The newest so many records.")] = 50,
    principal: Annotated[
        str | None, typer.Option("--principal", "-p", metavar="PRINCIPAL", help="Only of this principal.")
    ] = None,
    outcome: Annotated[
        Literal["done", "failed", "refused"] | None,
        typer.Option("--outcome", metavar="OUTCOME", help="Only done, failed or refused."),
    ] = None,
    *,
    session: Session,
) -> None:
    """List administrative changes and refused requests, the newest last.

    \b
      goqueue-admin audit list
      goqueue-admin audit list --outcome refused --limit 20
      goqueue-admin audit list --principal key:billing -o json

    COUNT is the number of refused requests that a record stands for.
    """
    rows: list[dict[str, Any]] = []
    with doing("list the audit trail"), session.client() as client:
        node = client.audit(limit=0).node
        for text in _texts(client):
            row = _row(text)
            if principal in (None, row["principal"]) and outcome in (None, row["outcome"]):
                rows.append(row)
                del rows[:-limit]
    session.write(rows, _COLUMNS)
    if node is not None:
        session.note(f"this is the audit trail of node {node}: each node of a cluster has its own")
    if not rows:
        session.note("the audit trail has no such records")


@session_flags
def verify(
    file: Annotated[str | None, typer.Argument(metavar="FILE", help="An exported file. Default: the broker.")] = None,
    *,
    session: Session,
) -> None:
    """Verify that no record of the audit trail was changed, removed or inserted.

    \b
      goqueue-admin audit verify
      goqueue-admin audit verify audit.jsonl

    Each record has the hash of the one before it. Records that are missing at the end do not show: compare the last
    number with an export. The exit code is 1 if the chain is broken.
    """
    from goqueue.wire.audit import broken_links  # noqa: PLC0415 - not for help and completion

    count = 0

    def counted(texts: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal count
        for text in texts:
            count += 1
            yield text

    node: str | None = None
    with doing("verify the audit trail"):
        if file is not None:
            broken = list(broken_links(counted(_lines(file))))
        else:
            with session.client() as client:
                node = client.audit(limit=0).node
                broken = list(broken_links(counted(_texts(client))))
    rows = [{"name": str(one.number), "number": one.number, "problem": one.problem} for one in broken]
    session.write(rows, (Column("NUMBER", "number"), Column("PROBLEM", "problem")))
    if broken:
        terminal.say(f"the chain of {format_count(count, 'record')} is broken in {format_count(len(broken), 'place')}")
        raise typer.Exit(exit_codes.FAILED)
    where = "" if node is None else f" at node {node}; each node of a cluster has its own trail"
    session.note(f"the chain of {format_count(count, 'record')} is complete{where}")


@session_flags
def export(*, session: Session) -> None:
    """Write the audit trail to stdout, one JSON object per line.

    \b
      goqueue-admin audit export > audit.jsonl
      goqueue-admin audit verify audit.jsonl
    """
    with doing("export the audit trail"), session.client() as client:
        for text in _texts(client):
            terminal.write_bytes(text + b"\n")


def _texts(client: "Client") -> Iterator[bytes]:
    """Yield all records that were there at the start, the oldest first."""
    page = client.audit()
    end = page.latest
    while True:
        yield from map(bytes, page.records)
        if page.next_offset >= end:
            return
        page = client.audit(page.next_offset)


def _lines(name: str) -> Iterator[bytes]:
    try:
        with open(name, "rb") as file:
            yield from (line.rstrip(b"\r\n") for line in file)
    except OSError as error:
        raise PathInvalid(f"{name} cannot be read: {error.strerror}", hint="name a file of `audit export`") from None


def _row(text: bytes) -> dict[str, Any]:
    from goqueue.console.rows import struct_to_row  # noqa: PLC0415
    from goqueue.wire.audit import decode_record  # noqa: PLC0415

    row = struct_to_row(decode_record(text))
    return {"name": str(row["number"]), **row}
