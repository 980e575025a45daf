"""Committed offsets: told by members, read by anybody, set by operators."""

from pathlib import Path
from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.members import Member, of, receipts, told, values, waiting
from tests.brokers import Answer, ask, broker, create, publish, read

__all__ = ["broker"]


@pytest.fixture
def url(broker: LocalBroker) -> str:
    """A broker with the topic `orders` of two partitions, with five messages and three."""
    create(broker.url, "orders", partitions=2)
    publish(broker.url, "orders", *"abcde", partition=0)
    publish(broker.url, "orders", *"xyz", partition=1)
    return broker.url


@pytest.fixture
def member(url: str) -> Member:
    """The only one of its group."""
    return Member(url).join()


def offsets(url: str, query: str = "", group: str = "billing") -> Any:
    return told(ask(url, "GET", f"/groups/{group}/offsets{query}"))["offsets"]


def reset(url: str, to: str, group: str = "billing", **more: Any) -> Answer:
    return ask(url, "POST", f"/groups/{group}/offsets/reset", {"topic": "orders", "to": to, **more})


def after(answer: Answer) -> list[int]:
    return [one["after"] for one in told(answer)["partitions"]]


# --- committing ---


def test_everything_below_a_committed_offset_is_done_with(member: Member) -> None:
    answer = member.say("/offsets", generation=member.generation, offsets={"orders": {"0": 3}})
    assert answer == {"committed": True, "offsets": {"orders": {"0": 3, "1": 0}}}
    assert values(member.poll()) in (list("dexyz"), list("xyzde"))


def test_a_simple_client_commits_what_it_was_given(member: Member) -> None:
    answer = told(member.polled())
    member.say("/offsets", offsets=answer["next_offset"])
    assert offsets(member.url) == {"orders": {"0": 5, "1": 3}}
    member.leave()
    assert Member(member.url).join().poll() == []


def test_offsets_are_told_of_one_topic_or_of_all(url: str) -> None:
    create(url, "refunds")
    Member(url, topics=["orders", "refunds"]).join()
    assert offsets(url) == {"orders": {"0": 0, "1": 0}, "refunds": {"0": 0}}
    assert offsets(url, "?topic=refunds") == {"refunds": {"0": 0}}
    assert offsets(url, "?topic=nowhere") == {}


def test_no_offset_goes_back_by_a_commit(member: Member) -> None:
    member.say("/offsets", offsets={"orders": {"0": 4}})
    assert member.say("/offsets", offsets={"orders": {"0": 2}})["offsets"]["orders"]["0"] == 4


def test_acknowledging_and_committing_are_one_thing(member: Member) -> None:
    handles = receipts(member.poll(max_messages=5))
    told(ask(member.url, "POST", "/messages/ack", {"receipt_handles": handles[2:3]}))
    first = handles[0].split(":")[1]
    member.say("/offsets", offsets={"orders": {first: 2}})
    assert offsets(member.url)["orders"][first] == 3


def test_what_was_in_hand_below_a_commit_is_in_hand_no_more(member: Member) -> None:
    leases = {lease["partition"]: lease for lease in member.lease()}
    member.say("/offsets", offsets={"orders": {"0": 3}})
    assert told(ask(member.url, "GET", "/reliability/stats"))["in_flight"] == 5
    assert member.settle(acks=[of(leases[0])])["acks"] == [{}]
    assert offsets(member.url)["orders"]["0"] == 5


@pytest.mark.parametrize(
    ("wanted", "status", "code"),
    [
        ({"orders": {"0": 6}}, 404, "offset_out_of_range"),
        ({"orders": {"0": 2**63 - 1}}, 404, "offset_out_of_range"),
        ({"orders": {"2": 0}}, 409, "partition_not_owned"),
        ({"nowhere": {"0": 0}}, 409, "partition_not_owned"),
        ({"__metadata": {"0": 0}}, 409, "partition_not_owned"),
        ({"orders": {"0": 1, "1": 4}}, 404, "offset_out_of_range"),
        ({"orders": {"0": -1}}, 400, "request_invalid"),
        ({"orders": {"0": 1.5}}, 400, "request_invalid"),
        ({"orders": {"0": 2**63}}, 400, "request_invalid"),
        ({"orders": {"0": "1"}}, 400, "request_invalid"),
        ({"orders": {"00": 1}}, 400, "request_invalid"),
        ({"orders": {"-1": 1}}, 400, "request_invalid"),
        ({"orders": {"9" * 1000: 1}}, 400, "request_invalid"),
        ({"orders": {"": 1}}, 400, "request_invalid"),
        ({"orders": 1}, 400, "request_invalid"),
    ],
)
def test_a_commit_that_cannot_be_changes_nothing(member: Member, wanted: Any, status: int, code: str) -> None:
    answer = member.ask("POST", "/offsets", {"member_id": member.id, "offsets": wanted})
    assert (answer.status, answer.code) == (status, code)
    assert offsets(member.url) == {"orders": {"0": 0, "1": 0}}


