"""Targets of exported traces, as the setting `tracing.export` names them."""

from typing import Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit

from goqueue.quantities import quoted

TargetKind = Literal["stdout", "file", "otlp", "jaeger"]

TRACES_PATH = "/v1/traces"
"""The path of OTLP/HTTP, for an address without a path."""
AGENT_PORT = 6832
"""The port at which Jaeger's agents take Thrift's binary protocol."""

_FORMS = "stdout, file:PATH, otlp:http://HOST:4318, jaeger:http://HOST:4318 or jaeger:udp://HOST:6832"


class TraceTarget(NamedTuple):
    """One target: its kind, and the path or URL behind the colon."""

    kind: TargetKind
    address: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.address}" if self.address else self.kind

    @property
    def is_agent(self) -> bool:
        """True for a Jaeger agent, which takes packets."""
        return self.address.startswith("udp:")


def parse_trace_target(text: str) -> TraceTarget:
    """Return the target that a text names. Raises ValueError."""
    kind, colon, address = text.strip().partition(":")
    if kind == "stdout" and not colon:
        return TraceTarget("stdout", "")
    if kind == "file" and address and "\0" not in address:
        return TraceTarget("file", address)
    if kind == "otlp":
        return TraceTarget("otlp", _url(address, ("http", "https")))
    if kind == "jaeger":
        return TraceTarget("jaeger", _url(address, ("http", "https", "udp")))
    raise ValueError(f"{quoted(text)} is not a target of traces: write {_FORMS}")


def _url(address: str, schemes: tuple[str, ...]) -> str:
    try:
        url = urlsplit(address)
        port = url.port
    except ValueError as error:
        raise ValueError(f"{quoted(address)} is not a URL: {error}") from None
    if url.scheme not in schemes or not url.hostname or not address.isprintable() or " " in address:
        raise ValueError(f"{quoted(address)} is not the URL of a collector: write {_FORMS}")
    if url.username is not None or url.password is not None:
        raise ValueError("the URL of a collector has a password: write it into the file of tracing.export_headers")
    if url.fragment or (url.scheme == "udp" and (url.path.strip("/") or url.query)):
        raise ValueError(f"{quoted(address)} has more than a collector needs: write {_FORMS}")
    if url.scheme == "udp":
        host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
        return f"udp://{host}:{port or AGENT_PORT}"
    return _with_path(url)


def _with_path(url: SplitResult) -> str:
    return url._replace(path=url.path if url.path.strip("/") else TRACES_PATH).geturl()
