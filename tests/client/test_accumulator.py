"""The batches of a producer: gathering, sending and retrying, with a clock that the test moves."""

import struct
from typing import Any

import pytest

from goqueue.client import publish_requests
from goqueue.client.accumulator import (
    OWN_HEADERS_BYTES_MAX,
    SEQUENCES,
    Accumulator,
    BatchingRules,
    TopicQueues,
    topic_queues,
)
from goqueue.client.delivery import SendBatch
from goqueue.client.message_encoding import as_headers, frame_fields
from goqueue.client.sender import BatchSender, SendStep
from goqueue.errors import (
    BrokerStopping,
    BrokerUnreachable,
    GoQueueError,
    LogFenced,
    MessageTooLarge,
    QuotaExceeded,
    RequestTimedOut,
    TopicNotFound,
)
from goqueue.limits import MIB
from goqueue.partitioner import murmur3
from goqueue.storage import frame
from goqueue.testing.clock import ManualClock

NEVER_DUE = BatchingRules(batch_messages=10**9, batch_bytes=10**9, linger=3600, delivery_timeout=7200)
AT_ONCE = BatchingRules(linger=0)


class Sender:
    """A producer without its thread."""

    def __init__(self, rules: BatchingRules = AT_ONCE, partitions: int = 2) -> None:
        self.clock = ManualClock()
        self.accumulator = Accumulator(rules, self.clock)
        self.dispatch = BatchSender(self.accumulator, self.clock, "leader")
        self.topic = topic_queues("t", partitions, murmur3, MIB)
        self.accumulator.identity = (7, 1)

    def add(self, value: bytes = b"x", partition: int | None = None, topic: TopicQueues | None = None) -> SendBatch:
        known = topic or self.topic
        queue = known.sticky if partition is None else known.queues[partition]
        return self.accumulator.add(known, queue, frame.encode(value), frame_fields(frame.NO_HEADERS, value))

    def take(self) -> list[SendBatch]:
        return self.accumulator.take(self.clock.monotonic_ns())

    def step(self) -> SendStep:
        step, _, _ = self.dispatch.next()
        assert step is not None
        return step

    def idle(self) -> float | None:
        step, seconds, _ = self.dispatch.next()
        assert step is None
        return seconds


def messages(section: bytes | None) -> list[frame.StoredMessage]:
    assert section is not None
    (length,) = struct.unpack_from(">I", section, 4)
    assert len(section) == 8 + length
    return [frame.decode(section[8:], position) for position in frame.walk(section[8:])]


def identity(section: bytes | None) -> tuple[int, ...]:
    """Producer, epoch, sequence and count of a section."""
    name, value = messages(section)[0].headers[0]
    assert name == "__producer"
    return struct.unpack(">qhII", value)


# --- when something is due ---


def test_a_message_waits_for_others_until_it_lingered() -> None:
    sender = Sender(BatchingRules(linger=0.005))
    sender.add()
    assert sender.take() == []
    assert sender.idle() == pytest.approx(0.005)
    sender.clock.advance(0.005)
    assert len(sender.take()) == 1


@pytest.mark.parametrize(
    "rules", [BatchingRules(batch_messages=3, linger=9), BatchingRules(batch_bytes=3 * 37, linger=9)]
)
def test_a_full_batch_does_not_wait(rules: BatchingRules) -> None:
    sender = Sender(rules, partitions=1)
    sender.add()
    sender.add()
    assert sender.take() == []
    sender.add()
    assert [batch.count for batch in sender.take()] == [3]


def test_batch_is_due_when_a_caller_waits() -> None:
    sender = Sender(NEVER_DUE)
    batch = sender.add()
    batch.wait_with(lambda: None)
    assert sender.take() == [batch]


def test_what_is_in_a_hurry_takes_everything() -> None:
    sender = Sender(NEVER_DUE)
    sender.add(partition=0)
    sender.accumulator.hurry += 1
    assert len(sender.take()) == 1


def test_what_is_due_takes_the_other_partitions_along() -> None:
    sender = Sender(BatchingRules(batch_messages=2, linger=9), partitions=3)
    for partition in (0, 1, 2, 0):
        sender.add(partition=partition)
    assert sorted(batch.partition for batch in sender.take()) == [0, 1, 2]


def test_a_request_stays_within_its_size_unless_one_message_needs_more() -> None:
    sender = Sender(BatchingRules(linger=0, request_bytes=1000), partitions=1)
    first, second = sender.add(bytes(600)), sender.add(bytes(600))
    large = sender.add(bytes(5000))
    for expected in (first, second, large):
        assert sender.take() == [expected]
        sender.accumulator.acknowledge(expected, 0, None)


def test_a_request_is_for_one_topic_and_each_has_its_turn() -> None:
    sender, other = Sender(partitions=1), topic_queues("u", 1, murmur3, MIB)
    for _ in range(2):
        sender.add()
        sender.add(topic=other)
        taken = []
        for _ in range(2):
            (batch,) = sender.take()
            taken.append(batch.topic)
            sender.accumulator.acknowledge(batch, 0, None)
        assert sorted(taken) == ["t", "u"]


