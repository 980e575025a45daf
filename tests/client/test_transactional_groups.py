"""Consuming, transforming and producing in one transaction, with a broker: each message has its effect once."""

import asyncio
import time
from collections import Counter
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import Client, TopicPartition
from goqueue.errors import LeaseExpired, RequestInvalid, TransactionAborted
from goqueue.testing.broker import LocalBroker
from tests.brokers import broker
from tests.client.either import KINDS, each, entered, refused, run, settled
from tests.client.relay import once, relay
from tests.client.test_transactions_with_broker import Failure, values
from tests.client.test_with_broker import successor

__all__ = ["broker"]

EAGER = {"until_idle": "300ms", "wait": "200ms"}


def fill(url: str, count: int, partitions: int = 1) -> None:
    """Messages 0 to `count` in each partition of `in`, and a topic `out`."""
    with Client(url) as client:
        client.create_topic("in", partitions=partitions)
        client.create_topic("out", partitions=2)
        with client.producer() as producer:
            for partition in range(partitions):
                numbers = [f"{number}" for number in range(count)]
                producer.send_many("in", numbers, numbers, partition=partition)


async def batches(consumer: Any, most: int) -> Any:
    """So many, or as many as there are."""
    found = []
    async for batch in each(consumer.batches()):
        found.append(batch)
        if len(found) == most:
            break
    return found


def left(url: str) -> int:
    with Client(url) as client:
        return int(client.group("g")["total_lag"])


# --- the loop ---


@KINDS
def test_each_message_is_transformed_once(broker: LocalBroker, kind: Any) -> None:
    fill(broker.url, 300, partitions=3)

    async def scenario(client: Any) -> None:
        async with (
            entered(client.producer(transactional_id="p")) as producer,
            entered(client.consumer("g", "in", max_messages=70, **EAGER)) as consumer,
        ):
            async for batch in each(consumer.batches()):
                async with entered(producer.transaction()) as tx:
                    for message in batch:
                        await settled(tx.send("out", message.value + b"!", key=message.key))
                    tx.ack(batch)
            assert consumer.stats.acked == 900

    run(kind, broker.url, scenario)
    assert Counter(values(broker.url, "out")) == dict.fromkeys((f"{number}!" for number in range(300)), 3)
    assert left(broker.url) == 0


@KINDS
def test_what_failed_is_handed_out_again_with_nothing_published(broker: LocalBroker, kind: Any) -> None:
    fill(broker.url, 100)

    async def scenario(client: Any) -> None:
        failures = 0
        async with (
            entered(client.producer(transactional_id="p")) as producer,
            entered(client.consumer("g", "in", max_messages=20, **EAGER)) as consumer,
        ):
            async for batch in each(consumer.batches()):
                try:
                    async with entered(producer.transaction()) as tx:
                        tx.ack(batch)
                        await settled(tx.send_many("out", [message.value for message in batch]))
                        if failures < 2:
                            failures += 1
                            raise Failure
                except Failure:
                    continue

    run(kind, broker.url, scenario)
    assert Counter(values(broker.url, "out")) == dict.fromkeys(map(str, range(100)), 1)
    assert left(broker.url) == 0


# --- acknowledging ---


@KINDS
def test_nothing_is_done_before_the_commit_and_all_of_it_afterwards(broker: LocalBroker, kind: Any) -> None:
    fill(broker.url, 10)

    async def scenario(client: Any) -> None:
        async with (
            entered(client.producer(transactional_id="p")) as producer,
            entered(client.consumer("g", "in", **EAGER)) as consumer,
        ):
            (batch,) = await batches(consumer, 1)
            async with entered(producer.transaction()) as tx:
                tx.ack(batch)
                await settled(consumer.flush())
                assert left(broker.url) == 10
            assert left(broker.url) == 0
            assert await batches(consumer, 1) == []

    run(kind, broker.url, scenario)


