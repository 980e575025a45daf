"""Messages that are given up: when that is answered they lie among the dead letters, and say why."""

import re
from pathlib import Path
from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.members import PATIENCE, Member, of, receipts, told, values
from tests.api.wire import frames, section, send, until
from tests.brokers import ask, broker, create, publish, read

__all__ = ["broker"]


@pytest.fixture
def member(broker: LocalBroker) -> Member:
    """The only one of its group, on the topic `orders` of two partitions."""
    create(broker.url, "orders", partitions=2)
    return Member(broker.url).join()


def say(member: Member, verb: str, *found: dict[str, Any], **more: Any) -> Any:
    return told(ask(member.url, "POST", f"/messages/{verb}", {"receipt_handles": receipts(list(found)), **more}))


def test_a_rejected_message_lies_among_the_dead_letters_when_that_is_answered(member: Member) -> None:
    publish(member.url, "orders", "a", partition=1, key="k", headers={"till": "3"}, priority="low")
    (message,) = member.poll()
    answer = say(member, "reject", message, reason="no such customer")
    assert answer == {
        "rejected": True,
        "dlq_topic": "orders.dlq",
        "results": [{"receipt_handle": message["receipt_handle"], "dlq_topic": "orders.dlq"}],
    }
    (found,) = read(member.url, "orders.dlq", 1)
    assert (found["value"], found["key"], found["priority"]) == ("a", "k", 3)
    headers = found["headers"]
    times = [headers.pop("dlq.first-time"), headers.pop("dlq.last-time")]
    assert times == sorted(times)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", time) for time in times)
    assert headers == {
        "till": "3", "dlq.topic": "orders", "dlq.partition": "1", "dlq.offset": "0", "dlq.group": "billing",
        "dlq.error": "no such customer", "dlq.attempts": "1",
    }  # fmt: skip
    assert member.poll() == []
    assert told(member.ask("GET", "/offsets"))["offsets"]["orders"]["1"] == 1


def test_what_was_rejected_by_ranges_lies_there_as_well(member: Member) -> None:
    publish(member.url, "orders", *"abcde", partition=0)
    (lease,) = member.lease()
    answer = member.settle(rejects=[of(lease, (0, 1), (2, 4), reason="broken"), of(lease, (4, 5))])
    assert answer["rejects"] == [{"dlq_topic": "orders.dlq"}] * 2
    assert values(read(member.url, "orders.dlq", 0)) == ["a", "c", "d", "e"]
    assert told(ask(member.url, "GET", "/reliability/stats"))["dlq_messages"] == 4


def test_dead_letters_are_those_of_their_topic_with_its_partitions(member: Member) -> None:
    publish(member.url, "orders", "a", partition=1)
    say(member, "reject", *member.poll())
    topic = told(ask(member.url, "GET", "/topics/orders.dlq"))
    assert (topic["partitions"], topic["total_messages"]) == (2, 1)


def test_a_message_that_fails_too_often_becomes_a_dead_letter(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), groups__retry_delay="10ms", groups__max_retries="2") as local:
        create(local.url, "orders")
        publish(local.url, "orders", "a")
        member = Member(local.url).join()
        answers = []
        for number in range(3):
            (message,) = member.poll(timeout=PATIENCE)
            answers.append(say(member, "nack", message, reason=f"failure {number}"))
        assert [answer["requeued"] for answer in answers] == [True, True, False]
        assert answers[2]["results"][0]["dlq_topic"] == "orders.dlq"
        (found,) = read(local.url, "orders.dlq")
        assert (found["headers"]["dlq.error"], found["headers"]["dlq.attempts"]) == ("failure 2", "3")
        assert member.poll() == []


def test_a_lease_that_ends_too_often_makes_a_dead_letter(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), groups__max_retries="1") as local:
        create(local.url, "orders")
        publish(local.url, "orders", "a")
        member = Member(local.url).join()
        for _ in range(2):
            assert values(member.poll(timeout=PATIENCE, visibility_timeout="100ms")) == ["a"]
        until(local.url, lambda: "orders.dlq" in told(ask(local.url, "GET", "/topics"))["topics"])
        until(local.url, lambda: read(local.url, "orders.dlq"))
        assert "visibility" in read(local.url, "orders.dlq")[0]["headers"]["dlq.error"]


def test_what_is_nacked_for_the_last_time_is_counted_among_the_dead_letters(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), groups__max_retries="0") as local:
        create(local.url, "orders")
        publish(local.url, "orders", "a")
        member = Member(local.url).join()
        (lease,) = member.lease()
        (result,) = member.settle(nacks=[of(lease)])["nacks"]
        assert result == {"requeued": False, "dead_letters": 1, "dlq_topic": "orders.dlq"}


def test_a_message_before_its_last_failure_comes_alone(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), groups__max_retries="1") as local:
        create(local.url, "orders", partitions=2)
        publish(local.url, "orders", "poison", "b", "c", partition=0)
        publish(local.url, "orders", "d", partition=1)
        member = Member(local.url).join()
        first = {message["value"]: message for message in member.poll()}
        say(member, "nack", first["poison"], delay=0)
        publish(local.url, "orders", "e", partition=0)
        assert member.poll() == []
        say(member, "ack", first["b"], first["c"], first["d"])
        (lease,) = member.lease()
        assert (lease["first"], lease["end"], lease["failures"]) == (0, 1, 1)
        assert member.poll() == []
        assert member.settle(acks=[of(lease)])["acks"] == [{}]
        assert values(member.poll()) == ["e"]


