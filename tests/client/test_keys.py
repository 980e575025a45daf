"""The key of a client: sent with everything, shown by nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from goqueue.client import AsyncClient, Client
from goqueue.errors import GoQueueError, RequestInvalid
from tests.client.peers import Asked, Reply, peer, refusal, reply

KEY = "gq_Zm9vYmFy.s3cret"
TOPIC = {"name": "t", "partitions": 1, "partition_offsets": {"0": {"earliest": 0, "latest": 1}}}


def answer(asked: Asked) -> Reply:
    if asked.target == "/topics/t":
        return reply(TOPIC)
    return refusal("permission_denied", 403)


def sent(asked: list[Asked]) -> set[str | None]:
    return {one.headers.get("authorization") for one in asked}


def fails(work: Callable[[], Any]) -> str:
    with pytest.raises(GoQueueError) as error:
        work()
    return f"{error.value!r} {error.value} {error.value.details}"


def test_every_connection_of_a_client_sends_its_key(client_class: type[Client]) -> None:
    with peer(answer) as server, client_class(server.url, timeout=5, api_key=KEY) as client:
        client.topic("t")
        with client.producer() as producer:
            shown = [fails(lambda: producer.send("t", "v", partition=0).result())]
        shown += [
            fails(lambda: list(client.reader("t", 0, start=0))),
            fails(lambda: client.consumer("g", ["t"]).__enter__()),
            repr(client),
        ]
        paths = {one.target.partition("?")[0] for one in server.asked}
    assert len(paths) == 4  # the topic, its publications, a partition, and the group
    assert sent(server.asked) == {f"Bearer {KEY}"}
    assert not [text for text in shown if KEY in text]


def test_without_a_key_no_authorization_is_sent() -> None:
    with peer(answer) as server, Client(server.url) as client:
        client.topic("t")
    assert sent(server.asked) == {None}


@pytest.mark.parametrize("key", ["", "two words", "a\r\nx-evil: 1", "schlüssel", b"bytes", "k" * 5000])
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_key_that_is_none_is_refused_and_not_shown(kind: type, key: Any) -> None:
    with pytest.raises(RequestInvalid, match="the API key is invalid") as error:
        kind("http://127.0.0.1:1", api_key=key)
    assert not key or str(key) not in f"{error.value!r} {error.value.hint}"
