"""Answers to well-behaved clients."""

import asyncio
import re

import pytest

from goqueue.api.http.message import HttpRequest, HttpResponse
from tests.api.http.serving import HOST, HeldHandler, connected, echo, on_a_loop, request, serving, until


@on_a_loop
async def test_a_connection_serves_one_request_after_the_other() -> None:
    async with connected(echo) as (running, client):
        for number in range(3):
            answer = await client.asks(request("POST", f"/a/{number}?x=1&y", b"hello"))
            assert (answer.status, answer.body) == (200, f"POST /a/{number}?x=1&y hello".encode())
        assert running.seen.opened == 1
        assert [path for path, *_ in running.seen.answers] == ["/a/0", "/a/1", "/a/2"]


@on_a_loop
async def test_an_answer_tells_its_length_its_type_its_date_and_its_request() -> None:
    async with connected(echo) as (_, client):
        answer = await client.asks(request())
        assert answer.headers["content-type"] == "text/plain"
        assert answer.headers["content-length"] == str(len(answer.body))
        assert answer.headers["date"] == "Tue, 14 Nov 2023 22:13:20 GMT"
        assert re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]+", answer.headers["x-request-id"])
        assert "connection" not in answer.headers


@on_a_loop
async def test_the_date_keeps_up_with_the_sweep() -> None:
    async with connected(echo) as (running, client):
        running.pass_time(61)
        assert (await client.asks(request())).headers["date"] == "Tue, 14 Nov 2023 22:14:21 GMT"


@on_a_loop
async def test_handler_gets_the_whole_request() -> None:
    seen: list[HttpRequest] = []

    def handle(request: HttpRequest) -> HttpResponse:
        seen.append(request)
        return HttpResponse(200)

    async with connected(handle) as (running, client):
        running.clock.advance(5)
        lines = ("X-Many: a", "x-many: b", "X-Empty:", "X-Latin: \xe9", "Content-Type: text/x")
        await client.asks(request("PUT", "/a%2Fb?c=%20&d?e", b"body", *lines))
        host, port = client.writer.get_extra_info("sockname")
    got = seen[0]
    assert (got.method, got.path, got.query, bytes(got.body)) == ("PUT", "/a%2Fb", "c=%20&d?e", b"body")
    assert got.headers == {
        "host": "broker",
        "content-length": "4",
        "x-many": "a, b",
        "x-empty": "",
        "x-latin": "\xe9",
        "content-type": "text/x",
    }
    assert got.peer == f"{host}:{port}"
    assert got.began_ns == 5_000_000_000


@pytest.mark.parametrize("sane", ["a", "7f3c-b", "!~", "x" * 128])
@on_a_loop
async def test_a_sane_request_id_comes_back(sane: str) -> None:
    async with connected(echo) as (_, client):
        answer = await client.asks(request("GET", "/", None, f"X-Request-Id: {sane}"))
        assert answer.headers["x-request-id"] == sane


@pytest.mark.parametrize("odd", ["", "a b", "x" * 129, "\xe9", "a\tb"])
@on_a_loop
async def test_another_request_id_is_replaced(odd: str) -> None:
    async with connected(echo) as (_, client):
        answer = await client.asks(request("GET", "/", None, f"x-request-id: {odd}"))
        assert re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]+", answer.headers["x-request-id"])


@on_a_loop
async def test_request_ids_differ() -> None:
    async with connected(echo) as (_, client):
        ids = {(await client.asks(request())).headers["x-request-id"] for _ in range(10)}
        assert len(ids) == 10


@on_a_loop
async def test_connection_close_is_confirmed_and_closes() -> None:
    async with connected(echo) as (_, client):
        answer = await client.asks(request("GET", "/", None, "Connection: close"))
        assert answer.headers["connection"] == "close"
        assert await client.rest() == b""


@on_a_loop
async def test_request_after_connection_close_is_not_read() -> None:
    async with connected(echo) as (running, client):
        client.send(request("GET", "/first", None, "Connection: close") + request("GET", "/second"))
        assert (await client.answer()).body == b"GET /first? "
        assert await client.rest() == b""
        assert [path for path, *_ in running.seen.answers] == ["/first"]


