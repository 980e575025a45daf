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

from goqueue.client import AsyncClient, Client, Consumer, Delivered, TopicPartition
from goqueue.errors import GroupNotEmpty, GroupNotFound, LeaseExpired, RequestInvalid
from goqueue.testing.broker import LocalBroker


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
    deadline, pause = time.monotonic() + 120, threading.Event()
    while not reached():
        assert time.monotonic() < deadline
        pause.wait(0.01)


# --- alone ---


@pytest.mark.parametrize("prefetch", [False, True])
def test_every_message_is_consumed_in_order(connected: Client, prefetch: bool) -> None:
    fill(connected, 2000, partitions=3)
    found: dict[int, list[bytes | None]] = {0: [], 1: [], 2: []}
    with connected.consumer("g", ["t"], until_idle=0, max_messages=150, prefetch=prefetch) as consumer:
        for message in consumer:
            with message:
                found[message.partition].append(message.value)
    assert set(map(tuple, found.values())) == {tuple(b"%d" % number for number in range(2000))}
    assert connected.group_offsets("g") == {"t": {0: 2000, 1: 2000, 2: 2000}}
    assert connected.group("g")["total_lag"] == 0


def test_consumer_sets_how_its_group_retries(connected: Client) -> None:
    fill(connected, 1)
    attempts: list[int] = []
    options: dict[str, Any] = {"max_retries": 1, "retry_delay": "1ms", "dead_letter_topic": "failed"}
    with connected.consumer("g", ["t"], until_idle="100ms", **options) as consumer:
        for message in consumer:
            attempts.append(message.attempt)
            message.nack(reason="broken")
    assert attempts == [1, 2]
    assert connected.group("g")["settings"] == {"max_retries": 1, "retry_delay": 0.001, "dead_letter_topic": "failed"}
    assert [one["error"] for one in connected.dead_letters("t", group="g")["messages"]] == ["broken"]


def test_consumer_that_joins_again_leaves_changed_settings_alone(connected: Client) -> None:
    fill(connected, 2)
    with connected.consumer("g", ["t"], protocol="eager", max_retries=1, wait="100ms") as consumer:
        one_of(consumer).ack()
        settings = connected.alter_group("g", max_retries=7, visibility_timeout="2m")["settings"]
        assert settings == {"max_retries": 7, "visibility_timeout": 120.0}
        connected.create_topic("u")
        connected.reset_offsets("g", "t", "earliest")
        before = consumer.generation
        until(lambda: one_of(consumer).ack() or consumer.generation > before)
        assert connected.group("g")["settings"] == settings
        assert connected.alter_group("g", max_retries=None)["delivery"]["t"]["max_retries"] == 3


def test_nacked_message_is_retried_and_dead_lettered(connected: Client) -> None:
    fill(connected, 3)
    attempts: list[int] = []
    with connected.consumer("g", ["t"], until_idle="300ms") as consumer:
        for message in consumer:
            if message.value == b"1":
                attempts.append(message.attempt)
                message.nack(delay="10ms", reason="no")
            else:
                message.ack()
        assert (consumer.stats.acked, consumer.stats.nacked) == (2, len(attempts))
    assert attempts == [1, 2, 3, 4]
    (letter,) = connected.reader("t.dlq")
    assert letter.value == b"1"


def test_message_is_redelivered_when_its_lease_is_not_extended(blocking: Client) -> None:
    fill(blocking, 1)
    late: list[Any] = []
    options: dict[str, Any] = {"visibility_timeout": "100ms", "extend_leases": False, "on_expired": late.extend}
    with blocking.consumer("g", ["t"], **options) as consumer:
        first, second = islice(consumer, 2)
        assert (first.offset, first.attempt, second.offset, second.attempt) == (0, 1, 0, 2)
        with pytest.raises(LeaseExpired):
            first.ack(wait=True)
        assert consumer.stats.refused == 1
    assert [refused.ranges for refused in late] == [[(0, 1)]]


def test_dropped_message_is_redelivered(blocking: Client) -> None:
    fill(blocking, 3)
    with blocking.consumer("g", ["t"], visibility_timeout="100ms") as consumer:
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
            assert self.changed.wait_for(lambda: len(self.found) >= count, 120)


def shared(client: Client, members: int) -> bool:
    """Return whether this many members have all partitions."""
    found = client.group("g")["members"]
    having = [member for member in found if member["assigned_partitions"]]
    return len(found) == len(having) == members and sum(len(one["assigned_partitions"]) for one in having) == 4


