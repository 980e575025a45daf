"""One client: its requests are answered in order, and everything it does has a deadline.

    state      the client                      next state
    OPEN       sends requests, reads answers   after the last answer: DRAINING if it is a refusal, else CLOSING
    DRAINING   may still send; its bytes       CLOSING at its end of file, or after enough bytes or seconds
               are discarded
    CLOSING    has not read everything yet     CLOSED when nothing is left, or after enough seconds
    CLOSED     is gone

An open connection is read by its `RequestReader`, which has phases of its own. There is no timer: a deadline is a
number, and the server's sweep looks for those that have passed.
"""

import asyncio
from enum import Enum, auto
from typing import Any, cast

from goqueue.api.http.bridge import state_of
from goqueue.api.http.certificates import client_certificate
from goqueue.api.http.error_responses import INTERNAL_ERROR, error_response
from goqueue.api.http.message import CONTINUE, ENDS_WITH_ITS_CLIENT, HttpRequest, HttpResponse, encode_response
from goqueue.api.http.request_reader import ReadPhase, RequestReader
from goqueue.api.http.sockets import has_unsent, peer_of
from goqueue.clock import NANOSECONDS
from goqueue.errors import BrokerOverloaded
from goqueue.limits import HTTP_SLICE_BYTES, HTTP_WRITE_BUFFER_BYTES, TENANT_BODY_BYTES
from goqueue.runtime.deferred import Deferred


class ConnectionState(Enum):
    OPEN = auto()
    DRAINING = auto()
    CLOSING = auto()
    CLOSED = auto()


OPEN, DRAINING, CLOSING, CLOSED = ConnectionState
WAITING, HEAD, BODY, ENDED = ReadPhase

TRANSITIONS: dict[ConnectionState, frozenset[ConnectionState]] = {
    OPEN: frozenset({DRAINING, CLOSING, CLOSED}),
    DRAINING: frozenset({CLOSING, CLOSED}),
    CLOSING: frozenset({CLOSED}),
    CLOSED: frozenset(),
}

PendingResponse = asyncio.Future[HttpResponse] | Deferred[HttpResponse]

FAREWELL_NS = NANOSECONDS
"""For a client to answer the end of TLS."""
NEVER_NS = 2**63
"""The deadline while the client waits for the server."""


