"""Short helpers for tests of encrypted backups: key files, and targets that use them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from goqueue.backup.key_file import KeyFile, new_key_text
from goqueue.backup.opening import open_target
from goqueue.backup.target import BackupTarget
from goqueue.config import BackupConfig
from goqueue.storage.disk import Disk
from tests.backup.backups import TARGET


def key_file(path: Path, others: str = "") -> Path:
    """Write a file with a new key before others."""
    write_secret(path, new_key_text(others)[0])
    return path


def write_secret(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text)


def keys_of(path: Path) -> KeyFile:
    keys = KeyFile(str(path))
    keys.read()
    return keys


def secrets_in(path: Path) -> list[str]:
    return [line.split()[1] for line in path.read_text().splitlines() if not line.startswith("#")]


def target_with(disk: Disk, keys: Path | None, compression: str = "zstd", name: str = TARGET) -> BackupTarget:
    path = "none" if keys is None else os.fspath(keys)
    return open_target(name, BackupConfig(key_file=path, compression=compression), disk)


@contextmanager
def locked(target: BackupTarget) -> Iterator[None]:
    lock = target.open("this test")
    try:
        yield
    finally:
        lock.release()
