"""Clients with several addresses: an address that fails is left for the next one, and nothing is done twice."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from goqueue.client import Client, address, connection_core
from goqueue.client.address import Address
from goqueue.client.servers import LEFT_SECONDS, Servers
from goqueue.errors import BrokerUnreachable, RequestInvalid, TopicNotFound, TransientError
from goqueue.testing.broker import LocalBroker
from tests.client.peers import Asked, Peer, Reply, peer, refusal, reply
from tests.client.relay import Relay, once, relay

pytestmark = pytest.mark.over_httpx

VERSION = {"version": "1"}
PUBLISHED = {"results": [{"partition": 0, "offset": 7}]}


def answers(content: Any) -> Callable[[Asked], Reply]:
    return lambda _: reply(content)


@pytest.fixture(scope="module")
def refused() -> Iterator[str]:
    """An address that refuses connections: it is bound, and nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


@contextmanager
def silent() -> Iterator[Peer]:
    """A peer that accepts requests and does not answer."""
    ended = threading.Event()

    def wait(_: Asked) -> Reply:
        ended.wait()
        return None

    with peer(wait) as made:
        try:
            yield made
        finally:
            ended.set()


@contextmanager
def two_relays(broker: LocalBroker) -> Iterator[tuple[Relay, Relay]]:
    """Two addresses of one broker."""
    with relay(broker.url) as first, relay(broker.url) as second:
        yield first, second


# --- which address a request goes to ---


def test_request_goes_to_the_next_address_when_one_refuses(client_class: type[Client], refused: str) -> None:
    with peer(answers(VERSION)) as second, client_class([refused, second.url]) as client:
        assert [client.version() for _ in range(2)] == [VERSION] * 2
        assert len(second.asked) == 2


def test_request_goes_to_the_next_address_when_one_ends_the_connection(client_class: type[Client]) -> None:
    with (
        peer(lambda _: None) as first,
        peer(answers(VERSION)) as second,
        client_class(f"{first.url}, {second.url}") as client,
    ):
        assert client.version() == VERSION
        assert (len(first.asked), len(second.asked)) == (1, 1)


