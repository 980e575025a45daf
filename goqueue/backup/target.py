"""Where backups are kept: pieces by hash, and manifests by id, on a storage of any kind.

    FORMAT              which version of the layout this is
    id                  a random name, by which a broker knows its target again
    lock                held while a broker changes it; names that process
    objects/ab/abcd…    the pieces, each named by its content
    backups/{id}        the manifests
    verified/{id}       when a backup was verified, and what was found

Pieces, manifests and notes are compressed and encrypted by the codec. All reading of backups goes through here. With a
key file, backups without encryption are refused: anyone who can write to the target could have made them.

What must stay true: a piece that has its name is whole and on the device, and so is everything that a manifest names
when the manifest has its name. An interrupted backup leaves pieces, which the next one finds.
"""

import re
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from uuid import uuid4

from msgspec import structs

from goqueue.backup.content_codec import OBJECT_NAME, ContentCodec
from goqueue.backup.manifest import Piece
from goqueue.backup.target_storage import Content, Pace, TargetStorage
from goqueue.clock import NANOSECONDS
from goqueue.errors import BackupDamaged, BackupKeyMismatch, BackupNotFound, BackupTargetInvalid, DiskFailed
from goqueue.nearest import nearest
from goqueue.quantities import quoted
from goqueue.storage.disk import Lock
from goqueue.storage.layout import RESTORING, decode_checkpoint, encode_checkpoint

_FORMAT = b"goqueue-backups 2\n"
_FORMAT_1 = b"goqueue-backups 1\n"
"""Has neither compressed nor encrypted contents. It is continued, and gets the newer version."""
_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")


