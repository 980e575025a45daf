"""All topics, and all groups, with their numbers in one request."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import Client
from goqueue.testing.broker import LocalBroker
from tests.api.members import Member, receipts, told
from tests.api.wire import until
from tests.brokers import Answer, ask, create, publish


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with three topics and three groups, which no test changes."""
    with LocalBroker(str(tmp_path_factory.mktemp("shared"))) as local:
        create(local.url, "orders", partitions=2)
        create(local.url, "prices", cleanup="compact", retention_hours=None)
        create(local.url, "empty")
        publish(local.url, "orders", *map(str, range(10)))
        for name in ("billing", "audit", "shipping"):
            member = Member(local.url, name).join(start="earliest")
            found = member.poll(limit=4)
            if name == "billing":
                told(ask(local.url, "POST", "/messages/ack", {"receipt_handles": receipts(found[:1])}))
            if name == "shipping":
                member.leave()
        yield local.url


def rows(url: str, what: str, query: str = "") -> dict[str, dict[str, Any]]:
    """By the name of each."""
    details = told(ask(url, "GET", f"/{what}?details=true&{query}".rstrip("&")))["details"]
    return {row.get("name") or row["group_id"]: row for row in details}


def test_list_without_details_has_only_names(shared: str) -> None:
    assert told(ask(shared, "GET", "/topics")) == {"topics": ["empty", "orders", "prices"]}
    assert told(ask(shared, "GET", "/topics?details=false")) == {"topics": ["empty", "orders", "prices"]}
    assert told(ask(shared, "GET", "/groups")) == {"groups": ["audit", "billing", "shipping"]}


# --- topics ---


def test_topic_row_equals_the_topic_description(shared: str) -> None:
    answer = told(ask(shared, "GET", "/topics?details=true"))
    assert answer["topics"] == [row["name"] for row in answer["details"]] == ["empty", "orders", "prices"]
    for row in answer["details"]:
        topic = told(ask(shared, "GET", f"/topics/{row['name']}"))
        assert {
            name: topic[name] for name in topic if name not in ("partition_offsets", "faults", "dlq_topic", "etag")
        } == {
            name: row[name]
            for name in (
                "name",
                "partitions",
                "total_messages",
                "other_records",
                "total_size_bytes",
                "created_at",
                "config",
            )
        }
    assert rows(shared, "topics")["orders"]["total_messages"] == 10
    assert rows(shared, "topics")["empty"]["published_per_second"] == 0


def test_internal_topics_have_rows_where_they_are_asked_for(shared: str) -> None:
    assert "__metadata" not in rows(shared, "topics")
    assert rows(shared, "topics", "internal=true")["__metadata"]["partitions"] == 1


def test_a_row_has_the_topics_own_rates(broker: LocalBroker) -> None:
    create(broker.url, "busy")
    create(broker.url, "quiet")
    publish(broker.url, "busy", *map(str, range(50)))
    until(broker.url, lambda: rows(broker.url, "topics")["busy"]["published_per_second"] > 0)
    found = rows(broker.url, "topics")
    assert found["busy"]["bytes_per_second"] > found["busy"]["published_per_second"]
    assert found["quiet"]["published_per_second"] == 0


def test_partitions_that_take_no_messages_are_counted(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "t", partitions=3)
        publish(broker.url, "t", "x", partition=1)
    shutil.rmtree(tmp_path / "data/logs/t/1")
    with LocalBroker(str(tmp_path / "data")) as broker:
        assert rows(broker.url, "topics")["t"]["faults"] == 1


def test_the_rows_of_many_topics_are_one_valid_answer(broker: LocalBroker) -> None:
    names = [f"t-{number:03}" for number in range(70)]  # more than are made in one go
    with Client(broker.url) as client:
        for name in names:
            create(broker.url, name)
        assert [row.name for row in client.topic_details()] == names


def test_a_broker_without_topics_has_no_rows(broker: LocalBroker) -> None:
    assert told(ask(broker.url, "GET", "/topics?details=true")) == {"topics": [], "details": []}
    assert told(ask(broker.url, "GET", "/groups?details=true")) == {"groups": [], "details": []}


# --- groups ---


def test_group_row_equals_the_group_description(shared: str) -> None:
    found = rows(shared, "groups")
    assert list(found) == ["audit", "billing", "shipping"]
    for name, row in found.items():
        group = told(ask(shared, "GET", f"/groups/{name}"))
        for field in ("state", "generation", "rebalance_state", "total_lag"):
            assert (field, row[field]) == (field, group[field])
        places = [place for topic in group["lag"].values() for place in topic.values()]
        assert row["in_flight"] == sum(place["in_flight"] for place in places)
        assert row["members"] == len(group["members"])
        assert row["topics"] == ["orders"]
    assert (found["billing"]["total_lag"], found["billing"]["in_flight"]) == (9, 3)
    assert (found["shipping"]["state"], found["shipping"]["drain_seconds"]) == ("empty", None)


def test_groups_come_in_pages(shared: str) -> None:
    first = told(ask(shared, "GET", "/groups?details=true&limit=2"))
    assert first["groups"] == [row["group_id"] for row in first["details"]] == ["audit", "billing"]
    rest = told(ask(shared, "GET", "/groups?details=true&limit=2&after=billing"))
    assert rest["groups"] == ["shipping"]
    assert told(ask(shared, "GET", "/groups?after=shipping")) == {"groups": []}
    assert told(ask(shared, "GET", "/groups?limit=1&after=b")) == {"groups": ["billing"]}


def test_a_group_that_has_read_all_drains_at_once(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", "only")
    member = Member(broker.url).join(start="earliest")
    told(ask(broker.url, "POST", "/messages/ack", {"receipt_handles": receipts(member.poll())}))
    row = rows(broker.url, "groups")["billing"]
    assert (row["total_lag"], row["lag_seconds"], row["drain_seconds"]) == (0, 0, 0)
    assert row["rate"] > 0


# --- what is asked wrongly ---

BAD = {
    "/topics?details=yes": "details",
    "/topics?details=": "details",
    "/topics?details=true&details=true": "details",
    "/topics?detail=true": "detail",
    "/groups?details=1": "details",
    "/groups?details=true&limit=0": "limit",
    "/groups?details=true&limit=-1": "limit",
    "/groups?details=true&limit=10001": "limit",
    "/groups?details=true&limit=ten": "limit",
    f"/groups?after={'n' * 256}": "after",
    "/groups?before=a": "before",
    "/stats?seconds=1": "/stats",
    "/stats/history?seconds=0": "seconds",
    "/stats/history?seconds=172801": "seconds",
    "/stats/history?seconds=5s": "seconds",
    "/stats/history?second=5": "second",
}


@pytest.mark.parametrize("target", BAD, ids=range(len(BAD)))
def test_a_bad_value_is_refused_with_its_place(shared: str, target: str) -> None:
    answer: Answer = ask(shared, "GET", target)
    assert (answer.status, answer.code) == (400, "request_invalid")
    assert BAD[target] in answer.json["error"]
