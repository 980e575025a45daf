"""Targets of exported spans: a file, standard output, a collector of OTLP, an agent of Jaeger.

Each is used by the one thread of its exporter, and may block that.
"""

import gzip
import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from goqueue.config.trace_targets import TraceTarget
from goqueue.errors import ConfigInvalid
from goqueue.limits import EXPORT_ANSWER_BYTES_MAX, EXPORT_FILE_BYTES_MAX
from goqueue.observe.tracing.jaeger_thrift import encode_packets
from goqueue.observe.tracing.otlp_json import encode_json_line
from goqueue.observe.tracing.otlp_protobuf import decode_partial_success, encode_export
from goqueue.observe.tracing.span import Span

if TYPE_CHECKING:
    import httpx

SERVICE = "goqueue"
_RETRYABLE = {429, 502, 503, 504}
_STDOUT = 1


class ExportFailed(Exception):
    """Spans that a target did not take."""

    def __init__(self, reason: str, *, is_retryable: bool, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.is_retryable = is_retryable
        self.retry_after = retry_after
        """Seconds that the collector asks to wait."""


class SpanTarget(Protocol):
    """Takes batches of spans."""

    def send(self, spans: Sequence[Span]) -> tuple[int, str]:
        """Send spans; return the number of them that were refused, and why. Raises ExportFailed and OSError."""

    def close(self) -> None: ...


def open_target(target: TraceTarget, version: str, *, timeout: float, headers: Mapping[str, str]) -> SpanTarget:
    resource = {"service.name": SERVICE, "service.version": version, "host.name": socket.gethostname()}
    if target.kind == "stdout":
        return StdoutTarget(resource, version)
    if target.kind == "file":
        return FileTarget(target.address, resource, version)
    if target.is_agent:
        return AgentTarget(target.address, resource)
    return CollectorTarget(target.address, resource, version, timeout, headers)


def read_headers(path: str) -> Mapping[str, str]:
    """Read the file with headers for collectors: one `name: value` per line."""
    try:
        lines = Path(path).read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"the headers for traces cannot be read from {path}: {error}", problems=()) from None
    headers = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip().replace("-", "").replace("_", "").isalnum() or not value.strip().isprintable():
            raise ConfigInvalid(f"line {number} of {path} is not a header: write name: value", problems=())
        headers[name.strip().lower()] = value.strip()
    return headers


class FileTarget:
    """A file of OTLP JSON, one batch per line. When it is full it gets the suffix `.1`, and a new one begins."""

    def __init__(self, path: str, resource: Mapping[str, str], version: str) -> None:
        self._path = Path(path)
        self._resource = resource
        self._version = version

    def send(self, spans: Sequence[Span]) -> tuple[int, str]:
        line = encode_json_line(spans, self._resource, SERVICE, self._version)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if self._path.stat().st_size + len(line) > EXPORT_FILE_BYTES_MAX:
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        with self._path.open("ab") as file:
            file.write(line)
        return 0, ""

    def close(self) -> None:
        """Leave the file as it is: it is open only while a line is written."""


class StdoutTarget:
    """Standard output, with the same lines as files have."""

    def __init__(self, resource: Mapping[str, str], version: str) -> None:
        self._resource = resource
        self._version = version

    def send(self, spans: Sequence[Span]) -> tuple[int, str]:
        line = memoryview(encode_json_line(spans, self._resource, SERVICE, self._version))
        while line:  # without Python's lock of the stream: a reader that stands still blocks this thread alone
            line = line[os.write(_STDOUT, line) :]
        return 0, ""

    def close(self) -> None:
        """Leave standard output open."""


class AgentTarget:
    """An agent of Jaeger, which never answers: what it does not receive is lost."""

    def __init__(self, url: str, resource: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 0)
        self._resource = resource

    def send(self, spans: Sequence[Span]) -> tuple[int, str]:
        packets, too_large = encode_packets(spans, SERVICE, self._resource)
        family, kind, protocol, _, address = socket.getaddrinfo(*self._address, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as sender:
            for packet in packets:
                sender.sendto(packet, address)
        return too_large, "the spans do not fit a packet" if too_large else ""

    def close(self) -> None:
        """Nothing is open between two batches."""


class CollectorTarget:
    """A collector that takes OTLP over HTTP, in protobuf."""

    def __init__(
        self, url: str, resource: Mapping[str, str], version: str, timeout: float, headers: Mapping[str, str]
    ) -> None:
        self._url = url
        self._resource = resource
        self._version = version
        self._timeout = timeout
        self._headers = {
            "user-agent": f"goqueue/{version}",
            "accept-encoding": "identity",  # a compressed answer could be of any size
            **headers,
            "content-type": "application/x-protobuf",
            "content-encoding": "gzip",
        }
        self._client: httpx.Client | None = None

    def send(self, spans: Sequence[Span]) -> tuple[int, str]:
        import httpx  # noqa: PLC0415 - 50 ms that only a broker with a collector needs

        if self._client is None:
            self._client = httpx.Client(timeout=self._timeout)
        body = gzip.compress(encode_export(spans, self._resource, SERVICE, self._version), 1)
        try:
            with self._client.stream("POST", self._url, content=body, headers=self._headers) as response:
                answer = _read_answer(response.iter_raw(4096), time.monotonic() + self._timeout)
        except httpx.TransportError as error:
            raise ExportFailed(str(error) or type(error).__name__, is_retryable=True) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ExportFailed(str(error) or type(error).__name__, is_retryable=False) from None
        if response.is_success:
            refused = decode_partial_success(answer)
            return (min(refused.rejected_spans, len(spans)), refused.message) if refused else (0, "")
        raise ExportFailed(
            f"the answer is {response.status_code} {response.reason_phrase}",
            is_retryable=response.status_code in _RETRYABLE,
            retry_after=_seconds(response.headers.get("retry-after")),
        )

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def _read_answer(chunks: Iterable[bytes], deadline: float) -> bytes:
    """Read an answer; what is too long or comes too slowly is cut off, because the status has told enough."""
    answer = bytearray()
    for chunk in chunks:
        answer += chunk
        if len(answer) > EXPORT_ANSWER_BYTES_MAX or time.monotonic() > deadline:
            break
    return bytes(answer)


def _seconds(retry_after: str | None) -> float | None:
    """Return the seconds of a `Retry-After`, which is a number or a date."""
    if retry_after is None:
        return None
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:9])
    try:
        date = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
