"""A consumer that is told to stop while it waits for a broker that does not answer."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from goqueue.client import AsyncClient, Client, Consumer, Delivered
from tests.client.group_peers import Group, group_of
from tests.client.peers import Asked, Peer, Reply


class Deaf:
    """Hangs up on whoever asks for the assignment."""

    def __init__(self) -> None:
        self.was_asked = threading.Event()

    def __call__(self, asked: Asked) -> Reply | bool:
        if "/assignment" not in asked.target:
            return False
        self.was_asked.set()
        return None


@pytest.fixture
def group() -> Group:
    made = Group()
    made.publish(b"a")
    return made


@pytest.fixture
def server(group: Group) -> Iterator[Peer]:
    with group_of(group) as made:
        yield made


def stop_when(deaf: Deaf, consumer: Consumer) -> None:
    assert deaf.was_asked.wait(10)
    consumer.stop()


def test_the_iteration_ends_without_an_error(group: Group, server: Peer) -> None:
    group.before = deaf = Deaf()
    with Client(server.url, timeout="20s") as client, client.consumer("g", ["t"], heartbeat_interval=0.01) as consumer:
        messages = iter(consumer)
        next(messages).ack(wait=True)
        group.change()
        stopping = threading.Thread(target=stop_when, args=(deaf, consumer))
        stopping.start()
        assert list(messages) == []
        stopping.join()


def test_the_iteration_ends_without_an_error_in_an_event_loop(group: Group, server: Peer) -> None:
    group.before = deaf = Deaf()

    async def main() -> None:
        async with (
            AsyncClient(server.url, timeout="20s") as client,
            client.consumer("g", ["t"], heartbeat_interval=0.01) as consumer,
        ):
            messages = aiter(consumer)
            await (await anext(messages)).ack(wait=True)
            group.change()
            rest = asyncio.create_task(collected(messages))
            assert await asyncio.to_thread(deaf.was_asked.wait, 10)
            consumer.stop()
            assert await rest == []

    async def collected(messages: AsyncIterator[Delivered]) -> list[Delivered]:
        return [message async for message in messages]

    asyncio.run(main())
