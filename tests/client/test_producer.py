"""Producers against a peer that loses, refuses and delays: nothing is lost, doubled or silent."""

import asyncio
import os
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from goqueue.client import AsyncClient, Client, Delivery
from goqueue.errors import (
    BrokerOverloaded,
    BrokerStopping,
    GoQueueError,
    LogFenced,
    MessageTooLarge,
    PartitionNotFound,
    RequestInvalid,
    RequestTimedOut,
    TopicNotFound,
)
from goqueue.storage import frame
from tests.client.peers import Asked, Peer, Reply, peer, refusal, reply

TIME = "2026-01-01T00:00:00.000000001Z"


def sections(body: bytes) -> Iterator[tuple[int, list[frame.StoredMessage]]]:
    position = 0
    while position < len(body):
        partition, length = struct.unpack_from(">II", body, position)
        frames = body[position + 8 : position + 8 + length]
        yield partition, [frame.decode(frames, place) for place in frame.walk(frames)]
        position += 8 + length


class Log:
    """A topic of a peer: answers what a producer asks, and keeps what it was sent."""

    def __init__(self, partitions: int = 1, **config: Any) -> None:
        self.partitions: list[list[frame.StoredMessage]] = [[] for _ in range(partitions)]
        self.config = config
        self.troubles: list[Reply] = []
        """What to answer to the next publications instead of taking them."""
        self.hold = threading.Event()
        self.hold.set()
        self.publications: list[bytes] = []

    def answer(self, asked: Asked) -> Reply:
        if asked.target == "/producers/init":
            return reply({"producer_id": 5, "epoch": 0})
        if asked.method == "GET":
            return reply({"name": "t", "partitions": len(self.partitions), "config": self.config})
        self.publications.append(asked.body)
        self.hold.wait()
        return self.troubles.pop(0) if self.troubles else self.take(asked.body)

    def take(self, body: bytes) -> bytes:
        results = []
        for partition, messages in sections(body):
            log = self.partitions[partition]
            first = len(log)
            log += messages
            place = {"partition": partition, "first_offset": first, "next_offset": len(log)}
            results.append({**place, "timestamp": TIME, "duplicate": False})
        return reply({"results": results})

    @property
    def values(self) -> list[bytes]:
        return [message.value for log in self.partitions for message in log]


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def server(log: Log) -> Iterator[Peer]:
    with peer(log.answer) as made:
        yield made
        log.hold.set()


def test_delivery_has_the_position(client: Client) -> None:
    with client.producer() as producer:
        producer.send("t", "first")
        delivery = producer.send("t", "second")
        receipt = delivery.result()
        assert (receipt.partition, receipt.offset, receipt.timestamp_ns) == (0, 1, 1_767_225_600_000_000_001)
        assert (delivery.done(), delivery.offset, delivery.exception()) == (True, 1, None)


def test_everything_is_delivered_in_order_at_the_end_of_the_block(client: Client, log: Log) -> None:
    values = [b"%d" % number for number in range(5000)]
    with client.producer() as producer:
        for value in values[:1000]:
            producer.send("t", value)
        producer.send_many("t", values[1000:])
    assert log.values == values


@pytest.mark.parametrize(
    "trouble",
    [None, refusal("broker_overloaded", 429), refusal("disk_full", 503), refusal("checksum_mismatch", 400)],
)
def test_lost_request_is_repeated_byte_for_byte(client: Client, log: Log, trouble: Reply) -> None:
    log.troubles = [trouble, trouble]
    with client.producer() as producer:
        producer.send("t", "x")
    assert log.values == [b"x"]
    assert len(log.publications) == 3
    assert len(set(log.publications)) == 1


def test_unseen_failure_is_raised_at_the_end_of_the_block(client: Client, log: Log) -> None:
    log.troubles = [refusal("log_fenced", 503)]
    with pytest.raises(LogFenced) as error, client.producer() as producer:
        producer.send_many("t", [b"x", b"y"])
    assert error.value.details["failed"] == 2


def test_flush_raises_failures_once(client: Client, log: Log) -> None:
    log.troubles = [refusal("log_fenced", 503)]
    with client.producer() as producer:
        producer.send("t", "x")
        with pytest.raises(LogFenced):
            producer.flush()
        producer.flush()
        producer.send("t", "y").result()
    assert log.values == [b"y"]


def test_error_in_the_block_has_precedence_over_a_failure(client: Client, log: Log) -> None:
    log.troubles = [refusal("log_fenced", 503)]
    with pytest.raises(RequestInvalid) as error, client.producer() as producer:
        producer.send_many("t", ["x"]) and producer.send("t", 7)  # type: ignore[arg-type]
    assert "1 message was not delivered: " in error.value.__notes__[0]


def test_callbacks_are_called_for_each_message(thread_client: Client, log: Log) -> None:
    told: list[tuple[int | None, type[GoQueueError] | None]] = []

    def tell(delivery: Delivery) -> None:
        error = delivery.exception()
        told.append((delivery.offset, type(error) if error else None))

    with thread_client.producer() as producer:
        producer.send("t", "x", on_delivery=tell)
        producer.send_many("t", [b"y", b"z"], on_delivery=tell)
        producer.flush()
        log.troubles = [refusal("log_fenced", 503)]
        producer.send("t", "x", on_delivery=tell)
    assert told == [(0, None), (1, None), (2, None), (None, LogFenced)]


