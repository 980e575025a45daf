"""`goqueue backup` and `goqueue restore`: backups in a directory or an object store, without a broker."""

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.config import load
from goqueue.console import exit_codes, terminal
from goqueue.console.backups import INCOMPLETE, count_text, progress_text, size_text
from goqueue.console.failure import UsageInvalid
from goqueue.console.flags import expand_flags
from goqueue.console.formatting import format_to_second
from goqueue.console.positions import parse_time_flag
from goqueue.console.rows import Column
from goqueue.console.session import Session, output_flags
from goqueue.quantities import format_count, format_duration, format_size, format_time, quoted

if TYPE_CHECKING:
    from goqueue.backup.manifest import Manifest
    from goqueue.backup.restore import RestorePlan
    from goqueue.backup.restore_point import PointInTime
    from goqueue.backup.target import BackupTarget

_NameArgument = Annotated[str | None, typer.Argument(metavar="[ID]", help="Id of the backup. Default: the newest.")]
_COLUMNS = (
    Column("ID", "name"),
    Column("STATE", "state"),
    Column("TIME", "cut_at", lambda text: "-" if text is None else format_to_second(text)),
    Column("SIZE", "bytes", size_text),
    Column("NEW", "new_bytes", size_text),
    Column("LOGS", "logs", count_text),
    Column("DAMAGED", "damaged_ranges", count_text, wide=True),
    Column("VERSION", "version", lambda text: text or "-", wide=True),
    Column("KEY", "key", lambda text: text or "-", wide=True),
    Column("PROBLEM", "problem", lambda text: text or "-", wide=True),
)
_LOGS = (
    Column("LOG", "name"),
    Column("OFFSETS", "offsets"),
    Column("SIZE", "bytes", format_size),
    Column("SEGMENTS", "segments", format_count),
    Column("DAMAGED", "damaged_ranges", format_count),
)


_DIFFERENCES = (
    Column("LOG", "name"),
    Column("BEFORE", "before", lambda offset: "-" if offset is None else format_count(offset)),
    Column("AFTER", "after", lambda offset: "-" if offset is None else format_count(offset)),
    Column("NEW", "new_bytes", format_size),
    Column("GONE", "gone_bytes", format_size),
)


