"""Connections that break, readers that lag, and a server that starts and stops."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from goqueue.api.http.connection import LIFE, State
from goqueue.api.http.intake import HEAD
from goqueue.api.http.limits import HttpLimits
from goqueue.api.http.message import Request, Response
from goqueue.api.http.server import Server
from goqueue.clock import SystemClock
from goqueue.errors import AddressUnavailable, BrokerOverloaded
from tests.api.http.serving import Clerk, Recorder, echo, on_a_loop, request, serving, until

LARGE = b"x" * 20_000_000
LAGGARD = {"limit": 1024}
"""A client that takes little as long as it does not read."""


def large(request: Request) -> Response:
    content = b"small" if request.path == "/small" else LARGE
    return Response(200, content, is_essential=request.path == "/essential")


# --- clients that leave ---


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("reset", [True, False], ids=["by a reset", "by closing"])
@on_a_loop
async def test_what_only_reads_ends_with_its_client(method: str, reset: bool) -> None:
    clerk = Clerk()
    async with serving(clerk) as house:
        client = await house.client()
        client.send(request(method, "/", b"body"))
        await until(lambda: clerk.open)
        client.reset() if reset else client.writer.close()
        await until(lambda: house.server.connections == 0)
        assert clerk.open[0][1].cancelled()
        assert house.server.held_bytes == 0
        assert house.seen.refusals == ["client_gone"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@on_a_loop
async def test_what_changes_something_is_carried_through_without_its_client(method: str) -> None:
    clerk = Clerk()
    async with serving(clerk) as house:
        client = await house.client()
        client.send(request(method, "/", b"body") + request(method, "/never", b"more"))
        await until(lambda: clerk.open)
        client.reset()
        await until(lambda: house.server.connections == 0)
        assert house.server.held_bytes == len(b"body")
        clerk.answer()
        await until(lambda: house.seen.refusals == ["client_gone"])
        assert house.server.held_bytes == 0
        assert len(clerk.open) == 1
        assert house.faults == []


@on_a_loop
async def test_a_client_that_has_said_all_is_still_answered() -> None:
    clerk = Clerk()
    async with serving(clerk) as house:
        client = await house.client()
        client.send(request("POST", "/a", b"1") + request("POST", "/b", b"2") + b"POST /c")
        await until(lambda: clerk.open)
        client.writer.write_eof()
        await until(lambda: house.guests()[0]._half_closed)
        clerk.answer(0)
        await until(lambda: len(clerk.open) == 2)
        clerk.answer(1)
        assert [(await client.answer()).body for _ in range(2)] == [b"POST /a? 1", b"POST /b? 2"]
        assert await client.rest() == b""


@on_a_loop
async def test_a_client_that_leaves_in_the_middle_of_a_request_is_forgotten() -> None:
    async with serving(echo) as house:
        for part in (b"GE", request("POST", "/", b"body")[:-1]):
            client = await house.client()
            client.send(part)
            client.writer.write_eof()
            assert await client.rest() == b""
            await until(lambda: house.server.connections == 0)
        assert (house.seen.refusals, house.seen.answers) == ([], [])


# --- readers that lag ---


@on_a_loop
async def test_nothing_more_is_answered_until_a_slow_reader_has_caught_up() -> None:
    async with serving(large) as house:
        client = await house.client(**LAGGARD)
        client.send(request("GET", "/large") + request("GET", "/small"))
        await until(lambda: house.guests() and not house.guests()[0]._writable)
        assert [path for path, *_ in house.seen.answers] == ["/large"]
        assert (await client.answer()).body == LARGE
        assert (await client.answer()).body == b"small"


@on_a_loop
async def test_a_reader_that_takes_nothing_is_cut() -> None:
    async with serving(large, write_seconds=30) as house:
        client = await house.client(**LAGGARD)
        client.send(request("GET", "/large"))
        await until(lambda: house.guests() and not house.guests()[0]._writable)
        house.pass_time(29)
        assert house.server.connections == 1
        for _ in range(3):  # what the kernel takes at first is progress as well
            house.pass_time(30)
        await until(lambda: house.server.connections == 0)
        assert house.seen.refusals == ["reader_too_slow"]


@on_a_loop
async def test_a_reader_that_takes_enough_may_stay() -> None:
    async with serving(large, write_seconds=30) as house:
        client = await house.client(**LAGGARD)
        client.send(request("GET", "/large"))
        await until(lambda: house.guests() and not house.guests()[0]._writable)
        guest = house.guests()[0]
        for _ in range(3):
            unsent = guest._unsent_bytes
            while unsent - guest._transport.get_write_buffer_size() < 65536:
                await client.reader.readexactly(100_000)
            house.pass_time(30)
        assert house.server.connections == 1
        assert house.seen.refusals == []
        client.reset()


@on_a_loop
async def test_a_closing_connection_whose_client_takes_nothing_is_cut() -> None:
    async with serving(large, write_seconds=30) as house:
        client = await house.client(**LAGGARD)
        client.send(request("GET", "/large", None, "connection: close"))
        await until(lambda: house.guests() and house.guests()[0]._state is State.CLOSING)
        house.pass_time(30)
        await until(lambda: house.server.connections == 0)


# --- answers that wait for their readers ---


@on_a_loop
async def test_large_answer_is_refused_while_others_hold_all_that_they_may() -> None:
    async with serving(large, answers_bytes=50_000_000, answers_spare_bytes=25_000_000) as house:
        slow = [await house.client(**LAGGARD) for _ in range(2)]
        for number, client in enumerate(slow):
            client.send(request("GET", "/large"))
            await until(lambda: house.server.answer_bytes > (number + 1) * len(LARGE))  # noqa: B023
        fresh = await house.client()
        refused = await fresh.asks(request("GET", "/large"))
        assert (refused.status, refused.code, refused.headers["retry-after"]) == (503, "broker_overloaded", "1")
        assert (await fresh.asks(request("GET", "/small"))).body == b"small"
        assert (await fresh.asks(request("GET", "/essential"))).body == LARGE
        assert (await slow[0].answer()).body == LARGE
        assert (await fresh.asks(request("GET", "/large"))).body == LARGE
        assert len(LARGE) < house.server.answer_bytes < 2 * len(LARGE)


@on_a_loop
async def test_nothing_large_is_begun_while_answers_hold_most_of_what_they_may() -> None:
    async with serving(large, answers_bytes=25_000_000) as house:
        house.server.check_answers()
        client = await house.client(**LAGGARD)
        client.send(request("GET", "/large"))
        await until(lambda: house.server.answer_bytes)
        with pytest.raises(BrokerOverloaded, match="of 25,000,000 that they may"):
            house.server.check_answers()
        await client.answer()
        house.server.check_answers()


@pytest.mark.parametrize("line", ["x: y", "connection: close"])
@on_a_loop
async def test_answer_is_not_counted_any_more_when_its_reader_is_cut_or_leaves(line: str) -> None:
    async with serving(large, write_seconds=30) as house:
        cut, leaves = [await house.client(**LAGGARD) for _ in range(2)]
        for client in (cut, leaves):
            client.send(request("GET", "/large", None, line))
        await until(lambda: house.server.answer_bytes > 2 * len(LARGE))
        leaves.reset()
        await until(lambda: house.server.answer_bytes < 2 * len(LARGE))
        for _ in range(4):  # what the kernel takes at first is progress as well
            house.pass_time(30)
        await until(lambda: house.server.answer_bytes == 0)


@on_a_loop
async def test_answer_is_counted_until_its_reader_has_taken_all_of_it() -> None:
    async with serving(large) as house:
        client = await house.client(**LAGGARD)
        client.send(request("GET", "/large"))
        await until(lambda: house.server.answer_bytes)
        await client.reader.readexactly(len(LARGE) // 2)
        assert house.server.answer_bytes > len(LARGE)
        assert len(await client.reader.readexactly(len(LARGE) // 2)) == len(LARGE) // 2
        await until(lambda: house.server.answer_bytes == 0)
        client.reset()


# --- the server ---


@on_a_loop
async def test_a_stop_closes_who_is_idle_and_answers_who_waits() -> None:
    clerk = Clerk()
    async with serving(clerk) as house:
        idle, waits = await house.client(), await house.client()
        waits.send(request("POST", "/a", b"1") + request("POST", "/b", b"2"))
        await until(lambda: clerk.open and house.server.connections == 2)
        stop = asyncio.ensure_future(house.server.stop(30))
        assert await idle.rest() == b""
        with pytest.raises(ConnectionRefusedError):
            await house.client()
        clerk.answer(0)
        await until(lambda: len(clerk.open) == 2)
        clerk.answer(1)
        first, last = await waits.answer(), await waits.answer()
        assert "connection" not in first.headers
        assert (last.body, last.headers["connection"]) == (b"POST /b? 2", "close")
        await stop
        assert house.server.connections == 0


@on_a_loop
async def test_a_request_that_is_still_coming_is_answered_before_the_stop() -> None:
    async with serving(echo) as house:
        client = await house.client()
        data = request("POST", "/", b"body")
        client.send(data[:-2])
        await until(lambda: house.server.held_bytes)
        stop = asyncio.ensure_future(house.server.stop(30))
        await until(lambda: house.server._desk.stopping)
        client.send(data[-2:])
        answer = await client.answer()
        assert (answer.body, answer.headers["connection"]) == (b"POST /? body", "close")
        await stop


@on_a_loop
async def test_a_stop_does_not_wait_for_the_rest_of_a_head() -> None:
    async with serving(echo) as house:
        client = await house.client()
        client.send(b"GET /heal")
        await until(lambda: any(guest._intake.phase is HEAD for guest in house.guests()))
        await house.server.stop(3600)
        assert await client.rest() == b""


@pytest.mark.parametrize("method", ["GET", "POST"])
@on_a_loop
async def test_a_stop_ends_what_takes_too_long(method: str) -> None:
    cancelled = asyncio.Event()
    begun = asyncio.Event()

    async def handle(_: Request) -> Response:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return Response(200)

    async with serving(handle) as house:
        client = await house.client()
        client.send(request(method))
        await begun.wait()
        await house.server.stop(0)
        assert cancelled.is_set()
        assert house.server.connections == 0
        assert await client.rest() == b""


@on_a_loop
async def test_the_sweep_comes_round_by_itself() -> None:
    async with serving(echo, idle_seconds=75) as house:
        client = await house.client()
        await until(lambda: house.server.connections)
        house.clock.advance(75)
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
        with pytest.raises(AddressUnavailable, match=f"'127.0.0.1' port {port}: somebody listens there") as raised:
            await server().start("127.0.0.1", port)
        assert raised.value.hint == "stop the other program, or choose another port"


@pytest.mark.parametrize(
    ("host", "port", "reason"),
    [
        ("192.0.2.1", 0, "the host is not an address of this machine"),
        ("nobody.invalid", 0, "the host cannot be resolved"),
        ("a" * 70, 0, "the host cannot be resolved"),
        ("127.0.0.1", 70_000, "there is no such port"),
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
    clerk = Clerk()
    async with serving(clerk, tls=ours) as house:
        client = await house.client(ssl=theirs)
        client.send(request("POST", "/", LARGE))
        await until(lambda: clerk.open)
        clerk.answer(0, Response(200, [memoryview(LARGE), b"end"]))
        assert (await client.answer()).body == LARGE + b"end"
        client.send(request())
        await until(lambda: len(clerk.open) == 2)
        client.writer.close()
        await until(lambda: house.server.connections == 0)
        assert clerk.open[1][1].cancelled()
        refused = await house.client(ssl=theirs)
        assert (await refused.asks(b"rubbish\r\n\r\n")).status == 400


def test_every_state_of_a_connection_leads_to_its_end() -> None:
    assert set(LIFE) == set(State)
    assert all(State.CLOSED in after for state, after in LIFE.items() if state is not State.CLOSED)
    assert not LIFE[State.CLOSED]
