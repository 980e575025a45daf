"""Delayed messages of a producer: they have sections of their own, which are repeated and counted like others."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue import delay
from goqueue.client import Client, Delivery
from goqueue.client.accumulator import OWN_HEADERS_BYTES_MAX, BatchingRules
from goqueue.client.delivery import SendBatch
from goqueue.client.message_encoding import frame_fields
from goqueue.client.publish_requests import SectionResult
from goqueue.errors import BrokerUnreachable, LogFenced, MessageTooLarge, RequestInvalid
from goqueue.storage import frame
from tests.client.peers import Asked, Peer, Reply, peer, reply
from tests.client.test_accumulator import NEVER_DUE, Sender, identity, messages
from tests.client.test_producer import TIME, sections

DELAYED = 0x8000_0000
TIME_NS = 1_767_225_600_000_000_001
SECOND = 10**9
IN_A_SECOND = delay.deliver_in_header(SECOND)
WHEN = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
Place = tuple[int, bool]
"""A partition, and whether its delayed log is meant."""


def add_later(sender: Sender, value: bytes = b"x", partition: int = 0) -> SendBatch:
    queue = sender.topic.delayed.queues[partition]
    origin = frame_fields(frame.encode_headers([IN_A_SECOND]), value, None, 2, shrink=False)
    content = frame.encode(value, None, origin[2])
    return sender.accumulator.add_many(sender.topic.delayed, queue, [content], len(content), origin, IN_A_SECOND)


def number_of(batch: SendBatch) -> int:
    assert batch.sealed is not None
    (number,) = struct.unpack_from(">I", batch.sealed)
    return int(number)


# --- the rules ---


def test_a_delayed_section_says_so_and_each_of_its_messages_says_when() -> None:
    sender = Sender(partitions=2)
    for _ in range(2):
        add_later(sender, partition=1)
    (batch,) = sender.take()
    assert number_of(batch) == 1 | DELAYED
    first, second = messages(batch.sealed)
    assert [name for name, _ in first.headers] == ["__producer", delay.DELIVER_IN]
    assert second.headers == (IN_A_SECOND,)
    assert identity(batch.sealed) == (7, 1, 0, 2)


def test_a_request_takes_what_is_plain_and_what_is_delayed_of_a_partition() -> None:
    sender = Sender(partitions=1)
    for _ in range(3):
        sender.add()
        add_later(sender)
    assert sorted((batch.partition, batch.delayed, batch.count) for batch in sender.take()) == [
        (0, False, 3),
        (0, True, 3),
    ]


def test_what_is_delayed_is_counted_as_if_it_were_another_partition() -> None:
    sender, sequences = Sender(partitions=1), []
    for _ in range(2):
        sender.add()
        add_later(sender)
        add_later(sender)
        for batch in sorted(sender.take(), key=number_of):
            sequences.append(identity(batch.sealed)[2:])
            sender.accumulator.acknowledge(batch, 0, None)
    assert sequences == [(0, 1), (0, 2), (1, 1), (2, 2)]


def test_what_is_delayed_and_has_no_key_goes_round_by_itself() -> None:
    sender, seen = Sender(partitions=3), []
    for _ in range(4):
        queue = sender.topic.delayed.sticky
        add_later(sender, partition=queue.partition)
        (batch,) = sender.take()
        seen.append(batch.partition)
        sender.accumulator.acknowledge(batch, 0, None)
    assert (seen, sender.topic.sticky.partition) == ([0, 1, 2, 0], 0)


def test_topic_gets_more_queues_of_both_kinds_when_its_number_of_partitions_changes() -> None:
    sender = Sender(NEVER_DUE)
    sender.accumulator.set_partitions(sender.topic.delayed, 4)
    sender.accumulator.place_again()
    assert [queue.section for queue in sender.topic.queues] == [(number, False) for number in range(4)]
    assert [queue.section for queue in sender.topic.delayed.queues] == [(number, True) for number in range(4)]


def test_a_batch_knows_when_each_of_its_messages_is_due() -> None:
    batch = add_later(Sender(NEVER_DUE))
    batch.dues.append(delay.deliver_at_header(17))
    assert [batch.receipt(index).deliver_at_ns for index in (0, 1)] == [None, 17]
    batch.settle(None, 5, TIME)
    assert [batch.receipt(index) for index in (0, 1)] == [
        (0, 5, TIME_NS, True, TIME_NS + SECOND),
        (0, 6, TIME_NS, True, 17),
    ]


@dataclass
class Logs:
    """A broker that recognizes repeated sections by their producer and sequence."""

    stored: dict[Place, list[bytes]] = field(default_factory=dict)
    seen: dict[tuple[Place, int, int], bytes] = field(default_factory=dict)

    def take(self, batch: SendBatch) -> SectionResult:
        place = (batch.partition, batch.delayed)
        assert number_of(batch) == (batch.partition | DELAYED if batch.delayed else batch.partition)
        producer, _, sequence, count = identity(batch.sealed)
        log = self.stored.setdefault(place, [])
        assert batch.sealed is not None
        known = self.seen.setdefault((place, producer, sequence), batch.sealed)
        assert known == batch.sealed
        if sequence == len(log):  # one producer only, so this is the next one
            log += [message.value for message in messages(batch.sealed)]
        assert sequence + count <= len(log)
        return SectionResult(batch.partition, sequence, sequence + count, TIME)


LATER = {"error": "later", "code": "broker_overloaded"}
STORIES = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 1), st.booleans()),
        st.sampled_from(["refused", "stored, not answered", "first refused", "stored"]),
    ),
    max_size=40,
)


@given(STORIES)
def test_each_log_gets_its_messages_once_and_in_order_whatever_gets_lost(story: list[Any]) -> None:
    sender, logs, sent = Sender(BatchingRules(linger=0, delivery_timeout=10**6)), Logs(), dict[Place, list[bytes]]()
    for number, event in enumerate([*story, *["stored"] * 10]):
        if isinstance(event, tuple):
            partition, later = event
            value = b"%d" % number
            (add_later if later else Sender.add)(sender, value, partition)
            sent.setdefault(event, []).append(value)
            continue
        sender.clock.advance(60)
        step, _, late = sender.dispatch.next()
        assert not late
        if step is None:
            continue
        refused = {"refused": len(step.batches), "first refused": 1}.get(event, 0)
        results = [SectionResult(batch.partition, error=LATER) for batch in step.batches[:refused]]
        results += [logs.take(batch) for batch in step.batches[refused:]]
        lost = event == "stored, not answered"
        sender.dispatch.done(step, BrokerUnreachable("lost") if lost else results)
    assert sender.accumulator.is_empty
    assert logs.stored == sent


def test_after_a_failure_what_is_delayed_begins_anew_as_well() -> None:
    sender = Sender(partitions=1)
    sender.add()
    sender.accumulator.fail(sender.take()[0], LogFenced("x"))
    sender.accumulator.identity = (8, 0)
    add_later(sender)
    assert identity(sender.take()[0].sealed) == (8, 0, 0, 1)


# --- with a thread, and in a loop ---


@dataclass
class Topic:
    """A topic of a peer, whose delayed logs are logs beside the others."""

    logs: dict[Place, list[frame.StoredMessage]] = field(default_factory=dict)
    troubles: list[Reply] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def answer(self, asked: Asked) -> Reply:
        if asked.target == "/producers/init":
            return reply({"producer_id": 5, "epoch": 0})
        if asked.method == "GET":
            return reply({"name": "t", "partitions": 2, "config": {"max_message_bytes": 100_000}})
        if asked.headers["content-type"] == "application/json":
            return self._json(asked)
        self.bodies.append(asked.body)
        return self.troubles.pop(0) if self.troubles else reply({"results": list(self._frames(asked.body))})

    def _frames(self, body: bytes) -> Iterator[dict[str, Any]]:
        for number, found in sections(body):
            partition, later = number & ~DELAYED, number >= DELAYED
            log = self.logs.setdefault((partition, later), [])
            first = len(log)
            log += found
            place = {"partition": partition, "first_offset": first, "next_offset": len(log), "timestamp": TIME}
            yield {**place, "duplicate": False} | ({"delayed": True} if later else {})

    def _json(self, asked: Asked) -> bytes:
        self.bodies.append(asked.body)
        due = {"delayed": True, "deliverAt": "2026-01-01T00:00:05.000000000Z"}
        (message,) = msgspec.json.decode(asked.body)["messages"]
        later = due if {"delay", "deliver_at"} & message.keys() else {"delayed": False}
        return reply({"results": [{"partition": 1, "offset": 3, "priority": 2, **later}]})

    def of(self, place: Place) -> list[bytes]:
        return [message.value for message in self.logs.get(place, [])]


@pytest.fixture
def topic() -> Topic:
    return Topic()


@pytest.fixture
def server(topic: Topic) -> Iterator[Peer]:
    with peer(topic.answer) as made:
        yield made


def test_what_is_sent_with_a_delay_lies_in_the_delayed_log(client: Client, topic: Topic) -> None:
    with client.producer() as producer:
        plain = producer.send("t", "plain", partition=1)
        after = producer.send("t", "after", "key", {"own": "1"}, 1, "high", delay="5m")
        at = producer.send("t", "at", partition=1, deliver_at=WHEN)
        assert (after.delayed, after.deliver_at, at.deliver_at, plain.delayed, plain.deliver_at) == (
            True,
            None,
            WHEN,
            False,
            None,
        )
        assert plain.result() == (1, 0, TIME_NS, False, None)
        assert after.result() == (1, 0, TIME_NS, True, TIME_NS + 300 * SECOND)
        assert after.result().deliver_at == after.deliver_at == datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
        assert (at.result().offset, at.result().deliver_at) == (1, WHEN)
    first, second = topic.logs[1, True]
    assert (first.value, first.key, first.priority) == (b"after", b"key", 1)
    assert first.headers[1:] == (delay.deliver_in_header(300 * SECOND), ("own", b"1"))
    assert second.headers == (delay.deliver_at_header(int(WHEN.timestamp()) * SECOND),)
    assert topic.of((1, False)) == [b"plain"]


def test_many_are_sent_with_one_delay(client: Client, topic: Topic) -> None:
    values = [b"%d" % number for number in range(5000)]
    keys = [b"k%d" % (number % 50) for number in range(5000)]
    told: list[Delivery] = []
    with client.producer() as producer:
        producer.send_many("t", values, keys)
        receipts = producer.send_many(
            "t", values, keys, {"own": "1"}, priority="low", on_delivery=told.append, delay=timedelta(seconds=5)
        ).result()
    for partition in (0, 1):
        assert topic.of((partition, True)) == topic.of((partition, False))  # a key is in one partition either way
    found = topic.logs[0, True] + topic.logs[1, True]
    assert {message.priority for message in found} == {3}
    assert {message.headers[-2:] for message in found} == {(delay.deliver_in_header(5 * SECOND), ("own", b"1"))}
    assert {receipt[2:] for receipt in receipts} == {(TIME_NS, True, TIME_NS + 5 * SECOND)}
    assert len(told) == 5000


def test_values_of_any_kind_may_be_delayed(client: Client, topic: Topic) -> None:
    with client.producer(compression="zstd") as producer:
        producer.send_many("t", ["text", b"a" * 500, None], ["k", "k", "k"], delay=1)
        producer.send("t", None, "k", delay=1)
    (log,) = topic.logs.values()
    assert [message.flags & ~frame.HAS_HEADERS for message in log] == [0, frame.COMPRESSED, *[frame.TOMBSTONE] * 2]
    assert all(IN_A_SECOND in message.headers for message in log)


@pytest.mark.parametrize("nothing", [{"delay": 0}, {"delay": ""}, {"deliver_at": ""}, {"delay": "0s"}])
def test_no_delay_is_plain(client: Client, topic: Topic, nothing: dict[str, Any]) -> None:
    with client.producer() as producer:
        assert not producer.send("t", "one", **nothing).result().delayed
        producer.send_many("t", ["two"], **nothing)
    assert {later for _, later in topic.logs} == {False}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"delay": 1, "deliver_at": WHEN}, RequestInvalid),
        ({"delay": -1}, RequestInvalid),
        ({"deliver_at": datetime(2026, 1, 1)}, RequestInvalid),  # noqa: DTZ001 - that is what is wrong
        ({"delay": 1, "headers": {"__deliver_at": b"12345678"}}, RequestInvalid),
        ({"delay": 1, "headers": {"n": bytes(OWN_HEADERS_BYTES_MAX - 7)}}, MessageTooLarge),
        ({"delay": 1, "headers": {"n": bytes(60_000)}, "key": bytes(40_000)}, MessageTooLarge),
        ({"delay": 1, "key": bytes(70_000)}, MessageTooLarge),
    ],
)
def test_what_is_wrong_is_refused_at_the_call_and_nothing_is_taken(
    client: Client, topic: Topic, given: dict[str, Any], error: type[Exception]
) -> None:
    key = given.get("key")
    rest = {name: value for name, value in given.items() if name != "key"}
    with client.producer() as producer:
        with pytest.raises(error):
            producer.send("t", b"x", **given)
        with pytest.raises(error):
            producer.send_many("t", [b"x", b"y"], None if key is None else [key] * 2, **rest)
    assert topic.bodies == []


def test_without_an_answer_a_delay_has_no_end_and_a_time_has() -> None:
    def unsaid(asked: Asked) -> Reply:
        if asked.method == "POST" and asked.target.startswith("/topics/t/messages"):
            found = [{"partition": number & ~DELAYED, "delayed": True} for number, _ in sections(asked.body)]
            return reply({"results": found})
        return Topic().answer(asked)

    with peer(unsaid) as server, Client(server.url) as client, client.producer(acks="none") as producer:
        assert producer.send("t", "x", partition=0, delay=1).result() == (0, None, None, True, None)
        assert producer.send("t", "x", partition=0, deliver_at=WHEN).result().deliver_at == WHEN


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"delay": "5s"}, {"delay": 5.0}),
        ({"delay": timedelta(minutes=1), "priority": "high"}, {"delay": 60.0, "priority": "high"}),
        ({"deliver_at": WHEN}, {"deliver_at": f"{WHEN:%Y-%m-%dT%H:%M:%S}.000000000Z"}),
        ({"deliver_at": "", "delay": None}, {}),
    ],
)
def test_one_message_is_published_with_a_delay(
    client: Client, topic: Topic, given: dict[str, Any], said: dict[str, Any]
) -> None:
    stored = client.publish("t", "x", **given)
    assert (stored.partition, stored.offset, stored.delayed) == (1, 3, bool(said))
    assert stored.deliver_at == (datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC) if said else None)
    (message,) = msgspec.json.decode(topic.bodies[-1])["messages"]
    assert message == {"value": "x", **said}