def test_messages_without_a_key_go_round() -> None:
    sender, seen = Sender(partitions=3), []
    for _ in range(6):
        assert sender.add() is sender.add()
        (batch,) = sender.take()
        seen.append(batch.partition)
        sender.accumulator.acknowledge(batch, 0, None)
    assert seen == [0, 1, 2, 0, 1, 2]


# --- sections and sequences ---


def test_a_section_holds_the_messages_and_who_sent_them() -> None:
    sender = Sender(partitions=1)
    origin = frame_fields(as_headers({"name": "value"}), b"a", b"k", "high")
    sender.accumulator.add(sender.topic, sender.topic.sticky, frame.encode(b"a", b"k", origin[2], priority=1), origin)
    sender.add(b"b")
    (batch,) = sender.take()
    first, second = messages(batch.sealed)
    assert (first.value, first.key, first.priority) == (b"a", b"k", 1)
    assert first.headers[1:] == (("name", b"value"),)
    assert (second.value, second.headers) == (b"b", ())
    assert identity(batch.sealed) == (7, 1, 0, 2)


def test_without_idempotence_frames_go_as_they_are() -> None:
    sender = Sender(BatchingRules(linger=0, idempotent=False))
    sender.add(b"a")
    (batch,) = sender.take()
    assert messages(batch.sealed)[0].headers == ()


def test_sequences_count_messages_of_each_partition_and_wrap() -> None:
    sender = Sender(partitions=2)
    sender.accumulator._sequences["t", 0, False] = SEQUENCES - 2
    sequences = []
    for partition in (0, 0, 1, 0):
        for _ in range(2):
            sender.add(partition=partition)
        (batch,) = sender.take()
        sequences.append(identity(batch.sealed)[2])
        sender.accumulator.acknowledge(batch, 0, None)
    assert sequences == [SEQUENCES - 2, 0, 0, 2]


def test_headers_leave_room_for_the_producer() -> None:
    name = "n" * (OWN_HEADERS_BYTES_MAX - 6 - 10)
    sender = Sender(partitions=1)
    origin = frame_fields(as_headers({name: b"v" * 10}), b"", b"")
    sender.accumulator.add(sender.topic, sender.topic.sticky, frame.encode(b"", b"", origin[2]), origin)
    assert len(messages(sender.take()[0].sealed)) == 1
    with pytest.raises(MessageTooLarge):
        as_headers({name: b"v" * 11})


def test_after_a_failure_for_good_another_producer_begins_at_zero() -> None:
    sender = Sender(partitions=2)
    sender.add(partition=0)
    sender.add(partition=1)
    failing, other = sender.take()
    later = sender.add(partition=failing.partition)
    sender.accumulator.postpone(other, BrokerUnreachable("x"), 0)
    before = other.sealed
    sender.accumulator.fail(failing, LogFenced("x"))
    assert sender.accumulator.identity is None
    sender.accumulator.identity = (8, 0)
    sender.clock.advance(10)
    assert {batch: identity(batch.sealed) for batch in sender.take()} == {other: (7, 1, 0, 1), later: (8, 0, 0, 1)}
    assert other.sealed == before


# --- what became of it ---


def stored(step: SendStep, first_offset: int = 0) -> list[publish_requests.SectionResult]:
    return [
        publish_requests.SectionResult(
            batch.partition, first_offset, first_offset + batch.count, "2026-01-01T00:00:00Z"
        )
        for batch in step.batches
    ]


def test_the_first_step_asks_for_a_producer_id() -> None:
    sender = Sender()
    sender.accumulator.identity = None
    sender.add()
    step = sender.step()
    assert (step.call.path, step.batches) == ("/producers/init", [])
    sender.dispatch.done(step, (9, 0))
    assert identity(sender.step().batches[0].sealed)[:2] == (9, 0)


def test_an_acknowledged_batch_knows_where_it_lies() -> None:
    sender = Sender(partitions=1)
    batch = sender.add()
    sender.add()
    step = sender.step()
    assert sender.dispatch.done(step, stored(step, 17)) == [batch]
    assert (batch.receipt(1).offset, batch.receipt(1).partition) == (18, 0)
    assert sender.idle() is None
    assert sender.accumulator.buffered == 0


def test_a_refused_section_does_not_hold_the_others_back() -> None:
    sender = Sender(partitions=2)
    sender.add(partition=0)
    sender.add(partition=1)
    step = sender.step()
    results = stored(step)
    refused = {"error": "later", "code": "broker_overloaded", "details": {"retry_after": 1.0}}
    results[0] = publish_requests.SectionResult(step.batches[0].partition, error=refused)
    assert sender.dispatch.done(step, results) == [step.batches[1]]
    sender.add(partition=step.batches[1].partition)
    assert [batch.partition for batch in sender.step().batches] == [step.batches[1].partition]


