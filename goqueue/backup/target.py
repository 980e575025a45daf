"""Where backups are kept: a store of objects by hash, and manifests by id.

    {target}/FORMAT              which version of the layout this is
    {target}/lock                held while a broker changes it; names that process
    {target}/objects/ab/abcd…    the objects, each named by the SHA-256 of its content
    {target}/backups/{id}        the manifests
    {target}/verified/{id}       when a backup was verified, and what was found

What must stay true: an object that has its name is whole and on the device, and so is everything that a manifest names
when the manifest has its name. An interrupted backup leaves objects, which the next one finds.
"""

import re
from collections.abc import Callable
from typing import Protocol

from goqueue.errors import BackupDamaged, BackupNotFound, BackupTargetInvalid, DiskFailed, PathInvalid
from goqueue.nearest import nearest
from goqueue.quantities import quoted
from goqueue.storage.disk import Disk, Lock, read_all, remove_files, replace_file

_FORMAT = b"goqueue-backups 1\n"
_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")
_HASH = re.compile(r"[0-9a-f]{64}")
_SYNCED_AT_ONCE = 256 * 1024
"""With a pace: a large sync would let the syncs of the broker wait."""

Pace = Callable[[int], None]
"""Called for each part of so many bytes; it may wait."""


class BackupTarget(Protocol):
    """A place for backups. All methods may block."""

    def open(self, owner: str) -> Lock:
        """Make it if it is not there, and keep others from changing it."""
        ...

    def refuse_unusable(self) -> None:
        """Raise BackupTargetInvalid where no backup can ever be made. Changes nothing."""
        ...

    def refuse_vanished(self) -> None:
        """Raise BackupTargetInvalid if this process has seen backups there, and they are gone."""
        ...

    def check(self) -> None:
        """Raise BackupTargetInvalid unless this holds backups, or BackupDamaged."""
        ...

    def objects(self) -> dict[str, int]:
        """All whole objects, with their sizes as they are stored."""
        ...

    def put_object(self, sha256: str, content: bytes, pace: Pace | None = None) -> None: ...

    def get_object(self, sha256: str) -> bytes: ...

    def delete_object(self, sha256: str) -> None: ...

    def ids(self) -> list[str]:
        """The ids of all backups, the oldest first."""
        ...

    def put_manifest(self, name: str, content: bytes) -> None: ...

    def get_manifest(self, name: str) -> bytes: ...

    def delete_manifest(self, name: str) -> None: ...

    def put_verification(self, name: str, content: bytes) -> None: ...

    def get_verification(self, name: str) -> bytes | None: ...


