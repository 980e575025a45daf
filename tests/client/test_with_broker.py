"""Both clients and a broker: what is published is read, by threads and in loops."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvloop

from goqueue.client import AsyncClient, Client, Message, Nanoseconds
from goqueue.errors import OffsetOutOfRange, PartitionNotFound, RequestInvalid, TopicExists, TopicNotFound
from goqueue.testing.broker import LocalBroker

pytestmark = pytest.mark.over_httpx


def values(messages: Any) -> list[bytes | None]:
    return [message.value for message in messages]


def fill(client: Client, count: int = 10, partitions: int = 1) -> None:
    """Messages 0 to `count` in each partition of the topic `t`."""
    client.create_topic("t", partitions=partitions)
    with client.producer() as producer:
        for partition in range(partitions):
            producer.send_many("t", [b"%d" % number for number in range(count)], partition=partition)


@pytest.fixture(scope="module")
def ten(module_broker: LocalBroker) -> str:
    """A broker with the messages 0 to 9 in the topic `t`, for tests that only read."""
    with Client(module_broker.url) as client:
        fill(client)
    return module_broker.url


@pytest.fixture
def filled(ten: str, client_class: type[Client]) -> Iterator[Client]:
    """A client of either kind with that broker."""
    with client_class(ten) as client:
        yield client


# --- topics ---


def test_topics_are_created_and_deleted(connected: Client) -> None:
    made = connected.create_topic("orders", partitions=3)
    assert (made.name, made.partitions) == ("orders", 3)
    assert connected.topics() == ["orders"]
    assert connected.topic("orders").partitioner == "murmur3"
    with pytest.raises(TopicExists):
        connected.create_topic("orders")
    connected.delete_topic("orders")
    with pytest.raises(TopicNotFound):
        connected.topic("orders")


def test_a_topic_that_exists_is_taken_as_it_is(connected: Client) -> None:
    made = connected.create_topic("orders", partitions=3, exist_ok=True, retention_hours=1)
    found = connected.create_topic("orders", partitions=5, exist_ok=True, retention_hours=2)
    assert found == made
    assert (found.partitions, found.config["retention_hours"]) == (3, 1)


def test_topic_settings_can_be_changed(blocking: Client) -> None:
    blocking.create_topic("t", retention_hours=24)
    assert blocking.alter_topic("t", retention_hours=48).config["retention_hours"] == 48


def test_version_and_health_are_returned(blocking: Client) -> None:
    assert blocking.version()
    assert blocking.health()


def test_a_client_works_in_a_loop_of_another_make(broker: LocalBroker) -> None:
    async def main() -> list[bytes | None]:
        async with AsyncClient(broker.url) as client:
            await client.create_topic("t")
            await client.publish("t", "a")
            async with client.reader("t") as reader:
                found = [message.value async for message in reader]
            assert [message.value async for message in client.reader("t")] == found
            assert [message.value async for message in await client.reader("t")] == found
            with pytest.raises(TopicNotFound):
                await client.reader("unknown")
            return found

    assert uvloop.run(main()) == [b"a"]


# --- publishing ---


def test_one_message_is_published_and_read(blocking: Client) -> None:
    blocking.create_topic("t", partitions=3)
    text = blocking.publish("t", "text", key="k", headers={"a": "b"}, priority="high")
    raw = blocking.publish("t", b"\xff\x00", partition=2)
    with pytest.raises(RequestInvalid, match="the value is dict") as error:
        blocking.publish("t", {"a": 1})  # type: ignore[arg-type]
    assert "JSON" in (error.value.hint or "")
    assert raw.partition == 2
    (first,) = blocking.reader("t", text.partition, until={text.partition: text.offset + 1})
    assert (first.value, first.key, first.headers, first.priority) == (b"text", b"k", [("a", b"b")], 1)
    assert values(blocking.reader("t", 2))[-1] == b"\xff\x00"


def test_reader_returns_what_a_producer_sent(connected: Client) -> None:
    sent = {b"%d" % number: b"v" * number for number in range(500)}
    connected.create_topic("t", partitions=4)
    with connected.producer(compression="zstd") as producer:
        for key, value in sent.items():
            producer.send("t", value, key, {"n": key})
    found = list(connected.reader("t"))
    assert {message.key: message.value for message in found} == sent
    assert all(message.headers == [("n", message.key)] for message in found)


def test_receipt_matches_the_message(connected: Client) -> None:
    connected.create_topic("t")
    with connected.producer() as producer:
        producer.send_many("t", ["a", "b"])
        receipt = producer.send("t", "c").result()
    message = list(connected.reader("t"))[-1]
    assert (message.partition, message.offset, message.timestamp_ns) == receipt[:3]
    assert abs(message.timestamp - datetime.now(UTC)) < timedelta(minutes=5)


def successor(broker: LocalBroker, directory: str) -> LocalBroker:
    """Stop the broker; what comes back has its data and its address, once it is started."""
    broker.stop()
    return LocalBroker(directory, server__port=broker.url.rpartition(":")[2])


def test_producer_continues_after_a_broker_restart(tmp_path: Path, client_class: type[Client], kept_port: str) -> None:
    first = LocalBroker(str(tmp_path), server__port=kept_port).start()
    with client_class(first.url) as client:
        client.create_topic("t", partitions=1)
        with client.producer() as producer:
            producer.send("t", "before").result()
            second = successor(first, str(tmp_path))
            delivery = producer.send("t", "after")
            with second:
                assert delivery.result().offset == 1
                assert values(client.reader("t")) == [b"before", b"after"]


# --- where a reader begins and ends ---


def test_reader_starts_at_the_given_position(filled: Client) -> None:
    third = list(filled.reader("t"))[3]
    for start, first in (
        ("earliest", 0),
        ("latest", 10),
        (4, 4),
        ({0: 5}, 5),
        (Nanoseconds(third.timestamp_ns + 1), 10),
        (datetime(2020, 1, 1, tzinfo=UTC), 0),
        ("2020-01-01T00:00:00Z", 0),
    ):
        assert values(filled.reader("t", start=start)) == [b"%d" % number for number in range(first, 10)]


def test_reader_ends_at_the_given_position(filled: Client) -> None:
    for until, end in ((4, 4), ({0: 5}, 5), ("now", 10), (100, 10), ("2020-01-01T00:00:00Z", 0)):
        found = values(filled.reader("t", until=until))
        assert found == [b"%d" % number for number in range(end)]


def test_reader_can_resume_at_its_positions(connected: Client) -> None:
    fill(connected, 200, partitions=2)
    found: list[Message] = []
    positions: dict[int, int] = {}
    while len(found) < 400:
        with connected.reader("t", start=positions or "earliest", max_bytes=1000) as reader:
            found += next(reader.batches())
            positions = reader.positions
    assert sorted((message.partition, message.offset) for message in found) == [
        (partition, offset) for partition in range(2) for offset in range(200)
    ]


def test_reader_reads_selected_partitions(connected: Client) -> None:
    fill(connected, 3, partitions=3)
    assert {message.partition for message in connected.reader("t", [0, 2])} == {0, 2}
    with pytest.raises(PartitionNotFound, match="3"):
        connected.reader("t", 3)


def test_missing_offset_raises_or_continues_elsewhere(filled: Client) -> None:
    with pytest.raises(OffsetOutOfRange) as error:
        list(filled.reader("t", start=99, until=200, follow=True))
    assert (error.value.details["first"], error.value.details["next"]) == (0, 10)
    with filled.reader("t", start=99, follow=True, on_missing="earliest") as reader:
        assert next(iter(reader)).offset == 0


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("start", [99, {0: 99}])
def test_offset_beyond_the_end_is_missing(filled: Client, start: Any, follow: bool) -> None:
    with pytest.raises(OffsetOutOfRange, match="99"):
        list(filled.reader("t", start=start, follow=follow))
    found = filled.reader("t", start=start, until=10, follow=follow, on_missing="earliest")
    assert [message.offset for message in found] == list(range(10))
    assert list(filled.reader("t", start=start, until=10, follow=follow, on_missing="latest")) == []


def test_start_mapping_must_cover_all_partitions(blocking: Client) -> None:
    fill(blocking, partitions=2)
    with pytest.raises(RequestInvalid, match="no offset for t/0, only for \\[1\\]") as error:
        blocking.reader("t", start={1: 3})
    assert "partitions=" in (error.value.hint or "")
    assert [message.offset for message in blocking.reader("t", 1, start={1: 8})] == [8, 9]


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": "soon"}, {"start": -1}, {"start": 1.5}, {"start": True}, {"until": 1.5}, {"start": {0: "0"}},
        {"start": {1: 0}}, {"until": "latest"}, {"on_missing": "ignore"}, {"max_bytes": 0}, {"wait": "2m"},
        {"start": datetime(2026, 1, 1)},  # noqa: DTZ001
    ],
)  # fmt: skip
def test_invalid_reader_option_is_refused(filled: Client, wrong: dict[str, Any]) -> None:
    with pytest.raises(RequestInvalid):
        filled.reader("t", **wrong)


def test_closed_reader_refuses_iteration(filled: Client) -> None:
    with filled.reader("t") as reader:
        pass
    with pytest.raises(RequestInvalid, match="closed"):
        next(iter(reader))


# --- following ---


@pytest.mark.parametrize("partitions", [1, 3])
def test_following_reader_returns_later_messages(connected: Client, partitions: int) -> None:
    fill(connected, 2, partitions)
    last = partitions - 1
    with connected.reader("t", follow=True, wait="1s") as reader, connected.producer() as producer:
        messages = iter(reader)
        assert (
            len({(message.partition, message.offset) for message in (next(messages) for _ in range(2 * partitions))})
            == 2 * partitions
        )
        later = threading.Thread(target=lambda: producer.send("t", "later", partition=last).result())
        later.start()
        assert next(messages).value == b"later"
        later.join()


def test_following_reader_ends_at_a_future_offset(connected: Client) -> None:
    fill(connected, 1)
    with connected.reader("t", until=2, follow=True) as reader:
        messages = iter(reader)
        assert next(messages).offset == 0
        connected.publish("t", "last")
        assert values(messages) == [b"last"]


def test_reader_continues_after_a_broker_restart(tmp_path: Path, client_class: type[Client], kept_port: str) -> None:
    first = LocalBroker(str(tmp_path), server__port=kept_port).start()
    with client_class(first.url) as client:
        fill(client, 1)
        with client.reader("t", follow=True, wait="1s") as reader:
            messages = iter(reader)
            next(messages)
            with successor(first, str(tmp_path)):
                client.publish("t", "later")
                assert next(messages).value == b"later"


# --- the same in an event loop ---


def test_producer_creates_topics_with_auto_create(tmp_path: Path, client_class: type[Client]) -> None:
    with LocalBroker(str(tmp_path / "data"), topics__auto_create="true") as local, client_class(local.url) as client:
        with client.producer() as producer:
            producer.send("surprise", b"here")
        assert [message.value for message in client.reader("surprise", until="now")] == [b"here"]


def test_send_to_an_unknown_topic_fails_without_auto_create(blocking: Client) -> None:
    with blocking.producer() as producer, pytest.raises(TopicNotFound, match="'typo'"):
        producer.send("typo", b"lost")
