"""Both connections against a peer that behaves as told: keep-alive, new connections, time, and what breaks."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from goqueue.client import AsyncClient, Client
from goqueue.errors import BrokerUnreachable, RequestInvalid, RequestTimedOut, TopicNotFound
from goqueue.testing.broker import LocalBroker
from tests.brokers import broker
from tests.client.peers import Asked, Reply, peer, refusal, reply

__all__ = ["broker"]

VERSION = {"version": "1"}

Act = Callable[[Any], Coroutine[Any, Any, Any]]


class Awaited:
    """The blocking client behind the surface of the other, so that a test is written once."""

    def __init__(self, *given: Any, **options: Any) -> None:
        self._client = Client(*given, **options)

    def __getattr__(self, name: str) -> Any:
        async def call(*given: Any, **options: Any) -> Any:
            return getattr(self._client, name)(*given, **options)

        return call

    async def __aenter__(self) -> "Awaited":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.close()


@pytest.fixture(params=[Awaited, AsyncClient], ids=["threads", "loop"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Carry out what a test does with a client of either kind."""

    def act(url: str, does: Act, **options: Any) -> Any:
        async def main() -> Any:
            async with request.param(url, **options) as client:
                return await does(client)

        return asyncio.run(main())

    return act


Run = Callable[..., Any]


def always(answer: Reply) -> Callable[[Asked], Reply]:
    return lambda _: answer


def test_one_connection_serves_many_calls(run: Run) -> None:
    async def does(client: Any) -> None:
        for _ in range(3):
            assert await client.version() == VERSION

    with peer(lambda _: reply(VERSION)) as server:
        run(server.url, does)
    assert server.connections == 1


def test_a_connection_that_the_broker_ended_is_made_again(run: Run) -> None:
    async def does(client: Any) -> None:
        for _ in range(3):
            assert await client.version() == VERSION

    with peer(lambda _: reply(VERSION, Connection="close")) as server:
        run(server.url, does)
    assert server.connections == 3


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

    with peer(lambda _: reply(large, **headers)) as server, asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main(server.url))
    assert (server.connections, trouble) == (3 if headers else 1, [])


def test_a_call_is_tried_again_when_the_connection_breaks(run: Run) -> None:
    async def does(client: Any) -> None:
        assert await client.version() == VERSION

    endings = {1: None, 2: reply(VERSION)[:20]}
    with peer(lambda _: None) as server:
        server.answer = lambda _: endings.get(len(server.asked), reply(VERSION))
        run(server.url, does)
    assert len(server.asked) == 3


def test_what_may_have_been_done_is_not_done_twice(run: Run) -> None:
    async def does(client: Any) -> None:
        await client.publish("t", "x")

    for ending, where in ((None, "before it answered"), (reply({"results": []})[:20], "in the middle of the answer")):
        with peer(always(ending)) as server:
            with pytest.raises(BrokerUnreachable, match=f"{server.url} ended the connection {where}") as error:
                run(server.url, does)
            assert "may have been stored" in (error.value.hint or "")
        assert len(server.asked) == 1


def test_what_was_surely_not_done_is_tried_again(run: Run) -> None:
    done = reply({"results": [{"partition": 1, "offset": 5}]})

    async def does(client: Any) -> Any:
        return await client.publish("t", b"\xff", key="k", headers={"a": "b"}, priority="high")

    with peer(lambda _: reply()) as server:
        server.answer = lambda _: refusal("broker_overloaded", 429) if len(server.asked) < 2 else done
        assert run(server.url, does)[:2] == (1, 5)
    assert len(server.asked) == 2
    assert server.asked[0].body == server.asked[1].body


def test_a_refusal_is_raised_as_its_error(run: Run) -> None:
    async def does(client: Any) -> None:
        await client.topic("a/b")

    with (
        peer(lambda _: refusal("topic_not_found", 404, "there is no topic a/b", hint="make it")) as server,
        pytest.raises(TopicNotFound, match="a/b") as error,
    ):
        run(server.url, does)
    assert error.value.hint == "make it"
    assert server.asked[0].target == "/topics/a%2Fb"


def test_an_answer_of_something_else_is_told(run: Run) -> None:
    async def does(client: Any) -> None:
        await client.topics()

    for answer in (
        reply(b"<html>"),
        reply(b"<html>", 404),
        reply(b"", 302, Location="/login"),
        reply([1]),
        b"SSH-2.0-whatever\r\n",
    ):
        with peer(always(answer)) as server:
            with pytest.raises(BrokerUnreachable, match=f"{server.url} is not a GoQueue broker") as error:
                run(server.url, does)
            assert error.value.hint
        assert len(server.asked) == 1  # it does not become one by asking again


def test_frames_from_something_else_are_told_too() -> None:
    def answer(asked: Asked) -> Reply:
        if "/messages" in asked.target:
            return reply(b"<html>")
        return reply({"name": "t", "partitions": 1, "partition_offsets": {"0": {"earliest": 0, "latest": 1}}})

    with (
        peer(answer) as server,
        Client(server.url, timeout="200ms") as client,
        pytest.raises(BrokerUnreachable, match=f"{server.url} is not a GoQueue broker"),
    ):
        list(client.reader("t"))


def test_encryption_with_a_port_that_speaks_plain_is_told(run: Run, broker: LocalBroker) -> None:
    async def does(client: Any) -> None:
        await client.version()

    url = broker.url.replace("http:", "https:")
    with pytest.raises(BrokerUnreachable, match=f"no TLS with the broker at {url}: ") as error:
        run(url, does)
    assert "write http://" in (error.value.hint or "")


def test_encryption_with_a_port_that_says_nothing_ends_in_time(run: Run) -> None:
    async def does(client: Any) -> None:
        await client.version()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises((BrokerUnreachable, RequestTimedOut), match=url):
            run(url, does, timeout="100ms", connect_timeout="50ms")


def test_nobody_there_is_told_with_the_address(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    async def does(client: Any) -> None:
        await client.version()

    with pytest.raises(BrokerUnreachable, match=url):
        run(url, does, timeout="100ms")


def test_a_broker_that_says_nothing_times_out(run: Run) -> None:
    release = threading.Event()

    def answer(_: Asked) -> Reply:
        release.wait()
        return None

    async def does(client: Any) -> None:
        await client.version()

    with peer(answer) as server:
        try:
            with pytest.raises(RequestTimedOut, match=server.url):
                run(server.url, does, timeout="50ms")
        finally:
            release.set()


def test_an_address_of_version_6_is_one_too(run: Run) -> None:
    async def does(client: Any) -> None:
        assert await client.version() == VERSION

    with peer(lambda _: reply(VERSION), "::1") as server:
        run(server.url, does)
        assert server.asked[0].headers["host"] == server.url.removeprefix("http://")


def test_a_large_body_arrives_whole(run: Run) -> None:
    text = "x" * 5_000_000

    async def does(client: Any) -> None:
        assert await client.version() == {"version": text}

    with peer(lambda _: reply({"version": text})) as server:
        run(server.url, does)


def test_a_large_request_arrives_whole(run: Run) -> None:
    done = reply({"results": [{"partition": 0, "offset": 0}]})

    async def does(client: Any) -> None:
        await client.publish("t", "x" * 5_000_000)

    with peer(lambda _: done) as server:
        run(server.url, does)
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
