"""Parses an HTTP answer while it arrives, without a socket.

A body of known length is received directly into its own memory, so that only the kernel copies it. The parser reads
everything else that a server may send: chunks, interim answers, a body up to the end of the connection.
"""

import httptools

from goqueue.client.address import Address
from goqueue.client.api_request import ApiResponse, not_a_broker
from goqueue.errors import BrokerUnreachable
from goqueue.limits import MIB

HEAD_BYTES = 16 * 1024
"""The room for one read of a head. The first bytes of the body come with it and are copied once more."""

HEADS_BYTES_MAX = 256 * 1024  # headers of one answer; no broker sends more
BODY_BYTES_MAX = 64 * MIB  # four times the largest answer that a reader may ask for


class ResponseParser:
    """One answer. `buffer` is where the next bytes belong, `received` takes how many were put there."""

    def __init__(self, source: Address | str = "this address") -> None:
        self._source = source
        self._head = memoryview(bytearray(HEAD_BYTES))
        self._seen = 0
        self._body: bytearray | None = None
        self._filled = 0
        self._begin()
        self.answer: ApiResponse | None = None
        self.keep_alive = False

    def _begin(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._pieces: list[bytes] = []
        self._length: int | None = None
        self._headed = self._whole = False
        self._parser = httptools.HttpResponseParser(self)

    # --- what the connection calls ---

    @property
    def begun(self) -> bool:
        return self._seen > 0

    @property
    def missing(self) -> int:
        """The number of bytes that are known to be missing; 0 when that is unknown."""
        return len(self._body) - self._filled if self._body is not None else 0

    def buffer(self) -> memoryview:
        return memoryview(self._body)[self._filled :] if self._body is not None else self._head

    def received(self, count: int) -> None:
        if count == 0:
            self._end_of_connection()
        elif self._body is not None:
            self._filled += count
            self._finish_known()
        else:
            self._feed(bytes(self._head[:count]))

    # --- what the parser calls ---

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._headed = True
        length = self._headers.get(b"content-length")
        if length is not None and b"transfer-encoding" not in self._headers:
            self._length = int(length) if length.isdigit() and len(length) < 12 else BODY_BYTES_MAX + 1
            if self._length > BODY_BYTES_MAX:
                raise not_a_broker(self._source, f"its answer says that it has {length[:20].decode('latin-1')} bytes")

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        self._whole = True

    # --- what follows from it ---

    def _feed(self, data: bytes) -> None:
        self._seen += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ or error from None
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise not_a_broker(self._source, f"it does not speak HTTP: {error}") from None
        if self._whole and self._parser.get_status_code() < 200:
            self._begin()
        elif self._whole:
            self._finish(b"".join(self._pieces))
        elif self._headed and self._length:
            self._body, first = bytearray(self._length), b"".join(self._pieces)
            self._filled = len(first)
            self._body[: self._filled] = first
        elif self._seen > (BODY_BYTES_MAX if self._headed else HEADS_BYTES_MAX):
            raise not_a_broker(self._source, f"its answer does not end within {self._seen} bytes")

    def _finish_known(self) -> None:
        if self._body is not None and self._filled == len(self._body):
            self._finish(self._body)

    def _finish(self, body: bytes | bytearray) -> None:
        connection = self._headers.get(b"connection", b"").lower()
        self.keep_alive = self._parser.get_http_version() == "1.1" and connection != b"close"
        self.answer = ApiResponse(self._parser.get_status_code(), self._headers, body, self._source)

    def _end_of_connection(self) -> None:
        if not (self._headed and self._length is None and b"transfer-encoding" not in self._headers):
            raise ended(self._source, "in the middle of the answer" if self.begun else "before it answered")
        self._finish(b"".join(self._pieces))
        self.keep_alive = False


def ended(source: Address | str, when: str) -> BrokerUnreachable:
    return BrokerUnreachable(
        f"the broker at {source} ended the connection {when}", hint="has it stopped? its log says why"
    )
