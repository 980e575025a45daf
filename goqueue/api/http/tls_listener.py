"""A listener whose clients speak TLS: handshakes have a deadline and a limit of their own.

uvicorn would hand the handshake to the event loop, which tells nothing of those under way. Here a connection becomes an
`HttpConnection` when its handshake is complete; before, it is a socket and a task. The first byte decides: a request in
plain HTTP gets an answer that says so, and a client that sends nothing costs no memory of OpenSSL.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from goqueue.api.http.error_responses import error_response
from goqueue.api.http.message import encode_response
from goqueue.api.http.server_state import ServerState
from goqueue.errors import TlsRequired
from goqueue.limits import HTTP_BACKLOG, TLS_ACCEPTED_AT_ONCE
from goqueue.runtime.tls_alerts import alert_of

_log = logging.getLogger("goqueue.tls")

_HANDSHAKE = 0x16
"""The first byte of every ClientHello since SSL 3.0."""
_EXHAUSTED_SECONDS = 1.0
"""Until the next attempt to accept, when there are no files left."""
_LOG_SECONDS = 1.0
"""Failed handshakes are logged once in this time; the metric counts all."""
_LAST_SECONDS = 1.0
_FULL = "handshakes_full"

ContextSource = Callable[[], ssl.SSLContext]


class TlsListener:
    """Accepts connections of one socket. Takes the context that the source returns when a connection comes."""

    def __init__(
        self,
        listener: socket.socket,
        server: ServerState,
        context: ContextSource,
        new_connection: Callable[[], asyncio.Protocol],
    ) -> None:
        self._listener = listener
        self._server = server
        self._context = context
        self._new_connection = new_connection
        self._loop = asyncio.get_running_loop()
        self._handshakes: dict[asyncio.Task[None], None] = {}
        """Those under way, the oldest first."""
        self._retry: asyncio.TimerHandle | None = None
        self._log_at = 0.0
        listener.setblocking(False)
        listener.listen(HTTP_BACKLOG)
        self._listen()

    def close(self) -> None:
        """Stop accepting, and end the handshakes under way."""
        if self._retry is not None:
            self._retry.cancel()
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)
            self._listener.close()
        for handshake in self._handshakes:
            handshake.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _listen(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(TLS_ACCEPTED_AT_ONCE):
            try:
                wire, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _log.error("no connection can be accepted: %s", error.strerror or error)
                self._loop.remove_reader(self._listener)
                self._retry = self._loop.call_later(_EXHAUSTED_SECONDS, self._listen)
                return
            self._begin(wire)

    def _begin(self, wire: socket.socket) -> None:
        server, limits = self._server, self._server.limits
        if len(self._handshakes) >= limits.handshakes:  # the oldest is the least likely to end well
            oldest = next(iter(self._handshakes))
            del self._handshakes[oldest]
            oldest.cancel(_FULL)
        if server.connections >= limits.connections + limits.connections_spare:
            server.observer.refused("broker_overloaded")
            wire.close()
            return
        handshake = self._loop.create_task(self._shake_hands(wire))
        self._handshakes[handshake] = None
        handshake.add_done_callback(lambda done: self._handshakes.pop(done, None))

    async def _shake_hands(self, wire: socket.socket) -> None:
        """Make a connection of a socket, or close it."""
        peer = _name_of(wire)
        try:
            async with asyncio.timeout(self._server.limits.handshake_seconds):
                await self._connect(wire)
        except TimeoutError:
            self._refuse("handshake_timed_out", peer, "it took too long")
        except asyncio.CancelledError as error:
            if error.args != (_FULL,):
                raise
            self._refuse(_FULL, peer, "more than that are under way")
        except OSError as error:  # those of TLS as well
            self._refuse("handshake_failed", peer, _reason_of(error))

    async def _connect(self, wire: socket.socket) -> None:
        try:
            wire.setblocking(False)
            first = await self._first_byte(wire)
            if first != _HANDSHAKE:
                await self._end_without_tls(wire, first)
                return
            context, kept = self._context(), wire.dup()
        except BaseException:
            wire.close()
            raise
        with kept:  # the event loop closes the other one, also when the handshake fails
            try:
                await self._loop.connect_accepted_socket(
                    self._new_connection,
                    wire,
                    ssl=context,
                    ssl_handshake_timeout=self._server.limits.handshake_seconds,
                    ssl_shutdown_timeout=self._server.limits.write_seconds + _LAST_SECONDS,  # ours comes first
                )
            except ssl.SSLError as error:
                if alert := alert_of(error):
                    await self._send_last(kept, alert)
                raise

    async def _first_byte(self, wire: socket.socket) -> int | None:
        """Return the first byte without taking it, or None at the end of the connection."""
        arrived = self._loop.create_future()
        self._loop.add_reader(wire, _resolve, arrived)
        try:
            await arrived
        finally:
            self._loop.remove_reader(wire)
        first = wire.recv(1, socket.MSG_PEEK)
        return first[0] if first else None

    async def _end_without_tls(self, wire: socket.socket, first: int | None) -> None:
        with wire:
            if first is None:
                return  # the client wanted to know only whether something listens
            if not chr(first).isalpha():
                raise ConnectionAbortedError("what was sent is not TLS")
            self._server.observer.refused("plain_http")
            await self._answer_plain_http(wire)

    async def _answer_plain_http(self, wire: socket.socket) -> None:
        """Tell a client without TLS what is wrong."""
        server = self._server
        error = TlsRequired("this address speaks TLS, and the request is plain HTTP", hint="write https:// instead")
        answer = encode_response(error_response(error), server.new_id(), "close", server.date, without_body=False)
        assert isinstance(answer, bytes), "it is short"
        await self._send_last(wire, answer)

    async def _send_last(self, wire: socket.socket, content: bytes) -> None:
        """Send something, and wait for the end of the client, so that no reset destroys it."""
        with suppress(OSError):  # a timeout is one of them
            async with asyncio.timeout(_LAST_SECONDS):
                await self._loop.sock_sendall(wire, content)
                wire.shutdown(socket.SHUT_WR)
                while await self._loop.sock_recv(wire, 65_536):
                    pass

    def _refuse(self, reason: str, peer: str, why: str) -> None:
        self._server.observer.refused(reason)
        now = self._loop.time()
        if now >= self._log_at:
            self._log_at = now + _LOG_SECONDS
            _log.info("no TLS with %s: %s", peer, why)


def _resolve(arrived: "asyncio.Future[None]") -> None:
    if not arrived.done():
        arrived.set_result(None)


def _name_of(wire: socket.socket) -> str:
    try:
        name = wire.getpeername()
    except OSError:
        return "a client that has left"
    return str(name[0]) if isinstance(name, tuple) else "a local client"


def _reason_of(error: OSError) -> str:
    reason = getattr(error, "verify_message", None) or getattr(error, "reason", None) or error.strerror or error
    return str(reason).replace("_", " ").lower()
