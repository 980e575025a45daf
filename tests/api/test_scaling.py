"""Adding partitions over HTTP: the answers, what is refused, and frames placed by a former number."""

from typing import Any

import pytest

from goqueue.client.section_encoding import encode_section
from goqueue.partitioner import partition_of
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from goqueue.wire.headers import FRAMES
from tests.api.members import Member
from tests.brokers import ask, create, publish, read

PARTITIONS = "/admin/topics/orders/partitions"


def publish_frames(url: str, placed_by: object, *values: bytes, partition: int = 0) -> Any:
    section = encode_section(partition, [frame.encode(value, b"key") for value in values])
    headers = {"content-type": FRAMES} | ({} if placed_by is None else {"x-goqueue-partitions": str(placed_by)})
    return ask(url, "POST", "/topics/orders/messages", section, headers)


def test_partitions_are_added_and_recorded(broker: LocalBroker) -> None:
    create(broker.url, "orders", 2)
    publish(broker.url, "orders", "a", key="k")
    answer = ask(broker.url, "POST", PARTITIONS, {"count": 4}).json
    operation = answer.pop("operation")
    assert answer == {
        "success": True, "topic_name": "orders", "old_partition_count": 2, "new_partition_count": 4,
        "partitions_added": 2, "dry_run": False,
    }  # fmt: skip
    (newest,) = ask(broker.url, "GET", "/operations?limit=1").json["operations"]
    assert (newest["id"], newest["kind"], newest["undoable"]) == (operation, "topic_scaled", False)
    assert ask(broker.url, "POST", f"/operations/{operation}/undo", {}).code == "operation_not_undoable"
    assert ask(broker.url, "GET", "/topics/orders").json["partitions"] == 4


def test_dry_run_adds_nothing(broker: LocalBroker) -> None:
    create(broker.url, "orders", 2)
    answer = ask(broker.url, "POST", PARTITIONS, {"count": 4, "dry_run": True}).json
    assert (answer["partitions_added"], answer["dry_run"], answer["operation"]) == (2, True, None)
    assert ask(broker.url, "GET", "/topics/orders").json["partitions"] == 2


@pytest.mark.parametrize(
    ("topic", "body", "code"),
    [
        ("orders", {"count": 2}, "request_invalid"),
        ("orders", {"count": 1}, "request_invalid"),
        ("orders", {"count": 0}, "request_invalid"),
        ("orders", {"count": 1002}, "request_invalid"),
        ("orders", {"count": "4"}, "request_invalid"),
        ("orders", {}, "request_invalid"),
        ("orders", {"count": 3}, "keys_would_move"),
        ("unknown", {"count": 4}, "topic_not_found"),
        ("__metadata", {"count": 4}, "topic_not_found"),
    ],
)
def test_refusal_has_a_sentence_and_a_hint(module_broker: LocalBroker, topic: str, body: Any, code: str) -> None:
    if ask(module_broker.url, "GET", "/topics/orders").status == 404:
        create(module_broker.url, "orders", 2)
        publish(module_broker.url, "orders", "a", key="k")
    answer = ask(module_broker.url, "POST", f"/admin/topics/{topic}/partitions", body)
    assert (answer.code, bool(answer.json["error"])) == (code, True)
    assert answer.json.get("hint") or answer.json["details"]["problems"]
    assert ask(module_broker.url, "GET", "/topics/orders").json["partitions"] == 2


def test_status_says_what_groups_have_to_finish(broker: LocalBroker) -> None:
    create(broker.url, "orders", 1)
    status = "/admin/topics/orders/scaling-status"
    assert ask(broker.url, "GET", status).json == {
        "topic_name": "orders", "partition_count": 1, "state": "unscaled", "added": [],
    }  # fmt: skip
    publish(broker.url, "orders", "a", "b", key="k")
    member = Member(broker.url, "billing")
    member.join()
    ask(broker.url, "POST", PARTITIONS, {"count": 2})
    found = ask(broker.url, "GET", status).json
    assert found["state"] == "catching_up"
    assert found["added"] == [
        {
            "partition": 1, "parent": 0, "split_offset": 2, "groups_reading": 0,
            "groups_waiting": [
                {"group_id": "billing", "waits_for": 0, "split_offset": 2, "committed": 0, "remaining": 2}
            ],
        }
    ]  # fmt: skip
    ask(broker.url, "POST", "/groups/billing/offsets/reset", {"topic": "orders", "to": "latest"})
    found = ask(broker.url, "GET", status).json
    assert (found["state"], found["added"][0]["groups_waiting"]) == ("complete", [])


