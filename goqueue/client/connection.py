"""The blocking connection: sends a request, then receives its answer.

The socket blocks, and the kernel measures the time (`SO_RCVTIMEO`): a request of a megabyte is one system call, and so
is its answer. After each call that releases the interpreter lock, a busy thread may keep it for five milliseconds, so
the number of calls matters.
"""

import errno
import os
import select
import socket
import struct
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from goqueue.client.address import Address
from goqueue.client.api_request import ApiRequest, ApiResponse
from goqueue.client.connection_core import ConnectionCore
from goqueue.client.hints import hint_of
from goqueue.client.response_parser import ResponseParser
from goqueue.client.tls import is_lasting, tls_error
from goqueue.errors import BrokerUnreachable, GoQueueError, RequestTimedOut
from goqueue.limits import WRITE_BUFFERS_MAX

if TYPE_CHECKING:
    from goqueue.storage.frame import Buffer

_TIMEVAL = struct.Struct("ll")
_TIMED_OUT = {errno.EAGAIN, errno.EWOULDBLOCK, errno.ETIMEDOUT}
LEAST_SECONDS = 0.001
_ALERT_SECONDS = 0.1


class Connection(ConnectionCore):
    """A connection to a broker, opened when it is needed and reopened after it broke. One thread at a time uses it."""

    _socket: socket.socket | None = None

    def exchange(self, call: ApiRequest[Any], timeout: float) -> ApiResponse:
        deadline = time.monotonic() + self.attempt_seconds(call, timeout)
        try:
            self.send(call, deadline - call.patience)
            return self.receive(deadline)
        except BaseException:
            self.close()  # interrupted between the two
            raise

    def send(self, call: ApiRequest[Any], deadline: float) -> None:
        """Send a request; `receive` takes its answer."""
        self._route(call)
        try:
            wire = self._open(deadline)
            self._set_timeout(wire, socket.SO_SNDTIMEO, deadline)
            _send_all(wire, call.parts(self._address, self._sender), deadline)
        except (OSError, GoQueueError) as error:
            reason = self._reason_of(error)
            self.close()
            raise self.noted(request_error(self._address, reason, deadline)) from None
        except BaseException:
            self.close()  # a part of the request may have been sent
            raise

    def receive(self, deadline: float) -> ApiResponse:
        incoming = ResponseParser(self._address)
        try:
            wire = self._socket
            if wire is None:
                raise closed(self._address)
            while incoming.answer is None:
                self._set_timeout(wire, socket.SO_RCVTIMEO, deadline)
                flags = socket.MSG_WAITALL if incoming.missing and self._tls is None else 0
                incoming.received(wire.recv_into(incoming.buffer(), 0, flags))
        except (OSError, GoQueueError) as error:
            self.close()
            raise self.noted(request_error(self._address, error, deadline)) from None
        except BaseException:
            self.close()  # interrupted: the next request must not get this answer
            raise
        if not incoming.keep_alive:
            self.close()
        return incoming.answer

    @property
    def can_receive(self) -> bool:
        return self._socket is not None

    def has_arrived(self) -> bool:
        return self._socket is None or _can_read(self._socket)

    def fileno(self) -> int:
        return -1 if self._socket is None else self._socket.fileno()

    def close(self) -> None:
        wire, self._socket = self._socket, None
        if wire is not None:
            wire.close()

    def interrupt(self) -> None:
        """End the connection under a thread that waits in it; any thread may call this."""
        wire = self._socket
        if wire is not None:
            try:
                wire.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it has ended already

    def _reason_of(self, error: OSError | GoQueueError) -> OSError | GoQueueError:
        """Return why the broker closed the connection of a request that is not sent yet, if it said so by TLS."""
        if self._tls is None or self._socket is None or not isinstance(error, ConnectionError):
            return error
        try:
            self._socket.settimeout(_ALERT_SECONDS)
            self._socket.recv(1)
        except OSError as found:
            return found if is_lasting(found) else error
        return error

    def _open(self, deadline: float) -> socket.socket:
        if self._process != os.getpid():
            self.close()  # in this process alone: the parent goes on using it
            self._process = os.getpid()
        if self._socket is not None and _can_read(self._socket):
            self.close()  # between two requests only the end of the connection can be read
        if self._socket is None:
            self._socket = self._connect(min(self._connect_timeout, deadline - time.monotonic()))
        return self._socket

    def _connect(self, timeout: float) -> socket.socket:
        host = self._address.host
        if host.isascii():  # as bytes it is not looked at for other letters, which would load tables of them
            host = cast(str, host.encode())
        try:
            wire = socket.create_connection((host, self._address.port), max(timeout, LEAST_SECONDS))
        except OSError as error:
            raise unreachable(self._address, error.strerror or error) from None
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            try:
                wire = self._tls.wrap_socket(wire, server_hostname=self._address.host)
            except OSError as error:
                wire.close()
                raise no_tls(self._address, error) from None
        wire.settimeout(None)
        return wire

    def _set_timeout(self, wire: socket.socket, option: int, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        seconds = max(left, LEAST_SECONDS)
        whole = int(seconds)
        wire.setsockopt(socket.SOL_SOCKET, option, _TIMEVAL.pack(whole, int((seconds - whole) * 1e6)))


def wait_for_arrival(connections: Iterable[Connection], timeout: float) -> None:
    """Wait until an answer has arrived on one of the connections."""
    poll = select.poll()
    for connection in connections:
        poll.register(connection.fileno(), select.POLLIN)
    poll.poll(timeout * 1000)


def request_error(address: Address, error: Exception, deadline: float) -> GoQueueError:
    """Return the error to raise for a request that failed on its way. The connection is closed by then."""
    if isinstance(error, GoQueueError):
        if not error.details.get("unsent"):
            error.details["unsure"] = True
        return error
    if isinstance(error, OSError) and is_lasting(error):
        return no_tls(address, error)  # with TLS 1.3 the broker refuses a client after the client's handshake
    if isinstance(error, OSError) and (is_timeout(error) or time.monotonic() >= deadline):
        return timed_out(address)
    return unreachable(address, getattr(error, "strerror", None) or error, unsure=True)


def unreachable(address: Address, why: object, *, unsure: bool = False) -> BrokerUnreachable:
    error = BrokerUnreachable(f"no answer from the broker at {address}: {why}")
    error.details["unsure" if unsure else "unsent"] = True
    error.hint = hint_of(error)
    return error


def closed(address: Address) -> BrokerUnreachable:
    return BrokerUnreachable(f"the connection to the broker at {address} is closed", hint="ask again")


def timed_out(address: Address) -> RequestTimedOut:
    return RequestTimedOut(
        f"the broker at {address} did not answer in time", hint="is it busy? a longer timeout waits for it", unsure=True
    )


def no_tls(address: Address, error: OSError) -> BrokerUnreachable:
    return tls_error(address, error, took_too_long=is_timeout(error))


def is_timeout(error: OSError) -> bool:
    # SSL says "want read" where the kernel said "try again".
    return isinstance(error, TimeoutError) or error.errno in _TIMED_OUT or type(error).__name__.startswith("SSLWant")


def _can_read(wire: socket.socket) -> bool:
    poll = select.poll()
    poll.register(wire, select.POLLIN)
    return bool(poll.poll(0))


def _send_all(wire: socket.socket, parts: "list[Buffer]", deadline: float) -> None:
    if len(parts) == 1 or not hasattr(wire, "sendmsg") or type(wire) is not socket.socket:
        for part in parts:
            wire.sendall(part)
        return
    while parts:
        sent = wire.sendmsg(parts[:WRITE_BUFFERS_MAX])
        while parts and sent >= len(parts[0]):
            sent -= len(parts.pop(0))
        if sent:
            parts[0] = memoryview(parts[0])[sent:]
        if parts and time.monotonic() >= deadline:
            raise TimeoutError
