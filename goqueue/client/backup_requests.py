"""The client's methods for backups that the broker makes."""

from collections.abc import Mapping
from typing import Any

import msgspec

from goqueue.client.address import quote
from goqueue.client.api_request import ApiRequest, json_request, operation
from goqueue.client.times import Moment, to_text


class BackupProgressInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a backup or its verification."""

    activity: str
    """backup, verification or restore."""
    bytes_total: int
    bytes_done: int
    bytes_per_second: float
    """The average rate at which what had to be read was read."""
    seconds_left: float | None = None
    """None until it can be told."""


class BackupVerificationInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the last verification of a backup."""

    verified_at: str
    problems: int
    sentences: list[str] = []


class TopicRestoreInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The last restore of a topic from a backup."""

    topic: str
    """The name of the new topic."""
    state: str
    """running, complete, failed or cancelled."""
    problem: str | None = None
    bytes: int | None = None
    """Size of the new topic, once it is complete."""


class TopicRestoreResult(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of a backup, and the new topic that is made of it."""

    backup: str
    topic: str
    name: str
    partitions: int
    bytes: int
    dry_run: bool


class BackupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A backup in the broker's target, or one that runs, failed or was cancelled."""

    id: str
    state: str
    """running, complete, incomplete (it lacks logs), failed, cancelled, damaged, or locked: it is encrypted with a key
    that the broker lacks.
    """
    cut_at: str | None = None
    """The moment that it has the state of."""
    finished_at: str | None = None
    version: str | None = None
    key: str | None = None
    """Id of the key that it is encrypted with."""
    bytes: int = 0
    new_bytes: int = 0
    logs: int = 0
    damaged_ranges: int = 0
    """Ranges of logs that were damaged when they were copied."""
    unavailable: list[str] = []
    """Logs that the broker could not open: they are not in the backup."""
    problem: str | None = None
    verification: BackupVerificationInfo | None = None
    verification_problem: str | None = None
    """Why its last verification since the start of the broker could not be done."""
    progress: BackupProgressInfo | None = None
    restore: TopicRestoreInfo | None = None


class BackupDamage(msgspec.Struct, frozen=True, kw_only=True):
    """A range of bytes of a segment that was damaged when it was copied."""

    base_offset: int
    position: int
    end: int
    reason: str


class BackupLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log in a backup; `next_offset` is behind its last message."""

    name: str
    first_offset: int
    next_offset: int
    bytes: int
    segments: int
    damages: list[BackupDamage] = []


class BackupLogs(msgspec.Struct, frozen=True, kw_only=True):
    """The logs of a backup."""

    id: str
    logs: list[BackupLog] = []


class BackupScheduleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """When the broker makes backups by itself, and which are kept."""

    interval_seconds: float = 0.0
    """0 without a schedule."""
    next_at: str | None = None
    keep_hourly: int = 0
    keep_daily: int = 0
    keep_weekly: int = 0
    keep_monthly: int = 0


class BackupsPruned(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the backups that retention keeps, and of those that it deletes."""

    dry_run: bool
    kept: list[str] = []
    deleted: list[str] = []


class BackupOverview(msgspec.Struct, frozen=True, kw_only=True):
    """The backups of a broker, the newest first."""

    target: str | None
    """None if the broker has no target for backups."""
    schedule: BackupScheduleInfo = BackupScheduleInfo()
    backups: list[BackupInfo] = []


_UNSURE = "it may have been done: list the backups before you send it again"


class BackupAdmin:
    """Backups."""

    @operation
    def backups(self) -> ApiRequest[BackupOverview]:
        """Return all backups, the newest first."""
        return json_request("GET", "/admin/backup", BackupOverview)

    @operation
    def backup(self, name: str) -> ApiRequest[BackupInfo]:
        """Return one backup, and how far it is."""
        return json_request("GET", f"/admin/backup/{quote(name)}", BackupInfo)

    @operation
    def backup_logs(self, name: str) -> ApiRequest[BackupLogs]:
        """Return the logs of a backup with their offsets."""
        return json_request("GET", f"/admin/backup/{quote(name)}/logs", BackupLogs)

    @operation
    def create_backup(self, *, new_target: bool = False) -> ApiRequest[BackupInfo]:
        """Start a backup, and return at once; `backup` tells how far it is.

        With `new_target`, it begins with what is at the target, where the known backups are gone.
        """
        body = {"new_target": new_target}
        return json_request("POST", "/admin/backup", BackupInfo, body, idempotent=False, unsure_hint=_UNSURE)

    @operation
    def verify_backup(self, name: str) -> ApiRequest[BackupInfo]:
        """Start to read everything of a backup again, and return at once."""
        path = f"/admin/backup/{quote(name)}/verify"
        return json_request("POST", path, BackupInfo, {}, idempotent=False, unsure_hint=_UNSURE)

    @operation
    def restore_topic(
        self,
        backup: str,
        topic: str,
        name: str | None = None,
        *,
        until: Moment | None = None,
        offsets: Mapping[int, int] | None = None,
        dry_run: bool = False,
    ) -> ApiRequest[TopicRestoreResult]:
        """Start to restore a topic as a new one, and return at once; `backup` tells how far it is.

        Only messages before `until` and, by partition, below `offsets` are restored.
        """
        body: dict[str, Any] = {"topic": topic, "name": name, "dry_run": dry_run}
        if until is not None:
            body["until"] = to_text(until)
        body["offsets"] = {str(number): offset for number, offset in (offsets or {}).items()}
        path = f"/admin/backup/{quote(backup)}/restore"
        return json_request("POST", path, TopicRestoreResult, body, idempotent=False, unsure_hint=_UNSURE)

    @operation
    def prune_backups(self, *, dry_run: bool = False) -> ApiRequest[BackupsPruned]:
        """Delete the backups that retention does not keep."""
        body = {"dry_run": dry_run}
        return json_request("POST", "/admin/backup/prune", BackupsPruned, body, idempotent=False, unsure_hint=_UNSURE)

    @operation
    def delete_backup(self, name: str) -> ApiRequest[dict[str, Any]]:
        """Delete a backup, or cancel it while it runs."""
        return json_request(
            "DELETE", f"/admin/backup/{quote(name)}", dict[str, Any], idempotent=False, unsure_hint=_UNSURE
        )
