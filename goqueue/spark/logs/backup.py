"""Logs of a backup, read from its target. Nothing is restored."""

import os.path
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

from goqueue.backup.manifest import LogEntry
from goqueue.backup.opening import open_target
from goqueue.backup.piece_reader import load_piece
from goqueue.backup.segment_file import BackupSegmentFile, piece_index
from goqueue.backup.target import BackupTarget
from goqueue.backup.verify import load_manifest
from goqueue.config import BackupConfig
from goqueue.config.store_address import is_store_address
from goqueue.delay import LOG_NAME
from goqueue.errors import BackupNotFound, SegmentNotFound
from goqueue.spark.logs.port import READ_COMMITTED, Isolation, OpenSegment, TransactionDecisions
from goqueue.storage.compaction_progress import CompactionProgress, decode_progress
from goqueue.storage.log_view import LogView, SegmentView

_BACKUPS_HELD = 2


@dataclass(frozen=True)
class BackupLogs:
    """Executors open the target by its name and settings, and find credentials and key where they run."""

    name: str
    """The target."""
    backup: str
    settings: BackupConfig = field(default=BackupConfig(), kw_only=True)
    is_delayed: bool = field(default=False, kw_only=True)
    """As with directories."""
    isolation: Isolation = field(default=READ_COMMITTED, kw_only=True)

    @classmethod
    def at(
        cls,
        target: str,
        backup: str | None = None,
        settings: BackupConfig | None = None,
        *,
        is_delayed: bool = False,
        isolation: Isolation = READ_COMMITTED,
    ) -> "BackupLogs":
        """Open a backup of a target, the newest by default, after checking that it can be read."""
        name = target if is_store_address(target) else os.path.abspath(target)
        settings = settings or BackupConfig()
        key_file, credentials_file = _absolute(settings.key_file), _absolute(settings.credentials_file)
        settings = replace(settings, target=name, key_file=key_file, credentials_file=credentials_file)
        if backup is None:
            opened = open_target(name, settings)
            opened.check()
            ids = opened.ids()
            if not ids:
                raise BackupNotFound(f"there is no backup in {name}", hint="name another target")
            backup = ids[-1]
        found = cls(name, backup, settings=settings, is_delayed=is_delayed, isolation=isolation)
        found.topics()  # refuses what cannot be read
        return found

    @property
    def _opened(self) -> "_OpenedBackup":
        return _open(self.name, self.settings, self.backup)

    def close(self) -> None:
        """Do nothing: a process keeps the last backups that it has opened."""

    def topics(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, list[int]] = {}
        for name in self._opened.logs:
            topic, _, number = name.rpartition("/")
            if topic and number.isascii() and number.isdecimal():
                found.setdefault(topic, []).append(int(number))
        return {topic: tuple(sorted(numbers)) for topic, numbers in sorted(found.items())}

    def view(self, topic: str, partition: int) -> LogView:
        log = self._log(topic, partition)
        if log is None:
            return LogView()
        *sealed, active = log.segments
        ends = [later.base_offset for _, later in pairwise(log.segments)]
        views = [SegmentView(one.base_offset, end, one.size) for one, end in zip(sealed, ends, strict=True)]
        return LogView((*views, SegmentView(active.base_offset, active.next_offset, active.size)))

    def touched(self) -> dict[tuple[str, int], int]:
        """Return nothing: what is open in a backup stays so, as in a directory at rest."""
        return {}

    def waits(self) -> bool:
        return False

    def open(self, topic: str, partition: int, segment: SegmentView) -> OpenSegment:
        log = self._log(topic, partition)
        entry = next((one for one in log.segments if one.base_offset == segment.base_offset), None) if log else None
        if log is None or entry is None:
            raise SegmentNotFound(f"{self.path(topic, partition, segment)} is not in the backup", hint="read again")
        file = BackupSegmentFile(self._opened.target, entry)
        return OpenSegment(file, piece_index(log, entry), is_proven=True)

    def decided(
        self, topic: str, partition: int, first: int, end: int, _: Sequence[SegmentView]
    ) -> TransactionDecisions | None:
        """Return None: the markers in the log say it."""

    def compaction(self, topic: str, partition: int) -> CompactionProgress:
        log = self._log(topic, partition)
        note = None if log is None else log.notes.get("compacted")
        if note is None:
            return CompactionProgress()
        return decode_progress(bytes(load_piece(self._opened.target, note)))

    def path(self, topic: str, partition: int, segment: SegmentView) -> str:
        return f"{self.name} {self.backup} {self._log_name(topic, partition)}/{segment.base_offset:020d}.log"

    def _log(self, topic: str, partition: int) -> LogEntry | None:
        return self._opened.logs.get(self._log_name(topic, partition))

    def _log_name(self, topic: str, partition: int) -> str:
        log = f"{topic}/{partition}"
        return f"{log}/{LOG_NAME}" if self.is_delayed else log


def _absolute(path: str) -> str:
    return path if path == "none" else os.path.abspath(path)


@dataclass(frozen=True, slots=True)
class _OpenedBackup:
    target: BackupTarget
    logs: dict[str, LogEntry]


@lru_cache(maxsize=_BACKUPS_HELD)
def _open(name: str, settings: BackupConfig, backup: str) -> _OpenedBackup:
    """Open a backup once for all tasks of a process: manifests never change."""
    target = open_target(name, settings)
    return _OpenedBackup(target, {log.name: log for log in load_manifest(target, backup).logs})
