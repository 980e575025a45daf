"""Opening a target of backups by its name, in a broker, a command, or a process of Spark."""

import os.path

from goqueue.backup.directory_storage import DirectoryStorage
from goqueue.backup.target import BackupTarget
from goqueue.config import BackupConfig
from goqueue.storage.disk import Disk, SystemDisk


def open_target(name: str, settings: BackupConfig | None = None, disk: Disk | None = None) -> BackupTarget:
    """Return the target with this name, as `backup.target` has it. Nothing is read or changed yet.

    Name and settings are plain values: another process that has them opens the same target.
    """
    _ = settings or BackupConfig()
    return BackupTarget(DirectoryStorage(disk or SystemDisk(), os.path.abspath(name)))
