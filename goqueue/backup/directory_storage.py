"""Backups in a directory, which may be on another machine's file system."""

from collections.abc import Sequence
from contextlib import suppress

from goqueue.backup.target_storage import Content, Pace
from goqueue.errors import BackupTargetInvalid, DiskFull, GoQueueError, PathInvalid
from goqueue.storage.disk import Buffer, Disk, Lock, remove_files

_SYNCED_AT_ONCE = 256 * 1024
"""With a pace: a large sync would let the syncs of the broker wait."""
_OURS = {"FORMAT", "FORMAT.tmp", "id", "id.tmp", "lock", "objects", "backups", "verified", "lost+found"}


class DirectoryStorage:
    """The storage of a target in a directory."""

    vanished_hint = "mount its device again"

    def __init__(self, disk: Disk, path: str) -> None:
        self.path = path
        self._disk = disk

    def __str__(self) -> str:
        return self.path

    def refuse_unusable(self) -> None:
        try:
            kind = self._disk.kind(self.path)
        except PathInvalid:  # what is above it is a file
            kind = "other"
        if kind not in ("absent", "directory"):
            raise BackupTargetInvalid(f"{self.path} is not a directory", hint="name a directory in `backup.target`")
        if kind == "directory" and self._disk.kind(f"{self.path}/FORMAT") == "absent":
            self._refuse_foreign()

    def _refuse_foreign(self) -> None:
        strangers = [entry.name for entry in self._disk.entries(self.path) if entry.name not in _OURS]
        if strangers:
            raise BackupTargetInvalid(
                f"{self.path} holds no backups but {', '.join(map(ascii, strangers[:3]))}",
                hint="name an empty directory, or one that has backups",
            )

    def lock(self, owner: str) -> Lock:
        self.refuse_unusable()
        self._disk.make_directory(self.path)
        return self._disk.lock(f"{self.path}/lock", owner)

    def sizes(self, folder: str) -> dict[str, int]:
        path, found = f"{self.path}/{folder}", dict[str, int]()
        if self._disk.kind(path) != "directory":
            return found
        for entry in self._disk.entries(path):
            if entry.kind == "directory":
                found |= self.sizes(f"{folder}/{entry.name}")
            elif entry.kind == "file":
                found[entry.name] = entry.size
        return found

    def get(self, name: str) -> Content | None:
        path = f"{self.path}/{name}"
        try:
            if self._disk.kind(path) != "file":
                return None
            file = self._disk.open(path, "read")
        except PathInvalid:  # what is above it is a file, or it was deleted meanwhile
            return None
        try:
            content = bytearray(file.size())
            del content[file.read(0, memoryview(content)) :]
            return content
        finally:
            file.close()

    def put(self, name: str, content: Buffer, pace: Pace | None = None) -> None:
        path = f"{self.path}/{name}"
        folder = path.rpartition("/")[0]
        if self._disk.kind(folder) == "absent":
            self._disk.make_directory(folder)
        temporary = f"{path}.tmp"
        remove_files(self._disk, temporary)
        try:
            self._write(temporary, content, pace)
        except GoQueueError as error:
            with suppress(GoQueueError):
                remove_files(self._disk, temporary)
            if isinstance(error, DiskFull):
                hint = "free some space there, or delete backups: the next one continues with what was copied"
                raise DiskFull(error.sentence, hint=hint, **error.details) from None
            raise
        self._disk.rename(temporary, path)
        self._disk.sync_directory(folder)

    def _write(self, path: str, content: Buffer, pace: Pace | None) -> None:
        step = len(content) if pace is None else _SYNCED_AT_ONCE
        file = self._disk.open(path, "create")
        try:
            view = memoryview(content)
            for start in range(0, len(content), max(1, step)):
                file.write(start, [view[start : start + step]])
                file.sync()
                if pace is not None:
                    pace(min(step, len(content) - start))
        finally:
            file.close()

    def delete(self, names: Sequence[str]) -> None:
        paths = [f"{self.path}/{name}" for name in names]
        remove_files(self._disk, *paths)
        for folder in sorted({path.rpartition("/")[0] for path in paths}):
            if self._disk.kind(folder) == "directory":
                self._disk.sync_directory(folder)
