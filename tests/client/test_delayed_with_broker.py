"""Both clients and a broker that delivers later: what was scheduled arrives once and not before its time."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from goqueue.client import Client, Nanoseconds
from goqueue.client.publish_requests import SectionResult, publish_frames
from goqueue.errors import DelayedNotFound, DelayedNotPending, RequestInvalid
from goqueue.limits import CLIENT_PRODUCER_ID_MIN
from goqueue.testing.broker import LocalBroker
from goqueue.wire.headers import FRAMES
from tests.brokers import ask as exchange
from tests.client.peers import Asked, Reply, peer, reply
from tests.client.test_accumulator import Sender
from tests.client.test_delayed_sections import add_later
from tests.client.test_with_broker import values

SOON = "50ms"
FAR = datetime.now(UTC) + timedelta(days=30)


@pytest.fixture
def client(broker: LocalBroker) -> Iterator[Client]:
    with Client(broker.url) as made:
        made.create_topic("t", partitions=1)
        yield made


@pytest.fixture
def ask(connected: Client) -> Any:
    """Call one method of a client of either kind."""
    return lambda method, *given, **options: getattr(connected, method)(*given, **options)


def arrived(client: Client, count: int) -> list[Any]:
    """The first messages of the topic, once there are so many."""
    return list(client.reader("t", start=0, until=count, follow=True))


# --- on their way ---


def test_a_message_arrives_when_it_is_due_and_says_what_it_was(client: Client) -> None:
    with client.producer() as producer:
        producer.send("t", "far", deliver_at=FAR)
        receipt = producer.send("t", "soon", "key", {"own": "1"}, priority="high", delay=SOON).result()
        assert producer.send("t", "now").result().offset == 0
    now, soon = arrived(client, 2)
    assert (receipt.offset, receipt.delayed) == (1, True)
    assert (soon.value, soon.key, soon.headers, soon.priority) == (b"soon", b"key", [("own", b"1")], 1)
    assert (now.delayed_offset, soon.delayed_offset) == (None, 1)
    assert receipt.deliver_at_ns is not None
    assert soon.timestamp_ns >= receipt.deliver_at_ns
    assert client.topic("t").partition_offsets["0"].latest == 2


@pytest.mark.parametrize("when", [{"delay": SOON}, {"deliver_at": Nanoseconds(0)}], ids=["delay", "past"])
def test_one_message_is_published_for_later(ask: Any, client: Client, when: dict[str, Any]) -> None:
    stored = ask("publish", "t", b"\xff\x00", key="k", headers={"a": "b"}, priority="low", **when)
    (message,) = arrived(client, 1)
    assert (stored.delayed, stored.partition, stored.offset, message.delayed_offset) == (True, 0, 0, 0)
    assert stored.deliver_at_ns <= message.timestamp_ns
    assert (message.value, message.key, message.headers, message.priority) == (b"\xff\x00", b"k", [("a", b"b")], 3)


def test_members_of_a_group_get_it_when_it_is_due(client: Client) -> None:
    client.publish("t", "soon", delay=SOON)
    with client.consumer("g", ["t"]) as consumer, next(iter(consumer)) as message:
        assert (message.value, message.delayed_offset, message.attempt) == (b"soon", 0, 1)


def test_a_repeated_section_is_stored_once(client: Client) -> None:
    sender = Sender(partitions=1)
    sender.accumulator.identity = (CLIENT_PRODUCER_ID_MIN, 0)
    for number in range(3):
        sender.add(b"plain %d" % number)
        add_later(sender, b"later %d" % number)
    call = publish_frames("t", [batch.sealed for batch in sender.take() if batch.sealed is not None], "leader")
    first, again = client.call(call), client.call(call)
    assert [section.duplicate for section in (*first, *again)] == [False, False, True, True]
    assert [offsets(section) for section in first] == [offsets(section) for section in again] == [(0, 0, 3)] * 2
    assert client.delayed("t")["total"] == 3
    later = [message.value for message in arrived(client, 6)[3:]]
    assert later == [b"later 0", b"later 1", b"later 2"]


def offsets(section: SectionResult) -> tuple[int, int | None, int | None]:
    return section.partition, section.first_offset, section.next_offset


def forward(url: str, asked: Asked) -> bytes:
    answer = exchange(url, asked.method, asked.target, asked.body or None, asked.headers)
    return reply(answer.body, answer.status)


def test_a_line_that_loses_answers_neither_loses_nor_doubles(client: Client, broker: LocalBroker) -> None:
    client.create_topic("mixed", partitions=2)
    line = random.Random(7)

    def lossy(asked: Asked) -> Reply:
        before, after = (asked.headers["content-type"] == FRAMES and line.random() < 0.3 for _ in range(2))
        answer = None if before else forward(broker.url, asked)
        return None if after else answer

    sent: dict[tuple[int, bool], list[bytes]] = {}
    with peer(lossy) as server, Client(server.url) as other, other.producer(batch_messages=10) as producer:
        for number in range(60):
            place, value = (number % 2, number % 3 > 0), b"%d" % number
            producer.send("mixed", value, partition=place[0], deliver_at=FAR if place[1] else None)
            sent.setdefault(place, []).append(value)
            if number % 10 == 9:
                producer.flush()
    assert server.connections > 1
    for partition in (0, 1):
        assert values(client.reader("mixed", partition)) == sent[partition, False]
        client.deliver_delayed_where("mixed", partition=partition)
        assert values(client.reader("mixed", partition)) == sent[partition, False] + sent[partition, True]


# --- what is pending ---


def test_pending_messages_are_listed_by_when_they_are_due(ask: Any, client: Client) -> None:
    with client.producer() as producer:
        for hours, key in ((3, "c"), (1, "a"), (2, "b")):
            producer.send("t", "v" * hours, key, deliver_at=FAR + timedelta(hours=hours))
    found = ask("delayed", "t", limit=2)
    assert ([one["key"] for one in found["messages"]], found["count"], found["total"]) == (["a", "b"], 2, 3)
    assert [one["key"] for one in ask("delayed", "t", skip=2)["messages"]] == ["c"]
    assert [one["key"] for one in ask("delayed", "t", filters="key=b")["messages"]] == ["b"]
    later = ask("delayed", "t", partition=0, due_from=FAR + timedelta(minutes=90), due_to=FAR + timedelta(minutes=150))
    assert [one["offset"] for one in later["messages"]] == [2]
    assert (ask("delayed_timeline", "t")["pending"], ask("delay_stats")["topics"]) == (3, {"t": 3})
    for partition in (0, None):
        assert ask("delayed_message", "t", partition, 1)["value"] == "v"
    with pytest.raises(DelayedNotFound):
        ask("delayed_message", "t", 0, 7)
    with pytest.raises(RequestInvalid, match="limit"):
        ask("delayed", "t", limit=0)


def test_single_messages_are_cancelled_moved_and_delivered(ask: Any, client: Client) -> None:
    for value in ("cancelled", "moved", "delivered"):
        client.publish("t", value, deliver_at=FAR)
    assert ask("cancel_delayed", "t", 0, 0)["cancelled"] is True
    for method, options in (("cancel_delayed", {}), ("deliver_delayed", {}), ("reschedule_delayed", {"delay": 1})):
        with pytest.raises(DelayedNotPending) as error:
            ask(method, "t", 0, 0, **options)
        assert error.value.details["state"] == "cancelled"
    assert ask("deliver_delayed", "t", 0, 2)["delivered"] is True
    assert values(client.reader("t")) == [b"delivered"]
    assert ask("reschedule_delayed", "t", 0, 1, delay="1h")["state"] == "pending"
    assert ask("reschedule_delayed", "t", 0, 1, deliver_at="2026-01-01T00:00:00Z")["offset"] == 1
    assert values(arrived(client, 2)) == [b"delivered", b"moved"]


def test_many_are_chosen_by_filters(ask: Any, client: Client) -> None:
    with client.producer() as producer:
        for number in range(9):
            producer.send("t", b"%d" % number, ("a", "b", "c")[number % 3], deliver_at=FAR)
    counted = ask("cancel_delayed_where", "t", ["key=a"], dry_run=True)
    assert (counted["matched"], counted["changed"], counted["complete"]) == (3, 0, True)
    assert ask("cancel_delayed_where", "t", ["key=a"])["changed"] == 3
    assert ask("reschedule_delayed_where", "t", "key=b", shift="-1d")["changed"] == 3
    assert ask("reschedule_delayed_where", "t", "key=b", deliver_at=FAR, due_from=FAR)["changed"] == 0
    assert ask("deliver_delayed_where", "t", ["key=b"], limit=2, due_to=FAR)["changed"] == 2
    assert sorted(values(client.reader("t")), key=str) == [b"1", b"4"]
    assert ask("delayed", "t")["total"] == 4
