"""The memory of a broker, in its data directory, which target has its backups.

Without it, a broker that starts before the disk of its target is mounted would fill the disk below the mount point.
"""

from goqueue.backup.target import BackupTarget
from goqueue.storage.disk import Disk, read_all
from goqueue.storage.layout import decode_checkpoint, write_checkpoint


class TargetNote:
    """The file `backup-target`. It is for the target of this name: another `backup.target` is a new target."""

    def __init__(self, disk: Disk, directory: str, target: BackupTarget) -> None:
        self._disk, self._path, self._target = disk, f"{directory}/backup-target", target
        self._noted: str | None = None

    def recall(self) -> None:
        """Let the target know its id, so that it is not made anew."""
        facts = None
        if self._disk.kind(self._path) == "file":
            facts = decode_checkpoint(read_all(self._disk, self._path))
        if facts is not None and facts["target"] == str(self._target):
            self._noted = self._target.known_id = facts["id"]

    def update(self) -> None:
        """Write the id that the target was found to have."""
        known = self._target.known_id
        if known not in (None, self._noted):
            write_checkpoint(self._disk, self._path, target=str(self._target), id=known)
            self._noted = known
