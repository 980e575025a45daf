"""Log lines about transactions, written by a real broker."""

import logging
from collections.abc import Callable, Iterator

import pytest

from goqueue.testing.broker import LocalBroker
from goqueue.testing.disk import FaultyDisk
from tests.api.wire import until
from tests.brokers import create, publish
from tests.cli.transactions import Producer

_LOGGER = "goqueue.transactions"
Said = Callable[[], list[tuple[str, str]]]


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Said]:
    """Lines with their levels."""
    with caplog.at_level(logging.INFO, _LOGGER):
        yield lambda: [(line.levelname, line.getMessage()) for line in caplog.records if line.name == _LOGGER]


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction counts as long after a moment."""
    monkeypatch.setattr("goqueue.broker.transactions.timeouts._HUNG_NS", 10**7)


def test_long_transaction_is_logged_with_held_back_messages_and_its_end(
    broker: LocalBroker, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker.url, "orders", partitions=2)
    create(broker.url, "payments")
    publish(broker.url, "payments", *"abc")
    monkeypatch.setattr("goqueue.broker.transactions.timeouts._HUNG_NS", 10**9)
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
    assert "; groups with acks in it: billing; it is aborted in " in line
    assert line.endswith(" without a sign of life; `goqueue-cli transaction abort till-1` ends it now")
    producer.abort("no such customer")
    level, line = said()[1]
    assert (level, line.rsplit(" ", 1)[0]) == ("INFO", f"transaction {first} of till-1 was aborted after")


@pytest.mark.usefixtures("hurried")
def test_long_transaction_without_messages_is_logged_with_its_maximum_duration(broker: LocalBroker, said: Said) -> None:
    producer = Producer(broker.url, "till-1", timeout=900.0)
    until(broker.url, said)
    assert ": it holds no messages back; it is aborted in 15m, its maximum duration; " in said()[0][1]
    begun = producer.id
    producer.commit()
    assert said()[1][1].startswith(f"transaction {begun} of till-1 was committed after ")


def test_short_transaction_is_not_logged(broker: LocalBroker, said: Said) -> None:
    create(broker.url, "orders")
    producer = Producer(broker.url, "till-1")
    producer.put("orders")
    producer.commit()
    assert said() == []


@pytest.mark.usefixtures("hurried")
def test_number_of_logged_long_transactions_is_limited(
    broker: LocalBroker, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.runtime.event_logs._LINES_MAX", 0)
    Producer(broker.url, "till-1")
    until(broker.url, said)
    assert said() == [("WARNING", "more transactions are open for long: `goqueue-cli transaction list` shows them")]


@pytest.mark.parametrize(("how", "done"), [("commit", "committed"), ("abort", "aborted")])
def test_failing_transaction_end_is_logged_once(
    how: str, done: str, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FaultyDisk()
    monkeypatch.setattr("goqueue.daemon.SystemDisk", lambda: disk)
    monkeypatch.setattr("goqueue.broker.transactions.timeouts._AGAIN_NS", 10**6)
    with LocalBroker("/data") as local:
        create(local.url, "orders")
        producer = Producer(local.url, "till-1")
        producer.put("orders")
        disk.fail("sync", path="*/orders/0/*")
        for _ in range(3):  # and each is tried again by the broker meanwhile
            assert producer.try_to(how).code == "transaction_pending"
        assert [level for level, _ in said()] == ["WARNING"]
        sentence = f"transaction {producer.id} of till-1 is to be {done}, which fails and is retried every second"
        assert said()[0][1].startswith(f"{sentence}: log orders/0 is fenced")
