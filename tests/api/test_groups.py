"""Members of groups: join, heartbeat, revoke, leave; and descriptions of groups."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.members import PATIENCE, Member, told, values
from tests.api.wire import until
from tests.brokers import ask, create, publish


def place(partition: int) -> dict[str, Any]:
    return {"topic": "orders", "partition": partition}


# --- joining ---


def test_first_member_creates_the_group_and_gets_every_partition(url: str) -> None:
    answer = Member(url, client_id="till-3").joined()
    member = answer.pop("member_id")
    assert member.startswith("till-3-")
    assert answer == {
        "generation": 1,
        "leader": True,
        "leader_id": member,
        "members": [member],
        "assigned_partitions": ["orders-0", "orders-1"],
        "partitions": [place(0), place(1)],
        "rebalance_required": False,
        "protocol": "cooperative",
        "assignment_strategy": "sticky",
        "state": "stable",
        "rebalance_state": "complete",
        "session_timeout": 30.0,
        "heartbeat_interval": 3.0,
        "revocation_timeout": 60.0,
        "visibility_timeout": 30.0,
    }
    assert told(ask(url, "GET", "/groups")) == {"groups": ["billing"]}


def test_member_gets_the_options_of_its_join_request(url: str) -> None:
    options: dict[str, Any] = {"assignment_strategy": "range", "protocol": "eager", "order": "key", "max_in_flight": 7}
    answer = Member(url, session_timeout="1m30s", **options).joined()
    assert (answer["session_timeout"], answer["protocol"], answer["assignment_strategy"]) == (90.0, "eager", "range")
    group = told(ask(url, "GET", "/groups/billing"))
    assert (group["order"], group["members"][0]["max_in_flight"]) == ("key", 7)


def test_join_without_options_uses_the_configured_defaults(tmp_path: Path) -> None:
    settings = {"groups__session_timeout": "10s", "groups__max_in_flight": "5", "groups__visibility_timeout": "7s"}
    with LocalBroker(str(tmp_path / "data"), **settings) as local:
        create(local.url, "orders")
        publish(local.url, "orders", *"abcdefgh")
        member = Member(local.url)
        answer = member.joined()
        assert (answer["session_timeout"], answer["visibility_timeout"]) == (10.0, 7.0)
        (lease,) = member.lease()
        assert (lease["end"], lease["visibility"]) == (5, 7.0)


def test_member_that_joins_again_with_its_id_stays_the_same(url: str) -> None:
    member = Member(url).join()
    again = member.joined(member_id=member.id)
    assert (again["members"], again["generation"]) == ([again["member_id"]], 1)


def test_join_with_an_unknown_id_creates_a_new_member(url: str) -> None:
    answer = Member(url).joined(member_id="till-of-yesterday")
    assert answer["member_id"].startswith("till-")
    assert answer["member_id"] != "till-of-yesterday"


def test_repeated_topic_is_assigned_once(url: str) -> None:
    assert Member(url, topics=["orders", "orders"]).joined()["assigned_partitions"] == ["orders-0", "orders-1"]


@pytest.mark.parametrize(
    ("group", "topics", "status", "code"),
    [
        ("billing", ["nowhere"], 404, "topic_not_found"),
        ("billing", ["t", "nowhere"], 404, "topic_not_found"),
        ("billing", ["__metadata"], 404, "topic_not_found"),
        ("billing", ["a/b"], 400, "topic_name_invalid"),
        ("billing", [], 400, "request_invalid"),
        ("__dead_letters", ["t"], 400, "group_name_invalid"),
    ],
)
def test_join_of_unknown_topics_or_groups_is_refused(
    unchanged: str, group: str, topics: list[str], status: int, code: str
) -> None:
    answer = ask(unchanged, "POST", f"/groups/{group}/join", {"topics": topics})
    assert (answer.status, answer.code) == (status, code)
    assert told(ask(unchanged, "GET", "/groups")) == {"groups": []}


# --- signs of life ---


def test_a_sign_of_life_is_answered(url: str) -> None:
    member = Member(url).join()
    assert member.beat() == {"rebalance_required": False, "state": "stable", "generation": 1}
    assert told(member.ask("POST", "/heartbeat", {"member_id": member.id}))["state"] == "stable"


def test_unknown_member_is_refused_at_every_endpoint(url: str) -> None:
    Member(url).join()
    body: dict[str, Any] = {"member_id": "unknown"}
    asked = [
        ask(url, "POST", "/groups/billing/heartbeat", body),
        ask(url, "POST", "/groups/billing/heartbeat/cooperative", body),
        ask(url, "POST", "/groups/billing/leave", body),
        ask(url, "POST", "/groups/billing/leave/cooperative", body),
        ask(url, "POST", "/groups/billing/revoke", {**body, "revoked_partitions": []}),
        ask(url, "POST", "/groups/billing/settle", body),
        ask(url, "POST", "/groups/billing/offsets", {**body, "offsets": {}}),
        ask(url, "GET", "/groups/billing/poll?member_id=unknown"),
        ask(url, "GET", "/groups/billing/assignment?member_id=unknown"),
    ]
    assert {(answer.status, answer.code) for answer in asked} == {(409, "member_unknown")}
    assert "join again" in asked[0].json["hint"]


def test_unknown_group_is_refused_at_every_endpoint(url: str) -> None:
    body: dict[str, Any] = {"member_id": "unknown"}
    paths = ("", "/cooperative", "/rebalance/stats", "/offsets", "/poll?member_id=m", "/assignment?member_id=m")
    asked = [ask(url, "GET", f"/groups/nowhere{path}") for path in paths]
    asked += [ask(url, "POST", f"/groups/nowhere/{path}", body) for path in ("heartbeat", "leave", "settle")]
    asked.append(ask(url, "POST", "/groups/nowhere/offsets", {**body, "offsets": {}}))
    asked.append(ask(url, "DELETE", "/groups/nowhere"))
    assert {(answer.status, answer.code) for answer in asked} == {(404, "group_not_found")}


def test_a_generation_of_before_a_loss_is_stale_everywhere(url: str) -> None:
    first = Member(url).join()
    Member(url).join()
    current = told(ask(url, "GET", "/groups/billing"))["generation"]
    asked = [
        first.ask("POST", "/heartbeat", {"member_id": first.id, "generation": 1}),
        first.ask("POST", "/heartbeat/cooperative", {"member_id": first.id, "generation": 1}),
        first.ask("POST", "/revoke", {"member_id": first.id, "generation": 1, "revoked_partitions": [place(0)]}),
        first.ask("POST", "/settle", {"member_id": first.id, "generation": 1}),
        first.ask("POST", "/offsets", {"member_id": first.id, "generation": 1, "offsets": {}}),
        first.polled(generation=1),
    ]
    assert {(answer.status, answer.code) for answer in asked} == {(409, "generation_stale")}
    assert {answer.json["details"]["generation"] for answer in asked} == {current}


def test_member_without_heartbeats_loses_its_partitions(url: str) -> None:
    silent, other = Member(url, session_timeout="1s").join(), Member(url).join()
    (theirs,) = silent.assignment()["partitions"]
    publish(url, "orders", "a", partition=theirs["partition"])
    assert values(other.poll(timeout=PATIENCE)) == ["a"]
    assert silent.polled().code == "member_unknown"
    assert told(ask(url, "GET", "/groups/billing/rebalance/stats"))["rebalances_by_reason"]["session_expired"] == 1


# --- leaving ---


def test_partitions_of_a_member_that_leaves_go_to_the_others(url: str) -> None:
    first, second = Member(url).join(), Member(url).join()
    assert first.leave() == {"left": True}
    assert second.assignment()["partitions"] == [place(0), place(1)]
    assert first.ask("POST", "/leave", {"member_id": first.id}).code == "member_unknown"


def test_group_without_members_can_be_deleted(url: str) -> None:
    member = Member(url).join()
    assert ask(url, "DELETE", "/groups/billing").code == "group_not_empty"
    member.leave()
    assert told(ask(url, "DELETE", "/groups/billing")) == {"deleted": True, "group_id": "billing", "operation": 2}
    assert ask(url, "GET", "/groups/billing").status == 404
    assert told(ask(url, "GET", "/groups")) == {"groups": []}


# --- giving up by hand ---


def test_cooperative_members_hand_over_without_stopping(url: str) -> None:
    first, second = Member(url, cooperative=True), Member(url, cooperative=True)
    assert first.joined()["partitions"] == [place(0), place(1)]
    answer = second.joined()
    assert (answer["partitions"], answer["state"]) == ([], "rebalancing")

    beat = first.beat()
    assert (beat["rebalance_required"], beat["partitions_assigned"]) == (True, [place(0)])
    assert (beat["partitions_to_revoke"], beat["protocol"]) == ([place(1)], "cooperative")
    assert (beat["state"], beat["rebalance_state"]) == ("rebalancing", "pending_revoke")
    assert beat["revocation_deadline"] > told(ask(url, "GET", "/groups/billing"))["members"][0]["joined_at"]
    seen = told(ask(url, "GET", "/groups/billing/cooperative"))
    assert seen["partitions_to_revoke"] == {first.id: [place(1)]}
    waits = first.assignment()
    assert (waits["partitions"], waits["partitions_to_revoke"]) == ([place(0)], [place(1)])
    assert second.assignment()["partitions"] == []

    revoked = first.say("/revoke", generation=first.generation, revoked_partitions=[place(1)])
    assert (revoked["status"], revoked["pending_count"]) == ("ok", 0)
    news = second.beat()
    assert (news["rebalance_required"], news["partitions_assigned"]) == (True, [place(1)])
    assert (news["partitions_to_revoke"], news["revocation_deadline"]) == ([], None)
    assert news["generation"] == revoked["generation"] == second.assignment()["generation"]
    first.assignment()

    group = told(ask(url, "GET", "/groups/billing/cooperative"))
    assert group["member_assignments"] == {first.id: [place(0)], second.id: [place(1)]}
    assert (group["id"], group["state"], group["rebalance_state"]) == ("billing", "stable", "complete")
    assert (group["topics"], group["members"]) == (["orders"], [first.id, second.id])
    assert group["partitions_to_revoke"] == {}
    metrics = group["rebalance_metrics"]
    assert metrics["longest_rebalance_duration_ms"] >= metrics["last_rebalance_duration_ms"] > 0


def test_a_poll_tells_what_is_to_be_given_up(url: str) -> None:
    first = Member(url, cooperative=True).join()
    Member(url, cooperative=True).join()
    assert told(first.polled())["rebalance_required"] is True


def test_partition_is_revoked_at_the_revocation_timeout(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), groups__revocation_timeout="1s") as local:
        create(local.url, "orders", partitions=2)
        first, second = Member(local.url, cooperative=True).join(), Member(local.url, cooperative=True).join()
        publish(local.url, "orders", "a", partition=1)
        assert values(second.poll(timeout=PATIENCE)) == ["a"]
        assert first.polled(generation=1).code == "generation_stale"
        stats = told(ask(local.url, "GET", "/groups/billing/rebalance/stats"))
        assert stats["total_revocation_timeouts"] == 1


def test_idle_partition_is_revoked_at_once(url: str) -> None:
    publish(url, "orders", "a", partition=1)
    first = Member(url).join()
    found = first.poll()
    second = Member(url).join()
    assert second.assignment()["partitions"] == []
    told(ask(url, "POST", "/messages/ack", {"receipt_handle": found[0]["receipt_handle"]}))
    assert second.assignment()["partitions"] == [place(1)]


def test_eager_members_that_wait_for_others_are_sent_home_when_the_broker_stops(tmp_path: Path) -> None:
    local = LocalBroker(str(tmp_path / "data")).start()
    create(local.url, "orders")
    first = Member(local.url, protocol="eager").join()
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(ask, local.url, "POST", "/groups/billing/join", {"topics": ["orders"]})
        until(local.url, lambda: first.beat()["rebalance_required"])
        local.stop()
        assert (answer.result().status, answer.result().code) == (503, "broker_stopping")


# --- numbers ---


def test_rebalances_are_counted_by_their_reasons(url: str) -> None:
    create(url, "refunds")
    first = Member(url, "one").join()
    second = Member(url, "one").join()
    first.joined(member_id=first.id, topics=["orders", "refunds"])
    second.leave()
    Member(url, "two").join()
    stats = told(ask(url, "GET", "/groups/one/rebalance/stats"))
    assert stats["rebalances_by_reason"] == {"join": 2, "topics_changed": 1, "leave": 1}
    assert (stats["total_rebalances"], stats["successful_rebalances"], stats["failed_rebalances"]) == (4, 4, 0)
    assert stats["total_partitions_assigned"] == 2 + 1 + 1 + 1
    assert stats["last_rebalance_at"] is not None
    assert told(ask(url, "GET", "/groups/one/cooperative"))["rebalance_metrics"] == stats
    assert told(ask(url, "GET", "/rebalance/stats"))["rebalances_by_reason"]["join"] == 3


def test_a_group_tells_how_far_behind_it_is(url: str) -> None:
    publish(url, "orders", *"abcde", partition=0)
    member = Member(url, client_id="till-3").join()
    found = member.poll(max_messages=3)
    told(ask(url, "POST", "/messages/ack", {"receipt_handle": found[0]["receipt_handle"]}))
    told(ask(url, "POST", "/messages/nack", {"receipt_handle": found[1]["receipt_handle"], "delay": "1h"}))
    group = told(ask(url, "GET", "/groups/billing"))
    assert (group["total_lag"], group["lag_seconds"] > 0) == (4, True)
    lag = group["lag"]["orders"]["0"]
    assert (lag["member_id"], lag["committed"], lag["end"], lag["messages"]) == (member.id, 1, 5, 4)
    assert (lag["in_flight"], lag["waiting"], lag["pledged"], lag["lost"]) == (1, 1, 0, 0)
    (shown,) = group["members"]
    assert (shown["client_id"], shown["topics"], shown["in_flight"]) == ("till-3", ["orders"], 1)
    assert shown["assigned_partitions"] == ["orders-0", "orders-1"]
    assert shown["joined_at"] <= shown["last_heartbeat"]
