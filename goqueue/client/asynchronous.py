"""The connection of an event loop: the same surface as the blocking one, awaited.

A `BufferedProtocol`, so that the loop reads straight into the memory of the answer.
"""

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from goqueue.client.address import Address
from goqueue.client.blocking import closed, no_tls, timed_out, unreachable
from goqueue.client.calls import Answer, Call
from goqueue.client.incoming import Incoming
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    import ssl


_SPARE = memoryview(bytearray(1))
"""For a loop that looks once more when an answer is whole: what comes then, mostly the end, belongs to nobody."""


class _Wire(asyncio.BufferedProtocol):
    """One socket: hands what arrives to the answer that is awaited."""

    def __init__(self, address: Address) -> None:
        self.transport: asyncio.Transport | None = None
        self._address = address
        self._incoming = Incoming(address)
        self._waiter: asyncio.Future[Answer] | None = None
        self._writable: asyncio.Future[None] | None = None
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # those of uvloop only behave like one

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._incoming.buffer() or _SPARE

    def buffer_updated(self, nbytes: int) -> None:
        self._take(nbytes)

    def eof_received(self) -> None:
        self._take(0)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._take(0)
        self.resume_writing()

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    async def drained(self) -> None:
        if self._writable is not None:
            await self._writable

    def expect(self) -> "asyncio.Future[Answer]":
        self._incoming = Incoming(self._address)
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter

    def _take(self, count: int) -> None:
        self.ended = self.ended or count == 0
        waiter = self._waiter
        if waiter is None or waiter.done():
            self.close()  # nobody asked
            return
        try:
            self._incoming.received(count)
        except GoQueueError as error:
            self.close()
            waiter.set_exception(error)
            return
        if self._incoming.answer is not None:
            if not self._incoming.keep_alive:
                self.close()
            waiter.set_result(self._incoming.answer)

    def close(self) -> None:
        self.ended = True
        if self.transport is not None:
            self.transport.abort()


class AsyncConnection:
    """A connection that is opened when it is needed, and again when it broke. One task at a time uses it."""

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
        self._wire: _Wire | None = None
        self._process = os.getpid()

    async def exchange(self, call: Call[Any], timeout: float) -> Answer:
        try:
            async with asyncio.timeout(timeout):
                return await self._exchange(call, timeout - call.patience)
        except TimeoutError:
            self.close()
            raise timed_out(self._address) from None
        except GoQueueError as error:
            self.close()
            if not error.details.get("unsent"):
                error.details["unsure"] = True
            raise
        except OSError as error:
            self.close()
            raise unreachable(self._address, error.strerror or error, unsure=True) from None
        except BaseException:
            self.close()  # an answer that still comes belongs to nobody
            raise

    async def _exchange(self, call: Call[Any], timeout: float) -> Answer:
        wire = await self._open(min(timeout, self._connect_timeout))
        answer = wire.expect()
        if wire.ended or wire.transport is None:
            raise closed(self._address)
        wire.transport.writelines(call.parts(self._address, self._api_key))
        await wire.drained()
        return await answer

    async def _open(self, timeout: float) -> _Wire:
        if self._process != os.getpid():
            self._process, self._wire = os.getpid(), None
        if self._wire is not None and (self._wire.ended or self._wire.transport is None):
            self.close()
        if self._wire is None:
            loop = asyncio.get_running_loop()
            try:
                async with asyncio.timeout(timeout):
                    _, self._wire = await loop.create_connection(
                        partial(_Wire, self._address), self._address.host, self._address.port, ssl=self._tls
                    )
            except OSError as error:  # a timeout is one of them
                if self._tls is not None and not isinstance(error, ConnectionRefusedError):
                    raise no_tls(self._address, error) from None
                raise unreachable(self._address, _why(error)) from None
        return self._wire

    def close(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()


def _why(error: OSError) -> str:
    """In the words of the system: those of the loop leave out the reason."""
    if error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error) or "it took too long"