def test_group_description_and_doctor_know_that_a_partition_waits(broker: LocalBroker) -> None:
    create(broker.url, "orders", 1)
    publish(broker.url, "orders", "a")
    member = Member(broker.url, "billing")
    member.join()
    ask(broker.url, "POST", PARTITIONS, {"count": 2})
    publish(broker.url, "orders", "b", partition=1)
    lag = {}
    while "1" not in lag:  # until the rebalance is over
        lag = ask(broker.url, "GET", "/groups/billing").json["lag"]["orders"]
    assert (lag["0"]["waits_for"], lag["1"]["waits_for"]) == (None, {"partition": 0, "split_offset": 1})
    assert lag["1"]["messages"] == 1


def test_frames_placed_by_a_former_number_are_refused_and_not_stored(broker: LocalBroker) -> None:
    create(broker.url, "orders", 1)
    assert publish_frames(broker.url, 1, b"a").status == 200
    ask(broker.url, "POST", PARTITIONS, {"count": 2})
    refused = publish_frames(broker.url, 1, b"b")
    assert (refused.status, refused.code, refused.json["details"]["partitions"]) == (409, "partition_count_stale", 2)
    assert publish_frames(broker.url, "many", b"b").code == "request_invalid"
    assert publish_frames(broker.url, None, b"c").status == 200
    assert publish_frames(broker.url, 2, b"d").status == 200
    assert [one["value"] for one in read(broker.url, "orders")] == ["a", "c", "d"]


def test_answer_of_frames_has_the_number_of_partitions(broker: LocalBroker) -> None:
    create(broker.url, "orders", 3)
    answer = ask(broker.url, "GET", "/topics/orders/partitions/0/messages", headers={"accept": FRAMES})
    assert answer.headers["x-goqueue-partitions"] == "3"


def test_retried_message_of_a_transaction_is_known_in_the_former_partition_of_its_key(broker: LocalBroker) -> None:
    create(broker.url, "orders", 1)
    key = next(key for key in map(str, range(100)) if partition_of(key.encode(), 2))
    whose = ask(broker.url, "POST", "/producers/init", {"transactional_id": "x"}).json
    owner = {name: whose[name] for name in ("producer_id", "epoch", "transactional_id")}
    ask(broker.url, "POST", "/transactions/begin", owner)
    message = {**owner, "topic": "orders", "key": key, "value": "a", "sequence": 0}
    first = ask(broker.url, "POST", "/transactions/publish", message).json
    ask(broker.url, "POST", PARTITIONS, {"count": 2})
    assert ask(broker.url, "POST", "/transactions/publish", message).json == {**first, "duplicate": True}
    del message["sequence"]
    assert ask(broker.url, "POST", "/transactions/publish", message).json["partition"] == 1


def test_messages_of_a_transaction_in_json_are_placed_by_the_present_number(broker: LocalBroker) -> None:
    create(broker.url, "orders", 1)
    whose = ask(broker.url, "POST", "/producers/init", {"transactional_id": "x"}).json
    path = f"/topics/orders/messages?producer_id={whose['producer_id']}&epoch={whose['epoch']}&begin=true"
    messages = [{"key": str(number), "value": "a"} for number in range(20)]
    assert {one["partition"] for one in ask(broker.url, "POST", path, {"messages": messages}).json["results"]} == {0}
    ask(broker.url, "POST", PARTITIONS, {"count": 2})
    assert {one["partition"] for one in ask(broker.url, "POST", path, {"messages": messages}).json["results"]} == {0, 1}
