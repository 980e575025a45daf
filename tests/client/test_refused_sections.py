"""A producer whose sections are refused one by one: nothing is lost, and nothing takes the place of what came before.

The peer minds sequences as a broker does: a batch that does not follow the one before hears `sequence_out_of_order`.
"""

import struct
from collections.abc import Iterator

import pytest

from goqueue.client import Client
from goqueue.errors import LogFenced, SequenceOutOfOrder
from goqueue.storage import frame
from tests.client.peers import Asked, Peer, Reply, peer, reply
from tests.client.test_producer import TIME, sections

IDENTITY = struct.Struct(">qhII")

Identity = tuple[int, int, int, int]
"""Producer, epoch, sequence and count, as the header of a section has them."""


class Sequenced:
    """A topic of two partitions that refuses sections as it is told."""

    def __init__(self) -> None:
        self.values: dict[int, list[bytes]] = {0: [], 1: []}
        self.refuse: dict[int, list[str]] = {0: [], 1: []}
        """By partition the codes of the next refusals."""
        self.seen: dict[int, list[Identity]] = {0: [], 1: []}
        self._next: dict[tuple[int, int], int] = {}
        self._producers = 0

    def answer(self, asked: Asked) -> Reply:
        if asked.target == "/producers/init":
            self._producers += 1
            return reply({"producer_id": self._producers, "epoch": 0})
        if asked.method == "GET":
            return reply({"name": "t", "partitions": 2})
        return reply({"results": [self._take(number, messages) for number, messages in sections(asked.body)]})

    def _take(self, number: int, messages: list[frame.StoredMessage]) -> dict[str, object]:
        producer, epoch, sequence, count = IDENTITY.unpack(dict(messages[0].headers)["__producer"])
        self.seen[number].append((producer, epoch, sequence, count))
        code = self.refuse[number].pop(0) if self.refuse[number] else ""
        if not code and sequence != self._next.get((producer, number), sequence):
            code = "sequence_out_of_order"
        if code:
            return {"partition": number, "error": {"error": f"no: {code}", "code": code}}
        self._next[producer, number] = sequence + count
        first = len(self.values[number])
        self.values[number] += [message.value for message in messages]
        return {"partition": number, "first_offset": first, "next_offset": first + count, "timestamp": TIME}


@pytest.fixture
def topic() -> Sequenced:
    return Sequenced()


@pytest.fixture
def server(topic: Sequenced) -> Iterator[Peer]:
    with peer(topic.answer) as made:
        yield made


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def test_what_comes_behind_a_section_that_waits_comes_behind_it(server: Peer, topic: Sequenced) -> None:
    topic.refuse[1] = ["disk_full"] * 3
    with Client(server.url) as client, client.producer(batch_messages=10) as producer:
        for value in numbers(0, 300):
            producer.send("t", value, partition=0)
            producer.send("t", value, partition=1)
    assert topic.values == {0: numbers(0, 300), 1: numbers(0, 300)}
    assert len(set(topic.seen[1][:4])) == 1  # the very same section, until it is taken


def test_failed_section_leaves_no_gap_in_sequences(server: Peer, topic: Sequenced) -> None:
    with Client(server.url) as client, client.producer() as producer:
        for partition in (0, 1):
            producer.send("t", b"0", partition=partition).result()
        topic.refuse[1] = ["log_fenced"]
        lost = producer.send("t", b"lost", partition=1)
        assert isinstance(lost.exception(), LogFenced)
        for partition in (0, 1):
            producer.send("t", b"1", partition=partition).result()
    assert topic.values == {0: [b"0", b"1"], 1: [b"0", b"1"]}
    assert topic.seen[1] == [(1, 0, 0, 1), (1, 0, 1, 1), (2, 0, 0, 1)]


def test_a_section_that_waits_keeps_its_producer_when_another_one_fails(server: Peer, topic: Sequenced) -> None:
    with Client(server.url) as client, client.producer(linger=60) as producer:
        for partition in (0, 1):
            producer.send("t", b"0", partition=partition)
        producer.flush()
        topic.refuse = {0: ["disk_full"] * 2, 1: ["log_fenced"]}
        waits, fails = (producer.send("t", b"1", partition=partition) for partition in (0, 1))
        assert isinstance(fails.exception(), LogFenced)
        later = [producer.send("t", b"2", partition=partition) for partition in (0, 1)]
        assert [delivery.result().offset for delivery in (waits, *later)] == [1, 2, 1]
    assert topic.values == {0: [b"0", b"1", b"2"], 1: [b"0", b"2"]}
    assert topic.seen[0] == [(1, 0, 0, 1), (1, 0, 1, 1), (1, 0, 1, 1), (1, 0, 1, 1), (2, 0, 0, 1)]


def test_a_broker_that_misses_a_batch_is_told_of_and_sending_goes_on(server: Peer, topic: Sequenced) -> None:
    with Client(server.url) as client, client.producer() as producer:
        topic.refuse[0] = ["sequence_out_of_order"]
        assert isinstance(producer.send("t", b"0", partition=0).exception(), SequenceOutOfOrder)
        assert producer.send("t", b"1", partition=0).result().offset == 0
    assert topic.seen[0] == [(1, 0, 0, 1), (2, 0, 0, 1)]