@KINDS
def test_messages_may_be_acknowledged_one_by_one(broker: LocalBroker, kind: Any) -> None:
    fill(broker.url, 10)

    async def scenario(client: Any) -> None:
        async with (
            entered(client.producer(transactional_id="p")) as producer,
            entered(client.consumer("g", "in", **EAGER)) as consumer,
        ):
            (batch,) = await batches(consumer, 1)
            async with entered(producer.transaction()) as tx:
                tx.ack(batch[0])
                tx.ack([batch[2], batch[3], batch[9]])
                tx.ack(batch[1])
            for message in batch[4:9]:
                message.nack(delay=0)
            (again,) = await batches(consumer, 1)
            assert [message.offset for message in again] == [4, 5, 6, 7, 8]
            async with entered(producer.transaction()) as tx:
                tx.ack([again])
            assert consumer.stats.acked == 10

    run(kind, broker.url, scenario)
    assert left(broker.url) == 0


@KINDS
def test_the_first_word_about_a_message_counts(broker: LocalBroker, kind: Any) -> None:
    fill(broker.url, 4)

    async def scenario(client: Any) -> None:
        async with (
            entered(client.producer(transactional_id="p")) as producer,
            entered(client.consumer("g", "in", **EAGER)) as consumer,
        ):
            (batch,) = await batches(consumer, 1)
            batch[0].reject("no good")
            async with refused(Failure), entered(producer.transaction()) as tx:
                tx.ack(batch)
                batch.ack()  # in vain: it is the transaction's
                raise Failure
            (again,) = await batches(consumer, 1)
            assert [message.offset for message in again] == [1, 2, 3]
            again.ack()

    run(kind, broker.url, scenario)
    assert left(broker.url) == 0
    assert values(broker.url, "in.dlq") == ["0"]


@KINDS
@pytest.mark.parametrize("early", [False, True], ids=["unsaid", "told"])
def test_after_an_abort_the_messages_come_again(broker: LocalBroker, kind: Any, early: bool) -> None:
    """Whether the broker has heard of them before, or not."""
    fill(broker.url, 5)

    async def scenario(client: Any) -> None:
        async with (
            entered(client.producer(transactional_id="p")) as producer,
            entered(client.consumer("g", "in", **EAGER)) as consumer,
        ):
            (batch,) = await batches(consumer, 1)
            async with refused(LeaseExpired if early else Failure), entered(producer.transaction()) as tx:
                tx.ack(batch)
                if early:  # the broker takes these, and refuses those of another consumer that is gone
                    async with entered(client.consumer("other", "in", **EAGER)) as other:
                        tx.ack(await batches(other, 1))
                else:
                    raise Failure
            (again,) = await batches(consumer, 1)
            assert [message.offset for message in again] == [0, 1, 2, 3, 4]
            again.ack()

    run(kind, broker.url, scenario)
    assert left(broker.url) == 0


@KINDS
def test_an_acknowledgement_that_is_too_late_aborts_everything(broker: LocalBroker, kind: Any) -> None:
    fill(broker.url, 5)

    async def scenario(client: Any) -> None:
        async with entered(client.producer(transactional_id="p")) as producer:
            async with entered(client.consumer("g", "in", **EAGER)) as consumer:
                (batch,) = await batches(consumer, 1)
            async with refused(LeaseExpired), entered(producer.transaction()) as tx:
                await settled(tx.send("out", "never"))
                tx.ack(batch)

    run(kind, broker.url, scenario)
    assert values(broker.url, "out") == []
    assert left(broker.url) == 5


@KINDS
def test_an_answer_about_acknowledgements_that_is_lost_changes_nothing(broker: LocalBroker, kind: Any) -> None:
    fill(broker.url, 5)
    for part in ("/transactions/begin", "/transactions/acks", "/transactions/commit"):
        with relay(broker.url, once(part)) as between:

            async def scenario(client: Any) -> None:
                async with (
                    entered(client.producer(transactional_id="p")) as producer,
                    entered(client.consumer("g", "in", max_messages=1, **EAGER)) as consumer,
                ):
                    (batch,) = await batches(consumer, 1)
                    async with entered(producer.transaction()) as tx:
                        tx.ack(batch)
                    assert consumer.stats.acked == 1

            run(kind, between.peer.url, scenario)
            assert len(between.lost) == 1
    assert left(broker.url) == 2


