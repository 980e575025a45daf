"""Delivery settings over HTTP: of a topic, of a group, and which of them holds."""

import logging
from typing import Any

import pytest

from goqueue.limits import POISON_DELIVERIES_MIN
from goqueue.testing.broker import LocalBroker
from tests.api.members import Member, of, receipts, told, values
from tests.api.wire import until
from tests.brokers import Answer, ask, create, publish

BROKER = {
    "max_retries": 3,
    "retry_delay": 1.0,
    "max_retry_delay": 60.0,
    "visibility_timeout": 30.0,
    "dead_letter_topic": "orders.dlq",
}
ORIGINS = dict.fromkeys(BROKER, "broker")


def change(url: str, group: str = "billing", **settings: Any) -> Answer:
    return ask(url, "PATCH", f"/groups/{group}", settings)


def describe(url: str, group: str = "billing") -> Any:
    return told(ask(url, "GET", f"/groups/{group}"))


def problem(answer: Answer) -> str:
    assert (answer.status, answer.code) == (400, "request_invalid"), answer.body
    return str(answer.json["error"])


@pytest.fixture
def url(broker: LocalBroker) -> str:
    """A broker with the topic `orders`, which sets the delay of its retries, and a message there."""
    create(broker.url, "orders", retry_delay="2s")
    publish(broker.url, "orders", "a")
    return broker.url


def test_group_says_what_holds_and_whose_it_is(url: str) -> None:
    Member(url).join(max_retries=5, visibility_timeout="5m")
    found = describe(url)
    assert found["settings"] == {"max_retries": 5, "visibility_timeout": 300.0}
    assert found["delivery"] == {
        "orders": {
            **BROKER,
            "max_retries": 5,
            "visibility_timeout": 300.0,
            "retry_delay": 2.0,
            "origins": {**ORIGINS, "max_retries": "group", "visibility_timeout": "group", "retry_delay": "topic"},
        }
    }


def test_change_is_answered_with_the_group_and_null_takes_it_back(url: str) -> None:
    member = Member(url).join(max_retries=5)
    found = told(change(url, max_retries="unlimited", dead_letter_topic="none", retry_delay="90s"))
    assert found["delivery"] == describe(url)["delivery"]
    assert found["settings"] == describe(url)["settings"]
    assert found["settings"] == {"max_retries": "unlimited", "dead_letter_topic": "none", "retry_delay": 90.0}
    assert found["delivery"]["orders"]["max_retry_delay"] == 90.0
    assert told(change(url, max_retries=None, dead_letter_topic=None, retry_delay=None))["settings"] == {}
    assert member.beat()["rebalance_required"] is False


def test_lease_and_join_have_the_visibility_of_the_group(url: str) -> None:
    member = Member(url)
    assert member.joined(visibility_timeout="5m")["visibility_timeout"] == 300.0
    (lease,) = member.lease()
    assert lease["visibility"] == 300.0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"max_retries": 1001}, "max_retries is 1001, at most 1000 is allowed"),
        ({"max_retries": "many"}, "max_retries is 'many', not one of unlimited"),
        ({"max_retries": True}, "max_retries is true where a whole number or unlimited belongs"),
        ({"retry_delay": "soon"}, "retry_delay cannot be read"),
        ({"visibility_timeout": 0}, "visibility_timeout is 0s, at least 100ms is needed"),
        ({"retry_delay": "2m", "max_retry_delay": "1m"}, "retry_delay is 2m, longer than max_retry_delay"),
        ({"dead_letter_topic": "orders"}, "which is its dead_letter_topic"),
        ({"dead_letter_topic": "__metadata"}, "reserved for internal"),
        ({"dead_letter_topic": ""}, "is not a valid name"),
        ({"retries": 5}, "retries is not a known field"),
    ],
)
def test_wrong_setting_is_refused_with_the_reason(url: str, settings: dict[str, Any], sentence: str) -> None:
    Member(url).join()
    assert sentence in problem(change(url, **settings))
    assert sentence in problem(Member(url).ask("POST", "/join", {"topics": ["orders"], **settings}))
    assert describe(url)["settings"] == {}


