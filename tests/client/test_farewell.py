"""A consumer that closes tells what it had; one that finds no broker says why, and in time."""

import asyncio
import socket
from collections.abc import Iterator
from itertools import islice

import pytest

from goqueue.client import AsyncClient, Client, Consumer, Delivered, TopicPartition
from goqueue.errors import BrokerUnreachable, RequestTimedOut
from tests.client.group_peers import Group, group_of
from tests.client.peers import Peer


@pytest.fixture
def group() -> Group:
    made = Group()
    made.publish(b"a", b"b")
    return made


@pytest.fixture
def server(group: Group) -> Iterator[Peer]:
    with group_of(group) as made:
        yield made


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_what_a_consumer_had_is_told_while_it_may_settle(group: Group, server: Peer) -> None:
    told: list[list[TopicPartition]] = []
    held: list[Delivered] = []

    def finish(places: list[TopicPartition]) -> None:
        told.append(places)
        held[0].ack(wait=True)
        assert group.offsets("acks") == [0]
        held[1].ack()

    with Client(server.url) as client, client.consumer("g", ["t"], on_revoked=finish) as consumer:
        held += islice(consumer, 2)
    assert told == [[TopicPartition("t", 0)]]
    assert group.offsets("acks") == [0, 1]
    assert group.events.count("leave/cooperative") == 1


def test_in_a_loop_what_a_consumer_had_is_told_while_it_may_settle(group: Group, server: Peer) -> None:
    told: list[list[TopicPartition]] = []

    async def main() -> None:
        held: list[Delivered] = []

        async def finish(places: list[TopicPartition]) -> None:
            told.append(places)
            await held[0].ack(wait=True)

        async with AsyncClient(server.url) as client, client.consumer("g", ["t"], on_revoked=finish) as consumer:
            async for message in consumer:
                held.append(message)
                break

    asyncio.run(main())
    assert told == [[TopicPartition("t", 0)]]
    assert group.offsets("acks") == [0]


def test_what_is_raised_on_the_way_out_does_not_keep_a_consumer(group: Group, server: Peer) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    with Client(server.url) as client:
        consumer = client.consumer("g", ["t"], on_revoked=fail).__enter__()
        with pytest.raises(ZeroDivisionError):
            consumer.close()
        consumer.close()
    assert group.events[-1] == "leave/cooperative"


def test_a_consumer_may_be_closed_while_it_is_told(group: Group, server: Peer) -> None:
    with Client(server.url) as client:
        made: list[Consumer] = []
        made.append(client.consumer("g", ["t"], on_revoked=lambda _: made[0].close()).__enter__())
        made[0].close()
    assert group.events.count("leave/cooperative") == 1


def test_nobody_to_join_is_told_within_the_timeout(nobody: str) -> None:
    with Client(nobody, timeout="100ms") as client:
        with pytest.raises(BrokerUnreachable, match=nobody):
            client.consumer("g", ["t"]).__enter__()
        with pytest.raises(BrokerUnreachable, match=nobody):
            next(iter(client.consumer("g", ["t"], until_idle=0)))


def test_in_a_loop_nobody_to_join_is_told_within_the_timeout(nobody: str) -> None:
    async def main() -> None:
        async with AsyncClient(nobody, timeout="100ms") as client:
            with pytest.raises(BrokerUnreachable, match=nobody):
                await client.consumer("g", ["t"]).__aenter__()

    asyncio.run(main())


def test_what_is_not_durable_in_time_says_why(group: Group) -> None:
    with group_of(group) as server:
        url = server.url
        consumer = Client(url, timeout="300ms").consumer("g", ["t"], prefetch=False).__enter__()
        message = next(iter(consumer))
    message.ack()
    with pytest.raises(RequestTimedOut, match=f"the broker at {url}: .*refused") as error:
        consumer.flush()
    assert isinstance(error.value.__cause__, BrokerUnreachable)
    with pytest.raises(RequestTimedOut, match=f"the broker at {url}: .*refused"):
        message.ack(wait=True)
    consumer.close(timeout=0.1)


def test_in_a_loop_what_is_not_durable_in_time_says_why(group: Group) -> None:
    async def main() -> None:
        with group_of(group) as server:
            url = server.url
            consumer = await AsyncClient(url, timeout="300ms").consumer("g", ["t"], prefetch=False).__aenter__()
            message = await anext(aiter(consumer))
        with pytest.raises(RequestTimedOut, match=f"the broker at {url}: .*refused"):
            await message.ack(wait=True)
        await consumer.close(timeout=0.1)

    asyncio.run(main())
