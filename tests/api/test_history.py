"""The broker's numbers: of now, and second by second."""

import re
from typing import Any

from goqueue.observe.history import SERIES
from goqueue.testing.broker import LocalBroker
from tests.api.members import Member, receipts, told
from tests.api.wire import until
from tests.brokers import ask, broker, create, publish, read

__all__ = ["broker"]


def history(broker: LocalBroker, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = told(ask(broker.url, "GET", f"/stats/history{query}"))
    return found


def stats(broker: LocalBroker) -> dict[str, Any]:
    found: dict[str, Any] = told(ask(broker.url, "GET", "/stats"))
    return found


def busy(broker: LocalBroker) -> None:
    """Everything that has a series happens."""
    create(broker.url, "orders", partitions=2)
    publish(broker.url, "orders", *map(str, range(20)), partition=1)
    read(broker.url, "orders", 1)
    member = Member(broker.url).join(start="earliest")
    told(ask(broker.url, "POST", "/messages/ack", {"receipt_handles": receipts(member.poll(limit=5))}))


def test_what_happens_is_in_the_series(broker: LocalBroker) -> None:
    busy(broker)
    until(broker.url, lambda: sum(history(broker)["series"]["settled"]) > 0)
    found = history(broker)
    assert set(found["series"]) == set(SERIES)
    assert len({len(one) for one in found["series"].values()}) == 1
    assert found["interval_seconds"] == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", found["end"])
    for name in ("published", "published_bytes", "read", "read_bytes", "requests", "publish_p99_ms", "flush_p99_ms"):
        assert sum(found["series"][name]) > 0, name
    assert max(found["series"]["publish_p50_ms"]) <= max(found["series"]["publish_p99_ms"])


def test_the_lag_of_all_groups_is_summed_up(broker: LocalBroker) -> None:
    busy(broker)
    publish(broker.url, "orders", "one more", partition=0)
    until(broker.url, lambda: history(broker)["series"]["total_lag"][-1:] == [16])


def test_no_more_seconds_come_than_are_asked_for(broker: LocalBroker) -> None:
    until(broker.url, lambda: len(history(broker)["series"]["requests"]) >= 2)
    assert {len(one) for one in history(broker, "?seconds=1")["series"].values()} == {1}


def test_before_the_first_second_the_series_are_empty(broker: LocalBroker) -> None:
    found = history(broker)
    assert all(len(one) <= 1 for one in found["series"].values())
    assert found["end"]


def test_the_numbers_of_now(broker: LocalBroker) -> None:
    busy(broker)
    until(broker.url, lambda: stats(broker)["rates"]["published_per_second"] > 0)
    found = stats(broker)
    assert found.keys() == {
        "node_id", "uptime", "topics", "partitions", "groups", "total_size_bytes", "rates", "disk", "connections",
        "memory_bytes", "loop_lag_ms", "topic_stats",
    }  # fmt: skip
    assert (found["topics"], found["partitions"], found["groups"]) == (1, 2, 1)
    assert found["rates"].keys() == {
        "published_per_second", "published_bytes_per_second", "read_per_second", "read_bytes_per_second",
        "settled_per_second", "requests_per_second",
    }  # fmt: skip
    assert 0 < found["disk"]["free_bytes"] <= found["disk"]["total_bytes"]
    assert found["connections"] >= 1
    assert found["memory_bytes"] > 10_000_000
