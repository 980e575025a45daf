"""Exports of spans to real files, sockets and collectors, among them collectors that behave badly."""

import gzip
import io
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from goqueue.config.trace_targets import TraceTarget, parse_trace_target
from goqueue.errors import ConfigInvalid
from goqueue.limits import EXPORT_BATCH_SPANS
from goqueue.observe.tracing.otlp_json import encode_json_line
from goqueue.observe.tracing.span import Span
from goqueue.runtime.span_exporter import SpanExporter, stop_exporters
from goqueue.runtime.span_targets import FileTarget, open_target, read_headers

SECONDS = 10.0
Answer = tuple[int, Mapping[str, str], bytes]
OK: Answer = (200, {}, b"")


def spans(count: int, first: int = 0) -> list[Span]:
    return [
        Span(trace_id=b"t" * 16, span_id=b"s" * 8, name=str(number), start_ns=1, end_ns=2)
        for number in range(first, first + count)
    ]


@dataclass
class Collector:
    """A collector that gives prepared answers, then accepts everything."""

    port: int
    answers: list[Answer]
    requests: Queue[tuple[Mapping[str, str], list[str]]] = field(default_factory=Queue)

    def names(self) -> list[str]:
        return self.requests.get(timeout=SECONDS)[1]

    @property
    def target(self) -> TraceTarget:
        return parse_trace_target(f"otlp:http://127.0.0.1:{self.port}")


