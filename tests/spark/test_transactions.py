"""Transactions of a real broker, read by its logs: from its directory, from the broker itself, and as a stream."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from goqueue.client import Client, Producer
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.logs.port import LogSource
from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, create, publish
from tests.spark.stock import rows, splits
from tests.spark.test_stream import batches, connections, reader, tasks

__all__ = ["connections"]


@dataclass
class Shop:
    """A broker with the topic `orders`, and where its logs are found."""

    broker: LocalBroker
    directory: str

    @contextmanager
    def places(self) -> Iterator[tuple[LogSource, LogSource]]:
        logs = BrokerLogs(self.broker.url)
        try:
            yield DirectoryLogs.at(self.directory), logs
        finally:
            logs.client.close()

    def seen(self) -> list[list[str]]:
        """The values that a batch read finds, in each of the two places."""
        with self.places() as both:
            return [values(logs) for logs in both]


def abort(producer: Producer, value: str) -> None:
    """Send it in a transaction that comes to nothing."""
    with producer.transaction() as transaction:
        transaction.send("orders", value).result()
        transaction.abort()


def values(logs: LogSource) -> list[str]:
    return [row["value"].decode() for row in rows(logs, splits(logs))]


@pytest.fixture
def shop(broker: LocalBroker, tmp_path: Path) -> Shop:
    with Client(broker.url) as client:
        client.create_topic("orders", 1)
    return Shop(broker, str(tmp_path / "data"))


def test_what_is_open_and_what_was_aborted_is_hidden_in_both_places(shop: Shop) -> None:
    with Client(shop.broker.url) as client, client.producer(transactional_id="one") as one, client.producer() as plain:
        plain.send("orders", "before").result()
        with one.transaction() as committed:
            committed.send("orders", "committed")
        abort(one, "aborted")
        plain.send("orders", "between").result()
        with one.transaction() as opened:
            opened.send("orders", "open").result()
            plain.send("orders", "behind").result()
            assert shop.seen() == [["before", "committed", "between"]] * 2
        assert shop.seen() == [["before", "committed", "between", "open", "behind"]] * 2


def test_read_uncommitted_shows_everything(shop: Shop) -> None:
    with Client(shop.broker.url) as client, client.producer(transactional_id="one") as one:
        abort(one, "aborted")
        with one.transaction() as opened:
            opened.send("orders", "open").result()
            everything = BrokerLogs(shop.broker.url, isolation="read_uncommitted")
            assert values(everything) == ["aborted", "open"]
            everything.client.close()
            assert values(DirectoryLogs.at(shop.directory, isolation="read_uncommitted")) == ["aborted", "open"]


def test_a_directory_at_rest_has_nothing_open(tmp_path: Path) -> None:
    """The next start of the broker aborts it."""
    with LocalBroker(str(tmp_path / "d")) as local:
        create(local.url, "orders")
        whose = ask(local.url, "POST", "/producers/init", {"transactional_id": "one"}).json
        whose = {name: whose[name] for name in ("transactional_id", "producer_id", "epoch")}
        assert ask(local.url, "POST", "/transactions/begin", whose).status == 200
        message = {"topic": "orders", "value": "open", **whose}
        assert ask(local.url, "POST", "/transactions/publish", message).status == 200
        publish(local.url, "orders", "behind")
        logs = DirectoryLogs.at(str(tmp_path / "d"))
        assert values(logs) == []
    assert values(logs) == ["behind"]


def numbers(found: list[list[int]]) -> list[int]:
    return [number for batch in found for number in batch]


@pytest.mark.parametrize("is_directory", [True, False])
def test_a_stream_waits_for_what_is_open_and_reads_it_once(shop: Shop, is_directory: bool) -> None:
    place = {"path": shop.directory} if is_directory else {"goqueue__url": shop.broker.url}
    stream = reader(**place, subscribe="orders", startingOffsets="earliest")
    start = stream.initialOffset()
    with Client(shop.broker.url) as client, client.producer(transactional_id="one") as one, client.producer() as plain:
        with one.transaction() as opened:
            plain.send("orders", "1").result()
            opened.send("orders", "2").result()
            plain.send("orders", "3").result()
            first = stream.latestOffset(start, stream.getDefaultReadLimit())
            assert first == {"orders": {"0": 1}, "@from": {"orders": {"0": 0}}}
            assert stream.latestOffset(first, stream.getDefaultReadLimit()) == first
        abort(one, "4")
        plain.send("orders", "5").result()
        assert numbers(batches(stream)) == [1, 2, 3, 5]


def test_a_stream_that_begins_with_the_latest_begins_before_what_is_open(shop: Shop) -> None:
    with Client(shop.broker.url) as client, client.producer(transactional_id="one") as one, client.producer() as plain:
        plain.send("orders", "1").result()
        with one.transaction() as opened:
            opened.send("orders", "2").result()
            streams = [
                reader(**place, subscribe="orders", startingOffsets="latest")
                for place in ({"path": shop.directory}, {"goqueue__url": shop.broker.url})
            ]
            assert [stream.initialOffset() for stream in streams] == [{"orders": {"0": 1}}] * 2
        assert [batches(stream) for stream in streams] == [[[2]]] * 2


def test_streams_read_what_was_committed_once_whatever_else_goes_on(shop: Shop) -> None:
    """Producers commit and abort side by side, and another one writes without transactions."""
    committed: list[int] = []
    threads = [Thread(target=produce, args=(shop.broker.url, number, committed)) for number in range(3)]
    for one in threads:
        one.start()
    places = ({"path": shop.directory}, {"goqueue__url": shop.broker.url})
    streams = [reader(**place, subscribe="orders", startingOffsets="earliest") for place in places]
    found: list[list[int]] = [[], []]
    starts = [stream.initialOffset() for stream in streams]
    is_over = False
    while not is_over:
        is_over = not any(one.is_alive() for one in threads)
        for number, stream in enumerate(streams):
            end = stream.latestOffset(starts[number], stream.getDefaultReadLimit())
            if end != starts[number]:
                found[number] += numbers(tasks(stream, starts[number], end))
            starts[number] = end
    assert [sorted(one) for one in found] == [sorted(committed)] * 2


def produce(url: str, number: int, committed: list[int]) -> None:
    random, values = Random(number), count(number * 1000)
    with Client(url) as client, client.producer(transactional_id=f"p{number}") as one, client.producer() as plain:
        for _ in range(15):
            mine = []
            with one.transaction() as transaction:
                for value in islice(values, random.randint(1, 5)):
                    if random.random() < 0.2:
                        plain.send("orders", b"%d" % value).result()
                        committed.append(value)
                    else:
                        transaction.send("orders", b"%d" % value)
                        mine.append(value)
                if random.random() < 0.4:
                    transaction.abort()
                    mine = []
            committed += mine
