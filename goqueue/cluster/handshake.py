"""The handshake of two nodes, which prove that they know the cluster's secret, and the seals of their messages.

Each side sends a random nonce, and nothing that lets the secret be guessed offline faster than by trying it. The keys
of a connection follow from the secret, both nonces and both names, one for each direction. Every message has a
checksum with the key and its number, so a handshake that is relayed or repeated gives no access, and no message can be
changed, left out, repeated or moved. Without TLS, nothing is encrypted.
"""

import hmac
import struct
from collections.abc import Iterable
from hashlib import blake2b

NONCE_BYTES = 32
SEAL_BYTES = 16
_KEY_BYTES = 32
_NUMBER = struct.Struct(">Q")


class PeerKeys:
    """The keys of one connection."""

    def __init__(
        self, secret: bytes, dialer: tuple[str, bytes], listener: tuple[str, bytes], binding: bytes = b""
    ) -> None:
        """Each side has its node id and its nonce. `binding` is what only the two ends of a TLS connection share."""
        parts = b"".join(len(part).to_bytes(4, "big") + part for part in _parts(dialer, listener)) + binding

        def derive(use: str) -> bytes:
            return hmac.digest(secret, f"goqueue-peer/1 {use} ".encode() + parts, "sha256")[:_KEY_BYTES]

        self.listener_proof = derive("listener proof")
        """Sent by the listener. The dialer proves itself by the seal of its first message."""
        self.dialer_key = derive("dialer key")
        """Seals what the dialer sends."""
        self.listener_key = derive("listener key")


def _parts(*sides: tuple[str, bytes]) -> list[bytes]:
    return [part for node, nonce in sides for part in (node.encode(), nonce)]


class Sealer:
    """Computes the seals of one direction, each for the next message."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def seal(self, content: bytes | memoryview) -> bytes:
        return self.seal_parts((content,))

    def seal_parts(self, parts: Iterable[bytes | memoryview]) -> bytes:
        """Seal a message that consists of parts."""
        digest = blake2b(_NUMBER.pack(self._number), digest_size=SEAL_BYTES, key=self._key)
        for part in parts:
            digest.update(part)
        self._number += 1
        return digest.digest()

    def is_sealed(self, content: bytes | memoryview, seal: bytes | memoryview) -> bool:
        return hmac.compare_digest(self.seal(content), bytes(seal))


def request_proof(secret: bytes, method: str, path: str, time_s: int, body: bytes) -> str:
    """Return what proves that a request of HTTP comes from one who knows the secret, at this Unix time."""
    content = b"\n".join((method.encode(), path.encode(), b"%d" % time_s, body))
    return hmac.digest(secret, b"goqueue-peer/1 request " + content, "sha256").hex()


def is_same_proof(one: bytes, other: bytes) -> bool:
    return hmac.compare_digest(one, other)
