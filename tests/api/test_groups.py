"""Who is in a group: joining, signs of life, giving up, leaving, and what all of that looks like."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.members import PATIENCE, Member, told, values, waiting
from tests.api.wire import until
from tests.brokers import ask, broker, create, publish

__all__ = ["broker"]


@pytest.fixture
def url(broker: LocalBroker) -> str:
    """A broker with the topic `orders` of two partitions."""
    create(broker.url, "orders", partitions=2)
    return broker.url


def place(partition: int) -> dict[str, Any]:
    return {"topic": "orders", "partition": partition}


# --- joining ---


def test_whoever_joins_first_makes_the_group_and_has_everything(url: str) -> None:
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


def test_what_a_member_wishes_is_what_it_gets(url: str) -> None:
    wishes: dict[str, Any] = {"assignment_strategy": "range", "protocol": "eager", "order": "key", "max_in_flight": 7}
    answer = Member(url, session_timeout="1m30s", **wishes).joined()
    assert (answer["session_timeout"], answer["protocol"], answer["assignment_strategy"]) == (90.0, "eager", "range")
    group = told(ask(url, "GET", "/groups/billing"))
    assert (group["order"], group["members"][0]["max_in_flight"]) == ("key", 7)


def test_what_a_member_does_not_wish_is_as_it_is_configured(tmp_path: Path) -> None:
    settings = {"groups__session_timeout": "10s", "groups__max_in_flight": "5", "groups__visibility_timeout": "7s"}
    with LocalBroker(str(tmp_path / "data"), **settings) as local:
        create(local.url, "orders")
        publish(local.url, "orders", *"abcdefgh")
        member = Member(local.url)
        answer = member.joined()
        assert (answer["session_timeout"], answer["visibility_timeout"]) == (10.0, 7.0)
        (lease,) = member.lease()
        assert (lease["end"], lease["visibility"]) == (5, 7.0)


def test_two_members_share_what_there_is(url: str) -> None:
    first, second = Member(url).join(), Member(url).join()
    assert sorted(first.assignment()["partitions"] + second.assignment()["partitions"], key=str) == [place(0), place(1)]
    assert told(ask(url, "GET", "/groups/billing"))["generation"] > 1


def test_members_who_come_together_are_told_one_assignment(url: str) -> None:
    members = [Member(url) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(Member.joined, members))
    assert len({answer["leader_id"] for answer in answers}) == 1
    assert sorted(answer["leader"] for answer in answers) == [False, True]
    given = [one.assignment() for one in members]
    assert sorted(place for one in given for place in (str(each) for each in one["partitions"])) == sorted(
        str(place(number)) for number in range(2)
    )


def test_more_members_than_partitions_only_wait(url: str) -> None:
    members = [Member(url).join() for _ in range(3)]
    assert sorted(len(member.assignment()["partitions"]) for member in members) == [0, 1, 1]


def test_whoever_joins_again_by_its_id_stays_who_it_is(url: str) -> None:
    member = Member(url).join()
    again = member.joined(member_id=member.id)
    assert (again["members"], again["generation"]) == ([again["member_id"]], 1)


def test_an_id_that_nobody_knows_makes_a_new_member(url: str) -> None:
    answer = Member(url).joined(member_id="till-of-yesterday")
    assert answer["member_id"].startswith("till-")
    assert answer["member_id"] != "till-of-yesterday"


def test_whoever_asks_for_a_topic_twice_reads_it_once(url: str) -> None:
    assert Member(url, topics=["orders", "orders"]).joined()["assigned_partitions"] == ["orders-0", "orders-1"]


def test_other_topics_are_given_when_a_member_joins_again(url: str) -> None:
    create(url, "refunds")
    member = Member(url).join()
    answer = member.joined(member_id=member.id, topics=["orders", "refunds"])
    assert answer["assigned_partitions"] == ["orders-0", "orders-1", "refunds-0"]


@pytest.mark.parametrize(
    "wishes",
    [{"protocol": "eager"}, {"assignment_strategy": "range"}, {"order": "key"}],
    ids=["protocol", "strategy", "order"],
)
def test_a_group_works_in_one_way(url: str, wishes: dict[str, str]) -> None:
    Member(url).join()
    answer = ask(url, "POST", "/groups/billing/join", {"topics": ["orders"], **wishes})
    assert (answer.status, answer.code) == (409, "group_mismatch")


@pytest.mark.parametrize(
    ("group", "topics", "status", "code"),
    [
        ("billing", ["nowhere"], 404, "topic_not_found"),
        ("billing", ["orders", "nowhere"], 404, "topic_not_found"),
        ("billing", ["__metadata"], 404, "topic_not_found"),
        ("billing", ["a/b"], 400, "topic_name_invalid"),
        ("billing", [], 400, "request_invalid"),
        ("__dead_letters", ["orders"], 400, "group_name_invalid"),
    ],
)
def test_nobody_joins_what_is_not_there(url: str, group: str, topics: list[str], status: int, code: str) -> None:
    answer = ask(url, "POST", f"/groups/{group}/join", {"topics": topics})
    assert (answer.status, answer.code) == (status, code)
    assert told(ask(url, "GET", "/groups")) == {"groups": []}


# --- signs of life ---


def test_a_sign_of_life_is_answered(url: str) -> None:
    member = Member(url).join()
    assert member.beat() == {"rebalance_required": False, "state": "stable", "generation": 1}
    assert told(member.ask("POST", "/heartbeat", {"member_id": member.id}))["state"] == "stable"


def test_who_is_no_member_is_told_so_everywhere(url: str) -> None:
    Member(url).join()
    body: dict[str, Any] = {"member_id": "nobody"}
    asked = [
        ask(url, "POST", "/groups/billing/heartbeat", body),
        ask(url, "POST", "/groups/billing/heartbeat/cooperative", body),
        ask(url, "POST", "/groups/billing/leave", body),
        ask(url, "POST", "/groups/billing/leave/cooperative", body),
        ask(url, "POST", "/groups/billing/revoke", {**body, "revoked_partitions": []}),
        ask(url, "POST", "/groups/billing/settle", body),
        ask(url, "POST", "/groups/billing/offsets", {**body, "offsets": {}}),
        ask(url, "GET", "/groups/billing/poll?member_id=nobody"),
        ask(url, "GET", "/groups/billing/assignment?member_id=nobody"),
    ]
    assert {(answer.status, answer.code) for answer in asked} == {(409, "member_unknown")}
    assert "join again" in asked[0].json["hint"]


def test_a_group_that_is_not_there_is_told_so_everywhere(url: str) -> None:
    body: dict[str, Any] = {"member_id": "nobody"}
    paths = [
        "",
        "/cooperative",
        "/rebalance/stats",
        "/offsets",
        "/poll?member_id=nobody",
        "/assignment?member_id=nobody",
    ]
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


def test_a_simple_client_that_joins_again_after_a_loss_is_the_same_member(url: str) -> None:
    first = Member(url, client_id="one").join()
    Member(url, client_id="two").join()
    assert first.ask("POST", "/heartbeat", {"member_id": first.id, "generation": 1}).code == "generation_stale"
    again = Member(url, client_id="one").joined()
    assert (again["member_id"], len(again["members"])) == (first.id, 2)
    assert len(again["partitions"]) == 1


def test_whoever_shows_no_sign_of_life_makes_room_for_others(url: str) -> None:
    silent, other = Member(url, session_timeout="1s").join(), Member(url).join()
    (theirs,) = silent.assignment()["partitions"]
    publish(url, "orders", "a", partition=theirs["partition"])
    assert values(other.poll(timeout=PATIENCE)) == ["a"]
    assert silent.polled().code == "member_unknown"
    assert told(ask(url, "GET", "/groups/billing/rebalance/stats"))["rebalances_by_reason"]["session_expired"] == 1


# --- leaving ---


def test_whoever_leaves_is_gone_and_the_others_have_what_it_had(url: str) -> None:
    first, second = Member(url).join(), Member(url).join()
    assert first.leave() == {"left": True}
    assert second.assignment()["partitions"] == [place(0), place(1)]
    assert first.ask("POST", "/leave", {"member_id": first.id}).code == "member_unknown"


def test_a_group_that_nobody_is_in_keeps_its_place(url: str) -> None:
    publish(url, "orders", "a", "b", partition=0)
    member = Member(url).join()
    member.say("/offsets", offsets={"orders": {"0": 1}})
    member.leave()
    group = told(ask(url, "GET", "/groups/billing"))
    assert (group["state"], group["members"], group["total_lag"]) == ("empty", [], 1)
    assert values(Member(url).join().poll()) == ["b"]


def test_a_group_is_deleted_when_nobody_is_in_it(url: str) -> None:
    member = Member(url).join()
    assert ask(url, "DELETE", "/groups/billing").code == "group_not_empty"
    member.leave()
    assert told(ask(url, "DELETE", "/groups/billing")) == {"deleted": True, "group_id": "billing"}
    assert ask(url, "GET", "/groups/billing").status == 404
    assert told(ask(url, "GET", "/groups")) == {"groups": []}


def test_a_group_of_the_same_name_begins_anew(url: str) -> None:
    publish(url, "orders", "a", partition=0)
    member = Member(url).join()
    member.say("/offsets", offsets={"orders": {"0": 1}})
    member.leave()
    ask(url, "DELETE", "/groups/billing")
    assert values(Member(url).join().poll()) == ["a"]


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


def test_what_is_given_up_goes_to_others_with_what_was_in_hand_there(url: str) -> None:
    first = Member(url, cooperative=True).join()
    publish(url, "orders", "a", partition=1)
    assert values(first.poll()) == ["a"]
    second = Member(url, cooperative=True).join()
    first.say("/revoke", revoked_partitions=[place(1)])
    (lease,) = second.lease(timeout=PATIENCE)
    assert (lease["partition"], lease["attempt"], lease["failures"]) == (1, 2, 0)


def test_what_was_not_asked_for_is_not_taken(url: str) -> None:
    first, second = Member(url, cooperative=True).join(), Member(url, cooperative=True).join()
    kept = [place(0), place(7), {"topic": "nowhere", "partition": 0}]
    answer = first.say("/revoke", revoked_partitions=kept)
    assert (answer["pending_count"], answer["rebalance_state"]) == (1, "pending_revoke")
    assert second.say("/revoke", revoked_partitions=[place(1)])["generation"] == answer["generation"]
    assert first.assignment()["partitions_to_revoke"] == [place(1)]


def test_who_gives_nothing_up_loses_it_when_the_time_is_over(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), groups__revocation_timeout="1s") as local:
        create(local.url, "orders", partitions=2)
        first, second = Member(local.url, cooperative=True).join(), Member(local.url, cooperative=True).join()
        publish(local.url, "orders", "a", partition=1)
        assert values(second.poll(timeout=PATIENCE)) == ["a"]
        assert first.polled(generation=1).code == "generation_stale"
        stats = told(ask(local.url, "GET", "/groups/billing/rebalance/stats"))
        assert stats["total_revocation_timeouts"] == 1


def test_a_plain_member_loses_what_it_has_nothing_of_in_hand(url: str) -> None:
    publish(url, "orders", "a", partition=1)
    first = Member(url).join()
    found = first.poll()
    second = Member(url).join()
    assert second.assignment()["partitions"] == []
    told(ask(url, "POST", "/messages/ack", {"receipt_handle": found[0]["receipt_handle"]}))
    assert second.assignment()["partitions"] == [place(1)]


def test_eager_members_stop_and_are_told_together(url: str) -> None:
    first, second = Member(url, protocol="eager").join(), Member(url, client_id="second", protocol="eager")
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(second.joined)
        until(url, lambda: first.beat()["rebalance_required"])
        assert told(first.polled())["rebalance_required"] is True
        assert first.assignment()["partitions"] == []
        assert not answer.done()
        mine, theirs = first.joined(member_id=first.id), answer.result()
    assert sorted(mine["assigned_partitions"] + theirs["assigned_partitions"]) == ["orders-0", "orders-1"]
    assert mine["generation"] == theirs["generation"] == 2
    assert (mine["leader"], theirs["leader"]) == (True, False)
    assert first.beat()["rebalance_required"] is False


def test_an_eager_member_that_does_not_come_back_is_gone_when_the_time_is_over(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), groups__revocation_timeout="1s") as local:
        create(local.url, "orders", partitions=2)
        first = Member(local.url, protocol="eager").join()
        answer = Member(local.url, protocol="eager").joined()
        assert answer["assigned_partitions"] == ["orders-0", "orders-1"]
        assert first.polled().code == "member_unknown"


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


# --- topics that come and go ---


def test_a_deleted_topic_is_taken_from_its_members(broker: LocalBroker) -> None:
    url = broker.url
    create(url, "orders")
    create(url, "refunds")
    member = Member(url, topics=["orders", "refunds"]).join()
    with waiting(broker, member, generation=member.generation) as answer:
        told(ask(url, "DELETE", "/topics/refunds"))
        assert told(answer.result())["rebalance_required"] is True
    assert member.assignment()["partitions"] == [place(0)]
    publish(url, "orders", "a")
    assert values(member.poll()) == ["a"]


# --- over a restart ---


def test_members_and_what_they_have_outlive_the_broker(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as local:
        create(local.url, "orders", partitions=2)
        first, second = Member(local.url).join(), Member(local.url).join()
        before = told(ask(local.url, "GET", "/groups/billing"))
        had = [member.assignment()["partitions"] for member in (first, second)]
    with LocalBroker(str(tmp_path / "data")) as local:
        after = told(ask(local.url, "GET", "/groups/billing"))
        known = ("generation", "protocol", "assignment_strategy", "order")
        assert [after[name] for name in known] == [before[name] for name in known]
        assert [one["member_id"] for one in after["members"]] == [first.id, second.id]
        for member, places in zip((first, second), had, strict=True):
            member.url = local.url
            assert member.assignment()["partitions"] == places
            member.generation = after["generation"]
            assert member.beat()["rebalance_required"] is False


def test_who_does_not_come_back_after_a_restart_makes_room(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as local:
        create(local.url, "orders", partitions=2)
        Member(local.url, session_timeout="1s").join()
    with LocalBroker(str(tmp_path / "data")) as local:
        publish(local.url, "orders", "a", partition=0)
        publish(local.url, "orders", "b", partition=1)
        member = Member(local.url).join()
        found: set[str] = set()
        while len(found) < 2:
            found |= set(values(member.poll(timeout=PATIENCE)))
        assert told(ask(local.url, "GET", "/groups/billing"))["members"][0]["member_id"] == member.id
