"""What members say of the messages they were handed: by receipts, one by one, or of whole leases."""

from pathlib import Path
from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.members import PATIENCE, Member, of, receipts, told, values
from tests.brokers import Answer, ask, broker, create, publish

__all__ = ["broker"]


@pytest.fixture
def url(broker: LocalBroker) -> str:
    """A broker with the topic `orders` of one partition and five messages."""
    create(broker.url, "orders")
    publish(broker.url, "orders", *"abcde")
    return broker.url


@pytest.fixture
def member(url: str) -> Member:
    """The only one of its group."""
    return Member(url).join()


def say(url: str, verb: str, *handles: str, **more: Any) -> Answer:
    return ask(url, "POST", f"/messages/{verb}", {"receipt_handles": handles, **more})


def committed(member: Member) -> int:
    found: int = told(member.ask("GET", "/offsets"))["offsets"]["orders"]["0"]
    return found


# --- receipts ---


def test_what_is_acknowledged_does_not_come_back(member: Member) -> None:
    found = member.poll(max_messages=1)
    answer = ask(member.url, "POST", "/messages/ack", {"receipt_handle": found[0]["receipt_handle"]})
    assert told(answer) == {"acknowledged": True, "results": [{"receipt_handle": found[0]["receipt_handle"]}]}
    assert committed(member) == 1
    member.leave()
    assert values(Member(member.url).join().poll()) == list("bcde")


def test_messages_are_acknowledged_in_any_order(member: Member) -> None:
    handles = receipts(member.poll())
    told(say(member.url, "ack", *handles[3:]))
    assert committed(member) == 0
    told(say(member.url, "ack", *handles[:3]))
    assert committed(member) == 5


def test_one_handle_and_many_are_one_list(member: Member) -> None:
    handles = receipts(member.poll())
    body = {"receipt_handle": handles[0], "receipt_handles": handles[1:]}
    answer = told(ask(member.url, "POST", "/messages/ack", body))
    assert [result["receipt_handle"] for result in answer["results"]] == handles


@pytest.mark.parametrize("body", [{}, {"receipt_handles": []}, {"receipt_handle": None}])
def test_whoever_names_no_message_is_told_what_is_missing(member: Member, body: dict[str, Any]) -> None:
    for verb in ("ack", "nack", "reject"):
        answer = ask(member.url, "POST", f"/messages/{verb}", body)
        assert (answer.status, answer.code) == (400, "request_invalid")
        assert answer.json["details"]["problems"][0]["place"] == "receipt_handle"


def test_each_handle_is_taken_or_refused_for_itself(member: Member) -> None:
    handles = receipts(member.poll())
    told(say(member.url, "ack", handles[0]))
    answer = told(say(member.url, "ack", *handles[:2], "nonsense"))
    assert answer["acknowledged"] is False
    codes = [result.get("error", {}).get("code") for result in answer["results"]]
    assert codes == ["lease_expired", None, "receipt_invalid"]
    assert committed(member) == 2


def test_when_all_are_refused_the_answer_is_a_refusal(member: Member) -> None:
    handles = receipts(member.poll())
    told(say(member.url, "ack", *handles))
    for verb in ("ack", "nack", "reject"):
        answer = say(member.url, verb, *handles)
        assert (answer.status, answer.code) == (409, "lease_expired")


def test_a_handle_twice_in_one_request_counts_once(member: Member) -> None:
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


def test_a_message_that_failed_waits_as_long_as_it_was_said(member: Member) -> None:
    (message,) = member.poll(max_messages=1)
    told(say(member.url, "nack", message["receipt_handle"], delay="1h"))
    assert values(member.poll()) == list("bcde")


def test_a_message_that_failed_waits_by_itself_where_nothing_was_said(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), groups__retry_delay="50ms") as local:
        create(local.url, "orders")
        publish(local.url, "orders", "a")
        member = Member(local.url).join()
        attempts = []
        for _ in range(3):
            (message,) = member.poll(timeout=PATIENCE)
            attempts.append(message["attempt"])
            told(say(local.url, "nack", message["receipt_handle"]))
        assert attempts == [1, 2, 3]


def test_only_the_member_that_has_it_may_speak_of_a_message_where_it_says_who_it_is(member: Member) -> None:
    (handle,) = receipts(member.poll(max_messages=1))
    other = Member(member.url, "others").join()
    for verb in ("ack", "nack", "reject"):
        assert say(member.url, verb, handle, consumer_id=other.id).code == "lease_expired"
    assert say(member.url, "visibility", handle, consumer_id=other.id, timeout="1m").code == "lease_expired"
    assert told(say(member.url, "ack", handle, consumer_id=member.id))["acknowledged"] is True


