"""Where backups are kept: pieces by hash, and manifests by id, on a storage of any kind.

    FORMAT              which version of the layout this is
    id                  a random name, by which a broker knows its target again
    lock                held while a broker changes it; names that process
    objects/ab/abcd…    the pieces, each named by the SHA-256 of its content
    backups/{id}        the manifests
    verified/{id}       when a backup was verified, and what was found

What must stay true: a piece that has its name is whole and on the device, and so is everything that a manifest names
when the manifest has its name. An interrupted backup leaves pieces, which the next one finds.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from uuid import uuid4

from goqueue.backup.manifest import Piece
from goqueue.backup.target_storage import Pace, TargetStorage
from goqueue.errors import BackupDamaged, BackupNotFound, BackupTargetInvalid, DiskFailed
from goqueue.nearest import nearest
from goqueue.quantities import quoted
from goqueue.storage.disk import Lock
from goqueue.storage.layout import decode_checkpoint, encode_checkpoint

_FORMAT = b"goqueue-backups 1\n"
_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")
_OBJECT = re.compile(r"[0-9a-f]{64}")


class BackupTarget:
    """A place for backups. All methods may block."""

    def __init__(self, storage: TargetStorage) -> None:
        self._storage = storage
        self.known_id: str | None = None
        """The id of the target that had the backups: another one, or none, is a loss, such as an unmounted disk."""

    def __str__(self) -> str:
        return str(self._storage)

    def open(self, owner: str, *, is_new: bool = False) -> Lock:
        """Make it if it is not there, and keep others from changing it. `is_new` gives up the known one."""
        if not is_new:
            self.refuse_vanished()
        lock = self._storage.lock(owner)
        try:
            if is_new:
                self.known_id = None
            if self._id() is None:
                self._storage.put("id", encode_checkpoint({"id": uuid4().hex}))
            if self._storage.get("FORMAT") is None:
                self._storage.put("FORMAT", _FORMAT)
            self.check()
        except BaseException:
            lock.release()
            raise
        return lock

    def refuse_unusable(self) -> None:
        """Raise BackupTargetInvalid where no backup can ever be made. Changes nothing."""
        self._storage.refuse_unusable()

    def refuse_vanished(self) -> None:
        """Raise BackupTargetInvalid if the target with the known backups is gone, out of reach or another one."""
        content = self._storage.get("id")  # which fails if it is out of reach
        if self.known_id is None:
            return
        found = self._decode_id(content)
        if found != self.known_id:
            raise BackupTargetInvalid(
                f"{self} has no backups any more: the broker has made or seen some there"
                if found is None
                else f"{self} is another target than the one with the backups of this broker",
                hint=f"{self._storage.vanished_hint}; `goqueue-admin backup create --new-target` begins with what is "
                "there",
            )

    def check_whole(self) -> None:
        """Raise BackupDamaged also where the id is damaged."""
        self.check()
        self._id()

    def _id(self) -> str | None:
        return self._decode_id(self._storage.get("id"))

    def _decode_id(self, content: bytes | None) -> str | None:
        """Return the id; None without one. Raises BackupDamaged."""
        if content is None:
            return None
        facts = decode_checkpoint(content)
        if facts is None:
            raise BackupDamaged(
                f"{self}/id is damaged", hint="remove it, and run `goqueue-admin backup create --new-target`"
            )
        return str(facts["id"])

    def check(self) -> None:
        """Raise BackupTargetInvalid unless this holds backups, or BackupDamaged."""
        if not self._is_there():
            raise BackupTargetInvalid(f"{self} holds no backups", hint="name the target of `backup.target`")

    def _is_there(self) -> bool:
        """Return whether this holds backups. Raises BackupTargetInvalid if it did, or BackupDamaged."""
        self.refuse_vanished()
        content = self._storage.get("FORMAT")
        if content is None:
            return False
        if content != _FORMAT:
            raise BackupDamaged(
                f"{self}/FORMAT says {content[:40]!r}, and this version writes {_FORMAT!r}",
                hint="install a newer version of GoQueue, or restore the file",
            )
        if self.known_id is None:
            with suppress(BackupDamaged):  # which a verification finds; a restore can do without
                self.known_id = self._id()
        return True

    # --- pieces ---

    def objects(self) -> dict[str, int]:
        """The names of all whole objects, with their sizes as they are stored."""
        return {name: size for name, size in self._storage.sizes("objects").items() if _OBJECT.fullmatch(name)}

    def find(self, piece: Piece, stored: Mapping[str, int]) -> Piece | None:
        """Return a piece with its place among the stored objects; None where it has none."""
        return piece if piece.sha256 in stored else None

    def put_object(self, piece: Piece, content: bytes, pace: Pace | None = None) -> Piece:
        """Store a piece, and return it with its place."""
        self._storage.put(_path(piece.object_name), content, pace)
        return piece

    def get_object(self, piece: Piece) -> bytes:
        """Return the content of a piece. Raises BackupDamaged."""
        try:
            content = self._storage.get(_path(piece.object_name))
        except DiskFailed as error:
            sentence = f"object {piece.object_name} cannot be read: {error}"
            raise BackupDamaged(sentence, object=piece.object_name) from error
        if content is None:
            raise BackupDamaged(f"object {piece.object_name} is missing in {self}", object=piece.object_name)
        return content

    def delete_objects(self, names: Iterable[str]) -> None:
        self._storage.delete([_path(name) for name in names])

    # --- manifests ---

    def ids(self) -> list[str]:
        """The ids of all backups, the oldest first; none where there is no target yet."""
        if not self._is_there():
            return []
        return sorted(name for name in self._storage.sizes("backups") if _ID.fullmatch(name))

    def put_manifest(self, name: str, content: bytes) -> None:
        self._storage.put(f"backups/{name}", content)

    def get_manifest(self, name: str) -> bytes:
        refuse_unless_id(name, self.ids())
        content = self._storage.get(f"backups/{name}")
        if content is None:
            refuse_unless_id(name, [])
            raise AssertionError("no backup is unknown where there is none")
        return content

    def delete_manifest(self, name: str) -> None:
        self._storage.delete([f"verified/{name}"])
        self._storage.delete([f"backups/{name}"])

    def put_verification(self, name: str, content: bytes) -> None:
        self._storage.put(f"verified/{name}", content)

    def verified_ids(self) -> set[str]:
        """The ids of the backups that were verified."""
        return {name for name in self._storage.sizes("verified") if _ID.fullmatch(name)}

    def get_verification(self, name: str) -> bytes | None:
        return self._storage.get(f"verified/{name}")


def _path(name: str) -> str:
    return f"objects/{name[:2]}/{name}"


def refuse_unless_id(name: str, ids: list[str]) -> None:
    """Raise BackupNotFound for a name that no backup has."""
    if name not in ids:
        near = nearest(name, ids)
        hint = f"did you mean {near}?" if near else "`goqueue-admin backup list` shows all"
        raise BackupNotFound(f"there is no backup {quoted(name)}", hint=hint)
