"""Contexts whose failed handshakes keep the alert that OpenSSL has for the client.

Event loops close the connection of a failed handshake without it. A client would then know neither that its certificate
was refused, nor that it should not try again: since TLS 1.3 its own part of the handshake has succeeded by then.
"""

import ssl
from typing import Any, cast


class ServerHandshake(ssl.SSLObject):
    """One handshake, and what follows it."""

    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            error.alert = self.outgoing.read()  # type: ignore[attr-defined]
            raise


class ServerContext(ssl.SSLContext):
    sslobject_class = ServerHandshake

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *words: Any, **options: Any) -> ssl.SSLObject:
        made = cast(ServerHandshake, super().wrap_bio(incoming, outgoing, *words, **options))
        made.outgoing = outgoing
        return made


def alert_of(error: OSError) -> bytes:
    """Return what to send to the client of a failed handshake."""
    alert: bytes = getattr(error, "alert", b"")
    return alert
