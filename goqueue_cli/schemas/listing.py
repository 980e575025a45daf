"""`goqueue-cli schema list`, `describe` and `diff`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.failure import UsageInvalid, doing, suggesting
from goqueue.console.names import reject_empty_names
from goqueue.console.rows import Column, struct_to_row
from goqueue.console.schemas import schema_differences, schema_lines
from goqueue.console.session import Session, session_flags
from goqueue_cli.schemas.files import SubjectArgument, parse_version, read_schema

if TYPE_CHECKING:
    from goqueue.client import SchemaInfo

_LIST = (
    Column("SUBJECT", "subject"),
    Column("LATEST", "version"),
    Column("ID", "id"),
    Column("TYPE", "schema_type"),
    Column("DELETED", "deleted", lambda deleted: "yes" if deleted else "-", wide=True),
)
_VERSION = (*_LIST[:1], Column("VERSION", "version"), *_LIST[2:])


def _row(schema: "SchemaInfo") -> dict[str, Any]:
    row = struct_to_row(schema)
    return {
        "name": schema.subject or str(schema.id), "subject": schema.subject, "version": schema.version,
        "id": schema.id, "schema_type": schema.schema_type, "references": row.get("references", []),
        "metadata": schema.metadata, "rule_set": schema.rule_set, "deleted": schema.deleted, "schema": schema.schema,
    }  # fmt: skip


@session_flags
def list_schemas(
    prefix: Annotated[
        str, typer.Argument(metavar="PREFIX", help="Only subjects whose names begin so. Default: all.")
    ] = "",
    *,
    deleted: Annotated[bool, typer.Option("--deleted", help="List soft-deleted subjects as well.")] = False,
    every: Annotated[bool, typer.Option("--all-versions", help="List all versions, not only the latest.")] = False,
    session: Session,
) -> None:
    """List subjects with their latest schemas.

    \b
      goqueue-cli schema list
      goqueue-cli schema list orders --all-versions
      goqueue-cli schema list --deleted -o wide
      goqueue-cli schema list -o json
    """
    with doing("list schemas"), session.client() as client:
        rows: list[dict[str, Any]] = []
        while page := client.schemas(prefix, latest_only=not every, deleted=deleted, offset=len(rows)):
            rows += map(_row, page)
    session.write(rows, _VERSION if every else _LIST)
    if not rows:
        session.note("there are no schemas")


@session_flags
def describe(
    subject: Annotated[str | None, typer.Argument(metavar="SUBJECT", help="A subject; not with --id.")] = None,
    *,
    version: Annotated[
        str, typer.Option("--version", metavar="N", help="A version. Default: the latest.", show_default=False)
    ] = "latest",
    number: Annotated[
        int | None, typer.Option("--id", metavar="ID", min=1, help="A schema by the id that messages have.")
    ] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Show soft-deleted versions as well.")] = False,
    session: Session,
) -> None:
    """Show a schema with its text.

    \b
      goqueue-cli schema describe orders-value
      goqueue-cli schema describe orders-value --version 2
      goqueue-cli schema describe --id 17

    The text goes to stdout behind a table with version, id and type; `-o json` has everything in one document.
    """
    if (subject is None) == (number is None):
        raise UsageInvalid("name a subject or an id", hint="`goqueue-cli schema list` shows the subjects")
    wanted = parse_version(version)
    with doing(f"describe schema {subject or number}"), session.client() as client, suggesting(client, subject or ""):
        if number is not None:
            row = _row(client.schema_by_id(number)) | {"id": number, "name": str(number)}
            uses = client.schema_uses(number, deleted=True)
            row["versions"] = [struct_to_row(one) for one in uses]
            if uses:
                row |= {"subject": uses[0].subject, "version": uses[0].version}
        else:
            row = _row(client.schema(subject or "", wanted, deleted=deleted))
    session.write([row], _VERSION)
    if session.for_people:
        terminal.write("\n")
        terminal.write_lines(schema_lines(row["schema"]))
        for one in row.get("versions", [])[1:]:
            terminal.say(f"version {one['version']} of {one['subject']} has this schema as well")
        for one in row["references"]:
            terminal.say(f"{one['name']} is version {one['version']} of {one['subject']}")


@session_flags
def diff(
    subject: SubjectArgument,
    first: Annotated[
        str | None, typer.Argument(metavar="FROM", help="A version. Default: the one before TO.", show_default=False)
    ] = None,
    second: Annotated[
        str, typer.Argument(metavar="TO", help="A version. Default: the latest.", show_default=False)
    ] = "latest",
    *,
    file: Annotated[
        str | None, typer.Option("--file", metavar="FILE", help="Compare the latest version with this file.")
    ] = None,
    session: Session,
) -> None:
    """Show how two versions of a schema differ, line by line.

    \b
      goqueue-cli schema diff orders-value
      goqueue-cli schema diff orders-value 1 3
      goqueue-cli schema diff orders-value --file orders.avsc

    Exits with 1 if they differ. JSON is indented first, so that each field is a line.
    """
    reject_empty_names(subject, noun="schema")
    with doing(f"compare versions of {subject}"), session.client() as client, suggesting(client, subject):
        if file is not None:
            one = client.schema(subject, parse_version(first or second))
            titles, texts = (f"{subject} {one.version}", file), (one.schema, read_schema(file))
        else:
            other = client.schema(subject, parse_version(second))
            before = [number for number in client.schema_versions(subject) if number < (other.version or 0)]
            if first is None and not before:
                raise UsageInvalid(f"{subject} has only one version", hint="--file compares it with a file")
            one = client.schema(subject, parse_version(first) if first is not None else before[-1])
            titles, texts = (f"{subject} {one.version}", f"{subject} {other.version}"), (one.schema, other.schema)
    lines = schema_differences(*texts, titles)
    terminal.write_lines(lines)
    if lines:
        raise typer.Exit(exit_codes.FAILED)
    session.note("they do not differ")
