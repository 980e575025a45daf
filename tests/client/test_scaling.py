"""Partitions that are added while clients work: producers place keys anew, readers and consumers find what is new."""

import threading
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

from goqueue.client import Client, Delivered
from goqueue.client.accumulator import BatchingRules, TopicQueues, topic_queues
from goqueue.client.delivery import DeliveryHandle, SendBatch
from goqueue.client.message_encoding import frame_fields
from goqueue.client.publish_requests import SectionResult
from goqueue.client.sender import SendStep
from goqueue.errors import KeysWouldMove, LogFenced, PartitionCountStale, RequestInvalid
from goqueue.limits import MIB
from goqueue.partitioner import murmur3, partition_of
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.client.test_accumulator import AT_ONCE, NEVER_DUE, Sender, identity, messages


def keys_of(partition: int, of: int, count: int = 1) -> list[bytes]:
    found = (b"key-%d" % number for number in range(10_000))
    return [key for key in found if partition_of(key, of) == partition][:count]


def add(sender: Sender, key: bytes, value: bytes, topic: TopicQueues | None = None) -> SendBatch:
    known = topic or sender.topic
    queue = known.queues[partition_of(key, len(known.queues))]
    fields = frame_fields(frame.NO_HEADERS, value, key)
    return sender.accumulator.add(known, queue, frame.encode(value, key), fields)


def stale(partitions: int = 4, pieces: Iterable[tuple[int, int]] = ()) -> PartitionCountStale:
    return PartitionCountStale("it has more partitions", partitions=partitions, pieces=list(pieces))


def stored(step: SendStep, first: int = 0) -> list[SectionResult]:
    return [SectionResult(one.partition, first, first + one.count) for one in step.batches]


def contents(step: SendStep) -> dict[int, list[bytes]]:
    return {one.partition: [message.value for message in messages(one.sealed)] for one in step.batches}


# --- the batches of a producer ---


def test_refused_batch_is_placed_anew_with_what_waits_behind_it() -> None:
    sender = Sender(AT_ONCE)
    kept, moved = keys_of(0, 4)[0], keys_of(2, 4)[0]
    batch = add(sender, kept, b"a")
    add(sender, moved, b"b")
    step = sender.step()
    add(sender, moved, b"c")
    assert ("x-goqueue-partitions", "2") in step.call.headers
    assert sender.dispatch.done(step, stale()) == []
    again = sender.step()
    assert ("x-goqueue-partitions", "4") in again.call.headers
    assert contents(again) == {0: [b"a"], 2: [b"b", b"c"]}
    assert [identity(one.sealed)[2:] for one in again.batches] == [(0, 1), (0, 2)]
    assert not batch.settled
    settled = sender.dispatch.done(again, stored(again, 7))
    assert batch in settled
    assert [batch.receipt(index)[:2] for index in (0, 1)] == [(0, 7), (2, 7)]
    assert sender.accumulator.buffered == 0


def test_sequences_go_on_where_the_refused_batch_began() -> None:
    sender = Sender(AT_ONCE)
    kept = keys_of(0, 4)[0]
    add(sender, kept, b"a")
    first = sender.step()
    sender.dispatch.done(first, stored(first))
    add(sender, kept, b"b")
    sender.dispatch.done(sender.step(), stale())
    assert identity(sender.step().batches[0].sealed)[2:] == (1, 1)


def test_nothing_is_sealed_while_it_is_unknown_whether_a_sealed_batch_is_stored() -> None:
    sender = Sender(AT_ONCE)
    one, two = keys_of(0, 4)[0], keys_of(1, 4)[0]
    add(sender, one, b"a")
    add(sender, two, b"b")
    step = sender.step()
    error = {"error": "it has more", "code": "partition_count_stale", "details": {"partitions": 4}}
    unavailable = {"error": "stopping", "code": "broker_stopping"}
    results = [SectionResult(0, error=error), SectionResult(1, error=unavailable)]
    sender.dispatch.done(step, results)
    add(sender, keys_of(3, 4)[0], b"c")  # a key of the batch whose result is not known
    assert sender.idle() is not None
    sender.clock.advance(60)
    retry = sender.step()
    assert contents(retry) == {1: [b"b"]}
    assert ("x-goqueue-partitions", "2") in retry.call.headers
    sender.dispatch.done(retry, stored(retry))
    assert contents(sender.step()) == {0: [b"a"], 3: [b"c"]}


def test_stored_beginning_of_a_refused_batch_is_acknowledged() -> None:
    sender = Sender(AT_ONCE)
    kept, moved = keys_of(0, 4)[0], keys_of(2, 4)[0]
    for value in (b"a", b"b"):
        batch = add(sender, kept, value)
    for value in (b"c", b"d"):
        add(sender, moved, value)
    sender.dispatch.done(sender.step(), stale(pieces=[(5, 6)]))
    again = sender.step()
    assert contents(again) == {0: [b"b"], 2: [b"c", b"d"]}
    assert [identity(one.sealed)[2:] for one in again.batches] == [(1, 1), (0, 2)]
    sender.dispatch.done(again, stored(again, 9))
    assert [batch.receipt(index)[:2] for index in range(4)] == [(0, 5), (0, 9), (2, 9), (2, 10)]
    assert sender.accumulator.buffered == 0


