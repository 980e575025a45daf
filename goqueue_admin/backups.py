"""`goqueue-admin backup`: backups that a broker makes while it runs."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.backups import (
    ACTIVITIES,
    DAMAGED_HINT,
    INCOMPLETE,
    NO_SCHEDULE,
    NO_TARGET,
    count_text,
    parse_end_offset,
    progress_text,
    size_text,
)
from goqueue.console.failure import UsageInvalid, doing
from goqueue.console.flags import Consent, WatchOptions
from goqueue.console.formatting import format_ago, format_to_second
from goqueue.console.names import for_each_name, in_table, reject_empty_names
from goqueue.console.positions import parse_time_flag
from goqueue.console.rows import Column, Row, struct_to_row
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue.console.watch import show_rows
from goqueue.errors import BackupNotFound
from goqueue.quantities import format_count, format_duration, format_size

if TYPE_CHECKING:
    from goqueue.client import BackupInfo, Client

_LOOK_SECONDS = 0.25


def _optional_time(text: str | None) -> str:
    return "-" if text is None else format_to_second(text)


def _verified(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-"
    return format_count(found["problems"], "problem").upper() if found["problems"] else format_ago(found["verified_at"])


def _progress(found: dict[str, Any] | None) -> str:
    return "-" if found is None else progress_text(found)


_COLUMNS = (
    Column("ID", "id"),
    Column("STATE", "state"),
    Column("TIME", "cut_at", _optional_time),
    Column("SIZE", "bytes", size_text),
    Column("NEW", "new_bytes", size_text),
    Column("LOGS", "logs", count_text),
    Column("VERIFIED", "verification", _verified),
    Column("PROGRESS", "progress", _progress),
    Column("DAMAGED", "damaged_ranges", count_text, wide=True),
    Column("UNAVAILABLE", "unavailable", lambda names: ", ".join(names) or "-", wide=True),
    Column("VERSION", "version", lambda text: text or "-", wide=True),
    Column("KEY", "key", lambda text: text or "-", wide=True),
    Column("PROBLEM", "problem", lambda text: text or "-", wide=True),
)


def _row(one: "BackupInfo") -> dict[str, Any]:
    row = {"name": one.id, **struct_to_row(one)}
    if one.cut_at is None:  # its manifest cannot be read
        row |= dict.fromkeys(("bytes", "new_bytes", "logs", "damaged_ranges"))
    return row


@session_flags
def create(
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is complete.")] = True,
    new_target: Annotated[
        bool, typer.Option("--new-target", help="Begin with what is at the target, where the known backups are gone.")
    ] = False,
    *,
    session: Session,
) -> None:
    """Make a backup of all logs, of this moment.

    \b
      goqueue-admin backup create
      goqueue-admin backup create --no-wait -o name

    Publishing goes on meanwhile. Only what the backups before do not have is copied. ^C ends the waiting, not the
    backup; `goqueue-admin backup delete` cancels it.
    """
    with doing("make a backup"), session.client() as client:
        made = client.create_backup(new_target=new_target)
        if wait:
            made = _follow(session, client, made)
    session.write([_row(made)], _COLUMNS)
    if made.state in ("failed", "cancelled"):
        state = "was cancelled" if made.state == "cancelled" else made.state
        terminal.say_error(f"backup {made.id} {state}", cause=made.problem)
        raise typer.Exit(exit_codes.FAILED)
    _note_gaps(session, [made])


def _note_gaps(session: Session, found: "Sequence[BackupInfo]") -> None:
    for one in found:
        if one.unavailable:
            session.note(f"{one.id} lacks logs that the broker could not open: {', '.join(one.unavailable)}")
        if one.damaged_ranges:
            session.note(f"{one.id} has {format_count(one.damaged_ranges, 'range')} that were damaged before")


def _follow(session: Session, client: "Client", one: "BackupInfo") -> "BackupInfo":
    """Show the progress until nothing runs any more."""
    try:
        while one.state == "running" or one.progress is not None:
            if session.for_people and one.progress is not None:
                terminal.show_status(
                    f"{ACTIVITIES[one.progress.activity]}: {progress_text(struct_to_row(one.progress))}"
                )
            time.sleep(_LOOK_SECONDS)
            one = client.backup(one.id)
    finally:
        terminal.show_status("")
    return one


@session_flags
def list_backups(*, options: WatchOptions, session: Session) -> None:
    """List backups, the newest first.

    \b
      goqueue-admin backup list
      goqueue-admin backup list -o wide
      goqueue-admin backup list --watch

    NEW is what a backup has added; the rest is shared with others. Failed and cancelled backups are listed until the
    broker restarts.
    """
    targets: list[str | None] = []

    def fetch(client: "Client") -> Sequence[Row]:
        found = client.backups()
        targets.append(found.target)
        return [_row(one) for one in found.backups]

    rows = show_rows(session, "list backups", fetch, _COLUMNS, options, volatile=("progress",))
    if targets[-1] is None:
        session.note(NO_TARGET)
    else:
        attempts = sum(row["state"] in ("failed", "cancelled") for row in rows)
        stored = len(rows) - attempts - sum(row["state"] == "running" for row in rows)
        failed = f", beside {format_count(attempts, 'failed or cancelled attempt')}" if attempts else ""
        session.note(f"{format_count(stored, 'backup')} in {targets[-1]}{failed}")
        if any(row["state"] == "incomplete" for row in rows):
            session.note(INCOMPLETE)


def _newest(client: "Client") -> str:
    for one in client.backups().backups:
        if one.state not in ("failed", "cancelled"):
            return one.id
    raise BackupNotFound("there is no backup", hint="`goqueue-admin backup create` makes one")


@session_flags
def describe(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of backups. Default: the newest.")
    ] = None,
    *,
    session: Session,
) -> None:
    """Show backups, and what their last verification found.

    \b
      goqueue-admin backup describe
      goqueue-admin backup describe 20261120T031500Z-5f0c2a9b
      goqueue-admin backup describe 20261120T031500Z-5f0c2a9b -o json
    """
    found: list[BackupInfo] = []

    def work(client: "Client", name: str) -> dict[str, Any]:
        found.append(client.backup(name))
        return struct_to_row(found[-1])

    if not names:
        with doing("describe a backup"), session.client() as client:
            names = [_newest(client)]
    for_each_name(session, names, "describe backup", work, in_table(_COLUMNS))
    _note_gaps(session, found)
    for one in found:
        if one.problem:
            session.note(f"{one.id}: {one.problem}")
        if one.verification_problem is not None:
            session.note(f"{one.id}: its last verification failed: {one.verification_problem}")
        if one.verification is not None:
            session.note(*(f"{one.id}: {sentence}" for sentence in one.verification.sentences))


@session_flags
def verify(
    name: Annotated[str | None, typer.Argument(metavar="[ID]", help="Id of a backup. Default: the newest.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the result.")] = True,
    *,
    session: Session,
) -> None:
    """Read everything of a backup again: each hash and each frame.

    \b
      goqueue-admin backup verify
      goqueue-admin backup verify 20261120T031500Z-5f0c2a9b

    The exit code is 1 if anything is not as it was written. `goqueue backup verify` does the same without a broker.
    """
    with doing("verify a backup"), session.client() as client:
        if name is None:
            name = _newest(client)
        reject_empty_names(name, noun="backup")
        found = client.verify_backup(name)
        if wait:
            found = _follow(session, client, found)
    session.write([_row(found)], _COLUMNS)
    _note_gaps(session, [found])
    if wait and found.verification_problem is not None:
        terminal.say_error(f"backup {found.id} was not verified", cause=found.verification_problem)
        raise typer.Exit(exit_codes.FAILED)
    sentences = [] if found.verification is None or not wait else found.verification.sentences
    if sentences:
        terminal.say_error(f"backup {found.id} is damaged", details=sentences, hint=DAMAGED_HINT)
        raise typer.Exit(exit_codes.FAILED)


@session_flags
def restore(
    name: Annotated[str, typer.Argument(metavar="ID", help="Id of a backup.")],
    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="A topic of the backup.")],
    new_name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Name of the new topic. Default: that of the topic.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only messages that were appended before this time.")
    ] = None,
    offset: Annotated[
        list[str] | None,
        typer.Option("--offset", metavar="P=N", help="Only messages of partition P below offset N; may be repeated."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")] = False,
    *,
    session: Session,
) -> None:
    """Restore one topic of a backup as a new topic.

    \b
      goqueue-admin backup restore 20261120T031500Z-5f0c2a9b --topic orders --as o
      goqueue-admin backup restore ID --topic orders --until 2026-11-20T02:00:00Z
      goqueue-admin backup restore ID --topic orders --offset 0=1200 --dry-run

    The running broker goes on. Messages have the same offsets, delayed ones are delivered, and open transactions are
    aborted. `goqueue restore` restores everything into an empty directory.
    """
    reject_empty_names(name, noun="backup")
    offsets = dict(map(_parse_offset, offset or ()))
    moment = None if until is None else parse_time_flag("--until", until)
    with doing(f"restore topic {topic}"), session.client() as client:
        found = client.restore_topic(name, topic, new_name, until=moment, offsets=offsets, dry_run=dry_run)
        state, problem, size = "planned", None, None
        if not dry_run:
            restored = _follow(session, client, client.backup(name)).restore
            state, problem = ("unknown", None) if restored is None else (restored.state, restored.problem)
            size = None if restored is None else restored.bytes
    columns = (
        Column("TOPIC", "name"),
        Column("PARTITIONS", "partitions", format_count),
        Column("SIZE", "bytes", format_size),
        Column("STATE", "state"),
    )
    row = {**struct_to_row(found), "state": state}
    session.write([row if size is None else {**row, "bytes": size}], columns)
    if size == 0 and found.bytes:
        session.note(f"topic {found.name} is empty: nothing in the backup comes before the cut")
    elif size is None and (until or offsets):
        session.note("SIZE is that in the backup, before it is cut")
    if problem is not None:
        terminal.say_error(f"topic {found.name} was not restored", cause=problem)
        raise typer.Exit(exit_codes.FAILED)


def _parse_offset(text: str) -> tuple[int, int]:
    try:
        return parse_end_offset(text)
    except ValueError as error:
        raise UsageInvalid(f"--offset {error}", hint="write --offset 0=1200") from None


@session_flags
def delete(
    names: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of backups.")],
    *,
    consent: Consent,
    session: Session,
) -> None:
    """Delete backups, or cancel one that is running.

    \b
      goqueue-admin backup delete 20261120T031500Z-5f0c2a9b
      goqueue-admin backup delete 20261120T031500Z-5f0c2a9b --yes

    What other backups need stays.
    """
    reject_empty_names(*names, noun="backup")
    if consent.dry_run:
        terminal.say(f"that would delete {', '.join(names)}")
        return
    require_confirmation(session, f"delete the backups {', '.join(names)}", name=" ".join(names), consent=consent)

    def work(client: "Client", name: str) -> dict[str, Any]:
        return {"name": name, **client.delete_backup(name)}

    for_each_name(session, names, "delete backup", work, in_table((Column("ID", "id"), Column("RESULT", "result"))))


@session_flags
def prune(*, consent: Consent, session: Session) -> None:
    """Delete the backups that retention does not keep.

    \b
      goqueue-admin backup prune --dry-run
      goqueue-admin backup prune --yes

    `backup.keep_hourly`, `keep_daily`, `keep_weekly` and `keep_monthly` say which are kept. The newest backup and the
    newest verified one always are. With `backup.interval` the broker does this after each backup.
    """
    columns = (Column("ID", "name"), Column("RESULT", "result"))
    with doing("prune backups"), session.client() as client:
        found = client.prune_backups(dry_run=True)
        if found.deleted and not consent.dry_run:
            what = f"delete {format_count(len(found.deleted), 'backup')} that retention does not keep"
            require_confirmation(session, what, name="backups", consent=consent)
            found = client.prune_backups()
    result = "would be deleted" if consent.dry_run else "deleted"
    session.write([{"name": name, "result": result} for name in found.deleted], columns)
    session.note(f"{format_count(len(found.kept), 'backup')} kept")


@session_flags
def schedule(*, session: Session) -> None:
    """Show when the next backup begins, and which are kept.

    \b
      goqueue-admin backup schedule

    The settings `backup.interval` and `backup.keep_...` make the schedule.
    """
    with doing("show the schedule of backups"), session.client() as client:
        found = client.backups()
    columns = (
        Column("INTERVAL", "interval_seconds", lambda seconds: format_duration(seconds) if seconds else "-"),
        Column("NEXT", "next_at", _optional_time),
        *(Column(one.upper(), f"keep_{one}", format_count) for one in ("hourly", "daily", "weekly", "monthly")),
    )
    session.write([{"name": "schedule", **struct_to_row(found.schedule)}], columns)
    if found.target is None:
        session.note(NO_TARGET)
    elif found.schedule.next_at is None:
        session.note(NO_SCHEDULE)
