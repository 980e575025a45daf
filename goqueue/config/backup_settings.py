"""Settings of backups."""

from dataclasses import dataclass

from goqueue import limits
from goqueue.config.value_types import (
    BACKUP_TARGET,
    BOOLEAN,
    DURATION,
    INTEGER,
    OPTIONAL_ENDPOINT,
    OPTIONAL_PATH,
    OPTIONAL_REGION,
    SIZE,
    choice,
    setting,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupConfig:
    """Backups that the broker makes while it runs."""

    target: str = setting(
        "none",
        BACKUP_TARGET,
        "Directory for backups, best on another device, or an object store such as `s3://bucket/prefix`, or `none`. One"
        " target is for one broker.",
    )
    endpoint: str = setting(
        "none",
        OPTIONAL_ENDPOINT,
        "URL of an object store that is compatible with S3; `none` is `AWS_ENDPOINT_URL`, or the store of the cloud.",
    )
    region: str = setting("none", OPTIONAL_REGION, "Region of the bucket; `none` is `AWS_REGION`, or us-east-1.")
    credentials_file: str = setting(
        "none",
        OPTIONAL_PATH,
        "File with the credentials of the object store; `none` is those of the environment.",
    )
    allow_http: bool = setting(
        False,
        BOOLEAN,
        "Accept an object store without TLS: others can read and change what is sent.",
    )
    key_file: str = setting(
        "none",
        OPTIONAL_PATH,
        "File with the key that backups are encrypted with, made by `goqueue backup key new`; `none` encrypts nothing."
        " Without the key nothing can be restored: keep a copy elsewhere.",
    )
    compression: str = setting(
        "zstd",
        choice("zstd", "none"),
        "Compression of what a backup stores, where that saves a fifth or more.",
    )
    rate: int = setting(
        limits.BACKUP_BYTES_PER_SECOND,
        SIZE,
        "Bytes per second that a backup reads, writes and verifies at most; 0 is no limit.",
        (0, 1024 * 1024 * limits.MIB),
    )
    interval: float = setting(
        0.0,
        DURATION,
        "How often the broker makes a backup by itself, verifies it, and deletes those that the next settings do not"
        " keep; 0s is never.",
        (0, 366 * 24 * 3600),
    )
    keep_hourly: int = setting(24, INTEGER, "Number of hours of which the newest backup is kept.", (0, 10_000))
    keep_daily: int = setting(7, INTEGER, "Number of days of which the newest backup is kept.", (0, 10_000))
    keep_weekly: int = setting(4, INTEGER, "Number of weeks of which the newest backup is kept.", (0, 10_000))
    keep_monthly: int = setting(12, INTEGER, "Number of months of which the newest backup is kept.", (0, 10_000))