class DirectoryTarget:
    """A directory, which may be on another machine's file system."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.path = path
        self._disk = disk
        self._was_there = False
        """Whether this process has seen backups there: their absence is then a loss, such as an unmounted disk."""

    def __str__(self) -> str:
        return self.path

    def open(self, owner: str) -> Lock:
        self.refuse_vanished()
        self.refuse_unusable()
        self._disk.make_directory(self.path)
        lock = self._disk.lock(f"{self.path}/lock", owner)
        try:
            for name in ("objects", "backups", "verified"):
                self._disk.make_directory(f"{self.path}/{name}")
            if self._disk.kind(f"{self.path}/FORMAT") == "absent":
                replace_file(self._disk, f"{self.path}/FORMAT", _FORMAT)
            self.check()
        except BaseException:
            lock.release()
            raise
        return lock

    def refuse_unusable(self) -> None:
        try:
            kind = self._disk.kind(self.path)
        except PathInvalid:  # what is above it is a file
            kind = "other"
        if kind not in ("absent", "directory"):
            raise BackupTargetInvalid(f"{self.path} is not a directory", hint="name a directory in `backup.target`")
        if kind == "directory" and self._disk.kind(f"{self.path}/FORMAT") == "absent":
            self._refuse_foreign()

    def refuse_vanished(self) -> None:
        if self._was_there and self._disk.kind(f"{self.path}/FORMAT") == "absent":
            raise BackupTargetInvalid(
                f"{self.path} has no backups any more: they were there after this process started",
                hint="mount its device again; to begin with a new target there, restart the broker",
            )

    def _refuse_foreign(self) -> None:
        ours = {"lock", "objects", "backups", "verified", "FORMAT.tmp", "lost+found"}
        strangers = [entry.name for entry in self._disk.entries(self.path) if entry.name not in ours]
        if strangers:
            raise BackupTargetInvalid(
                f"{self.path} holds no backups but {', '.join(map(ascii, strangers[:3]))}",
                hint="name an empty directory, or one that has backups",
            )

    def check(self) -> None:
        if self._disk.kind(f"{self.path}/FORMAT") != "file":
            self.refuse_vanished()
            raise BackupTargetInvalid(f"{self.path} holds no backups", hint="name the directory of `backup.target`")
        content = read_all(self._disk, f"{self.path}/FORMAT")
        if content != _FORMAT:
            raise BackupDamaged(
                f"{self.path}/FORMAT says {content[:40]!r}, and this version writes {_FORMAT!r}",
                hint="install a newer version of GoQueue, or restore the file",
            )
        self._was_there = True

    def objects(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for folder in self._disk.entries(f"{self.path}/objects"):
            if folder.kind == "directory":
                entries = self._disk.entries(f"{self.path}/objects/{folder.name}")
                found |= {one.name: one.size for one in entries if one.kind == "file" and _HASH.fullmatch(one.name)}
        return found

    def _object(self, sha256: str) -> str:
        return f"{self.path}/objects/{sha256[:2]}/{sha256}"

    def put_object(self, sha256: str, content: bytes, pace: Pace | None = None) -> None:
        path = self._object(sha256)
        folder = path.rpartition("/")[0]
        if self._disk.kind(folder) == "absent":
            self._disk.make_directory(folder)
        temporary = f"{path}.tmp"
        remove_files(self._disk, temporary)
        step = len(content) if pace is None else _SYNCED_AT_ONCE
        file = self._disk.open(temporary, "create")
        try:
            view = memoryview(content)
            for start in range(0, len(content), max(1, step)):
                file.write(start, [view[start : start + step]])
                file.sync()
                if pace is not None:
                    pace(min(step, len(content) - start))
        finally:
            file.close()
        self._disk.rename(temporary, path)
        self._disk.sync_directory(folder)

    def get_object(self, sha256: str) -> bytes:
        try:
            return read_all(self._disk, self._object(sha256))
        except PathInvalid:
            raise BackupDamaged(f"object {sha256} is missing in {self.path}", object=sha256) from None
        except DiskFailed as error:
            raise BackupDamaged(f"object {sha256} cannot be read: {error}", object=sha256) from error

    def delete_object(self, sha256: str) -> None:
        remove_files(self._disk, self._object(sha256))

    def ids(self) -> list[str]:
        if self._disk.kind(self.path) == "absent":
            self.refuse_vanished()
            return []
        self.check()
        entries = self._disk.entries(f"{self.path}/backups")
        return [one.name for one in entries if one.kind == "file" and _ID.fullmatch(one.name)]

    def put_manifest(self, name: str, content: bytes) -> None:
        replace_file(self._disk, f"{self.path}/backups/{name}", content)

    def get_manifest(self, name: str) -> bytes:
        refuse_unless_id(name, self.ids())
        return read_all(self._disk, f"{self.path}/backups/{name}")

    def delete_manifest(self, name: str) -> None:
        remove_files(self._disk, f"{self.path}/verified/{name}", f"{self.path}/backups/{name}")
        self._disk.sync_directory(f"{self.path}/backups")

    def put_verification(self, name: str, content: bytes) -> None:
        replace_file(self._disk, f"{self.path}/verified/{name}", content)

    def get_verification(self, name: str) -> bytes | None:
        path = f"{self.path}/verified/{name}"
        return read_all(self._disk, path) if self._disk.kind(path) == "file" else None


def refuse_unless_id(name: str, ids: list[str]) -> None:
    """Raise BackupNotFound for a name that no backup has."""
    if name not in ids:
        near = nearest(name, ids)
        hint = f"did you mean {near}?" if near else "`goqueue-admin backup list` shows all"
        raise BackupNotFound(f"there is no backup {quoted(name)}", hint=hint)
