"""`goqueue-admin key`: create, list, rotate and revoke API keys."""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid, doing
from goqueue.console.flags import Consent, parse_duration_flag
from goqueue.console.formatting import format_ago, format_names
from goqueue.console.key_file import new_key_file
from goqueue.console.names import for_each_name, in_table, reject_empty_names
from goqueue.console.rows import Column, struct_to_row
from goqueue.console.session import Session, require_confirmation, session_flags

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import TextIO

    from goqueue.client import ApiKeyInfo, Client

_SaveFlag = Annotated[
    str | None,
    typer.Option(
        "--save", metavar="FILE", help="Write the key to a new file that only you may read, and do not print it."
    ),
]
_Names = Annotated[list[str], typer.Argument(metavar="KEY...", help="Names or ids of API keys.")]


def _optional_ago(text: str | None) -> str:
    return "-" if text is None else format_ago(text)


def _state(row: dict[str, Any]) -> str:
    if row["expired"]:
        return "expired"
    return "rotated" if row["former_valid_until"] else "valid"


_CERTIFICATE = Column("CERTIFICATE", "certificate", lambda text: text or "-", wide=True)
_KEYS = (
    Column("NAME", "name"),
    Column("ID", "id"),
    Column("ROLES", "roles", format_names),
    Column("TENANT", "tenant", lambda text: text or "-", wide=True),
    Column("STATE", "state"),
    Column("CREATED", "created_at", format_ago),
    Column("USED", "last_used_at", _optional_ago),
    Column("EXPIRES", "expires_at", lambda text: text or "never"),
    _CERTIFICATE,
    Column("CREATED-BY", "created_by", wide=True),
    Column("ROTATED", "rotated_at", _optional_ago, wide=True),
    Column("FORMER-UNTIL", "former_valid_until", lambda text: text or "-", wide=True),
)
_NEW_CERTIFICATE = (
    Column("NAME", "name"),
    Column("ID", "id"),
    Column("ROLES", "roles", format_names),
    Column("CERTIFICATE", "certificate"),
)
_NEW = (Column("NAME", "name"), Column("ID", "id"), Column("ROLES", "roles", format_names), Column("KEY", "key"))


@session_flags
def list_keys(*, session: Session) -> None:
    """List API keys, without their secrets.

    \b
      goqueue-admin key list
      goqueue-admin key list --sort-by last_used_at
      goqueue-admin key list -o json

    USED is recorded once an hour: the last use may be up to an hour later. A rotated key has a former
    secret that is still valid.
    """
    with doing("list API keys"), session.client() as client:
        rows = [_row(one) for one in client.api_keys()]
    has_certificates = any(row["certificate"] for row in rows)
    session.write(
        rows, [one._replace(wide=one.wide and not (has_certificates and one is _CERTIFICATE)) for one in _KEYS]
    )
    if not rows:
        session.note("there are no API keys")


@session_flags
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for the key, such as that of its program.")],
    role: Annotated[
        list[str] | None, typer.Option("--role", metavar="ROLE", help="A role of the key; may be repeated.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="DURATION", help="Lifetime such as 90d. Default: no limit.")
    ] = None,
    certificate: Annotated[
        str | None,
        typer.Option(
            "--certificate", metavar="NAME", help="URI:, email: or DNS: name of client certificates that stand for it."
        ),
    ] = None,
    *,
    save: _SaveFlag = None,
    session: Session,
) -> None:
    """Create an API key, which is shown this once.

    \b
      goqueue-admin key create billing --role consumer
      goqueue-admin key create ci --role producer --expires 90d
      goqueue-admin key create billing --role consumer --save billing.key
      goqueue-admin key create app --role consumer --certificate DNS:app.example
      goqueue-admin key create till --role producer --tenant team-a

    The built-in roles are admin, operator, producer, consumer and readonly; `goqueue-admin role list` shows all. A key
    without a role may do what rules allow it (`goqueue-admin acl create`). With --certificate the key has no secret:
    clients present a certificate with that subject alternative name. With --tenant it reaches nothing but what belongs
    to that tenant.
    """
    if certificate is not None and save is not None:
        raise UsageInvalid("a key with --certificate has no secret to save", hint="leave out one of them")
    reject_empty_names(name, noun="key")
    seconds = None if expires is None else parse_duration_flag("--expires", expires)
    with doing(f"create key {name}"), _key_file(save) as file, session.client() as client:
        made = client.create_api_key(name, role or [], expires_in=seconds, certificate=certificate)
        _write_new(session, made, file)


@session_flags
def rotate(
    name: Annotated[str, typer.Argument(metavar="KEY", help="Name or id of an API key.")],
    grace: Annotated[
        str | None,
        typer.Option(
            "--grace", metavar="DURATION", help="How long the former secret stays valid. Default: not at all."
        ),
    ] = None,
    *,
    save: _SaveFlag = None,
    consent: Consent,
    session: Session,
) -> None:
    """Give an API key another secret, which is shown this once.

    \b
      goqueue-admin key rotate billing --grace 24h
      goqueue-admin key rotate billing --yes

    Name, id, roles and rules stay. Without --grace the former secret is refused at once.
    """
    reject_empty_names(name, noun="key")
    seconds = None if grace is None else parse_duration_flag("--grace", grace)
    what = f"rotate key {name}"
    if consent.dry_run:
        terminal.say(f"that would {what}")
        return
    if not seconds:
        require_confirmation(session, f"{what}, whose former secret is refused at once", name=name, consent=consent)
    with doing(what), _key_file(save) as file, session.client() as client:
        made = client.rotate_api_key(name, grace=seconds)
        _write_new(session, made, file)


@session_flags
def revoke(names: _Names, *, consent: Consent, session: Session) -> None:
    """Revoke API keys, at once and for ever.

    \b
      goqueue-admin key revoke billing
      goqueue-admin key revoke billing ci --yes

    Requests that wait with the key end. Its access rules are deleted with it.
    """
    reject_empty_names(*names, noun="key")
    if consent.dry_run:
        terminal.say(f"that would revoke {', '.join(names)}")
        return
    require_confirmation(session, f"revoke the API keys {', '.join(names)}", name=" ".join(names), consent=consent)

    def work(client: "Client", name: str) -> dict[str, Any]:
        return {"name": name, **client.revoke_api_key(name)}

    columns = (Column("NAME", "name"), Column("ID", "id"), Column("REVOKED", "revoked"))
    for_each_name(session, names, "revoke key", work, in_table(columns))


def _row(key: "ApiKeyInfo") -> dict[str, Any]:
    row = struct_to_row(key)
    del row["key"]
    return {**row, "state": _state(row)}


def _key_file(name: str | None) -> "AbstractContextManager[TextIO | None]":
    return nullcontext() if name is None else new_key_file(name, "--save")


def _write_new(session: Session, made: "ApiKeyInfo", file: "TextIO | None") -> None:
    row = struct_to_row(made)
    if file is not None:
        file.write(f"{made.key}\n")
        row["key"] = "saved"
    if made.certificate is not None:
        session.write([row], _NEW_CERTIFICATE)
        return
    session.write([row], _NEW)
    session.note("keep the key: the broker stores only its digest, and shows it never again")
