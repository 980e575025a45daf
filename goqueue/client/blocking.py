"""The blocking connection: one request, then its answer.

The socket blocks, and the kernel keeps the time (`SO_RCVTIMEO`): a request of a megabyte is one system call, and
so is its answer. Each call that lets go of the interpreter may wait five milliseconds to get it back
from a busy thread, so their number is what counts.
"""

import errno
import os
import select
import socket
import struct
import time
from typing import TYPE_CHECKING, Any, cast

from goqueue.client.address import Address
from goqueue.client.calls import Answer, Call
from goqueue.client.incoming import Incoming
from goqueue.errors import BrokerUnreachable, GoQueueError, RequestTimedOut
from goqueue.limits import WRITE_BUFFERS_MAX

if TYPE_CHECKING:
    import ssl

    from goqueue.storage.frame import Buffer

_TIMEVAL = struct.Struct("ll")
_TIMED_OUT = {errno.EAGAIN, errno.EWOULDBLOCK, errno.ETIMEDOUT}
_LEAST_SECONDS = 0.001


class Connection:
    """A connection that is opened when it is needed, and again when it broke. One thread at a time uses it."""

    def __init__(
        self,
        address: Address,
        connect_timeout: float,
        tls: "ssl.SSLContext | None" = None,
        api_key: str | None = None,
    ) -> None:
        self._address = address
        self._connect_timeout = connect_timeout
        self._tls = tls
        self._api_key = api_key
        self._socket: socket.socket | None = None
        self._process = os.getpid()

    def exchange(self, call: Call[Any], timeout: float) -> Answer:
        deadline = time.monotonic() + timeout
        try:
            self.send(call, deadline - call.patience)
            return self.receive(deadline)
        except BaseException:
            self.close()  # interrupted between the two
            raise

    def send(self, call: Call[Any], deadline: float) -> None:
        """Ask; the answer is taken with `receive`."""
        try:
            wire = self._open(deadline)
            self._set_timeout(wire, socket.SO_SNDTIMEO, deadline)
            _send_all(wire, call.parts(self._address, self._api_key), deadline)
        except (OSError, GoQueueError) as error:
            raise self._broken(error, deadline) from None
        except BaseException:
            self.close()  # an interruption; half a request
            raise

    def receive(self, deadline: float) -> Answer:
        incoming = Incoming(self._address)
        try:
            wire = self._socket
            if wire is None:
                raise closed(self._address)
            while incoming.answer is None:
                self._set_timeout(wire, socket.SO_RCVTIMEO, deadline)
                flags = socket.MSG_WAITALL if incoming.missing and self._tls is None else 0
                incoming.received(wire.recv_into(incoming.buffer(), 0, flags))
        except (OSError, GoQueueError) as error:
            raise self._broken(error, deadline) from None
        except BaseException:
            self.close()  # an interruption; an answer that still comes belongs to nobody
            raise
        if not incoming.keep_alive:
            self.close()
        return incoming.answer

    def fileno(self) -> int:
        """To wait for an answer with `poll`; -1 when there is no connection."""
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

    def _open(self, deadline: float) -> socket.socket:
        if self._process != os.getpid():
            self.close()  # in this process alone: the parent goes on using it
            self._process = os.getpid()
        if self._socket is not None and _has_ended(self._socket):
            self.close()
        if self._socket is None:
            self._socket = self._connect(min(self._connect_timeout, deadline - time.monotonic()))
        return self._socket

    def _connect(self, timeout: float) -> socket.socket:
        host = self._address.host
        if host.isascii():  # as bytes it is not looked at for other letters, which would load tables of them
            host = cast(str, host.encode())
        try:
            wire = socket.create_connection((host, self._address.port), max(timeout, _LEAST_SECONDS))
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
        seconds = max(left, _LEAST_SECONDS)
        whole = int(seconds)
        wire.setsockopt(socket.SOL_SOCKET, option, _TIMEVAL.pack(whole, int((seconds - whole) * 1e6)))

    def _broken(self, error: Exception, deadline: float) -> GoQueueError:
        """Nothing more comes over this connection that belongs to what is asked next."""
        self.close()
        if isinstance(error, GoQueueError):
            if not error.details.get("unsent"):
                error.details["unsure"] = True
            return error
        if isinstance(error, OSError) and (is_timeout(error) or time.monotonic() >= deadline):
            return timed_out(self._address)
        return unreachable(self._address, getattr(error, "strerror", None) or error, unsure=True)


def unreachable(address: Address, why: object, *, unsure: bool = False) -> BrokerUnreachable:
    details = {"unsure": True} if unsure else {"unsent": True}
    return BrokerUnreachable(
        f"no answer from the broker at {address}: {why}", hint="is it running, and is this its address?", **details
    )


def closed(address: Address) -> BrokerUnreachable:
    return BrokerUnreachable(f"the connection to the broker at {address} is closed", hint="ask again")


def timed_out(address: Address) -> RequestTimedOut:
    return RequestTimedOut(
        f"the broker at {address} did not answer in time", hint="is it busy? a longer timeout waits for it", unsure=True
    )


def no_tls(address: Address, error: OSError) -> BrokerUnreachable:
    """The handshake failed. What speaks no TLS, or has a certificate that is not trusted, will not change."""
    reason = str(getattr(error, "reason", None) or error.strerror or error).replace("_", " ").lower()
    why = "it took too long" if is_timeout(error) else reason
    verdict = getattr(error, "verify_message", None)
    hint = "give tls= a context that trusts its certificate" if verdict else "does it speak plain HTTP? write http://"
    lasting = {"foreign": True} if getattr(error, "library", None) else {}
    return BrokerUnreachable(
        f"no TLS with the broker at {address}: {verdict or why}", hint=hint, unsent=True, **lasting
    )


def is_timeout(error: OSError) -> bool:
    # SSL says "want read" where the kernel said "try again".
    return isinstance(error, TimeoutError) or error.errno in _TIMED_OUT or type(error).__name__.startswith("SSLWant")


def _has_ended(wire: socket.socket) -> bool:
    """Between two requests nothing comes: whatever can be read is the end."""
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
