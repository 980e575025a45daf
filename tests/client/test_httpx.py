"""Clients over an httpx client that the caller has configured."""

import asyncio
import contextvars
from typing import Any

import httpx
import pytest

from goqueue.client import AsyncClient, Client
from goqueue.errors import BrokerUnreachable, RequestInvalid, TopicNotFound
from goqueue.testing.broker import LocalBroker


def answer(request: httpx.Request) -> httpx.Response:
    if request.url.path.endswith("/topics"):
        return httpx.Response(200, json={"topics": ["orders"]})
    return httpx.Response(404, json={"error": "there is no such topic", "code": "topic_not_found"})


def test_transport_without_a_network_answers_the_whole_client() -> None:
    with httpx.Client(transport=httpx.MockTransport(answer)) as http, Client("http://anywhere", http=http) as client:
        assert client.topics() == ["orders"]
        with pytest.raises(TopicNotFound, match="no such topic"):
            client.topic("other")

    async def does() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
            assert await AsyncClient("http://anywhere", http=http).topics() == ["orders"]

    asyncio.run(does())


def test_hooks_headers_and_authentication_of_the_given_client_apply(shared_broker: LocalBroker) -> None:
    seen: list[httpx.Request] = []
    http = httpx.Client(
        headers={"x-team": "billing"}, auth=("someone", "secret"), event_hooks={"request": [seen.append]}
    )
    with http, Client(shared_broker.url, http=http) as client:
        client.create_topic("hooked", partitions=1)
        with client.producer() as producer:
            producer.send("hooked", b"x")
        assert [message.value for message in client.reader("hooked")] == [b"x"]
    assert {request.headers["x-team"] for request in seen} == {"billing"}
    assert {request.headers["authorization"][:6] for request in seen} == {"Basic "}


def test_key_of_the_client_is_sent_and_its_addresses_are_called() -> None:
    seen: list[httpx.Request] = []

    def record(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answer(request)

    with httpx.Client(transport=httpx.MockTransport(record), base_url="http://elsewhere") as http:
        Client("https://broker.example/queue", http=http, api_key="k1").topics()
    assert str(seen[0].url) == "https://broker.example/queue/topics"
    assert seen[0].headers["authorization"] == "Bearer k1"


def test_given_client_stays_open_when_the_client_is_closed() -> None:
    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        for _ in range(2):
            with Client("http://anywhere", http=http) as client:
                assert client.topics() == ["orders"]
        assert not http.is_closed


def test_context_of_the_caller_reaches_what_instruments_requests() -> None:
    span, seen = contextvars.ContextVar("span", default=""), list[str]()
    http = httpx.Client(
        transport=httpx.MockTransport(answer), event_hooks={"request": [lambda _: seen.append(span.get())]}
    )
    span.set("outer")
    with http:
        Client("http://anywhere", http=http).topics()
    assert seen == ["outer"]


def test_error_of_a_hook_is_raised_as_it_is() -> None:
    def refuse(_: httpx.Request) -> None:
        raise LookupError("no token")

    with (
        httpx.Client(transport=httpx.MockTransport(answer), event_hooks={"request": [refuse]}) as http,
        pytest.raises(LookupError, match="no token"),
    ):
        Client("http://anywhere", http=http).topics()


def test_proxy_that_is_away_is_named_as_the_reason(closed_url: str) -> None:
    with (
        httpx.Client(proxy=closed_url) as http,
        pytest.raises(BrokerUnreachable, match="Connection refused"),
    ):
        Client("http://broker.example", http=http, timeout=0.1).topics()


@pytest.mark.parametrize(
    ("kind", "http", "problem"),
    [
        (Client, httpx.AsyncClient(), "of the type httpx.AsyncClient, and must be an httpx.Client"),
        (AsyncClient, httpx.Client(), "of the type httpx.Client, and must be an httpx.AsyncClient"),
        (Client, "proxy", "of the type builtins.str"),
    ],
)
def test_another_object_is_refused(kind: Any, http: object, problem: str) -> None:
    with pytest.raises(RequestInvalid, match=problem):
        kind("http://anywhere", http=http)