@contextmanager
def collecting(*answers: Answer) -> Iterator[Collector]:
    collector = Collector(0, list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            body = gzip.decompress(self.rfile.read(int(self.headers["content-length"])))
            decoded = ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans
            status, headers, content = collector.answers.pop(0) if collector.answers else OK
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            told = {name.lower(): value for name, value in self.headers.items()}
            collector.requests.put((told, [one.name for one in decoded]))

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


@contextmanager
def exporting(
    target: TraceTarget, *, queue_spans: int = 10_000, headers: Mapping[str, str] | None = None
) -> Iterator[SpanExporter]:
    opened = open_target(target, "1.2.3", timeout=SECONDS, headers=headers or {})
    exporter = SpanExporter(str(target), opened, queue_spans=queue_spans, interval=0.01)
    exporter.start()
    try:
        yield exporter
    finally:
        stop_exporters([exporter], SECONDS)


def test_collector_gets_batches_and_refused_spans_are_counted() -> None:
    partial = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=2, error_message="too old")
    ).SerializeToString()
    retry = {"retry-after": "0"}
    answers: tuple[Answer, ...] = ((503, retry, b""), (429, retry, b""), OK, (200, {}, partial), (400, {}, b"no"), OK)
    with collecting(*answers) as collector, exporting(collector.target, headers={"x-team": "a"}) as exporter:
        exporter.offer(spans(3))
        headers, names = collector.requests.get(timeout=SECONDS)
        assert (headers["content-type"], headers["x-team"]) == ("application/x-protobuf", "a")
        assert [names, collector.names(), collector.names()] == [["0", "1", "2"]] * 3, "503 and 429 are retried"
        exporter.offer(spans(4, 10))
        assert collector.names() == ["10", "11", "12", "13"], "a partial success is not retried"
        exporter.offer(spans(5, 20))
        assert len(collector.names()) == 5, "400 is not retried"
        exporter.offer(spans(EXPORT_BATCH_SPANS + 1, 30))
        assert sorted((len(collector.names()), len(collector.names()))) == [1, EXPORT_BATCH_SPANS]
    assert collector.requests.empty()
    counts = exporter.counts
    assert (counts.exported, counts.failed, counts.dropped) == (3 + 2 + EXPORT_BATCH_SPANS + 1, 2 + 5, 0)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda connection: connection.getpeername(), id="never answers"),
        pytest.param(lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\nx: " + b"a" * 8192), id="endless head"),
        pytest.param(lambda connection: connection.sendall(b"\0\xff\r\n\r\n"), id="not http"),
        pytest.param(lambda connection: connection.close(), id="closes"),
    ],
)
def test_hostile_collector_delays_neither_offers_nor_the_end(answer: Callable[[socket.socket], None]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = open_target(
            parse_trace_target(f"otlp:http://127.0.0.1:{listener.getsockname()[1]}"), "1", timeout=SECONDS, headers={}
        )
        exporter = SpanExporter("hostile", target, queue_spans=1000, interval=0.0)
        exporter.start()
        exporter.offer(spans(1))
        connection, _ = listener.accept()
        with connection:
            answer(connection)
            for _ in range(10):
                exporter.offer(spans(300))
            assert exporter.counts.dropped == 2000
            stop_exporters([exporter], 0.1)
    assert exporter.counts.exported == 0


def test_end_does_not_wait_for_the_delay_between_two_attempts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    target = open_target(parse_trace_target(f"otlp:http://127.0.0.1:{port}"), "1", timeout=SECONDS, headers={})
    exporter = SpanExporter("dead", target, queue_spans=1000, interval=0.0)
    exporter.start()
    exporter.offer(spans(7))
    stop_exporters([exporter], SECONDS)  # ends the delay between two attempts
    assert (exporter.counts.exported, exporter.counts.failed) == (0, 7)


def test_spans_become_lines_of_a_file_that_is_renamed_when_it_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = encode_json_line(spans(1), {}, "goqueue", "1")
    monkeypatch.setattr("goqueue.runtime.span_targets.EXPORT_FILE_BYTES_MAX", 2 * len(line))
    path = tmp_path / "new" / "spans.jsonl"
    target = FileTarget(str(path), {}, "1")
    for number in range(4):
        assert target.send(spans(1, number)) == (0, "")
    older, newer = Path(f"{path}.1").read_text().splitlines(), path.read_text().splitlines()
    names = [json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"] for line in (*older, *newer)]
    assert names == ["0", "1", "2", "3"]


def test_agent_gets_packets_and_standard_output_gets_lines() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.settimeout(SECONDS)
        with exporting(parse_trace_target(f"jaeger:udp://localhost:{agent.getsockname()[1]}")) as exporter:
            exporter.offer(spans(2))
            packet = agent.recv(65_507)
        assert packet[:17] == b"\x80\x01\x00\x04\x00\x00\x00\x09emitBatch"
        assert exporter.counts.exported == 2
    program = (
        "from goqueue.runtime.span_targets import StdoutTarget\n"
        "from tests.runtime.test_span_exporter import spans\n"
        "StdoutTarget({}, '1').send(spans(1000))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env={**os.environ, "PYTHONPATH": "."}
    )
    [line] = io.BytesIO(done.stdout)
    assert len(json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]) == 1000


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("stdout", ("stdout", "")),
        ("file:/var/log/spans.jsonl", ("file", "/var/log/spans.jsonl")),
        ("otlp:http://collector:4318", ("otlp", "http://collector:4318/v1/traces")),
        ("otlp:https://c.example/team/v1/traces?a=b", ("otlp", "https://c.example/team/v1/traces?a=b")),
        ("jaeger:http://[::1]:4318/", ("jaeger", "http://[::1]:4318/v1/traces")),
        ("jaeger:udp://agent", ("jaeger", "udp://agent:6832")),
        ("jaeger:udp://[::1]:6000", ("jaeger", "udp://[::1]:6000")),
    ],
)
def test_target_is_read_from_its_text(text: str, target: tuple[str, str]) -> None:
    assert parse_trace_target(text) == target
    assert parse_trace_target(str(parse_trace_target(text))) == target


@pytest.mark.parametrize(
    "text",
    [
        "",
        "stdout:",
        "file:",
        "otlp",
        "otlp:collector:4318",
        "otlp:http://",
        "otlp:http://host:99999",
        "otlp:ftp://host",
        "otlp:udp://host",
        "otlp:http://user:secret@host",
        "otlp:http://ho st",
        "jaeger:udp://host/path",
        "zipkin:http://host",
    ],
)
def test_invalid_target_is_refused_without_telling_a_password(text: str) -> None:
    with pytest.raises(ValueError, match=r"collector|target|URL") as refused:
        parse_trace_target(text)
    assert "secret" not in str(refused.value)


def test_headers_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "headers"
    path.write_text("# for the collector\nAuthorization: Bearer a:b\n\nx-team: one\n")
    assert read_headers(str(path)) == {"authorization": "Bearer a:b", "x-team": "one"}
    path.write_text("Authorization\n")
    with pytest.raises(ConfigInvalid, match="line 1"):
        read_headers(str(path))
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        read_headers(str(tmp_path / "missing"))
