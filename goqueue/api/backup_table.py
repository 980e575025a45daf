"""The rows of backups."""

from goqueue import errors
from goqueue.api import backups
from goqueue.api.endpoint import Endpoint

_TARGET = (
    errors.BackupsOff, errors.BackupTargetInvalid, errors.BackupKeyInvalid, errors.BackupDamaged, errors.DiskFailed,
)  # fmt: skip
_BUSY = (errors.BackupsOff, errors.BackupsBusy, errors.BrokerStopping)

BACKUP_ENDPOINTS = (
    Endpoint("GET", "/admin/backup", backups.browse, "List backups, the newest first", errors=_TARGET),
    Endpoint("POST", "/admin/backup", backups.create, "Start a backup", status=202, errors=_BUSY),
    Endpoint(
        "POST", "/admin/backup/prune", backups.prune, "Delete the backups that retention does not keep",
        errors=(errors.BackupsBusy, *_TARGET, errors.DiskFull), example={"dry_run": True},
        answer_example={
            "dry_run": True, "kept": ["20261120T031500Z-5f0c2a9b"], "deleted": ["20261101T031500Z-90c1d2e3"],
        },
    ),
    Endpoint(
        "GET", "/admin/backup/{backup}", backups.describe, "Describe a backup, and how far it is",
        errors=(errors.BackupNotFound, *_TARGET),
    ),
    Endpoint(
        "DELETE", "/admin/backup/{backup}", backups.delete, "Delete a backup, or cancel it while it runs",
        errors=(errors.BackupNotFound, errors.BackupsBusy, *_TARGET, errors.DiskFull),
        answer_example={"id": "20261120T031500Z-5f0c2a9b", "result": "deleted"},
    ),
    Endpoint(
        "GET", "/admin/backup/{backup}/logs", backups.browse_logs, "List the logs of a backup with their offsets",
        may_be_large=True, errors=(errors.BackupNotFound, errors.BackupKeyMismatch, *_TARGET),
    ),
    Endpoint(
        "POST", "/admin/backup/{backup}/restore", backups.restore, "Start to restore a topic as a new topic",
        status=202,
        errors=(
            errors.BackupNotFound, errors.BackupsBusy, errors.TopicNameInvalid, errors.TopicExists, errors.LogExists,
            errors.OffsetOutOfRange, errors.BackupKeyMismatch, *_TARGET, errors.BrokerStopping,
        ),
        example={"topic": "orders", "name": "orders-before", "until": "2026-11-20T09:00:00Z", "dry_run": True},
    ),
    Endpoint(
        "POST", "/admin/backup/{backup}/verify", backups.verify, "Start to read everything of a backup again",
        status=202, errors=(
            errors.BackupNotFound, errors.BackupsBusy, errors.BackupKeyMismatch, *_TARGET, errors.BrokerStopping,
        ),
    ),
)  # fmt: skip
