"""Clients that request too much, take too long or do not send HTTP."""

import pytest

from goqueue.api.http.connection import NEVER_NS
from goqueue.api.http.message import HttpRequest, HttpResponse
from goqueue.api.http.request_reader import ReadPhase
from tests.api.http.serving import (
    HOST,
    Client,
    HeldHandler,
    RunningServer,
    connected,
    echo,
    on_a_loop,
    request,
    serving,
    until,
)

CHUNKED = b"POST / HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n"


async def refused(client: Client, status: int, code: str) -> dict[str, str]:
    """The next answer is this refusal, and the last; its headers."""
    answer = await client.answer()
    assert (answer.status, answer.code) == (status, code)
    assert answer.headers["connection"] == "close"
    assert answer.headers["x-request-id"]
    assert await client.rest() == b""
    return answer.headers


async def reached(running: RunningServer, phase: ReadPhase) -> None:
    await until(lambda: any(connection._reader.phase is phase for connection in running.connections()))


MALFORMED = {
    "no HTTP": b"hello, is this HTTP?\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a version from the future": b"GET / HTTP/2.0\r\n" + HOST + b"\r\n",
    "a version from the past": b"GET / HTTP/0.9\r\n" + HOST + b"\r\n",
    "an unknown method": b"FETCH / HTTP/1.1\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
    "a path without a slash": b"GET a HTTP/1.1\r\n" + HOST + b"\r\n",
    "a star": b"GET * HTTP/1.1\r\n" + HOST + b"\r\n",
    "CONNECT": b"CONNECT example.org:443 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a space before the colon": b"GET / HTTP/1.1\r\nhost : a\r\n\r\n",
    "a folded header": b"GET / HTTP/1.1\r\n" + HOST + b"x: a\r\n b\r\n\r\n",
    "a bare line feed": b"GET / HTTP/1.1\n" + HOST + b"\n",
    "a zero byte": b"GET / HTTP/1.1\r\nhost: a\0b\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\n" + HOST + b"content-length: 1\r\ncontent-length: 1\r\n\r\na",
    "a negative length": b"POST / HTTP/1.1\r\n" + HOST + b"content-length: -1\r\n\r\n",
    "an endless length": b"POST / HTTP/1.1\r\n" + HOST + b"content-length: 99999999999999999999\r\n\r\n",
    "length and chunks": b"POST / HTTP/1.1\r\n" + HOST + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
    "an unknown coding": b"POST / HTTP/1.1\r\n" + HOST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk without a size": CHUNKED + b"z\r\n",
    "a chunk longer than it says": CHUNKED + b"1\r\nab\r\n",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
@on_a_loop
async def test_malformed_request_is_refused_and_the_server_goes_on(data: bytes) -> None:
    async with connected(echo) as (running, client):
        client.send(data)
        await refused(client, 400, "request_invalid")
        assert running.seen.refusals == ["request_invalid"]
        assert (await (await running.client()).asks(request())).status == 200


@on_a_loop
async def test_a_refusal_comes_behind_the_answers_to_what_came_before() -> None:
    handler = HeldHandler()
    async with connected(handler) as (_, client):
        client.send(request("POST", "/a", b"1") + request("POST", "/b", b"2") + b"rubbish\r\n\r\n" + request())
        for number, body in enumerate((b"POST /a? 1", b"POST /b? 2")):
            await handler.asked(number + 1)
            handler.answer(number)
            assert (await client.answer()).body == body
        await refused(client, 400, "request_invalid")


# --- too much ---


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(request("GET", "/" + "x" * 300), id="a long URL"),
        pytest.param(b"GET /" + b"x" * 300, id="a URL without end"),
        pytest.param(request("GET", "/", None, *(f"x-{number}: 1" for number in range(10))), id="many headers"),
        pytest.param(request("GET", "/", None, *("x: 1" for _ in range(10))), id="a header many times"),
        pytest.param(request("GET", "/", None, "x: " + "y" * 2000), id="a long header"),
        pytest.param(b"GET / HTTP/1.1\r\nx: " + b"y" * 20_000, id="a header without end"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"y" * 20_000, id="a name without end"),
        pytest.param(CHUNKED + b"1;" + b"x" * 20_000, id="a chunk's extension without end"),
        pytest.param(CHUNKED + b"0\r\nx: " + b"y" * 20_000, id="a trailer without end"),
        pytest.param(b"\r\n" * 10_000, id="blank lines without end"),
        pytest.param(request("POST", "/", b"x" * 1001), id="a large body"),
        pytest.param(CHUNKED + b"3E9\r\n" + b"x" * 1001, id="large chunks"),
    ],
)
@on_a_loop
async def test_too_large_requests_are_refused(data: bytes) -> None:
    async with connected(echo, url_bytes=200, header_count=8, header_bytes=1000, body_bytes=1000) as (running, client):
        client.send(data)
        await refused(client, 413, "request_too_large")
        assert running.seen.answers == []


