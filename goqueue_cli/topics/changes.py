"""`goqueue-cli topic`: create, edit, compact and delete topics."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.danger import ConfirmFlag, DryRunFlag, YesFlag, agree
from goqueue.console.each import each
from goqueue.console.failure import doing
from goqueue.console.groups import UsageInvalid
from goqueue.console.names import refuse_empty, short
from goqueue.console.rows import Column, of_fields
from goqueue.console.session import Session, session_flags
from goqueue.errors import RequestInvalid, TopicNameInvalid, TopicNotFound
from goqueue.quantities import format_count, format_size
from goqueue_cli.topics.listing import Names, Row, delayed_count, setting_text
from goqueue_cli.topics.settings import EXPIRY, FIXED, expires_sooner, judged, losing, parse_setting, refuse_unknown

if TYPE_CHECKING:
    from goqueue.client import Client

_TOPIC = Column("TOPIC", "name")
_PARTITIONS = Column("PARTITIONS", "partitions")
_RESULT = Column("RESULT", "result")
_CHANGE = (
    _TOPIC,
    Column("SETTING", "setting"),
    Column("BEFORE", "before"),
    Column("AFTER", "after"),
    _RESULT,
)
_COMPACTION = (
    _TOPIC,
    _RESULT,
    Column("BEFORE", "size_before", format_size),
    Column("AFTER", "size_after", format_size),
    Column("REMOVED", "messages_removed", format_count),
)
_DELAYED = Column("DELAYED", "delayed", format_count)
_LOSS = (_TOPIC, Column("MESSAGES", "total_messages", format_count), Column("SIZE", "total_size_bytes", format_size))

_Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of each topic; may be given more than once."),
]


@session_flags
def create(
    names: Names,
    partitions: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many each topic has; the broker has a default.")
    ] = None,
    settings: _Settings = None,
    *,
    session: Session,
) -> None:
    """Create topics.

    \b
      goqueue-cli topic create orders
      goqueue-cli topic create orders payments --partitions 6
      goqueue-cli topic create prices --set cleanup=compact
      goqueue-cli topic create facts --set retention_hours=null
      goqueue-cli topic create images --set max_message_bytes=8MiB
      goqueue-cli topic create jobs --set lane_weights=50,25,15,7,3

    `topic describe` shows which settings a topic has. A size and a duration in seconds may have a unit, and null means
    without an end.
    """
    given = dict(map(parse_setting, settings or ()))

    def work(client: "Client", name: str) -> Row:
        with judged(client, given):
            return {"result": "created", **of_fields(client.create_topic(name, partitions, **given))}

    each(session, names, "create topic", work, _write_results)


def _write_results(rows: list[Row], session: Session) -> None:
    columns = (_TOPIC, _PARTITIONS, _RESULT) if any("partitions" in row for row in rows) else (_TOPIC, _RESULT)
    session.write(rows, columns)


# --- edit ---


@session_flags
def edit(
    names: Names,
    settings: _Settings = None,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
    confirm: ConfirmFlag = None,
    *,
    session: Session,
) -> None:
    """Change settings of topics.

    \b
      goqueue-cli topic edit orders --set retention_hours=24
      goqueue-cli topic edit orders payments --set retention_bytes=10GiB --dry-run
      goqueue-cli topic edit prices --set cleanup=compact,delete

    It shows what each setting was and what it is now. Where a topic with messages keeps less than before - a shorter
    retention, or another cleanup - some go soon, and nothing brings them back: it asks before, and where nobody can
    answer it needs --yes. In a protected context every change needs the name, or --confirm. A dry run does not ask
    the broker whether it takes the values. The number of partitions stays.
    """
    given = dict(parse_setting(text, FIXED) for text in settings or ())
    if not given:
        raise UsageInvalid("there is nothing to change", hint="say what: `--set retention_hours=24`")
    refuse_empty(*names)
    if not dry_run:
        _agree_to_edit(session, names, given, yes=yes, confirm=confirm)

    def work(client: "Client", name: str) -> Row:
        before = client.topic(name).config
        refuse_unknown(given, before)
        after = before | given if dry_run else client.alter_topic(name, **given).config
        changes = {
            setting: {"before": value, "after": after[setting]}
            for setting, value in before.items()
            if after[setting] != value
        }
        done = "would be changed" if dry_run else "changed"
        return {"result": done if changes else "as it was", "changes": changes}

    each(session, names, "edit topic", work, _write_changes)


def _agree_to_edit(
    session: Session, names: list[str], given: dict[str, Any], *, yes: bool, confirm: str | None
) -> None:
    """Once for all topics, before the first of them is changed."""
    what = f"change topic{'s' if len(names) > 1 else ''} {', '.join(names)}"
    losses = _losses(session, names, given)
    if losses:
        told = ", ".join(f"{setting} of {name}" for name, settings in losses.items() for setting in settings)
        what = f"{what} and lose messages to {told}"
    if losses or session.protected:
        agree(session, what, name=" ".join(names), yes=yes, confirm=confirm)


def _losses(session: Session, names: list[str], given: dict[str, Any]) -> dict[str, list[str]]:
    """Which topics would keep less, by which settings. A topic that is not there is told when its turn comes."""
    found: dict[str, list[str]] = {}
    with doing(f"edit topic {', '.join(map(short, names))}"), session.client() as client:
        for name in names:
            with suppress(TopicNotFound, TopicNameInvalid):
                info = client.topic(name)
                settings = losing(info.config, given) if info.total_messages else []
                if expires_sooner(info.config, given) and delayed_count(client, name):
                    settings.append(EXPIRY)
                if settings:
                    found[name] = settings
    return found


def _write_changes(rows: list[Row], session: Session) -> None:
    """For people a line for each setting."""
    people = session.for_people
    session.write([line for row in rows for line in _lines(row)] if people else rows, _CHANGE if people else ())


def _lines(row: Row) -> list[Row]:
    changes: dict[str, dict[str, Any]] = row.get("changes", {})
    if not changes:
        return [{"name": row["name"], "result": row["result"]}]
    return [
        {"name": row["name"], "setting": setting, "result": row["result"]}
        | {when: setting_text(value) for when, value in change.items()}
        for setting, change in changes.items()
    ]


# --- compact ---


@session_flags
def compact(names: Names, *, session: Session) -> None:
    """Compact topics now: of messages with the same key only the latest stays.

    \b
      goqueue-cli topic compact prices
      goqueue-cli topic compact prices stocks -o json

    The broker does it by itself now and then; this waits until it is done. It is for topics with cleanup=compact.
    """

    def work(client: "Client", name: str) -> Row:
        terminal.show_status(f"compacting {name}")
        try:
            partitions = client.compact_topic(name)["partitions"]
        except RequestInvalid as error:
            error.hint = f"`goqueue-cli topic edit {name} --set cleanup=compact` makes it one that is"
            raise
        finally:
            terminal.show_status("")
        totals = {
            field: sum(one[field] for one in partitions) for field in ("size_before", "size_after", "messages_removed")
        }
        return {"result": "compacted", **totals, "partitions": partitions}

    each(session, names, "compact topic", work, lambda rows, session: session.write(rows, _COMPACTION))


# --- delete ---


@session_flags
def delete(
    names: Names,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
    confirm: ConfirmFlag = None,
    *,
    session: Session,
) -> None:
    """Delete topics and all of their messages.

    \b
      goqueue-cli topic delete orders
      goqueue-cli topic delete orders payments --yes
      goqueue-cli topic delete orders --dry-run

    It asks before, where somebody can answer; elsewhere it needs --yes, and in a protected context --confirm. A dry
    run says how much would go. Delayed messages that are still to be delivered go with their topic.
    """
    refuse_empty(*names)
    if not dry_run:
        what = f"delete topic{'s' if len(names) > 1 else ''} {', '.join(names)} with all messages"
        if terminal.may_ask() and not yes and confirm is None:
            what += _undelivered(session, names)
        agree(session, what, name=" ".join(names), yes=yes, confirm=confirm)

    def work(client: "Client", name: str) -> Row:
        if dry_run:
            info = client.topic(name)
            sizes = {"total_messages": info.total_messages, "total_size_bytes": info.total_size_bytes}
            return {"result": "would be deleted", **sizes, "delayed": delayed_count(client, name)}
        return {"result": "deleted", "delayed": client.delete_topic(name)["delayed_deleted"]}

    def write(rows: list[Row], session: Session) -> None:
        columns = _LOSS if dry_run else (_TOPIC,)
        delayed = (_DELAYED,) if any(row.get("delayed") for row in rows) else ()
        session.write(rows, (*columns, *delayed, _RESULT))

    each(session, names, "delete topic", work, write)


def _undelivered(session: Session, names: list[str]) -> str:
    """What is not to be seen by reading the topics; of one that is not there nothing is said yet."""
    count = 0
    with doing(f"delete topic {', '.join(map(short, names))}"), session.client() as client:
        for name in dict.fromkeys(names):
            with suppress(TopicNotFound, TopicNameInvalid):
                count += delayed_count(client, name)
    return f" and {format_count(count)} delayed" if count else ""
