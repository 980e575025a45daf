"""The stored form of what a target keeps: compressed where that pays, and encrypted where there is a key.

A content is stored as it is, or behind a line that says how to read it:

    goqueue-content 1 zstd crc32c=1a2b3c4d
    goqueue-content 1 zstd key=5f0c2a9b71d3e480 salt=<64 hexadecimal digits>

The checksum covers the bytes behind the line. Encryption covers them, the line and the name, so a content is refused
under another name. It is compressed first. The name of an object tells which form it has:

    abcd…           as it is; the name is the SHA-256 of the content
    abcd….packed    compressed; the same name
    abcd….sealed    encrypted; the name is an HMAC of the SHA-256
"""

import re
import secrets

from crc32c import crc32c

from goqueue.backup.key_file import SALT_BYTES, BackupKey, KeyFile
from goqueue.backup.target_storage import Content
from goqueue.compression import compress_content, decompress_content
from goqueue.errors import BackupDamaged, BackupKeyMismatch, FrameInvalid
from goqueue.storage.disk import Buffer

_HEADER = re.compile(
    rb"goqueue-content 1 (none|zstd) (?:crc32c=([0-9a-f]{8})|key=([0-9a-f]{16}) salt=([0-9a-f]{64}))\n"
)
_PACKED, _SEALED = ".packed", ".sealed"
OBJECT_NAME = re.compile(rf"[0-9a-f]{{64}}(?:\{_PACKED}|\{_SEALED})?")
_NOTE_BYTES_MAX = 1 << 40
"""The most bytes of a manifest or a note. Only a holder of the key can have compressed it."""


class ContentCodec:
    """Encodes and decodes the contents of a target."""

    def __init__(self, keys: KeyFile | None = None, *, compresses: bool = True) -> None:
        self.keys = keys
        self._compresses = compresses
        self._key: BackupKey | None = None

    def use_first_key(self) -> None:
        """Encrypt with what is the first key of the file now, until the next call. Raises BackupKeyInvalid."""
        if self.keys is not None:
            self.keys.read()
            self._key = self.keys.first

    @property
    def _encryption_key(self) -> BackupKey | None:
        if self._key is None and self.keys is not None:
            self._key = self.keys.first
        return self._key

    # --- objects ---

    def object_names(self, sha256: str) -> tuple[str, ...]:
        """Return the names that an object may have in a new backup, which is encrypted as a whole or not at all."""
        key = self._encryption_key
        return (sha256, sha256 + _PACKED) if key is None else (key.object_name(sha256) + _SEALED,)

    def encode_object(self, sha256: str, content: Content) -> tuple[str, Content]:
        """Return the name of an object and what is stored."""
        if (key := self._encryption_key) is not None:
            name = key.object_name(sha256) + _SEALED
            return name, self._encrypt(name, content, key)
        shorter = compress_content(content) if self._compresses else None
        if shorter is None:
            return sha256, content
        return sha256 + _PACKED, b"goqueue-content 1 zstd crc32c=%08x\n" % crc32c(shorter) + shorter

    def decode_object(self, name: str, stored: Content, size: int) -> Content:
        """Return the content of an object. Raises BackupDamaged."""
        if not name.endswith((_PACKED, _SEALED)):
            return stored
        try:
            return self._decode(f"object {name}", name, stored, size)[0]
        except BackupKeyMismatch as error:  # its manifest is encrypted with a key that is known
            raise BackupDamaged(error.sentence, object=name) from None

    # --- manifests and notes ---

    def encode_note(self, name: str, content: bytes) -> Content:
        key = self._encryption_key
        return content if key is None else self._encrypt(name, content, key)

    def decode_note(self, what: str, name: str, stored: Content) -> tuple[bytes, str]:
        """Return a content, and the id of its key, which is empty without one. Raises BackupDamaged, BackupKeyMismatch.

        All of them begin with a brace: what begins otherwise was encrypted, or is damaged.
        """
        return (bytes(stored), "") if stored.startswith(b"{") else self._decode(what, name, stored, _NOTE_BYTES_MAX)

    # --- both ---

    def _encrypt(self, name: str, content: Content, key: BackupKey) -> bytearray:
        shorter = compress_content(content) if self._compresses else None
        salt = secrets.token_bytes(SALT_BYTES)
        form = b"none" if shorter is None else b"zstd"
        header = b"goqueue-content 1 %s key=%s salt=%s\n" % (form, key.id.encode(), salt.hex().encode())
        return key.encrypt(content if shorter is None else shorter, salt, header, name.encode())

    def _decode(self, what: str, name: str, stored: Content, size_max: int) -> tuple[bytes, str]:
        header = _HEADER.match(stored)
        if header is None or (header[3] is None) != name.endswith(_PACKED):
            raise BackupDamaged(f"{what} is damaged: it does not begin as it must", object=name)
        form, checksum, key_id, salt = header.groups()
        body: Buffer = memoryview(stored)[header.end() :]
        if key_id is None:
            if crc32c(body) != int(checksum, 16):
                raise BackupDamaged(f"{what} is damaged: its checksum does not match", object=name)
        else:
            key = self.find_key(what, key_id.decode())
            decrypted = key.decrypt(memoryview(body), bytes.fromhex(salt.decode()), header[0], name.encode())
            if decrypted is None:
                raise BackupDamaged(f"{what} is damaged, or was stored under another name", object=name)
            body = decrypted
        if form == b"zstd":
            try:
                body = decompress_content(body, size_max)
            except FrameInvalid as error:
                raise BackupDamaged(f"{what} is damaged: {error.sentence}", object=name) from None
        return bytes(body), (key_id or b"").decode()

    def find_key(self, what: str, key_id: str) -> BackupKey:
        """Return the key with this id. Raises BackupKeyMismatch."""
        if self.keys is None:
            raise BackupKeyMismatch(
                f"{what} is encrypted with key {key_id}, and there is no key file",
                hint="name the file by `backup.key_file`, GOQUEUE_BACKUP_KEY_FILE or --key-file",
            )
        key = self.keys.find(key_id)
        if key is None:
            raise BackupKeyMismatch(
                f"{what} is encrypted with key {key_id}, and {self.keys} has {', '.join(self.keys.ids)}",
                hint="name the file that has it, or add its line to this one",
            )
        return key