def test_unknown_group_is_not_created_by_a_change(url: str) -> None:
    answer = change(url, max_retries=5)
    assert (answer.status, answer.code) == (404, "group_not_found")


def test_topic_settings_take_durations_as_text_and_null(url: str) -> None:
    path = "/admin/topics/orders"
    config = told(ask(url, "PATCH", path, {"max_retry_delay": "5m", "max_retries": 0, "visibility_timeout": 60}))[
        "config"
    ]
    assert (config["retry_delay"], config["max_retry_delay"], config["max_retries"]) == (2.0, 300.0, 0)
    assert config["visibility_timeout"] == 60.0
    assert "longer than max_retry_delay" in problem(ask(url, "PATCH", path, {"max_retry_delay": "1s"}))
    assert "the topic itself" in problem(ask(url, "PATCH", path, {"dead_letter_topic": "orders"}))
    assert told(ask(url, "PATCH", path, {"max_retries": None}))["config"]["max_retries"] is None


def test_dead_letters_are_listed_counted_and_redriven_from_the_topic_that_has_them(url: str) -> None:
    told(ask(url, "PATCH", "/admin/topics/orders", {"dead_letter_topic": "failed"}))
    member = Member(url).join(max_retries=0)
    assert told(ask(url, "GET", "/topics/orders"))["dlq_topic"] == "failed"
    answer = told(ask(url, "POST", "/messages/nack", {"receipt_handles": receipts(member.poll()), "reason": "broken"}))
    assert (answer["requeued"], answer["results"][0]["dlq_topic"]) == (False, "failed")
    until(url, lambda: ask(url, "GET", "/topics/failed").status == 200)
    for name in ("orders", "failed"):
        found = told(ask(url, "GET", f"/topics/{name}/dead-letters"))
        assert ([one["origin_topic"] for one in found["messages"]], found["dlq_topic"]) == (["orders"], "failed")
        assert told(ask(url, "GET", f"/topics/{name}/dead-letters/errors"))["errors"] == {"broken": 1}
    details = {one["name"]: one["dlq_topic"] for one in told(ask(url, "GET", "/topics?details=true"))["details"]}
    assert details == {"orders": "failed", "failed": "failed"}
    assert [one["subject"] for one in findings(url, "dead_letters_waiting")] == ["failed"]
    done = told(ask(url, "POST", "/topics/orders/redrive", {}))
    assert (done["moved"], done["dlq_topic"]) == (1, "failed")
    assert values(member.poll()) == ["a"]


def findings(url: str, code: str) -> list[Any]:
    return [one for one in told(ask(url, "GET", "/doctor"))["findings"] if one["code"] == code]


def test_dropped_message_is_counted_and_logged(url: str, caplog: pytest.LogCaptureFixture) -> None:
    member = Member(url).join(max_retries=0, dead_letter_topic="none")
    handles = receipts(member.poll())
    with caplog.at_level(logging.WARNING, "goqueue.groups"):
        answer = told(ask(url, "POST", "/messages/nack", {"receipt_handles": handles, "reason": "broken"}))
    assert answer == {"requeued": False, "results": [{"receipt_handle": handles[0], "dropped": True}]}
    warnings = [line.getMessage() for line in caplog.records if line.levelno == logging.WARNING]
    assert warnings == ["1 message dropped, there is no dead-letter topic: broken"]
    assert told(ask(url, "GET", "/reliability/stats"))["dropped_total"] == 1
    assert b'goqueue_messages_settled_total{outcome="dropped"} 1' in ask(url, "GET", "/metrics").body
    publish(url, "orders", "b")
    (lease,) = member.lease()
    assert member.settle(rejects=[of(lease)])["rejects"] == [{"dropped": 1}]


def test_message_is_poison_by_what_its_group_allows(url: str) -> None:
    member = Member(url).join(max_retries=POISON_DELIVERIES_MIN)
    for _ in range(POISON_DELIVERIES_MIN + 1):
        (lease,) = member.lease()
        member.settle(releases=[of(lease)])
    assert findings(url, "poison_message") == []
    told(change(url, max_retries=3))
    assert len(findings(url, "poison_message")) == 1
