"""Deletion of logs: a trash for their files, and reserved space for the record of a deletion on a full disk.

A directory leaves its place in one step, and its files are removed later. Where a directory has to be removed in place,
a crash leaves a log that the next start finds, or no log at all; and no index outlives its log, since that would prove
a loss.

Deleting a topic begins with a record of it. A full disk may have no room for that record, and then nothing could be
deleted any more. So a file of some size stands beside the logs; the writer of the log with these records removes it
when the disk is full and a deletion waits, and writes again at once. Its bytes look random: a file system that
compresses would keep no space for zeros.
"""

from contextlib import suppress
from hashlib import shake_256

from goqueue.errors import DiskFull, GoQueueError
from goqueue.limits import RESERVE_BYTES
from goqueue.storage.disk import Disk, remove_files
from goqueue.storage.segment import base_offset_of


class Trash:
    """The directory that holds the files of deleted logs until they are removed."""

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


class ReservedSpace:
    """A file that can be given up. `make` may run on any thread, `give_up` runs on the flusher's."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/reserve"
        self.is_made = False
        self.deletions = 0
        """How many deletions wait for their record. Without one, the reserve is not given up."""

    def make(self) -> None:
        """Write the file, or one of the same size beside it to see whether the disk takes writes. Raises if not."""
        temporary = f"{self._path}.tmp"
        remove_files(self._disk, temporary)
        try:
            file = self._disk.open(temporary, "create")
            try:
                file.write(0, [shake_256(b"reserve").digest(RESERVE_BYTES)])
                file.sync()
            finally:
                file.close()
            if self._disk.kind(self._path) == "absent":
                self._disk.rename(temporary, self._path)
                self._disk.sync_directory(self._directory)
            else:
                self._disk.remove(temporary)
        except GoQueueError:
            with suppress(GoQueueError):
                remove_files(self._disk, temporary)
            raise
        self.is_made = True

    def give_up(self) -> bool:
        """Free its space, if a deletion waits for it; True if there was any."""
        if not self.deletions or self._disk.kind(self._path) == "absent":
            return False
        self.is_made = False
        self._disk.remove(self._path)
        self._disk.sync_directory(self._directory)  # some file systems free the space no earlier
        return True