def test_error_of_a_callback_is_reported_and_others_are_called(
    thread_client: Client, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda what: shown.append(what.exc_type))
    with thread_client.producer() as producer:
        producer.send("t", "x", on_delivery=lambda _: 1 / 0)
        producer.send("t", "y")
    assert (log.values, shown) == ([b"x", b"y"], [ZeroDivisionError])


def test_callback_that_waits_is_refused(thread_client: Client) -> None:
    refused: list[type[Exception]] = []
    with thread_client.producer() as producer:

        def wait(_: Delivery) -> None:
            for act in (producer.flush, producer.close, producer.send("t", "y").result):
                try:
                    act()
                except RequestInvalid as error:
                    refused.append(type(error))

        producer.send("t", "x", on_delivery=wait)
        producer.flush()
    assert refused == [RequestInvalid] * 3


def test_full_buffer_raises_after_max_block(client: Client, log: Log) -> None:
    log.hold.clear()
    with client.producer(buffer_bytes=100, max_block="20ms") as producer:
        producer.send("t", bytes(60))
        with pytest.raises(BrokerOverloaded, match="100"):
            producer.send("t", bytes(60))
        with pytest.raises(BrokerOverloaded):
            producer.send_many("t", [bytes(60)])
        log.hold.set()
    assert len(log.values) == 1


def test_full_buffer_continues_when_there_is_room(client: Client, log: Log) -> None:
    with client.producer(buffer_bytes=1000, linger=60) as producer:
        for _ in range(50):
            producer.send("t", bytes(300))
        producer.send("t", bytes(5000))
    assert len(log.values) == 51


def test_delivery_timeout_fails_the_message(client: Client, log: Log) -> None:
    log.hold.clear()
    with client.producer(delivery_timeout="30ms") as producer:
        error = producer.send("t", "x").exception()
        assert isinstance(error, RequestTimedOut)
        log.hold.set()


def test_wait_for_a_delivery_has_a_timeout(client: Client, log: Log) -> None:
    log.hold.clear()
    with client.producer() as producer:
        delivery, many = producer.send("t", "x"), producer.send_many("t", ["y"])
        for wait in (delivery.result, many.result, producer.flush):
            with pytest.raises(RequestTimedOut):
                wait(timeout=0.01)
        log.hold.set()
    assert delivery.done()


def test_close_with_a_short_timeout_fails_the_rest(client: Client, log: Log) -> None:
    log.hold.clear()
    producer = client.producer()
    delivery = producer.send("t", "x")
    with pytest.raises(BrokerStopping):
        producer.close(timeout=0.01)
    assert isinstance(delivery.exception(), BrokerStopping)
    log.hold.set()


def test_closed_producer_refuses_calls(client: Client) -> None:
    producer = client.producer()
    producer.close()
    producer.close()
    for send in (lambda: producer.send("t", "x"), lambda: producer.send_many("t", ["x"])):
        with pytest.raises(RequestInvalid, match="closed"):
            send()


def test_producer_is_refused_in_a_forked_child(thread_client: Client, log: Log) -> None:
    log.hold.clear()
    with thread_client.producer() as producer:
        delivery = producer.send("t", "x")
        child = os.fork()
        if child == 0:
            refused = 0
            for act in (lambda: producer.send("t", "y"), delivery.result, producer.flush):
                try:
                    act()
                except RequestInvalid as error:
                    refused += "fork" in error.sentence
            producer.close()
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        log.hold.set()
    assert log.values == [b"x"]


# --- what is refused at the call ---


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"value": 7}, RequestInvalid),
        ({"value": None}, RequestInvalid),
        ({"value": "\ud800"}, RequestInvalid),
        ({"value": "x", "key": 7}, RequestInvalid),
        ({"value": "x", "key": bytes(70_000)}, MessageTooLarge),
        ({"value": bytes(1001)}, MessageTooLarge),
        ({"value": "x", "headers": {"__producer": "me"}}, RequestInvalid),
        ({"value": "x", "headers": {"a": bytes(70_000)}}, MessageTooLarge),
        ({"value": "x", "priority": "urgent"}, RequestInvalid),
        ({"value": "x", "priority": 5}, RequestInvalid),
        ({"value": "x", "partition": 1}, PartitionNotFound),
        ({"value": "x", "partition": -1}, PartitionNotFound),
    ],
)
def test_invalid_message_is_refused_at_the_call(
    client: Client, log: Log, message: dict[str, Any], error: type[GoQueueError]
) -> None:
    log.config["max_message_bytes"] = 1000
    many = dict(message)
    values, keys = [many.pop("value")], [many.pop("key")] if "key" in many else None
    with client.producer() as producer:
        with pytest.raises(error):
            producer.send("t", **message)
        with pytest.raises(error):
            producer.send_many("t", [b"sound", *values], keys and [b"k", *keys], **many)
        assert producer.buffered_bytes == 0
    assert log.values == []


