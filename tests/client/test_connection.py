"""Both connections against a peer that behaves as told: keep-alive, new connections, time, and what breaks."""

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from goqueue.client import AsyncClient, Client
from goqueue.errors import BrokerUnreachable, RequestInvalid, RequestTimedOut, TopicNotFound
from goqueue.testing.broker import LocalBroker
from tests.client.peers import Asked, Reply, peer, refusal, reply

pytestmark = pytest.mark.over_httpx

VERSION = {"version": "1"}

Ask = Callable[..., Any]


def always(answer: Reply) -> Callable[[Asked], Reply]:
    return lambda _: answer


@pytest.mark.parametrize(("headers", "connections"), [({}, 1), ({"Connection": "close"}, 3)], ids=["kept", "ended"])
def test_connection_is_used_again_until_the_broker_ends_it(
    client_class: type[Client], headers: dict[str, Any], connections: int
) -> None:
    with peer(always(reply(VERSION, **headers))) as server, client_class(server.url) as client:
        for _ in range(3):
            assert client.version() == VERSION
        assert server.connections == connections


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("headers", [{}, {"Connection": "close"}], ids=["kept", "ended"])
def test_a_large_answer_is_no_trouble_to_any_loop(
    factory: Callable[[], asyncio.AbstractEventLoop], headers: dict[str, Any]
) -> None:
    large = {"version": "1" * 100_000}
    trouble: list[dict[str, Any]] = []

    async def main(url: str) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: trouble.append(what))
        async with AsyncClient(url) as client:
            for _ in range(3):
                assert await client.version() == large

    with peer(always(reply(large, **headers))) as server, asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main(server.url))
    assert (server.connections, trouble) == (3 if headers else 1, [])


def test_a_call_is_tried_again_when_the_connection_breaks(ask: Ask) -> None:
    endings = {1: None, 2: reply(VERSION)[:20]}
    with peer(always(None)) as server:
        server.answer = lambda _: endings.get(len(server.asked), reply(VERSION))
        assert ask(server.url, "version") == VERSION
    assert len(server.asked) == 3


@pytest.mark.own_connection
def test_what_may_have_been_done_is_not_done_twice(ask: Ask) -> None:
    for ending, where in ((None, "before it answered"), (reply({"results": []})[:20], "in the middle of the answer")):
        with peer(always(ending)) as server:
            with pytest.raises(BrokerUnreachable, match=f"{server.url} ended the connection {where}") as error:
                ask(server.url, "publish", "t", "x")
            assert "may have been stored" in (error.value.hint or "")
        assert len(server.asked) == 1


def test_what_was_surely_not_done_is_tried_again(ask: Ask) -> None:
    done = reply({"results": [{"partition": 1, "offset": 5}]})
    with peer(always(None)) as server:
        server.answer = lambda _: refusal("broker_overloaded", 429) if len(server.asked) < 2 else done
        stored = ask(server.url, "publish", "t", b"\xff", key="k", headers={"a": "b"}, priority="high")
    assert stored[:2] == (1, 5)
    assert len(server.asked) == 2
    assert server.asked[0].body == server.asked[1].body


def test_a_refusal_is_raised_as_its_error(ask: Ask) -> None:
    with peer(always(refusal("topic_not_found", 404, "there is no topic a/b", hint="make it"))) as server:
        with pytest.raises(TopicNotFound, match="a/b") as error:
            ask(server.url, "topic", "a/b")
        assert error.value.hint == "make it"
        assert server.asked[0].target == "/topics/a%2Fb"


@pytest.mark.own_connection
def test_an_answer_of_something_else_is_told(ask: Ask) -> None:
    for answer in (
        reply(b"<html>"),
        reply(b"<html>", 404),
        reply(b"", 302, Location="/login"),
        reply([1]),
        b"SSH-2.0-whatever\r\n",
    ):
        with peer(always(answer)) as server:
            with pytest.raises(BrokerUnreachable, match=f"{server.url} is not a GoQueue broker") as error:
                ask(server.url, "topics")
            assert error.value.hint
        assert len(server.asked) == 1  # it does not become one by asking again


def test_frames_from_something_else_are_told_too() -> None:
    def answer(asked: Asked) -> Reply:
        if "/messages" in asked.target:
            return reply(b"<html>")
        return reply({"name": "t", "partitions": 1, "partition_offsets": {"0": {"earliest": 0, "latest": 1}}})

    with (
        peer(answer) as server,
        Client(server.url) as client,
        pytest.raises(BrokerUnreachable, match=f"{server.url} is not a GoQueue broker"),
    ):
        list(client.reader("t"))
    assert sum("/messages" in asked.target for asked in server.asked) == 1


def test_encryption_with_a_port_that_speaks_plain_is_told(ask: Ask, shared_broker: LocalBroker) -> None:
    url = shared_broker.url.replace("http:", "https:")
    with pytest.raises(BrokerUnreachable, match=f"no TLS with the broker at {url}: ") as error:
        ask(url, "version")
    assert "write http://" in (error.value.hint or "")


def test_encryption_with_a_port_that_says_nothing_ends_in_time(client_class: type[Client]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with (
            client_class(url, timeout="100ms", connect_timeout="50ms") as client,
            pytest.raises((BrokerUnreachable, RequestTimedOut), match=url),
        ):
            client.version()


def test_connection_error_names_the_address(ask: Ask, closed_url: str) -> None:
    with pytest.raises((BrokerUnreachable, RequestTimedOut), match=closed_url):  # a busy machine may not come that far
        ask(closed_url, "version", timeout=0.1)


def test_a_broker_that_says_nothing_times_out(ask: Ask) -> None:
    release = threading.Event()

    def answer(_: Asked) -> Reply:
        release.wait()
        return None

    with peer(answer) as server:
        try:
            with pytest.raises(RequestTimedOut, match=server.url):
                ask(server.url, "version", timeout=0.2)
        finally:
            release.set()


def test_an_address_of_version_6_is_one_too(ask: Ask) -> None:
    with peer(always(reply(VERSION)), "::1") as server:
        assert ask(server.url, "version") == VERSION
        assert server.asked[0].headers["host"] == server.url.removeprefix("http://")


def test_a_large_body_arrives_whole(ask: Ask) -> None:
    large = {"version": "x" * 5_000_000}
    with peer(always(reply(large))) as server:
        assert ask(server.url, "version") == large


def test_a_large_request_arrives_whole(ask: Ask) -> None:
    with peer(always(reply({"results": [{"partition": 0, "offset": 0}]}))) as server:
        ask(server.url, "publish", "t", "x" * 5_000_000)
    assert server.asked[0].body.count(b"x") >= 5_000_000


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_closed_client_says_so(kind: type[Any]) -> None:
    async def does() -> None:
        client = kind("http://127.0.0.1:1")
        for call in (client.close, client.version):
            found = call()
            if kind is AsyncClient:
                await found

    with pytest.raises(RequestInvalid, match="closed"):
        asyncio.run(does())
