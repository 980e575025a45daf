"""Random lives of connections: whatever clients do, all that was counted is given back at the end."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from goqueue.api.http.message import HttpRequest, HttpResponse
from tests.api.http.serving import HOST, Client, RunningServer, Tenants, on_a_loop, request, serving, until

LARGE = bytes(6_000_000)
"""More than the kernel takes for a client that does not read."""
LIMITS: dict[str, Any] = {
    "body_bytes": 60_000, "bodies_bytes": 150_000, "answers_bytes": 13_000_000, "answers_spare_bytes": 7_000_000,
    "header_bytes": 2_000, "pipelined": 3, "drain_bytes": 50_000, "connections": 12, "connections_spare": 3,
}  # fmt: skip


class Moods:
    """A handler that answers at once, later, never, much, or by failing."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.open: list[asyncio.Future[HttpResponse]] = []

    def __call__(self, request: HttpRequest) -> HttpResponse | asyncio.Future[HttpResponse]:
        mood = self._random.choice(("now", "now", "large", "essential", "later", "later", "failure"))
        if self._random.random() < 0.2:
            request.body.clear()
        if mood == "failure":
            raise RuntimeError("as planned")
        if mood == "later":
            self.open.append(asyncio.get_running_loop().create_future())
            return self.open[-1]
        return HttpResponse(200, b"small" if mood == "now" else LARGE, is_essential=mood == "essential")

    def settle(self) -> None:
        """End one of those that were to be answered later."""
        if self.open:
            future = self.open.pop(self._random.randrange(len(self.open)))
            if not future.done():
                outcome = self._random.choice(
                    (HttpResponse(200, b"late"), HttpResponse(200, LARGE), RuntimeError("as planned"))
                )
                future.set_exception(outcome) if isinstance(outcome, Exception) else future.set_result(outcome)


def words(random: Random) -> bytes:
    """Something that a client may say, and perhaps not to its end."""
    method = random.choice(("GET", "POST", "HEAD", "DELETE"))
    body = bytes(random.choice((0, 1, 500, 5_000, 59_000, 61_000)))
    lines = random.choice(
        ((), ("connection: close",), ("expect: 100-continue",), ("upgrade: h2c", "connection: upgrade"))
    ) + random.choice(((), ("x-tenant: a",), ("x-tenant: b",)))
    chunk = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
    chunked = f"{method} / HTTP/1.1\r\n".encode() + HOST + b"x-tenant: a\r\ntransfer-encoding: chunked\r\n\r\n"
    said = random.choice(
        (
            request(method, "/", body, *lines),
            request(method, "/", body, *lines) * random.randint(2, 6),
            chunked + chunk * random.randint(0, 4) + b"0\r\n\r\n",
            chunked + chunk * random.randint(0, 4) + b"wrong\r\n",
            b"rubbish\r\n\r\n",
        )
    )
    return said if random.random() < 0.6 else said[: random.randrange(len(said))]


async def act(random: Random, running: RunningServer, moods: Moods, clients: list[Client]) -> None:
    """One step of one of them, or of the server."""
    deed = random.choice(
        ("come", "come", "say", "say", "say", "read", "leave", "reset", "end", "settle", "settle", "wait")
    )
    if deed == "come" or not clients:
        with suppress(OSError):
            clients.append(await running.client(limit=1024))
        return
    client = random.choice(clients)
    if deed == "say":
        with suppress(RuntimeError):  # the server was first to close
            client.send(words(random))
    elif deed == "read":
        with suppress(OSError):
            async with asyncio.timeout(0):
                await client.reader.read(1_000_000)
    elif deed == "end":
        with suppress(OSError, RuntimeError):
            client.writer.write_eof()
    elif deed == "settle":
        moods.settle()
    elif deed == "wait":
        running.pass_time(random.choice((0.1, 6, 31)))
    else:
        clients.remove(client)
        client.reset() if deed == "reset" else client.writer.close()
    turns = iter(range(random.randrange(4)))
    await until(lambda: next(turns, None) is None)


@pytest.mark.parametrize("seed", range(12))
@on_a_loop
async def test_totals_return_to_zero_after_random_connections(seed: int) -> None:
    random = Random(seed)
    moods = Moods(random)
    tenants = Tenants(150_000) if seed % 2 else None
    async with serving(moods, tenants=tenants, **LIMITS) as running:
        clients: list[Client] = []
        for _ in range(250):
            await act(random, running, moods, clients)
            server = running.server
            assert 0 <= server.held_bytes <= 150_000 + 70_000
            assert 0 <= server.answer_bytes <= 20_000_000
        while clients:
            clients.pop().reset()

        def is_over() -> bool:
            moods.settle()  # what came just before a reset may still have to be answered
            left = 0 if tenants is None else tenants.held_bytes
            return server.connections == server.held_bytes == server.answer_bytes == left == 0

        await until(is_over)