def test_receipts_of_several_groups_are_settled_together(member: Member) -> None:
    other = Member(member.url, "shipping").join()
    told(say(member.url, "ack", *receipts(member.poll()), *receipts(other.poll())))
    assert (committed(member), committed(other)) == (5, 5)


def test_a_message_may_be_kept_for_longer(member: Member) -> None:
    (message,) = member.poll(max_messages=1, visibility_timeout="100ms")
    answer = told(say(member.url, "visibility", message["receipt_handle"], timeout="1h"))
    assert answer["extended"] is True
    assert answer["new_deadline"] > message["timestamp"]
    assert answer["results"] == [{"receipt_handle": message["receipt_handle"], "new_deadline": answer["new_deadline"]}]
    (other,) = member.poll(max_messages=1, visibility_timeout="100ms")
    assert values(member.poll(max_messages=3)) == list("cde")
    assert values(member.poll(timeout=PATIENCE)) == [other["value"]]
    assert told(say(member.url, "ack", message["receipt_handle"]))["acknowledged"] is True


def test_nothing_is_lent_without_end(member: Member) -> None:
    (handle,) = receipts(member.poll(max_messages=1))
    deadlines = [told(say(member.url, "visibility", handle, timeout="12h"))["new_deadline"] for _ in range(2)]
    assert deadlines[0] == deadlines[1], "12 hours in all, however often it is asked for"
    assert say(member.url, "visibility", handle, timeout="13h").code == "request_invalid"
    assert say(member.url, "visibility", handle).code == "request_invalid"


def test_a_message_that_is_lent_no_longer_is_given_back_and_that_is_no_failure(member: Member) -> None:
    (handle,) = receipts(member.poll(max_messages=1))
    assert told(say(member.url, "visibility", handle, timeout=0))["extended"] is True
    (lease,) = member.lease(max_messages=1)
    assert (lease["attempt"], lease["failures"]) == (2, 0)


def test_a_message_may_come_back_sooner(member: Member) -> None:
    found = member.poll(max_messages=1, visibility_timeout="1h")
    told(say(member.url, "visibility", *receipts(found), timeout="100ms"))
    member.poll()
    assert [(one["value"], one["attempt"]) for one in member.poll(timeout=PATIENCE)] == [("a", 2)]


def test_whoever_is_too_late_is_told_so(member: Member) -> None:
    (first,) = member.poll(max_messages=1, visibility_timeout="100ms")
    member.poll()
    (again,) = member.poll(timeout=PATIENCE)
    assert (again["value"], again["attempt"]) == ("a", 2)
    assert say(member.url, "ack", first["receipt_handle"]).code == "lease_expired"
    assert told(say(member.url, "ack", again["receipt_handle"]))["acknowledged"] is True


def test_whoever_left_has_nothing_to_say_any_more(member: Member) -> None:
    handles = receipts(member.poll())
    member.leave()
    assert say(member.url, "ack", *handles).code == "lease_expired"
    heir = Member(member.url).join()
    assert [(lease["attempt"], lease["failures"]) for lease in heir.lease()] == [(2, 0)]


# --- whole leases ---


def test_everything_is_said_at_once_of_a_lease(member: Member) -> None:
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
    (again,) = member.lease()
    assert (again["first"], again["end"], again["attempt"], again["failures"]) == (3, 4, 2, 0)


def test_nothing_may_be_said(member: Member) -> None:
    assert member.settle() == {"acks": [], "nacks": [], "rejects": [], "releases": [], "extensions": []}


def test_each_entry_is_taken_or_refused_for_itself(member: Member) -> None:
    (lease,) = member.lease()
    foreign = {**lease, "lease": "0" * 33}
    elsewhere = {**lease, "partition": 7}
    answer = member.settle(acks=[of(foreign), of(lease, (0, 2)), of(elsewhere), of(lease, (2, 6)), of(lease, (2, 5))])
    codes = [result.get("error", {}).get("code") for result in answer["acks"]]
    assert codes == ["lease_expired", None, "lease_expired", "lease_expired", None]
    assert committed(member) == 5


def test_an_ack_whose_answer_was_lost_may_be_said_again(member: Member) -> None:
    (lease,) = member.lease()
    for ranges in ([(0, 2)], [(0, 2)], [(1, 4)], [(0, 5)], [(0, 5)]):
        assert member.settle(acks=[of(lease, *ranges)])["acks"] == [{}]
    assert told(ask(member.url, "GET", "/reliability/stats"))["acks_total"] == 5


def test_other_words_count_once(member: Member) -> None:
    (lease,) = member.lease()
    for verb in ("nacks", "rejects", "releases"):
        assert "error" not in member.settle(**{verb: [of(lease, (0, 1))]})[verb][0] or verb != "nacks"
        assert member.settle(**{verb: [of(lease, (0, 1))]})[verb][0]["error"]["code"] == "lease_expired"
    assert "error" not in member.settle(acks=[of(lease, (1, 5))])["acks"][0]


