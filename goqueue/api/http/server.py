"""The server: uvicorn with a protocol of ours, the sweep over all connections, and the stop."""

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from goqueue.api.http import sockets
from goqueue.api.http.connection import HttpConnection
from goqueue.api.http.server_state import STATE_KEY, ServerState
from goqueue.api.http.tenant_connection import TenantConnection
from goqueue.api.http.tls_listener import ContextSource, TlsListener
from goqueue.limits import HTTP_BACKLOG

CANCEL_SECONDS = 1.0
"""For handlers to end after they were cancelled."""


class Server(ServerState):
    """One listener. `start` it on a running loop, and `stop` it on the same.

    uvicorn accepts connections and makes an `HttpConnection` of each. Its signal handlers, its lifespan and its loop
    that looks for the stop ten times a second are not used: the daemon has its own order.
    """

    _listeners: Sequence[asyncio.Server | TlsListener] | None = None
    _address: str | tuple[str, int] | None = None

    @property
    def address(self) -> str | tuple[str, int]:
        """The path of a socket, or host and port: the real port if 0 was requested, the first address of several."""
        assert self._address is not None, "the server has started"
        return self._address

    async def start(
        self,
        host: str,
        port: int,
        *,
        uds: str | None = None,
        fd: int | None = None,
        tls: ContextSource | None = None,
    ) -> None:
        """Listen on a path or a file descriptor if one is given, otherwise on the address.

        With `tls` each of them speaks TLS, with the context that it returns at the time of a connection.
        """
        assert self._listeners is None, "a server starts once"
        if fd is not None:
            listeners = [sockets.inherited(fd)]
        else:
            listeners = await sockets.bind_address(host, port) if uds is None else [sockets.bind_path(uds)]
        try:
            await self._serve(listeners, tls)
        except BaseException:
            for listener in listeners:
                listener.close()
            raise
        name = listeners[0].getsockname()
        self._address = name if isinstance(name, str) else (name[0], name[1])

    async def _serve(self, listeners: list[socket.socket], tls: ContextSource | None) -> None:
        from uvicorn import Config  # noqa: PLC0415 - not where another server listens
        from uvicorn import Server as Uvicorn  # noqa: PLC0415

        connection = TenantConnection if self.has_tenants else HttpConnection
        config = Config(
            _without_app,
            http=connection,
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            backlog=HTTP_BACKLOG,
            workers=1,  # whatever the environment says
        )
        config.load()
        server = Uvicorn(config)
        server.lifespan = config.lifespan_class(config)
        self.app, server.lifespan.state[STATE_KEY] = _without_app, self
        if tls is None:
            await server.startup(sockets=listeners)
            self._listeners = server.servers
            return
        new_connection = partial(connection, config, server.server_state, server.lifespan.state)
        self._listeners = [TlsListener(one, self, tls, new_connection) for one in listeners]

    async def stop(self, seconds: float) -> None:
        """Stop listening, answer requests in progress for so many seconds, then close the remaining connections."""
        if self._listeners is None or self.stopping:
            return
        for listener in self._listeners:
            listener.close()
        if isinstance(self._address, str):
            with suppress(OSError):
                os.unlink(self._address)
        self.begin_stop()
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
        self.end()
        for listener in self._listeners:
            await listener.wait_closed()

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


async def _without_app(scope: object, receive: object, send: object) -> None:  # noqa: ARG001
    """The application that uvicorn requires; the connections call their `ServerState` instead."""
    raise AssertionError("connections answer requests themselves")
