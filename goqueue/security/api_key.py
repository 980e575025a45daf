"""The text of an API key, `gq_{id}_{secret}{checksum}`, and its digest.

id          finds the key; it is no secret, and is shown in lists
secret      256 random bits, of which only the SHA-256 is stored: a secret that cannot be guessed needs no slow hash
checksum    CRC-32 of everything before it, so that a typo is refused without a lookup, and secret scanners can
            tell a key from similar text
"""

import re
from binascii import crc32
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest
from typing import NamedTuple

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_CHARACTERS = 12
_SECRET_CHARACTERS = 43  # 62 ** 43 > 2 ** 256
_CHECKSUM_CHARACTERS = 6  # 62 ** 6 > 2 ** 32
_SECRET_BITS = 256
_ID_BITS = 71  # 62 ** 12 > 2 ** 71
PREFIX = "gq_"
_FORM = re.compile(
    rf"{PREFIX}([0-9A-Za-z]{{{_ID_CHARACTERS}}})_([0-9A-Za-z]{{{_SECRET_CHARACTERS}}})([0-9A-Za-z]{{6}})"
)
KEY_CHARACTERS = len(PREFIX) + _ID_CHARACTERS + 1 + _SECRET_CHARACTERS + _CHECKSUM_CHARACTERS


class KeyText(NamedTuple):
    """The parts of a well-formed key."""

    id: str
    secret: str


def make_key(chance: Callable[[int], int], key_id: str | None = None) -> tuple[str, str, str]:
    """Return a new key: its id, its text, and the digest to store. `chance(bits)` returns an unpredictable number."""
    name = key_id or _base62(chance(_ID_BITS), _ID_CHARACTERS)
    secret = _base62(chance(_SECRET_BITS), _SECRET_CHARACTERS)
    start = f"{PREFIX}{name}_{secret}"
    return name, start + _checksum(start), digest(secret)


def parse_key(text: str) -> KeyText | None:
    """Return the parts of a key, or None for text that is not one, such as a key with a typo."""
    if len(text) != KEY_CHARACTERS:
        return None
    found = _FORM.fullmatch(text)
    if found is None or _checksum(text[:-_CHECKSUM_CHARACTERS]) != found[3]:
        return None
    return KeyText(found[1], found[2])


def digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def is_secret(secret: str, stored: str) -> bool:
    """Compare a secret with a stored digest, in a time that does not tell how much of it is right."""
    return compare_digest(digest(secret), stored)


def _checksum(text: str) -> str:
    return _base62(crc32(text.encode()), _CHECKSUM_CHARACTERS)


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, rest = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[rest])
    return "".join(reversed(digits))
