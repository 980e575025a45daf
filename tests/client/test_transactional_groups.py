"""Consuming, transforming and producing in one transaction, with a broker: each message has its effect once."""

import threading
import time
from collections import Counter
from contextlib import nullcontext
from itertools import islice
from typing import Any

import pytest

from goqueue.client import Client, TopicPartition
from goqueue.client._sync.transaction import TransactionalProducer
from goqueue.errors import LeaseExpired, RequestInvalid
from goqueue.testing.broker import LocalBroker
from tests.client.bridge import refused
from tests.client.relay import once, relay
from tests.client.test_transactions_with_broker import Failure, values

EAGER: dict[str, Any] = {"until_idle": "300ms", "wait": "200ms"}


def fill(url: str, count: int, partitions: int = 1) -> None:
    """Messages 0 to `count` in each partition of `in`, and a topic `out`."""
    with Client(url) as client:
        client.create_topic("in", partitions=partitions)
        client.create_topic("out", partitions=2)
        with client.producer() as producer:
            for partition in range(partitions):
                numbers = [f"{number}" for number in range(count)]
                producer.send_many("in", numbers, numbers, partition=partition)


def batches(consumer: Any, most: int) -> Any:
    """Return so many, or as many as there are."""
    return list(islice(consumer.batches(), most))


def left(url: str) -> int:
    with Client(url) as client:
        return int(client.group("g")["total_lag"])


# --- the loop ---


def test_each_message_is_transformed_once(
    broker: LocalBroker, connected: Client, producer: TransactionalProducer
) -> None:
    fill(broker.url, 300, partitions=3)
    with connected.consumer("g", "in", max_messages=70, **EAGER) as consumer:
        for batch in consumer.batches():
            with producer.transaction() as tx:
                for message in batch:
                    tx.send("out", (message.value or b"") + b"!", key=message.key)
                tx.ack(batch)
        assert consumer.stats.acked == 900
    assert Counter(values(broker.url, "out")) == dict.fromkeys((f"{number}!" for number in range(300)), 3)
    assert left(broker.url) == 0


# --- acknowledging ---


def test_nothing_is_done_before_the_commit_and_all_of_it_afterwards(
    broker: LocalBroker, connected: Client, producer: TransactionalProducer
) -> None:
    fill(broker.url, 10)
    with connected.consumer("g", "in", **EAGER) as consumer:
        (batch,) = batches(consumer, 1)
        with producer.transaction() as tx:
            tx.ack(batch)
            consumer.flush()
            assert left(broker.url) == 10
        assert left(broker.url) == 0
        assert batches(consumer, 1) == []


def test_messages_may_be_acknowledged_one_by_one(
    broker: LocalBroker, connected: Client, producer: TransactionalProducer
) -> None:
    fill(broker.url, 10)
    with connected.consumer("g", "in", **EAGER) as consumer:
        (batch,) = batches(consumer, 1)
        with producer.transaction() as tx:
            tx.ack(batch[0])
            tx.ack([batch[2], batch[3], batch[9]])
            tx.ack(batch[1])
        for message in batch[4:9]:
            message.nack(delay=0)
        (again,) = batches(consumer, 1)
        assert [message.offset for message in again] == [4, 5, 6, 7, 8]
        with producer.transaction() as tx:
            tx.ack([again])
        assert consumer.stats.acked == 10
    assert left(broker.url) == 0


def test_the_first_word_about_a_message_counts(
    broker: LocalBroker, connected: Client, producer: TransactionalProducer
) -> None:
    fill(broker.url, 4)
    with connected.consumer("g", "in", **EAGER) as consumer:
        (batch,) = batches(consumer, 1)
        batch[0].reject("no good")
        with refused(Failure), producer.transaction() as tx:
            tx.ack(batch)
            batch.ack()  # in vain: it is the transaction's
            raise Failure
        (again,) = batches(consumer, 1)
        assert [message.offset for message in again] == [1, 2, 3]
        again.ack()
    assert left(broker.url) == 0
    assert values(broker.url, "in.dlq") == ["0"]


@pytest.mark.parametrize("early", [False, True], ids=["unsaid", "told"])
def test_after_an_abort_the_messages_come_again(
    broker: LocalBroker, connected: Client, producer: TransactionalProducer, early: bool
) -> None:
    """Parametrize over acks that the broker knows of already, or not."""
    fill(broker.url, 5)
    with connected.consumer("g", "in", **EAGER) as consumer:
        (batch,) = batches(consumer, 1)
        with refused(LeaseExpired if early else Failure), producer.transaction() as tx:
            tx.ack(batch)
            if early:  # the broker takes these, and refuses those of another consumer that is gone
                with connected.consumer("other", "in", **EAGER) as other:
                    tx.ack(batches(other, 1))
            else:
                raise Failure
        (again,) = batches(consumer, 1)
        assert [message.offset for message in again] == [0, 1, 2, 3, 4]
        again.ack()
    assert left(broker.url) == 0


