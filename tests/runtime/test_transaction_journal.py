"""What the broker's log says of transactions: each line when a real broker comes to it."""

import logging
from collections.abc import Callable, Iterator

import pytest

from goqueue.testing.broker import LocalBroker
from goqueue.testing.disk import FaultyDisk
from tests.api.wire import until
from tests.brokers import broker, create, publish
from tests.cli.transactions import Producer

__all__ = ["broker"]

_LOGGER = "goqueue.transactions"
Said = Callable[[], list[tuple[str, str]]]


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Said]:
    """Lines with their levels."""
    with caplog.at_level(logging.INFO, _LOGGER):
        yield lambda: [(line.levelname, line.getMessage()) for line in caplog.records if line.name == _LOGGER]


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is open for a moment is open for long."""
    monkeypatch.setattr("goqueue.broker.transactions.patience._HUNG_NS", 10**7)


def test_one_that_is_open_for_long_is_told_with_what_it_costs_and_when_it_is_over(
    broker: LocalBroker, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker.url, "orders", partitions=2)
    create(broker.url, "payments")
    publish(broker.url, "payments", *"abc")
    monkeypatch.setattr("goqueue.broker.transactions.patience._HUNG_NS", 10**9)
    producer = Producer(broker.url, "till-1")
    first = producer.id
    producer.put("orders", 0)
    producer.put("orders", 1)
    producer.put("payments", delay="1h")
    producer.ack("billing", "payments", 1)
    publish(broker.url, "orders", "of another", partition=0)
    until(broker.url, said)
    level, line = said()[0]
    assert level == "WARNING"
    assert line.startswith(
        f"transaction {first} of till-1 is open for 1s: it holds 3 messages of orders/0, orders/1 back; "
    )
    assert "; groups wait with it: billing; it is aborted in " in line
    assert line.endswith(" unless something is heard of it; `goqueue-cli transaction abort till-1` ends it now")
    producer.abort("no such customer")
    level, line = said()[1]
    assert (level, line.rsplit(" ", 1)[0]) == ("INFO", f"transaction {first} of till-1 was aborted after")


@pytest.mark.usefixtures("hurried")
def test_one_that_holds_nothing_back_says_so_and_one_with_no_time_left_too(broker: LocalBroker, said: Said) -> None:
    producer = Producer(broker.url, "till-1", timeout=900.0)
    until(broker.url, said)
    assert ": it holds no messages back; it is aborted in 15m, whatever is heard of it; " in said()[0][1]
    begun = producer.id
    producer.commit()
    assert said()[1][1].startswith(f"transaction {begun} of till-1 was committed after ")


def test_one_that_ends_soon_is_no_news(broker: LocalBroker, said: Said) -> None:
    create(broker.url, "orders")
    producer = Producer(broker.url, "till-1")
    producer.put("orders")
    producer.commit()
    assert said() == []


@pytest.mark.usefixtures("hurried")
def test_of_many_at_once_some_are_told_and_where_to_see_the_others(
    broker: LocalBroker, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.runtime.transaction_journal._LINES_MAX", 0)
    Producer(broker.url, "till-1")
    until(broker.url, said)
    assert said() == [("WARNING", "more transactions are open for long: `goqueue-cli transaction list` shows them")]


@pytest.mark.parametrize(("how", "done"), [("commit", "committed"), ("abort", "aborted")])
def test_an_end_that_a_log_does_not_take_is_told_once(
    how: str, done: str, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FaultyDisk()
    monkeypatch.setattr("goqueue.daemon.SystemDisk", lambda: disk)
    monkeypatch.setattr("goqueue.broker.transactions.patience._AGAIN_NS", 10**6)
    with LocalBroker("/data") as local:
        create(local.url, "orders")
        producer = Producer(local.url, "till-1")
        producer.put("orders")
        disk.fail("sync", path="*/orders/0/*")
        for _ in range(3):  # and each is tried again by the broker meanwhile
            assert producer.try_to(how).code == "transaction_pending"
        assert [level for level, _ in said()] == ["WARNING"]
        sentence = (
            f"transaction {producer.id} of till-1 is to be {done}, which cannot be carried out and is tried again"
        )
        assert said()[0][1].startswith(f"{sentence} every second: log orders/0 is fenced")
