"""Messages that are given up: when that is answered they lie among the dead letters, and say why."""

import re
from pathlib import Path
from typing import Any

from goqueue.testing.broker import LocalBroker
from tests.api.members import PATIENCE, Member, of, receipts, told
from tests.api.wire import frames, section, send
from tests.brokers import ask, create, publish, read


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


def test_last_nack_counts_a_dead_letter(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), groups__max_retries="0") as local:
        create(local.url, "orders")
        publish(local.url, "orders", "a")
        member = Member(local.url).join()
        (lease,) = member.lease()
        (result,) = member.settle(nacks=[of(lease)])["nacks"]
        assert result == {"requeued": False, "dead_letters": 1, "dlq_topic": "orders.dlq"}


def test_dead_letters_have_no_dead_letters(member: Member) -> None:
    publish(member.url, "orders", "a")
    say(member, "reject", *member.poll())
    mourner = Member(member.url, "mourners", topics=["orders.dlq"]).join()
    (message,) = mourner.poll()
    answer = ask(member.url, "POST", "/messages/reject", {"receipt_handle": message["receipt_handle"]})
    assert (answer.status, answer.code) == (409, "dead_letter_final")
    assert say(mourner, "nack", message, delay=0)["requeued"] is True
    assert say(mourner, "ack", *mourner.poll())["acknowledged"] is True


def test_control_characters_in_reasons_are_replaced(member: Member) -> None:
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


def test_a_long_reason_for_many_messages_is_recorded_once_for_all_of_them(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    send(broker.url, section(0, frames(b"%d" % number for number in range(3_000))), "orders")
    member = Member(broker.url, max_in_flight=3_000).join()
    (lease,) = member.lease(max_messages=3_000)
    answer = member.settle(rejects=[of(lease, reason="\U0001f4a5" * 500)])
    assert answer["rejects"] == [{"dlq_topic": "orders.dlq"}]
    assert told(ask(broker.url, "GET", "/topics/orders.dlq"))["total_messages"] == 3_000
    assert told(member.ask("GET", "/offsets"))["offsets"] == {"orders": {"0": 3_000}}


def test_dead_letters_beyond_the_end_are_refused_with_the_end(broker: LocalBroker) -> None:
    create(broker.url, "short.dlq")
    publish(broker.url, "short.dlq", "x")
    for answer in (
        ask(broker.url, "GET", "/topics/short/dead-letters?start=0:2"),
        ask(broker.url, "POST", "/topics/short/redrive", {"start": {"0": 2}}),
    ):
        assert (answer.status, answer.code) == (404, "offset_out_of_range")
        assert answer.json["details"]["next"] == 1
