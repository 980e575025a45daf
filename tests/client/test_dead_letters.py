"""Dead letters through the clients: looked at, counted, and sent back by their keys."""

from itertools import islice
from typing import Any

import msgspec
import pytest

from goqueue.client import Client, Nanoseconds
from goqueue.errors import BrokerUnreachable
from tests.client.peers import Asked, Reply, peer, reply


@pytest.mark.parametrize(
    ("key", "written"),
    [
        (b"k10", {"key": "k10", "key_encoding": "utf-8"}),
        ("k10", {"key": "k10"}),
        (b"\xff", {"key": "/w==", "key_encoding": "base64"}),
    ],
)
def test_a_key_is_bytes_or_text(key: Any, written: dict[str, str]) -> None:
    with peer(lambda _: reply({"moved": 1})) as server, Client(server.url) as client:
        client.redrive("t", key=key, start={0: 17})
        client.redrive("t", filters="json.id>=4")
        assert msgspec.json.decode(server.asked[0].body) == {**written, "start": {"0": 17}}
        assert msgspec.json.decode(server.asked[1].body) == {"filter": ["json.id>=4"]}


def test_a_redrive_without_an_answer_may_be_called_again() -> None:
    def silence(_: Asked) -> Reply:
        return None

    with peer(silence) as server, Client(server.url) as client:
        with pytest.raises(BrokerUnreachable) as error:
            client.redrive("t")
        assert error.value.hint is not None
        assert error.value.hint.startswith("call it again: what was moved already is not moved a second time")
        assert len(server.asked) == 1


def test_dead_letter_query_has_the_options() -> None:
    found: dict[str, Any] = {"messages": [], "next": {"0": 17, "1": 4}, "complete": False}
    with peer(lambda _: reply(found)) as server, Client(server.url) as client:
        assert client.dead_letters("t") == found
        client.dead_letters("t", 5, error="no such", group="g", start=found["next"])
        client.dead_letters("t", from_time=Nanoseconds(0), to_time="2026-03-01T12:00:00Z", filters="key=a")
        assert client.dead_letter_errors("t") == found
        assert [asked.target for asked in server.asked] == [
            "/topics/t/dead-letters?limit=100",
            "/topics/t/dead-letters?limit=5&error=no%20such&group=g&start=0%3A17%2C1%3A4",
            "/topics/t/dead-letters?limit=100&from_time=1970-01-01T00%3A00%3A00.000000000Z"
            "&to_time=2026-03-01T12%3A00%3A00.000000000Z&filter=key%3Da",
            "/topics/t/dead-letters/errors",
        ]


def fill(client: Client) -> None:
    client.create_topic("t", partitions=1)
    for number, key in enumerate((b"k1", b"\xff", b"k1")):
        client.publish("t", str(number), key=key)
    with client.consumer("g", ["t"]) as consumer:
        for message in islice(consumer, 3):
            message.reject(reason=f"wrong {message.key!r}", wait=True)


def test_they_are_looked_at_and_sent_back_by_their_key(connected: Client) -> None:
    fill(connected)
    first = connected.dead_letters("t", limit=2)
    assert (len(first["messages"]), first["complete"]) == (2, False)
    rest = connected.dead_letters("t", start=first["next"])
    assert (len(rest["messages"]), rest["complete"]) == (1, True)
    assert len(connected.dead_letters("t", error="xff", group="g")["messages"]) == 1
    assert connected.dead_letter_errors("t")["errors"] == {"wrong b'k1'": 2, "wrong b'\\xff'": 1}
    assert [connected.redrive("t", key=key)["moved"] for key in (b"k1", b"k1", b"\xff", "k1")] == [2, 0, 1, 0]
    assert connected.dead_letters("t")["messages"] == []
