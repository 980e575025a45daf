"""`goqueue fsck`: check a data directory, and repair it."""

import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from multiprocessing import get_context
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from goqueue.clock import NANOSECONDS
from goqueue.config import load
from goqueue.console import exit_codes, terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.flags import expand_flags
from goqueue.errors import AccessDenied, DataDirectoryForeign, LogNotFound
from goqueue.quantities import format_count, format_size
from goqueue.storage import check
from goqueue.storage.check import FsckFinding, KnownEnd, LogReport, SegmentReport, SegmentTask
from goqueue.storage.disk import SystemDisk
from goqueue.storage.layout import check_directory, find_logs
from goqueue.storage.recovery import read_clean_shutdown
from goqueue.storage.store import process_name

if TYPE_CHECKING:
    from goqueue.backup.target import BackupTarget
    from goqueue.broker.offline_catalog import LostTopic

_HINT = "name a directory that a broker has used"
_PARALLEL_BYTES = 64 * 1024 * 1024  # below this a second process costs more than it saves
_PROGRESS_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RepairSource:
    """Flags that name the backups to repair from."""

    repair_from: Annotated[
        str | None,
        typer.Option(
            "--repair-from", metavar="TARGET", help="With --repair: first replace damage by the same bytes of backups."
        ),
    ] = None
    key_file: Annotated[
        str | None, typer.Option("--key-file", metavar="PATH", help="File with the keys of the backups.")
    ] = None

    def open(self) -> "BackupTarget | None":
        """Open the target; the environment has the settings of an object store."""
        from goqueue.backup.opening import open_target  # noqa: PLC0415 - only with its flag

        if self.repair_from is None:
            return None
        settings = load(None, os.environ, {"backup.key_file": self.key_file}).backup
        target = open_target(self.repair_from, settings)
        target.read_keys()
        target.check()
        return target


@expand_flags
def fsck(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The data directory.")],
    logs: Annotated[
        list[str] | None, typer.Argument(metavar="[LOG...]", help="Names or patterns of logs. Default: all logs.")
    ] = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Restore from copies, rebuild caches, cut torn tails, replace lost logs with empty ones.",
        ),
    ] = False,
    *,
    source: RepairSource,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=64, help="Number of processes.")] = os.cpu_count() or 1,
    output: Annotated[Literal["table", "json"], typer.Option("--output", "-o", help="Output format.")] = "table",
) -> None:
    """Check every frame, its order and every index of a data directory.

    \b
      goqueue fsck ./goqueue-data
      goqueue fsck ./goqueue-data 'orders/*' -o json
      goqueue fsck ./goqueue-data --repair
      goqueue fsck ./goqueue-data --repair --repair-from /mnt/backups

    The broker must not be running. Nothing is changed without --repair, which shows its plan first. The exit code is 1
    if messages are damaged or missing. A missing or wrong index is no damage: it is rebuilt from the log.
    """
    if not directory:
        raise UsageInvalid("the path of the directory is empty", hint="use . for the current one")
    if source.repair_from is not None and not repair:
        raise UsageInvalid("--repair-from repairs nothing without --repair", hint="add --repair, which shows its plan")
    disk, root = SystemDisk(), f"{directory.rstrip('/') or '/'}/logs"
    _refuse_foreign(disk, directory, root)
    target = source.open()
    with _held(disk, directory, for_repair=repair):
        ends = _known_ends(disk, directory, root)
        names = _chosen(sorted({*find_logs(disk, root), *ends}), logs or [])
        reports = _check(disk, root, names, ends, jobs)
        if target is not None and _repair_from(disk, root, reports, target, yes=yes):
            reports = _check(disk, root, names, ends, jobs)
        lost = _lost_topics(disk, root, reports)
        repairs = [finding for report in reports for finding in report.findings if finding.repair]
        if repair and repairs:
            _agree(repairs, sum(finding.is_damage for report in reports for finding in report.findings), yes=yes)
            _make_repairs(disk, root, reports, lost)
            reports = _check(disk, root, names, ends, jobs)
            _lost_topics(disk, root, reports)
    _show(reports, output)
    if repair and repairs and (left := sum(finding.repair is not None for r in reports for finding in r.findings)):
        terminal.say_error(f"{format_count(left, 'repair')} could not be made", hint="is the disk full?")
        raise typer.Exit(exit_codes.FAILED)
    if any(finding.is_damage for report in reports for finding in report.findings):
        raise typer.Exit(exit_codes.FAILED)