class BackupTarget:
    """A place for backups. All methods may block."""

    def __init__(self, storage: TargetStorage, codec: ContentCodec) -> None:
        self._storage = storage
        self.known_id: str | None = None
        """The id of the target that had the backups: another one, or none, is a loss, such as an unmounted disk."""
        self._codec = codec

    def __str__(self) -> str:
        return str(self._storage)

    def open(self, owner: str, *, is_new: bool = False) -> Lock:
        """Make it if it is not there, and keep others from changing it. `is_new` gives up the known one."""
        if not is_new:
            self.refuse_vanished()
        self._codec.use_first_key()
        lock = self._storage.lock(owner)
        try:
            if is_new:
                self.known_id = None
            if self._id() is None:
                self._storage.put("id", encode_checkpoint({"id": uuid4().hex}))
            if self._storage.get("FORMAT") in (None, _FORMAT_1):
                self._storage.put("FORMAT", _FORMAT)
            self.check()
        except BaseException:
            lock.release()
            raise
        return lock

    def refuse_unusable(self) -> None:
        """Raise BackupTargetInvalid or BackupKeyInvalid where no backup can ever be made. Changes nothing."""
        self._storage.refuse_unusable()
        self.read_keys()

    def read_keys(self) -> str | None:
        """Read the key file again; return the id of the key that encrypts, if one does. Raises BackupKeyInvalid."""
        keys = self._codec.keys
        if keys is None:
            return None
        keys.read()
        return keys.first.id

    def require_key(self, name: str, key_id: str) -> None:
        """Raise BackupKeyMismatch unless the key of a backup is in the key file, as it was read last."""
        self._codec.find_key(f"backup {name}", key_id)

    def refuse_vanished(self) -> None:
        """Raise BackupTargetInvalid if the target with the known backups is gone, out of reach or another one."""
        known = self.known_id  # first: while the id is read, the first backup may make it, and know it from then on
        content = self._storage.get("id")  # which fails if it is out of reach
        if known is None:
            return
        found = self._decode_id(content)
        if found != known:
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

    def _decode_id(self, content: Content | None) -> str | None:
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
            raise self._holds_none()

    def _holds_none(self) -> BackupTargetInvalid:
        hint = "name the directory or the object store that is `backup.target` of the broker"
        return BackupTargetInvalid(f"{self} holds no backups", hint=hint)

    def _is_there(self) -> bool:
        """Return whether this holds backups. Raises BackupTargetInvalid if it did, or BackupDamaged."""
        self.refuse_vanished()
        content = self._storage.get("FORMAT")
        if content is None:
            return False
        if content.startswith((b"goqueue ", RESTORING)):  # a data directory
            raise self._holds_none()
        if content not in (_FORMAT, _FORMAT_1):
            raise BackupDamaged(
                f"{self}/FORMAT says {bytes(content[:40])!r}, and this version writes {_FORMAT!r}",
                hint="install a newer version of GoQueue, or restore the file",
            )
        if self.known_id is None:
            with suppress(BackupDamaged):  # which a verification finds; a restore can do without
                self.known_id = self._id()
        return True

    # --- pieces ---

    def objects(self) -> dict[str, int]:
        """The names of all whole objects, with their sizes as they are stored."""
        return {name: size for name, size in self._storage.sizes("objects").items() if OBJECT_NAME.fullmatch(name)}

    def find(self, piece: Piece, stored: Mapping[str, int]) -> Piece | None:
        """Return a piece with its place among the stored objects; None where it has none."""
        name = next((name for name in self._codec.object_names(piece.sha256) if name in stored), None)
        return None if name is None else _placed(piece, name, stored[name])

    def put_object(
        self, piece: Piece, content: Content, pace: Pace | None = None, damaged: Container[str] = ()
    ) -> Piece:
        """Store a piece, and return it with its place. An object among the `damaged` ones is replaced."""
        name, stored = self._codec.encode_object(piece.sha256, content)
        if name in damaged:
            self.delete_objects([name])  # a store writes no name twice
        self._storage.put(_path(name), stored, pace)
        return _placed(piece, name, len(stored))

    def get_object(self, piece: Piece) -> Content:
        """Return the content of a piece. Raises BackupDamaged."""
        try:
            content = self._storage.get(_path(piece.object_name))
        except DiskFailed as error:
            sentence = f"object {piece.object_name} cannot be read: {error}"
            raise BackupDamaged(sentence, object=piece.object_name) from error
        if content is None:
            raise BackupDamaged(f"object {piece.object_name} is missing in {self}", object=piece.object_name)
        return self._codec.decode_object(piece.object_name, content, piece.size)

    def delete_objects(self, names: Iterable[str]) -> None:
        self._storage.delete([_path(name) for name in names])

    # --- manifests ---

    def ids(self) -> list[str]:
        """The ids of all backups, the oldest first; none where there is no target yet."""
        if not self._is_there():
            return []
        return sorted(name for name in self._storage.sizes("backups") if _ID.fullmatch(name))

    def put_manifest(self, name: str, content: bytes) -> None:
        path = f"backups/{name}"
        self._storage.put(path, self._codec.encode_note(path, content))

    def get_manifest(self, name: str) -> bytes:
        """Raises BackupNotFound, BackupDamaged; BackupKeyMismatch also where it must be encrypted and is not."""
        content, key_id = self.get_any_manifest(name)
        if self._codec.keys is not None and not key_id:
            raise BackupKeyMismatch(
                f"backup {name} is not encrypted, so {self._codec.keys} does not prove who made it",
                hint="choose another backup; if you trust this one, use it without a key file",
            )
        return content

    def get_any_manifest(self, name: str) -> tuple[bytes, str]:
        """Return a manifest, also one without encryption, and the id of its key, which is empty then."""
        refuse_unless_id(name, self.ids())
        content = self._storage.get(f"backups/{name}")
        if content is None:
            refuse_unless_id(name, [])
            raise AssertionError("no backup is unknown where there is none")
        return self._codec.decode_note(f"backup {name}", f"backups/{name}", content)

    def delete_manifest(self, name: str) -> None:
        self._storage.delete([f"verified/{name}"])
        self._storage.delete([f"backups/{name}"])

    def put_verification(self, name: str, content: bytes) -> None:
        path = f"verified/{name}"
        self._storage.put(path, self._codec.encode_note(path, content))

    def verified_ids(self) -> set[str]:
        """The ids of the backups that were verified."""
        return {name for name in self._storage.sizes("verified") if _ID.fullmatch(name)}

    def get_verification(self, name: str) -> bytes | None:
        """Return a note; None without one that can be believed."""
        path = f"verified/{name}"
        stored = self._storage.get(path)
        try:
            content, key_id = (None, "") if stored is None else self._codec.decode_note(path, path, stored)
        except (BackupDamaged, BackupKeyMismatch):
            return None
        return None if self._codec.keys is not None and not key_id else content


def _path(name: str) -> str:
    return f"objects/{name[:2]}/{name}"


def _placed(piece: Piece, name: str, size: int) -> Piece:
    """Return a piece with its object; what goes without saying is left out."""
    is_plain = name == piece.sha256
    return structs.replace(piece, object="" if is_plain else name, stored=0 if is_plain else size)


def refuse_unless_id(name: str, ids: list[str]) -> None:
    """Raise BackupNotFound for a name that no backup has."""
    if name not in ids:
        near = nearest(name, ids)
        hint = f"did you mean {near}?" if near else "`goqueue-admin backup list` shows all"
        raise BackupNotFound(f"there is no backup {quoted(name)}", hint=hint)


def new_backup_id(now_ns: int) -> str:
    """Return an id that sorts by time: the second, its milliseconds in hexadecimal, and five random digits."""
    seconds, rest_ns = divmod(now_ns, NANOSECONDS)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y%m%dT%H%M%SZ}-{rest_ns // 1_000_000:03x}{uuid4().hex[:5]}"