class HttpConnection(asyncio.Protocol):
    """The connection of one client, owned by its transport."""

    __slots__ = (
        "_answer_bytes", "_answering", "_discarded_bytes", "_half_closed", "_is_counted", "_is_encrypted", "_loop",
        "_monotonic_ns", "_paused", "_pending", "_pipelined", "_reader", "_server", "_state", "_transport", "_unread",
        "_unsent_bytes", "_uvicorn_connections", "_writable", "deadline_ns",
    )  # fmt: skip

    _reader: RequestReader
    _transport: asyncio.Transport
    _is_counted: bool
    """False while it is refused, because there are too many."""
    _answering: HttpRequest

    def __init__(
        self,
        config: Any,
        server_state: Any,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Take what uvicorn gives to the class of its option `http`."""
        server = state_of(config.loaded_app, app_state)
        server.begin()
        self._server = server
        self._uvicorn_connections: set[Any] = server_state.connections
        self._loop = server.loop
        self._monotonic_ns = server.monotonic_ns
        self._pipelined = server.limits.pipelined
        self._state = OPEN
        self._pending: PendingResponse | None = None
        """The response to the request `_answering`."""
        self._unread: memoryview | None = None
        """Bytes that are not parsed yet, because enough requests wait."""
        self._paused = False
        self._writable = True
        self._unsent_bytes = 0
        self._answer_bytes = 0
        """Size of a large answer that the client has not read completely; the transport keeps all of it until then."""
        self._half_closed = False
        self._discarded_bytes = 0
        self.deadline_ns = NEVER_NS

    # --- what the transport calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        server, limits = self._server, self._server.limits
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(HTTP_WRITE_BUFFER_BYTES, 0)
        self._reader = self._new_reader(transport)
        self._is_encrypted = transport.get_extra_info("sslcontext") is not None
        if found := transport.get_extra_info("peercert"):
            self._reader.certificate = client_certificate(found)
        server.open_connections.add(self)
        self._uvicorn_connections.add(self)
        count = len(server.open_connections)
        self._is_counted = count <= limits.connections
        if self._is_counted:
            server.observer.connection_opened(self._reader.peer)
        if count > limits.connections + limits.connections_spare:
            server.observer.refused(BrokerOverloaded.code)
            self.abort()
            return
        if count > limits.connections:
            sentence = f"the broker has {limits.connections:,} connections, the limit"
            self._reader.refuse(BrokerOverloaded(sentence, hint="retry in a second", retry_after=1))
        self._advance()

    def _new_reader(self, transport: asyncio.BaseTransport) -> RequestReader:
        return RequestReader(self._server, peer_of(transport))

    def data_received(self, data: bytes) -> None:
        if self._state is not OPEN or self._reader.phase is ENDED:
            self._discard(len(data))
        elif len(data) <= HTTP_SLICE_BYTES and self._unread is None:
            self._reader.feed(data, self._monotonic_ns())
            self._advance()
        else:
            self._unread = memoryview(data if self._unread is None else bytes(self._unread) + data)
            self._advance()
        if self._reader.phase is BODY:
            self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        """Called when part of a body has come."""

    def eof_received(self) -> bool:
        """Return whether to stay open for answers, although the client will send no more."""
        self._half_closed = True
        if self._state is not OPEN:
            return False
        self._reader.end()
        self._cancel_unwanted()
        if self._pending is None and not self._reader.requests:
            self._close()
            return False
        self._schedule()
        return self._transport.can_write_eof()  # TLS has no half-closed connections

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - a reset is treated like any other end
        server = self._server
        self._enter(CLOSED, NEVER_NS)
        self._unread = None
        self._cancel_unwanted()
        self._reader.close()
        self._release_answer()
        if self._pending is not None:
            server.orphaned.add(self._pending)
        server.open_connections.discard(self)
        self._uvicorn_connections.discard(self)
        if self._is_counted:
            server.observer.connection_closed(self._reader.peer)
        server.notify_if_empty()

    def pause_writing(self) -> None:
        self._writable = False
        self._unsent_bytes = self._transport.get_write_buffer_size()
        self.deadline_ns = self._monotonic_ns() + self._server.write_ns

    def resume_writing(self) -> None:
        self._writable = True
        self._release_answer()
        if self._state is OPEN:
            self._advance()

    # --- what the server calls ---

    def expire(self, now_ns: int) -> None:
        """Handle a deadline that has passed."""
        if self._state is CLOSING and self._is_encrypted and has_unsent(self._transport):
            self._is_encrypted = False  # the next deadline is the last
            self.deadline_ns = now_ns + self._server.write_ns
        elif self._state is not OPEN:
            self.abort()
        elif not self._writable:
            self._check_slow_reader(now_ns)
        elif self._reader.phase in {HEAD, BODY}:
            self._reader.time_out()
            self._advance()
        else:
            self._close()

    def close_when_idle(self) -> None:
        """Close as soon as no request is in progress."""
        if self._state is OPEN and self._has_partial_head:
            self._close()
        elif self._state is OPEN:
            self._advance()

    def shutdown(self) -> None:
        """Close as uvicorn's own stop asks for it."""
        self._server.begin_stop()
        self.close_when_idle()

    @property
    def _has_partial_head(self) -> bool:
        """There is only part of a head, which may never become a request."""
        return self._pending is None and not self._reader.requests and self._reader.phase is HEAD

    def abort(self) -> None:
        """Close now."""
        if self._state is not CLOSING:
            self._enter(CLOSING, NEVER_NS)
        self._transport.abort()

    # --- answering ---

    def _advance(self) -> None:
        """Answer the requests that can be answered, read more if there is room, and set the next deadline."""
        requests = self._reader.requests
        while True:
            while requests and self._pending is None and self._writable:
                self._handle(requests.popleft())
            if self._unread is None or not self._writable or len(requests) >= self._pipelined:
                break
            self._feed_unread(self._unread)
        if self._pending is None and not requests:
            self._after_last_answer()
        if self._state is OPEN:
            is_full = not self._writable or self._unread is not None or len(requests) >= self._pipelined
            if is_full is not self._paused and not self._half_closed:
                self._apply_backpressure(is_full)
            self._schedule()

    def _handle(self, request: HttpRequest) -> None:
        try:
            answer = self._server.handle(request)
            if not isinstance(answer, HttpResponse):
                self._answering = request
                if isinstance(answer, Deferred):
                    self._pending = answer
                    answer.then(self._finish)
                else:
                    self._pending = asyncio.ensure_future(answer, loop=self._loop)
                    self._pending.add_done_callback(self._finish)
                return
        except Exception as error:
            answer = self._internal_error(request, error)
        self._answer(request, answer)

    def _finish(self, future: PendingResponse) -> None:
        """Send the answer of a handler that was awaited."""
        if self._pending is not future:
            return  # it was cancelled with its client
        request, self._pending = self._answering, None
        del self._answering  # its body may be large
        try:
            response = future.result()
        except (Exception, asyncio.CancelledError) as error:
            response = self._internal_error(request, error)
        if self._state is OPEN:
            self._answer(request, response)
            self._advance()
        else:
            self._discard_answer(request)
            self._server.orphaned.discard(future)
            self._server.notify_if_empty()

    def _answer(self, request: HttpRequest, response: HttpResponse) -> None:
        server = self._server
        if request.weight > TENANT_BODY_BYTES:
            self._reader.release(request)  # its own body leaves room for its answer
        connection = "close" if server.stopping and self._is_last() else request.connection
        without_body = request.method == "HEAD"
        try:
            answer = encode_response(response, request.id, connection, server.date, without_body=without_body)
        except Exception as error:
            response = self._internal_error(request, error)
            answer = encode_response(response, request.id, connection, server.date, without_body=without_body)
        if not isinstance(answer, bytes):
            try:
                self._check_answer(request, response, sum(map(len, answer)))
            except BrokerOverloaded as error:
                response = error_response(error.without_tracebacks())
                answer = encode_response(response, request.id, connection, server.date, without_body=without_body)
        self._write(answer)
        if self._answer_bytes:
            self._share_answer(request)
        server.held_bytes -= request.weight
        server.observer.answered(request, response, (self._monotonic_ns() - request.began_ns) / NANOSECONDS)

    def _check_answer(self, request: HttpRequest, response: HttpResponse, size: int) -> None:  # noqa: ARG002
        """Raise BrokerOverloaded if there is no memory for a large answer."""
        self._server.check_answer(size, is_essential=response.is_essential)

    def _write(self, answer: bytes | list[bytes | memoryview]) -> None:
        if isinstance(answer, bytes):
            self._transport.write(answer)
        else:
            self._transport.writelines(answer)
            if not self._writable:
                self._answer_bytes = sum(map(len, answer))
                self._server.answer_bytes += self._answer_bytes

    def _share_answer(self, request: HttpRequest) -> None:
        """Called when a client has not read a large answer completely."""

    def _release_answer(self) -> None:
        self._server.answer_bytes -= self._answer_bytes
        self._answer_bytes = 0

    def _internal_error(self, request: HttpRequest, error: BaseException) -> HttpResponse:
        """Log the traceback of an internal error, and return a 500 without it."""
        context = {
            "message": f"the handler of {request.method} {request.path} failed, request {request.id}",
            "exception": error,
        }
        self._loop.call_exception_handler(context | {"protocol": self, "transport": self._transport})
        return INTERNAL_ERROR

    def _cancel_unwanted(self) -> None:
        """Cancel a handler whose answer only the client that left wanted."""
        if self._pending is not None and self._answering.method in ENDS_WITH_ITS_CLIENT:
            pending, self._pending = self._pending, None
            pending.cancel()
            self._discard_answer(self._answering)
            del self._answering
            self._reader.abandon()

    def _discard_answer(self, request: HttpRequest) -> None:
        """Release a request whose client has left."""
        self._server.held_bytes -= request.weight
        self._server.observer.refused("client_gone")

    # --- reading ---

    def _feed_unread(self, unread: memoryview) -> None:
        reader = self._reader
        size = reader.next_size(len(unread))
        reader.feed(unread[:size], self._monotonic_ns())
        self._unread = unread[size:] if size < len(unread) and reader.phase is not ENDED else None

    def _apply_backpressure(self, is_full: bool) -> None:
        """Read from the client only while there is room."""
        self._paused = is_full
        if is_full:
            self._transport.pause_reading()
        else:
            self._reader.extend(self._monotonic_ns())
            self._transport.resume_reading()

    def _discard(self, size: int) -> None:
        """Discard bytes after the last request, up to a limit."""
        self._discarded_bytes += size
        if self._discarded_bytes > self._server.limits.drain_bytes and not self._paused:
            self._paused = True
            self._transport.pause_reading()
            if self._state is DRAINING:
                self._close()

    def _schedule(self) -> None:
        """Set the deadline of an open connection."""
        reader = self._reader
        if not self._writable:
            return  # it was set when writing stopped
        if (reader.phase is HEAD or reader.phase is BODY) and not self._paused and not reader.expects_continue:
            self.deadline_ns = reader.deadline_ns
        elif self._pending is not None or reader.requests:
            self.deadline_ns = NEVER_NS
        else:
            self.deadline_ns = self._monotonic_ns() + self._server.idle_ns

    def _check_slow_reader(self, now_ns: int) -> None:
        """Keep a slow reader as long as it reads enough."""
        unsent = self._transport.get_write_buffer_size()
        if self._unsent_bytes - unsent >= self._server.limits.write_step_bytes:
            self._unsent_bytes = unsent
            self.deadline_ns = now_ns + self._server.write_ns
        else:
            self._server.observer.refused("reader_too_slow")
            self.abort()

    # --- the end ---

    def _is_last(self) -> bool:
        """Return whether no request is in progress after the one that is being answered."""
        reader = self._reader
        return reader.phase in {WAITING, ENDED} and not reader.requests and self._unread is None

    def _after_last_answer(self) -> None:
        """Wait for more requests, send `100 Continue`, or close: all requests are answered."""
        reader = self._reader
        if reader.phase is ENDED:
            self._answer_refusal()
        elif reader.expects_continue:
            reader.expects_continue = False
            reader.extend(self._monotonic_ns())
            self._transport.write(CONTINUE)
        elif self._server.stopping and self._is_last():
            self._close()

    def _answer_refusal(self) -> None:
        """Send the refusal, if there is one, and close."""
        error = self._reader.refusal
        if error is None:
            self._close()
            return
        without_body = self._reader.refused_method == "HEAD"
        self._write(
            encode_response(
                error_response(error), self._reader.refused_id, "close", self._server.date, without_body=without_body
            )
        )
        self._server.observer.refused(error.code)
        if self._half_closed:
            self._close()
            return
        # To close at once would reset the connection under a client that is still sending, and with it the answer.
        self._enter(DRAINING, self._monotonic_ns() + self._server.drain_ns)
        self._unread = None
        if self._transport.can_write_eof():
            self._transport.write_eof()
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    def _close(self) -> None:
        """Close as soon as the client has read what is written.

        With TLS the event loop then waits for the client to say that it closes as well, which idle ones do not.
        """
        patience_ns = FAREWELL_NS if self._is_encrypted else self._server.write_ns
        self._enter(CLOSING, self._monotonic_ns() + patience_ns)
        self._transport.close()

    def _enter(self, state: ConnectionState, deadline_ns: int) -> None:
        assert state in TRANSITIONS[self._state], f"a connection cannot go from {self._state} to {state}"
        self._state = state
        self.deadline_ns = deadline_ns
