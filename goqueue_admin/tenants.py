"""`goqueue-admin tenant`: create, list, describe, change and delete tenants."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid, doing
from goqueue.console.flags import Consent
from goqueue.console.formatting import format_ago, format_names
from goqueue.console.names import for_each_name, in_table, reject_empty_names
from goqueue.console.quotas import parse_limits
from goqueue.console.rows import Column, struct_to_row
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue.quantities import format_count, format_size

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from goqueue.client import Client, TenantContents

_Id = Annotated[str, typer.Argument(metavar="TENANT", help="Id of a tenant.")]
_Ids = Annotated[list[str], typer.Argument(metavar="TENANT...", help="Ids of tenants.")]
_Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for those who are refused.")]
_DisplayName = Annotated[str | None, typer.Option("--display-name", metavar="TEXT", help="A name for people.")]
_Description = Annotated[str | None, typer.Option("--description", metavar="TEXT", help="What the tenant is for.")]
_Metadata = Annotated[
    list[str] | None,
    typer.Option("--metadata", metavar="KEY=TEXT", help="A text of your own; may be repeated."),
]


def _text(found: str) -> str:
    return found or "-"


def _entries(found: dict[str, str]) -> str:
    return ",".join(f"{key}={text}" for key, text in found.items()) or "-"


_TENANTS = (
    Column("ID", "id"),
    Column("NAME", "name"),
    Column("STATUS", "status"),
    Column("SINCE", "status_since", format_ago),
    Column("REASON", "reason", _text),
    Column("CREATED", "created_at", format_ago, wide=True),
    Column("CREATED-BY", "created_by", _text, wide=True),
    Column("DISPLAY-NAME", "display_name", _text, wide=True),
    Column("DESCRIPTION", "description", _text, wide=True),
    Column("METADATA", "metadata", _entries, wide=True),
)
_CONTENTS = (
    Column("ID", "name"),
    Column("RESULT", "result"),
    Column("TOPICS", "topic_count", format_count),
    Column("PARTITIONS", "partitions", format_count),
    Column("SIZE", "size_bytes", format_size),
    Column("GROUPS", "group_count", format_count),
    Column("MEMBERS", "members", format_count),
    Column("KEYS", "key_count", format_count),
    Column("SUBJECTS", "subject_count", format_count),
    Column("TRANSACTIONAL-IDS", "transactional_id_count", format_count, wide=True),
    Column("TOPIC-NAMES", "topics", format_names, wide=True),
    Column("GROUP-NAMES", "groups", format_names, wide=True),
    Column("KEY-NAMES", "keys", format_names, wide=True),
)
_DETAILS = (
    *_TENANTS[:5],
    Column("TOPICS", "topics", format_count),
    Column("PARTITIONS", "partitions", format_count),
    Column("SIZE", "size_bytes", format_size),
    Column("GROUPS", "groups", format_count),
    Column("MEMBERS", "members", format_count),
    Column("KEYS", "keys", format_count),
    Column("SUBJECTS", "subjects", format_count),
    *_TENANTS[5:],
)


@session_flags
def list_tenants(*, session: Session) -> None:
    """List tenants.

    \b
      goqueue-admin tenant list
      goqueue-admin tenant list -o wide
      goqueue-admin tenant list -o json
    """
    with doing("list tenants"), session.client() as client:
        rows = [struct_to_row(one) for one in client.tenants()]
    session.write(rows, _TENANTS, name="id")
    if not rows:
        session.note("there are no tenants")


@session_flags
def create(  # noqa: PLR0913 - independent options
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the tenant, such as that of a team.")],
    tenant_id: Annotated[
        str,
        typer.Option("--id", metavar="ID", help="What stands before its names on the broker. Default: from the name."),
    ] = "",
    display_name: _DisplayName = None,
    description: _Description = None,
    metadata: _Metadata = None,
    quotas: Annotated[
        list[str] | None,
        typer.Option("--quota", metavar="QUOTA=VALUE", help="A limit, as in `quota set`; may be repeated."),
    ] = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Give it the topics, groups and subjects that begin with its id and a dot.")
    ] = False,
    *,
    session: Session,
) -> None:
    """Create a tenant.

    \b
      goqueue-admin tenant create "Team A"
      goqueue-admin tenant create "Team A" --id a --description 'orders'
      goqueue-admin tenant create "Team A" --quota publish_rate_limit=1000

    On the broker, the names of its topics and groups begin with its id and a dot, as in team-a.orders. The command
    `goqueue-admin key create --tenant team-a` makes keys that see nothing else.
    """
    reject_empty_names(name, noun="tenant", is_new=True)
    limits = parse_limits(quotas or [])
    with doing(f"create tenant {name}"), session.client() as client:
        made = client.create_tenant(
            name,
            tenant_id=tenant_id,
            display_name=display_name or "",
            description=description or "",
            metadata=_parse_metadata(metadata or []),
            quotas=limits,
            adopt=adopt,
        )
    session.write([struct_to_row(made)], _TENANTS, name="id")
    if session.for_people:
        terminal.say(f"`goqueue-admin key create NAME --role producer --tenant {made.id}` makes a key of it")


@session_flags
def describe(names: _Ids, *, session: Session) -> None:
    """Describe tenants, and count what belongs to each.

    \b
      goqueue-admin tenant describe team-a
      goqueue-admin tenant describe team-a -o yaml
    """

    def work(client: "Client", name: str) -> dict[str, Any]:
        return struct_to_row(client.tenant_stats(name)) | struct_to_row(client.describe_tenant(name))

    for_each_name(session, names, "describe tenant", work, in_table(_DETAILS))


@session_flags
def update(
    tenant_id: _Id,
    name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="Another name; the id stays.")] = None,
    display_name: _DisplayName = None,
    description: _Description = None,
    metadata: _Metadata = None,
    *,
    session: Session,
) -> None:
    """Change the name, description or metadata of a tenant.

    \b
      goqueue-admin tenant update team-a --description orders
      goqueue-admin tenant update team-a --metadata cost-center=4712

    With --metadata, the given texts replace all former ones.
    """
    given = {"name": name, "display_name": display_name, "description": description}
    changes: dict[str, Any] = {field: value for field, value in given.items() if value is not None}
    if metadata is not None:
        changes["metadata"] = _parse_metadata(metadata)
    if not changes:
        raise UsageInvalid("there is nothing to change", hint="give --name, --description or --metadata")
    reject_empty_names(tenant_id, noun="tenant")
    with doing(f"update tenant {tenant_id}"), session.client() as client:
        changed = client.update_tenant(tenant_id, **changes)
    session.write([struct_to_row(changed)], _TENANTS, name="id")


@session_flags
def suspend(names: _Ids, reason: _Reason = "", *, consent: Consent, session: Session) -> None:
    """Suspend tenants: nothing is published, consumed or changed, lists are still answered.

    \b
      goqueue-admin tenant suspend team-a --reason unpaid
      goqueue-admin tenant suspend team-a --yes

    Requests that wait end at once. Data, groups and keys stay; delayed messages become due, and retention goes on.
    """
    _set_status(session, names, "suspend", reason, consent)


@session_flags
def activate(names: _Ids, *, session: Session) -> None:
    """Activate suspended or disabled tenants.

    \b
      goqueue-admin tenant activate team-a
    """
    for_each_name(session, names, "activate tenant", _status_change("activate", ""), in_table(_TENANTS))


@session_flags
def disable(names: _Ids, reason: _Reason = "", *, consent: Consent, session: Session) -> None:
    """Disable tenants: all their requests are refused.

    \b
      goqueue-admin tenant disable team-a --reason left
      goqueue-admin tenant disable team-a --yes

    Data, groups and keys stay, and are in use again after `goqueue-admin tenant activate`.
    """
    _set_status(session, names, "disable", reason, consent)


@session_flags
def delete(names: _Ids, *, consent: Consent, session: Session) -> None:
    """Delete tenants with all their topics, groups, keys and schemas.

    \b
      goqueue-admin tenant delete team-a --dry-run
      goqueue-admin tenant delete team-a --yes

    Nothing of it can be restored. With --dry-run, or before it asks, the command shows what would be deleted.
    """
    reject_empty_names(*names, noun="tenant")
    if not consent.dry_run:
        if consent.must_ask and session.for_people and terminal.can_prompt():
            for_each_name(session, names, "plan to delete tenant", _plan, in_table(_CONTENTS))
        what = f"delete tenant{'s' if len(names) > 1 else ''} {', '.join(names)} with all data"
        require_confirmation(session, what, name=" ".join(names), consent=consent)
    for_each_name(session, names, "delete tenant", _plan if consent.dry_run else _delete, in_table(_CONTENTS))


def _plan(client: "Client", name: str) -> dict[str, Any]:
    return _contents_row(client.tenant_contents(name), "would be deleted")


def _delete(client: "Client", name: str) -> dict[str, Any]:
    return _contents_row(client.delete_tenant(name), "deleted")


def _contents_row(contents: "TenantContents", result: str) -> dict[str, Any]:
    return {"result": result, **struct_to_row(contents)}


def _set_status(
    session: Session, names: list[str], action: "Literal['suspend', 'disable']", reason: str, consent: Consent
) -> None:
    reject_empty_names(*names, noun="tenant")
    if consent.dry_run:
        terminal.say(f"that would {action} {', '.join(names)}")
        return
    what = f"{action} tenant{'s' if len(names) > 1 else ''} {', '.join(names)}"
    require_confirmation(session, what, name=" ".join(names), consent=consent)
    for_each_name(session, names, f"{action} tenant", _status_change(action, reason), in_table(_TENANTS))


def _status_change(
    action: "Literal['suspend', 'activate', 'disable']", reason: str
) -> "Callable[[Client, str], dict[str, Any]]":
    def work(client: "Client", name: str) -> dict[str, Any]:
        return struct_to_row(client.set_tenant_status(name, action, reason=reason))

    return work


def _parse_metadata(texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageInvalid(f"--metadata is {text!r}", hint="write KEY=TEXT")
        found[key] = value
    return found
