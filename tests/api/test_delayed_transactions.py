"""Delayed messages in transactions over HTTP: nobody's until the commit, and nobody waits for them."""

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.test_delayed import arrived, messages
from tests.api.test_transactions import Whose, call, done, init, of, put, refused
from tests.api.wire import until
from tests.brokers import ask, broker, create, publish

__all__ = ["broker"]


def begun(url: str, name: str = "app-1") -> Whose:
    whose = init(url, name)
    done(call(url, "begin", whose))
    return whose


@pytest.fixture
def url(broker: LocalBroker) -> str:
    create(broker.url, "t", partitions=2)
    return broker.url


def test_what_is_scheduled_in_a_transaction_is_seen_when_that_is_committed(url: str) -> None:
    whose = begun(url)
    offset = put(url, whose, "tea", delay="1h")["offset"]
    place = f"/topics/t/delayed/0/{offset}"
    assert messages(url) == []
    refused(ask(url, "GET", place), 404, "delayed_not_found")
    refused(ask(url, "DELETE", place), 404, "delayed_not_found")
    assert ask(url, "GET", "/delay/stats").json["pending_count"] == 0

    done(call(url, "commit", whose))

    assert [one["offset"] for one in messages(url)] == [offset]
    assert ask(url, "GET", "/delay/stats").json["pending_count"] == 1
    assert ask(url, "POST", f"{place}/deliver").json == {"delivered": True}
    assert arrived(url, 0, 1) == ["tea"]


def test_what_was_due_before_the_commit_arrives_with_it(url: str) -> None:
    whose = begun(url)
    put(url, whose, "late", delay="1ms")
    publish(url, "t", "plain", partition=0, delay="2ms")
    assert arrived(url, 0, 1) == ["plain"]
    done(call(url, "commit", whose))
    assert arrived(url, 0, 2) == ["plain", "late"]


def test_of_an_aborted_transaction_nothing_was_ever_scheduled(url: str) -> None:
    whose = begun(url)
    offset = put(url, whose, "never", delay="1ms")["offset"]
    done(call(url, "abort", whose))
    publish(url, "t", "plain", partition=0, delay="1ms")
    assert arrived(url, 0, 1) == ["plain"]
    refused(ask(url, "GET", f"/topics/t/delayed/0/{offset}"), 404, "delayed_not_found")
    until(url, lambda: ask(url, "GET", "/delay/stats").json["delivered_count"] == 1)
    stats = ask(url, "GET", "/delay/stats").json
    assert (stats["pending_count"], stats["cancelled_count"]) == (0, 0)


def test_an_open_transaction_holds_back_nothing_but_its_own_delayed_messages(url: str) -> None:
    whose = begun(url)
    put(url, whose, "one", delay="1h")
    publish(url, "t", "behind", "it", partition=0, delay="1h")
    (touched,) = of(url)["partitions"]
    assert (touched["delayed"], touched["messages"], touched["held_back"]) == (True, 1, 1)
    assert len(messages(url)) == 2


def test_a_broker_that_starts_again_forgets_what_was_not_committed(url: str, broker: LocalBroker) -> None:
    kept, dropped = begun(url, "kept"), begun(url, "dropped")
    put(url, kept, "kept", delay="1h")
    put(url, dropped, "dropped", delay="1h")
    done(call(url, "commit", kept))
    broker.stop()
    broker.start()
    until(broker.url, lambda: of(broker.url, "dropped")["state"] == "complete_abort")
    found = messages(broker.url)
    assert [ask(broker.url, "GET", f"/topics/t/delayed/0/{one['offset']}").json["value"] for one in found] == ["kept"]
