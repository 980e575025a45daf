"""`goqueue-cli topic`: create, edit, compact and delete topics."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid, doing
from goqueue.console.flags import Consent
from goqueue.console.names import for_each_name, in_table, reject_empty_names, shorten_name
from goqueue.console.rows import Column, struct_to_row
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue.console.topic_settings import (
    FIXED,
    changed_settings,
    expires_sooner,
    explaining,
    lossy_settings,
    parse_setting,
    refuse_unknown,
)
from goqueue.console.undo import say_undo
from goqueue.errors import RequestInvalid, TopicNameInvalid, TopicNotFound
from goqueue.quantities import format_count, format_size
from goqueue_cli.topics.listing import Names, Row, delayed_count, in_changes

if TYPE_CHECKING:
    from goqueue.client import Client

_TOPIC = Column("TOPIC", "name")
_PARTITIONS = Column("PARTITIONS", "partitions")
_RESULT = Column("RESULT", "result")
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
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of each topic; may be repeated.")
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
      goqueue-cli topic create mails --set max_retries=10 --set retry_delay=30s

    `topic describe` shows the settings of a topic. Sizes and durations in seconds may have a unit; null means no limit.
    """
    given = dict(map(parse_setting, settings or ()))

    def work(client: "Client", name: str) -> Row:
        with explaining(client, given):
            return {"result": "created", **struct_to_row(client.create_topic(name, partitions, **given))}

    for_each_name(session, names, "create topic", work, _write_results)


def _write_results(rows: list[Row], session: Session) -> None:
    columns = (_TOPIC, _PARTITIONS, _RESULT) if any("partitions" in row for row in rows) else (_TOPIC, _RESULT)
    session.write(rows, columns)


# --- edit ---


@session_flags
def edit(names: Names, settings: _Settings = None, *, consent: Consent, session: Session) -> None:
    """Change settings of topics.

    \b
      goqueue-cli topic edit orders --set retention_hours=24
      goqueue-cli topic edit orders payments --set retention_bytes=10GiB --dry-run
      goqueue-cli topic edit prices --set cleanup=compact,delete
      goqueue-cli topic edit mails --set max_retries=10

    The output has each setting before and after. A shorter retention or another cleanup deletes messages, and with
    dead_letter_topic=none failed ones are dropped: if the topic has any, the command asks for confirmation, and without
    a terminal it needs --yes. In a protected context every change needs --confirm. A dry run does not validate values.
    `topic scale` adds partitions.
    """
    given = dict(parse_setting(text, FIXED) for text in settings or ())
    if not given:
        raise UsageInvalid("there is nothing to change", hint="use `--set retention_hours=24`")
    reject_empty_names(*names)
    if not consent.dry_run:
        _confirm_edit(session, names, given, consent)

    def work(client: "Client", name: str) -> Row:
        before = client.topic(name).config
        refuse_unknown(given, before)
        altered = None if consent.dry_run else client.alter_topic(name, **given)
        after = before | given if altered is None else altered.config
        changes = changed_settings(before, after)
        done = "would be changed" if consent.dry_run else "changed"
        number = altered.operation if altered is not None and changes else None
        return {"result": done if changes else "as it was", "changes": changes, "operation": number}

    def write(rows: list[Row], session: Session) -> None:
        in_changes("TOPIC")(rows, session)
        say_undo(session, rows)

    for_each_name(session, names, "edit topic", work, write)


def _confirm_edit(session: Session, names: list[str], given: dict[str, Any], consent: Consent) -> None:
    """Ask once for all topics, before the first one is changed."""
    what = f"change topic{'s' if len(names) > 1 else ''} {', '.join(names)}"
    losses = _losses(session, names, given)
    if losses:
        reasons = ", ".join(f"{setting} of {name}" for name, settings in losses.items() for setting in settings)
        what = f"{what} and lose messages to {reasons}"
    if losses or session.protected:
        require_confirmation(session, what, name=" ".join(names), consent=consent)


def _losses(session: Session, names: list[str], given: dict[str, Any]) -> dict[str, list[str]]:
    """Return the settings by which each topic would keep less. An unknown topic is reported later."""
    found: dict[str, list[str]] = {}
    with doing(f"edit topic {', '.join(map(shorten_name, names))}"), session.client() as client:
        for name in names:
            with suppress(TopicNotFound, TopicNameInvalid):
                info = client.topic(name)
                delayed = delayed_count(client, name) if expires_sooner(info.config, given) else 0
                if settings := lossy_settings(info.config, given, messages=info.total_messages, delayed=delayed):
                    found[name] = settings
    return found


# --- compact ---


@session_flags
def compact(names: Names, *, session: Session) -> None:
    """Compact topics now: of messages with the same key only the latest stays.

    \b
      goqueue-cli topic compact prices
      goqueue-cli topic compact prices stocks -o json

    The broker compacts in the background as well; this command waits until it is done. It needs cleanup=compact.
    """

    def work(client: "Client", name: str) -> Row:
        terminal.show_status(f"compacting {name}")
        try:
            partitions = client.compact_topic(name)["partitions"]
        except RequestInvalid as error:
            error.hint = f"`goqueue-cli topic edit {name} --set cleanup=compact` enables it"
            raise
        finally:
            terminal.show_status("")
        totals = {
            field: sum(one[field] for one in partitions) for field in ("size_before", "size_after", "messages_removed")
        }
        return {"result": "compacted", **totals, "partitions": partitions}

    for_each_name(session, names, "compact topic", work, in_table(_COMPACTION))


# --- delete ---


@session_flags
def delete(names: Names, *, consent: Consent, session: Session) -> None:
    """Delete topics and all of their messages.

    \b
      goqueue-cli topic delete orders
      goqueue-cli topic delete orders payments --yes
      goqueue-cli topic delete orders --dry-run

    The command asks for confirmation; without a terminal it needs --yes, and in a protected context --confirm. A dry
    run shows what would be deleted. Pending delayed messages are deleted with their topic.
    """
    reject_empty_names(*names)
    if not consent.dry_run:
        what = f"delete topic{'s' if len(names) > 1 else ''} {', '.join(names)} with all messages"
        if terminal.can_prompt() and consent.must_ask:
            what += _pending_text(session, names)
        require_confirmation(session, what, name=" ".join(names), consent=consent)

    def work(client: "Client", name: str) -> Row:
        if consent.dry_run:
            info = client.topic(name)
            sizes = {"total_messages": info.total_messages, "total_size_bytes": info.total_size_bytes}
            return {"result": "would be deleted", **sizes, "delayed": delayed_count(client, name)}
        return {"result": "deleted", "delayed": client.delete_topic(name)["delayed_deleted"]}

    def write(rows: list[Row], session: Session) -> None:
        columns = _LOSS if consent.dry_run else (_TOPIC,)
        delayed = (_DELAYED,) if any(row.get("delayed") for row in rows) else ()
        session.write(rows, (*columns, *delayed, _RESULT))

    for_each_name(session, names, "delete topic", work, write)


def _pending_text(session: Session, names: list[str]) -> str:
    """Count the delayed messages, which reading the topics does not show; unknown topics are reported later."""
    count = 0
    with doing(f"delete topic {', '.join(map(shorten_name, names))}"), session.client() as client:
        for name in dict.fromkeys(names):
            with suppress(TopicNotFound, TopicNameInvalid):
                count += delayed_count(client, name)
    return f" and {format_count(count)} delayed" if count else ""