@KINDS
def test_leases_hold_in_a_long_block(broker: LocalBroker, kind: Any) -> None:
    fill(broker.url, 5)

    async def scenario(client: Any) -> None:
        async with (
            entered(client.producer(transactional_id="p")) as producer,
            entered(client.consumer("g", "in", visibility_timeout=1, **EAGER)) as consumer,
        ):
            (batch,) = await batches(consumer, 1)
            async with entered(producer.transaction()) as tx:
                tx.ack(batch)
                before, deadline = consumer.stats.extensions, time.monotonic() + 30
                while consumer.stats.extensions < before + 3:  # more than a second
                    assert time.monotonic() < deadline
                    await asyncio.sleep(0)
            assert consumer.stats.acked == 5

    run(kind, broker.url, scenario)
    assert left(broker.url) == 0


def test_a_restart_before_the_commit_hands_everything_out_again(tmp_path: Path) -> None:
    first = LocalBroker(str(tmp_path)).start()
    fill(first.url, 5)
    second = first
    try:
        with Client(first.url) as client, client.producer(transactional_id="p") as producer:
            with client.consumer("g", "in", **EAGER) as consumer:
                (batch,) = islice(consumer.batches(), 1)
                tx = producer.transaction().__enter__()
                tx.send_many("out", [message.value for message in batch]).result()
                tx.ack(batch)
                second = successor(first, str(tmp_path)).start()
                with pytest.raises(TransactionAborted):
                    tx.commit()
            with client.consumer("g", "in", **EAGER) as consumer:
                for again in consumer.batches():
                    with producer.transaction() as tx:
                        tx.send_many("out", [message.value for message in again])
                        tx.ack(again)
        assert values(second.url, "out") == list("01234")
        assert left(second.url) == 0
    finally:
        second.stop()


@pytest.mark.parametrize("given", ["text", 7, None, [7], [b"x"]])
def test_only_what_a_consumer_handed_out_is_acknowledged(broker: LocalBroker, given: Any) -> None:
    with (
        Client(broker.url) as client,
        client.producer(transactional_id="p") as producer,
        producer.transaction() as tx,
        pytest.raises(RequestInvalid, match="nothing to acknowledge"),
    ):
        tx.ack(given)


# --- offsets ---


@KINDS
def test_offsets_are_committed_with_the_transaction(broker: LocalBroker, kind: Any) -> None:
    fill(broker.url, 10, partitions=2)

    async def scenario(client: Any) -> None:
        async with (
            entered(client.producer(transactional_id="p")) as producer,
            entered(client.consumer("g", "in", **EAGER)) as consumer,
        ):
            async with entered(producer.transaction()) as tx:
                tx.commit_offsets("g", {("in", 0): 5}, consumer)
                tx.commit_offsets("g", {("in", 0): 7, TopicPartition("in", 1): 3}, consumer)
                await settled(tx.send("out", "x"))
            assert await settled(client.group_offsets("g")) == {"in": {0: 7, 1: 3}}
            async with refused(Failure), entered(producer.transaction()) as tx:
                tx.commit_offsets("g", {("in", 0): 10}, consumer)
                raise Failure
            assert (await settled(client.group_offsets("g")))["in"][0] == 7

    run(kind, broker.url, scenario)


@KINDS
def test_a_group_without_members_has_its_offsets_committed(broker: LocalBroker, kind: Any) -> None:
    fill(broker.url, 10)

    async def scenario(client: Any) -> None:
        async with entered(client.producer(transactional_id="p")) as producer:
            async with entered(producer.transaction()) as tx:
                tx.commit_offsets("alone", {("in", 0): 4})
            assert await settled(client.group_offsets("alone")) == {"in": {0: 4}}

    run(kind, broker.url, scenario)


