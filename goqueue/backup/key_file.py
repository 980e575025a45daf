"""The keys that backups are encrypted with, and the file that has them.

A line of the file has the id of a key, which is derived from it, and its 32 bytes in hexadecimal. The first key
encrypts, all decrypt. Each use has a key of its own, derived by HKDF-SHA-256: names of objects, and contents. Each
content is encrypted with AES-256-GCM under a key and a nonce that are derived from 32 random bytes, so no key encrypts
twice.
"""

import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterator

from goqueue.errors import BackupKeyInvalid

SALT_BYTES = 32
_KEY_BYTES, _NONCE_BYTES, _TAG_BYTES = 32, 12, 16
_FILE_BYTES_MAX = 64 * 1024
_LINE = re.compile(r"([0-9a-f]{16}) ([0-9a-f]{64})")
_COMMENT = """\
# The keys of backups of GoQueue: an id, and the key. The first one encrypts, all decrypt.
# Keep a copy of this file elsewhere, and not beside the backups: without it they cannot be read.
"""
_ABSENT_HINT = (
    "restore it from its copy: a new key reads no earlier backup; where there is none, `goqueue backup key new FILE` "
    "makes the first key"
)


class BackupKey:
    """One key. Its id may be shown."""

    def __init__(self, secret: bytes) -> None:
        self.id = _derive(secret, b"goqueue backup key id", 8).hex()
        self._names = _derive(secret, b"goqueue backup object names", _KEY_BYTES)
        self._contents = _derive(secret, b"goqueue backup contents", _KEY_BYTES)

    def __repr__(self) -> str:
        return f"<BackupKey {self.id}>"

    def object_name(self, sha256: str) -> str:
        """Return the name of a content, which tells its hash only to those who have the key."""
        return hmac.digest(self._names, bytes.fromhex(sha256), "sha256").hex()

    def encrypt(self, content: bytes | bytearray, salt: bytes, header: bytes, name: bytes) -> bytearray:
        """Return a content, encrypted, behind its header. The salt is random, and was never used before."""
        from cryptography.hazmat.primitives.ciphers import Cipher  # noqa: PLC0415 - only for encrypted backups
        from cryptography.hazmat.primitives.ciphers.algorithms import AES  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.ciphers.modes import GCM  # noqa: PLC0415 - as above

        key, nonce = self._once(salt)
        encryptor = Cipher(AES(key), GCM(nonce)).encryptor()
        encryptor.authenticate_additional_data(header + name)
        whole = bytearray(len(header) + len(content) + _TAG_BYTES)  # contents are large: no copy is made
        whole[: len(header)] = header
        encryptor.update_into(content, memoryview(whole)[len(header) :])
        encryptor.finalize()
        whole[-_TAG_BYTES:] = encryptor.tag
        return whole

    def decrypt(self, content: memoryview, salt: bytes, header: bytes, name: bytes) -> bytes | None:
        """Return what is behind a header; None unless it was encrypted with all of these."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - as above

        key, nonce = self._once(salt)
        try:
            return AESGCM(key).decrypt(nonce, content, header + name)
        except InvalidTag:
            return None

    def _once(self, salt: bytes) -> tuple[bytes, bytes]:
        both = _derive(self._contents, b"goqueue backup content", _KEY_BYTES + _NONCE_BYTES, salt)
        return both[:_KEY_BYTES], both[_KEY_BYTES:]


def _derive(secret: bytes, purpose: bytes, size: int, salt: bytes | None = None) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415 - as above

    return HKDF(SHA256(), size, salt, purpose).derive(secret)


class KeyFile:
    """The keys of a file. It is read when one is first needed, and again for unknown keys."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._keys: tuple[BackupKey, ...] = ()

    def __str__(self) -> str:
        return self.path

    def read(self) -> None:
        """Take what is in the file now. Raises BackupKeyInvalid."""
        self._keys = tuple(_parse(self.path, read_key_text(self.path)))

    @property
    def first(self) -> BackupKey:
        if not self._keys:
            self.read()
        return self._keys[0]

    def find(self, key_id: str) -> BackupKey | None:
        """Return the key with this id, which may have been added meanwhile."""
        for is_last in (False, True):
            found = next((key for key in self._keys if key.id == key_id), None)
            if found is not None or is_last:
                return found
            self.read()
        return None

    @property
    def ids(self) -> list[str]:
        return [key.id for key in self._keys]


def read_key_text(path: str) -> str:
    """Return the content of a key file. Raises BackupKeyInvalid where others may read it."""
    hint = _ABSENT_HINT
    try:
        with open(path, "rb", opener=_open) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BackupKeyInvalid(f"the key file {path} is not a file", hint=hint)
            _refuse_exposed(path, status)
            content = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BackupKeyInvalid(f"the key file {path} cannot be read: {error.strerror}", hint=hint) from None
    if len(content) > _FILE_BYTES_MAX or not content.isascii():
        raise BackupKeyInvalid(f"the key file {path} is not one", hint=hint)
    return content.decode("ascii")


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe would wait for its other end


def _refuse_exposed(path: str, status: os.stat_result) -> None:
    """Refuse a file that others may read or change. One of another owner may be readable for our group."""
    allowed = 0o700 if status.st_uid == os.geteuid() else 0o740
    if stat.S_IMODE(status.st_mode) & ~allowed & 0o777:
        raise BackupKeyInvalid(
            f"the key file {path} has mode {stat.S_IMODE(status.st_mode):03o}: others may read or change it",
            hint="correct its mode (`chmod 600`); if others have read it, rotate its key (`goqueue backup key rotate`)",
        )


def _parse(path: str, text: str) -> Iterator[BackupKey]:
    count = 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        key = None if found is None else BackupKey(bytes.fromhex(found[2]))
        if found is None or key is None or key.id != found[1]:  # the line is not shown: it may have a key
            reason = "has no id and key" if key is None else f"has a key whose id is not {found[1] if found else ''}"
            raise BackupKeyInvalid(f"line {number} of the key file {path} {reason}", hint="restore it from a copy")
        count += 1
        yield key
    if not count:
        raise BackupKeyInvalid(f"the key file {path} has no key", hint=_ABSENT_HINT)


def new_key_text(others: str = "") -> tuple[str, str]:
    """Return the content of a key file with a new key before those of another one, and the id of the new key."""
    secret = secrets.token_bytes(_KEY_BYTES)
    key_id = BackupKey(secret).id
    rest = others.removeprefix(_COMMENT)
    return f"{_COMMENT}{key_id} {secret.hex()}\n{rest}", key_id
