"""A consumer for event loops does what the one for threads does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from goqueue.client import AsyncClient, AsyncConsumer, Delivered, Refused, TopicPartition
from goqueue.errors import BrokerUnreachable, GroupMismatch, LeaseExpired, RequestInvalid, RequestTimedOut
from tests.client.group_peers import Group, group_of
from tests.client.peers import Peer, refusal
from tests.client.test_consumer import Trouble, many, numbers


@pytest.fixture
def group() -> Group:
    return Group()


@pytest.fixture
def server(group: Group) -> Iterator[Peer]:
    with group_of(group) as made:
        yield made


def run(server: Peer, main: Callable[[AsyncClient], Awaitable[None]], timeout: str = "5s") -> None:
    """`main` with a client, and nothing is left behind in the loop."""

    async def whole() -> None:
        async with AsyncClient(server.url, timeout=timeout) as client:
            await main(client)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(whole())


async def first(consumer: AsyncConsumer, count: int = 1) -> list[Delivered]:
    found: list[Delivered] = []
    messages: AsyncIterator[Delivered] = aiter(consumer)
    while len(found) < count:
        found.append(await anext(messages))
    return found


async def until(group: Group, reached: Callable[[], bool]) -> None:
    await asyncio.to_thread(group.wait_for, reached)


def test_every_message_is_handed_out_once_and_acked_once(group: Group, server: Peer) -> None:
    async def main(client: AsyncClient) -> None:
        async with client.consumer("g", ["t"], until_idle=0, max_messages=90) as consumer:
            found = []
            async for message in consumer:
                with message:
                    found.append(message.value)
        assert found == numbers(0, 1000)

    group.publish(*numbers(0, 1000))
    run(server, main)
    assert group.offsets("acks") == list(range(1000))
    assert many(group, "leave") == 1


def test_batches_and_acks_that_wait(group: Group, server: Peer) -> None:
    async def main(client: AsyncClient) -> None:
        async with client.consumer("g", ["t"], until_idle=0, max_messages=2) as consumer:
            async for batch in consumer.batches():
                await batch.ack(wait=True)
                assert group.offsets("acks")[-1] == batch[-1].offset

    group.publish(*numbers(0, 5), step=2)
    run(server, main)
    assert group.offsets("acks") == [0, 2, 4, 6, 8]


def test_an_ack_is_sent_although_nobody_asks_for_more(group: Group, server: Peer) -> None:
    async def main(client: AsyncClient) -> None:
        async with client.consumer("g", ["t"]) as consumer:
            (message,) = await first(consumer)
            message.ack()
            await until(group, lambda: group.offsets("acks") == [0])

    group.publish(b"a", b"b")
    run(server, main)


def test_slow_work_keeps_its_lease_and_what_was_fetched_ahead(group: Group, server: Peer) -> None:
    async def main(client: AsyncClient) -> None:
        async with client.consumer("g", ["t"], max_messages=1) as consumer:
            (message,) = await first(consumer)

            def extended() -> set[str]:
                return {entry["lease"] for one in group.settlements for entry in one.get("extensions", ())}

            await until(group, lambda: len(extended()) == 2)
            assert message.value == b"a"

    group.visibility = 0.2
    group.publish(b"a", b"b")
    run(server, main)


def test_heartbeats_go_on_while_the_application_is_busy(group: Group, server: Peer) -> None:
    async def main(client: AsyncClient) -> None:
        async with client.consumer("g", ["t"], heartbeat_interval="10ms"):
            await until(group, lambda: many(group, "heartbeat/cooperative") > 3)

    run(server, main)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("action", ["/settle", "/join", "/leave"])
def test_a_connection_that_breaks_costs_nothing(group: Group, server: Peer, action: str, after: bool) -> None:
    async def main(client: AsyncClient) -> None:
        async with client.consumer("g", ["t"], until_idle=0, max_messages=10) as consumer:
            found = []
            async for message in consumer:
                found.append(message.value)
                message.ack()
            await consumer.flush()
            assert found == numbers(0, 50)

    group.publish(*numbers(0, 50))
    group.before = Trouble(group, action, after=after)
    run(server, main)
    assert group.offsets("acks") == list(range(50))


def test_a_broker_that_stays_away_is_told_to_who_waits(group: Group, server: Peer) -> None:
    async def main(client: AsyncClient) -> None:
        async with client.consumer("g", ["t"]) as consumer:
            group.before = lambda asked: None if "/poll" in asked.target else False
            with pytest.raises(BrokerUnreachable):
                await first(consumer)
            group.before = lambda _: False
            assert [message.value for message in await first(consumer)] == [b"a"]

    group.publish(b"a")
    run(server, main, timeout="200ms")


def test_a_flush_ends_in_time_and_so_does_closing(group: Group, server: Peer) -> None:
    async def main(client: AsyncClient) -> None:
        consumer = client.consumer("g", ["t"])
        (message,) = await first(consumer)
        message.ack()
        group.before = lambda asked: None if "/poll" not in asked.target else False
        with pytest.raises(RequestTimedOut):
            await consumer.flush(timeout="100ms")
        await consumer.close(timeout=0.1)
        for use in (consumer.flush, consumer.__aenter__, lambda: first(consumer)):
            with pytest.raises(RequestInvalid, match="closed"):
                await use()

    group.publish(b"a")
    run(server, main)
    assert group.offsets("acks") == []


def test_what_came_too_late_is_told(group: Group, server: Peer) -> None:
    told: list[Refused] = []

    async def note(refused: list[Refused]) -> None:
        told.extend(refused)

    async def main(client: AsyncClient) -> None:
        async with client.consumer("g", ["t"], on_expired=note) as consumer:
            one, other = await first(consumer, 2)
            group.expired |= set(group.leases)
            with pytest.raises(LeaseExpired):
                await one.ack(wait=True)
            other.ack()
            with pytest.raises(LeaseExpired, match="2 messages"):
                await consumer.flush()

    group.publish(b"a", b"b")
    run(server, main)
    assert [one.ranges for one in told] == [[(0, 1)], [(1, 2)]]


def test_what_the_broker_refuses_is_raised(group: Group, server: Peer) -> None:
    async def main(client: AsyncClient) -> None:
        with pytest.raises(GroupMismatch):
            async with client.consumer("g", ["t"]):
                pass

    group.before = lambda _: refusal("group_mismatch", 409)
    run(server, main)


def test_another_task_may_end_the_iteration(group: Group, server: Peer) -> None:
    async def main(client: AsyncClient) -> None:
        async with client.consumer("g", ["t"]) as consumer:
            (message,) = await first(consumer)
            message.ack()
            asyncio.get_running_loop().call_soon(consumer.stop)
            assert [message async for message in consumer] == []

    group.publish(b"a")
    run(server, main)
    assert group.offsets("acks") == [0]


def test_a_task_that_is_cancelled_leaves(group: Group, server: Peer) -> None:
    async def main(client: AsyncClient) -> None:
        started = asyncio.Event()

        async def consume() -> None:
            async with client.consumer("g", ["t"]) as consumer:
                async for message in consumer:
                    with message:
                        started.set()
                        await asyncio.Event().wait()

        task = asyncio.create_task(consume())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    group.publish(b"a", b"b")
    run(server, main)
    assert [(action, offset) for action, _, _, offset in group.settled] == [("releases", 0)]
    assert many(group, "leave") == 1


def test_a_partition_is_given_up_and_another_comes(group: Group, server: Peer) -> None:
    told: list[tuple[str, int]] = []

    def note(word: str) -> Any:
        async def note(partitions: list[TopicPartition]) -> None:
            told.extend((word, one.partition) for one in partitions)

        return note

    async def main(client: AsyncClient) -> None:
        callbacks = {f"on_{word}": note(word) for word in ("assigned", "revoked", "lost")}
        async with client.consumer("g", ["t"], heartbeat_interval=0.01, until_idle=0, **callbacks) as consumer:
            found = []
            async for message in consumer:
                message.ack()
                found.append(message.value)
                if message.value == b"a":
                    group.publish(b"x", partition=1)
                    group.change(revoke=[("t", 0)])
                    await until(group, lambda: consumer._attention)
            assert found == [b"a", b"x"]
            assert consumer.assignment == [TopicPartition("t", 1)]

    group.publish(b"a", b"b")
    run(server, main)
    assert told == [("assigned", 0), ("revoked", 0), ("assigned", 1), ("revoked", 1)]


@pytest.mark.parametrize("protocol", ["cooperative", "eager"])
def test_a_poll_that_does_not_end_by_itself_is_not_waited_for(group: Group, server: Peer, protocol: str) -> None:
    async def main(client: AsyncClient) -> None:
        options: dict[str, Any] = {"heartbeat_interval": 0.01, "protocol": protocol, "wait": "60s"}
        async with client.consumer("g", ["t"], **options) as consumer:
            (message,) = await first(consumer)
            await message.ack(wait=True)
            waiting = asyncio.create_task(first(consumer))
            await until(group, lambda: many(group, "heartbeat") > 1)
            group.change()
            await until(group, lambda: consumer.stats.assignments > 1)
            waiting.cancel()
            await asyncio.wait([waiting])

    group.wakes = False
    group.publish(b"a")
    run(server, main)


@pytest.mark.parametrize("protocol", ["cooperative", "eager"])
def test_a_member_that_was_forgotten_joins_again(group: Group, server: Peer, protocol: str) -> None:
    async def main(client: AsyncClient) -> None:
        async with client.consumer("g", ["t"], heartbeat_interval=0.01, protocol=protocol) as consumer:
            assert [message.value for message in await first(consumer)] == [b"a"]
            group.forget_members()
            await until(group, lambda: consumer._attention)
            assert [message.value for message in await first(consumer)] == [b"a"]

    group.publish(b"a", b"b")
    run(server, main)
