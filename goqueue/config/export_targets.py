"""Targets of exports, as the settings `tracing.export` and `metrics.export` name them."""

from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from goqueue.quantities import quoted

TargetKind = Literal["stdout", "file", "otlp", "jaeger"]

TRACES_PATH = "/v1/traces"
METRICS_PATH = "/v1/metrics"
"""The paths of OTLP/HTTP, for an address without a path."""
AGENT_PORT = 6832
"""The port at which Jaeger's agents take Thrift's binary protocol."""

_TRACE_FORMS = "stdout, file:PATH, otlp:http://HOST:4318, jaeger:http://HOST:4318 or jaeger:udp://HOST:6832"
_METRICS_FORM = "otlp:http://HOST:4318"


class ExportTarget(NamedTuple):
    """One target: its kind, and the path or URL behind the colon."""

    kind: TargetKind
    address: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.address}" if self.address else self.kind

    @property
    def is_agent(self) -> bool:
        """True for a Jaeger agent, which takes packets."""
        return self.address.startswith("udp:")


def parse_trace_target(text: str) -> ExportTarget:
    """Return the target that a text names. Raises ValueError."""
    kind, colon, address = text.strip().partition(":")
    if kind == "stdout" and not colon:
        return ExportTarget("stdout", "")
    if kind == "file" and address and "\0" not in address:
        return ExportTarget("file", address)
    if kind == "otlp":
        return ExportTarget("otlp", _url(address, ("http", "https"), TRACES_PATH, _TRACE_FORMS))
    if kind == "jaeger":
        return ExportTarget("jaeger", _url(address, ("http", "https", "udp"), TRACES_PATH, _TRACE_FORMS))
    raise ValueError(f"{quoted(text)} is not a target of traces: write {_TRACE_FORMS}")


def parse_metrics_target(text: str) -> ExportTarget:
    """Return the target that a text names: always a collector. Raises ValueError."""
    kind, _, address = text.strip().partition(":")
    if kind != "otlp":
        raise ValueError(f"{quoted(text)} is not a target of metrics: write {_METRICS_FORM}")
    return ExportTarget("otlp", _url(address, ("http", "https"), METRICS_PATH, _METRICS_FORM))


def _url(address: str, schemes: tuple[str, ...], path: str, forms: str) -> str:
    try:
        url = urlsplit(address)
        port = url.port
    except ValueError as error:
        raise ValueError(f"{quoted(address)} is not a URL: {error}") from None
    if url.scheme not in schemes or not url.hostname or not address.isprintable() or " " in address:
        raise ValueError(f"{quoted(address)} is not the URL of a collector: write {forms}")
    if url.username is not None or url.password is not None:
        raise ValueError(
            "the URL of a collector has a password: write it as a header in the file of export_headers_file"
        )
    if url.fragment or (url.scheme == "udp" and (url.path.strip("/") or url.query)):
        raise ValueError(f"{quoted(address)} has more than a collector needs: write {forms}")
    if url.scheme == "udp":
        host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
        return f"udp://{host}:{port or AGENT_PORT}"
    return url._replace(path=url.path if url.path.strip("/") else path).geturl()
