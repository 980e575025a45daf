"""Reads bytes into requests, or into an error. Knows no socket and no event loop.

    phase      received                             next phase
    WAITING    nothing of the next request          HEAD with its first byte
    HEAD       part of its line and headers         BODY with the empty line
    BODY       its headers                          WAITING with its last byte, or ENDED if it is the last request
    ENDED      the last request, or an error        none: further bytes are not read

The parser is fed slices, because it can neither be stopped within one nor bound what it gathers. So a client can make
it hold one slice more than the limits allow.
"""

import re
from collections import deque
from enum import Enum, auto

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser

from goqueue.api.http.message import HttpRequest
from goqueue.api.http.server_state import ServerState
from goqueue.errors import GoQueueError, RequestInvalid, RequestTimedOut, RequestTooLarge
from goqueue.limits import HTTP_SLICE_BYTES, TENANT_BODY_BYTES
from goqueue.security.client_certificates import ClientCertificate


class ReadPhase(Enum):
    WAITING = auto()
    HEAD = auto()
    BODY = auto()
    ENDED = auto()


WAITING, HEAD, BODY, ENDED = ReadPhase

_SANE_ID = re.compile(r"[!-~]{1,128}")
_WHOLE_URL = re.compile(r"https?://[^/?]*(.*)", re.IGNORECASE)
_FIELD_OVERHEAD = len(": \r\n")
_COMMON_NAMES = (
    "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "expect", "host",
    "traceparent", "transfer-encoding", "user-agent", "x-api-key", "x-goqueue-checksum", "x-request-id", "x-tenant",
)  # fmt: skip
_NAMES = {spelt.encode(): name for name in _COMMON_NAMES for spelt in (name, name.title())}
"""A lookup takes half the time of decoding a name."""


def is_sane_id(given: str) -> bool:
    """Return whether a client's request id may be used."""
    return _SANE_ID.fullmatch(given) is not None


