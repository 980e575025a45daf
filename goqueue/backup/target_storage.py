"""The storage below a target of backups: contents by name, in a directory or elsewhere."""

from collections.abc import Callable, Sequence
from typing import Protocol

from goqueue.storage.disk import Buffer, Lock

Content = bytes | bytearray
"""Large ones are not copied, so they may be of either type."""
Pace = Callable[[int], None]
"""Called for each part of so many bytes; it may wait."""


class TargetStorage(Protocol):
    """Contents by name. Names have folders, separated by slashes. All methods may block.

    What must stay true: a content that has its name is whole, and survives a crash of this machine.
    """

    vanished_hint: str
    """The step for an operator when everything is gone."""

    def __str__(self) -> str:
        """Return the name by which operators know it."""
        ...

    def refuse_unusable(self) -> None:
        """Raise BackupTargetInvalid where no backup can ever be made. Changes nothing, and waits for no network."""
        ...

    def lock(self, owner: str) -> Lock:
        """Make it if it is not there, and keep others from changing it. Raises BackupTargetInvalid."""
        ...

    def sizes(self, folder: str) -> dict[str, int]:
        """Return all names below a folder, without their own folders, with the sizes of their contents."""
        ...

    def get(self, name: str) -> Content | None:
        """Return a content; None where there is none."""
        ...

    def put(self, name: str, content: Buffer, pace: Pace | None = None) -> None:
        """Store a content under a name, in one step."""
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Delete contents that are there."""
        ...
