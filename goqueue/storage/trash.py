"""Deleted logs on their way out: a directory leaves its place in one step, and its files are removed later.

What must stay true: where a directory is removed in its place instead, a crash leaves a log that the next start
finds, or no log at all; and no index outlives its log, which would prove a loss.
"""

from goqueue.errors import DiskFull
from goqueue.storage.disk import Disk
from goqueue.storage.segment import base_offset_of


class Trash:
    """The directory for them."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path

    def make(self) -> None:
        """Before it is needed: on a full disk there may be no room for it."""
        self._disk.make_directory(self._path)

    def take(self, directory: str) -> None:
        """Move a directory away, or remove it where the disk has no room for its new name."""
        try:
            self._move(directory)
        except DiskFull:
            self._remove_in_place(directory)

    def _move(self, directory: str) -> None:
        if self._disk.kind(self._path) == "absent":
            self.make()
        taken = {entry.name for entry in self._disk.entries(self._path)}
        free = next(str(number) for number in range(len(taken) + 1) if str(number) not in taken)
        if self._disk.kind(directory) != "absent":  # it may have gone before the disk refused the rest
            self._disk.rename(directory, f"{self._path}/{free}")
        self._disk.sync_directory(self._path)
        parent = directory.rpartition("/")[0]
        if self._disk.kind(parent) != "absent":
            self._disk.sync_directory(parent)

    def _remove_in_place(self, directory: str) -> None:
        if self._disk.kind(directory) != "absent":
            self._remove(directory)
            self._disk.sync_directory(directory.rpartition("/")[0])

    def empty(self) -> None:
        """Remove what is in it. May run on any thread."""
        if self._disk.kind(self._path) == "directory" and (entries := self._disk.entries(self._path)):
            self._disk.sync_directory(self._path)  # a log that is seen to be gone must not come back
            for entry in entries:
                self._remove(f"{self._path}/{entry.name}")

    def _remove(self, path: str) -> None:
        """The files of logs go last in each directory, and a directory goes after what is in it."""
        if self._disk.kind(path) != "directory":
            self._disk.remove(path)
            return
        for entry in sorted(self._disk.entries(path), key=lambda one: base_offset_of(one.name, "log") is not None):
            self._remove(f"{path}/{entry.name}")
        self._disk.remove_directory(path)
