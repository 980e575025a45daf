"""Connections that break, readers that lag, and a server that starts and stops."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from goqueue.api.http.connection import TRANSITIONS, ConnectionState
from goqueue.api.http.message import HttpRequest, HttpResponse
from goqueue.api.http.request_reader import HEAD
from goqueue.api.http.server import Server
from goqueue.api.http.server_state import HttpLimits
from goqueue.clock import SystemClock
from goqueue.errors import AddressUnavailable, BrokerOverloaded
from tests.api.http.serving import HeldHandler, Recorder, connected, echo, on_a_loop, request, serving, until

LARGE = b"x" * 20_000_000


def large(request: HttpRequest) -> HttpResponse:
    content = b"small" if request.path == "/small" else LARGE
    return HttpResponse(200, content, is_essential=request.path == "/essential")


# --- clients that leave ---


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("reset", [True, False], ids=["by a reset", "by closing"])
@on_a_loop
async def test_reading_request_is_cancelled_with_its_client(method: str, reset: bool) -> None:
    handler = HeldHandler()
    async with connected(handler) as (running, client):
        client.send(request(method, "/", b"body"))
        await until(lambda: handler.open)
        client.reset() if reset else client.writer.close()
        await until(lambda: running.server.connections == 0)
        assert handler.open[0][1].cancelled()
        assert running.server.held_bytes == 0
        assert running.seen.refusals == ["client_gone"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@on_a_loop
async def test_changing_request_completes_without_its_client(method: str) -> None:
    handler = HeldHandler()
    async with connected(handler) as (running, client):
        client.send(request(method, "/", b"body") + request(method, "/never", b"more"))
        await until(lambda: handler.open)
        client.reset()
        await until(lambda: running.server.connections == 0)
        assert running.server.held_bytes == len(b"body")
        handler.answer()
        await until(lambda: running.seen.refusals == ["client_gone"])
        assert running.server.held_bytes == 0
        assert len(handler.open) == 1
        assert running.faults == []


@on_a_loop
async def test_half_closed_connection_is_answered() -> None:
    handler = HeldHandler()
    async with connected(handler) as (running, client):
        client.send(request("POST", "/a", b"1") + request("POST", "/b", b"2") + b"POST /c")
        await until(lambda: handler.open)
        client.writer.write_eof()
        await until(lambda: running.connections()[0]._half_closed)
        handler.answer(0)
        await until(lambda: len(handler.open) == 2)
        handler.answer(1)
        assert [(await client.answer()).body for _ in range(2)] == [b"POST /a? 1", b"POST /b? 2"]
        assert await client.rest() == b""


@on_a_loop
async def test_a_client_that_leaves_in_the_middle_of_a_request_is_forgotten() -> None:
    async with serving(echo) as running:
        for part in (b"GE", request("POST", "/", b"body")[:-1]):
            client = await running.client()
            client.send(part)
            client.writer.write_eof()
            assert await client.rest() == b""
            await until(lambda: running.server.connections == 0)
        assert (running.seen.refusals, running.seen.answers) == ([], [])


# --- readers that lag ---


@on_a_loop
async def test_slow_reader_gets_no_more_answers_until_it_reads() -> None:
    async with serving(large) as running:
        client = await running.laggard()
        client.send(request("GET", "/large") + request("GET", "/small"))
        await until(lambda: running.connections() and not running.connections()[0]._writable)
        assert [path for path, *_ in running.seen.answers] == ["/large"]
        assert (await client.answer()).body == LARGE
        assert (await client.answer()).body == b"small"


@on_a_loop
async def test_client_that_does_not_read_is_aborted() -> None:
    async with serving(large, write_seconds=30) as running:
        client = await running.laggard()
        client.send(request("GET", "/large"))
        await until(lambda: running.connections() and not running.connections()[0]._writable)
        running.pass_time(29)
        assert running.server.connections == 1
        for _ in range(3):  # what the kernel takes at first is progress as well
            running.pass_time(30)
        await until(lambda: running.server.connections == 0)
        assert running.seen.refusals == ["reader_too_slow"]


@on_a_loop
async def test_a_reader_that_takes_enough_may_stay() -> None:
    async with serving(large, write_seconds=30) as running:
        client = await running.laggard()
        client.send(request("GET", "/large"))
        await until(lambda: running.connections() and not running.connections()[0]._writable)
        connection = running.connections()[0]
        for _ in range(3):
            unsent = connection._unsent_bytes
            while unsent - connection._transport.get_write_buffer_size() < 65536:
                await client.reader.readexactly(100_000)
            running.pass_time(30)
        assert running.server.connections == 1
        assert running.seen.refusals == []
        client.reset()


@on_a_loop
async def test_closing_connection_with_a_client_that_does_not_read_is_aborted() -> None:
    async with serving(large, write_seconds=30) as running:
        client = await running.laggard()
        client.send(request("GET", "/large", None, "connection: close"))
        await until(lambda: running.connections() and running.connections()[0]._state is ConnectionState.CLOSING)
        running.pass_time(30)
        await until(lambda: running.server.connections == 0)


# --- answers that wait for their readers ---


@on_a_loop
async def test_large_answer_is_refused_while_others_hold_all_that_they_may() -> None:
    async with serving(large, answers_bytes=50_000_000, answers_spare_bytes=25_000_000) as running:
        slow = [await running.laggard() for _ in range(2)]
        for number, client in enumerate(slow):
            client.send(request("GET", "/large"))
            await until(lambda: running.server.answer_bytes > (number + 1) * len(LARGE))  # noqa: B023
        fresh = await running.client()
        refused = await fresh.asks(request("GET", "/large"))
        assert (refused.status, refused.code, refused.headers["retry-after"]) == (503, "broker_overloaded", "1")
        assert (await fresh.asks(request("GET", "/small"))).body == b"small"
        assert (await fresh.asks(request("GET", "/essential"))).body == LARGE
        assert (await slow[0].answer()).body == LARGE
        assert (await fresh.asks(request("GET", "/large"))).body == LARGE
        assert len(LARGE) < running.server.answer_bytes < 2 * len(LARGE)


@on_a_loop
async def test_large_answers_are_refused_while_others_hold_most_memory() -> None:
    async with serving(large, answers_bytes=25_000_000) as running:
        running.server.check_answers()
        client = await running.laggard()
        client.send(request("GET", "/large"))
        await until(lambda: running.server.answer_bytes)
        with pytest.raises(BrokerOverloaded, match="at most 25,000,000 are allowed"):
            running.server.check_answers()
        await client.answer()
        running.server.check_answers()


@pytest.mark.parametrize("line", ["x: y", "connection: close"])
@on_a_loop
async def test_answer_is_not_counted_any_more_when_its_reader_is_cut_or_leaves(line: str) -> None:
    async with serving(large, write_seconds=30) as running:
        cut, leaves = [await running.laggard() for _ in range(2)]
        for client in (cut, leaves):
            client.send(request("GET", "/large", None, line))
        await until(lambda: running.server.answer_bytes > 2 * len(LARGE))
        leaves.reset()
        await until(lambda: running.server.answer_bytes < 2 * len(LARGE))
        for _ in range(4):  # what the kernel takes at first is progress as well
            running.pass_time(30)
        await until(lambda: running.server.answer_bytes == 0)


@on_a_loop
async def test_answer_is_counted_until_its_reader_has_taken_all_of_it() -> None:
    async with serving(large) as running:
        client = await running.laggard()
        client.send(request("GET", "/large"))
        await until(lambda: running.server.answer_bytes)
        await client.reader.readexactly(len(LARGE) // 2)
        assert running.server.answer_bytes > len(LARGE)
        assert len(await client.reader.readexactly(len(LARGE) // 2)) == len(LARGE) // 2
        await until(lambda: running.server.answer_bytes == 0)
        client.reset()


# --- the server ---


@on_a_loop
async def test_a_stop_closes_who_is_idle_and_answers_who_waits() -> None:
    handler = HeldHandler()
    async with serving(handler) as running:
        idle, waits = await running.client(), await running.client()
        waits.send(request("POST", "/a", b"1") + request("POST", "/b", b"2"))
        await until(lambda: handler.open and running.server.connections == 2)
        stop = asyncio.ensure_future(running.server.stop(30))
        assert await idle.rest() == b""
        with pytest.raises(ConnectionRefusedError):
            await running.client()
        handler.answer(0)
        await until(lambda: len(handler.open) == 2)
        handler.answer(1)
        first, last = await waits.answer(), await waits.answer()
        assert "connection" not in first.headers
        assert (last.body, last.headers["connection"]) == (b"POST /b? 2", "close")
        await stop
        assert running.server.connections == 0


@on_a_loop
async def test_a_request_that_is_still_coming_is_answered_before_the_stop() -> None:
    async with connected(echo) as (running, client):
        data = request("POST", "/", b"body")
        client.send(data[:-2])
        await until(lambda: running.server.held_bytes)
        stop = asyncio.ensure_future(running.server.stop(30))
        await until(lambda: running.server.stopping)
        client.send(data[-2:])
        answer = await client.answer()
        assert (answer.body, answer.headers["connection"]) == (b"POST /? body", "close")
        await stop


@on_a_loop
async def test_a_stop_does_not_wait_for_the_rest_of_a_head() -> None:
    async with connected(echo) as (running, client):
        client.send(b"GET /unfin")
        await until(lambda: any(connection._reader.phase is HEAD for connection in running.connections()))
        await running.server.stop(3600)
        assert await client.rest() == b""


@pytest.mark.parametrize("method", ["GET", "POST"])
@on_a_loop
async def test_a_stop_ends_what_takes_too_long(method: str) -> None:
    cancelled = asyncio.Event()
    begun = asyncio.Event()

    async def handle(_: HttpRequest) -> HttpResponse:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return HttpResponse(200)

    async with connected(handle) as (running, client):
        client.send(request(method))
        await begun.wait()
        await running.server.stop(0)
        assert cancelled.is_set()
        assert running.server.connections == 0
        assert await client.rest() == b""


@on_a_loop
async def test_the_sweep_comes_round_by_itself() -> None:
    async with connected(echo, idle_seconds=75) as (running, client):
        await until(lambda: running.server.connections)
        running.clock.advance(75)
        assert await client.rest() == b""


def server() -> Server:
    return Server(echo, limits=HttpLimits(), observer=Recorder(), clock=SystemClock())


@on_a_loop
async def test_a_server_that_never_started_stops() -> None:
    await server().stop(0)


@on_a_loop
async def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(AddressUnavailable, match=f"port {port}: another process is listening there") as raised:
            await server().start("127.0.0.1", port)
        assert raised.value.hint == "stop that process, or choose another port with `--port`"


@pytest.mark.parametrize(
    ("host", "port", "reason"),
    [
        ("192.0.2.1", 0, "the host is not an address of this machine"),
        ("unknown.invalid", 0, "the host cannot be resolved"),
        ("a" * 70, 0, "the host cannot be resolved"),
        ("127.0.0.1", 70_000, "the port is out of range"),
    ],
)
@on_a_loop
async def test_an_address_that_cannot_be_had_is_explained(host: str, port: int, reason: str) -> None:
    with pytest.raises(AddressUnavailable, match=reason) as raised:
        await server().start(host, port)
    assert raised.value.hint


@on_a_loop
async def test_it_speaks_tls() -> None:
    certificate = Path(__file__).parent / "loopback.pem"
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(certificate)
    theirs = ssl.create_default_context(cafile=certificate)
    handler = HeldHandler()
    async with serving(handler, tls=ours) as running:
        client = await running.client(ssl=theirs)
        client.send(request("POST", "/", LARGE))
        await until(lambda: handler.open)
        handler.answer(0, HttpResponse(200, [memoryview(LARGE), b"end"]))
        assert (await client.answer()).body == LARGE + b"end"
        client.send(request())
        await until(lambda: len(handler.open) == 2)
        client.writer.close()
        await until(lambda: running.server.connections == 0)
        assert handler.open[1][1].cancelled()
        refused = await running.client(ssl=theirs)
        assert (await refused.asks(b"rubbish\r\n\r\n")).status == 400


def test_every_state_of_a_connection_leads_to_its_end() -> None:
    assert set(TRANSITIONS) == set(ConnectionState)
    assert all(
        ConnectionState.CLOSED in after for state, after in TRANSITIONS.items() if state is not ConnectionState.CLOSED
    )
    assert not TRANSITIONS[ConnectionState.CLOSED]
