"""Topics over HTTP: made, described, changed, deleted."""

from pathlib import Path
from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, create, publish, read

DEFAULTS = {
    "retention_hours": 168.0,
    "retention_bytes": None,
    "cleanup": "delete",
    "max_message_bytes": 1048576,
    "partitioner": "murmur3",
    "delay_expiry_seconds": None,
    "segment_bytes": None,
    "lane_weights": [50, 25, 15, 7, 3],
    "lane_boost_seconds": 30.0,
    "trace_sampling": None,
    "max_retries": None,
    "retry_delay": None,
    "max_retry_delay": None,
    "visibility_timeout": None,
    "dead_letter_topic": None,
    "value_validation": "none",
    "value_subject": "topic",
    "key_validation": "none",
    "key_subject": "topic",
    "replication_factor": None,
    "min_isr": None,
    "unclean_election": None,
}


def test_a_topic_is_made_with_what_was_asked_for(broker: LocalBroker) -> None:
    asked = {
        "retention_hours": 1.5,
        "retention_bytes": 10_000_000,
        "cleanup": "compact,delete",
        "max_message_bytes": 2048,
        "partitioner": "murmur2",
        "delay_expiry_seconds": 3600.5,
        "segment_bytes": 65536,
        "lane_weights": [5, 4, 3, 2, 1],
        "lane_boost_seconds": 1.5,
        "trace_sampling": 0.25,
        "max_retries": "unlimited",
        "retry_delay": 2.0,
        "max_retry_delay": 600.0,
        "visibility_timeout": 0.5,
        "dead_letter_topic": "failed",
        "value_validation": "payload",
        "value_subject": "record",
        "key_validation": "id",
        "key_subject": "topic-record",
        "replication_factor": 1,
        "min_isr": 1,
        "unclean_election": "longest",
    }
    answer = ask(broker.url, "POST", "/topics", {"name": "orders", "num_partitions": 5, **asked})
    assert (answer.status, answer.json) == (201, {"name": "orders", "partitions": 5, "created": True, "operation": 1})
    assert ask(broker.url, "GET", "/topics/orders").json["config"] == asked
    for text, has_hint in (("abc", False), ("0.5", True)):
        refused = ask(broker.url, "POST", "/topics", {"name": "other", "trace_sampling": text})
        assert (refused.code, "without quotes" in str(refused.json)) == ("request_invalid", has_hint)


def test_omitted_settings_use_the_configuration(tmp_path: Path) -> None:
    settings = {"topics__partitions": "2", "topics__retention": "12h", "topics__max_message_bytes": "4KiB"}
    with LocalBroker(str(tmp_path / "data"), **settings) as broker:
        assert ask(broker.url, "POST", "/topics", {"name": "t"}).json["partitions"] == 2
        config = ask(broker.url, "GET", "/topics/t").json["config"]
    assert config == DEFAULTS | {"retention_hours": 12.0, "max_message_bytes": 4096}


def test_a_topic_is_described(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=2)
    publish(broker.url, "t", "a", "b", partition=1)
    found = ask(broker.url, "GET", "/topics/t").json
    assert found.pop("created_at").endswith("Z")
    assert found.pop("total_size_bytes") > 0
    assert found.pop("etag")
    assert found == {
        "name": "t",
        "partitions": 2,
        "total_messages": 2,
        "other_records": 0,
        "dlq_topic": "t.dlq",
        "partition_offsets": {"0": {"earliest": 0, "latest": 0}, "1": {"earliest": 0, "latest": 2}},
        "config": DEFAULTS,
        "faults": {},
    }


def test_its_partitions_are_described(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=2)
    publish(broker.url, "t", "a", "b", partition=1)
    first, second = ask(broker.url, "GET", "/topics/t/partitions").json["partitions"]
    assert first["partition"] == 0
    assert second.pop("size_bytes") > 0
    assert second == {
        "partition": 1,
        "earliest": 0,
        "latest": 2,
        "log_end": 2,
        "durable_end": 2,
        "high_watermark": 2,
        "last_stable": 2,
        "segments": 1,
        "leader": 0,
        "replicas": [0],
        "in_sync_replicas": [0],
        "leader_epoch": 0,
        "min_isr": 1,
        "local": True,
        "fault": None,
    }