@pytest.mark.parametrize("protocol", ["cooperative", "eager"])
def test_members_share_partitions_without_duplicates(broker: LocalBroker, blocking: Client, protocol: str) -> None:
    fill(blocking, 100, partitions=4)
    first, second = (Worker(broker.url, protocol=protocol, max_messages=20) for _ in range(2))
    first.start()
    first.wait_for(50)
    second.start()
    until(lambda: shared(blocking, 2))
    with blocking.producer() as producer:
        for partition in range(4):
            producer.send_many("t", [b"x"] * 300, partition=partition)
    second.wait_for(100)
    first.consumer.stop()
    first.join()
    until(lambda: shared(blocking, 1))
    with blocking.producer() as producer:
        for partition in range(4):
            producer.send_many("t", [b"y"] * 10, partition=partition)
    until(lambda: not blocking.group("g")["total_lag"])
    second.consumer.stop()
    second.join()
    done = Counter(first.found + second.found)
    assert set(done) == {(partition, offset) for partition in range(4) for offset in range(410)}
    assert first.found
    assert blocking.group_offsets("g") == {"t": dict.fromkeys(range(4), 410)}
    if protocol == "cooperative":
        assert set(done.values()) == {1}


def test_reassigned_partition_loses_and_repeats_nothing(broker: LocalBroker, blocking: Client) -> None:
    told: list[tuple[str, list[TopicPartition]]] = []
    callbacks: dict[str, Any] = {
        f"on_{word}": lambda places, word=word: told.append((word, places)) for word in ("assigned", "revoked")
    }
    fill(blocking, 10, partitions=2)
    with blocking.consumer("g", ["t"], heartbeat_interval="20ms", max_messages=3, **callbacks) as first:
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
    assert blocking.group_offsets("g") == {"t": {0: 10, 1: 10}}


# --- trouble ---


def test_consumer_continues_after_a_broker_restart(tmp_path: Path, client_class: type[Client], kept_port: str) -> None:
    first = LocalBroker(str(tmp_path), server__port=kept_port).start()
    with client_class(first.url) as client:
        fill(client, 10)
        with client.consumer("g", ["t"], max_messages=2) as consumer:
            messages = iter(consumer)
            before = [next(messages) for _ in range(3)]
            before[0].ack(wait=True)
            first.stop()
            before[1].ack()
            with LocalBroker(str(tmp_path), server__port=kept_port):
                before[2].ack()
                after: list[Delivered] = []
                while len(after) < 7:
                    after.append(next(messages))
                    after[-1].ack()
                consumer.flush()
                assert values([*before, *after]) == [b"%d" % number for number in range(10)]
                assert client.group_offsets("g") == {"t": {0: 10}}
                consumer.close()


# --- in an event loop ---


def test_tasks_share_partitions(broker: LocalBroker, blocking: Client) -> None:
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

    fill(blocking, 200, partitions=3)
    asyncio.run(main())


# --- groups, without a member ---


def test_group_is_described_reset_and_deleted(connected: Client) -> None:
    fill(connected, 10)
    with pytest.raises(GroupNotFound):
        connected.group("g")
    with connected.consumer("g", ["t"]) as consumer:
        assert connected.groups() == ["g"]
        member = consumer.member_id
        assert member is not None
        assert connected.commit_offsets("g", member, {"t": {0: 4}}, consumer.generation) == {"t": {0: 4}}
        assert values(islice(consumer, 1)) == [b"4"]
        with pytest.raises(GroupNotEmpty):
            connected.delete_group("g")
    assert connected.group_offsets("g", "t") == {"t": {0: 4}}
    connected.reset_offsets("g", "t", "shift", shift=-2)
    assert connected.group_offsets("g") == {"t": {0: 2}}
    connected.reset_offsets("g", "t", "time", time="2020-01-01T00:00:00Z", partitions=[0])
    with connected.consumer("g", ["t"]) as consumer:
        assert values(islice(consumer, 1)) == [b"0"]
    with pytest.raises(RequestInvalid):
        connected.reset_offsets("g", "t", "somewhere")
    connected.delete_group("g")
    assert connected.groups() == []
    assert connected.commit_offsets("g", None, {"t": {0: 2}}) == {"t": {0: 2}}  # by a program that never joins