class RequestReader:
    """The reading side of one connection. `requests` are complete; `refusal` follows the last of them."""

    __slots__ = (
        "_began_ns",
        "_body",
        "_gathered_bytes",
        "_headers",
        "_length",
        "_now_ns",
        "_parser",
        "_repeats",
        "_replaying",
        "_request",
        "_server",
        "_slice_bytes",
        "_step_bytes",
        "_url",
        "certificate",
        "deadline_ns",
        "expects_continue",
        "peer",
        "phase",
        "refusal",
        "requests",
    )  # fmt: skip

    _request: HttpRequest | None
    """The incomplete request, once its headers are complete."""

    def __init__(self, server: ServerState, peer: str) -> None:
        self._server = server
        self.peer = peer
        self.certificate: ClientCertificate | None = None
        """Of the client; set before the first byte."""
        self._parser = HttpRequestParser(self)
        self._replaying = False
        self._slice_bytes = HTTP_SLICE_BYTES
        self._gathered_bytes = 0
        self._forget_request()
        self._begin(0)
        self.phase = WAITING
        self.deadline_ns = 0
        """When an incomplete request must have grown. Used in the phases HEAD and BODY."""
        self.requests: deque[HttpRequest] = deque()
        self.refusal: GoQueueError | None = None
        self.expects_continue = False
        """The client waits for `100 Continue` before it sends the body."""

    def next_size(self, available: int) -> int:
        """Return how many bytes to feed next: a slice, or all if they can only be body."""
        if self.phase is BODY and self._length - len(self._body) >= available:
            return available
        return min(available, self._slice_bytes)

    def feed(self, data: bytes | memoryview, now_ns: int) -> None:
        """Parse the next bytes, as many as `next_size` returned. Not in the phase ENDED."""
        self._now_ns = now_ns
        self._gathered_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._ignore_upgrade(memoryview(data)[upgrade.args[0] :])
        except HttpParserError as error:
            self._refuse_malformed(error)
        if self._gathered_bytes > self._server.limits.header_bytes and self.phase is not ENDED:
            self._refuse(self._head_too_large())

    def refuse(self, error: GoQueueError) -> None:
        """Stop reading. The connection sends this error after all other answers, and closes."""
        self._refuse(error)

    def time_out(self) -> None:
        """Refuse the request: its deadline has passed."""
        limits = self._server.limits
        if self.phase is HEAD:
            sentence = f"the headers were not complete {limits.header_seconds:g} seconds after their first byte"
        else:
            step = limits.body_step_bytes
            sentence = f"less than {step:,} bytes of the body came in {limits.body_seconds:g} seconds"
        self._refuse(RequestTimedOut(sentence, hint="send the request again, on a new connection"))

    def end(self) -> None:
        """Drop an incomplete request: the client will send nothing more."""
        self._release_body()
        self.phase = ENDED

    def abandon(self) -> None:
        """Drop all requests, and release their bytes."""
        self.end()
        self._server.held_bytes -= sum(request.weight for request in self.requests)
        self.requests.clear()

    def close(self) -> None:
        """Drop everything. Parser and refusal refer back to this object, which would need the garbage collector."""
        self.abandon()
        self.refusal = None
        del self._parser

    def extend(self, now_ns: int) -> None:
        """Restart the deadline of an incomplete request: the server did not read for a while."""
        self.deadline_ns = now_ns + (self._server.header_ns if self.phase is HEAD else self._server.body_ns)

    @property
    def refused_id(self) -> str:
        """The id of the refused request, or a new one if its headers are incomplete."""
        return self._request.id if self._request is not None else self._server.new_id()

    @property
    def refused_method(self) -> str:
        return self._request.method if self._request is not None else ""

    # --- what the parser calls ---

    def on_message_begin(self) -> None:
        if not self._replaying:
            self.phase = HEAD
            self.deadline_ns = self._now_ns + self._server.header_ns
            self._begin(self._now_ns)

    def on_url(self, piece: bytes) -> None:
        if self._replaying:
            return
        self._url += piece
        most = self._server.limits.url_bytes
        if len(self._url) > most:
            raise self._refuse(
                RequestTooLarge(
                    f"the URL is longer than {most:,} bytes", hint="send what is long in the body instead of the query"
                )
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.phase is not HEAD:  # a trailer, or the replay of a head that is known
            return
        key = _NAMES.get(name) or name.decode("latin-1").lower()
        headers = self._headers
        if key in headers:
            self._repeat(key, value.decode("latin-1"))
        else:
            headers[key] = value.decode("latin-1")
        most = self._server.limits.header_count
        if len(headers) + self._repeats > most:
            raise self._refuse(RequestTooLarge(f"the request has more than {most} headers", hint="send fewer headers"))

    def on_headers_complete(self) -> None:
        if self._replaying:
            return
        parser, headers = self._parser, self._headers
        if self._gathered_bytes + HTTP_SLICE_BYTES > self._server.limits.header_bytes:
            self._check_head_size()
        self._length = int(headers.get("content-length", 0))
        is_keep_alive = parser.should_keep_alive()
        # A request that is_keep_alive without saying so is HTTP/1.1, which is most of them.
        connection = (
            ""
            if is_keep_alive and "connection" not in headers
            else self._connection_header(parser.get_http_version(), is_keep_alive)
        )
        path, _, query = self._target().partition("?")
        given = headers.get("x-request-id")
        self._request = HttpRequest(
            parser.get_method().decode(),
            path,
            query,
            headers,
            self._body,
            given if given is not None and is_sane_id(given) else self._server.new_id(),
            self.peer,
            self._began_ns,
            connection,
        )
        if self.certificate is not None:
            self._request.certificate = self.certificate
        self.phase = BODY
        if "host" not in headers or "transfer-encoding" in headers or "expect" in headers:
            self._check_framing(parser.get_http_version())
        if self._length:
            self._expect_body()
        if parser.should_upgrade():
            self._replaying = True

    def on_body(self, piece: bytes) -> None:
        body, server = self._body, self._server
        body += piece
        server.held_bytes += len(piece)
        self._gathered_bytes = 0
        self.expects_continue = False
        if len(body) >= self._step_bytes:
            self._extend_body()
        if len(body) > server.limits.body_bytes:
            raise self._refuse(server.body_too_large(f"{self._length:,} bytes" if self._length else "the chunks"))
        if server.held_bytes > server.limits.bodies_bytes:
            raise self._refuse(server.bodies_too_large())

    def on_message_complete(self) -> None:
        request = self._request
        if self._replaying or request is None:
            return
        size = request.weight = len(self._body)
        if size > TENANT_BODY_BYTES:
            self._complete_large_body(request)
        self.expects_continue = False
        self._forget_request()
        self.requests.append(request)
        self.phase = ENDED if request.connection == "close" else WAITING

    # --- the head ---

    def _begin(self, now_ns: int) -> None:
        self._began_ns = now_ns
        self._gathered_bytes = 0
        self._repeats = 0
        self._length = 0
        self._step_bytes = 0
        self._now_ns = now_ns

    def _forget_request(self) -> None:
        """Keep nothing of a complete request, so that a large body is freed before the next one comes."""
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._request = None

    def _repeat(self, name: str, value: str) -> None:
        if name == "host":
            raise self._refuse(RequestInvalid("the request has two `host` headers", hint="send one `host` header"))
        self._repeats += 1
        self._headers[name] += f", {value}"

    def _check_head_size(self) -> None:
        fields = sum(len(name) + len(value) + _FIELD_OVERHEAD for name, value in self._headers.items())
        if len(self._url) + fields > self._server.limits.header_bytes:
            raise self._refuse(self._head_too_large())

    def _connection_header(self, version: str, is_keep_alive: bool) -> str:
        """Return the `connection` header of the answer."""
        if version not in {"1.0", "1.1"}:
            raise self._refuse(RequestInvalid(f"HTTP/{version} is not supported", hint="send the request as HTTP/1.1"))
        if not is_keep_alive:
            return "close"
        return "keep-alive" if version == "1.0" else ""

    def _target(self) -> str:
        """Return path and query. Proxies may send a whole URL, whose other parts are ignored."""
        target = self._url.decode("latin-1")
        if target[:1] == "/":  # never so in a CONNECT
            return target
        if whole := _WHOLE_URL.match(target):
            return "/" + whole[1].removeprefix("/")
        if target == "*" and self._parser.get_method() == b"OPTIONS":
            return target
        if self._parser.get_method() == b"CONNECT":
            raise self._refuse(
                RequestInvalid("CONNECT is for proxies, and this server is not one", hint="connect directly")
            )
        raise self._refuse(
            RequestInvalid(f"{target[:100]!r} is not a valid request target", hint="send a path that begins with /")
        )

    def _check_framing(self, version: str) -> None:
        headers = self._headers
        if version == "1.1":
            if "host" not in headers:
                raise self._refuse(RequestInvalid("the request has no `host` header", hint="send a `host` header"))
            self.expects_continue = headers.get("expect", "").lower() == "100-continue"
        coding = headers.get("transfer-encoding")
        if coding is None:
            self.expects_continue = self.expects_continue and self._length > 0
        elif version != "1.1" or coding.lower() != "chunked":
            raise self._refuse(
                RequestInvalid(
                    f"the transfer encoding {coding[:100]!r} of HTTP/{version} is not supported",
                    hint="send `transfer-encoding: chunked` as HTTP/1.1, or a content-length",
                )
            )
        else:
            self._extend_body()

    # --- the body ---

    def _expect_body(self) -> None:
        try:
            self._server.check_body(self._length)
        except GoQueueError as error:
            raise self._refuse(error) from None
        self._step_bytes = self._server.limits.body_step_bytes
        self.deadline_ns = self._now_ns + self._server.body_ns
        if self._length > TENANT_BODY_BYTES:
            self._expect_large_body()

    def _extend_body(self) -> None:
        """Restart the time for the next part of the body."""
        self._step_bytes = len(self._body) + self._server.limits.body_step_bytes
        self.deadline_ns = self._now_ns + self._server.body_ns

    # --- large bodies, of which the reader of a broker with tenants keeps account ---

    def _expect_large_body(self) -> None:
        """Called with the head of a large body."""

    def _complete_large_body(self, request: HttpRequest) -> None:
        """Called with a request whose large body is complete."""

    def release(self, request: HttpRequest) -> None:
        """Called when a request with a large body is answered, or its client has left."""

    # --- what goes wrong ---

    def _ignore_upgrade(self, rest: memoryview) -> None:
        """Decline an upgrade by continuing in HTTP/1.1.

        The parser stops after such a head and takes the rest for the other protocol. A new parser gets a head that
        only says where the body ends.
        """
        chunked = "transfer-encoding" in self._headers
        framing = "transfer-encoding: chunked" if chunked else f"content-length: {self._length}"
        self._parser = HttpRequestParser(self)
        self._parser.feed_data(f"POST / HTTP/1.1\r\n{framing}\r\n\r\n".encode())
        self._replaying = False
        if not chunked and not self._length:
            self.on_message_complete()
        if rest and self.phase is not ENDED:
            self.feed(rest, self._now_ns)

    def _refuse_malformed(self, error: HttpParserError) -> None:
        """Refuse bytes that the parser did not accept, unless there is a refusal."""
        if self.phase is ENDED:  # refused, or the client announced to close and sent more
            return
        if isinstance(error, HttpParserCallbackError):
            raise error
        hint = "the request must be HTTP/1.1 as in RFC 9112; an HTTPS client needs the port that speaks TLS"
        self._refuse(RequestInvalid(f"the request is malformed: {str(error)[:200]}", hint=hint))

    def _refuse(self, error: GoQueueError) -> GoQueueError:
        self.refusal = error
        self.expects_continue = False
        self._release_body()
        self.phase = ENDED
        return error

    def _release_body(self) -> None:
        """Release the bytes of an incomplete body."""
        if self.phase is BODY:
            self._server.held_bytes -= len(self._body)
            self._body.clear()  # no handler has it yet

    def _head_too_large(self) -> RequestTooLarge:
        most = self._server.limits.header_bytes
        return RequestTooLarge(f"the request's headers are larger than {most:,} bytes", hint="send less in headers")