def test_request_goes_to_the_next_address_when_one_is_silent(
    client_class: type[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_core, "SILENT_SECONDS", 1)
    with silent() as first, peer(answers(VERSION)) as second, client_class([first.url, second.url]) as client:
        assert client.version() == VERSION
        assert (len(first.asked), len(second.asked)) == (1, 1)


def test_request_goes_to_the_next_address_when_one_is_stopping(client_class: type[Client]) -> None:
    stopping = refusal("broker_stopping", 503)
    with (
        peer(lambda _: stopping) as first,
        peer(answers(VERSION)) as second,
        client_class([first.url, second.url]) as client,
    ):
        assert client.version() == VERSION
        assert len(first.asked) == 1


def test_refusal_of_a_broker_is_raised_without_asking_another_one(client_class: type[Client]) -> None:
    with (
        peer(lambda _: refusal("topic_not_found", 404)) as first,
        peer(answers({})) as second,
        client_class([first.url, second.url]) as client,
    ):
        with pytest.raises(TopicNotFound):
            client.topic("orders")
        assert not second.asked


def test_server_that_is_no_broker_is_told_at_once(client_class: type[Client]) -> None:
    with (
        peer(lambda _: reply(b"<html>", 404)) as first,
        peer(answers(VERSION)) as second,
        client_class([first.url, second.url]) as client,
    ):
        with pytest.raises(BrokerUnreachable, match="is not a GoQueue broker"):
            client.version()
        assert not second.asked


def test_client_stays_at_the_address_that_works(client_class: type[Client]) -> None:
    endings: list[Reply] = [None]
    with (
        peer(lambda _: endings.pop() if endings else reply(VERSION)) as first,
        peer(answers(VERSION)) as second,
        client_class([first.url, second.url]) as client,
    ):
        for _ in range(3):
            client.version()
        assert (len(first.asked), len(second.asked)) == (1, 3)


def test_error_names_all_addresses_and_what_each_said(client_class: type[Client], refused: str) -> None:
    with peer(lambda _: None) as second, client_class([refused, second.url], timeout=2) as client:
        with pytest.raises(TransientError) as found:
            client.version()
        first, last = found.value.sentence.split("; ")
        assert first == f"no answer from the broker at {refused}: Connection refused"
        assert second.url in last
        assert found.value.details == {"unsure": True}


def test_name_is_looked_up_for_each_connection(client_class: type[Client], monkeypatch: pytest.MonkeyPatch) -> None:
    places = ["127.0.0.1", "127.0.0.2"]
    look_up = socket.getaddrinfo

    def resolve(host: Any, *given: Any, **options: Any) -> Any:
        if host in {"broker.test", b"broker.test"}:
            host = places.pop(0) if len(places) > 1 else places[0]
        return look_up(host, *given, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with peer(lambda _: reply(VERSION, Connection="close")) as first:
        port = int(first.url.rpartition(":")[2])
        with client_class(f"http://broker.test:{port}", timeout=2) as client:
            assert client.version() == VERSION
            with pytest.raises(BrokerUnreachable, match="Connection refused"):
                client.version()
        assert len(first.asked) == 1


# --- nothing is done twice ---


def test_request_that_may_have_been_carried_out_is_not_sent_to_another_address(client_class: type[Client]) -> None:
    with (
        peer(lambda _: None) as first,
        peer(answers(PUBLISHED)) as second,
        client_class([first.url, second.url]) as client,
    ):
        with pytest.raises(BrokerUnreachable) as found:
            client.publish("orders", b"once")
        assert found.value.hint == "it may have been stored: check before you send it again"
        assert not second.asked


def test_request_that_was_not_sent_goes_to_another_address(client_class: type[Client], refused: str) -> None:
    with peer(answers(PUBLISHED)) as second, client_class([refused, second.url]) as client:
        assert client.publish("orders", b"once").offset == 7
        assert len(second.asked) == 1


def test_batch_whose_answer_was_lost_is_stored_once_over_another_address(
    broker: LocalBroker, client_class: type[Client]
) -> None:
    with two_relays(broker) as (first, second), client_class([first.peer.url, second.peer.url]) as client:
        client.create_topic("orders", 1)
        first.loses = once("/messages")
        with client.producer() as producer:
            deliveries = producer.send_many("orders", [b"1", b"2"])
            assert [receipt.offset for receipt in deliveries.result()] == [0, 1]
        assert (len(first.lost), len(second.asked("/messages"))) == (1, 1)
        assert [message.value for message in client.reader("orders")] == [b"1", b"2"]


def test_producer_goes_on_at_another_address_in_order(broker: LocalBroker, client_class: type[Client]) -> None:
    with two_relays(broker) as (first, second), client_class([first.peer.url, second.peer.url]) as client:
        client.create_topic("orders", 2)
        with client.producer() as producer:
            for number in range(30):
                producer.send("orders", str(number), key="one").result()
                if number == 10:
                    first.peer.close()
        assert second.asked("/messages")
        assert [int(message.text or -1) for message in client.reader("orders")] == list(range(30))


def test_reader_goes_on_at_another_address(broker: LocalBroker, client_class: type[Client]) -> None:
    with two_relays(broker) as (first, second), client_class([first.peer.url, second.peer.url]) as client:
        client.create_topic("orders", 1)
        with client.producer() as producer:
            producer.send_many("orders", [str(number) for number in range(50)])
        found = []
        for message in client.reader("orders", max_bytes=100):
            found.append(int(message.text or -1))
            if len(found) == 10:
                first.peer.close()
        assert found == list(range(50))
        assert second.asked("/messages")


def test_consumer_goes_on_at_another_address(broker: LocalBroker, client_class: type[Client]) -> None:
    with two_relays(broker) as (first, second), client_class([first.peer.url, second.peer.url]) as client:
        client.create_topic("orders", 1)
        with client.producer() as producer:
            producer.send_many("orders", [str(number) for number in range(50)])
        found = []
        with client.consumer("billing", ["orders"], start="earliest", max_messages=5) as consumer:
            for message in consumer:
                found.append(int(message.text or -1))
                message.ack()
                if len(found) == 10:
                    first.peer.close()
                if len(found) == 30:
                    break
        assert len(set(found)) == 30  # a lease whose answer was lost comes again when it ends
        assert second.asked("/poll")


# --- the addresses themselves ---


def places(text: str) -> tuple[Address, ...]:
    return address.parse_all(text)


@pytest.mark.parametrize(
    "given",
    ["http://a:1,http://b:2", " http://a:1 , http://b:2,", ["http://a:1", "http://b:2"], ["http://a:1,http://b:2"]],
)
def test_addresses_are_given_as_a_text_or_as_a_list(given: str | list[str]) -> None:
    assert address.parse_all(given) == (Address("a", 1), Address("b", 2))


def test_address_that_is_given_twice_counts_once() -> None:
    assert places("http://a:1,a:1,http://a:1/") == (Address("a", 1),)


def test_environment_names_several_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOQUEUE_SERVER", "http://a:1,http://b:2")
    assert repr(Client()) == "<Client http://a:1, http://b:2>"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (",", "',' names no broker"),
        ([], "'' names no broker"),
        ("http://a:1,ftp://b", "'ftp://b' is not the address of a broker"),
        ("http://a:1,https://b", "some of the addresses http://a:1, https://b:443 are encrypted, and others are not"),
    ],
)
def test_invalid_addresses_are_refused(given: Any, why: str) -> None:
    with pytest.raises(RequestInvalid) as found:
        Client(given)
    assert found.value.sentence == why


def test_address_that_failed_is_chosen_last_and_again_after_a_while() -> None:
    now = 0.0
    a, b, c = places("http://a:1,http://b:1,http://c:1")
    servers = Servers((a, b, c), lambda: now)
    servers.failed(a)
    assert (servers.current, servers.choose({b})) == (b, c)
    servers.failed(b)
    servers.failed(c)
    now = LEFT_SECONDS / 2
    servers.failed(b)
    assert servers.current == c  # of those that all failed, not the latest one
    now = LEFT_SECONDS + 1
    assert servers.choose({c}) == a
