"""`goqueue-cli group edit`: how groups retry messages, lease them and give them up."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console.consumer_groups import DELIVERY_SETTINGS
from goqueue.console.failure import UsageInvalid
from goqueue.console.flags import Consent
from goqueue.console.names import for_each_name, reject_empty_names
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue.console.topic_settings import parse_setting, refuse_unknown
from goqueue.console.undo import say_undo
from goqueue_cli.topics.listing import in_changes

if TYPE_CHECKING:
    from goqueue.client import Client

_Row = dict[str, Any]

_FIXED = dict.fromkeys(
    ("protocol", "assignment_strategy", "order", "start", "isolation"),
    "the first member of a group sets it; an empty group takes it from its next first member",
)


@session_flags
def edit(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of groups.")],
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of each group; may be repeated.")
    ] = None,
    *,
    consent: Consent,
    session: Session,
) -> None:
    """Change how groups retry messages, lease them and give them up.

    \b
      goqueue-cli group edit billing --set max_retries=5 --set retry_delay=2s
      goqueue-cli group edit billing --set visibility_timeout=5m --dry-run
      goqueue-cli group edit billing --set dead_letter_topic=billing-failed
      goqueue-cli group edit billing shipping --set max_retries=null

    Settings: max_retries (0 to 1000, or unlimited), retry_delay, max_retry_delay, visibility_timeout, and
    dead_letter_topic (a topic, or none: messages that fail for the last time are dropped). null leaves a setting to the
    group's topics, and where they have none to the broker; `group describe` shows what holds. The change counts from
    the next lease and failure on. dead_letter_topic=none asks for confirmation; without a terminal it needs --yes. In a
    protected context every change needs --confirm.
    """
    given = dict(parse_setting(text, _FIXED, noun="group") for text in settings or ())
    if not given:
        raise UsageInvalid("there is nothing to change", hint="use `--set max_retries=5`")
    reject_empty_names(*names, noun="group")
    refuse_unknown(given, DELIVERY_SETTINGS, noun="group")
    drops = given.get("dead_letter_topic") == "none"
    if not consent.dry_run and (drops or session.protected):
        what = f"change group{'s' if len(names) > 1 else ''} {', '.join(names)}"
        what += " and drop messages that fail for the last time" if drops else ""
        require_confirmation(session, what, name=" ".join(names), consent=consent)

    def work(client: "Client", name: str) -> _Row:
        before = client.group(name)["settings"]
        altered = None if consent.dry_run else client.alter_group(name, **given)
        after = before | given if altered is None else altered["settings"]
        changes = {
            setting: {"before": before.get(setting), "after": after.get(setting)}
            for setting in DELIVERY_SETTINGS
            if before.get(setting) != after.get(setting)
        }
        done = "would be changed" if consent.dry_run else "changed"
        number = altered.operation if altered is not None and changes else None
        return {"result": done if changes else "as it was", "changes": changes, "operation": number}

    def write(rows: list[_Row], session: Session) -> None:
        in_changes("GROUP")(rows, session)
        say_undo(session, rows)

    for_each_name(session, names, "edit group", work, write)
