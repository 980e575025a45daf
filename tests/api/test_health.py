"""Health endpoints, also when something is wrong."""

import shutil
from pathlib import Path

import pytest

from goqueue import __version__
from goqueue.testing.broker import LocalBroker
from goqueue.testing.disk import FaultyDisk
from tests.api.wire import raw, until
from tests.brokers import ask, create, publish


def test_health_in_a_word(shared_broker: LocalBroker) -> None:
    found = ask(shared_broker.url, "GET", "/health").json
    assert found.keys() == {"status", "timestamp"}
    assert found["status"] == "ok"


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/v1/healthz"])
def test_the_process_lives(shared_broker: LocalBroker, path: str) -> None:
    found = ask(shared_broker.url, "GET", path).json
    assert found.keys() == {"status", "timestamp", "uptime", "message"}
    assert (found["status"], found["uptime"] >= 0) == ("pass", True)


def test_verbose_readiness_has_every_check(topic_broker: LocalBroker) -> None:
    publish(topic_broker.url, "t", "x")
    found = ask(topic_broker.url, "GET", "/readyz?verbose=true").json
    assert found["checks"].keys() == {"storage", "loop", "in_flight"}
    assert all(check.keys() == {"status", "message", "latency"} for check in found["checks"].values())
    assert {check["status"] for check in found["checks"].values()} == {"pass"}
    assert found["broker"]["node_id"] == "0"
    assert found["broker"]["topic_count"] == 1
    assert found["broker"]["total_size"] > 0


def test_version_is_returned(shared_broker: LocalBroker) -> None:
    found = ask(shared_broker.url, "GET", "/version").json
    assert found.keys() == {"version", "git_commit", "build_time", "python_version", "authentication", "tenants"}
    assert found["version"] == __version__


def test_the_numbers_of_all_topics(broker: LocalBroker) -> None:
    create(broker.url, "a", partitions=2)
    create(broker.url, "b")
    publish(broker.url, "a", "1", "2", "3")
    found = ask(broker.url, "GET", "/stats").json
    assert (found["topics"], found["partitions"], found["groups"]) == (2, 3, 0)
    assert found["topics"] == 2
    assert found["topic_stats"]["a"]["partitions"] == 2
    assert found["topic_stats"]["a"]["messages"] == 3
    assert found["topic_stats"]["b"] == {"partitions": 1, "messages": 0, "size_bytes": 0}
    assert found["total_size_bytes"] == found["topic_stats"]["a"]["size_bytes"]


def test_fenced_partition_makes_the_broker_degraded(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "t", partitions=2)
        publish(broker.url, "t", "x", partition=1)
    shutil.rmtree(tmp_path / "data/logs/t/1")
    with LocalBroker(str(tmp_path / "data")) as broker:
        assert ask(broker.url, "GET", "/health").json["status"] == "degraded"
        ready = ask(broker.url, "GET", "/readyz?verbose=true")
        assert (ready.status, ready.json["message"]) == (200, "1 partition takes no messages")
        assert "t/1" in ready.json["checks"]["storage"]["message"]
        publish(broker.url, "t", "x", partition=0)


def test_it_is_not_ready_while_it_stops(topic_broker: LocalBroker) -> None:
    topic_broker.daemon.runtime.refuse_new_work()
    asked = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    head, _, body = raw(topic_broker.url, asked).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b'"message":"stopping"' in body
    assert ask(topic_broker.url, "GET", "/health").json["status"] == "fail"
    refused = ask(topic_broker.url, "POST", "/topics/t/messages", {"messages": [{"value": "x"}]})
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (503, "broker_stopping", "1")


def test_full_disk_is_reported_until_space_is_free(disk: FaultyDisk) -> None:
    with LocalBroker("/data") as local:
        create(local.url, "orders")
        publish(local.url, "orders", "x")
        until(local.url, lambda: local.daemon.runtime.store.reserve.is_made)
        space = disk.space("/data")
        disk.capacity_bytes = space.total_bytes - space.free_bytes
        sent = ask(local.url, "POST", "/topics/orders/messages", {"messages": [{"value": "x"}]})
        assert (sent.status, sent.code) == (503, "disk_full")
        ready = ask(local.url, "GET", "/readyz?verbose=true")
        assert (ready.status, ready.json["status"]) == (200, "degraded")
        assert ready.json["message"] == "publishing is refused: the disk is full"
        assert ready.json["checks"]["storage"]["status"] == "fail"
        assert ask(local.url, "GET", "/health").json["status"] == "degraded"
        scraped = ask(local.url, "GET", "/metrics").body.decode()
        assert "goqueue_logs_refused 1.0" in scraped
        assert "goqueue_sync_failures_total 0.0" in scraped
        codes = [finding["code"] for finding in ask(local.url, "GET", "/doctor").json["findings"]]
        assert "writes_refused" in codes
        assert "sync_failed" not in codes
        disk.capacity_bytes = None
        until(local.url, lambda: ask(local.url, "GET", "/health").json["status"] == "ok")
        assert ask(local.url, "GET", "/readyz").json["status"] == "pass"
