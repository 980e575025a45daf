"""Operations over HTTP: what requests answer and what the list says of them."""

from typing import Any

import pytest

from goqueue.client import Client, OperationInfo
from goqueue.errors import OperationNotFound, OperationNotUndoable, OperationOutdated
from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, create, publish
from tests.cli.letterbox import settle


@pytest.fixture
def read(broker: LocalBroker) -> str:
    """A broker whose group `billing` has read three messages of `orders`, and left."""
    create(broker.url, "orders")
    publish(broker.url, "orders", *"abc")
    settle(broker.url, lambda message: message.ack())
    return broker.url


def listed(url: str, query: str = "") -> list[Any]:
    found: list[Any] = ask(url, "GET", f"/operations?{query}").json["operations"]
    return found


def test_each_recorded_request_answers_with_its_operation(read: str) -> None:
    delayed = publish(read, "orders", "later", delay="1h")[0]
    place = f"/topics/orders/delayed/{delayed['partition']}/{delayed['offset']}"
    requests = [
        ("group_reset", "POST", "/groups/billing/offsets/reset", {"topic": "orders", "to": "earliest"}),
        ("group_altered", "PATCH", "/groups/billing", {"max_retries": 5}),
        ("group_deleted", "DELETE", "/groups/billing", None),
        ("topic_altered", "PATCH", "/admin/topics/orders", {"retention_hours": 24}),
        ("delayed_rescheduled", "PATCH", place, {"delay": "2h"}),
        ("delayed_rescheduled", "POST", "/topics/orders/delayed/reschedule", {"shift": "1h"}),
        ("delayed_cancelled", "DELETE", place, None),
        ("topic_deleted", "DELETE", "/topics/orders", None),
    ]
    for kind, method, path, body in requests:
        answer = ask(read, method, path, body, {"user-agent": "curl ana@web1"}).json
        newest = listed(read)[0]
        assert (answer["operation"], newest["kind"], newest["client"]) == (newest["id"], kind, "curl ana@web1"), kind
        assert newest["address"] == "127.0.0.1"
    assert [one["kind"] for one in listed(read)][-1] == "topic_created"


def test_list_is_limited_and_filtered(read: str) -> None:
    ask(read, "PATCH", "/admin/topics/orders", {"retention_hours": 24})
    ask(read, "DELETE", "/groups/billing")
    assert [one["kind"] for one in listed(read, "limit=1")] == ["group_deleted"]
    assert [one["kind"] for one in listed(read, "kind=topic_altered")] == ["topic_altered"]
    assert [one["kind"] for one in listed(read, "subject=orders")] == ["topic_altered", "topic_created"]
    assert ask(read, "GET", "/operations?kind=teapot").status == 400


def test_colleague_undoes_a_reset_from_another_client_after_a_restart(tmp_path: Any) -> None:
    with LocalBroker(str(tmp_path)) as broker:
        create(broker.url, "orders")
        publish(broker.url, "orders", *"abc")
        settle(broker.url, lambda message: message.ack())
        with Client(broker.url) as ana:
            number = ana.reset_offsets("billing", "orders", "earliest")["operation"]
    with LocalBroker(str(tmp_path)) as broker, Client(broker.url) as bob:
        plan = bob.undo(number, dry_run=True)
        assert (plan.operation, plan.changes) == (
            None, {"offsets": [{"topic": "orders", "partition": 0, "before": 0, "after": 3}]},
        )  # fmt: skip
        done = bob.undo(number)
        assert bob.group_offsets("billing") == {"orders": {0: 3}}
        newest = bob.operations(subject="billing")[0]
        assert (newest.id, newest.undoes) == (done.operation, number)
        assert isinstance(newest, OperationInfo)
        assert "@" in newest.client
        assert bob.operation(number).undone_by == done.operation


def test_colleague_undoes_the_retry_policy_of_a_group(read: str) -> None:
    with Client(read) as ana, Client(read) as bob:
        number = ana.alter_group("billing", max_retries=5, retry_delay="2s").operation
        assert number is not None
        assert bob.operations(kind="group_altered")[0].summary == "max_retries null -> 5, retry_delay null -> 2"
        changes = bob.undo(number).changes
        assert {"setting": "max_retries", "before": 5, "after": None} in changes["settings"]
        assert bob.group("billing").delivery["orders"].origins["max_retries"] == "broker"


def test_refusals_say_why_in_one_sentence(read: str) -> None:
    with Client(read) as client:
        first = client.reset_offsets("billing", "orders", "earliest")["operation"]
        second = client.reset_offsets("billing", "orders", "latest")["operation"]
        with pytest.raises(OperationOutdated, match=f"operation {second} has changed the same offsets"):
            client.undo(first)
        with pytest.raises(OperationNotUndoable, match="operation 1 cannot be undone: deleting the topic would"):
            client.undo(1)
        with pytest.raises(OperationNotFound, match="there is no operation 99"):
            client.undo(99)
    assert ask(read, "POST", f"/operations/{first}/undo", {}).status == 409
    assert ask(read, "POST", "/operations/1/undo", {}).status == 409
    assert ask(read, "GET", "/operations/x").status == 404


def test_redrive_in_several_requests_is_one_operation(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", *"abc")
    settle(broker.url, lambda message: message.reject("no"))
    with Client(broker.url) as client:
        assert client.redrive("orders", limit=2, dry_run=True)["operation"] is None
        answer = client.redrive("orders", limit=2)
        again = client.redrive("orders", operation=answer["operation"], start=answer["next"])
        assert again["operation"] == answer["operation"]
        found = client.operation(answer["operation"])
        assert found.summary == "3 dead letters redriven to orders"
        assert found.changes["moves"] == [
            {"partition": 0, "first": 0, "end": 3, "target_topic": "orders", "target_partition": 0}
        ]
        assert client.redrive("orders")["operation"] is None, "nothing was moved"
