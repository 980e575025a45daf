"""Connections over an httpx client that the caller has configured: proxies, certificates, authentication, hooks.

The client of httpx has the pool and the wire. A connection here has one request under way, with the methods and errors
of the own connections. It is loaded only when a client is given: importing httpx takes longer than a command may.
"""

import asyncio
import contextvars
import socket
import ssl
import threading
import time
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any

import httpx

from goqueue.client.address import Address
from goqueue.client.api_request import ApiRequest, ApiResponse, Sender, not_a_broker
from goqueue.client.async_connection import AsyncConnection, reason_of
from goqueue.client.connection import LEAST_SECONDS, Connection, closed, no_tls, request_error, timed_out, unreachable
from goqueue.client.response_parser import BODY_BYTES_MAX, ended
from goqueue.client.servers import Servers
from goqueue.client.tls import is_lasting
from goqueue.errors import GoQueueError

_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)


class _Job:
    """A request that a thread carries out."""

    def __init__(self) -> None:
        self.answer: Future[ApiResponse] = Future()
        self._signal: tuple[socket.socket, socket.socket] | None = None

    def fileno(self) -> int:
        """Return a descriptor that can be read when the answer is there."""
        if self._signal is None:
            self._signal = here, there = socket.socketpair()
            self.answer.add_done_callback(lambda _: there.close())
            return here.fileno()
        return self._signal[0].fileno()

    def end(self, outcome: ApiResponse | BaseException) -> None:
        """Give the outcome, unless there is one."""
        with suppress(InvalidStateError):
            if isinstance(outcome, BaseException):
                self.answer.set_exception(outcome)
            else:
                self.answer.set_result(outcome)

    def close(self, error: GoQueueError) -> None:
        self.end(error)
        if self._signal is not None:
            self._signal[0].close()


class HttpxConnection(Connection):
    """One request at a time over an `httpx.Client`.

    Each request has a thread: httpx has no limit for a whole request, and nothing that ends one from outside.
    """

    _job: _Job | None = None

    def __init__(self, http: httpx.Client, servers: Servers, connect_timeout: float, sender: Sender) -> None:
        super().__init__(servers, connect_timeout, None, sender)
        self._http = http

    def send(self, call: ApiRequest[Any], deadline: float) -> None:
        self.close()
        self._route(call)
        address = self._address
        request = _request(self._http, call, address, self._sender, deadline, self._connect_timeout)
        job = self._job = _Job()

        def run() -> None:
            try:
                job.end(_response(self._http.send(request), address))
            except Exception as error:
                job.end(_translated(error, address))

        # What instruments requests keeps its spans in the context.
        threading.Thread(target=contextvars.copy_context().run, args=(run,), name="goqueue-httpx", daemon=True).start()

    def receive(self, deadline: float) -> ApiResponse:
        try:
            if self._job is None:
                raise closed(self._address)
            return self._job.answer.result(max(deadline - time.monotonic(), 0.0))
        except (OSError, GoQueueError) as error:
            raise self.noted(request_error(self._address, error, deadline)) from None
        finally:
            self.close()

    @property
    def can_receive(self) -> bool:
        return self._job is not None

    def has_arrived(self) -> bool:
        return self._job is None or self._job.answer.done()

    def fileno(self) -> int:
        return -1 if self._job is None else self._job.fileno()

    def close(self) -> None:
        """Leave a request that is under way to itself: it ends within its time."""
        job, self._job = self._job, None
        if job is not None:
            job.close(closed(self._address))

    def interrupt(self) -> None:
        if (job := self._job) is not None:
            job.end(closed(self._address))


class AsyncHttpxConnection(AsyncConnection):
    """One request at a time over an `httpx.AsyncClient`."""

    _task: asyncio.Task[None] | None = None

    def __init__(self, http: httpx.AsyncClient, servers: Servers, connect_timeout: float, sender: Sender) -> None:
        super().__init__(servers, connect_timeout, None, sender)
        self._http = http

    async def send(self, call: ApiRequest[Any], deadline: float) -> None:
        self.close()
        self._route(call)
        address = self._address
        request = _request(self._http, call, address, self._sender, deadline, self._connect_timeout)
        answer = self._answer = asyncio.get_running_loop().create_future()

        async def run() -> None:
            try:
                response = _response(await self._http.send(request), address)
            except Exception as error:
                if not answer.done():
                    answer.set_exception(_translated(error, address))
            else:
                if not answer.done():
                    answer.set_result(response)

        self._task = asyncio.create_task(run())

    def close(self) -> None:
        super().close()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    def interrupt(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(closed(self._address))


def _request(
    http: httpx.Client | httpx.AsyncClient,
    call: ApiRequest[Any],
    address: Address,
    sender: Sender,
    deadline: float,
    connect_timeout: float,
) -> httpx.Request:
    left = max(deadline - time.monotonic(), LEAST_SECONDS)
    return http.build_request(
        call.method,
        f"{address}{call.path}",
        headers=call.fields(sender),
        content=b"".join(call.body) if call.body else None,
        timeout=httpx.Timeout(left, connect=min(left, connect_timeout), read=left + call.patience),
    )


def _response(answer: httpx.Response, address: Address) -> ApiResponse:
    if len(answer.content) > BODY_BYTES_MAX:
        raise not_a_broker(address, f"its answer has {len(answer.content)} bytes")
    headers = {name.lower(): value for name, value in answer.headers.raw}
    return ApiResponse(answer.status_code, headers, answer.content, address)


def _translated(error: Exception, address: Address) -> Exception:
    """Return the error of the own connections for one of httpx. Those of the caller's hooks stay as they are."""
    cause = _cause(error)
    if isinstance(cause, ssl.SSLError) and (isinstance(error, httpx.ConnectError) or is_lasting(cause)):
        return no_tls(address, cause)
    if isinstance(error, _UNSENT):
        return unreachable(address, reason_of(cause) if cause is not None else str(error) or "it took too long")
    if isinstance(error, httpx.TimeoutException):
        return timed_out(address)
    if isinstance(error, httpx.RemoteProtocolError) and "disconnected" in str(error):
        return ended(address, "before it answered")
    if isinstance(error, httpx.RemoteProtocolError) and "closed connection" in str(error):
        return ended(address, "in the middle of the answer")
    if isinstance(error, httpx.RemoteProtocolError | httpx.DecodingError | httpx.TooManyRedirects):
        return not_a_broker(address, f"it does not speak HTTP: {error}")
    if isinstance(error, httpx.TransportError):
        return unreachable(address, reason_of(cause) if cause is not None else error, unsure=True)
    return error


def _cause(error: BaseException) -> OSError | None:
    """Return the error of the system behind one of httpx, which is in the chain or an argument of one in it."""
    left: list[object] = [error]
    while left:
        one = left.pop(0)
        if isinstance(one, OSError) and one.strerror:
            return one
        if isinstance(one, BaseExceptionGroup):
            left += one.exceptions
        elif isinstance(one, BaseException):
            left += [one.__cause__, one.__context__, *one.args]
    return None
