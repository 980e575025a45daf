"""Consumers and a broker: groups share out, hand over, try again and survive."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import AsyncClient, Client, Consumer, Delivered, TopicPartition, polls
from goqueue.errors import GroupMismatch, GroupNotEmpty, GroupNotFound, LeaseExpired, RequestInvalid, TopicNotFound
from goqueue.testing.broker import LocalBroker
from tests.brokers import broker

__all__ = ["broker"]


def fill(client: Client, count: int, partitions: int = 1, topic: str = "t") -> None:
    """Messages 0 to `count` in each partition."""
    client.create_topic(topic, partitions=partitions)
    with client.producer() as producer:
        for partition in range(partitions):
            producer.send_many(topic, [b"%d" % number for number in range(count)], partition=partition)


def values(messages: Any) -> list[bytes | None]:
    return [message.value for message in messages]


def one_of(consumer: Consumer) -> Any:
    return next(iter(consumer))


def until(reached: Callable[[], object]) -> None:
    """Ask again and again; what never happens fails instead of hanging."""
    deadline = time.monotonic() + 30
    while not reached():
        assert time.monotonic() < deadline


# --- alone ---


@pytest.mark.parametrize("prefetch", [False, True])
def test_every_message_is_read_in_order_and_done_with(broker: LocalBroker, prefetch: bool) -> None:
    with Client(broker.url) as client:
        fill(client, 2000, partitions=3)
        found: dict[int, list[bytes | None]] = {0: [], 1: [], 2: []}
        with client.consumer("g", ["t"], until_idle=0, max_messages=150, prefetch=prefetch) as consumer:
            for message in consumer:
                with message:
                    found[message.partition].append(message.value)
        assert set(map(tuple, found.values())) == {tuple(b"%d" % number for number in range(2000))}
        assert client.group_offsets("g") == {"t": {0: 2000, 1: 2000, 2: 2000}}
        assert client.group("g")["total_lag"] == 0


def test_a_message_carries_all_that_was_published(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        client.create_topic("t", partitions=1)
        client.publish("t", b"v" * 500, key="k", headers={"a": "b"}, priority="high")
        with client.consumer("g", ["t"]) as consumer:
            message = one_of(consumer)
            assert (message.value, message.key, message.headers, message.priority) == (
                b"v" * 500,
                b"k",
                [("a", b"b")],
                1,
            )
            assert message.receipt_handle.startswith("t:0:0:1:")


def test_what_comes_later_is_waited_for(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        client.create_topic("t")
        with client.consumer("g", ["t"]) as consumer:
            later = threading.Thread(target=client.publish, args=("t", "later"))
            later.start()
            assert one_of(consumer).value == b"later"
            later.join()


def test_a_nacked_message_comes_back_and_is_a_dead_letter_in_the_end(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client, 3)
        attempts: list[int] = []
        with client.consumer("g", ["t"], until_idle="300ms") as consumer:
            for message in consumer:
                if message.value == b"1":
                    attempts.append(message.attempt)
                    message.nack(delay="10ms", reason="no")
                else:
                    message.ack()
            assert (consumer.stats.acked, consumer.stats.nacked) == (2, len(attempts))
        assert attempts == [1, 2, 3, 4]
        (letter,) = client.reader("t.dlq")
        assert letter.value == b"1"


def test_a_rejected_message_is_a_dead_letter_when_that_is_answered(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client, 2)
        with client.consumer("g", ["t"]) as consumer:
            one_of(consumer).reject(reason="wrong", wait=True)
            assert values(client.reader("t.dlq")) == [b"0"]


def test_dead_letters_are_sent_back(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client, 3)
        with client.consumer("g", ["t"]) as consumer:
            for message in islice(consumer, 3):
                message.reject(reason="wrong", wait=True)
            assert client.redrive("t", dry_run=True)["matched"] == 3
            assert client.redrive("t", limit=2)["moved"] == 2
            assert sorted(message.value or b"" for message in islice(consumer, 2)) == [b"0", b"1"]


def test_what_is_given_back_comes_again_and_counts_as_no_failure(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client, 2)
        with client.consumer("g", ["t"]) as consumer:
            message = one_of(consumer)
            message.release(wait=True)
        for _ in range(6):
            with client.consumer("g", ["t"]) as consumer:
                assert values(islice(consumer, 2)) == [b"0", b"1"]
        assert not [name for name in client.topics() if name.endswith(".dlq")]


def test_slow_work_keeps_its_messages(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client, 4)
        with client.consumer("g", ["t"], visibility_timeout="1s", max_messages=2) as consumer:
            message = one_of(consumer)
            until(lambda: client.health() and consumer.stats.extensions >= 4)  # of two leases: one was fetched ahead
            message.ack(wait=True)
            found = [message, *islice(consumer, 3)]
            assert values(found) == [b"0", b"1", b"2", b"3"]
            assert {message.attempt for message in found} == {1}


def test_without_extensions_a_message_comes_again(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client, 1)
        late: list[Any] = []
        options: dict[str, Any] = {"visibility_timeout": "100ms", "extend_leases": False, "on_expired": late.extend}
        with client.consumer("g", ["t"], **options) as consumer:
            first, second = islice(consumer, 2)
            assert (first.offset, first.attempt, second.offset, second.attempt) == (0, 1, 0, 2)
            with pytest.raises(LeaseExpired):
                first.ack(wait=True)
            assert consumer.stats.refused == 1
        assert [refused.ranges for refused in late] == [[(0, 1)]]


def test_what_is_dropped_comes_again(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client, 3)
        with client.consumer("g", ["t"], visibility_timeout="100ms") as consumer:
            assert values(islice(consumer, 3)) == [b"0", b"1", b"2"]
            again = list(islice(consumer, 3))
            assert sorted((message.value, message.attempt) for message in again) == [(b"0", 2), (b"1", 2), (b"2", 2)]


# --- together ---


class Worker(threading.Thread):
    """Consumes until it is stopped, and keeps what it got."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__()
        self.client = Client(url)
        self.consumer = self.client.consumer("g", ["t"], heartbeat_interval="50ms", **options)
        self.found: list[tuple[int, int]] = []
        self.changed = threading.Condition()

    def run(self) -> None:
        with self.consumer:
            for message in self.consumer:
                with self.changed, message:
                    self.found.append((message.partition, message.offset))
                    self.changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.found) >= count, 20)


