"""Opening a target of backups by its name, in a broker, a command, or a process of Spark."""

import os.path

from goqueue.backup.content_codec import ContentCodec
from goqueue.backup.directory_storage import DirectoryStorage
from goqueue.backup.key_file import KeyFile
from goqueue.backup.object_storage import ObjectStorage
from goqueue.backup.target import BackupTarget
from goqueue.backup.target_storage import TargetStorage
from goqueue.config import BackupConfig
from goqueue.config.store_address import is_store_address, parse_store_address
from goqueue.errors import BackupTargetInvalid
from goqueue.storage.disk import Disk, SystemDisk


def open_target(name: str, settings: BackupConfig | None = None, disk: Disk | None = None) -> BackupTarget:
    """Return the target with this name, as `backup.target` has it. Nothing is read or changed yet.

    Name and settings are plain values: another process that has them opens the same target. A disk is for directories.
    """
    settings = settings or BackupConfig()
    keys = None if settings.key_file == "none" else KeyFile(os.path.abspath(settings.key_file))
    codec = ContentCodec(keys, compresses=settings.compression == "zstd")
    return BackupTarget(_storage(name, settings, disk), codec)


def _storage(name: str, settings: BackupConfig, disk: Disk | None) -> TargetStorage:
    if not is_store_address(name):
        return DirectoryStorage(disk or SystemDisk(), os.path.abspath(name))
    try:
        return ObjectStorage(parse_store_address(name), settings)
    except ValueError as error:
        raise BackupTargetInvalid(str(error)) from None
