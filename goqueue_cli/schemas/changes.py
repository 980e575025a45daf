"""`goqueue-cli schema register`, `check`, `delete` and `config`."""

from contextlib import suppress
from typing import Annotated, Any, Literal

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.failure import UsageInvalid, doing, suggesting
from goqueue.console.flags import Consent
from goqueue.console.names import reject_empty_names
from goqueue.console.rows import Column
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue_cli.schemas.files import (
    FileArgument,
    ReferenceFlag,
    SubjectArgument,
    TypeFlag,
    parse_references,
    parse_version,
    read_schema,
    schema_type,
)

_REGISTERED = (Column("SUBJECT", "name"), Column("VERSION", "version"), Column("ID", "id"))
_CHECKED = (Column("SUBJECT", "name"), Column("COMPATIBLE", "compatible", lambda good: "yes" if good else "no"))
_DELETED = (Column("SUBJECT", "name"), Column("DELETED", "versions", lambda all_: ", ".join(map(str, all_))))
_CONFIG = (
    Column("SUBJECT", "name"),
    Column("COMPATIBILITY", "compatibility"),
    Column("NORMALIZE", "normalize", lambda on: "yes" if on else "no"),
    Column("MODE", "mode"),
)
_ALL = "(all)"
_Level = Literal[
    "none", "backward", "backward_transitive", "forward", "forward_transitive", "full", "full_transitive"
]  # fmt: skip


@session_flags
def register(
    subject: SubjectArgument,
    file: FileArgument,
    *,
    kind: TypeFlag = None,
    references: ReferenceFlag = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Store the normalized text.")] = False,
    session: Session,
) -> None:
    """Register a schema as the next version of a subject.

    \b
      goqueue-cli schema register orders-value orders.avsc
      goqueue-cli schema register orders-value orders.proto
      goqueue-cli schema register lines lines.avsc --reference Order=orders:1

    A schema that the subject has already gets its existing version. One that breaks the compatibility level of the
    subject is refused with the reasons.
    """
    reject_empty_names(subject, noun="schema")
    text, needed = read_schema(file), parse_references(references)
    with doing(f"register a schema of {subject}"), session.client() as client:
        made = client.register_schema(
            subject, text, schema_type(file, kind), references=needed, normalize=normalize or None
        )
    session.write([{"name": subject, "version": made.version, "id": made.id}], _REGISTERED)


@session_flags
def check(
    subject: SubjectArgument,
    file: FileArgument,
    *,
    kind: TypeFlag = None,
    references: ReferenceFlag = None,
    version: Annotated[
        str | None, typer.Option("--version", metavar="N", help="Compare with this version only, or with latest.")
    ] = None,
    session: Session,
) -> None:
    """Check whether a schema could be registered.

    \b
      goqueue-cli schema check orders-value orders.avsc
      goqueue-cli schema check orders-value orders.avsc --version 2

    Nothing is registered. Exits with 1 if it is not compatible; the reasons go to stderr. The compatibility level of
    the subject decides which versions it is compared with.
    """
    reject_empty_names(subject, noun="schema")
    text, needed = read_schema(file), parse_references(references)
    wanted = None if version is None else parse_version(version)
    with doing(f"check a schema of {subject}"), session.client() as client:
        found = client.test_schema(subject, text, schema_type(file, kind), version=wanted, references=needed)
    row = {"name": subject, "compatible": found.is_compatible, "reasons": found.messages}
    session.write([row], _CHECKED)
    session.note(*found.messages)
    if not found.is_compatible:
        raise typer.Exit(exit_codes.FAILED)


@session_flags
def delete(
    subject: SubjectArgument,
    *,
    version: Annotated[str | None, typer.Option("--version", metavar="N", help="Only this version.")] = None,
    permanent: Annotated[
        bool, typer.Option("--permanent", help="Delete for ever what was soft-deleted before.")
    ] = False,
    consent: Consent,
    session: Session,
) -> None:
    """Delete a subject or one of its versions.

    \b
      goqueue-cli schema delete orders-value --version 1
      goqueue-cli schema delete orders-value
      goqueue-cli schema delete orders-value --permanent

    A deletion is soft: the versions are not listed any more, and messages with their ids can still be read. With
    --permanent they cannot. A version that other schemas refer to cannot be deleted.
    """
    reject_empty_names(subject, noun="schema")
    wanted = None if version is None else parse_version(version)
    which = f"all versions of {subject}" if version is None else f"version {version} of {subject}"
    what = f"delete {which} {'permanently: messages with their ids become unreadable' if permanent else 'softly'}"
    if consent.dry_run:
        terminal.say(f"that would {what}")
        return
    require_confirmation(session, what, name=subject, consent=consent)
    with doing(f"delete {which}"), session.client() as client, suggesting(client, subject):
        if wanted is None:
            gone = client.delete_schema_subject(subject, permanent=permanent)
        else:
            gone = [client.delete_schema_version(subject, wanted, permanent=permanent)]
    session.write([{"name": subject, "versions": gone, "permanent": permanent}], _DELETED)


@session_flags
def config(
    subject: Annotated[
        str, typer.Argument(metavar="SUBJECT", help="A subject. Default: what applies to all.", show_default=False)
    ] = "",
    *,
    compatibility: Annotated[
        _Level | None,
        typer.Option(
            "--compatibility",
            metavar="LEVEL",
            help="Set the level: none, backward, forward, full, or one of these with _transitive.",
        ),
    ] = None,
    normalize: Annotated[
        bool | None,
        typer.Option("--normalize/--no-normalize", help="Set whether texts are normalized when they are stored."),
    ] = None,
    mode: Annotated[
        Literal["readwrite", "readonly", "readonly_override", "import"] | None,
        typer.Option("--mode", help="Set which changes are allowed; import takes ids from another registry."),
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Go back to what applies to all, or to the defaults.")] = False,
    consent: Consent,
    session: Session,
) -> None:
    """Show or change the compatibility level and mode of a subject, or of all.

    \b
      goqueue-cli schema config
      goqueue-cli schema config orders-value --compatibility full
      goqueue-cli schema config orders-value --reset
      goqueue-cli schema config --mode readonly

    The level is backward by default: consumers with the new schema can read data of the one before it. In a protected
    context every change needs --confirm.
    """
    changes = [one for one in (compatibility, normalize, mode) if one is not None]
    if reset and changes:
        raise UsageInvalid("--reset cannot be combined with other settings", hint="leave it out")
    if (reset or changes) and consent.dry_run:
        terminal.say(f"that would change the configuration of {subject or 'all subjects'}")
        return
    if (reset or changes) and session.protected:
        what = f"change the configuration of {subject or 'all subjects'}"
        require_confirmation(session, what, name=subject or "all", consent=consent)
    with doing(f"configure {subject or 'all subjects'}"), session.client() as client, suggesting(client, subject):
        if reset:
            _reset(client, subject)
        if compatibility is not None or normalize is not None:
            client.set_schema_config(subject, compatibility=compatibility, normalize=normalize)
        if mode is not None:
            client.set_schema_mode(mode.upper(), subject)
        found, in_force = client.schema_config(subject), client.schema_mode(subject)
    row = {
        "name": subject or _ALL, "compatibility": found.compatibility_level, "normalize": bool(found.normalize),
        "mode": in_force,
    }  # fmt: skip
    session.write([row], _CONFIG)


def _reset(client: Any, subject: str) -> None:
    from goqueue.errors import SubjectSettingNotFound  # noqa: PLC0415

    for work in (client.delete_schema_mode, client.delete_schema_config):
        with suppress(SubjectSettingNotFound):  # it has none of its own
            work(subject)