def shared(client: Client, members: int) -> bool:
    """Whether so many members have all partitions."""
    found = client.group("g")["members"]
    having = [member for member in found if member["assigned_partitions"]]
    return len(found) == len(having) == members and sum(len(one["assigned_partitions"]) for one in having) == 4


@pytest.mark.parametrize("protocol", ["cooperative", "eager"])
def test_members_share_out_and_no_message_is_done_twice(broker: LocalBroker, protocol: str) -> None:
    with Client(broker.url) as client:
        fill(client, 100, partitions=4)
        first, second = (Worker(broker.url, protocol=protocol, max_messages=20) for _ in range(2))
        first.start()
        first.wait_for(50)
        second.start()
        until(lambda: shared(client, 2))
        with client.producer() as producer:
            for partition in range(4):
                producer.send_many("t", [b"x"] * 300, partition=partition)
        second.wait_for(100)
        first.consumer.stop()
        first.join()
        until(lambda: shared(client, 1))
        with client.producer() as producer:
            for partition in range(4):
                producer.send_many("t", [b"y"] * 10, partition=partition)
        until(lambda: not client.group("g")["total_lag"])
        second.consumer.stop()
        second.join()
        done = Counter(first.found + second.found)
        assert set(done) == {(partition, offset) for partition in range(4) for offset in range(410)}
        assert first.found
        assert client.group_offsets("g") == {"t": dict.fromkeys(range(4), 410)}
        if protocol == "cooperative":
            assert set(done.values()) == {1}


def test_a_partition_goes_over_without_a_message_lost_or_doubled(broker: LocalBroker) -> None:
    told: list[tuple[str, list[TopicPartition]]] = []
    callbacks = {
        f"on_{word}": lambda places, word=word: told.append((word, places)) for word in ("assigned", "revoked")
    }
    with Client(broker.url) as client:
        fill(client, 10, partitions=2)
        with client.consumer("g", ["t"], heartbeat_interval="20ms", max_messages=3, **callbacks) as first:
            messages = iter(first)
            mine = [next(messages)]
            other = Worker(broker.url)
            other.start()
            while len(first.assignment) == 2:
                mine.append(next(messages))
            assert [word for word, _ in told] == ["assigned", "revoked"]
            for message in mine:
                if message.partition == first.assignment[0].partition:
                    message.ack()
            left = 10 - sum(message.partition == first.assignment[0].partition for message in mine)
            for message in islice(messages, left):
                message.ack()
            first.flush()
            other.wait_for(10)
            other.consumer.stop()
            other.join()
        assert first.stats.refused == 0
        (place,) = told[1][1]
        assert Counter(other.found) == Counter({(place.partition, offset): 1 for offset in range(10)})
        assert client.group_offsets("g") == {"t": {0: 10, 1: 10}}


# --- trouble ---


