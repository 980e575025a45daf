"""A collector of OTLP over HTTP that gives prepared answers."""

import gzip
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from goqueue.config.export_targets import ExportTarget, parse_trace_target

SECONDS = 10.0
Answer = tuple[int, Mapping[str, str], bytes]
OK: Answer = (200, {}, b"")


@dataclass
class Collector:
    """Gives prepared answers, then accepts everything."""

    port: int
    answers: list[Answer]
    requests: Queue[tuple[str, Mapping[str, str], bytes]] = field(default_factory=Queue)
    """The path, the headers and the decompressed body of each request."""
    before_answer: Callable[[], None] = lambda: None

    def next_spans(self) -> tuple[Mapping[str, str], list[str]]:
        """Return the headers and the names of the spans of the next request."""
        path, headers, body = self.requests.get(timeout=SECONDS)
        assert path == "/v1/traces"
        decoded = ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans
        return headers, [one.name for one in decoded]

    def names(self) -> list[str]:
        return self.next_spans()[1]

    @property
    def target(self) -> ExportTarget:
        return parse_trace_target(f"otlp:http://127.0.0.1:{self.port}")


@contextmanager
def collecting(*answers: Answer) -> Iterator[Collector]:
    collector = Collector(0, list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = gzip.decompress(self.rfile.read(int(self.headers["content-length"])))
            collector.before_answer()
            status, headers, content = collector.answers.pop(0) if collector.answers else OK
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            told = {name.lower(): value for name, value in self.headers.items()}
            collector.requests.put((self.path, told, body))

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