class _ProgressLine:
    """One line on stderr with the share, the rate and the time left."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._done, self._began, self._shown = 0, time.monotonic(), 0.0

    def __call__(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._shown < 0.1 or not self._total:
            return
        self._shown = now
        rate = self._done / max(0.001, now - self._began)
        left = (self._total - self._done) / rate if rate else None
        found = {
            "bytes_done": self._done,
            "bytes_total": self._total,
            "bytes_per_second": rate,
            "seconds_left": left,
        }
        terminal.show_status(f"{self._what}: {progress_text(found)}")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began


@dataclass(frozen=True, slots=True)
class BackupSource:
    """Flags that name a target, and how it is read."""

    source: Annotated[str, typer.Option("--from", metavar="TARGET", help="Directory or object store of backups.")]
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="FILE", help="YAML file with settings, as of the object store."),
    ] = None
    key_file: Annotated[
        str | None, typer.Option("--key-file", metavar="PATH", help="File with the keys of the backups, or none.")
    ] = None

    def open(self) -> "BackupTarget":
        from goqueue.backup.opening import open_target  # noqa: PLC0415 - not for --help and completion

        if not self.source:
            raise UsageInvalid("--from is empty", hint="name the directory with the backups")
        settings = load(self.config, os.environ, {"backup.key_file": self.key_file}).backup
        target = open_target(self.source, settings)
        target.read_keys()
        target.check()
        return target


def _manifest(target: "BackupTarget", name: str | None) -> "Manifest":
    from goqueue.backup.verify import load_manifest  # noqa: PLC0415
    from goqueue.errors import BackupNotFound  # noqa: PLC0415

    if name is None:
        ids = target.ids()
        if not ids:
            raise BackupNotFound(f"there is no backup in {target}", hint="name another target")
        name = ids[-1]
    try:
        return load_manifest(target, name)
    except BackupNotFound as error:  # the broker that the usual hint needs may be what is to be restored
        if (error.hint or "").startswith("did you mean"):
            raise
        raise BackupNotFound(error.sentence, hint=f"`goqueue backup list --from {target}` shows all") from None


@output_flags
def list_backups(*, target: BackupSource, session: Session) -> None:
    """List the backups of a target, the newest first.

    \b
      goqueue backup list --from /mnt/backups
      goqueue backup list --from s3://bucket/prefix
    """
    from goqueue.backup.catalog import BackupCatalog  # noqa: PLC0415

    rows: list[dict[str, Any]] = [
        {
            "name": one.id,
            "state": one.state,
            "cut_at": format_time(one.cut_ns) if one.cut_ns else None,
            "bytes": one.size if one.cut_ns else None,  # where the manifest cannot be read, nothing is known
            "new_bytes": one.new_bytes if one.cut_ns else None,
            "logs": one.logs if one.cut_ns else None,
            "damaged_ranges": one.damages if one.cut_ns else None,
            "version": one.version or None,
            "key": one.key_id or None,
            "problem": one.problem,
        }
        for one in reversed(BackupCatalog(target.open()).summaries())
    ]
    session.write(rows, _COLUMNS)
    session.note(format_count(len(rows), "backup"))
    if any(row["state"] == "incomplete" for row in rows):
        session.note(INCOMPLETE)


@output_flags
def describe(name: _NameArgument = None, *, target: BackupSource, session: Session) -> None:
    """List the logs of a backup with their offsets.

    \b
      goqueue backup describe --from /mnt/backups
      goqueue backup describe --from /mnt/backups -o json
    """
    manifest = _manifest(target.open(), name)
    rows = [
        {
            "name": log.name,
            "first_offset": log.first_offset,
            "next_offset": log.next_offset,
            "offsets": f"{log.first_offset}-{log.next_offset - 1}" if log.next_offset > log.first_offset else "none",
            "bytes": log.size,
            "segments": len(log.segments),
            "damaged_ranges": len(log.damages),
        }
        for log in manifest.logs
    ]
    session.write(rows, _LOGS)
    session.note(
        f"backup {manifest.id} of {format_time(manifest.cut_ns)}: {format_count(len(rows), 'log')}, "
        f"{format_size(manifest.size)}",
        *_missing(manifest),
    )


def _missing(manifest: "Manifest") -> list[str]:
    return [f"{name} is not in it: {reason}" for name, reason in sorted(manifest.unavailable.items())]


@output_flags
def diff(
    earlier: Annotated[str, typer.Argument(metavar="EARLIER", help="Id of a backup.")],
    later: Annotated[str | None, typer.Argument(metavar="[LATER]", help="Id of another. Default: the newest.")] = None,
    *,
    target: BackupSource,
    session: Session,
) -> None:
    """List the logs that differ in two backups.

    \b
      goqueue backup diff 20261119T031500Z-5f0c2a9b --from /mnt/backups
      goqueue backup diff EARLIER LATER --from /mnt/backups -o json

    BEFORE and AFTER are where each log ends. NEW is what only the later one has, GONE what only the earlier one has:
    retention or compaction has removed it.
    """
    from goqueue.backup.difference import compare_backups  # noqa: PLC0415

    opened = target.open()
    before, after = _manifest(opened, earlier), _manifest(opened, later)
    if later is None and before.id == after.id:
        raise UsageInvalid(
            f"backup {after.id} is the newest: there is none to compare it with", hint="name an earlier one"
        )
    rows = [
        {
            "name": one.name,
            "before": one.before,
            "after": one.after,
            "new_bytes": one.new_bytes,
            "gone_bytes": one.gone_bytes,
        }
        for one in compare_backups(before, after)
    ]
    session.write(rows, _DIFFERENCES)
    session.note(f"{format_count(len(rows), 'log')} of {format_count(len(after.logs))} differ")


@expand_flags
def verify(name: _NameArgument = None, *, target: BackupSource) -> None:
    """Read everything of a backup again: each hash and each frame.

    \b
      goqueue backup verify --from /mnt/backups
      goqueue backup verify 20261120T031500Z-5f0c2a9b --from /mnt/backups

    The exit code is 1 if anything is not as it was written.
    """
    from goqueue.backup.verify import verify_backup  # noqa: PLC0415

    opened = target.open()
    manifest = _manifest(opened, name)
    line = _ProgressLine("verifying", manifest.size)
    try:
        report = verify_backup(opened, manifest.id, pace=line)
    finally:
        terminal.show_status("")
    if not report.is_sound:
        terminal.say_error(
            f"backup {manifest.id} has {format_count(report.problem_count, 'problem')}",
            details=map(str, report.problems),
            hint="restore another one, or let a broker of this target repair it: `goqueue-admin backup verify` finds "
            "the damage, and the next backup writes again what it needs of it",
        )
        raise typer.Exit(exit_codes.FAILED)
    terminal.say(
        f"backup {manifest.id} is sound: {format_count(report.frames, 'message')} in "
        f"{format_count(len(manifest.logs), 'log')}, {format_size(manifest.size)}",
        *(f"but {line}" for line in _missing(manifest)),
    )


@expand_flags
def restore(
    name: _NameArgument = None,
    *,
    target: BackupSource,
    data_dir: Annotated[
        str | None, typer.Option("--data-dir", metavar="PATH", help="Empty or absent data directory to fill.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Only what was appended before this time.")
    ] = None,
    offset: Annotated[
        list[str] | None,
        typer.Option(
            "--offset", metavar="TOPIC/P=N", help="Only messages of a partition below offset N; may be repeated."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")] = False,
) -> None:
    """Restore a backup into an empty data directory.

    \b
      goqueue restore --from /mnt/backups --data-dir ./goqueue-data --dry-run
      goqueue restore --from /mnt/backups --data-dir ./goqueue-data
      goqueue restore 20261120T031500Z-5f0c2a9b --from /mnt/backups
      goqueue restore --from /mnt/backups --to 2026-11-20T02:00:00Z
      goqueue restore --from /mnt/backups --offset orders/0=1200

    It has the same bytes at the same offsets. Every object is verified on its way. A restore that was interrupted
    continues when it is run again; until it is complete, no broker opens the directory. With --to, the default backup
    is the earliest one behind that time.
    """
    from goqueue.backup.cut_writer import log_writer  # noqa: PLC0415
    from goqueue.backup.restore import plan_restore, restore_backup  # noqa: PLC0415
    from goqueue.storage.disk import SystemDisk  # noqa: PLC0415
    from goqueue.storage.store import process_name  # noqa: PLC0415

    opened, disk = target.open(), SystemDisk()
    path = load(target.config, os.environ, {"data_dir": data_dir}).data_dir
    moment = None if to is None else parse_time_flag("--to", to)
    manifest, point = _point(opened, name, moment, dict(map(_parse_offset, offset or ())))
    if f"{os.path.abspath(path)}/".startswith(f"{opened}/"):
        raise UsageInvalid(f"{path} is in the target of the backups", hint="name a directory elsewhere")
    plan = plan_restore(disk, manifest, path, point)
    terminal.say(*_sentences(plan))
    if dry_run:
        return
    line = _ProgressLine("restoring", plan.bytes)
    owner = process_name("goqueue restore", os.getpid())
    try:
        restore_backup(disk, opened, plan, owner, line, log_writer(point))
    finally:
        terminal.show_status("")
    terminal.say(f"restored in {format_duration(round(line.seconds, 1))}; start it with:")
    terminal.write(f"goqueue serve --data-dir {path}\n")


def _parse_offset(text: str) -> tuple[str, int]:
    log, sign, offset = text.partition("=")
    if not (log and sign and offset.isascii() and offset.isdecimal() and len(offset) < 19):
        raise UsageInvalid(
            f"--offset {quoted(text)} is not a partition and an offset", hint="write --offset orders/0=1200"
        )
    return log, int(offset)


def _point(
    target: "BackupTarget", name: str | None, time_ns: int | None, offsets: dict[str, int]
) -> "tuple[Manifest, PointInTime | None]":
    """Return the backup to restore, and where its logs end if not at their ends."""
    from goqueue.backup.point_in_time import PointPlanner, backup_before, choose_backups  # noqa: PLC0415
    from goqueue.errors import RestoreImpossible  # noqa: PLC0415

    if time_ns is None and not offsets:
        return _manifest(target, name), None
    if time_ns is None or name is not None:
        manifest = _manifest(target, name)
        earlier = None if time_ns is None else backup_before(target, manifest, time_ns)
    else:
        manifest, earlier = choose_backups(target, time_ns)
    if time_ns is not None and time_ns > manifest.cut_ns:
        raise RestoreImpossible(
            f"backup {manifest.id} is of {format_time(manifest.cut_ns)}, and --to is later",
            hint="leave out its id, or choose an earlier time",
        )
    return manifest, PointPlanner(target, manifest, earlier, time_ns).plan(offsets)


def _sentences(plan: "RestorePlan") -> list[str]:
    manifest, point = plan.manifest, plan.point
    moment = manifest.cut_ns if point is None or point.time_ns is None else point.time_ns
    lines = [
        f"{'continue to restore' if plan.is_continued else 'restore'} backup {manifest.id} to {plan.path}",
        f"  {format_count(len(manifest.logs), 'log')}, {format_count(plan.segments, 'segment')}, "
        f"{format_size(plan.bytes)}{'' if point is None else ' before they are cut'}, as they were at "
        f"{format_time(moment)}",
    ]
    if point is not None:
        from goqueue.backup.restore_point import describe_ends, keeps_messages  # noqa: PLC0415

        if not keeps_messages(manifest, point):
            lines.append("  no message of a topic was there then")
        lines += [f"  {line}" for line in describe_ends(point)]
    damages = sum(len(log.damages) for log in manifest.logs)
    if damages:
        lines.append(f"  {format_count(damages, 'range')} of logs were damaged before the backup, and stay so")
    return lines + [f"  {line}" for line in _missing(manifest)]
