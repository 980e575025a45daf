"""Names that a key may not see do not show through lists, hints, errors, dead letters and internal topics."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.keys import SecuredBroker, secured

_READ = ["read", "write"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SecuredBroker]:
    with secured(tmp_path) as found:
        for name in ("orders", "payroll", "payrolls.dlq"):
            found.do("POST", "/topics", {"name": name, "num_partitions": 1})
        found.do("POST", "/groups/salaries/join", {"topics": ["payroll", "orders"]})
        yield found


@pytest.fixture
def clerk(broker: SecuredBroker) -> str:
    """A key for the topics that begin with o, and for all groups."""
    rules = [
        {"kind": "topic", "pattern": "o", "match": "prefix", "actions": ["read", "write", "create", "alter"]},
        {"kind": "group", "pattern": "*", "match": "glob", "actions": ["read", "alter"]},
        {"kind": "transactional_id", "pattern": "o", "match": "prefix", "actions": ["write"]},
        {"kind": "cluster", "actions": ["describe"]},
    ]
    return broker.new_key("clerk", rules=rules)


def test_lists_have_only_visible_names(broker: SecuredBroker, clerk: str) -> None:
    assert broker.ask("GET", "/topics", key=clerk).json == {"topics": ["orders"]}
    assert broker.ask("GET", "/topics?internal=true", key=clerk).json == {"topics": ["orders"]}
    detailed = broker.ask("GET", "/topics?details=true", key=clerk)
    assert b"payroll" not in detailed.body
    assert broker.ask("GET", "/stats", key=clerk).json["topic_stats"].keys() == {"orders"}


def test_hidden_groups_are_not_listed(broker: SecuredBroker) -> None:
    key = broker.new_key("other", rules=[{"kind": "group", "pattern": "own", "actions": ["read"]}])
    assert broker.ask("GET", "/groups", key=key).json == {"groups": []}


@pytest.mark.parametrize("path", ["/groups/salaries", "/groups/salaries/offsets", "/groups?details=true"])
def test_hidden_topics_of_a_visible_group_are_left_out(broker: SecuredBroker, clerk: str, path: str) -> None:
    answer = broker.ask("GET", path, key=clerk)
    assert answer.status == 200
    assert b'"payroll"' not in answer.body


def test_hint_of_a_missing_topic_names_no_hidden_one(broker: SecuredBroker, clerk: str) -> None:
    for name in ("payrol", "orderz", "opayroll"):
        answer = broker.ask("GET", f"/topics/{name}", key=clerk)
        assert answer.status == 404
        assert answer.json["hint"] == "GET /topics lists the topics that this API key may see"


def test_member_cannot_join_for_a_hidden_topic(broker: SecuredBroker, clerk: str) -> None:
    answer = broker.ask("POST", "/groups/salaries/join", {"topics": ["orders", "payroll"]}, key=clerk)
    assert (answer.status, answer.json["details"]) == (404, {"topic": "payroll"})


def test_member_of_another_key_cannot_be_polled_for_hidden_topics(broker: SecuredBroker, clerk: str) -> None:
    member = broker.do("POST", "/groups/salaries/join", {"topics": ["payroll"]})["member_id"]
    answer = broker.ask("GET", f"/groups/salaries/poll?member_id={member}&timeout=0", key=clerk)
    assert answer.code == "topic_not_found"


def test_receipts_of_a_foreign_group_are_refused(broker: SecuredBroker) -> None:
    key = broker.new_key("other", rules=[{"kind": "group", "pattern": "own", "actions": ["read"]}])
    broker.do("POST", "/topics/orders/messages", {"messages": [{"value": "x"}]})
    member = broker.do("POST", "/groups/billing/join", {"topics": ["orders"]})["member_id"]
    polled = broker.do("GET", f"/groups/billing/poll?member_id={member}&timeout=30s")
    handle = {"receipt_handle": polled["messages"][0]["receipt_handle"]}
    for verb in ("ack", "nack", "reject"):
        assert broker.ask("POST", f"/messages/{verb}", handle, key=key).code == "group_not_found"
    assert broker.ask("POST", "/messages/ack", handle).status == 200


def test_dead_letters_cannot_be_sent_to_a_topic_that_may_not_be_written(broker: SecuredBroker, clerk: str) -> None:
    joined = {"topics": ["orders"], "dead_letter_topic": "payroll"}
    assert broker.ask("POST", "/groups/own/join", joined, key=clerk).code == "topic_not_found"
    settings = {"dead_letter_topic": "payroll"}
    assert broker.ask("PATCH", "/groups/salaries", settings, key=clerk).code == "topic_not_found"
    assert broker.ask("PATCH", "/admin/topics/orders", settings, key=clerk).code == "topic_not_found"
    assert broker.ask("POST", "/topics", {"name": "o2", **settings}, key=clerk).code == "topic_not_found"


def test_dead_letter_with_a_forged_origin_is_not_redriven_to_a_foreign_topic(broker: SecuredBroker, clerk: str) -> None:
    broker.do("POST", "/topics", {"name": "orders.dlq", "num_partitions": 1})
    forged = {"value": "pay me", "headers": {"dlq.topic": "payroll", "dlq.partition": "0", "dlq.offset": "0"}}
    published = broker.ask("POST", "/topics/orders.dlq/messages", {"messages": [forged]}, key=clerk)
    assert published.status == 200
    (result,) = broker.ask("POST", "/topics/orders/redrive", {}, key=clerk).json["results"]
    assert result["error"]["code"] == "topic_not_found"
    assert broker.ask("POST", "/topics/orders/redrive", {"target": "payroll"}, key=clerk).json["moved"] == 0
    assert broker.do("GET", "/topics/payroll")["total_messages"] == 0
    (moved,) = broker.do("POST", "/topics/orders/redrive", {})["results"]
    assert moved["target_topic"] == "payroll"


def test_transaction_of_a_foreign_id_is_out_of_reach_by_its_producer_id(broker: SecuredBroker, clerk: str) -> None:
    made = broker.do("POST", "/producers/init", {"transactional_id": "payroll-1"})
    whose = {"producer_id": made["producer_id"], "epoch": made["epoch"]}
    message = {**whose, "topic": "orders", "value": "x"}
    assert broker.ask("POST", "/transactions/publish", message, key=clerk).code == "producer_not_found"
    named = {**whose, "transactional_id": "orders-1"}
    for path in ("begin", "commit", "abort", "join"):
        assert broker.ask("POST", f"/transactions/{path}", named, key=clerk).code == "producer_not_found"
    query = f"producer_id={whose['producer_id']}&epoch={whose['epoch']}&begin=true"
    body = {"messages": [{"value": "x"}]}
    assert broker.ask("POST", f"/topics/orders/messages?{query}", body, key=clerk).code == "producer_not_found"
    path = f"/producers/{whose['producer_id']}/heartbeat"
    assert broker.ask("POST", path, {"epoch": whose["epoch"]}, key=clerk).code == "producer_not_found"


def test_transactions_list_has_only_visible_ids_and_topics(broker: SecuredBroker, clerk: str) -> None:
    for name in ("payroll-1", "orders-1"):
        made = broker.do("POST", "/producers/init", {"transactional_id": name})
        whose = {"producer_id": made["producer_id"], "epoch": made["epoch"], "transactional_id": name}
        broker.do("POST", "/transactions/begin", whose)
        for topic in ("orders", "payroll"):
            broker.do("POST", "/transactions/publish", {**whose, "topic": topic, "value": "x"})
    answer = broker.ask("GET", "/transactions?state=all", key=clerk)
    (shown,) = answer.json["transactions"]
    assert (shown["transactional_id"], answer.json["total"]) == ("orders-1", 1)
    assert [one["topic"] for one in shown["partitions"]] == ["orders"]


@pytest.mark.parametrize("role", ["producer", "consumer", "readonly", "operator"])
@pytest.mark.parametrize(
    "topic", ["__metadata", "__consumer_offsets", "__schemas", "__security", "__operations", "__audit"]
)
def test_internal_topics_are_missing_through_every_door(broker: SecuredBroker, role: str, topic: str) -> None:
    key = broker.new_key("one", role)
    doors = (
        "", "/partitions", "/messages", "/partitions/0/messages", "/partitions/0/segments", "/partitions/0/aborted",
        "/partitions/0/segments/0/log", "/partitions/0/segments/0/index", "/partitions/0/offset?time=0", "/delayed",
        "/dead-letters", "/delayed/timeline",
    )  # fmt: skip
    for door in doors:
        answer = broker.ask("GET", f"/topics/{topic}{door}", key=key)
        missing = broker.ask("GET", f"/topics/__nothing{door}", key=key)
        assert answer.status in (400, 404)
        assert answer.body.replace(topic.encode(), b"__nothing") == missing.body
    assert topic not in broker.ask("GET", "/topics?internal=true", key=key).body.decode()


def test_topic_is_created_on_publish_only_with_the_right_to_create_it(tmp_path: Path) -> None:
    with secured(tmp_path / "auto", topics__auto_create="true") as broker:
        writer = broker.new_key("writer", "producer")
        creator = broker.new_key(
            "creator", rules=[{"kind": "topic", "pattern": "o", "match": "prefix", "actions": ["write", "create"]}]
        )
        body = {"messages": [{"value": "x"}]}
        assert broker.ask("POST", "/topics/orders/messages", body, key=writer).code == "permission_denied"
        assert broker.ask("GET", "/topics").json == {"topics": []}
        assert broker.ask("POST", "/topics/orders/messages", body, key=creator).status == 200


def test_undo_needs_the_right_to_change_what_was_changed(broker: SecuredBroker) -> None:
    number = broker.ask("PATCH", "/admin/topics/payroll", {"retention_hours": 1}).json["operation"]
    rules = [{"kind": "cluster", "actions": ["read", "write"]}]
    key = broker.new_key("half", rules=rules)
    assert broker.ask("POST", f"/operations/{number}/undo", {}, key=key).code == "topic_not_found"
    assert broker.ask("POST", f"/operations/{number}/undo", {}, key=broker.new_key("op", "operator")).status == 200