def test_an_answer_about_acknowledgements_that_is_lost_changes_nothing(
    broker: LocalBroker, client_class: type[Client]
) -> None:
    fill(broker.url, 5)
    for part in ("/transactions/begin", "/transactions/acks", "/transactions/commit"):
        with relay(broker.url, once(part)) as between:
            with (
                client_class(between.peer.url) as client,
                client.producer(transactional_id="p") as producer,
                client.consumer("g", "in", max_messages=1, **EAGER) as consumer,
            ):
                (batch,) = batches(consumer, 1)
                with producer.transaction() as tx:
                    tx.ack(batch)
                assert consumer.stats.acked == 1
            assert len(between.lost) == 1
    assert left(broker.url) == 2


def test_leases_hold_in_a_long_block(broker: LocalBroker, connected: Client, producer: TransactionalProducer) -> None:
    fill(broker.url, 5)
    with connected.consumer("g", "in", visibility_timeout=2, **EAGER) as consumer:
        (batch,) = batches(consumer, 1)
        with producer.transaction() as tx:
            tx.ack(batch)
            waiting, before, deadline = threading.Event(), consumer.stats.extensions, time.monotonic() + 120
            while consumer.stats.extensions < before + 3:  # longer than the first lease
                assert time.monotonic() < deadline
                waiting.wait(0.01)
        assert consumer.stats.acked == 5
    assert left(broker.url) == 0


def test_only_what_a_consumer_handed_out_is_acknowledged(producer: TransactionalProducer) -> None:
    with producer.transaction() as tx:
        given: Any
        for given in ("text", 7, None, [7], [b"x"]):
            with pytest.raises(RequestInvalid, match="cannot be acknowledged"):
                tx.ack(given)


# --- offsets ---


def test_offsets_are_committed_with_the_transaction(
    broker: LocalBroker, connected: Client, producer: TransactionalProducer
) -> None:
    fill(broker.url, 10, partitions=2)
    with connected.consumer("g", "in", **EAGER) as consumer:
        with producer.transaction() as tx:
            tx.commit_offsets("g", {("in", 0): 5}, consumer)
            tx.commit_offsets("g", {TopicPartition("in", 0): 7, TopicPartition("in", 1): 3}, consumer)
            tx.send("out", "x")
        assert connected.group_offsets("g") == {"in": {0: 7, 1: 3}}
        with refused(Failure), producer.transaction() as tx:
            tx.commit_offsets("g", {("in", 0): 10}, consumer)
            raise Failure
        assert connected.group_offsets("g")["in"][0] == 7
    with producer.transaction() as tx:
        tx.commit_offsets("alone", {("in", 0): 4})
    assert connected.group_offsets("alone") == {"in": {0: 4}}


WRONG_OFFSETS: list[tuple[Any, Any, str]] = [
    (7, {}, "the group is 7"),
    ("", {}, "no name"),
    ("g", {"in": 1}, "'in' is not a topic and a partition"),
    ("g", {("in", "0"): 1}, "is not a topic and a partition"),
    ("g", {("in", 0): -1}, "the offset of .* is -1"),
    ("g", {("in", 0): True}, "the offset of .* is True"),
]


def test_wrong_offsets_are_refused_at_the_call(producer: TransactionalProducer) -> None:
    with producer.transaction() as tx:
        for group, offsets, sentence in WRONG_OFFSETS:
            with pytest.raises(RequestInvalid, match=sentence):
                tx.commit_offsets(group, offsets)


def test_offsets_are_those_of_the_consumers_own_group(broker: LocalBroker, blocking: Client) -> None:
    fill(broker.url, 1)
    with blocking.producer(transactional_id="p") as producer:
        consumer = blocking.consumer("g", "in")
        with producer.transaction() as tx:
            with pytest.raises(RequestInvalid, match="not joined"):
                tx.commit_offsets("g", {("in", 0): 1}, consumer)
            with pytest.raises(RequestInvalid, match="is of group g"):
                tx.commit_offsets("other", {("in", 0): 1}, consumer)


# --- keys in their order ---


def test_what_was_fetched_ahead_does_not_overtake_what_an_abort_brings_back(
    connected: Client, producer: TransactionalProducer
) -> None:
    """Also where the broker had been told of it, and so hands it out again by itself."""
    connected.create_topic("in", partitions=1)
    with connected.producer() as plain:
        plain.send_many("in", ["0", "1", "2"], keys=["k"] * 3)
    done: list[int] = []
    with connected.consumer("gone", "in") as other:
        (late,) = batches(other, 1)
        other.close()
        with connected.consumer("g", "in", order="key", max_messages=1, **EAGER) as consumer:
            for batch in consumer.batches():
                with (
                    refused(LeaseExpired) if not done else nullcontext(),
                    producer.transaction() as tx,
                ):
                    tx.ack(batch)
                    if not done:
                        tx.ack(late)
                done.append(batch[0].offset)
    assert done == [0, 0, 1, 2]
