"""Clients that publish at a fixed rate, whether or not the broker keeps up.

The time of an answer counts from when its request should have been sent: one that had to wait behind a slow
one was slow as well. Each client is a thread with a connection that it sleeps and blocks on, since an event
loop wakes at whole milliseconds.
"""

import socket
import threading
import time

from benchmarks.broker.latency import Answers
from benchmarks.broker.request import publish_request
from benchmarks.broker.server import LOOPBACK

CLIENTS = 4
ANSWER_SECONDS_MAX = 10
RECEIVED_BYTES = 2**16


def publish_paced(port: int, topic: str, rate: float, seconds: float) -> Answers:
    """So many single messages a second."""
    return ask_paced(port, publish_request(topic, 1), rate, seconds)


def ask_paced(port: int, request: bytes, rate: float, seconds: float) -> Answers:
    """The request so many times a second, from a few clients who take turns."""
    return Answers.of(times_paced(port, request, rate, seconds), seconds)


def times_paced(port: int, request: bytes, rate: float, seconds: float) -> list[float]:
    """The seconds that each answer took."""
    start = time.perf_counter() + 0.1
    clients = [_Client(port, request, start + number / rate, CLIENTS / rate, seconds) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    for client in clients:
        if client.error is not None:
            raise client.error
    return [one for client in clients for one in client.times]


class _Client(threading.Thread):
    def __init__(self, port: int, request: bytes, start: float, period: float, seconds: float) -> None:
        super().__init__(daemon=True)
        self.times: list[float] = []
        self.error: Exception | None = None
        self._port = port
        self._request = request
        self._moments = [start + number * period for number in range(round(seconds / period))]

    def run(self) -> None:
        try:
            with socket.create_connection((LOOPBACK, self._port), ANSWER_SECONDS_MAX) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for moment in self._moments:
                    time.sleep(max(0.0, moment - time.perf_counter()))
                    connection.sendall(self._request)
                    _receive(connection)
                    self.times.append(time.perf_counter() - moment)
        except Exception as error:
            self.error = error


def _receive(connection: socket.socket) -> None:
    """One answer with a body of a told length."""
    received = b""
    while True:
        part = connection.recv(RECEIVED_BYTES)
        if not part:
            raise ConnectionError("the broker closed the connection of a client that did nothing wrong")
        received += part
        head, end, body = received.partition(b"\r\n\r\n")
        if end and len(body) >= _length(head):
            break
    if received.split(b" ", 2)[1][:1] != b"2":
        raise RuntimeError(f"answered with {received[:300].decode(errors='replace')}")


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    raise RuntimeError(f"an answer without a length: {head.decode(errors='replace')}")
