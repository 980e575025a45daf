"""`goqueue-cli topic`: create, list, describe and delete topics."""

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import exits, failure, terminal
from goqueue.console.failure import Refusal, doing
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column, write_rows
from goqueue.console.session import Session, session_flags, suggesting
from goqueue.errors import BrokerUnreachable, TopicNotFound
from goqueue.quantities import format_count, format_size
from goqueue_cli.names import refuse_empty, short
from goqueue_cli.settings import judged, parse_setting

if TYPE_CHECKING:
    from goqueue.client import Client, TopicInfo

_Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="The names of the topics.")]

_Row = dict[str, Any]
_Work = Callable[["Client", str], _Row]
_Write = Callable[[list[_Row], Session], None]

_NAME = Column("NAME", "name")
_PARTITIONS = Column("PARTITIONS", "partitions")
_RESULT = Column("RESULT", "result")
_PARTITION = (
    Column("PARTITION", "partition"),
    Column("EARLIEST", "earliest", format_count),
    Column("LATEST", "latest", format_count),
)
_SUMMARY = (
    _NAME,
    _PARTITIONS,
    Column("MESSAGES", "total_messages", format_count),
    Column("SIZE", "total_size_bytes", format_size),
    Column("CONFIG", "config", lambda config: " ".join(_settings(config)), wide=True),
    Column("", "partition_offsets"),
)


@session_flags
def create(
    names: _Names,
    partitions: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many each topic has; the broker has a default.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of each topic; may be given more than once."),
    ] = None,
    *,
    session: Session,
) -> None:
    """Create topics.

    \b
      goqueue-cli topic create orders
      goqueue-cli topic create orders payments --partitions 6
      goqueue-cli topic create prices --set cleanup=compact --set retention_hours=null
      goqueue-cli topic create images --set max_message_bytes=8MiB

    `topic describe` shows which settings a topic has. A size may have a unit, and null means without an end.
    """
    given = dict(map(parse_setting, settings or ()))

    def work(client: "Client", name: str) -> _Row:
        with judged(client, given):
            return {"result": "created", **_record(client.create_topic(name, partitions, **given))}

    _each(session, names, "create topic", work, _write_results)


@session_flags
def list_topics(
    internal: Annotated[
        bool, typer.Option("--internal", help="List the topics too that the broker keeps for itself.")
    ] = False,
    *,
    session: Session,
) -> None:
    """List the topics.

    \b
      goqueue-cli topic list
      goqueue-cli topic list --internal -o wide
      goqueue-cli topic list -o name

    The forms for programs (json, jsonl, yaml, csv) hold all that is known of each.
    """
    with doing("list the topics"), session.client() as client:
        names = client.topics(internal)
        rows = [{"name": name} for name in names] if session.output == "name" else list(_known(client, names))
    write_rows(rows, _SUMMARY, session.output, headers=session.headers)
    if not rows and session.output in {"table", "wide"}:
        terminal.say("there are no topics")


@session_flags
def describe(names: _Names, *, session: Session) -> None:
    """Show all about topics.

    \b
      goqueue-cli topic describe orders
      goqueue-cli topic describe orders payments -o json

    For people: the settings and a line for each partition. The other forms have an entry for each topic.
    """

    def work(client: "Client", name: str) -> _Row:
        return _record(client.topic(name))

    _each(session, names, "describe topic", work, _write_descriptions)


@session_flags
def delete(
    names: _Names,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    *,
    session: Session,
) -> None:
    """Delete topics and all of their messages.

    \b
      goqueue-cli topic delete orders
      goqueue-cli topic delete orders payments --yes

    It asks before, where somebody can answer; elsewhere it needs --yes.
    """
    refuse_empty(*names)
    if not yes:
        _confirm(names)

    def work(client: "Client", name: str) -> _Row:
        client.delete_topic(name)
        return {"result": "deleted"}

    _each(session, names, "delete topic", work, _write_results)


def _confirm(names: list[str]) -> None:
    what = f"topic{'s' if len(names) > 1 else ''} {', '.join(names)}"
    if not terminal.may_ask():
        raise UsageInvalid(f"nobody can be asked whether to delete {what}", hint="`--yes` deletes without asking")
    if not terminal.ask(f"delete {what} with all messages?"):
        terminal.say("nothing was deleted")
        raise typer.Exit(exits.FAILED)


def _each(session: Session, names: list[str], verb: str, work: _Work, write: _Write) -> None:
    """A row for each name. What fails is told on stderr and does not keep the others from being done."""
    rows: list[_Row] = []
    refusals: list[Refusal] = []
    unique = list(dict.fromkeys(names))
    refuse_empty(*unique)
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


def _write_results(rows: list[_Row], session: Session) -> None:
    columns = (_NAME, _PARTITIONS, _RESULT) if any("partitions" in row for row in rows) else (_NAME, _RESULT)
    write_rows(rows, columns, session.output, headers=session.headers)


def _write_descriptions(rows: list[_Row], session: Session) -> None:
    """For people a block of facts and a table of partitions for each topic."""
    if session.output not in {"table", "wide"}:
        write_rows(rows, _SUMMARY, session.output, headers=session.headers)
        return
    for number, row in enumerate(row for row in rows if "error" not in row):
        facts = [
            *([""] if number else []),
            f"{row['name']}: {format_count(row['partitions'], 'partition')}, "
            f"{format_count(row['total_messages'], 'message')}, {format_size(row['total_size_bytes'])}",
            *(f"  {setting}" for setting in _settings(row["config"])),
        ]
        terminal.write_lines(facts)
        partitions = [{"partition": number, **offsets} for number, offsets in row["partition_offsets"].items()]
        write_rows(partitions, _PARTITION, "table", headers=session.headers)


def _settings(config: dict[str, Any]) -> Iterator[str]:
    """As `--set` takes them."""
    return (f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in config.items())


def _known(client: "Client", names: list[str]) -> Iterator[dict[str, Any]]:
    for name in names:
        try:
            yield _record(client.topic(name))
        except TopicNotFound:
            continue  # deleted since the names were listed


def _record(info: "TopicInfo") -> dict[str, Any]:
    import msgspec  # noqa: PLC0415 - loaded with the client

    record: dict[str, Any] = msgspec.to_builtins(info)
    return record
