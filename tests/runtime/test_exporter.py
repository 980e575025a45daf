"""Exports of spans to real files, sockets and collectors, among them collectors that behave badly."""

import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from goqueue import __version__
from goqueue.config.export_targets import ExportTarget, parse_metrics_target, parse_trace_target
from goqueue.errors import ConfigInvalid
from goqueue.limits import EXPORT_BATCH_SPANS
from goqueue.observe.tracing.otlp_json import encode_json_line
from goqueue.observe.tracing.span import Span
from goqueue.runtime.exporter import Exporter, stop_exporters
from goqueue.runtime.otlp_sender import read_headers
from goqueue.runtime.span_targets import FileTarget, open_target
from tests.runtime.collectors import OK, SECONDS, Answer, collecting


def spans(count: int, first: int = 0) -> list[Span]:
    return [
        Span(trace_id=b"t" * 16, span_id=b"s" * 8, name=str(number), start_ns=1, end_ns=2)
        for number in range(first, first + count)
    ]


def started(
    target: ExportTarget, *, interval: float, queue_max: int = 10_000, headers: Mapping[str, str] | None = None
) -> Exporter[Span]:
    opened = open_target(target, {"service.name": "goqueue"}, timeout=SECONDS, headers=headers or {})
    exporter = Exporter(
        str(target),
        opened,
        subject="traces",
        queue_max=queue_max,
        batch_max=EXPORT_BATCH_SPANS,
        interval=interval,
    )
    exporter.start()
    return exporter


@contextmanager
def exporting(target: ExportTarget, *, headers: Mapping[str, str] | None = None) -> Iterator[Exporter[Span]]:
    exporter = started(target, interval=0.01, headers=headers)
    try:
        yield exporter
    finally:
        stop_exporters([exporter], SECONDS)


def test_collector_gets_batches_and_refused_spans_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    partial = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=2, error_message="too old")
    ).SerializeToString()
    retry = {"retry-after": "0"}
    answers: tuple[Answer, ...] = ((503, retry, b""), (429, retry, b""), OK, (200, {}, partial), (400, {}, b"no"), OK)
    with collecting(*answers) as collector, exporting(collector.target, headers={"x-team": "a"}) as exporter:
        exporter.offer(spans(3))
        headers, names = collector.next_spans()
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
    for reason in ("503 Service Unavailable", "429 Too Many Requests", "400 Bad Request"):
        assert caplog.text.count(f"do not reach {exporter.name}: the answer is {reason}") == 1


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
        target = parse_trace_target(f"otlp:http://127.0.0.1:{listener.getsockname()[1]}")
        exporter = started(target, interval=0.0, queue_max=1000)
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
    exporter = started(parse_trace_target(f"otlp:http://127.0.0.1:{port}"), interval=0.0)
    exporter.offer(spans(7))
    stop_exporters([exporter], SECONDS)  # ends the delay between two attempts
    assert (exporter.counts.exported, exporter.counts.failed) == (0, 7)


def test_spans_become_lines_of_a_file_that_is_renamed_when_it_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = encode_json_line(spans(1), {}, "goqueue", __version__)
    monkeypatch.setattr("goqueue.runtime.span_targets.EXPORT_FILE_BYTES_MAX", 2 * len(line))
    path = tmp_path / "new" / "spans.jsonl"
    target = FileTarget(str(path), {})
    for number in range(4):
        assert target.send(spans(1, number)) == (0, "")
    older, newer = Path(f"{path}.1").read_text().splitlines(), path.read_text().splitlines()
    names = [json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"] for line in (*older, *newer)]
    assert names == ["0", "1", "2", "3"]
    assert {one.stat().st_mode & 0o777 for one in path.parent.iterdir()} == {0o600}
    with pytest.raises(ConfigInvalid, match="which cannot be written: Is a directory"):
        FileTarget(str(tmp_path), {})


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
        "from tests.runtime.test_exporter import spans\n"
        "StdoutTarget({}).send(spans(1000))"
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


def test_target_of_metrics_is_a_collector() -> None:
    assert str(parse_metrics_target("otlp:http://c:4318")) == "otlp:http://c:4318/v1/metrics"
    assert str(parse_metrics_target("otlp:https://c/team?a=b")) == "otlp:https://c/team?a=b"
    for text in ("", "stdout", "file:x", "jaeger:http://c", "otlp:udp://c", "otlp:http://user:secret@c"):
        with pytest.raises(ValueError, match=r"target of metrics|collector") as refused:
            parse_metrics_target(text)
        assert "secret" not in str(refused.value)


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
    with pytest.raises(ConfigInvalid, match=r"cannot be read from .*missing: No such file or directory$"):
        read_headers(str(tmp_path / "missing"))