@pytest.mark.parametrize(
    ("group", "offsets", "sentence"),
    [
        (7, {}, "the group is 7"),
        ("", {}, "no name"),
        ("g", {"in": 1}, "'in' is not a topic and a partition"),
        ("g", {("in", "0"): 1}, "is not a topic and a partition"),
        ("g", {("in", 0): -1}, "the offset of .* is -1"),
        ("g", {("in", 0): True}, "the offset of .* is True"),
    ],
)
def test_wrong_offsets_are_refused_at_the_call(broker: LocalBroker, group: Any, offsets: Any, sentence: str) -> None:
    with (
        Client(broker.url) as client,
        client.producer(transactional_id="p") as producer,
        producer.transaction() as tx,
        pytest.raises(RequestInvalid, match=sentence),
    ):
        tx.commit_offsets(group, offsets)


def test_offsets_are_those_of_the_consumers_own_group(broker: LocalBroker) -> None:
    fill(broker.url, 1)
    with Client(broker.url) as client, client.producer(transactional_id="p") as producer:
        consumer = client.consumer("g", "in")
        with producer.transaction() as tx:
            with pytest.raises(RequestInvalid, match="not joined"):
                tx.commit_offsets("g", {("in", 0): 1}, consumer)
            with pytest.raises(RequestInvalid, match="is of group g"):
                tx.commit_offsets("other", {("in", 0): 1}, consumer)


# --- keys in their order ---


@KINDS
def test_keys_keep_their_order_over_an_abort(broker: LocalBroker, kind: Any) -> None:
    with Client(broker.url) as client:
        client.create_topic("in", partitions=1)
        with client.producer() as producer:
            producer.send_many("in", [f"{number}" for number in range(40)], keys=["a", "b"] * 20)

    async def scenario(client: Any) -> list[tuple[bytes, int]]:
        done: list[tuple[bytes, int]] = []
        failed: set[int] = set()
        async with (
            entered(client.producer(transactional_id="p")) as producer,
            entered(client.consumer("g", "in", order="key", max_messages=8, **EAGER)) as consumer,
        ):
            async for batch in each(consumer.batches()):
                try:
                    async with entered(producer.transaction()) as tx:
                        tx.ack(batch)
                        if batch[0].offset % 3 == 0 and batch[0].offset not in failed:
                            failed.add(batch[0].offset)
                            raise Failure
                    done += [(message.key, message.offset) for message in batch]
                except (Failure, TransactionAborted):
                    continue
        return done

    done = run(kind, broker.url, scenario)
    assert len(done) == 40
    for key in (b"a", b"b"):
        offsets = [offset for of, offset in done if of == key]
        assert offsets == sorted(offsets)


@KINDS
def test_what_was_fetched_ahead_does_not_overtake_what_an_abort_brings_back(broker: LocalBroker, kind: Any) -> None:
    """Also where the broker had been told of it, and so hands it out again by itself."""
    with Client(broker.url) as client:
        client.create_topic("in", partitions=1)
        with client.producer() as producer:
            producer.send_many("in", ["0", "1", "2"], keys=["k"] * 3)

    async def scenario(client: Any) -> list[int]:
        done: list[int] = []
        async with (
            entered(client.producer(transactional_id="p")) as producer,
            entered(client.consumer("gone", "in")) as other,
        ):
            (late,) = await batches(other, 1)
            await settled(other.close())
            async with entered(client.consumer("g", "in", order="key", max_messages=1, **EAGER)) as consumer:
                async for batch in each(consumer.batches()):
                    async with (
                        refused(LeaseExpired) if not done else nullcontext(),
                        entered(producer.transaction()) as tx,
                    ):
                        tx.ack(batch)
                        if not done:
                            tx.ack(late)
                    done.append(batch[0].offset)
        return done

    assert run(kind, broker.url, scenario) == [0, 0, 1, 2]