def test_a_consumer_survives_its_broker(tmp_path: Path) -> None:
    first = LocalBroker(str(tmp_path)).start()
    with Client(first.url) as client:
        fill(client, 10)
        with client.consumer("g", ["t"], max_messages=2) as consumer:
            messages = iter(consumer)
            before = [next(messages) for _ in range(3)]
            before[0].ack(wait=True)
            first.stop()
            before[1].ack()
            with LocalBroker(str(tmp_path), server__port=first.url.rpartition(":")[2]):
                before[2].ack()
                after: list[Delivered] = []
                while len(after) < 7:
                    after.append(next(messages))
                    after[-1].ack()
                consumer.flush()
                assert values([*before, *after]) == [b"%d" % number for number in range(10)]
                assert client.group_offsets("g") == {"t": {0: 10}}
                consumer.close()


def test_a_member_that_was_forgotten_joins_again(broker: LocalBroker) -> None:
    lost: list[TopicPartition] = []
    with Client(broker.url) as client:
        fill(client, 5)
        with client.consumer("g", ["t"], heartbeat_interval="20ms", on_lost=lost.extend, prefetch=False) as consumer:
            messages = iter(consumer)
            next(messages)
            assert consumer.member_id is not None
            client.call(polls.leave("g", consumer.member_id, cooperative=True))  # somebody in its name
            until(lambda: client.health() and consumer._attention)
            message = next(messages)
            assert message.value == b"0"
            assert lost == [TopicPartition("t", 0)]


def test_what_cannot_be_joined_says_why(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        with pytest.raises(TopicNotFound):
            client.consumer("g", ["nothing"]).__enter__()
        fill(client, 1)
        with client.consumer("g", ["t"]), pytest.raises(GroupMismatch):
            client.consumer("g", ["t"], protocol="eager").__enter__()


# --- in an event loop ---


def test_a_loop_consumes_and_settles(broker: LocalBroker) -> None:
    async def main() -> None:
        async with AsyncClient(broker.url) as client:
            async with client.consumer("g", ["t"], until_idle="200ms", max_messages=70) as consumer:
                found = []
                async for message in consumer:
                    found.append((message.partition, message.offset))
                    if message.offset == 7 and message.attempt == 1:
                        message.nack(delay=0)
                    else:
                        message.ack()
                await consumer.flush()
                assert consumer.stats.nacked == 2
            assert set(found) == {(partition, offset) for partition in range(2) for offset in range(500)}
            assert len(found) == 1002
            assert await client.group_offsets("g") == {"t": {0: 500, 1: 500}}
            assert await client.groups() == ["g"]
            assert (await client.group("g"))["members"] == []
            moved = await client.reset_offsets("g", "t", "earliest", dry_run=True)
            assert [one["after"] for one in moved["partitions"]] == [0, 0]
            await client.delete_group("g")
            assert await client.groups() == []

    with Client(broker.url) as client:
        fill(client, 500, partitions=2)
    asyncio.run(main())


def test_tasks_share_out(broker: LocalBroker) -> None:
    async def consume(client: AsyncClient, found: list[tuple[int, int]]) -> None:
        async with client.consumer(
            "g", ["t"], until_idle="500ms", heartbeat_interval="50ms", max_messages=9
        ) as consumer:
            async for message in consumer:
                with message:
                    found.append((message.partition, message.offset))

    async def main() -> None:
        found: list[tuple[int, int]] = []
        async with AsyncClient(broker.url) as client:
            await asyncio.gather(*(consume(client, found) for _ in range(3)))
        assert Counter(found) == Counter((partition, offset) for partition in range(3) for offset in range(200))

    with Client(broker.url) as client:
        fill(client, 200, partitions=3)
    asyncio.run(main())


# --- groups, without a member ---


def test_a_group_is_looked_at_moved_and_deleted(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client, 10)
        with pytest.raises(GroupNotFound):
            client.group("g")
        with client.consumer("g", ["t"]) as consumer:
            assert client.groups() == ["g"]
            member = consumer.member_id
            assert member is not None
            assert client.commit_offsets("g", member, {"t": {0: 4}}, consumer.generation) == {"t": {0: 4}}
            assert values(islice(consumer, 1)) == [b"4"]
            with pytest.raises(GroupNotEmpty):
                client.delete_group("g")
        assert client.group_offsets("g", "t") == {"t": {0: 4}}
        client.reset_offsets("g", "t", "shift", shift=-2)
        assert client.group_offsets("g") == {"t": {0: 2}}
        client.reset_offsets("g", "t", "time", time="2020-01-01T00:00:00Z", partitions=[0])
        with client.consumer("g", ["t"]) as consumer:
            assert values(islice(consumer, 1)) == [b"0"]
        with pytest.raises(RequestInvalid):
            client.reset_offsets("g", "t", "somewhere")
        client.delete_group("g")
        assert client.groups() == []
