"""Listening, the sweep over all connections, and the stop."""

import asyncio
import errno
import socket
import ssl

from goqueue.api.http.connection import Connection
from goqueue.api.http.desk import Desk, Observer
from goqueue.api.http.limits import HttpLimits
from goqueue.api.http.message import Handle
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import AddressUnavailable
from goqueue.limits import HTTP_BACKLOG, STALL_SECONDS

SWEEP_SECONDS = 1.0
CANCEL_SECONDS = 1.0
"""For handlers to take note that they are cancelled."""

_REASONS = {
    errno.EADDRINUSE: ("somebody listens there already", "stop the other program, or choose another port"),
    errno.EACCES: (
        "the system does not allow it",
        "ports below 1024 need the capability CAP_NET_BIND_SERVICE: choose a higher one",
    ),
    errno.EADDRNOTAVAIL: (
        "the host is not an address of this machine",
        "listen on 127.0.0.1 for this machine alone, or on 0.0.0.0 for all its networks",
    ),
}


class Server:
    """One listening address. `start` it on a running loop, and `stop` it on the same."""

    def __init__(self, handle: Handle, *, limits: HttpLimits, observer: Observer, clock: Clock) -> None:
        self._desk = Desk(handle, limits, observer, clock)
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._address: tuple[str, int] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port; the real port where 0 was asked for. Where a host has several addresses, the first."""
        assert self._address is not None, "the server has started"
        return self._address

    @property
    def connections(self) -> int:
        """How many there are, those that are being told to leave included."""
        return len(self._desk.connections)

    @property
    def held_bytes(self) -> int:
        """Of all request bodies that are unfinished or unanswered."""
        return self._desk.held_bytes

    @property
    def answer_bytes(self) -> int:
        """Of all large answers that their readers have not taken as a whole."""
        return self._desk.answer_bytes

    def check_answers(self) -> None:
        """Raise BrokerOverloaded where nothing large should be read for an answer now."""
        self._desk.check_answers()

    async def start(self, host: str, port: int, *, ssl: ssl.SSLContext | None = None) -> None:
        """Listen."""
        assert self._listener is None, "a server starts once"
        desk = self._desk
        desk.loop = asyncio.get_running_loop()
        if not 0 <= port <= 65_535:  # uvloop would never close after it
            raise _unavailable(host, port, OverflowError())
        try:
            self._listener = await desk.loop.create_server(
                lambda: Connection(desk),
                host,
                port,
                ssl=ssl,
                backlog=HTTP_BACKLOG,
                ssl_handshake_timeout=None if ssl is None else desk.limits.header_seconds,
            )
        except (OSError, UnicodeError) as error:
            raise _unavailable(host, port, error) from error
        name = self._listener.sockets[0].getsockname()
        self._address = (name[0], name[1])
        self._arm()

    async def stop(self, seconds: float) -> None:
        """Stop listening, let what is in progress be answered for so many seconds, and end what is left."""
        desk = self._desk
        if self._listener is None or desk.stopping:
            return
        desk.stopping = True
        self._listener.close()
        for connection in list(desk.connections):
            connection.wind_up()
        if not await self._emptied(seconds):
            for connection in list(desk.connections):
                connection.abort()
            for future in list(desk.adrift):
                future.cancel()
            await self._emptied(CANCEL_SECONDS)
            for future in list(desk.adrift):  # of connections that were aborted just now
                future.cancel()
            await self._emptied(CANCEL_SECONDS)
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self._listener.wait_closed()

    def sweep(self, late_seconds: float = 0.0) -> None:
        """Let every connection know whose deadline has passed. Done once a second; a call more does no harm.

        One that comes late moves all deadlines: what clients sent meanwhile is not read yet.
        """
        desk = self._desk
        desk.tell_date()
        if late_seconds > STALL_SECONDS:
            for connection in desk.connections:
                connection.deadline_ns += round(late_seconds * NANOSECONDS)
        now_ns = desk.monotonic_ns()
        for connection in [guest for guest in desk.connections if guest.deadline_ns <= now_ns]:
            connection.expire(now_ns)

    def _arm(self) -> None:
        loop = self._desk.loop
        assert loop is not None
        due = loop.time() + SWEEP_SECONDS
        self._sweeper = loop.call_at(due, self._tick, due)

    def _tick(self, due: float) -> None:
        loop = self._desk.loop
        assert loop is not None
        self._arm()
        self.sweep(loop.time() - due)

    async def _emptied(self, seconds: float) -> bool:
        """Whether the last connection has left within the time."""
        desk = self._desk
        desk.emptied = asyncio.Event()
        desk.check_emptied()
        try:
            async with asyncio.timeout(seconds):
                await desk.emptied.wait()
        except TimeoutError:
            return False
        return True


def _unavailable(host: str, port: int, error: Exception) -> AddressUnavailable:
    if isinstance(error, socket.gaierror | UnicodeError):
        reason, hint = "the host cannot be resolved", "use an IP address, or a name that this machine can resolve"
    elif isinstance(error, OverflowError):
        reason, hint = "there is no such port", "choose a port from 1 to 65535, or 0 for any that is free"
    else:
        number = error.errno if isinstance(error, OSError) else None
        reason, hint = _REASONS.get(number or 0, (str(error), "see whether this machine has such an address"))
    return AddressUnavailable(f"cannot listen on {host!r} port {port}: {reason}", hint=hint)