def test_message_for_a_queue_that_was_replaced_meanwhile_is_placed_anew() -> None:
    sender = Sender(AT_ONCE)
    moved, former = keys_of(2, 4)[0], sender.topic.queues[0]
    sender.accumulator.set_partitions(sender.topic, 4)
    sender.accumulator.place_again()
    fields = frame_fields(frame.NO_HEADERS, b"a", moved)
    batch = sender.accumulator.add(sender.topic, former, frame.encode(b"a", moved), fields)
    fixed = sender.accumulator.add(sender.topic, former, frame.encode(b"b", moved), fields, is_fixed=True)
    step = sender.step()
    assert contents(step) == {2: [b"a"], 0: [b"b"]}
    sender.dispatch.done(step, stored(step))
    assert (DeliveryHandle(batch, 0).partition, DeliveryHandle(fixed, 0).partition) == (2, 0)


def test_failure_of_a_part_is_reported_once_for_the_messages_in_it() -> None:
    sender = Sender(AT_ONCE)
    kept, moved = keys_of(0, 4)[0], keys_of(2, 4)[0]
    for value in (b"a", b"b"):
        batch = add(sender, kept, value)
    add(sender, moved, b"c")
    sender.dispatch.done(sender.step(), stale())
    again = sender.step()
    fenced = {"error": "no more", "code": "log_fenced"}
    sender.dispatch.done(again, [SectionResult(0, 1, 3), SectionResult(2, error=fenced)])
    report = sender.dispatch.failures.report()
    assert isinstance(report, LogFenced)
    assert report.details["failed"] == 1
    assert [batch.error_at(index) is None for index in range(3)] == [True, True, False]


def test_wait_for_a_divided_batch_sends_its_parts_at_once() -> None:
    sender = Sender(BatchingRules(batch_messages=3, linger=3600, delivery_timeout=7200))
    for key in (keys_of(0, 4)[0], keys_of(2, 4)[0], keys_of(2, 4)[0]):
        batch = add(sender, key, b"x")
    sender.dispatch.done(sender.step(), stale())
    assert sender.idle() is not None
    woken: list[bool] = []
    batch.wait_with(lambda: woken.append(True))
    again = sender.step()
    assert set(contents(again)) == {0, 2}
    sender.dispatch.done(again, stored(again))
    assert woken == [True]


def test_same_number_again_fails_the_batch_instead_of_repeating_it_forever() -> None:
    sender = Sender(AT_ONCE)
    batch = add(sender, keys_of(0, 2)[0], b"x")
    sender.dispatch.done(sender.step(), stale(2))
    assert isinstance(batch.error, PartitionCountStale)


def test_delayed_messages_are_placed_anew_with_their_times() -> None:
    sender = Sender(NEVER_DUE)
    moved = keys_of(2, 4)[0]
    delayed = topic_queues("t", 2, murmur3, MIB).delayed
    due = ("__deliver_in", b"x" * 8)
    batch = sender.accumulator.add_many(
        delayed, delayed.queues[0], [frame.encode(b"a", moved)], 50, frame_fields(frame.NO_HEADERS, b"a", moved), due
    )
    sender.accumulator.set_partitions(delayed, 4)
    sender.accumulator.place_again()
    assert batch.parts is not None
    ((part, index),) = batch.parts
    assert (part.partition, part.delayed, part.dues[index]) == (2, True, due)


# --- with a broker ---


def test_partitions_are_added_with_typed_answers(connected: Client) -> None:
    connected.create_topic("t", partitions=2)
    connected.publish("t", "a", key="k")
    planned = connected.scale_topic("t", 4, dry_run=True)
    assert (planned.partitions_added, planned.dry_run, connected.topic("t").partitions) == (2, True, 2)
    with pytest.raises(KeysWouldMove) as refused:
        connected.scale_topic("t", 3)
    assert refused.value.details["allowed"] == [4, 6, 8]
    scaled = connected.scale_topic("t", 4)
    assert (scaled.old_partition_count, scaled.new_partition_count, scaled.partitions_added) == (2, 4, 2)
    assert connected.operation(scaled.operation or 0).kind == "topic_scaled"
    status = connected.scaling_status("t")
    assert (status.state, status.partition_count) == ("complete", 4)
    assert [(one.partition, one.parent) for one in status.added] == [(2, 0), (3, 1)]
    with pytest.raises(RequestInvalid):
        connected.scale_topic("t", 3, accept_key_moves=True)


