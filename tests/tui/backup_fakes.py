"""A broker with backups in every state, whose answers never change."""

from typing import Any

from goqueue.client import (
    BackupDamage,
    BackupInfo,
    BackupLog,
    BackupLogs,
    BackupOverview,
    BackupProgressInfo,
    BackupScheduleInfo,
    BackupsPruned,
    BackupVerificationInfo,
    TopicRestoreInfo,
    TopicRestoreResult,
)
from tests.tui.delayed_fakes import at
from tests.tui.group_fakes import GroupClient

DAY = 86_400.0
NEWEST, SOUND, DAMAGED = "20251231T234500Z-2f00c2a9", "20251230T234500Z-1b11c2a9", "20251229T234500Z-0a22c2a9"
FAILED, RUNNING = "20251231T120000Z-3e33c2a9", "20251231T235930Z-4d44c2a9"
_SENTENCES = [f"orders/{number}, segment 0: object {number:064x} is damaged" for number in range(5)]


def backup(name: str, days: float, **told: Any) -> BackupInfo:
    """One that is complete, but for what is said otherwise."""
    facts: dict[str, Any] = {
        "state": "complete",
        "cut_at": at(-days * DAY),
        "finished_at": at(60 - days * DAY),
        "version": "0.1.0",
        "bytes": 8_765_432_198,
        "new_bytes": 187_654_321,
        "logs": 57,
    }
    return BackupInfo(id=name, **(facts | told))


def verified(days: float, problems: int = 0) -> BackupVerificationInfo:
    sentences = _SENTENCES if problems else []
    return BackupVerificationInfo(verified_at=at(-days * DAY), problems=problems, sentences=sentences)


STORED = [
    backup(NEWEST, 0.0104),
    backup(
        FAILED, 0.5, state="failed", finished_at=None, version=None, bytes=0, new_bytes=0, logs=0,
        problem="/mnt/backups has no backups any more: they were there after this process started",
    ),
    backup(
        SOUND, 1.01, state="incomplete", damaged_ranges=2, unavailable=["invoices/2"], verification=verified(0.9),
        restore=TopicRestoreInfo(topic="orders-before", state="complete", bytes=1_234_567_890),
    ),
    backup(DAMAGED, 2.01, verification=verified(1.9, 24)),
]  # fmt: skip
LOGS = [
    BackupLog(
        name=f"{topic}/{number}",
        first_offset=1_000 * number,
        next_offset=3_292_181 + number,
        bytes=1_440_662_551 - 99_000_000 * number,
        segments=23 - number,
        damages=[
            BackupDamage(base_offset=0, position=4096, end=4242, reason="the checksum does not match"),
            BackupDamage(base_offset=0, position=9000, end=9100, reason="it has no frames"),
        ]
        if (topic, number) == ("orders", 1)
        else [],
    )
    for topic in ("__consumer_offsets", "orders", "payments")
    for number in range(3)
]


class BackupClient(GroupClient):
    """Backups in a directory, one of which is being made."""

    def __init__(self) -> None:
        super().__init__()
        progress = BackupProgressInfo(
            activity="backup", bytes_total=8_765_432_198, bytes_done=3_944_444_489, bytes_per_second=10_485_760.0,
            seconds_left=459.7,
        )  # fmt: skip
        self.target: str | None = "/mnt/backups"
        self.interval_seconds = 24 * 3600.0
        self.running: list[BackupInfo] = [
            backup(
                RUNNING, 30 / DAY, state="running", finished_at=None, version=None, logs=0, new_bytes=12_345_678,
                progress=progress,
            )
        ]  # fmt: skip
        self.stored = list(STORED)
        self.answers |= {
            "backups": self._overview,
            "backup": lambda name: next(one for one in self._all if one.id == name),
            "backup_logs": lambda name: BackupLogs(id=name, logs=LOGS),
            "prune_backups": lambda dry_run: BackupsPruned(dry_run=dry_run, kept=[NEWEST, SOUND], deleted=[DAMAGED]),
            "restore_topic": lambda backup, topic, name, dry_run, **_: TopicRestoreResult(
                backup=backup, topic=topic, name=name or topic, partitions=3, bytes=4_224_987_653, dry_run=dry_run
            ),
        }

    @property
    def _all(self) -> list[BackupInfo]:
        return [*self.running, *self.stored]

    def _overview(self) -> BackupOverview:
        is_on = self.interval_seconds and self.target
        schedule = BackupScheduleInfo(
            interval_seconds=self.interval_seconds,
            next_at=at(DAY - 900) if is_on else None,
            keep_hourly=24,
            keep_daily=7,
            keep_weekly=4,
            keep_monthly=12,
        )
        return BackupOverview(target=self.target, schedule=schedule, backups=self._all)


class IdleBackupClient(BackupClient):
    """The same, while nothing runs."""

    def __init__(self) -> None:
        super().__init__()
        self.running = []


class UnsureBackupClient(BackupClient):
    """A verification of which nothing can be told yet, without a schedule."""

    def __init__(self) -> None:
        super().__init__()
        self.running, self.interval_seconds = [], 0.0
        progress = BackupProgressInfo(
            activity="verification", bytes_total=0, bytes_done=0, bytes_per_second=0.0, seconds_left=None
        )
        self.stored = [backup(NEWEST, 0.0104, progress=progress)]


class NoBackupClient(IdleBackupClient):
    """A target without backups."""

    def __init__(self) -> None:
        super().__init__()
        self.stored = []


class NoTargetClient(NoBackupClient):
    """A broker that has no target."""

    def __init__(self) -> None:
        super().__init__()
        self.target = None