def test_what_is_released_is_no_failure_however_often(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), groups__max_retries="1") as local:
        create(local.url, "orders")
        publish(local.url, "orders", "a", "b")
        member = Member(local.url).join()
        for attempt in range(1, 6):
            (lease,) = member.lease()
            assert (lease["attempt"], lease["failures"], lease["end"]) == (attempt, 0, 2)
            member.settle(releases=[of(lease)])


def test_dead_letters_have_no_dead_letters(member: Member) -> None:
    publish(member.url, "orders", "a")
    say(member, "reject", *member.poll())
    mourner = Member(member.url, "mourners", topics=["orders.dlq"]).join()
    (message,) = mourner.poll()
    answer = ask(member.url, "POST", "/messages/reject", {"receipt_handle": message["receipt_handle"]})
    assert (answer.status, answer.code) == (409, "dead_letter_final")
    assert say(mourner, "nack", message, delay=0)["requeued"] is True
    assert say(mourner, "ack", *mourner.poll())["acknowledged"] is True


def test_what_is_known_of_an_earlier_death_is_replaced(member: Member) -> None:
    publish(member.url, "orders", "a", headers={"dlq.error": "another life", "own": "kept"})
    say(member, "reject", *member.poll(), reason="this life")
    found = [message for number in (0, 1) for message in read(member.url, "orders.dlq", number)]
    assert [(one["headers"]["dlq.error"], one["headers"]["own"]) for one in found] == [("this life", "kept")]


def test_bytes_arrive_as_they_were(member: Member) -> None:
    content = bytes(range(256))
    send(member.url, section(0, frames([content], key=b"\xff")), "orders")
    say(member, "reject", *member.poll())
    answer = ask(member.url, "GET", "/topics/orders.dlq/partitions/0/messages")
    assert (answer.json["messages"][0]["encoding"], answer.json["messages"][0]["key"]) == ("base64", "/w==")


def test_nothing_that_a_terminal_obeys_is_among_the_reasons(member: Member) -> None:
    publish(member.url, "orders", "a", "b", "c", "d", partition=0)
    reason = "Traceback\n  \x1b[31mfailed\x07 \x9b2J \u202eso\r\n" + "x" * 400
    (lease,) = member.lease(max_messages=1)
    member.settle(rejects=[of(lease, reason=reason)])
    (message,) = member.poll(max_messages=1)
    say(member, "reject", message, reason=reason)
    for found in read(member.url, "orders.dlq", 0):
        error = found["headers"]["dlq.error"]
        assert error.startswith("Traceback\\n  \\x1b[31mfailed\\x07 \\x9b2J \\u202eso\\r\\nxxx")
        assert error.isprintable()
        assert len(error) <= 500


def test_dead_letters_in_large_numbers_all_arrive(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    send(broker.url, section(0, frames(b"%d" % number for number in range(10_000))), "orders")
    member = Member(broker.url, max_in_flight=10_000).join()
    (lease,) = member.lease(max_messages=10_000)
    reason = "\U0001f4a5" * 500
    assert member.settle(rejects=[of(lease, (0, 2000), reason=reason)])["rejects"] == [{"dlq_topic": "orders.dlq"}]

    def count() -> int:
        found: int = told(ask(broker.url, "GET", "/topics/orders.dlq"))["total_messages"]
        return found

    until(broker.url, lambda: count() == 2000)
    assert told(member.ask("GET", "/offsets"))["offsets"] == {"orders": {"0": 2000}}


def test_dead_letters_that_were_decided_before_a_restart_are_there_after_it(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as local:
        create(local.url, "orders")
        publish(local.url, "orders", *map(str, range(300)))
        member = Member(local.url).join()
        (lease,) = member.lease()
        member.settle(rejects=[of(lease)])
    with LocalBroker(str(tmp_path / "data")) as local:
        until(local.url, lambda: len(read(local.url, "orders.dlq", 0, "limit=1000")) == 300)
        offsets = [message["headers"]["dlq.offset"] for message in read(local.url, "orders.dlq", 0, "limit=1000")]
        assert sorted(map(int, offsets)) == list(range(300))


def test_messages_of_a_topic_that_is_deleted_are_nobodys(member: Member) -> None:
    publish(member.url, "orders", "a")
    (message,) = member.poll()
    told(ask(member.url, "DELETE", "/topics/orders"))
    until(member.url, lambda: not member.assignment()["partitions"])
    answer = ask(member.url, "POST", "/messages/reject", {"receipt_handle": message["receipt_handle"]})
    assert (answer.status, answer.code) == (409, "lease_expired")


def test_a_long_reason_for_many_messages_is_recorded_once_for_all_of_them(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    send(broker.url, section(0, frames(b"%d" % number for number in range(3_000))), "orders")
    member = Member(broker.url, max_in_flight=3_000).join()
    (lease,) = member.lease(max_messages=3_000)
    answer = member.settle(rejects=[of(lease, reason="\U0001f4a5" * 500)])
    assert answer["rejects"] == [{"dlq_topic": "orders.dlq"}]


def test_dead_letters_beyond_the_end_are_refused_with_the_end(broker: LocalBroker) -> None:
    create(broker.url, "short.dlq")
    publish(broker.url, "short.dlq", "x")
    for answer in (
        ask(broker.url, "GET", "/topics/short/dead-letters?start=0:2"),
        ask(broker.url, "POST", "/topics/short/redrive", {"start": {"0": 2}}),
    ):
        assert (answer.status, answer.code) == (404, "offset_out_of_range")
        assert answer.json["details"]["next"] == 1
