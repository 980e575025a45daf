"""Backups: make, list, describe, verify and delete them."""

from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct

from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import Offset, PartitionKey, Time
from goqueue.backup.catalog import BackupSummary
from goqueue.backup.manifest import LogEntry, Manifest
from goqueue.quantities import format_time
from goqueue.runtime.backup_runner import BackupRun, BackupRunner, RunState
from goqueue.runtime.topic_restorer import TopicRestorer

BackupState = Literal["running", "complete", "incomplete", "failed", "cancelled", "damaged", "locked"]


class BackupProgressJson(Struct, kw_only=True):
    activity: Annotated[Literal["backup", "verification", "restore"], Meta(description="What is running.")]
    bytes_total: int
    bytes_done: Annotated[int, Meta(description="Includes what need not be copied.")]
    bytes_per_second: Annotated[float, Meta(description="Of what had to be read, on average.")]
    seconds_left: Annotated[float | None, Meta(description="null until it can be told.")]


class BackupVerificationJson(Struct, kw_only=True):
    verified_at: str
    problems: int
    sentences: Annotated[list[str], Meta(description="Some of the problems.")]


class TopicRestoreJson(Struct, kw_only=True):
    topic: Annotated[str, Meta(description="The name of the new topic.")]
    state: RunState
    problem: str | None
    bytes: Annotated[int | None, Meta(description="Of the new topic, once it is complete.")]


class BackupJson(Struct, kw_only=True):
    id: str
    state: Annotated[
        BackupState,
        Meta(
            description="incomplete: it lacks logs; damaged: its manifest cannot be read; locked: it is encrypted with "
            "another key."
        ),
    ]
    cut_at: Annotated[str | None, Meta(description="The moment that it has the state of.")] = None
    finished_at: str | None = None
    version: str | None = None
    key: Annotated[str | None, Meta(description="Id of the key that it is encrypted with.")] = None
    bytes: Annotated[int, Meta(description="Of all logs.")] = 0
    new_bytes: Annotated[int, Meta(description="Added to the target by this backup.")] = 0
    logs: int = 0
    damaged_ranges: Annotated[int, Meta(description="Ranges of logs that were damaged when they were copied.")] = 0
    unavailable: Annotated[list[str], Meta(description="Logs that the broker could not open.")] = []
    problem: str | None = None
    verification: BackupVerificationJson | None = None
    verification_problem: Annotated[
        str | None,
        Meta(description="Why its last verification since the start of the broker could not be done."),
    ] = None
    progress: BackupProgressJson | None = None
    restore: Annotated[
        TopicRestoreJson | None, Meta(description="The last restore of a topic from it, since the broker started.")
    ] = None


class DamagedRangeJson(Struct, kw_only=True):
    base_offset: Annotated[int, Meta(description="Of the segment.")]
    position: Annotated[int, Meta(description="The first damaged byte of the segment.")]
    end: Annotated[int, Meta(description="The byte behind the last damaged one.")]
    reason: str


class BackupLogJson(Struct, kw_only=True):
    name: str
    first_offset: int
    next_offset: Annotated[int, Meta(description="Behind the last message.")]
    bytes: int
    segments: int
    damages: Annotated[list[DamagedRangeJson], Meta(description="They were damaged when they were copied.")]


class BackupLogsResponse(Struct, kw_only=True):
    id: str
    logs: list[BackupLogJson]


class BackupScheduleJson(Struct, kw_only=True):
    interval_seconds: float
    next_at: Annotated[str | None, Meta(description="When the next backup begins; null while there is no schedule.")]
    keep_hourly: int
    keep_daily: int
    keep_weekly: int
    keep_monthly: int


class BackupListResponse(Struct, kw_only=True):
    target: Annotated[str | None, Meta(description="Where backups are kept; null without backups.")]
    schedule: BackupScheduleJson
    backups: Annotated[list[BackupJson], Meta(description="The newest first.")]


class DeleteBackupResponse(Struct, kw_only=True):
    id: str
    result: Literal["deleted", "cancelled"]


