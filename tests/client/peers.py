"""A peer that answers as a test tells it: real sockets, and no broker behind them."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Reply = bytes | None
"""What to write; None ends the connection."""


def reply(content: object = b"", status: int = 200, **headers: str) -> bytes:
    body = content if isinstance(content, bytes) else msgspec.json.encode(content)
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode() + body


def answered_bytes(answer: bytes) -> int:
    """Return the length that an answer states."""
    head, _, _ = answer.partition(b"\r\n\r\n")
    length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length: ")), b": 0")
    return len(head) + 4 + int(length.partition(b": ")[2])


def refusal(code: str, status: int = 400, sentence: str = "no", **more: object) -> bytes:
    return reply({"error": sentence, "code": code, **more}, status)


@dataclass
class Peer:
    """Hands each request to `answer`, on a thread for each connection, and keeps what was asked."""

    answer: Callable[[Asked], Reply]
    host: str = "127.0.0.1"
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0

    def __post_init__(self) -> None:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self._listener = socket.create_server((self.host, 0), family=family)
        self._threads = [threading.Thread(target=self._accept)]
        self._sockets: list[socket.socket] = []
        self._threads[0].start()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                wire, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._sockets.append(wire)
            thread = threading.Thread(target=self._serve, args=(wire,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, wire: socket.socket) -> None:
        with wire, wire.makefile("rb") as lines:
            try:
                while line := lines.readline():
                    method, target, _ = line.decode().split(" ")
                    headers = {}
                    while (line := lines.readline().strip()) != b"":
                        name, _, value = line.decode().partition(": ")
                        headers[name.lower()] = value
                    body = lines.read(int(headers.get("content-length", "0")))
                    asked = Asked(method, target, headers, body)
                    self.asked.append(asked)
                    answer = self.answer(asked)
                    if answer is None:
                        return
                    wire.sendall(answer)
                    if len(answer) < answered_bytes(answer):
                        return  # the test wants it to break off
            except OSError:
                return

    def close(self) -> None:
        """End all connections and refuse further ones."""
        if self._listener.fileno() < 0:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for wire in self._sockets:
            try:
                wire.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads:
            thread.join()


@contextmanager
def peer(answer: Callable[[Asked], Reply], host: str = "127.0.0.1") -> Iterator[Peer]:
    made = Peer(answer, host)
    try:
        yield made
    finally:
        made.close()