def test_status_names_the_groups_that_wait(connected: Client) -> None:
    connected.create_topic("t", partitions=1)
    connected.publish("t", "a", key="k")
    with connected.consumer("g", ["t"], until_idle=0) as consumer:
        message = next(iter(consumer))
        connected.scale_topic("t", 2)
        (added,) = connected.scaling_status("t").added
        assert [(one.group_id, one.waits_for, one.remaining) for one in added.groups_waiting] == [("g", 0, 1)]
        message.ack()
    (added,) = connected.scaling_status("t").added
    assert (added.groups_waiting, added.groups_reading) == ([], 1)


@pytest.mark.parametrize("options", [{}, {"idempotent": False}, {"linger": 0, "batch_messages": 7}])
def test_producer_uses_new_partitions_and_keeps_the_order_of_keys(connected: Client, options: Any) -> None:
    connected.create_topic("t", partitions=1)
    keys = [b"key-%d" % number for number in range(16)]
    with connected.producer(**options) as producer:
        for number in range(1200):
            producer.send("t", b"%d" % number, key=keys[number % len(keys)])
            if number in (300, 700):
                connected.scale_topic("t", 2 if number == 300 else 4)
    read = list(connected.reader("t"))
    assert sorted(int(message.value or b"") for message in read) == list(range(1200))
    assert {message.partition for message in read} == {0, 1, 2, 3}
    by_key: dict[tuple[bytes | None, int], list[int]] = defaultdict(list)
    for message in read:
        by_key[message.key, message.partition].append(int(message.value or b""))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


def test_consumers_get_every_key_in_its_order_while_partitions_are_added(
    broker: LocalBroker, connected: Client
) -> None:
    connected.create_topic("t", partitions=1)
    keys = [b"key-%d" % number for number in range(8)]
    total, seen, lock = 900, defaultdict[bytes | None, list[int]](list), threading.Lock()

    def handle(message: Delivered) -> None:
        with lock:
            seen[message.key].append(int(message.value or b""))

    def consume() -> None:
        with Client(broker.url) as client:
            while sum(map(len, list(seen.values()))) < total:
                with client.consumer("g", ["t"], max_messages=20, until_idle=0.3) as consumer:
                    for message in consumer:
                        with message:
                            handle(message)

    threads = [threading.Thread(target=consume) for _ in range(2)]
    for thread in threads:
        thread.start()
    with connected.producer(linger=0) as producer:
        for number in range(total):
            producer.send("t", b"%d" % number, key=keys[number % len(keys)])
            if number in (200, 500):
                connected.scale_topic("t", 2 if number == 200 else 4)
    for thread in threads:
        thread.join(60)
    assert sum(map(len, seen.values())) == total
    assert all(numbers == sorted(numbers) for numbers in seen.values())


def test_transaction_goes_on_over_added_partitions(connected: Client) -> None:
    connected.create_topic("t", partitions=1)
    keys = [b"key-%d" % number for number in range(8)]
    with connected.producer(transactional_id="x") as producer, producer.transaction() as transaction:
        for number in range(100):
            transaction.send("t", b"%d" % number, key=keys[number % 8]).result()
            if number == 50:
                connected.scale_topic("t", 2)
    read = list(connected.reader("t"))
    assert sorted(int(message.value or b"") for message in read) == list(range(100))
    assert all(message.partition == 0 or int(message.value or b"") > 50 for message in read)


def test_message_for_an_added_partition_is_taken_without_a_restart(connected: Client) -> None:
    connected.create_topic("t", partitions=1)
    with connected.producer() as producer:
        assert producer.send("t", b"a").result().partition == 0
        connected.scale_topic("t", 2)
        assert producer.send("t", b"b", partition=1).result()[:2] == (1, 0)
        (many,) = producer.send_many("t", [b"c"], partition=1).result()
        assert many[:2] == (1, 1)


def test_reader_follows_into_added_partitions(connected: Client) -> None:
    connected.create_topic("t", partitions=1)
    connected.publish("t", "a", partition=0)
    with connected.reader("t", follow=True, wait=0.2) as reader:
        found = iter(reader)
        assert next(found).value == b"a"
        connected.scale_topic("t", 2)
        connected.publish("t", "b", partition=1)
        message = next(found)
        assert (message.partition, message.value) == (1, b"b")
        assert set(reader.positions) == {0, 1}
    with connected.reader("t", start={0: 1}, follow=True, wait=0.2) as reader:
        assert next(iter(reader)).value == b"b"


def test_delayed_messages_are_delivered_after_partitions_were_added(connected: Client) -> None:
    connected.create_topic("t", partitions=1)
    with connected.producer() as producer:
        producer.send("t", b"a", key=b"k", delay=0.2)
        producer.flush()
        connected.scale_topic("t", 2)
        producer.send("t", b"b", key=b"k", delay=0.2)
    with connected.reader("t", follow=True, wait=0.2) as reader:
        found = iter(reader)
        assert {next(found).value, next(found).value} == {b"a", b"b"}
