"""A request, a response, and the bytes of a response."""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from goqueue.limits import HTTP_COALESCED_BYTES
from goqueue.security.client_certificates import ClientCertificate
from goqueue.wire.headers import JSON


@dataclass(slots=True)
class HttpRequest:
    """One request, complete with its body."""

    method: str
    path: str
    """As sent: not percent-decoded, and without the query."""
    query: str
    """After the first `?`, as sent."""
    headers: dict[str, str]
    """Names are lower-case; values of a name that repeats are joined by `, `."""
    body: bytearray
    """The handler may keep and change it."""
    id: str
    """The client's `x-request-id` if it is valid, else a new one."""
    peer: str
    began_ns: int
    """Monotonic: when its first byte arrived."""
    connection: str = ""
    """The `connection` header of the answer: `close`, `keep-alive`, or nothing."""
    weight: int = 0
    """Bytes that count as held until the request is answered."""
    endpoint: Any = None
    """The row of the table that the request was routed to."""
    certificate: ClientCertificate | None = None
    """Of the client, verified by TLS."""
    grants: tuple[tuple[str, str], ...] = ()
    """Headers that let a web page read the answer."""
    world: Any = None
    """The `TenantWorld` in which it is answered, if it is that of a tenant."""
    decoded: Any = None
    """The body as the type of the endpoint, if another protocol has brought it so."""
    is_forwarded: bool = False
    """Another node of the cluster has sent it here, for a client of its own."""

    @property
    def size(self) -> int:
        """Bytes of the body, in whatever form it came."""
        return len(self.body) or self.weight


@dataclass(slots=True)
class HttpResponse:
    """One answer. The server adds the length, the request id, the date and the `connection` header."""

    status: int
    body: bytes | Sequence[memoryview | bytes] = b""
    """Views are of bytes, and must not change until they are sent."""
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    is_essential: bool = False
    """Sent even while other answers hold all the memory they may: an operator needs it then."""


RequestHandler = Callable[[HttpRequest], HttpResponse | Awaitable[HttpResponse]]
"""A response that is returned directly costs no task. An awaitable of a GET or HEAD is cancelled with its client."""


ENDS_WITH_ITS_CLIENT = frozenset({"GET", "HEAD"})
"""Methods whose handlers are cancelled when the client leaves. A request that changes something is completed."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

ResponseBytes = bytes | list[bytes | memoryview]
"""Bytes to write, or several pieces, of which the large ones were not copied."""

_WITHOUT_BODY = {204, 304}
"""Statuses without a body and a length."""
_SERVER_HEADERS = {"connection", "content-length", "content-type", "date", "transfer-encoding", "x-request-id"}
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNPRINTABLE = re.compile(r"[^\t\x20-\x7e\xa0-\xff]")


def encode_response(
    response: HttpResponse, request_id: str, connection: str, date: str, *, without_body: bool
) -> ResponseBytes:
    """Return the bytes of an answer. An answer to HEAD has the length of the body, but not the body."""
    body = response.body
    if isinstance(body, bytes):
        length = len(body)
        if length <= HTTP_COALESCED_BYTES:
            head = _head(response, length, request_id, connection, date)
            return head if without_body or response.status in _WITHOUT_BODY else head + body
        pieces: Sequence[bytes | memoryview] = (body,)
    else:
        pieces = (body,) if isinstance(body, (bytearray, memoryview)) else body
        length = sum(map(len, pieces))
    head = _head(response, length, request_id, connection, date)
    if without_body or response.status in _WITHOUT_BODY:
        return head
    if length <= HTTP_COALESCED_BYTES:
        return b"".join((head, *pieces))
    return [head, *pieces]


def _head(response: HttpResponse, length: int, request_id: str, connection: str, date: str) -> bytes:
    is_nothing = response.status in _WITHOUT_BODY or (
        not length and response.content_type == JSON
    )  # an empty body is not JSON
    opening = _opening(response.status, "" if is_nothing else response.content_type)
    length_line = "" if response.status in _WITHOUT_BODY else f"content-length: {length}\r\n"
    ending = f"connection: {connection}\r\n" if connection else ""
    further = _lines(response.headers) if response.headers else ""
    return f"{opening}{length_line}x-request-id: {request_id}\r\n{date}{further}{ending}\r\n".encode("latin-1")


@lru_cache(maxsize=256)
def _opening(status: int, content_type: str) -> str:
    """Return the lines that most answers have in common."""
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
    assert 200 <= status <= 599, f"{status} is not a valid status"
    return f"HTTP/1.1 {status} {phrase}\r\n" + (_line("content-type", content_type) if content_type else "")


def response_headers(response: HttpResponse, request_id: str) -> list[tuple[str, str]]:
    """Return the headers of an answer for a server that adds only its own, such as the date."""
    body = response.body
    length = len(body) if isinstance(body, bytes) else sum(map(len, body))
    headers = [("x-request-id", request_id)]
    headers += ((name, _UNPRINTABLE.sub("?", value)) for name, value in response.headers)
    if response.status not in _WITHOUT_BODY:
        headers.append(("content-length", str(length)))
        if length or response.content_type != JSON:
            headers.append(("content-type", response.content_type))
    return headers


def _lines(headers: Iterable[tuple[str, str]]) -> str:
    for name, _ in headers:
        assert name.lower() not in _SERVER_HEADERS, f"{name} is set by the server"
    return "".join(_line(name, value) for name, value in headers)


def _line(name: str, value: str) -> str:
    """Return a header line. What is not printable Latin-1 becomes a `?`, so that a value cannot end its line."""
    assert _NAME.fullmatch(name), f"{name!r} is not a valid header name"
    return f"{name}: {_UNPRINTABLE.sub('?', value)}\r\n"