@on_a_loop
async def test_request_at_the_limits_is_served() -> None:
    async with connected(echo, url_bytes=200, header_count=8, header_bytes=1000, body_bytes=1000) as (_, client):
        lines = [f"x-{number}: {'y' * 100}" for number in range(6)]
        assert (await client.asks(request("POST", "/" + "x" * 199, b"x" * 1000, *lines))).status == 200
        assert (await client.asks(CHUNKED + b"3E8\r\n" + b"x" * 1000 + b"\r\n0\r\n\r\n")).status == 200


@on_a_loop
async def test_a_head_that_grows_slowly_is_counted_as_well() -> None:
    async with connected(echo, header_bytes=1000) as (running, client):
        client.send(b"GET / HTTP/1.1\r\nx: ")
        await reached(running, ReadPhase.HEAD)
        connection = running.connections()[0]
        for _ in range(11):
            before = connection._reader._gathered_bytes
            client.send(b"y" * 100)
            await until(lambda: connection._reader._gathered_bytes != before)  # noqa: B023 - it waits within the turn
        await refused(client, 413, "request_too_large")


@on_a_loop
async def test_an_announced_body_that_is_too_large_is_not_asked_for() -> None:
    async with connected(echo, body_bytes=1000) as (_, client):
        lines = b"content-length: 1001\r\nexpect: 100-continue\r\nx-request-id: mine\r\n\r\n"
        client.send(b"POST / HTTP/1.1\r\n" + HOST + lines)
        headers = await refused(client, 413, "request_too_large")
        assert headers["x-request-id"] == "mine"


@on_a_loop
async def test_a_client_that_sends_all_before_it_reads_sees_the_refusal() -> None:
    async with connected(echo, body_bytes=1000) as (_, client):
        client.send(request("POST", "/", b"x" * 8_000_000))
        await client.writer.drain()
        await refused(client, 413, "request_too_large")


@on_a_loop
async def test_bytes_after_a_refusal_are_discarded_up_to_a_limit() -> None:
    async with connected(echo, body_bytes=1000, drain_bytes=100_000) as (running, client):
        client.send(request("POST", "/", b"x" * 50_000_000))
        await until(lambda: running.server.connections == 0)


@on_a_loop
async def test_a_refused_client_that_stays_is_let_go() -> None:
    async with connected(echo, drain_seconds=5) as (running, client):
        client.send(b"rubbish\r\n\r\n")
        await client.answer()
        running.pass_time(4)
        assert running.server.connections == 1
        running.pass_time(1)
        await until(lambda: running.server.connections == 0)


@on_a_loop
async def test_a_refused_head_request_gets_no_body() -> None:
    async with connected(echo, body_bytes=10) as (_, client):
        client.send(request("HEAD", "/", b"x" * 11))
        assert (await client.answer(of_head=True)).status == 413
        assert await client.rest() == b""


# --- too slow ---


@on_a_loop
async def test_headers_have_their_time_from_the_first_byte() -> None:
    async with connected(echo, header_seconds=10) as (running, client):
        client.send(b"G")
        await reached(running, ReadPhase.HEAD)
        running.pass_time(9)
        client.send(b"ET / HTTP/1.1\r\n")
        await until(lambda: running.connections()[0]._reader._gathered_bytes)
        running.pass_time(1)
        await refused(client, 408, "request_timed_out")


@on_a_loop
async def test_a_body_that_stops_is_refused() -> None:
    async with connected(echo, body_seconds=30) as (running, client):
        client.send(request("POST", "/", b"x" * 1000)[:-1])
        await reached(running, ReadPhase.BODY)
        running.pass_time(29)
        assert running.seen.refusals == []
        running.pass_time(1)
        await refused(client, 408, "request_timed_out")


@on_a_loop
async def test_a_body_that_drips_is_refused_and_one_that_keeps_its_pace_is_not() -> None:
    async with serving(echo, body_seconds=30, body_step_bytes=100) as running:
        drips, keeps = await running.client(), await running.client()
        head = b"POST / HTTP/1.1\r\n" + HOST + b"content-length: 500\r\n\r\n"
        for client in (drips, keeps):
            client.send(head)
        total = 0
        await until(
            lambda: (
                [connection._reader.phase for connection in running.connections()] == [ReadPhase.BODY, ReadPhase.BODY]
            )
        )
        for _ in range(3):
            drips.send(b"x" * 30)
            keeps.send(b"x" * 100)
            total += 130
            await until(lambda: running.server.held_bytes == total)  # noqa: B023 - it waits within the turn
            running.pass_time(9.9)
        running.pass_time(0.3)
        await refused(drips, 408, "request_timed_out")
        keeps.send(b"x" * 200)
        assert (await keeps.answer()).status == 200