def _make_repairs(disk: SystemDisk, root: str, reports: list[LogReport], lost: "list[LostTopic]") -> None:
    for report in reports:
        if any(finding.repair for finding in report.findings):
            check.repair_log(disk, f"{root}/{report.name}", report)
    if lost:
        from goqueue.broker.offline_catalog import record_topics  # noqa: PLC0415 - with the broker, as below

        record_topics(disk, root, lost)


def _repair_from(disk: SystemDisk, root: str, reports: list[LogReport], target: "BackupTarget", *, yes: bool) -> bool:
    """Replace damage by the same bytes of backups, after a confirmation; return whether anything was changed."""
    from goqueue.backup.repair import BackupRepair, PlannedRepair  # noqa: PLC0415 - only with its flag

    repair, plans = BackupRepair(disk, target), list[PlannedRepair]()
    for report in reports:
        damages = [finding for finding in report.findings if finding.is_damage]
        gone = [finding for finding in damages if finding.code == "log_missing"]
        if gone:
            plans += repair.plan_log(report.name, f"{root}/{report.name}", gone[0].next_offset or 0)
        elif damages:
            plans += repair.plan_segments(report.name, f"{root}/{report.name}", [one.path for one in damages])
    if not plans:
        terminal.say("the backups have nothing that replaces the damage")
        return False
    terminal.say("from backups:", *(f"  {one.sentence}" for one in plans))
    _confirm(f"replace {format_count(len(plans), 'part')} by the same bytes of backups?", yes=yes)
    for one in plans:
        repair.make(one)
    return True


def _refuse_foreign(disk: SystemDisk, directory: str, root: str) -> None:
    """Refuse a directory that no broker has used."""
    try:
        check_directory(disk, directory)
    except DataDirectoryForeign as error:
        error.hint = _HINT  # an empty one, which a broker would take, is nothing to check
        raise
    if disk.kind(root) == "absent":
        raise DataDirectoryForeign(f"{directory} is not a GoQueue data directory: it holds no logs", hint=_HINT)


@contextmanager
def _held(disk: SystemDisk, directory: str, *, for_repair: bool) -> Iterator[None]:
    """Keep a broker from starting meanwhile; a directory that cannot be written cannot have a broker."""
    path = f"{directory}/lock"
    lock = None
    if for_repair or disk.kind(path) == "file":
        try:
            lock = disk.lock(path, process_name("goqueue fsck", os.getpid()))
        except AccessDenied as error:
            if for_repair:
                raise
            terminal.say(f"not locked, a broker may be writing meanwhile: {error}")
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _chosen(names: list[str], patterns: list[str]) -> list[str]:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            known = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
            raise LogNotFound(f"no log matches {pattern!r}", hint=f"there are: {known}" if names else None)
    return [name for name in names if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)]


def _known_ends(disk: SystemDisk, directory: str, root: str) -> dict[str, KnownEnd]:
    """Return the known end of each log; a clean stop has exact ones."""
    from goqueue.broker.offline_catalog import read_noted_ends  # noqa: PLC0415

    clean = read_clean_shutdown(disk, directory).logs
    noted = {name: KnownEnd(end, is_exact=False) for name, end in read_noted_ends(disk, root).items()}
    return noted | {name: KnownEnd(state.next_offset, is_exact=True) for name, state in clean.items()}


def _check(disk: SystemDisk, root: str, names: list[str], ends: dict[str, KnownEnd], jobs: int) -> list[LogReport]:
    planned = {name: check.plan_check(disk, name, f"{root}/{name}") for name in names}
    tasks = [task for found, _ in planned.values() for task in found]
    total = sum(task.segment.size for task in tasks)
    done: dict[str, list[SegmentReport]] = defaultdict(list)
    with _progress(total) as advance:
        if jobs > 1 and len(tasks) > 1 and total > _PARALLEL_BYTES:
            with ProcessPoolExecutor(min(jobs, len(tasks)), get_context("forkserver")) as pool:
                for report in pool.map(_check_one, tasks):
                    done[report.task.log].append(report)
                    advance(report.task.segment.size)
        else:
            for task in tasks:
                done[task.log].append(check.check_segment(disk, task, advance))
    return [
        check.summarize_log(name, f"{root}/{name}", done[name], strangers, ends.get(name))
        for name, (_, strangers) in planned.items()
    ]