def test_topics_are_listed_in_order_and_internal_ones_on_request(broker: LocalBroker) -> None:
    for name in ("b", "a", ".hidden"):
        create(broker.url, name)
    assert ask(broker.url, "GET", "/topics").json == {"topics": [".hidden", "a", "b"]}
    assert ask(broker.url, "GET", "/topics?internal=true").json == {
        "topics": [
            ".hidden",
            "__audit",
            "__consumer_offsets",
            "__metadata",
            "__operations",
            "__schemas",
            "__security",
            "__transactions",
            "a",
            "b",
        ]
    }


def test_a_name_is_given_once(topic_broker: LocalBroker) -> None:
    answer = ask(topic_broker.url, "POST", "/topics", {"name": "t"})
    assert (answer.status, answer.code, answer.json["details"]) == (409, "topic_exists", {"topic": "t"})


def test_unknown_topic_is_refused_with_a_suggestion(broker: LocalBroker) -> None:
    create(broker.url, "Orders")
    answer = ask(broker.url, "GET", "/topics/orders")
    assert (answer.status, answer.code, answer.json["hint"]) == (404, "topic_not_found", "did you mean Orders?")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/topics/absent", None),
        ("DELETE", "/topics/absent", None),
        ("PATCH", "/admin/topics/absent", {"retention_hours": 1}),
        ("GET", "/topics/absent/partitions", None),
        ("GET", "/topics/absent/partitions/0/offset?time=2026-01-01T00:00:00Z", None),
        ("GET", "/topics/absent/messages", None),
        ("GET", "/topics/absent/partitions/0/messages", None),
        ("POST", "/topics/absent/messages", {"messages": [{"value": "x"}]}),
    ],
)
def test_unknown_topic_is_refused_at_every_endpoint(unchanged: str, method: str, path: str, body: Any) -> None:
    answer = ask(unchanged, method, path, body)
    assert (answer.status, answer.code) == (404, "topic_not_found")
    assert answer.json["hint"]
    assert ask(unchanged, "GET", "/topics").json == {"topics": ["t"]}


@pytest.mark.parametrize("partition", ["1", "-1", "00", "x", "0x0", "1.0", "99999999999999999999", "%C2%B2", "%20"])
def test_unknown_partition_is_named(unchanged: str, partition: str) -> None:
    answer = ask(unchanged, "GET", f"/topics/t/partitions/{partition}/messages")
    assert (answer.status, answer.code) == (404, "partition_not_found")
    assert answer.json["hint"]


def test_settings_are_changed_one_by_one(topic_broker: LocalBroker) -> None:
    answer = ask(topic_broker.url, "PATCH", "/admin/topics/t", {"retention_hours": None, "cleanup": "compact"})
    changed = DEFAULTS | {"retention_hours": None, "cleanup": "compact"}
    assert (answer.status, answer.json["config"]) == (200, changed)
    assert ask(topic_broker.url, "PATCH", "/admin/topics/t", {}).json["config"] == changed