@on_a_loop
async def test_an_idle_connection_is_closed_without_a_word() -> None:
    async with serving(echo, idle_seconds=75) as running:
        fresh, used = await running.client(), await running.client()
        await used.asks(request())
        await until(lambda: running.server.connections == 2)
        running.pass_time(74)
        await used.asks(request())
        running.pass_time(1)
        assert await fresh.rest() == b""
        assert running.server.connections == 1
        running.pass_time(74)
        assert await used.rest() == b""
        assert running.seen.refusals == []


@on_a_loop
async def test_time_in_which_the_server_stood_still_is_not_the_clients() -> None:
    async with serving(echo, header_seconds=10, idle_seconds=75) as running:
        idle, slow = await running.client(), await running.client()
        await idle.asks(request())
        slow.send(request()[:10])
        await until(
            lambda: len(running.connections()) == 2 and all(one.deadline_ns < NEVER_NS for one in running.connections())
        )
        running.clock.advance(100)
        running.server.sweep(late_seconds=100)
        assert (await idle.asks(request())).status == 200
        slow.send(request()[10:])
        assert (await slow.answer()).status == 200


@on_a_loop
async def test_an_answer_may_take_any_time() -> None:
    handler = HeldHandler()
    async with connected(handler) as (running, client):
        client.send(request())
        await until(lambda: handler.open)
        running.pass_time(100_000)
        handler.answer()
        assert (await client.answer()).status == 200


@on_a_loop
async def test_time_in_which_the_server_does_not_listen_is_not_the_clients() -> None:
    handler = HeldHandler()
    async with connected(handler, pipelined=2) as (running, client):
        whole = request("POST", "/", b"x")
        client.send(whole * 4 + whole[:10])
        await until(lambda: running.connections() and running.connections()[0]._paused)
        running.pass_time(100)
        for number in range(4):
            await handler.asked(number + 1)
            handler.answer(number)
            assert (await client.answer()).status == 200
        running.pass_time(9)
        client.send(whole[10:])
        await until(lambda: len(handler.open) == 5)
        handler.answer(4)
        assert (await client.answer()).status == 200


# --- too many ---


@on_a_loop
async def test_connections_above_the_limit_are_refused_and_far_above_it_aborted() -> None:
    async with serving(echo, connections=2, connections_spare=1) as running:
        served = [await running.client() for _ in range(2)]
        for client in served:
            assert (await client.asks(request())).status == 200
        told = await running.client()
        answer = await told.answer()
        assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "broker_overloaded", "1")
        cut = await running.client()
        assert await cut.rest() == b""
        seen = running.seen
        assert (seen.opened, seen.closed, seen.refusals) == (2, 0, ["broker_overloaded", "broker_overloaded"])
        assert (await served[0].asks(request())).status == 200
        await told.close()
        await served[1].close()
        await until(lambda: running.server.connections == 1)
        assert (seen.opened, seen.closed) == (2, 1)
        assert (await (await running.client()).asks(request())).status == 200


@on_a_loop
async def test_bodies_beyond_the_limit_of_all_are_refused_before_they_come() -> None:
    handler = HeldHandler()
    async with serving(handler, bodies_bytes=1000) as running:
        first, second, third = [await running.client() for _ in range(3)]
        first.send(request("POST", "/", b"x" * 800))
        await until(lambda: handler.open)
        assert running.server.held_bytes == 800
        second.send(b"POST / HTTP/1.1\r\n" + HOST + b"content-length: 201\r\nexpect: 100-continue\r\n\r\n")
        assert (await refused(second, 503, "broker_overloaded"))["retry-after"] == "1"
        third.send(CHUNKED + b"C9\r\n" + b"x" * 201)
        await refused(third, 503, "broker_overloaded")
        handler.answer()
        await first.answer()
        assert running.server.held_bytes == 0


@on_a_loop
async def test_handler_may_keep_and_clear_the_body() -> None:
    def handle(request: HttpRequest) -> HttpResponse:
        request.body.clear()
        return HttpResponse(200)

    async with connected(handle) as (running, client):
        assert (await client.asks(request("POST", "/", b"x" * 100))).status == 200
        assert running.server.held_bytes == 0


@on_a_loop
async def test_a_thousand_clients_that_never_finish_their_heads_leave_the_server_answering() -> None:
    async with serving(echo) as running:
        slow = [await running.client() for _ in range(1000)]
        for client in slow:
            client.send(b"GET / HTTP/1.1\r\nx-slow: ")
        served = await running.client()
        await until(
            lambda: sum(connection._reader.phase is ReadPhase.HEAD for connection in running.connections()) == 1000
        )
        running.pass_time(9)
        assert (await served.asks(request())).status == 200
        running.pass_time(1)
        for client in slow:
            assert (await client.answer()).status == 408
        assert (await served.asks(request())).status == 200
