"""A backup named by options, before it is opened."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from goqueue.config import BackupConfig
from goqueue.spark.logs.port import READ_COMMITTED, Isolation

if TYPE_CHECKING:
    from goqueue.spark.logs.backup import BackupLogs

STORE_OPTIONS = {
    "backup.endpoint": "endpoint",
    "backup.region": "region",
    "backup.credentialsFile": "credentials_file",
    "backup.allowHttp": "allow_http",
    "backup.keyFile": "key_file",
}
"""The settings of a target of backups, by the options that override the environment of the driver."""


@dataclass(frozen=True, slots=True)
class BackupPlace:
    """A target of backups with its settings, and the id of a backup; None is the newest one."""

    target: str
    backup: str | None
    settings: BackupConfig

    def logs(self, *, is_delayed: bool = False, isolation: Isolation = READ_COMMITTED) -> "BackupLogs":
        from goqueue.spark.logs.backup import BackupLogs  # noqa: PLC0415 - other reads need none of it

        return BackupLogs.at(self.target, self.backup, self.settings, is_delayed=is_delayed, isolation=isolation)


def backup_options(logs: "BackupLogs") -> dict[str, str]:
    """Return the options that name a backup."""
    settings = {name: getattr(logs.settings, setting) for name, setting in STORE_OPTIONS.items()}
    return {"backup": logs.name, "backupId": logs.backup} | {
        name: str(value).lower() if isinstance(value, bool) else value for name, value in settings.items()
    }
