"""Targets of exported spans: a file, standard output, a collector of OTLP, an agent of Jaeger.

Each is used by the one thread of its exporter, and may block that.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from goqueue import __version__
from goqueue.config.export_targets import ExportTarget
from goqueue.errors import ConfigInvalid
from goqueue.limits import EXPORT_FILE_BYTES_MAX
from goqueue.observe.tracing.jaeger_thrift import encode_packets
from goqueue.observe.tracing.otlp_json import encode_json_line
from goqueue.observe.tracing.otlp_protobuf import encode_export
from goqueue.observe.tracing.span import Span
from goqueue.runtime.exporter import Destination
from goqueue.runtime.otlp_sender import SERVICE, OtlpSender, compress

_STDOUT = 1


def open_target(
    target: ExportTarget, resource: Mapping[str, str], *, timeout: float, headers: Mapping[str, str]
) -> Destination[Span]:
    if target.kind == "stdout":
        return StdoutTarget(resource)
    if target.kind == "file":
        return FileTarget(target.address, resource)
    if target.is_agent:
        return AgentTarget(target.address, resource)
    return CollectorTarget(OtlpSender(target.address, timeout, headers), resource)


class FileTarget:
    """A file of OTLP JSON, one batch per line. When it is full it gets the suffix `.1`, and a new one begins."""

    def __init__(self, path: str, resource: Mapping[str, str]) -> None:
        self._path = Path(path)
        self._resource = resource
        try:
            self._open(os.O_NONBLOCK).close()  # a pipe without a reader delays no start
        except OSError as error:
            raise ConfigInvalid(
                f"tracing.export names the file {path}, which cannot be written: {error.strerror}",
                hint="file:PATH names a file that the broker may write",
                problems=(),
            ) from None

    def _open(self, more: int = 0) -> BinaryIO:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | more
        return os.fdopen(os.open(self._path, flags, 0o600), "ab")

    def send(self, spans: Sequence[Span]) -> tuple[int, str]:
        line = encode_json_line(spans, self._resource, SERVICE, __version__)
        with suppress(FileNotFoundError):
            if self._path.stat().st_size + len(line) > EXPORT_FILE_BYTES_MAX:
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        with self._open() as file:
            file.write(line)
        return 0, ""

    def close(self) -> None:
        """Leave the file as it is: it is open only while a line is written."""


class StdoutTarget:
    """Standard output, with the same lines as files have."""

    def __init__(self, resource: Mapping[str, str]) -> None:
        self._resource = resource

    def send(self, spans: Sequence[Span]) -> tuple[int, str]:
        line = memoryview(encode_json_line(spans, self._resource, SERVICE, __version__))
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
    """A collector that takes OTLP over HTTP."""

    def __init__(self, sender: OtlpSender, resource: Mapping[str, str]) -> None:
        self._sender = sender
        self._resource = resource

    def send(self, spans: Sequence[Span]) -> tuple[int, str]:
        refused = self._sender.send(compress(encode_export(spans, self._resource, SERVICE, __version__)))
        return (min(refused.rejected, len(spans)), refused.message) if refused else (0, "")

    def close(self) -> None:
        self._sender.close()
