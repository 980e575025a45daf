"""A connection for an event loop, with the methods of the blocking one.

It is a `BufferedProtocol`, so that the loop reads directly into the memory of the answer.
"""

import asyncio
import os
import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from goqueue.client.address import Address
from goqueue.client.api_request import ApiRequest, ApiResponse
from goqueue.client.connection import closed, no_tls, request_error, unreachable
from goqueue.client.connection_core import ConnectionCore
from goqueue.client.response_parser import ResponseParser
from goqueue.client.tls import is_lasting
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    pass


_SPARE = memoryview(bytearray(1))
"""The loop reads once more after a whole answer; what arrives then, usually the end of the connection, goes here."""


class _Wire(asyncio.BufferedProtocol):
    """One socket: gives what arrives to the parser of the awaited answer."""

    def __init__(self, address: Address) -> None:
        self.transport: asyncio.Transport | None = None
        self._address = address
        self._incoming = ResponseParser(address)
        self._waiter: asyncio.Future[ApiResponse] | None = None
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

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, OSError) and is_lasting(exc) and self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(exc)
        self._take(0)
        self.resume_writing()

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    @property
    def is_paused(self) -> bool:
        return self._writable is not None

    async def drained(self) -> None:
        if self._writable is not None:
            await self._writable

    def expect(self) -> "asyncio.Future[ApiResponse]":
        self._incoming = ResponseParser(self._address)
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter

    def _take(self, count: int) -> None:
        self.ended = self.ended or count == 0
        waiter = self._waiter
        if waiter is None or waiter.done():
            self.close()  # no request is waiting for it
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


class AsyncConnection(ConnectionCore):
    """A connection to a broker, opened when it is needed and reopened after it broke. One task at a time uses it."""

    _wire: _Wire | None = None
    _answer: "asyncio.Future[ApiResponse] | None" = None

    async def exchange(self, call: ApiRequest[Any], timeout: float) -> ApiResponse:
        deadline = time.monotonic() + self.attempt_seconds(call, timeout)
        try:
            await self.send(call, deadline - call.patience)
            return await self._await_answer(deadline)
        except BaseException:
            self.close()  # canceled: the next request must not get this answer
            raise

    async def _await_answer(self, deadline: float) -> ApiResponse:
        """Wait for the answer as `receive` does, but quicker: canceling it loses the answer."""
        if (answer := self._answer) is None or answer.done():
            return await self.receive(deadline)
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                response = await answer
        except (OSError, GoQueueError) as error:
            raise self.noted(request_error(self._address, error, deadline)) from None
        self._answer = None
        return response

    async def send(self, call: ApiRequest[Any], deadline: float) -> None:
        """Send a request; `receive` takes its answer."""
        if self._answer is not None:
            self.close()  # the answer to an earlier request may still come
        self._route(call)
        try:
            wire = await self._open(deadline)
            self._answer = wire.expect()
            if wire.ended or wire.transport is None:
                raise closed(self._address)
            wire.transport.writelines(call.parts(self._address, self._sender))
            if wire.is_paused:
                async with asyncio.timeout(deadline - time.monotonic()):
                    await wire.drained()
        except (OSError, GoQueueError) as error:
            self.close()
            raise self.noted(request_error(self._address, error, deadline)) from None
        except BaseException:
            self.close()  # a part of the request may have been sent
            raise

    async def receive(self, deadline: float) -> ApiResponse:
        """Wait for the answer. When this is canceled, the answer can still be received by another call."""
        answer = self._answer
        try:
            if answer is None:
                raise closed(self._address)
            if not answer.done():
                await asyncio.wait([answer], timeout=max(deadline - time.monotonic(), 0.0))
            if not answer.done():
                raise TimeoutError
            self._answer = None
            return answer.result()
        except (OSError, GoQueueError) as error:
            self.close()
            raise self.noted(request_error(self._address, error, deadline)) from None

    @property
    def can_receive(self) -> bool:
        return self._answer is not None

    def has_arrived(self) -> bool:
        return self._answer is None or self._answer.done()

    async def _open(self, deadline: float) -> _Wire:
        if self._process != os.getpid():
            self._process, self._wire = os.getpid(), None
        if self._wire is not None and (self._wire.ended or self._wire.transport is None):
            self.close()
        if self._wire is None:
            loop = asyncio.get_running_loop()
            try:
                async with asyncio.timeout(min(deadline - time.monotonic(), self._connect_timeout)):
                    _, self._wire = await loop.create_connection(
                        partial(_Wire, self._address), self._address.host, self._address.port, ssl=self._tls
                    )
            except OSError as error:  # a timeout is one of them
                if self._tls is not None and not isinstance(error, ConnectionRefusedError):
                    raise no_tls(self._address, error) from None
                raise unreachable(self._address, reason_of(error)) from None
        return self._wire

    def close(self) -> None:
        wire, self._wire = self._wire, None
        answer, self._answer = self._answer, None
        if answer is not None:
            if not answer.done():
                answer.set_exception(closed(self._address))
            if not answer.cancelled():
                answer.exception()  # so that the loop does not report it as unseen
        if wire is not None:
            wire.close()

    def interrupt(self) -> None:
        """End the connection under a task that waits in it."""
        if self._wire is not None:
            self._wire.close()


async def wait_for_arrival(connections: Iterable[AsyncConnection], timeout: float) -> None:
    """Wait until an answer has arrived on one of the connections."""
    answers = [connection._answer for connection in connections if connection._answer is not None]
    if answers:
        await asyncio.wait(answers, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    else:
        await asyncio.sleep(timeout)


def reason_of(error: OSError) -> str:
    """Return the reason in the words of the system, which event loops leave out."""
    if error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error) or "it took too long"
