"""Compaction on demand: of each key the latest stays, now, whatever the upkeep is at."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.members import told
from tests.brokers import Answer, ask, create, publish, read


def compact(url: str, topic: str) -> Answer:
    return ask(url, "POST", f"/admin/topics/{topic}/compact")


def kept(url: str, topic: str, partition: int = 0) -> list[tuple[str, str]]:
    return [(one["key"], one["value"]) for one in read(url, topic, partition, "limit=10000")]


def test_of_each_key_the_latest_stays(broker: LocalBroker) -> None:
    create(broker.url, "prices", cleanup="compact")
    for value in "abc":
        publish(broker.url, "prices", value, key="apple")
    publish(broker.url, "prices", "d", key="pear")
    answer = told(compact(broker.url, "prices"))
    assert (answer["success"], answer["topic_name"]) == (True, "prices")
    (row,) = answer["partitions"]
    assert (row["partition"], row["messages_removed"]) == (0, 2)
    assert row["size_after"] < row["size_before"]
    (again,) = told(compact(broker.url, "prices"))["partitions"]
    assert (again["messages_removed"], again["size_before"], again["size_after"]) == (0, *[row["size_after"]] * 2)
    assert kept(broker.url, "prices") == [("apple", "c"), ("pear", "d")]


def test_every_partition_has_a_row(broker: LocalBroker) -> None:
    create(broker.url, "prices", partitions=3, cleanup="compact")
    publish(broker.url, "prices", "a", "b", key="apple", partition=1)
    rows: list[dict[str, Any]] = told(compact(broker.url, "prices"))["partitions"]
    assert [(row["partition"], row["messages_removed"]) for row in rows] == [(0, 0), (1, 1), (2, 0)]
    assert rows[0]["size_before"] == rows[0]["size_after"] == 0


def test_a_topic_that_is_not_compacted_is_refused_with_what_to_set(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    answer = compact(broker.url, "orders")
    assert (answer.status, answer.code) == (400, "request_invalid")
    assert answer.json["error"] == "topic 'orders' has no compaction: its cleanup is delete"
    assert "cleanup=compact" in answer.json["hint"]


@pytest.mark.parametrize(
    ("name", "code"),
    [("unknown", "topic_not_found"), ("__metadata", "topic_not_found"), ("a%20b", "topic_name_invalid")],
)
def test_unknown_or_internal_topic_is_refused(broker: LocalBroker, name: str, code: str) -> None:
    assert compact(broker.url, name).code == code
    assert ask(broker.url, "POST", "/admin/topics/t/compact?now=true").code == "request_invalid"


def test_a_partition_that_cannot_be_compacted_keeps_no_other_from_it(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "prices", partitions=2, cleanup="compact")
        for partition in (0, 1):
            publish(broker.url, "prices", "a", "b", key="apple", partition=partition)
    shutil.rmtree(tmp_path / "data/logs/prices/0")
    with LocalBroker(str(tmp_path / "data")) as broker:
        answer = compact(broker.url, "prices")
        assert (answer.status, answer.code) == (503, "log_fenced")
        assert kept(broker.url, "prices", 1) == [("apple", "b")]
