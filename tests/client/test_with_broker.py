"""Both clients and a broker: what is published is read, by threads and in loops."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvloop

from goqueue.client import AsyncClient, Client, Message, Nanoseconds
from goqueue.errors import OffsetOutOfRange, PartitionNotFound, RequestInvalid, TopicExists, TopicNotFound
from goqueue.testing.broker import LocalBroker
from tests.brokers import broker

__all__ = ["broker"]


def values(messages: Any) -> list[bytes | None]:
    return [message.value for message in messages]


def fill(client: Client, count: int = 10, partitions: int = 1) -> None:
    """Messages 0 to `count` in each partition of the topic `t`."""
    client.create_topic("t", partitions=partitions)
    with client.producer() as producer:
        for partition in range(partitions):
            producer.send_many("t", [b"%d" % number for number in range(count)], partition=partition)


# --- topics ---


def test_topics_come_and_go(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        made = client.create_topic("orders", partitions=3)
        assert (made.name, made.partitions) == ("orders", 3)
        assert client.topics() == ["orders"]
        assert client.topic("orders").partitioner == "murmur3"
        with pytest.raises(TopicExists):
            client.create_topic("orders")
        client.delete_topic("orders")
        with pytest.raises(TopicNotFound):
            client.topic("orders")


def test_settings_may_be_changed(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        client.create_topic("t", retention_hours=24)
        assert client.alter_topic("t", retention_hours=48).config["retention_hours"] == 48


def test_the_broker_tells_of_itself(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        assert client.version()
        assert client.health()


def test_a_client_works_in_a_loop_of_another_make(broker: LocalBroker) -> None:
    async def main() -> list[bytes | None]:
        async with AsyncClient(broker.url) as client:
            await client.create_topic("t")
            await client.publish("t", "a")
            return [message.value async for message in await client.reader("t")]

    assert uvloop.run(main()) == [b"a"]


# --- publishing ---


def test_one_message_is_published_and_read(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        client.create_topic("t", partitions=3)
        text = client.publish("t", "text", key="k", headers={"a": "b"}, priority="high")
        raw = client.publish("t", b"\xff\x00", partition=2)
        with pytest.raises(RequestInvalid, match="the value is dict") as error:
            client.publish("t", {"a": 1})  # type: ignore[arg-type]
        assert "JSON" in (error.value.hint or "")
        assert raw.partition == 2
        (first,) = client.reader("t", text.partition, until={text.partition: text.offset + 1})
        assert (first.value, first.key, first.headers, first.priority) == (b"text", b"k", [("a", b"b")], 1)
        assert values(client.reader("t", 2))[-1] == b"\xff\x00"


def test_what_a_producer_sends_is_what_a_reader_gets(broker: LocalBroker) -> None:
    sent = {b"%d" % number: b"v" * number for number in range(500)}
    with Client(broker.url) as client:
        client.create_topic("t", partitions=4)
        with client.producer(compression="zstd") as producer:
            for key, value in sent.items():
                producer.send("t", value, key, {"n": key})
        found = list(client.reader("t"))
    assert {message.key: message.value for message in found} == sent
    assert all(message.headers == [("n", message.key)] for message in found)


def test_a_receipt_agrees_with_the_message(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        client.create_topic("t")
        with client.producer() as producer:
            producer.send_many("t", ["a", "b"])
            receipt = producer.send("t", "c").result()
        message = list(client.reader("t"))[-1]
        assert (message.partition, message.offset, message.timestamp_ns) == receipt[:3]
        assert abs(message.timestamp - datetime.now(UTC)) < timedelta(minutes=5)


def successor(broker: LocalBroker, directory: str) -> LocalBroker:
    """Stop the broker; what comes back has its data and its address, once it is started."""
    broker.stop()
    return LocalBroker(directory, server__port=broker.url.rpartition(":")[2])


def test_a_producer_survives_its_broker(tmp_path: Path) -> None:
    first = LocalBroker(str(tmp_path)).start()
    with Client(first.url) as client:
        client.create_topic("t", partitions=1)
        with client.producer() as producer:
            producer.send("t", "before").result()
            second = successor(first, str(tmp_path))
            delivery = producer.send("t", "after")
            with second:
                assert delivery.result().offset == 1
                assert values(client.reader("t")) == [b"before", b"after"]


# --- where a reader begins and ends ---


def test_a_reader_begins_where_it_is_told(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client)
        third = list(client.reader("t"))[3]
        for start, first in (
            ("earliest", 0),
            ("latest", 10),
            (4, 4),
            ({0: 5}, 5),
            (Nanoseconds(third.timestamp_ns + 1), 10),
            (datetime(2020, 1, 1, tzinfo=UTC), 0),
            ("2020-01-01T00:00:00Z", 0),
        ):
            assert values(client.reader("t", start=start)) == [b"%d" % number for number in range(first, 10)]


def test_a_reader_ends_where_it_is_told(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client)
        for until, end in ((4, 4), ({0: 5}, 5), ("now", 10), (100, 10), ("2020-01-01T00:00:00Z", 0)):
            found = values(client.reader("t", until=until))
            assert found == [b"%d" % number for number in range(end)]


def test_positions_are_where_to_go_on(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client, 200, partitions=2)
        found: list[Message] = []
        positions: dict[int, int] = {}
        while len(found) < 400:
            with client.reader("t", start=positions or "earliest", max_bytes=1000) as reader:
                found += next(reader.batches())
                positions = reader.positions
        assert sorted((message.partition, message.offset) for message in found) == [
            (partition, offset) for partition in range(2) for offset in range(200)
        ]


def test_some_partitions_may_be_chosen(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client, 3, partitions=3)
        assert {message.partition for message in client.reader("t", [0, 2])} == {0, 2}
        with pytest.raises(PartitionNotFound, match="3"):
            client.reader("t", 3)


def test_an_offset_that_is_not_there_raises_or_goes_on_elsewhere(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client)
        with pytest.raises(OffsetOutOfRange) as error:
            list(client.reader("t", start=99, until=200, follow=True))
        assert (error.value.details["first"], error.value.details["next"]) == (0, 10)
        with client.reader("t", start=99, follow=True, on_missing="earliest") as reader:
            assert next(iter(reader)).offset == 0


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("start", [99, {0: 99}])
def test_an_offset_beyond_the_end_is_missing_too(broker: LocalBroker, start: Any, follow: bool) -> None:
    with Client(broker.url) as client:
        fill(client)
        with pytest.raises(OffsetOutOfRange, match="99"):
            list(client.reader("t", start=start, follow=follow))
        found = client.reader("t", start=start, until=10, follow=follow, on_missing="earliest")
        assert [message.offset for message in found] == list(range(10))
        assert list(client.reader("t", start=start, until=10, follow=follow, on_missing="latest")) == []


def test_what_is_given_for_some_partitions_is_given_for_all_that_are_read(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client, partitions=2)
        with pytest.raises(RequestInvalid, match="no offset for t/0, only for \\[1\\]") as error:
            client.reader("t", start={1: 3})
        assert "partitions=" in (error.value.hint or "")
        assert [message.offset for message in client.reader("t", 1, start={1: 8})] == [8, 9]


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": "soon"},
        {"start": -1},
        {"start": 1.5},
        {"start": True},
        {"until": 1.5},
        {"start": {0: "0"}},
        {"start": {1: 0}},
        {"until": "latest"},
        {"on_missing": "ignore"},
        {"max_bytes": 0},
        {"wait": "2m"},
        {"start": datetime(2026, 1, 1)},  # noqa: DTZ001
    ],
)
def test_a_wrong_wish_is_refused(broker: LocalBroker, wrong: dict[str, Any]) -> None:
    with Client(broker.url) as client:
        client.create_topic("t")
        with pytest.raises(RequestInvalid):
            client.reader("t", **wrong)


def test_a_closed_reader_says_so(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client)
        with client.reader("t") as reader:
            pass
        with pytest.raises(RequestInvalid, match="closed"):
            next(iter(reader))


# --- following ---


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_follower_gets_what_comes_later(broker: LocalBroker, partitions: int) -> None:
    with Client(broker.url) as client:
        fill(client, 2, partitions)
        last = partitions - 1
        with client.reader("t", follow=True, wait="1s") as reader, client.producer() as producer:
            messages = iter(reader)
            assert (
                len(
                    {(message.partition, message.offset) for message in (next(messages) for _ in range(2 * partitions))}
                )
                == 2 * partitions
            )
            later = threading.Thread(target=lambda: producer.send("t", "later", partition=last).result())
            later.start()
            assert next(messages).value == b"later"
            later.join()


def test_a_follower_ends_at_an_offset_that_is_yet_to_come(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client, 1)
        with client.reader("t", until=2, follow=True) as reader:
            messages = iter(reader)
            assert next(messages).offset == 0
            client.publish("t", "last")
            assert values(messages) == [b"last"]


def test_a_reader_survives_its_broker(tmp_path: Path) -> None:
    first = LocalBroker(str(tmp_path)).start()
    with Client(first.url) as client:
        fill(client, 1)
        with client.reader("t", follow=True, wait="1s") as reader:
            messages = iter(reader)
            next(messages)
            with successor(first, str(tmp_path)):
                client.publish("t", "later")
                assert next(messages).value == b"later"


# --- the same in an event loop ---


def test_a_loop_publishes_and_reads(broker: LocalBroker) -> None:
    async def main() -> None:
        async with AsyncClient(broker.url) as client:
            made = await client.create_topic("t", partitions=3)
            assert made.partitions == 3
            assert await client.topics() == ["t"]
            await client.publish("t", "one")
            async with client.producer() as producer:
                await (await producer.send("t", "two", "k"))
                await producer.send_many("t", [b"%d" % number for number in range(1000)])
            found = [message.value async for message in await client.reader("t")]
            assert sorted(value or b"" for value in found) == sorted(
                [b"one", b"two", *(b"%d" % number for number in range(1000))]
            )
            await client.delete_topic("t")
            with pytest.raises(TopicNotFound):
                await client.topic("t")

    asyncio.run(main())


def test_a_loop_follows(broker: LocalBroker) -> None:
    async def main() -> None:
        async with AsyncClient(broker.url) as client:
            await client.create_topic("t", partitions=2)
            async with await client.reader("t", follow=True) as reader, client.producer() as producer:
                messages = reader.__aiter__()
                for partition in (0, 1, 0):
                    await producer.send("t", f"to {partition}", partition=partition)
                    await producer.flush()
                    assert (await anext(messages)).value == b"to %d" % partition

    asyncio.run(main())


def test_a_loop_raises_what_is_not_there(broker: LocalBroker) -> None:
    async def main() -> None:
        async with AsyncClient(broker.url) as client:
            await client.create_topic("t")
            with pytest.raises(OffsetOutOfRange):
                async for _ in await client.reader("t", start=5, follow=True):
                    pass
            assert [message async for message in await client.reader("t", start=5, on_missing="latest")] == []

    asyncio.run(main())


def test_a_producer_has_its_topic_created_where_the_broker_is_configured_so(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), topics__auto_create="true") as local, Client(local.url) as client:
        with client.producer() as producer:
            producer.send("surprise", b"here")
        assert [message.value for message in client.reader("surprise", until="now")] == [b"here"]


async def _send_async(url: str, topic: str) -> None:
    async with AsyncClient(url) as client, client.producer() as producer:
        await producer.send(topic, b"here")


def test_an_async_producer_has_its_topic_created_too(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), topics__auto_create="true") as local, Client(local.url) as client:
        asyncio.run(_send_async(local.url, "surprise"))
        assert client.topics() == ["surprise"]


def test_a_topic_that_nobody_created_is_not_made_by_chance(broker: LocalBroker) -> None:
    with Client(broker.url) as client, client.producer() as producer, pytest.raises(TopicNotFound, match="'typo'"):
        producer.send("typo", b"lost")
