"""A webhook that keeps what it gets, and answers as a test wants."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

SECONDS_MAX = 60.0


class Receiver(ThreadingHTTPServer):
    """An HTTP server that collects the bodies of requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: Queue[dict[str, Any]] = Queue()
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.released = threading.Event()
        """An answer waits for it."""
        self.released.set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hooks/s3cret"

    def next(self) -> dict[str, Any]:
        return self.bodies.get(timeout=SECONDS_MAX)


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.headers.append(dict(self.headers))
        self.server.bodies.put(body)
        self.server.released.wait(SECONDS_MAX)
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()