def test_send_many_needs_as_many_keys_as_values(client: Client) -> None:
    with client.producer() as producer, pytest.raises(RequestInvalid, match="2 values and 1 keys"):
        producer.send_many("t", ["a", "b"], ["k"])


@pytest.mark.parametrize("options", [{"compression": "gzip"}, {"acks": "some"}, {"batch_bytes": 0}, {"lingr": 1}])
def test_invalid_producer_option_is_named(client: Client, options: dict[str, Any]) -> None:
    with pytest.raises(RequestInvalid, match=next(iter(options))):
        client.producer(**options)


def test_an_unknown_topic_is_refused_at_the_call(server: Peer, client: Client) -> None:
    server.answer = lambda _: refusal("topic_not_found", 404)
    with client.producer() as producer, pytest.raises(TopicNotFound):
        producer.send("t", "x")


def test_recreated_topic_is_requested_again(server: Peer, client: Client, log: Log) -> None:
    with client.producer() as producer:
        producer.send("t", "x").result()
        lost = {"partition": 0, "error": {"error": "gone", "code": "partition_not_found"}}
        log.troubles = [reply({"results": [lost]})]
        assert isinstance(producer.send("t", "y").exception(), PartitionNotFound)
        log.partitions.append([])
        assert producer.send("t", "z", partition=1).result().partition == 1
    assert sum(asked.method == "GET" for asked in server.asked) == 2


# --- what arrives ---


def test_messages_arrive_as_they_were_sent(client: Client, log: Log) -> None:
    with client.producer(compression="zstd") as producer:
        producer.send("t", "text", "key", {"a": "b", "c": b"\xff"}, priority="high")
        producer.send("t", None, b"key")
        producer.send("t", b"x" * 1000)
        producer.send_many("t", [memoryview(b"m"), bytearray(b"a"), "t"], priority=0)
        producer.send_many("t", [None, b"v"], ["k", None])
        producer.send_many("t", [b"h"], headers={"a": "b"})
    found = log.partitions[0]
    assert (found[0].value, found[0].key, found[0].priority) == (b"text", b"key", 1)
    assert found[0].headers[1:] == (("a", b"b"), ("c", b"\xff"))
    assert (found[1].is_tombstone, found[1].key) == (True, b"key")
    assert found[2].flags & frame.COMPRESSED
    assert len(found[2].value) < 100
    assert [(message.value, message.priority) for message in found[3:6]] == [(b"m", 0), (b"a", 0), (b"t", 0)]
    assert [(message.key, message.is_tombstone) for message in found[6:8]] == [(b"k", True), (None, False)]
    assert ("a", b"b") in found[8].headers


@pytest.mark.parametrize("partitioner", ["murmur2", "murmur3"])
def test_a_key_goes_to_its_partition_one_by_one_or_in_bulk(partitioner: str) -> None:
    log = Log(4, partitioner=partitioner)
    keys = [b"%d" % number for number in range(200)]
    with peer(log.answer) as server, Client(server.url) as client, client.producer() as producer:
        single = [producer.send("t", b"x", key) for key in keys]
        simple = producer.send_many("t", [b"x"] * 200, keys)
        mixed = producer.send_many("t", ["x"] * 200, keys)
        expected = [delivery.result().partition for delivery in single]
        assert [receipt.partition for receipt in simple.result()] == expected
        assert [receipt.partition for receipt in mixed.result()] == expected
    for number, messages in enumerate(log.partitions):
        of_one = [message.key for message in messages]
        assert of_one == [key for key, place in zip(keys, expected, strict=True) if place == number] * 3


def test_bulk_receipts_are_in_the_order_of_the_call(client: Client, log: Log) -> None:
    values = [bytes([number % 256]) * (number % 3000) for number in range(3000)]
    with client.producer(request_bytes=20_000) as producer:
        deliveries = producer.send_many("t", values)
        receipts = deliveries.result()
    assert [log.values[receipt.offset or 0] for receipt in receipts] == values
    assert (len(deliveries), deliveries.done(), deliveries.exceptions()) == (3000, True, {})


def test_threads_may_share_a_producer(thread_client: Client, log: Log) -> None:
    def send(name: int) -> None:
        for number in range(300):
            producer.send("t", f"{name}:{number}")

    with thread_client.producer() as producer:
        threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for name in range(4):
        mine = [value for value in log.values if value.startswith(b"%d:" % name)]
        assert mine == [b"%d:%d" % (name, number) for number in range(300)]


def test_callbacks_of_an_async_producer_are_called_in_its_loop(server: Peer, log: Log) -> None:
    called: list[tuple[int | None, type[GoQueueError] | None]] = []

    async def main() -> None:
        async with AsyncClient(server.url) as client, client.producer() as producer:
            await producer.send("t", "x", on_delivery=lambda delivery: called.append((delivery.offset, None)))
            await producer.flush()
            log.troubles = [refusal("log_fenced", 503)]
            await producer.send("t", "y", on_delivery=lambda delivery: called.append((delivery.offset, LogFenced)))
            await producer.flush()

    asyncio.run(main())
    assert called == [(0, None), (None, LogFenced)]