def _lost_topics(disk: SystemDisk, root: str, reports: list[LogReport]) -> "list[LostTopic]":
    """Find topics without a record whose first log is checked, and add a finding to the report of that log."""
    from goqueue.broker.internal_topics import CATALOG  # noqa: PLC0415
    from goqueue.broker.offline_catalog import find_lost_topics  # noqa: PLC0415

    by_topic: dict[str, LogReport] = {}
    for report in reports:
        by_topic.setdefault(report.name.partition("/")[0], report)
    lost = [topic for topic in find_lost_topics(disk, root) if topic.name in by_topic]
    for topic in lost:
        count = format_count(topic.partitions, "partition")
        repair = f"record it again: {count}, with the settings of a new topic"
        sentence = f"no record in {CATALOG} speaks of this topic, so no broker serves it"
        finding = FsckFinding("topic_unrecorded", f"{root}/{topic.name}", sentence, repair=repair)
        by_topic[topic.name].findings.append(finding)
    return lost


def _check_one(task: SegmentTask) -> SegmentReport:
    return check.check_segment(SystemDisk(), task)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal, for long work."""
    if total < _PROGRESS_BYTES or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 - only here
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (TextColumn("checking"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("checking", total=total)
        yield lambda count: bar.update(task, advance=count)


def _agree(repairs: list[FsckFinding], damaged: int, *, yes: bool) -> None:
    if damaged:
        terminal.say(f"found {format_count(damaged, 'damage')}; lost messages cannot be restored")
    terminal.say("to repair:", *(f"  {finding.path}: {finding.repair}" for finding in repairs))
    _confirm(f"make {format_count(len(repairs), 'repair')}?", yes=yes)


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageInvalid("confirmation required to repair", hint="`--yes` confirms it")
    typer.confirm(question, abort=True, err=True)


def _show(reports: list[LogReport], output: str) -> None:
    findings = [finding for report in reports for finding in report.findings]
    damaged = sum(finding.is_damage for finding in findings)
    if output == "json":
        logs = [_as_json(report) for report in reports]
        terminal.write(json.dumps({"sound": not damaged, "logs": logs}, indent=2) + "\n")
        return
    terminal.write_table(
        ("LOG", "SEGMENTS", "MESSAGES", "SIZE", "OFFSETS", "LAST MESSAGE", "STATE"), map(_row, reports)
    )
    terminal.write_lines(f"{finding.path}: {finding.sentence}  [{finding.code}]" for finding in findings)
    caches = sum(finding.is_cache for finding in findings)
    messages = sum(report.messages for report in reports)
    terminal.say(
        f"{format_count(len(reports), 'log')}, {format_count(messages, 'message')}, "
        f"{format_size(sum(report.size for report in reports))}: "
        + (format_count(damaged, "damage") if damaged else "no damage")
        + (f", {format_count(caches, 'cache')} to rebuild" if caches else "")
    )
    if any(finding.repair for finding in findings):
        terminal.say("--repair would rebuild caches, cut torn tails, and replace lost logs with empty ones")


def _row(report: LogReport) -> tuple[str, ...]:
    codes = list(dict.fromkeys(finding.code for finding in report.findings))
    return (
        report.name,
        f"{report.segments:,}",
        f"{report.messages:,}",
        format_size(report.size),
        f"{report.first_offset}-{report.next_offset - 1}" if report.next_offset > report.first_offset else "none",
        _moment(report.last_time) or "-",
        ", ".join(codes) or "sound",
    )


def _as_json(report: LogReport) -> dict[str, Any]:
    findings = [{**asdict(finding), "damage": finding.is_damage} for finding in report.findings]
    times = {"first_time": _moment(report.first_time), "last_time": _moment(report.last_time)}
    return {**asdict(report), **times, "findings": findings}


def _moment(time: int | None) -> str | None:
    if time is None:
        return None
    return datetime.fromtimestamp(time // NANOSECONDS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
