"""Committed offsets: committed by members, read by any client, reset by operators."""

from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.members import Member, told, values
from tests.brokers import Answer, ask, create, publish, read


@pytest.fixture
def url(broker: LocalBroker) -> str:
    """A broker with the topic `orders` of two partitions, with five messages and three."""
    create(broker.url, "orders", partitions=2)
    publish(broker.url, "orders", *"abcde", partition=0)
    publish(broker.url, "orders", *"xyz", partition=1)
    return broker.url


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


def test_program_that_never_joins_commits_without_a_member(url: str) -> None:
    answer = told(ask(url, "POST", "/groups/billing/offsets", {"offsets": {"orders": {"1": 2}}}))
    assert answer == {"committed": True, "offsets": {"orders": {"1": 2}}}
    assert offsets(url) == {"orders": {"1": 2}}
    beyond = ask(url, "POST", "/groups/billing/offsets", {"offsets": {"orders": {"1": 9}}})
    assert (beyond.status, beyond.code) == (404, "offset_out_of_range")


def test_committed_offsets_of_one_topic_or_all_are_returned(url: str) -> None:
    create(url, "refunds")
    Member(url, topics=["orders", "refunds"]).join()
    assert offsets(url) == {"orders": {"0": 0, "1": 0}, "refunds": {"0": 0}}
    assert offsets(url, "?topic=refunds") == {"refunds": {"0": 0}}
    assert offsets(url, "?topic=nowhere") == {}


@pytest.fixture(scope="module")
def unchanged(module_broker: LocalBroker) -> Member:
    """The only member of a group of which every request is refused."""
    create(module_broker.url, "orders", partitions=2)
    publish(module_broker.url, "orders", *"abcde", partition=0)
    publish(module_broker.url, "orders", *"xyz", partition=1)
    return Member(module_broker.url, session_timeout="30m").join()


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
        ({"orders": {"0": 2**63}}, 400, "request_invalid"),
        ({"orders": {"00": 1}}, 400, "request_invalid"),
        ({"orders": {"-1": 1}}, 400, "request_invalid"),
        ({"orders": {"9" * 1000: 1}}, 400, "request_invalid"),
        ({"orders": 1}, 400, "request_invalid"),
    ],
)
def test_invalid_commit_changes_nothing(unchanged: Member, wanted: Any, status: int, code: str) -> None:
    answer = unchanged.ask("POST", "/offsets", {"member_id": unchanged.id, "offsets": wanted})
    assert (answer.status, answer.code) == (status, code)
    assert offsets(unchanged.url) == {"orders": {"0": 0, "1": 0}}


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


def test_dry_run_reports_and_changes_nothing(member: Member) -> None:
    answer = told(reset(member.url, "latest", dry_run=True))
    assert answer == {
        "topic": "orders",
        "dry_run": True,
        "generation": 1,
        "partitions": [{"partition": 0, "before": 0, "after": 5}, {"partition": 1, "before": 0, "after": 3}],
        "created": False,
        "operation": None,
    }
    assert offsets(member.url) == {"orders": {"0": 0, "1": 0}}
    assert member.beat()["generation"] == 1


def test_reset_creates_a_group_without_members(url: str) -> None:
    answer = told(reset(url, "offset", offset=1, dry_run=True))
    assert [one["before"] for one in answer["partitions"]] == [None, None]
    assert ask(url, "GET", "/groups/billing").status == 404
    told(reset(url, "offset", offset=1))
    assert told(ask(url, "GET", "/groups/billing"))["state"] == "empty"
    assert sorted(values(Member(url).join().poll())) == list("bcdeyz")


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
def test_invalid_reset_changes_nothing(unchanged: Member, body: dict[str, Any], status: int, code: str) -> None:
    answer = ask(unchanged.url, "POST", "/groups/new/offsets/reset", {"topic": "orders", **body})
    assert (answer.status, answer.code) == (status, code)
    assert told(ask(unchanged.url, "GET", "/groups")) == {"groups": ["billing"]}