def test_a_smaller_limit_of_messages_holds_at_once(topic_broker: LocalBroker) -> None:
    publish(topic_broker.url, "t", "x" * 5000)
    ask(topic_broker.url, "PATCH", "/admin/topics/t", {"max_message_bytes": 1024})
    refused = ask(topic_broker.url, "POST", "/topics/t/messages", {"messages": [{"value": "x" * 5000}]})
    assert (refused.status, refused.code) == (413, "message_too_large")


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"num_partitions": 1}, "name"),
        ({"name": 7}, "name"),
        ({"name": ""}, "name"),
        ({"name": "t", "num_partitions": 0}, "num_partitions"),
        ({"name": "t", "num_partitions": 1001}, "num_partitions"),
        ({"name": "t", "num_partitions": True}, "num_partitions"),
        ({"name": "t", "partitions": 3}, "partitions"),
        ({"name": "t", "retention_hours": -1}, "retention_hours"),
        ({"name": "t", "retention_bytes": 2**63}, "retention_bytes"),
        ({"name": "t", "cleanup": "burn"}, "cleanup"),
        ({"name": "t", "max_message_bytes": 17 * 2**20}, "max_message_bytes"),
        ({"name": "t", "partitioner": "md5"}, "partitioner"),
        ({"name": "t", "segment_bytes": 1}, "segment_bytes"),
    ],
)
def test_invalid_new_topic_is_refused_with_the_place(unchanged: str, body: Any, place: str) -> None:
    answer = ask(unchanged, "POST", "/topics", body)
    assert (answer.status, answer.code) == (400, "request_invalid")
    assert [problem["place"] for problem in answer.json["details"]["problems"]] == [place]
    assert ask(unchanged, "GET", "/topics").json == {"topics": ["t"]}


@pytest.mark.parametrize("body", [{"name": "other"}, {"num_partitions": 9}, {"retention_hours": "long"}, [], None])
def test_unchangeable_settings_are_refused(unchanged: str, body: Any) -> None:
    assert ask(unchanged, "PATCH", "/admin/topics/t", body).code == "request_invalid"
    assert ask(unchanged, "GET", "/topics/t").json["config"] == DEFAULTS


def test_a_deleted_topic_is_gone_and_its_name_is_free_for_an_empty_one(topic_broker: LocalBroker) -> None:
    publish(topic_broker.url, "t", "old")
    answer = ask(topic_broker.url, "DELETE", "/topics/t")
    assert (answer.status, answer.json) == (200, {"deleted": True, "name": "t", "delayed_deleted": 0, "operation": 2})
    assert ask(topic_broker.url, "GET", "/topics/t").status == 404
    create(topic_broker.url, "t")
    assert read(topic_broker.url, "t") == []


@pytest.mark.parametrize("method", ["DELETE", "PATCH", "POST"])
def test_internal_topics_are_for_the_broker_alone(unchanged: str, method: str) -> None:
    paths = {"DELETE": "/topics/{}", "PATCH": "/admin/topics/{}", "POST": "/topics/{}/messages"}
    bodies: dict[str, Any] = {"PATCH": {"retention_hours": 0}, "POST": {"messages": [{"value": "x"}]}}
    answer = ask(unchanged, method, paths[method].format("__metadata"), bodies.get(method))
    assert (answer.status, answer.code) == (404, "topic_not_found")
    assert ask(unchanged, "POST", "/topics", {"name": "__mine"}).code == "topic_name_invalid"


def test_the_longest_name_can_be_made_used_and_deleted(broker: LocalBroker) -> None:
    name = "n" * 255
    create(broker.url, name)
    publish(broker.url, name, "x")
    assert ask(broker.url, "DELETE", f"/topics/{name}").status == 200
    create(broker.url, name)
    assert read(broker.url, name) == []


def test_settings_are_changed_only_as_they_are_expected(topic_broker: LocalBroker) -> None:
    url, path = topic_broker.url, "/admin/topics/t"
    etag = ask(url, "GET", "/topics/t").json["etag"]
    changed = ask(url, "PATCH", path, {"retention_hours": 5}, {"if-match": f'"{etag}"'})
    assert (changed.status, changed.json["config"]["retention_hours"]) == (200, 5)
    late = ask(url, "PATCH", path, {"retention_hours": 6}, {"if-match": f'"{etag}"'})
    assert (late.status, late.code) == (412, "settings_changed")
    assert ask(url, "GET", "/topics/t").json["config"]["retention_hours"] == 5
    assert ask(url, "PATCH", path, {"retention_hours": 7}, {"if-match": changed.json["etag"]}).status == 200
