"""HTTP/2 by hand, for clients that do what no library lets them do."""

import socket
import struct
from contextlib import suppress
from typing import Self

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4
INITIAL_WINDOW_SIZE = 4
ENHANCE_YOUR_CALM = 11
CANCEL = struct.pack(">I", 8)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES = 9


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def call_headers(path: str) -> bytes:
    """Return the header block of a call, without compression."""
    pairs = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "x", "te": "trailers"}
    pairs["content-type"] = "application/grpc"
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in pairs.items())


def _text(text: str) -> bytes:
    assert len(text) < 127, text
    return bytes([len(text)]) + text.encode()


def message(content: bytes, length: int | None = None) -> bytes:
    """Return a message of gRPC that says how long it is."""
    return struct.pack(">BI", 0, len(content) if length is None else length) + content


class RawConnection:
    """A connection that has sent the preface and settings."""

    def __init__(self, address: str, settings: dict[int, int] | None = None) -> None:
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        chosen = b"".join(struct.pack(">HI", *pair) for pair in (settings or {}).items())
        self.send(PREFACE + frame(SETTINGS, 0, 0, chosen))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, *frames: bytes) -> None:
        """Send frames, unless the broker has closed the connection."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(b"".join(frames))

    def call(self, stream: int, path: str, *contents: bytes, flags: int = END_STREAM) -> None:
        """Begin a call, and send messages."""
        data = b"".join(contents)
        self.send(frame(HEADERS, END_HEADERS, stream, call_headers(path)))
        if data or flags:
            self.send(frame(DATA, flags, stream, data))

    def until(self, kind: int, stream: int = 0) -> bytes | None:
        """Return the payload of the next frame of a kind; None if the broker closes the connection before it."""
        with suppress(ConnectionResetError):
            while head := self._read(HEAD_BYTES):
                length, found, _, where = struct.unpack(">IBBI", b"\0" + head)
                payload = self._read(length)
                if (found, where) == (kind, stream):
                    return payload
        return None

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size and (some := self._socket.recv(size - len(found))):
            found += some
        return found
