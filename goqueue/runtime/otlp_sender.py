"""Sends exports to a collector by OTLP over HTTP, in protobuf. Blocks its thread."""

import gzip
import socket
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue import __version__
from goqueue.errors import ConfigInvalid
from goqueue.limits import EXPORT_ANSWER_BYTES_MAX
from goqueue.observe.otlp import PartialSuccess, decode_partial_success
from goqueue.runtime.transport_failure import describe_transport_failure

if TYPE_CHECKING:
    import httpx

SERVICE = "goqueue"
_RETRYABLE = {429, 502, 503, 504}


class ExportFailed(Exception):
    """An export that a target did not take."""

    def __init__(self, reason: str, *, is_retryable: bool, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.is_retryable = is_retryable
        self.retry_after = retry_after
        """Seconds that the collector asks to wait."""


def service_resource(instance: str) -> Mapping[str, str]:
    """Return the attributes that name this broker in everything that it exports."""
    return {
        "service.name": SERVICE,
        "service.version": __version__,
        "service.instance.id": instance,
        "host.name": socket.gethostname(),
    }


def read_headers(path: str) -> Mapping[str, str]:
    """Read the file with headers for collectors: one `name: value` per line. `none` is no file."""
    if path == "none":
        return {}
    try:
        lines = Path(path).read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it has characters that a header cannot have"
        raise ConfigInvalid(f"the headers for collectors cannot be read from {path}: {reason}", problems=()) from None
    headers = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip().replace("-", "").replace("_", "").isalnum() or not value.strip().isprintable():
            raise ConfigInvalid(f"line {number} of {path} is not a header: write name: value", problems=())
        headers[name.strip().lower()] = value.strip()
    return headers


def compress(body: bytes) -> bytes:
    """Compress an export as senders expect it: fast rather than small."""
    return gzip.compress(body, 1)


class OtlpSender:
    """Sends the exports for one URL, over one connection."""

    def __init__(self, url: str, timeout: float, headers: Mapping[str, str]) -> None:
        self._url = url
        self._timeout = timeout
        self._headers = {
            "user-agent": f"goqueue/{__version__}",
            "accept-encoding": "identity",  # a compressed answer could be of any size
            **headers,
            "content-type": "application/x-protobuf",
            "content-encoding": "gzip",
        }
        self._client: httpx.Client | None = None

    def send(self, body: bytes) -> PartialSuccess | None:
        """Send a compressed export; return the part that was refused. Raises ExportFailed."""
        import httpx  # noqa: PLC0415 - 50 ms that only a broker with a collector needs

        if self._client is None:
            self._client = httpx.Client(timeout=self._timeout)
        try:
            with self._client.stream("POST", self._url, content=body, headers=self._headers) as response:
                answer = _read_answer(response.iter_raw(4096), time.monotonic() + self._timeout)
        except httpx.TransportError as error:
            raise ExportFailed(describe_transport_failure(error, self._timeout), is_retryable=True) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ExportFailed(str(error) or type(error).__name__, is_retryable=False) from None
        if response.is_success:
            return decode_partial_success(answer)
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
