"""Frames over HTTP as any client could send them, and requests written byte by byte."""

import socket
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

from crc32c import crc32c

from goqueue.storage import frame
from goqueue.wire.headers import FRAMES
from tests.brokers import Answer, ask


def mark(producer: int, epoch: int, sequence: int, count: int) -> bytes:
    """The value of the header `__producer`."""
    return struct.pack(">qhII", producer, epoch, sequence, count)


def frames(values: Iterable[bytes], producer: tuple[int, int, int] | None = None, **fields: Any) -> bytes:
    """One frame a value, back to back; a producer is its id, its epoch and the sequence of the first message."""
    encoded = [frame.encode(value, **fields) for value in values]
    if producer is not None:
        first, *_ = values
        headers = frame.encode_headers([("__producer", mark(*producer, len(encoded)))])
        encoded[0] = frame.encode(first, **fields, headers=headers)
    return b"".join(encoded)


def section(partition: int, content: bytes, length: int | None = None) -> bytes:
    """A section, which may lie about its length."""
    return struct.pack(">II", partition, len(content) if length is None else length) + content


def send(url: str, body: bytes, topic: str = "t", query: str = "", checksum: str | None = None) -> Answer:
    """Publish sections."""
    headers = {"content-type": FRAMES, "x-goqueue-checksum": checksum or f"{crc32c(body):08x}"}
    return ask(url, "POST", f"/topics/{topic}/messages?{query}", body, headers)


def fetch(url: str, query: str = "", topic: str = "t", partition: int = 0) -> Answer:
    """Read frames."""
    return ask(url, "GET", f"/topics/{topic}/partitions/{partition}/messages?{query}", headers={"accept": FRAMES})


def messages(body: bytes) -> list[frame.StoredMessage]:
    """The frames of an answer, each verified."""
    return [frame.decode(body, position) for position in frame.walk(body)]


def raw(url: str, request: bytes) -> bytes:
    """Send these bytes and return everything up to the end of the connection."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=30) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def until(url: str, condition: Callable[[], object]) -> None:
    """Ask the broker something small until a condition holds: each answer is a turn of its loop."""
    pause = threading.Event()
    for number in range(20_000):
        if condition():
            return
        ask(url, "GET", "/healthz")
        pause.wait(0.01 if number > 10 else 0)  # what takes long should not keep the machine busy
    raise AssertionError("it never came to be so")