def test_the_first_word_of_a_message_in_one_request_holds(member: Member) -> None:
    (lease,) = member.lease()
    answer = member.settle(
        releases=[of(lease)], rejects=[of(lease)], nacks=[of(lease, delay="1h")], acks=[of(lease)], extensions=[]
    )
    assert answer["acks"] == [{}]
    for verb in ("nacks", "rejects", "releases"):
        assert answer[verb][0]["error"]["code"] == "lease_expired"
    assert committed(member) == 5


@pytest.mark.parametrize(
    "ranges",
    [[(0, 5), (0, 5)], [(0, 3), (2, 5)], [(2, 5), (0, 3)], [(0, 5), (1, 2)], [(4, 5), (3, 4), (0, 3)]],
)
def test_ranges_that_overlap_count_once(member: Member, ranges: list[tuple[int, int]]) -> None:
    (lease,) = member.lease()
    assert member.settle(acks=[of(lease, *ranges)])["acks"] == [{}]
    assert committed(member) == 5
    assert told(ask(member.url, "GET", "/reliability/stats"))["acks_total"] == 5


@pytest.mark.parametrize("verb", ["nacks", "rejects", "releases"])
def test_ranges_that_overlap_are_one_failure(member: Member, verb: str) -> None:
    (lease,) = member.lease()
    assert "error" not in member.settle(**{verb: [of(lease, (0, 3), (1, 3), (2, 3))]})[verb][0]
    stats = told(ask(member.url, "GET", "/reliability/stats"))
    assert (stats[f"{verb}_total"], stats["in_flight"]) == (3, 2)


def test_a_lease_is_of_one_member(url: str) -> None:
    create(url, "refunds")
    publish(url, "refunds", "x")
    first, second = Member(url).join(), Member(url, topics=["refunds"]).join()
    (mine,), (theirs,) = first.lease(), second.lease()
    for verb in ("acks", "nacks", "rejects", "releases"):
        assert first.settle(**{verb: [of(theirs)]})[verb][0]["error"]["code"] == "lease_expired"
    assert second.settle(acks=[of(theirs)])["acks"] == [{}]
    assert first.settle(acks=[of(mine)])["acks"] == [{}]


def test_a_generation_that_has_only_gained_may_still_settle(url: str) -> None:
    create(url, "refunds")
    member = Member(url, topics=["orders", "refunds"]).join()
    other = Member(url, topics=["refunds"], client_id="other").join()
    before = member.assignment()
    (lease,) = member.lease()
    other.leave()
    after = member.assignment()
    assert (len(before["partitions"]), len(after["partitions"])) == (1, 2)
    assert after["generation"] > before["generation"]
    assert member.settle(generation=before["generation"], acks=[of(lease)])["acks"] == [{}]


# --- numbers ---


def test_what_became_of_messages_is_counted(member: Member) -> None:
    (lease,) = member.lease()
    member.settle(
        acks=[of(lease, (0, 1))], nacks=[of(lease, (1, 2), delay="1h")], rejects=[of(lease, (2, 3))],
        releases=[of(lease, (3, 4))],
        extensions=[{"topic": "orders", "partition": 0, "lease": lease["lease"], "timeout": "1m"}],
    )  # fmt: skip
    stats = told(ask(member.url, "GET", "/reliability/stats"))
    age = stats.pop("oldest_unacked_seconds")
    assert 0 <= age < 60
    assert stats == {
        "acks_total": 1, "nacks_total": 1, "rejects_total": 1, "releases_total": 1, "expiries_total": 0,
        "dlq_messages": 1, "visibility_extensions": 1, "in_flight": 1, "waiting": 2, "pledged": 0,
    }  # fmt: skip


# --- over a restart ---


def test_receipts_outlive_the_broker(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as local:
        create(local.url, "orders")
        publish(local.url, "orders", *"abcd")
        member = Member(local.url).join()
        told(say(local.url, "nack", *receipts(member.poll(max_messages=1)), delay=0))
        found = member.poll(max_messages=3)
        told(say(local.url, "ack", found[1]["receipt_handle"]))
    with LocalBroker(str(tmp_path / "data")) as local:
        member.url = local.url
        assert values(member.poll()) == ["d"]
        assert told(say(local.url, "ack", found[0]["receipt_handle"], consumer_id=member.id))["acknowledged"] is True
        told(say(local.url, "nack", found[2]["receipt_handle"], delay=0))
        (again,) = member.poll()
        assert (found[0]["attempt"], again["value"], again["attempt"]) == (2, "c", 2)
        assert say(local.url, "ack", found[1]["receipt_handle"]).code == "lease_expired"
        assert committed(member) == 2


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
