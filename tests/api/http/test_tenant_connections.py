"""The memory and the reading of large requests and answers, bounded for each tenant."""

import socket

from goqueue.api.http.message import HttpRequest, HttpResponse
from goqueue.limits import HTTP_SLICE_BYTES, TENANT_PIPELINED, TENANT_WINDOW_BYTES
from tests.api.http.serving import HeldHandler, Tenants, echo, on_a_loop, request, serving, until

LARGE = bytes(80_000)
ANSWER = bytes(6_000_000)
"""More than the kernel takes for a client that does not read."""


def chunked(tenant: str, *chunks: bytes) -> bytes:
    head = f"POST / HTTP/1.1\r\nhost: broker\r\nx-tenant: {tenant}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in chunks)


@on_a_loop
async def test_body_beyond_the_memory_of_its_tenant_is_refused_before_it_is_sent() -> None:
    handler, tenants = HeldHandler(), Tenants(100_000)
    async with serving(handler, tenants=tenants) as running:
        first, second, third, small = [await running.client() for _ in range(4)]
        first.send(request("POST", "/", LARGE, "x-tenant: a")[:-1])
        await until(lambda: tenants.held_bytes == len(LARGE))
        refused = await second.asks(request("POST", "/", LARGE, "x-tenant: a")[: -len(LARGE)])
        assert (refused.status, refused.code) == (503, "broker_overloaded")
        assert refused.headers["retry-after"] == "1"
        assert b"tenant" in refused.body
        assert tenants.shares["a"].memory.refusals == 1
        third.send(request("POST", "/other", LARGE, "x-tenant: b"))
        small.send(request("POST", "/small", b"little", "x-tenant: a"))
        await handler.asked(2)
        handler.answer(0)
        handler.answer(1)
        assert {(await one.answer()).status for one in (third, small)} == {200}
        first.send(LARGE[-1:])
        await handler.asked(3)
        assert tenants.shares["a"].memory.held_bytes == len(LARGE), "until it is answered"
        handler.answer(2)
        assert (await first.answer()).status == 200
        assert tenants.held_bytes == 0
        first.send(request("POST", "/", bytes(150_000), "x-tenant: a"))
        await handler.asked(4)
        handler.answer(3)
        assert (await first.answer()).status == 200, "one alone always fits"


@on_a_loop
async def test_chunks_beyond_the_memory_of_their_tenant_are_refused() -> None:
    tenants = Tenants(100_000)
    async with serving(echo, tenants=tenants) as running:
        alone, other = [await running.client() for _ in range(2)]
        alone.send(chunked("a", LARGE, LARGE))
        await until(lambda: tenants.held_bytes == 2 * len(LARGE))
        refused = await other.asks(chunked("a", bytes(20_000)))
        assert (refused.status, refused.code) == (503, "broker_overloaded")
        alone.send(b"0\r\n\r\n")
        assert len((await alone.answer()).body) > 2 * len(LARGE)


@on_a_loop
async def test_answers_that_a_tenant_does_not_take_are_refused_to_it_alone() -> None:
    def handle(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, ANSWER if request.path == "/large" else b"small")

    tenants = Tenants(10_000_000)
    async with serving(handle, tenants=tenants) as running:
        slow, again, other = await running.laggard(), await running.client(), await running.client(limit=2**24)
        slow.send(request("GET", "/large", None, "x-tenant: a"))
        await until(lambda: tenants.held_bytes > 0)
        refused = await again.asks(request("GET", "/large", None, "x-tenant: a"))
        assert (refused.status, refused.code) == (503, "broker_overloaded")
        assert (await again.asks(request("GET", "/", None, "x-tenant: a"))).status == 200
        assert (await other.asks(request("GET", "/large", None, "x-tenant: b"))).status == 200
        assert len((await slow.answer()).body) == len(ANSWER)
        await until(lambda: tenants.held_bytes == 0)


@on_a_loop
async def test_large_bodies_are_read_in_turns_whole_and_in_their_order() -> None:
    tenants = Tenants(100_000_000)
    body = bytes(range(256)) * 8_000
    async with serving(echo, tenants=tenants, body_bytes=3_000_000) as running:
        clients = [await running.client(limit=2**24) for _ in range(4)]
        for number, client in enumerate(clients):
            name = "ab"[number % 2]
            client.send(request("POST", "/1", body, f"x-tenant: {name}") + request("POST", "/2", b"2"))
        for client in clients:
            first, second = await client.answer(), await client.answer()
            assert first.body == b"POST /1? " + body
            assert second.body == b"POST /2? 2"
        charged = [share.turn.queue.charged for share in tenants.shares.values()]
        assert min(charged) > 0, "who sends much pays for it"
        gone = clients.pop()
        gone.send(request("POST", "/", body, "x-tenant: b")[:-1])
        await until(lambda: tenants.held_bytes > 0)
        gone.reset()
        await until(lambda: tenants.held_bytes == 0)


@on_a_loop
async def test_client_that_waits_for_no_answers_is_read_no_faster_than_it_is_answered() -> None:
    handler, tenants, count = HeldHandler(), Tenants(100_000), 300
    async with serving(handler, tenants=tenants) as running:
        client = await running.client()
        client.send(b"".join(request("POST", f"/{number}", b"x" * number, "x-tenant: a") for number in range(count)))
        await until(lambda: running.connections() and running.connections()[0]._paused)
        connection = running.connections()[0]
        assert len(connection._reader.requests) < TENANT_PIPELINED + HTTP_SLICE_BYTES // len(request("POST", "/", b""))
        kept = connection._transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        assert kept == 2 * TENANT_WINDOW_BYTES, "the client feels it; the kernel counts its own notes as well"
        for number in range(count):
            await handler.asked(number + 1)
            handler.answer(number)
            assert (await client.answer()).body == f"POST /{number}? ".encode() + b"x" * number
        assert not connection._paused