def test_a_lost_request_comes_again_after_a_pause_and_not_before() -> None:
    sender = Sender(partitions=1)
    sender.add()
    step = sender.step()
    section = step.batches[0].sealed
    sender.dispatch.done(step, BrokerUnreachable("x", retry_after=2.0))
    pause = sender.idle()
    assert pause is not None
    assert pause >= 2.0
    sender.clock.advance(pause)
    assert sender.step().batches[0].sealed == section


def test_a_permanent_refusal_fails_the_batch_and_the_topic_is_asked_for_again() -> None:
    sender = Sender()
    batch = sender.add()
    sender.dispatch.done(sender.step(), TopicNotFound("gone"))
    assert isinstance(batch.error, TopicNotFound)
    assert sender.dispatch.outdated == {"t"}


def test_what_is_too_old_fails_and_says_why_it_waited() -> None:
    sender = Sender(BatchingRules(linger=0, delivery_timeout=10))
    batch = sender.add()
    sender.dispatch.done(sender.step(), BrokerUnreachable("not reachable"))
    sender.clock.advance(10)
    _, _, late = sender.dispatch.next()
    assert late == [batch]
    assert isinstance(batch.error, RequestTimedOut)
    assert "not reachable" in batch.error.sentence
    batch = sender.add()
    for error in (QuotaExceeded("full", hint="wait for retention", quota="max_storage_bytes"), None):
        sender.dispatch.done(sender.step(), error) if error else sender.clock.advance(10)
    sender.dispatch.next()
    assert isinstance(batch.error, QuotaExceeded), batch.error
    assert "1 message for t/" in batch.error.sentence
    assert "was not stored within 10 seconds: full" in batch.error.sentence
    assert (batch.error.hint, batch.error.details["quota"]) == ("wait for retention", "max_storage_bytes")


@pytest.mark.parametrize(("details", "hint"), [({"unsent": True}, None), ({"unsure": True}, "it may have been stored")])
def test_message_that_was_refused_until_it_was_too_old_is_not_said_to_be_stored_perhaps(
    details: dict[str, Any], hint: str | None
) -> None:
    sender = Sender(BatchingRules(linger=0, delivery_timeout=10))
    batch = sender.add()
    sender.dispatch.done(sender.step(), BrokerUnreachable("Connection refused", **details))
    sender.clock.advance(10)
    sender.dispatch.next()

    assert isinstance(batch.error, RequestTimedOut)
    assert batch.error.hint == hint


def test_a_producer_id_that_is_refused_fails_what_waits_for_it() -> None:
    sender = Sender()
    sender.accumulator.identity = None
    batch = sender.add()
    sender.dispatch.done(sender.step(), BrokerUnreachable("x", retry_after=1.0))
    pause = sender.idle()
    assert pause is not None
    sender.clock.advance(pause)
    sender.dispatch.done(sender.step(), LogFenced("never"))
    assert isinstance(batch.error, LogFenced)


def test_a_step_may_take_as_long_as_its_oldest_batch_may_live() -> None:
    sender = Sender(BatchingRules(linger=0, delivery_timeout=10))
    sender.add()
    sender.clock.advance(4)
    assert sender.step().seconds == pytest.approx(6)


def test_closing_fails_what_is_left() -> None:
    sender = Sender(NEVER_DUE)
    batch = sender.add()
    assert sender.dispatch.close("the producer was closed") == [batch]
    assert isinstance(batch.error, BrokerStopping)


# --- unseen failures ---


def failed(count: int) -> tuple[BatchSender, SendBatch]:
    sender = Sender(partitions=1)
    for _ in range(count):
        batch = sender.add()
    sender.dispatch.done(sender.step(), LogFenced("broken", log="t/0"))
    return sender.dispatch, batch


def told(dispatch: BatchSender) -> dict[str, Any]:
    error = dispatch.failures.report()
    assert isinstance(error, GoQueueError)
    return error.details


def test_a_failure_is_told_once() -> None:
    dispatch, _ = failed(3)
    assert told(dispatch) == {"failed": 3, "log": "t/0"}
    assert dispatch.failures.report() is None


def test_a_failure_that_was_looked_at_is_not_told_again() -> None:
    dispatch, batch = failed(3)
    assert batch.fault(1) is batch.error
    assert told(dispatch)["failed"] == 2
    dispatch, batch = failed(2)
    batch.callbacks.append((0, 2, print))
    assert dispatch.failures.report() is None


def test_so_many_failures_are_counted_that_they_need_no_memory() -> None:
    sender = Sender(partitions=1)
    for _ in range(1100):
        sender.add()
        sender.accumulator.identity = (7, 1)
        sender.dispatch.done(sender.step(), LogFenced("broken"))
    assert told(sender.dispatch)["failed"] == 1100