class CreateBackupRequest(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    new_target: Annotated[
        bool, Meta(description="Begin with what is at the target, where the known backups are gone.")
    ] = False


class PruneBackupsRequest(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    dry_run: bool = False


class PruneBackupsResponse(Struct, kw_only=True):
    dry_run: bool
    kept: list[str]
    deleted: Annotated[list[str], Meta(description="With `dry_run`: would be deleted.")]


class RestoreTopicRequest(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    topic: Annotated[str, Meta(min_length=1, max_length=300, description="A topic of the backup.")]
    name: Annotated[str | None, Meta(description="The name of the new topic. Default: that of the topic.")] = None
    until: Annotated[Time | None, Meta(description="Only messages that were appended before this time.")] = None
    offsets: Annotated[
        dict[PartitionKey, Offset], Meta(description="By partition: only messages below this offset.")
    ] = {}
    dry_run: bool = False


class RestoreTopicResponse(Struct, kw_only=True):
    backup: str
    topic: str
    name: str
    partitions: int
    bytes: Annotated[int, Meta(description="Of the logs in the backup, before they are cut.")]
    dry_run: bool


async def create(call: ApiCall, body: CreateBackupRequest) -> BackupJson:
    """Start a backup; the answer does not wait for it."""
    return _running(call.app.backups.begin_backup(is_new_target=body.new_target))


async def browse(call: ApiCall) -> BackupListResponse:
    runner = call.app.backups
    schedule = _schedule(call)
    if runner.target is None:
        return BackupListResponse(target=None, schedule=schedule, backups=[])
    found = {one.id: _stored(one, runner) for one in await runner.summaries()}
    runs = [*runner.runs.values(), *([runner.current] if runner.current is not None else [])]
    found |= {run.id: _running(run) for run in runs if run.kind == "backup" and run.id not in found}
    newest_first = [found[name] for name in sorted(found, reverse=True)]
    return BackupListResponse(target=str(runner.target), schedule=schedule, backups=newest_first)


def _schedule(call: ApiCall) -> BackupScheduleJson:
    schedule, keep = call.app.backup_schedule, call.app.backups.retention
    next_ns = schedule.next_ns
    return BackupScheduleJson(
        interval_seconds=schedule.interval_seconds,
        next_at=None if next_ns is None else format_time(next_ns),
        keep_hourly=keep.hourly,
        keep_daily=keep.daily,
        keep_weekly=keep.weekly,
        keep_monthly=keep.monthly,
    )


async def describe(call: ApiCall) -> BackupJson:
    runner, name = call.app.backups, call.parameters["backup"]
    current = runner.current
    run = current if current is not None and current.id == name else runner.runs.get(name)
    if run is not None and run.kind == "backup":
        return _running(run)
    found = _stored(await runner.summary(name), runner)
    if (restored := runner.restores.get(name)) is not None:
        found.restore = TopicRestoreJson(
            topic=restored.topic, state=restored.state, problem=restored.problem, bytes=restored.restored_bytes
        )
    return found


async def browse_logs(call: ApiCall) -> BackupLogsResponse:
    name = call.parameters["backup"]
    return await call.app.backups.run_list_job(partial(_logs, name, await call.app.backups.manifest(name)))


def _logs(name: str, manifest: Manifest) -> BackupLogsResponse:
    return BackupLogsResponse(id=name, logs=[_log(one) for one in manifest.logs])


def _log(log: LogEntry) -> BackupLogJson:
    return BackupLogJson(
        name=log.name,
        first_offset=log.first_offset,
        next_offset=log.next_offset,
        bytes=log.size,
        segments=len(log.segments),
        damages=[
            DamagedRangeJson(base_offset=one.base_offset, position=one.position, end=one.end, reason=one.reason)
            for one in log.damages
        ],
    )


async def verify(call: ApiCall) -> BackupJson:
    """Start to read a backup again; the answer does not wait for it."""
    name = call.parameters["backup"]
    await call.app.backups.begin_verification(name)
    return _stored(await call.app.backups.summary(name), call.app.backups)


async def restore(call: ApiCall, body: RestoreTopicRequest) -> RestoreTopicResponse:
    """Start to restore a topic as a new one; the answer does not wait for it."""
    backup, name = call.parameters["backup"], body.name or body.topic
    call.access.require("create", "topic", name)
    restorer = TopicRestorer(call.runtime, call.app.backups)
    offsets = {int(number): offset for number, offset in body.offsets.items()}
    found = await restorer.plan(backup, body.topic, name, body.until, offsets)
    if not body.dry_run:
        restorer.begin(found)
    return RestoreTopicResponse(
        backup=backup,
        topic=body.topic,
        name=name,
        partitions=found.spec.partitions,
        bytes=found.plan.size,
        dry_run=body.dry_run,
    )


async def prune(call: ApiCall, body: PruneBackupsRequest) -> PruneBackupsResponse:
    """Delete the backups that retention does not keep."""
    kept, deleted = await call.app.backups.prune(dry_run=body.dry_run)
    return PruneBackupsResponse(dry_run=body.dry_run, kept=kept, deleted=deleted)


async def delete(call: ApiCall) -> DeleteBackupResponse:
    name = call.parameters["backup"]
    return DeleteBackupResponse(id=name, result=await call.app.backups.remove(name))


def _running(run: BackupRun) -> BackupJson:
    return BackupJson(
        id=run.id,
        state=run.state,
        cut_at=format_time(run.began_ns),
        bytes=run.bytes_total,
        new_bytes=0 if run.progress is None else run.progress.new_bytes,
        problem=run.problem,
        progress=_progress(run),
    )


def _progress(run: BackupRun) -> BackupProgressJson | None:
    if run.state != "running":
        return None
    return BackupProgressJson(
        activity=run.kind,
        bytes_total=run.bytes_total,
        bytes_done=run.bytes_done,
        bytes_per_second=run.bytes_per_second,
        seconds_left=run.seconds_left,
    )


def _stored(one: BackupSummary, runner: BackupRunner) -> BackupJson:
    current = runner.current
    return BackupJson(
        id=one.id,
        state=one.state,
        cut_at=format_time(one.cut_ns) if one.cut_ns else None,
        finished_at=format_time(one.finished_ns) if one.finished_ns else None,
        version=one.version or None,
        key=one.key_id or None,
        bytes=one.size,
        new_bytes=one.new_bytes,
        logs=one.logs,
        damaged_ranges=one.damages,
        unavailable=list(one.unavailable),
        problem=one.problem,
        verification=None
        if one.verified_ns is None
        else BackupVerificationJson(
            verified_at=format_time(one.verified_ns), problems=one.problems, sentences=list(one.sentences)
        ),
        verification_problem=runner.verification_problems.get(one.id),
        progress=_progress(current) if current is not None and current.id == one.id else None,
    )