@on_a_loop
async def test_http_1_0_closes_unless_it_is_asked_not_to() -> None:
    async with connected(echo) as (_, client):
        answer = await client.asks(b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert (answer.status, answer.headers["connection"]) == (200, "keep-alive")
        answer = await client.asks(b"GET /b HTTP/1.0\r\n\r\n")
        assert (answer.body, answer.headers["connection"]) == (b"GET /b? ", "close")
        assert await client.rest() == b""


@on_a_loop
async def test_head_answer_has_the_length_and_no_body() -> None:
    async with serving(
        lambda request: HttpResponse(200, b"x" * 100_000 if request.path == "/big" else b"four")
    ) as running:
        client = await running.client()
        for path, length in (("/", "4"), ("/big", "100000")):
            client.send(request("HEAD", path))
            assert (await client.answer(of_head=True)).headers["content-length"] == length
        assert (await client.asks(request())).body == b"four"


@on_a_loop
async def test_an_answer_without_a_body_has_no_type_and_no_content_has_no_length() -> None:
    async with connected(lambda request: HttpResponse(int(request.path[1:]))) as (_, client):
        empty = await client.asks(request("GET", "/200"))
        assert empty.headers["content-length"] == "0"
        assert "content-type" not in empty.headers
        assert "content-length" not in (await client.asks(request("GET", "/204"))).headers


@on_a_loop
async def test_empty_body_keeps_its_content_type() -> None:
    async with connected(lambda _: HttpResponse(200, (b"",), "application/octet-stream")) as (_, client):
        answer = await client.asks(request())
        assert (answer.body, answer.headers["content-type"]) == (b"", "application/octet-stream")


@on_a_loop
async def test_a_body_in_pieces_arrives_as_one() -> None:
    bodies: dict[str, list[bytes | memoryview]] = {
        "/large": [b"a" * 10, memoryview(b"b" * 300_000), b"c"],
        "/small": [b"x", memoryview(b"y")],
        "/none": [],
    }
    async with connected(lambda request: HttpResponse(200, bodies[request.path])) as (_, client):
        for path, body in bodies.items():
            assert (await client.asks(request("GET", path))).body == b"".join(body)


@on_a_loop
async def test_pipelined_requests_are_answered_in_their_order() -> None:
    handler = HeldHandler()
    async with connected(handler) as (_, client):
        client.send(b"".join(request("POST", f"/{number}", b"x" * number) for number in range(5)))
        for number in range(5):
            await handler.asked(number + 1)
            handler.answer(number)
            assert (await client.answer()).body == f"POST /{number}? ".encode() + b"x" * number


@on_a_loop
async def test_pipelined_requests_are_limited() -> None:
    handler = HeldHandler()
    async with connected(handler, pipelined=4) as (running, client):
        count = 3000
        client.send(b"".join(request("GET", f"/{number}") for number in range(count)))
        await until(lambda: running.connections() and running.connections()[0]._paused)
        assert len(running.connections()[0]._reader.requests) < 4 + 4096 // len(request())
        for number in range(count):
            await handler.asked(number + 1)
            handler.answer(number)
            assert (await client.answer()).body == f"GET /{number}? ".encode()
        assert not running.connections()[0]._paused


@on_a_loop
async def test_expect_continue_is_answered_with_100() -> None:
    async with connected(echo) as (_, client):
        for _ in range(2):
            client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\nExpect: 100-Continue\r\n\r\n")
            assert await client.reader.readexactly(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
            assert (await client.asks(b"body")).body == b"POST /? body"


@on_a_loop
async def test_client_that_does_not_wait_gets_no_100() -> None:
    async with connected(echo) as (_, client):
        assert (await client.asks(request("POST", "/", b"body", "expect: 100-continue"))).status == 200
        assert (await client.asks(request("POST", "/", b"", "expect: 100-continue"))).status == 200


@on_a_loop
async def test_100_continue_waits_for_earlier_answers() -> None:
    handler = HeldHandler()
    async with connected(handler) as (running, client):
        client.send(request("GET", "/first") + b"POST / HTTP/1.1\r\n" + HOST)
        client.send(b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
        await until(lambda: handler.open and running.connections()[0]._reader.expects_continue)
        handler.answer()
        assert (await client.answer()).body == b"GET /first? "
        assert (await client.answer()).status == 100


@on_a_loop
async def test_body_deadline_starts_with_100_continue() -> None:
    handler = HeldHandler()
    async with connected(handler, body_seconds=30) as (running, client):
        client.send(request("GET", "/first") + request("POST", "/second", b"body", "expect: 100-continue")[:-4])
        await until(lambda: handler.open and running.connections()[0]._reader.expects_continue)
        running.pass_time(100)
        handler.answer()
        assert [(await client.answer()).status for _ in range(2)] == [200, 100]
        running.pass_time(29)
        client.send(b"body")
        await handler.asked(2)
        handler.answer(1)
        assert (await client.answer()).body == b"POST /second? body"


@on_a_loop
async def test_a_chunked_body_is_put_together_and_its_trailers_are_no_headers() -> None:
    seen: list[HttpRequest] = []

    def handle(request: HttpRequest) -> HttpResponse:
        seen.append(request)
        return echo(request)

    async with connected(handle) as (_, client):
        head = b"POST /c HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
        client.send(
            head + b"3;why=not\r\nabc\r\nA\r\n0123456789\r\n0\r\nHost: evil\r\nX-Trailer: 1\r\n\r\n" + request()
        )
        assert (await client.answer()).body == b"POST /c? abc0123456789"
        assert (await client.answer()).body == b"GET /? "
    assert [set(request.headers) for request in seen] == [{"host", "transfer-encoding"}, {"host"}]


@pytest.mark.parametrize("upgrade", ["h2c", "websocket"])
@on_a_loop
async def test_an_offer_to_upgrade_is_declined_by_answering_the_request(upgrade: str) -> None:
    async with connected(echo) as (_, client):
        lines = ("Connection: Upgrade, HTTP2-Settings", f"Upgrade: {upgrade}", "HTTP2-Settings: AAMAAABk")
        chunked = b"\r\n".join(line.encode() for line in ("POST /c HTTP/1.1", "host: b", *lines))
        client.send(request("GET", "/a", None, *lines) + request("POST", "/b", b"body" * 2000, *lines))
        client.send(chunked + b"\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n")
        client.send(request("POST", "/d", b"", *lines) + request("GET", "/e"))
        bodies = [b"GET /a? ", b"POST /b? " + b"body" * 2000, b"POST /c? body", b"POST /d? ", b"GET /e? "]
        assert [(await client.answer()).body for _ in bodies] == bodies


@on_a_loop
async def test_a_whole_url_means_its_path() -> None:
    async with connected(echo) as (_, client):
        told = {"http://broker:1/a?b": b"GET /a?b ", "HTTPS://broker": b"GET /? ", "http://broker?q": b"GET /?q "}
        for url, body in told.items():
            assert (await client.asks(request("GET", url))).body == body
        assert (await client.asks(request("OPTIONS", "*"))).body == b"OPTIONS *? "


@on_a_loop
async def test_header_value_cannot_add_a_header_line() -> None:
    evil = "a\r\nSet-Cookie: b\n\x85\u2028c\0"
    async with connected(lambda _: HttpResponse(200, b"x", evil, (("x-evil", evil), ("x-fine", "\xe9")))) as (
        _,
        client,
    ):
        answer = await client.asks(request())
        assert answer.headers["x-evil"] == answer.headers["content-type"] == "a??Set-Cookie: b???c?"
        assert answer.headers["x-fine"] == "\xe9"
        assert "Set-Cookie" not in answer.headers


async def raises_later(_: HttpRequest) -> HttpResponse:
    await asyncio.get_running_loop().run_in_executor(None, int)
    raise KeyError("secret")


def raises_now(_: HttpRequest) -> HttpResponse:
    raise KeyError("secret")


@pytest.mark.parametrize(
    "handle",
    [
        pytest.param(raises_now, id="raises"),
        pytest.param(raises_later, id="raises later"),
        pytest.param(lambda _: None, id="no answer"),
        pytest.param(lambda _: HttpResponse(200, headers=(("bad name", ""),)), id="bad name"),
        pytest.param(lambda _: HttpResponse(200, headers=(("Content-Length", "7"),)), id="a header of ours"),
        pytest.param(lambda _: HttpResponse(1000), id="bad status"),
    ],
)
@on_a_loop
async def test_a_mistake_of_ours_is_answered_reported_and_survived(handle: object) -> None:
    async with serving(lambda request: echo(request) if request.path == "/ok" else handle(request)) as running:  # type: ignore[operator]
        client = await running.client()
        answer = await client.asks(request("POST", "/broken", b"body"))
        assert (answer.status, answer.code) == (500, "internal_error")
        assert b"secret" not in answer.body
        assert (await client.asks(request("GET", "/ok"))).status == 200
        assert [status for _, status, _ in running.seen.answers] == [500, 200]
        assert len(running.faults) == 1


@on_a_loop
async def test_a_coroutine_may_answer_and_is_timed() -> None:
    async def handle(request: HttpRequest) -> HttpResponse:
        await asyncio.get_running_loop().run_in_executor(None, running.clock.advance, 2)
        return echo(request)

    async with connected(handle) as (running, client):
        assert (await client.asks(request("GET", "/slow"))).body == b"GET /slow? "
        assert running.seen.answers == [("/slow", 200, 2.0)]
