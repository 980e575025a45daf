"""Settings of backups."""

from dataclasses import dataclass

from goqueue import limits
from goqueue.config.value_types import OPTIONAL_PATH, SIZE, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupConfig:
    """Backups that the broker makes while it runs."""

    target: str = setting(
        "none",
        OPTIONAL_PATH,
        "Directory for backups, best on another device, or `none`. One directory is for one broker.",
    )
    rate: int = setting(
        limits.BACKUP_BYTES_PER_SECOND,
        SIZE,
        "Bytes per second that a backup reads, writes and verifies at most; 0 is no limit.",
        (0, 1024 * 1024 * limits.MIB),
    )
