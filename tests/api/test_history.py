"""The broker's numbers: of now, and second by second."""

import re
from pathlib import Path
from typing import Any

import pytest

from goqueue.observe.history_row import SERIES
from goqueue.testing.broker import LocalBroker
from tests.api.members import Member, receipts, told
from tests.api.wire import until
from tests.brokers import ask, create, publish, read


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


def test_history_records_activity(broker: LocalBroker) -> None:
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


def test_history_returns_the_requested_seconds(broker: LocalBroker) -> None:
    until(broker.url, lambda: len(history(broker)["series"]["requests"]) >= 2)
    assert {len(one) for one in history(broker, "?seconds=1")["series"].values()} == {1}


def test_history_is_kept_across_a_restart(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path)) as broker:
        busy(broker)
        until(broker.url, lambda: sum(history(broker)["series"]["settled"]) > 0)
    with LocalBroker(str(tmp_path)) as broker:
        found = history(broker, "?seconds=60&step=10")
        assert found["interval_seconds"] == 10
        assert {len(one) for one in found["series"].values()} == {6}
        assert sum(one or 0 for one in found["series"]["published"]) > 0
        assert found["series"]["published"][0] is None, "the broker has not run for so long"
        day = history(broker, "?seconds=86400")
        assert (day["interval_seconds"], len(day["series"]["published"])) == (60, 1440)


def test_the_history_of_a_group_has_lag_and_rate(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path)) as broker:
        busy(broker)
        until(broker.url, lambda: history(broker)["series"]["total_lag"][-1:] == [15])
    with LocalBroker(str(tmp_path)) as broker:
        found = history(broker, "?group=billing")
        assert found["series"].keys() == {"lag", "rate"}
        assert found["interval_seconds"] == 10
        assert found["series"]["lag"][-1] == 15
        assert found["series"]["rate"][-1] > 0
        assert ask(broker.url, "GET", "/stats/history?group=unknown").code == "group_not_found"


@pytest.mark.parametrize("query", ["step=7", "step=1&group=billing", "step=1&seconds=301", "step=10&seconds=21601"])
def test_a_step_that_is_not_kept_for_so_long_is_refused(broker: LocalBroker, query: str) -> None:
    busy(broker)
    answer = ask(broker.url, "GET", f"/stats/history?{query}")
    assert (answer.status, answer.code) == (400, "request_invalid")
    assert "10 s up to 6h, 60 s up to 2d" in answer.json["hint"]


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
