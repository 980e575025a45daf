"""A real HTTP server for tests, with raw clients and a way to wait."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from ssl import SSLContext
from typing import Any, ParamSpec

import uvloop

from goqueue.api.http.connection import HttpConnection
from goqueue.api.http.message import HttpRequest, HttpResponse, RequestHandler
from goqueue.api.http.server import Server
from goqueue.api.http.server_state import HttpLimits
from goqueue.api.http.tenant_connection import TenantShare
from goqueue.broker.tenants.memory import TenantMemory
from goqueue.runtime.fair_turn import FairTurn
from goqueue.testing.clock import ManualClock

PATIENCE_SECONDS = 60
LAGGARD_BYTES = 1 << 18
HOST = b"host: broker\r\n"

P = ParamSpec("P")


def on_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test on a loop of its own, of the kind that the broker runs on."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        uvloop.run(patiently(test(*args, **kwargs)))

    return run


async def patiently(test: Awaitable[None]) -> None:
    async with asyncio.timeout(4 * PATIENCE_SECONDS):
        await test


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something is so."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            turn = loop.create_future()
            loop.call_later(0.0005, turn.set_result, None)
            await turn


class Recorder:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.answers: list[tuple[str, int, float]] = []
        self.refusals: list[str] = []

    def connection_opened(self, peer: str) -> None:  # noqa: ARG002 - as servers call it
        self.opened += 1

    def connection_closed(self, peer: str) -> None:  # noqa: ARG002 - as servers call it
        self.closed += 1

    def answered(self, request: HttpRequest, response: HttpResponse, seconds: float) -> None:
        self.answers.append((request.path, response.status, seconds))

    def refused(self, reason: str) -> None:
        self.refusals.append(reason)


@dataclass
class Answer:
    """The answer that a client received."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The code of an error."""
        told = json.loads(self.body)
        assert told["error"], "an error has a sentence"
        assert told["hint"], "an error has a hint"
        return str(told["code"])


class Client:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, *, of_head: bool = False) -> Answer:
        """The next answer. An answer to HEAD ends with its headers."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        assert len(headers) == len(lines), "no header comes twice"
        length = 0 if of_head else int(headers.get("content-length", 0))
        return Answer(int(line.split(" ")[1]), headers, await self.reader.readexactly(length))

    async def asks(self, data: bytes) -> Answer:
        self.send(data)
        return await self.answer()

    async def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        return await self.reader.read()

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):  # the server was first
            await self.writer.wait_closed()

    def reset(self) -> None:
        """Leave in a way that the server can tell from having said all."""
        connection = self.writer.get_extra_info("socket")
        if connection is not None:  # else the server was first
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class RunningServer:
    """A running server, its clock and its observer, and the clients that came."""

    def __init__(self, handle: RequestHandler, limits: HttpLimits) -> None:
        self.clock = ManualClock()
        self.seen = Recorder()
        self.faults: list[BaseException] = []
        self.server = Server(handle, limits=limits, observer=self.seen, clock=self.clock)
        self.clients: list[Client] = []

    @property
    def address(self) -> tuple[str, int]:
        address = self.server.address
        assert isinstance(address, tuple)
        return address

    async def client(self, **options: Any) -> Client:
        return self._came(await asyncio.open_connection(*self.address, **options))

    async def laggard(self) -> Client:
        """A client that takes little as long as it does not read: its kernel's buffer does not grow."""
        wire = socket.socket()
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LAGGARD_BYTES)
        wire.setblocking(False)
        await asyncio.get_running_loop().sock_connect(wire, self.server.address)
        return self._came(await asyncio.open_connection(sock=wire, limit=1024))

    def _came(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> Client:
        client = Client(*streams)
        self.clients.append(client)
        return client

    def connections(self) -> list[HttpConnection]:
        """The server's own view of its connections."""
        return list(self.server.open_connections)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.server.sweep()


class Tenants:
    """Tenants that requests name by a header, each with so much memory."""

    def __init__(self, bytes_max: int) -> None:
        turn = FairTurn(asyncio.get_running_loop())
        self.shares = {name: TenantShare(TenantMemory(name, bytes_max), turn.of(name)) for name in "ab"}

    def __call__(self, request: HttpRequest) -> TenantShare | None:
        return self.shares.get(request.headers.get("x-tenant", ""))

    @property
    def held_bytes(self) -> int:
        return sum(share.memory.held_bytes for share in self.shares.values())


@asynccontextmanager
async def serving(
    handle: RequestHandler, *, tls: SSLContext | None = None, tenants: "Tenants | None" = None, **limits: Any
) -> AsyncIterator[RunningServer]:
    """A server on a free port, which has forgotten nothing when it ends."""
    running = RunningServer(handle, HttpLimits(**limits))
    loop = asyncio.get_running_loop()
    if tenants is not None:
        running.server.has_tenants, running.server.share_of = True, tenants
    loop.set_exception_handler(lambda _, context: running.faults.append(context.get("exception") or Exception(context)))
    await running.server.start("127.0.0.1", 0, tls=None if tls is None else lambda: tls)
    try:
        yield running
    finally:
        for client in running.clients:
            await client.close()
        await running.server.stop(0)
    assert running.server.connections == 0
    assert running.server.held_bytes == 0, "what bodies held is given back"
    assert running.server.answer_bytes == 0, "what answers held is given back"
    assert running.seen.opened == running.seen.closed
    if tenants is not None:
        assert tenants.held_bytes == 0, "what tenants held is given back"


@asynccontextmanager
async def connected(handle: RequestHandler, **options: Any) -> AsyncIterator[tuple[RunningServer, Client]]:
    """A server with one client."""
    async with serving(handle, **options) as running:
        yield running, await running.client()


def request(method: str = "GET", path: str = "/", body: bytes | None = None, *lines: str) -> bytes:
    """One request as bytes."""
    length = [] if body is None else [f"content-length: {len(body)}"]
    head = "\r\n".join([f"{method} {path} HTTP/1.1", "host: broker", *length, *lines, "", ""])
    return head.encode("latin-1") + (body or b"")


def echo(request: HttpRequest) -> HttpResponse:
    """Tells what it was asked."""
    told = f"{request.method} {request.path}?{request.query} ".encode()
    return HttpResponse(200, told + bytes(request.body), "text/plain")


class HeldHandler:
    """A handler whose answers are given by the test."""

    def __init__(self) -> None:
        self.open: list[tuple[HttpRequest, asyncio.Future[HttpResponse]]] = []

    def __call__(self, request: HttpRequest) -> asyncio.Future[HttpResponse]:
        future = asyncio.get_running_loop().create_future()
        self.open.append((request, future))
        return future

    async def asked(self, count: int) -> None:
        """Wait until so many requests have been handed over."""
        await until(lambda: len(self.open) >= count)

    def answer(self, place: int = 0, response: HttpResponse | None = None) -> None:
        self.open[place][1].set_result(response or echo(self.open[place][0]))
