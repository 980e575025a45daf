"""Listening, the sweep over all connections, and the stop."""

import asyncio
import errno
import socket
import ssl

from goqueue.api.http.connection import HttpConnection
from goqueue.api.http.message import RequestHandler
from goqueue.api.http.server_state import HttpLimits, ServerObserver, ServerState
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import AddressUnavailable
from goqueue.limits import HTTP_BACKLOG, STALL_SECONDS

SWEEP_SECONDS = 1.0
CANCEL_SECONDS = 1.0
"""For handlers to end after they were cancelled."""

_REASONS = {
    errno.EADDRINUSE: ("another process is listening there", "stop that process, or choose another port"),
    errno.EACCES: (
        "the system does not allow it",
        "ports below 1024 need the capability CAP_NET_BIND_SERVICE: choose a higher one",
    ),
    errno.EADDRNOTAVAIL: (
        "the host is not an address of this machine",
        "listen on 127.0.0.1 for this machine alone, or on 0.0.0.0 for all its networks",
    ),
}


class Server(ServerState):
    """One listening address. `start` it on a running loop, and `stop` it on the same."""

    open_connections: set[HttpConnection]

    def __init__(self, handle: RequestHandler, *, limits: HttpLimits, observer: ServerObserver, clock: Clock) -> None:
        super().__init__(handle, limits, observer, clock)
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._address: tuple[str, int] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port: the real port if 0 was requested, and the first address if the host has several."""
        assert self._address is not None, "the server has started"
        return self._address

    @property
    def connections(self) -> int:
        return len(self.open_connections)

    async def start(self, host: str, port: int, *, ssl: ssl.SSLContext | None = None) -> None:
        """Listen."""
        assert self._listener is None, "a server starts once"
        self.loop = asyncio.get_running_loop()
        if not 0 <= port <= 65_535:  # uvloop would never close after it
            raise _unavailable(host, port, OverflowError())
        try:
            self._listener = await self.loop.create_server(
                lambda: HttpConnection(self),
                host,
                port,
                ssl=ssl,
                backlog=HTTP_BACKLOG,
                ssl_handshake_timeout=None if ssl is None else self.limits.header_seconds,
            )
        except (OSError, UnicodeError) as error:
            raise _unavailable(host, port, error) from error
        name = self._listener.sockets[0].getsockname()
        self._address = (name[0], name[1])
        self._arm()

    async def stop(self, seconds: float) -> None:
        """Stop listening, answer requests in progress for so many seconds, then close the remaining connections."""
        if self._listener is None or self.stopping:
            return
        self.stopping = True
        self._listener.close()
        for connection in list(self.open_connections):
            connection.close_when_idle()
        if not await self._wait_until_empty(seconds):
            for connection in list(self.open_connections):
                connection.abort()
            for future in list(self.orphaned):
                future.cancel()
            await self._wait_until_empty(CANCEL_SECONDS)
            for future in list(self.orphaned):  # of connections that were aborted just now
                future.cancel()
            await self._wait_until_empty(CANCEL_SECONDS)
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self._listener.wait_closed()

    def sweep(self, late_seconds: float = 0.0) -> None:
        """Expire every connection whose deadline has passed. Called once a second; more calls do no harm.

        A late call moves all deadlines, because what clients sent meanwhile is not read yet.
        """
        self.update_date()
        if late_seconds > STALL_SECONDS:
            for connection in self.open_connections:
                connection.deadline_ns += round(late_seconds * NANOSECONDS)
        now_ns = self.monotonic_ns()
        for connection in [connection for connection in self.open_connections if connection.deadline_ns <= now_ns]:
            connection.expire(now_ns)

    def _arm(self) -> None:
        due = self.loop.time() + SWEEP_SECONDS
        self._sweeper = self.loop.call_at(due, self._tick, due)

    def _tick(self, due: float) -> None:
        self._arm()
        self.sweep(self.loop.time() - due)

    async def _wait_until_empty(self, seconds: float) -> bool:
        """Return whether the last connection was closed in time."""
        self.empty_event = asyncio.Event()
        self.notify_if_empty()
        try:
            async with asyncio.timeout(seconds):
                await self.empty_event.wait()
        except TimeoutError:
            return False
        return True


def _unavailable(host: str, port: int, error: Exception) -> AddressUnavailable:
    if isinstance(error, socket.gaierror | UnicodeError):
        reason, hint = "the host cannot be resolved", "use an IP address, or a name that this machine can resolve"
    elif isinstance(error, OverflowError):
        reason, hint = "the port is out of range", "choose a port from 1 to 65535, or 0 for any that is free"
    else:
        number = error.errno if isinstance(error, OSError) else None
        reason, hint = _REASONS.get(number or 0, (str(error), "check whether this machine has this address"))
    return AddressUnavailable(f"cannot listen on {host!r} port {port}: {reason}", hint=hint)
