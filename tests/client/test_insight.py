"""The state of a broker, as both clients return it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import Client, GroupDetails, TopicDetails
from goqueue.errors import (
    BrokerStopping,
    BrokerUnreachable,
    GroupNotFound,
    RequestInvalid,
    TopicNotFound,
    TransientError,
)
from goqueue.observe.history_row import SERIES
from goqueue.testing.broker import LocalBroker
from tests.client.peers import Reply, peer, refusal, reply

pytestmark = pytest.mark.over_httpx


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with two topics and two groups."""
    path: Path = tmp_path_factory.mktemp("data")
    with LocalBroker(str(path)) as broker, Client(broker.url) as client:
        client.create_topic("orders", partitions=2)
        client.create_topic("prices", partitions=1, cleanup="compact")
        for group in ("billing", "audit"):
            with client.consumer(group, ["orders"]):
                client.publish("orders", "one", partition=1)
        yield broker.url


@pytest.fixture
def ask(ask: Any, url: str) -> Any:
    """Call one method of a client of either kind, with this broker or another peer."""
    return lambda method, *given, at=url, **options: ask(at, method, *given, **options)


def test_topics_come_with_their_numbers(ask: Any) -> None:
    found: list[TopicDetails] = ask("topic_details")
    assert [(one.name, one.partitions, one.faults) for one in found] == [("orders", 2, 0), ("prices", 1, 0)]
    assert found[0].total_messages == 2
    assert found[1].config["cleanup"] == "compact"
    assert found[0].created_at == ask("topic", "orders").created_at != ""
    assert "__metadata" in {one.name for one in ask("topic_details", internal=True)}


def test_groups_come_with_their_numbers(ask: Any) -> None:
    found: list[GroupDetails] = ask("group_details")
    assert [(one.group_id, one.state, one.topics) for one in found] == [
        ("audit", "empty", ["orders"]),
        ("billing", "empty", ["orders"]),
    ]
    assert [one.group_id for one in ask("group_details", limit=1)] == ["audit"]
    assert [one.group_id for one in ask("group_details", after="audit")] == ["billing"]
    with pytest.raises(RequestInvalid, match="limit"):
        ask("group_details", limit=0)


def test_partitions_have_positions_and_faults(ask: Any) -> None:
    assert [(one["partition"], one["latest"], one["fault"]) for one in ask("partitions", "orders")] == [
        (0, 0, None),
        (1, 2, None),
    ]
    with pytest.raises(TopicNotFound):
        ask("partitions", "missing")


def test_a_compaction_is_asked_for(ask: Any) -> None:
    assert [one["partition"] for one in ask("compact_topic", "prices")["partitions"]] == [0]
    with pytest.raises(RequestInvalid, match="has no compaction"):
        ask("compact_topic", "orders")


def test_the_broker_tells_its_numbers(ask: Any) -> None:
    assert ask("stats")["partitions"] == 3
    assert ask("history")["series"].keys() == set(SERIES)
    assert ask("history", seconds=1)["interval_seconds"] == 1
    assert ask("history", seconds=3600, step=60)["interval_seconds"] == 60
    assert ask("history", group="audit")["series"].keys() == {"lag", "rate"}
    assert ask("reliability")["acks_total"] == 0
    assert ask("doctor")["status"] in {"ok", "warning", "critical"}


def test_rebalances_are_counted_for_all_and_for_one(ask: Any) -> None:
    assert ask("rebalance_stats")["total_rebalances"] >= ask("rebalance_stats", "audit")["total_rebalances"] >= 1
    assert ask("cooperative_group", "audit")["id"] == "audit"
    with pytest.raises(GroupNotFound):
        ask("cooperative_group", "missing")


def test_priorities_have_their_numbers_by_topic_and_partition(ask: Any) -> None:
    found = ask("priority_stats")["topics"]["orders"]["1"]
    assert (found["normal"]["ready"], found["normal"]["enqueued"], found["critical"]["enqueued"]) == (2, 2, 0)
    assert set(ask("priority_stats", topic="orders")["topics"]) == {"orders"}
    ours = ask("priority_stats", "orders", "billing")["topics"]["orders"]["1"]["normal"]
    assert (ours["ready"] + ours["in_flight"] <= 2, ours["waiting"]) == (True, 0)
    with pytest.raises(TopicNotFound):
        ask("priority_stats", "missing")
    with pytest.raises(GroupNotFound):
        ask("priority_stats", group="missing")


def test_readiness_has_the_single_checks(ask: Any) -> None:
    found = ask("readiness")
    assert (found["status"], found["checks"]["storage"]["status"]) == ("pass", "pass")


def answers(answer: Reply) -> Any:
    return peer(lambda _: answer)


def test_a_topic_may_have_no_rates(ask: Any) -> None:
    row = {
        "name": "t",
        "partitions": 1,
        "published_per_second": None,
        "bytes_per_second": None,
        "read_per_second": None,
    }
    with answers(reply({"topics": ["t"], "details": [row]})) as server:
        assert ask("topic_details", at=server.url)[0].published_per_second is None


def test_a_broker_that_is_not_ready_says_so_without_an_error(ask: Any) -> None:
    with answers(reply({"status": "fail", "message": "stopping"}, 503)) as server:
        assert ask("readiness", at=server.url) == {"status": "fail", "message": "stopping"}
    assert len(server.asked) == 1


FAR = {"retry_after": 60}
"""Further away than the timeout, so the refusal is raised at once."""


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal("broker_stopping", 503, details=FAR), BrokerStopping),
        (reply(b"<html>", 503, Retry_After="60"), TransientError),
        (reply(b"[1]", 200), BrokerUnreachable),
    ],
)
def test_what_is_no_readiness_is_an_error(ask: Any, answer: bytes, error: type[Exception]) -> None:
    with answers(answer) as server, pytest.raises(error):
        ask("readiness", at=server.url, timeout=60)
    assert len(server.asked) == 1
