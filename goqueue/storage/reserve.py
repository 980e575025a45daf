"""Space on the disk that is kept for operations that free space.

Deleting a topic begins with a record of it. On a full disk there may be no room for that record, and then nothing
could be deleted any more. So a file of some size stands beside the logs; the writer of the log with these
records removes it when the disk is full and a deletion waits, and writes again at once.

Its bytes look random: a file system that compresses would keep no space for zeros.
"""

from contextlib import suppress
from hashlib import shake_256

from goqueue.errors import GoQueueError
from goqueue.limits import RESERVE_BYTES
from goqueue.storage.disk import Disk, discard


class Reserve:
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
        discard(self._disk, temporary)
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
                discard(self._disk, temporary)
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

    def __repr__(self) -> str:
        return f"<Reserve {self._path}, {'made' if self.is_made else 'not made'}>"
