"""Acks, nacks and rejects, by receipt handle or by ranges of leases."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.members import PATIENCE, Member, of, receipts, told, values
from tests.brokers import Answer, ask, create, publish


@pytest.fixture
def url(broker: LocalBroker) -> str:
    """A broker with the topic `orders` of one partition and five messages."""
    create(broker.url, "orders")
    publish(broker.url, "orders", *"abcde")
    return broker.url


def say(url: str, verb: str, *handles: str, **more: Any) -> Answer:
    return ask(url, "POST", f"/messages/{verb}", {"receipt_handles": handles, **more})


def committed(member: Member) -> int:
    found: int = told(member.ask("GET", "/offsets"))["offsets"]["orders"]["0"]
    return found


# --- receipts ---


def test_acked_message_is_not_delivered_again(member: Member) -> None:
    found = member.poll(max_messages=1)
    answer = ask(member.url, "POST", "/messages/ack", {"receipt_handle": found[0]["receipt_handle"]})
    assert told(answer) == {"acknowledged": True, "results": [{"receipt_handle": found[0]["receipt_handle"]}]}
    assert committed(member) == 1
    member.leave()
    assert values(Member(member.url).join().poll()) == list("bcde")


def test_receipt_handle_and_receipt_handles_are_combined(member: Member) -> None:
    handles = receipts(member.poll())
    body = {"receipt_handle": handles[0], "receipt_handles": handles[1:]}
    answer = told(ask(member.url, "POST", "/messages/ack", body))
    assert [result["receipt_handle"] for result in answer["results"]] == handles


@pytest.mark.parametrize("body", [{}, {"receipt_handles": []}, {"receipt_handle": None}])
def test_request_without_a_receipt_is_refused(unchanged: str, body: dict[str, Any]) -> None:
    for verb in ("ack", "nack", "reject"):
        answer = ask(unchanged, "POST", f"/messages/{verb}", body)
        assert (answer.status, answer.code) == (400, "request_invalid")
        assert answer.json["details"]["problems"][0]["place"] == "receipt_handle"


def test_each_receipt_handle_has_its_own_result(member: Member) -> None:
    handles = receipts(member.poll())
    told(say(member.url, "ack", handles[0]))
    answer = told(say(member.url, "ack", *handles[:2], "nonsense"))
    assert answer["acknowledged"] is False
    codes = [result.get("error", {}).get("code") for result in answer["results"]]
    assert codes == ["lease_expired", None, "receipt_invalid"]
    assert committed(member) == 2


def test_request_fails_if_every_entry_fails(member: Member) -> None:
    handles = receipts(member.poll())
    told(say(member.url, "ack", *handles))
    for verb in ("ack", "nack", "reject"):
        answer = say(member.url, verb, *handles)
        assert (answer.status, answer.code) == (409, "lease_expired")


def test_repeated_receipt_handle_counts_once(member: Member) -> None:
    (handle,) = receipts(member.poll(max_messages=1))
    answer = told(say(member.url, "ack", handle, handle))
    assert ["error" in result for result in answer["results"]] == [False, True]
    assert told(ask(member.url, "GET", "/reliability/stats"))["acks_total"] == 1


def test_a_message_that_failed_comes_back_with_another_receipt(member: Member) -> None:
    (message,) = member.poll(max_messages=1)
    answer = told(say(member.url, "nack", message["receipt_handle"], delay="0s", reason="no stock"))
    assert answer == {"requeued": True, "results": [{"receipt_handle": message["receipt_handle"]}]}
    again = member.poll(max_messages=1)[0]
    assert (again["value"], again["attempt"]) == ("a", 2)
    assert again["receipt_handle"] != message["receipt_handle"]
    assert say(member.url, "ack", message["receipt_handle"]).code == "lease_expired"


def test_receipt_of_another_member_is_refused(member: Member) -> None:
    (handle,) = receipts(member.poll(max_messages=1))
    other = Member(member.url, "others").join()
    for verb in ("ack", "nack", "reject"):
        assert say(member.url, verb, handle, consumer_id=other.id).code == "lease_expired"
    assert say(member.url, "visibility", handle, consumer_id=other.id, timeout="1m").code == "lease_expired"
    assert told(say(member.url, "ack", handle, consumer_id=member.id))["acknowledged"] is True


def test_a_message_may_be_kept_for_longer(member: Member) -> None:
    (message,) = member.poll(max_messages=1, visibility_timeout="30s")
    answer = told(say(member.url, "visibility", message["receipt_handle"], timeout="1h"))
    assert answer["extended"] is True
    assert datetime.fromisoformat(answer["new_deadline"]) > datetime.now(UTC) + timedelta(minutes=50)
    assert answer["results"] == [{"receipt_handle": message["receipt_handle"], "new_deadline": answer["new_deadline"]}]
    (other,) = member.poll(max_messages=1, visibility_timeout="100ms")
    assert values(member.poll(max_messages=3)) == list("cde")
    assert values(member.poll(timeout=PATIENCE)) == [other["value"]]
    assert told(say(member.url, "ack", message["receipt_handle"]))["acknowledged"] is True


def test_visibility_timeout_has_a_maximum(member: Member) -> None:
    (handle,) = receipts(member.poll(max_messages=1))
    deadlines = [told(say(member.url, "visibility", handle, timeout="12h"))["new_deadline"] for _ in range(2)]
    assert deadlines[0] == deadlines[1], "12 hours in all, however often it is asked for"
    assert say(member.url, "visibility", handle, timeout="13h").code == "request_invalid"
    assert say(member.url, "visibility", handle).code == "request_invalid"


def test_visibility_of_zero_releases_the_message_without_a_failure(member: Member) -> None:
    (handle,) = receipts(member.poll(max_messages=1))
    assert told(say(member.url, "visibility", handle, timeout=0))["extended"] is True
    (lease,) = member.lease(max_messages=1)
    assert (lease["attempt"], lease["failures"]) == (2, 0)


# --- whole leases ---


def test_settle_request_may_have_every_kind_of_entry(member: Member) -> None:
    (lease,) = member.lease()
    answer = member.settle(
        acks=[of(lease, (0, 1))],
        nacks=[of(lease, (1, 2), delay="1h", reason="no stock")],
        rejects=[of(lease, (2, 3), reason="no such customer")],
        releases=[of(lease, (3, 4))],
        extensions=[{"topic": "orders", "partition": 0, "lease": lease["lease"], "timeout": "1m"}],
    )
    (extension,) = answer.pop("extensions")
    assert list(extension) == ["new_deadline"]
    assert answer == {
        "acks": [{}],
        "nacks": [{"requeued": True, "dead_letters": 0}],
        "rejects": [{"dlq_topic": "orders.dlq"}],
        "releases": [{}],
    }
    stats = told(ask(member.url, "GET", "/reliability/stats"))
    assert 0 <= stats.pop("oldest_unacked_seconds") < 60
    assert stats == {
        "acks_total": 1, "nacks_total": 1, "rejects_total": 1, "releases_total": 1, "expiries_total": 0,
        "dlq_messages": 1, "dropped_total": 0, "visibility_extensions": 1, "in_flight": 1, "waiting": 2, "pledged": 0,
    }  # fmt: skip
    (again,) = member.lease()
    assert (again["first"], again["end"], again["attempt"], again["failures"]) == (3, 4, 2, 0)


def test_empty_settle_request_is_accepted(member: Member) -> None:
    assert member.settle() == {"acks": [], "nacks": [], "rejects": [], "releases": [], "extensions": []}


def test_each_entry_is_taken_or_refused_for_itself(member: Member) -> None:
    (lease,) = member.lease()
    foreign = {**lease, "lease": "0" * 33}
    elsewhere = {**lease, "partition": 7}
    answer = member.settle(acks=[of(foreign), of(lease, (0, 2)), of(elsewhere), of(lease, (2, 6)), of(lease, (2, 5))])
    codes = [result.get("error", {}).get("code") for result in answer["acks"]]
    assert codes == ["lease_expired", None, "lease_expired", "lease_expired", None]
    assert committed(member) == 5


def test_the_first_word_of_a_message_in_one_request_holds(member: Member) -> None:
    (lease,) = member.lease()
    answer = member.settle(
        releases=[of(lease)], rejects=[of(lease)], nacks=[of(lease, delay="1h")], acks=[of(lease)], extensions=[]
    )
    assert answer["acks"] == [{}]
    for verb in ("nacks", "rejects", "releases"):
        assert answer[verb][0]["error"]["code"] == "lease_expired"
    assert committed(member) == 5


@pytest.mark.parametrize("verb", ["acks", "nacks", "rejects", "releases"])
@pytest.mark.parametrize("ranges", [[(0, 3), (0, 3)], [(1, 3), (0, 2)], [(0, 3), (1, 2)]], ids=str)
def test_overlapping_ranges_count_once(member: Member, verb: str, ranges: list[tuple[int, int]]) -> None:
    (lease,) = member.lease()
    assert "error" not in member.settle(**{verb: [of(lease, *ranges)]})[verb][0]
    stats = told(ask(member.url, "GET", "/reliability/stats"))
    assert (stats[f"{verb}_total"], stats["in_flight"]) == (3, 2)


def test_leases_outlive_the_broker_and_end_when_they_would_have(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as local:
        create(local.url, "orders")
        publish(local.url, "orders", "a", "b")
        member = Member(local.url).join()
        (first,) = member.lease(max_messages=1, visibility_timeout="100ms")
        (second,) = member.lease(visibility_timeout="1h")
    with LocalBroker(str(tmp_path / "data")) as local:
        member.url = local.url
        (again,) = member.lease(timeout=PATIENCE)
        assert (again["first"], again["attempt"], again["failures"]) == (first["first"], 2, 1)
        assert member.settle(acks=[of(second)])["acks"] == [{}]