def test_nobody_commits_for_others(url: str) -> None:
    first, second = Member(url).join(), Member(url).join()
    theirs = second.assignment()["partitions"][0]["partition"]
    answer = first.ask("POST", "/offsets", {"member_id": first.id, "offsets": {"orders": {str(theirs): 1}}})
    assert (answer.status, answer.code) == (409, "partition_not_owned")


def test_offsets_outlive_the_broker(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as local:
        create(local.url, "orders")
        publish(local.url, "orders", *"abc")
        member = Member(local.url).join()
        member.say("/offsets", offsets={"orders": {"0": 2}})
    with LocalBroker(str(tmp_path / "data")) as local:
        member.url = local.url
        assert offsets(local.url) == {"orders": {"0": 2}}
        assert values(member.poll()) == ["c"]


# --- resetting ---


def test_a_group_is_sent_to_where_it_is_to_read_on(member: Member) -> None:
    member.say("/offsets", offsets={"orders": {"0": 3, "1": 3}})
    time = read(member.url, "orders", 0)[0]["timestamp"]
    assert after(reset(member.url, "earliest")) == [0, 0]
    assert after(reset(member.url, "latest")) == [5, 3]
    assert after(reset(member.url, "shift", shift=-2)) == [3, 1]
    assert after(reset(member.url, "shift", shift=2**62)) == [5, 3]
    assert after(reset(member.url, "shift", shift=-(2**63 - 1))) == [0, 0]
    assert after(reset(member.url, "offset", offset=2)) == [2, 2]
    assert after(reset(member.url, "time", time=time)) == [0, 0]
    assert after(reset(member.url, "time", time="2100-01-01T00:00:00Z")) == [5, 3]
    assert offsets(member.url) == {"orders": {"0": 5, "1": 3}}


def test_a_dry_run_tells_and_changes_nothing(member: Member) -> None:
    answer = told(reset(member.url, "latest", dry_run=True))
    assert answer == {
        "topic": "orders",
        "dry_run": True,
        "generation": 1,
        "partitions": [{"partition": 0, "before": 0, "after": 5}, {"partition": 1, "before": 0, "after": 3}],
        "created": False,
    }
    assert offsets(member.url) == {"orders": {"0": 0, "1": 0}}
    assert member.beat()["generation"] == 1


def test_some_partitions_are_reset_and_others_stay(member: Member) -> None:
    assert after(reset(member.url, "latest", partitions=[1, 1])) == [3]
    assert offsets(member.url) == {"orders": {"0": 0, "1": 3}}


def test_a_group_that_nobody_has_joined_can_be_told_where_to_begin(url: str) -> None:
    answer = told(reset(url, "offset", offset=1, dry_run=True))
    assert [one["before"] for one in answer["partitions"]] == [None, None]
    assert ask(url, "GET", "/groups/billing").status == 404
    told(reset(url, "offset", offset=1))
    assert told(ask(url, "GET", "/groups/billing"))["state"] == "empty"
    assert sorted(values(Member(url).join().poll())) == list("bcdeyz")


def test_what_members_have_in_hand_is_theirs_no_more(broker: LocalBroker, url: str) -> None:
    member = Member(url).join()
    handles = receipts(member.poll())
    with waiting(broker, member, generation=member.generation) as answer:
        told(reset(url, "earliest"))
        assert told(answer.result())["rebalance_required"] is True
    assert ask(url, "POST", "/messages/ack", {"receipt_handles": handles}).code == "lease_expired"
    assert member.polled(generation=1).code == "generation_stale"
    assert sorted(values(member.poll())) == list("abcdexyz")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"to": "offset", "offset": 4}, 404, "offset_out_of_range"),
        ({"to": "offset"}, 400, "request_invalid"),
        ({"to": "time"}, 400, "request_invalid"),
        ({"to": "shift"}, 400, "request_invalid"),
        ({"to": "earliest", "offset": 0}, 400, "request_invalid"),
        ({"to": "offset", "offset": 1, "shift": 1}, 400, "request_invalid"),
        ({"to": "elsewhere"}, 400, "request_invalid"),
        ({"to": "offset", "offset": -1}, 400, "request_invalid"),
        ({"to": "offset", "offset": 0.5}, 400, "request_invalid"),
        ({"to": "offset", "offset": 2**63}, 400, "request_invalid"),
        ({"to": "shift", "shift": -(2**63)}, 400, "request_invalid"),
        ({"to": "time", "time": "yesterday"}, 400, "request_invalid"),
        ({"to": "latest", "partitions": []}, 400, "request_invalid"),
        ({"to": "latest", "partitions": [-1]}, 400, "request_invalid"),
        ({"to": "latest", "partitions": [0, 2]}, 404, "partition_not_found"),
        ({"to": "latest", "topic": "nowhere"}, 404, "topic_not_found"),
        ({"to": "latest", "topic": "a/b"}, 400, "topic_name_invalid"),
    ],
)
def test_a_reset_that_cannot_be_changes_nothing(url: str, body: dict[str, Any], status: int, code: str) -> None:
    answer = ask(url, "POST", "/groups/billing/offsets/reset", {"topic": "orders", **body})
    assert (answer.status, answer.code) == (status, code)
    assert told(ask(url, "GET", "/groups")) == {"groups": []}
