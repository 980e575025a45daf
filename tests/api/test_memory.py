"""The memory of a request is freed when it is answered, without the garbage collector."""

import gc
import json
import socket
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from goqueue.api.http import request_reader
from goqueue.testing.broker import LocalBroker
from goqueue.wire.headers import FRAMES
from tests.api.wire import frames, section, until
from tests.brokers import ask, create


class Body(bytearray):
    """A body whose life can be watched."""

    live: ClassVar["weakref.WeakSet[Body]"] = weakref.WeakSet()
    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__

    def __init__(self) -> None:
        super().__init__()
        self.live.add(self)


def held() -> int:
    """Return the bytes of all bodies in the process."""
    return sum(map(len, list(Body.live)))


def comes_true(url: str, condition: Callable[[], bool]) -> bool:
    """Return whether a condition becomes true within some turns of the broker's loop."""
    return any(ask(url, "GET", "/healthz").status == 200 and condition() for _ in range(100))


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A broker in a process that never collects garbage."""
    monkeypatch.setattr(request_reader, "bytearray", Body, raising=False)
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "t", 2)
        gc.collect()
        gc.disable()
        try:
            yield broker.url
        finally:
            gc.enable()


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    address = urlsplit(url)
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=30) as connection:
        yield connection


def head(content_type: str, *lines: str, path: str = "/topics/t/messages") -> bytes:
    return "\r\n".join(
        [f"POST {path} HTTP/1.1", "host: localhost", f"content-type: {content_type}", *lines, "", ""]
    ).encode()


def sized(content_type: str, body: bytes, *lines: str, path: str = "/topics/t/messages") -> bytes:
    return head(content_type, f"content-length: {len(body)}", *lines, path=path) + body


JSON = "application/json"
MANY = 400_000  # more than is decoded on the loop
MESSAGE: dict[str, Any] = {"value": "x"}
FILLING = {"value": "x" * MANY}
WRONG_SECTIONS = section(0, b"x" * MANY) + section(1, b"y" * 1000)

REQUESTS = {
    "garbage as JSON": sized(JSON, b"\x9e" * 1000),
    "much garbage as JSON": sized(JSON, b"\x9e" * MANY),
    "a number that is too large": sized(JSON, b'{"messages":[{"value":"x","partition":%s}]}' % (b"9" * MANY)),
    "a message that is too large": sized(JSON, json.dumps({"messages": [{"value": "x" * 1_100_000}]}).encode()),
    "no such partition": sized(JSON, json.dumps({"messages": [FILLING, {"value": "x", "partition": 9}]}).encode()),
    "no such topic": sized(JSON, json.dumps({"messages": [FILLING]}).encode(), path="/topics/none/messages"),
    "no such endpoint": sized(JSON, b"x" * MANY, path="/nowhere"),
    "another method": sized(JSON, b"x" * MANY, path="/healthz"),
    "garbage as frames": sized(FRAMES, b"\x9e" * MANY),
    "sections that are no frames": sized(FRAMES, WRONG_SECTIONS),
    "frames with a wrong checksum": sized(FRAMES, section(0, frames([b"x" * MANY])), "x-goqueue-checksum: 00000000"),
    "frames for no such topic": sized(FRAMES, section(0, frames([b"x"])), path="/topics/none/messages"),
    "messages": sized(JSON, json.dumps({"messages": [MESSAGE] * 10_000}).encode()),
    "frames of which each section is less than a half": sized(
        FRAMES, section(0, frames([b"x" * 1000])) + section(1, frames([b"y" * 1000]))
    ),
    "a chunk that is too long": head(JSON, "transfer-encoding: chunked") + b"5\r\nwrongly",
    "chunks": head(JSON, "transfer-encoding: chunked") + b"5\r\nwrong\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", REQUESTS.values(), ids=REQUESTS)
def test_body_is_freed_after_its_answer_on_an_open_connection(url: str, request_bytes: bytes) -> None:
    with connected(url) as client:
        client.sendall(request_bytes)
        assert client.recv(65536).startswith(b"HTTP/1.1 ")
        assert comes_true(url, lambda: not held())


@pytest.mark.parametrize(
    "beginning",
    [
        pytest.param(head(JSON, "content-length: 1000000") + b"x" * 500_000, id="with a length"),
        pytest.param(head(JSON, "transfer-encoding: chunked") + b"FFFFF\r\n" + b"x" * 500_000, id="in chunks"),
        pytest.param(head(JSON, "transfer-encoding: chunked") + b"5\r\nwrong", id="at the end of a chunk"),
    ],
)
def test_unfinished_body_is_freed_when_its_client_leaves(url: str, beginning: bytes) -> None:
    with connected(url) as client:
        client.sendall(beginning)
        until(url, held)
    assert comes_true(url, lambda: not held())


def test_connections_are_freed_when_they_close(url: str) -> None:
    garbage, refused = sized(JSON, b"\x9e" * 1000), b"rubbish\r\n\r\n"
    for request in (garbage, refused, head(JSON, "content-length: 99999999999")):
        with connected(url) as client:
            client.sendall(request)
            client.recv(65536)
    assert comes_true(url, lambda: len(Body.live) <= 1)  # that of the connection that asks
