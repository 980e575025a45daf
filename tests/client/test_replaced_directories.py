"""Producers of both clients whose broker comes back at its address with another data directory, or an older one."""

from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest

from goqueue.client import Client
from goqueue.client._sync.producer import Producer
from goqueue.client._sync.transaction import TransactionalProducer
from goqueue.client.delivery import SendBatch
from goqueue.client.sender import is_certainly_not_stored
from goqueue.errors import GoQueueError, ProducerFenced, SequenceOutOfOrder, TransactionAborted, UnknownProducer
from goqueue.testing.broker import LocalBroker
from tests.brokers import read
from tests.client.bridge import refused


class Place:
    """A broker at one address, and the directory that it finds at each start."""

    def __init__(self, path: Path, port: str) -> None:
        self.data = path / "data"
        self._copy = path / "copy"
        self._port = port
        self.broker = self.start()

    def start(self) -> LocalBroker:
        self.broker = LocalBroker(
            str(self.data), server__port=self._port, topics__auto_create="true", topics__partitions="2"
        ).start()
        return self.broker

    def stop(self) -> None:
        self.broker.stop()

    def copy(self) -> None:
        """Copy the directory as a backup does while the broker is stopped."""
        self.stop()
        copytree(self.data, self._copy)
        self.start()

    def wipe(self) -> None:
        self.stop()
        rmtree(self.data)

    def restore(self) -> None:
        self.wipe()
        copytree(self._copy, self.data)

    def values(self, partition: int = 0) -> list[str]:
        return [message["value"] for message in read(self.broker.url, "t", partition)]

    def __enter__(self) -> "Place":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def send(producer: Producer, *values: str, partition: int = 0) -> Any:
    return producer.send_many("t", list(values), partition=partition)


def test_a_producer_goes_on_in_a_directory_that_was_made_anew(
    tmp_path: Path, client_class: type[Client], kept_port: str
) -> None:
    with Place(tmp_path, kept_port) as place:
        with client_class(place.broker.url) as client, client.producer(batch_messages=2) as producer:
            send(producer, "before", "it").result()
            place.wipe()
            under_way = [send(producer, f"{number}a", f"{number}b", partition=number % 2) for number in (0, 1)]
            place.start()
            with Client(place.broker.url) as other, other.producer() as first:
                first.send("t", "of another", partition=1).result()
            for deliveries in under_way:
                deliveries.result()
            send(producer, "then").result()
        assert place.values() == ["0a", "0b", "then"]
        assert sorted(place.values(1)) == ["1a", "1b", "of another"]


def test_a_producer_goes_on_in_a_directory_that_was_restored(
    tmp_path: Path, client_class: type[Client], kept_port: str
) -> None:
    with Place(tmp_path, kept_port) as place:
        with client_class(place.broker.url) as client, client.producer() as producer:
            send(producer, "saved").result()
            place.copy()
            send(producer, "lost", "with", "the directory").result()
            place.restore()
            under_way = send(producer, "sent meanwhile")
            place.start()
            under_way.result()
            send(producer, "then").result()
        assert place.values() == ["saved", "sent meanwhile", "then"]


def test_a_producer_of_after_the_copy_goes_on_in_the_restored_directory(
    tmp_path: Path, client_class: type[Client], kept_port: str
) -> None:
    with Place(tmp_path, kept_port) as place:
        place.copy()
        with client_class(place.broker.url) as client, client.producer() as producer:
            send(producer, "lost").result()
            place.restore()
            place.start()
            send(producer, "then").result()
        assert place.values() == ["then"]


@pytest.mark.parametrize("is_restored", [False, True], ids=["wiped", "restored"])
def test_a_transaction_that_the_directory_does_not_know_is_lost_and_the_next_one_counts(
    tmp_path: Path, client_class: type[Client], kept_port: str, is_restored: bool
) -> None:
    with Place(tmp_path, kept_port) as place:

        def write(producer: TransactionalProducer, value: str) -> None:
            with producer.transaction() as tx:
                tx.send("t", value, partition=0)

        with client_class(place.broker.url) as client, client.producer(transactional_id="till") as producer:
            write(producer, "first")
            if is_restored:
                place.copy()
            for value in ("second", "third"):
                write(producer, value)
            lost = refused(TransactionAborted, match="is lost: the broker's data directory")
            with lost as failure, producer.transaction() as tx:
                tx.send("t", "lost", partition=0).result()
                place.restore() if is_restored else place.wipe()
                place.start()
                tx.send("t", "lost too", partition=0)
            assert failure.value.details["reason"] == "unknown_producer"
            write(producer, "done again")
        assert place.values() == (["first"] if is_restored else []) + ["done again"]


def batch(sequence: int, *, unsure: bool = False) -> SendBatch:
    made = SendBatch(None, "t", 0, (b"", b"", b"", 2, 0), 0)
    made.identity, made.sequence, made.unsure = (7, 0), sequence, unsure
    return made


@pytest.mark.parametrize(
    ("refusal", "sequence", "unsure", "expected"),
    [
        (UnknownProducer("?"), 5, True, True),
        (SequenceOutOfOrder("ahead", expected=3), 5, True, True),
        (SequenceOutOfOrder("ahead, around the end", expected=2**31 - 1), 5, True, True),
        (SequenceOutOfOrder("behind", expected=9), 5, False, False),
        (SequenceOutOfOrder("as it is, and cut otherwise", expected=5), 5, False, False),
        (SequenceOutOfOrder("forgotten", forgotten=True), 5, False, True),
        (SequenceOutOfOrder("forgotten, and an answer was lost", forgotten=True), 5, True, False),
        (SequenceOutOfOrder("of a broker that says nothing"), 5, False, False),
        (ProducerFenced("?", epoch=1), 5, False, False),
    ],
)
def test_a_batch_is_sent_for_another_producer_only_where_the_broker_cannot_have_it(
    refusal: GoQueueError, sequence: int, unsure: bool, expected: bool
) -> None:
    assert is_certainly_not_stored(batch(sequence, unsure=unsure), refusal) is expected
