"""Delayed messages over HTTP: scheduled, listed, changed, delivered; and what is refused."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from goqueue import delay
from goqueue.clock import NANOSECONDS
from goqueue.limits import DELAY_SECONDS_MAX
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.api.wire import section, send
from tests.brokers import Answer, ask, create, publish, read
from tests.cli.transactions import Producer

YEAR_NS = round(DELAY_SECONDS_MAX * NANOSECONDS)


DUE = frame.encode_headers([delay.deliver_in_header(1)])[2:]


@pytest.fixture
def url(broker: LocalBroker) -> str:
    create(broker.url, "t", partitions=2)
    return broker.url


@pytest.fixture(scope="module")
def one_delayed(module_broker: LocalBroker) -> str:
    """A broker with one delayed message at t/0, for requests that are refused."""
    create(module_broker.url, "t", partitions=2)
    publish(module_broker.url, "t", "x", partition=0, delay="1h")
    return module_broker.url


@pytest.fixture
def refusing(one_delayed: str) -> Iterator[str]:
    """The same broker, in which the test changes nothing."""
    before = messages(one_delayed)
    yield one_delayed
    assert messages(one_delayed) == before
    assert len(before) == 1


def later(**ahead: float) -> str:
    return (datetime.now(UTC) + timedelta(**ahead)).isoformat().replace("+00:00", "Z")


def messages(url: str, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(url, "GET", f"/topics/t/delayed?{query}").json["messages"]
    return found


def arrived(url: str, partition: int, count: int) -> list[str]:
    """The first messages of a partition, which are waited for as readers do."""
    values: list[str] = []
    while len(values) < count:
        found = read(url, "t", partition, f"offset={len(values)}&wait=20s")
        assert found, f"{count} were to come, these have: {values}"
        values += [one["value"] for one in found]
    return values


def settled(url: str, partition: int, offset: int) -> str:
    """Return the state of a message that is in its topic, once a cancel is refused because of it."""
    return str(ask(url, "DELETE", f"/topics/t/delayed/{partition}/{offset}").json["details"]["state"])


def refused(answer: Answer, status: int, code: str, place: str = "") -> None:
    assert (answer.status, answer.code) == (status, code), answer.body
    assert place in str(answer.json), answer.body


# --- scheduling ---


@pytest.mark.parametrize("field", ["deliver_at", "deliverAt"])
def test_a_message_can_be_delivered_at_a_time(url: str, field: str) -> None:
    due = later(hours=1)
    (result,) = publish(url, "t", "x", partition=1, **{field: due})
    assert (result["partition"], result["offset"], result["delayed"]) == (1, 0, True)
    assert result["deliverAt"].startswith(due[:26])
    assert read(url, "t", 1) == []


@pytest.mark.parametrize("field", [{"delay": 0}, {"delay": "0s"}, {"delay": None}, {"delay": ""}, {"deliver_at": ""}])
def test_zero_delay_publishes_at_once(
    shared_broker: LocalBroker, new_name: Callable[[str], str], field: dict[str, Any]
) -> None:
    create(shared_broker.url, topic := new_name("t"))
    (result,) = publish(shared_broker.url, topic, "x", **field)
    assert result["delayed"] is False
    assert "deliverAt" not in result
    assert [one["value"] for one in read(shared_broker.url, topic)] == ["x"]


def test_it_arrives_when_it_is_due_and_not_before(url: str) -> None:
    (result,) = publish(url, "t", "x", partition=0, delay="200ms")
    assert arrived(url, 0, 1) == ["x"]
    (message,) = read(url, "t")
    assert message["timestamp"] >= result["deliverAt"]
    assert message["headers"] == {}
    assert settled(url, 0, 0) == "delivered"
    assert ask(url, "GET", "/topics/t/delayed/0/0").json["state"] == "delivered"


def test_delayed_ones_and_others_may_come_in_one_request(url: str) -> None:
    body = {"messages": [{"value": "a", "partition": 0}, {"value": "b", "partition": 0, "delay": "1h"}]}
    results = ask(url, "POST", "/topics/t/messages", body).json["results"]
    assert [(one["offset"], one["delayed"]) for one in results] == [(0, False), (0, True)]
    assert [one["value"] for one in read(url, "t")] == ["a"]


@pytest.mark.parametrize(
    "field",
    [
        {"delay": -1}, {"delay": 1e300}, {"delay": "367d"}, {"delay": DELAY_SECONDS_MAX + 1}, {"delay": "soon"},
        {"delay": True}, {"delay": ["1s"]}, {"deliver_at": "tomorrow"}, {"deliver_at": 17},
        {"deliver_at": "1969-01-01T00:00:00Z"}, {"deliverAt": "2026-13-01T00:00:00Z"},
        {"deliver_at": "2260-01-01T00:00:00Z"}, {"deliver_at": "9999-01-01T00:00:00Z"},
        {"deliver_at": "2027-01-01T00:00:00Z", "delay": "1s"},
        {"deliverAt": "2027-01-01T00:00:00Z", "deliver_at": "2027-01-01T00:00:00Z"},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_delivery_time_is_refused_with_its_place(refusing: str, field: dict[str, Any]) -> None:
    body = {"messages": [{"value": "fine", "delay": "1h"}, {"value": "x", **field}]}
    answer = ask(refusing, "POST", "/topics/t/messages", body)
    refused(answer, 400, "request_invalid", f"messages[1].{next(iter(field))}")


# --- frames ---


def scheduled(value: bytes, *headers: tuple[str, bytes]) -> bytes:
    return frame.encode(value, None, frame.encode_headers(headers))


def delayed_section(partition: int, content: bytes) -> bytes:
    return section(partition | 1 << 31, content)


def test_frames_for_the_delayed_log_have_a_section_of_their_own(url: str) -> None:
    content = scheduled(b"a", delay.deliver_in_header(NANOSECONDS // 10)) + scheduled(
        b"b", delay.deliver_in_header(YEAR_NS)
    )
    plain, delayed = send(url, section(0, frame.encode(b"now")) + delayed_section(0, content)).json["results"]
    assert "delayed" not in plain
    assert (delayed["partition"], delayed["delayed"], delayed["next_offset"]) == (0, True, 2)
    assert arrived(url, 0, 2) == ["now", "a"]
    assert settled(url, 0, 0) == "delivered"
    assert [one["offset"] for one in messages(url)] == [1]


@pytest.mark.parametrize(
    "content",
    [
        frame.encode(b"x"),
        scheduled(b"x", delay.deliver_in_header(1)) + frame.encode(b"y"),
        scheduled(b"x", ("own", b"1"), delay.deliver_in_header(1)),
        scheduled(b"x", (delay.DELIVER_IN, b"1234")),
        scheduled(b"x", delay.deliver_in_header(YEAR_NS + 1)),
        scheduled(b"x", delay.deliver_in_header(2**64 - 1)),
        scheduled(b"x", delay.deliver_at_header(2**63)),
        scheduled(b"x", delay.deliver_at_header(2**64 - 1)),
        scheduled(b"x", delay.deliver_in_header(1), delay.deliver_in_header(1)),
        scheduled(b"x", delay.deliver_in_header(1), delay.delayed_of_header(1)),
        scheduled(b"x", delay.delayed_of_header(1)),
        scheduled(b"x", delay.deliver_in_header(1)) + frame.encode(b"y", None, b"\0\0" + DUE),
        scheduled(b"x", delay.deliver_in_header(1)) + frame.encode(b"y", None, b"\0\2" + DUE),
        scheduled(b"x", delay.deliver_in_header(1)) + frame.encode(b"y", None, b"\0\1" + DUE + b"rest"),
        scheduled(b"x", delay.deliver_in_header(1)) + frame.encode(b"y", None, b"\0\2" + DUE + b"\0\2__\0\0"),
        scheduled(b"x", delay.deliver_in_header(1)) + scheduled(b"y", delay.deliver_at_header(2**64 - 1)),
    ],
    ids=[
        *("none", "second", "late", "short", "year", "u64", "2^63", "2^64", "twice", "also of", "of"),
        *("count 0", "count 2", "rest", "reserved", "far"),
    ],
)
def test_frames_that_do_not_say_when_as_they_should_are_refused(refusing: str, content: bytes) -> None:
    refused(send(refusing, delayed_section(0, content)), 400, "frame_invalid")


@pytest.mark.parametrize("header", [delay.deliver_in_header(1), delay.deliver_at_header(1), delay.delayed_of_header(1)])
def test_section_without_delay_refuses_delay_headers(refusing: str, header: tuple[str, bytes]) -> None:
    refused(send(refusing, section(0, scheduled(b"x", header))), 400, "frame_invalid")


def test_a_message_of_the_largest_size_may_be_delayed_too(broker: LocalBroker) -> None:
    create(broker.url, "small", max_message_bytes=1024)
    content = scheduled(b"x" * 1022, delay.deliver_in_header(NANOSECONDS))
    assert send(broker.url, delayed_section(0, content), "small").status == 200
    content = scheduled(b"x" * 1023, delay.deliver_in_header(NANOSECONDS))
    refused(send(broker.url, delayed_section(0, content), "small"), 413, "message_too_large")
    assert publish(broker.url, "small", "x" * 1022, delay="1h")[0]["delayed"] is True


# --- asking ---


def test_they_are_listed_by_the_time_they_are_due_a_page_at_a_time(url: str) -> None:
    for number in range(6):
        publish(url, "t", f"v{number}", partition=number % 2, delay=3600 - number)
    found = [(one["partition"], one["offset"]) for one in messages(url)]
    assert found == [(1, 2), (0, 2), (1, 1), (0, 1), (1, 0), (0, 0)]
    page = ask(url, "GET", "/topics/t/delayed?limit=2&skip=3").json
    assert [(one["partition"], one["offset"]) for one in page["messages"]] == found[3:5]
    assert (page["count"], page["total"]) == (2, 6)
    assert [one["offset"] for one in messages(url, "partition=1&limit=1")] == [2]
    assert len(messages(url, "filter=value%3Dv4")) == 1


def test_delayed_message_in_the_list_has_its_fields(url: str) -> None:
    publish(url, "t", "x", partition=0, delay="1h", key="k", priority="high")
    (found,) = messages(url)
    assert (found["topic"], found["partition"], found["offset"], found["key"]) == ("t", 0, 0, "k")
    assert (found["priority"], found["state"]) == (1, "pending")
    assert found["deliver_at"] > found["scheduled_at"]
    assert found["size"] > 34


def test_delayed_message_is_returned_with_its_content(url: str) -> None:
    publish(url, "t", "x", partition=1, delay="1h", headers={"own": "1"})
    found = ask(url, "GET", "/topics/t/delayed/1/0").json
    assert (found["value"], found["headers"], found["state"]) == ("x", {"own": "1"}, "pending")
    assert ask(url, "GET", "/topics/t/delayed/0").json == found
    publish(url, "t", "y", partition=0, delay="1h")
    refused(ask(url, "GET", "/topics/t/delayed/0"), 409, "delayed_ambiguous", "[0, 1]")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/topics/t/delayed/0/7", "delayed_not_found"),
        ("/topics/t/delayed/7", "delayed_not_found"),
        ("/topics/t/delayed/-1", "delayed_not_found"),
        ("/topics/t/delayed/0/1e3", "delayed_not_found"),
        ("/topics/t/delayed/0/9999999999999999999", "delayed_not_found"),
        ("/topics/t/delayed/0/99999999999999999999999", "delayed_not_found"),
        ("/topics/t/delayed/2/0", "partition_not_found"),
        ("/topics/t/delayed/x/0", "partition_not_found"),
        ("/topics/absent/delayed", "topic_not_found"),
        ("/topics/absent/delayed/0/0", "topic_not_found"),
    ],
)
def test_unknown_delayed_message_is_not_found(refusing: str, path: str, code: str) -> None:
    refused(ask(refusing, "GET", path), 404, code)


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-1", "skip=-1", "skip=9999999999", "state=lost", "from=now", "partition=-1", "bogus=1"]
)
def test_a_list_of_what_cannot_be_is_refused(refusing: str, query: str) -> None:
    refused(ask(refusing, "GET", f"/topics/t/delayed?{query}"), 400, "request_invalid", query.partition("=")[0])


def test_the_timeline_has_growing_buckets(url: str) -> None:
    for ahead in ("5s", "30s", "5m", "50m", "5h", "20h", "6d", "20d", "300d"):
        publish(url, "t", ahead, delay=ahead)
    found = ask(url, "GET", "/topics/t/delayed/timeline").json
    assert [one["count"] for one in found["buckets"]] == [1] * 9
    assert (found["pending"], found["overdue"]) == (9, 0)
    assert found["next_due"] < found["buckets"][0]["to"]
    assert len(ask(url, "GET", "/topics/t/delayed/timeline?buckets=3").json["buckets"]) == 3
    refused(ask(url, "GET", "/topics/t/delayed/timeline?buckets=10"), 400, "request_invalid")


def test_statistics_cover_all_topics(url: str) -> None:
    create(url, "u")
    publish(url, "t", "a", delay="1h", partition=0)
    publish(url, "t", "b", delay=0.01, partition=0)
    publish(url, "u", "c", delay="100d")
    arrived(url, 0, 1)
    ask(url, "DELETE", "/topics/t/delayed/0/0")
    found = ask(url, "GET", "/delay/stats").json
    assert [found[f"{state}_count"] for state in ("pending", "delivered", "cancelled", "expired")] == [1, 1, 1, 0]
    assert found["topics"] == {"u": 1}
    assert found["parked"] == 1
    assert found["late_p50"] <= found["late_p99"]
    assert [(one["tick_ms"], one["slots"]) for one in found["wheel"]] == [
        (10.0, 256), (2560.0, 64), (163840.0, 64), (10485760.0, 64),
    ]  # fmt: skip


def test_message_delivered_early_does_not_count_as_late(url: str) -> None:
    publish(url, "t", "a", delay="1h", partition=0)
    ask(url, "POST", "/topics/t/delayed/0/0/deliver")
    found = ask(url, "GET", "/delay/stats").json
    assert (found["delivered_count"], found["late_p50"], found["late_p99"]) == (1, None, None)


def test_priorities_are_in_the_metrics(url: str) -> None:
    publish(url, "t", "a", delay="1h", partition=0)
    publish(url, "t", "b", delay="10ms", partition=0)
    arrived(url, 0, 1)
    assert settled(url, 0, 1) == "delivered"
    lines = ask(url, "GET", "/metrics").body.decode().splitlines()
    assert 'goqueue_delayed_pending_messages{topic="t"} 1.0' in lines
    assert 'goqueue_delayed_messages_total{outcome="delivered"} 1.0' in lines
    assert 'goqueue_delayed_messages_total{outcome="cancelled"} 0.0' in lines
    assert "goqueue_delayed_late_seconds_count 1.0" in lines


# --- changing ---


def test_a_cancelled_message_is_gone_for_good(url: str) -> None:
    publish(url, "t", "x", partition=0, delay="1h")
    answer = ask(url, "DELETE", "/topics/t/delayed/0/0")
    assert (answer.status, answer.json) == (200, {"cancelled": True, "operation": 2})
    again = ask(url, "DELETE", "/topics/t/delayed/0/0")
    refused(again, 409, "delayed_not_pending", "cancelled")
    assert again.json["details"]["state"] == "cancelled"
    assert messages(url) == []
    assert [one["state"] for one in messages(url, "state=cancelled")] == ["cancelled"]


def test_a_message_gets_another_time(url: str) -> None:
    publish(url, "t", "x", partition=0, delay="1h")
    due = later(days=2)
    answer = ask(url, "PATCH", "/topics/t/delayed/0/0", {"deliver_at": due})
    assert (answer.status, answer.json["state"], answer.json["deliver_at"][:26]) == (200, "pending", due[:26])
    assert ask(url, "PATCH", "/topics/t/delayed/0/0", {"delay": "10ms"}).status == 200
    assert arrived(url, 0, 1) == ["x"]
    refused(ask(url, "PATCH", "/topics/t/delayed/0/0", {"delay": "1h"}), 409, "delayed_not_pending", "delivered")


@pytest.mark.parametrize(
    "body",
    [
        {}, {"delay": "1h", "deliver_at": "2027-01-01T00:00:00Z"}, {"delay": -1}, {"delay": "367d"},
        {"deliver_at": "2262-01-01T00:00:00Z"}, {"deliver_at": ""}, {"when": "now"},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_new_delivery_time_is_refused(refusing: str, body: dict[str, Any]) -> None:
    refused(ask(refusing, "PATCH", "/topics/t/delayed/0/0", body), 400, "request_invalid")


def test_a_message_can_be_had_now(url: str) -> None:
    publish(url, "t", "x", partition=0, delay="1h")
    answer = ask(url, "POST", "/topics/t/delayed/0/0/deliver")
    assert (answer.status, answer.json) == (200, {"delivered": True})
    assert [one["value"] for one in read(url, "t")] == ["x"]
    refused(ask(url, "POST", "/topics/t/delayed/0/0/deliver"), 409, "delayed_not_pending", "delivered")


def test_bulk_change_applies_to_matching_messages(url: str) -> None:
    for number in range(10):
        publish(url, "t", f'{{"n": {number}}}', partition=number % 2, delay=3600 + number)
    some = {"filter": ["json.n>=5"]}
    dry = ask(url, "POST", "/topics/t/delayed/cancel", some | {"dry_run": True}).json
    assert dry == {"matched": 5, "scanned": 10, "changed": 0, "complete": True, "operation": None}
    assert ask(url, "POST", "/topics/t/delayed/cancel", some | {"limit": 2}).json["changed"] == 2
    assert ask(url, "POST", "/topics/t/delayed/reschedule", {"partition": 1, "shift": "2h"}).json["changed"] == 4
    assert [one["partition"] for one in messages(url)] == [0] * 4 + [1] * 4
    assert ask(url, "POST", "/topics/t/delayed/deliver", {"to": later(hours=1.5)}).json["changed"] == 4
    assert len(read(url, "t", 0)) == 4


@pytest.mark.parametrize(
    "body",
    [
        {}, {"shift": "1h", "delay": "1h"}, {"shift": "later"}, {"shift": "400d"}, {"delay": "1h", "limit": 0},
        {"delay": "1h", "deliver_at": "2027-01-01T00:00:00Z"}, {"delay": "1h", "filter": ["nothing at all"]},
        {"delay": "1h", "from": "now"},
    ],
    ids=str,
)  # fmt: skip
def test_bulk_reschedule_needs_a_delivery_time(refusing: str, body: dict[str, Any]) -> None:
    refused(ask(refusing, "POST", "/topics/t/delayed/reschedule", body), 400, "request_invalid")


def test_deleting_a_topic_tells_how_many_went_with_it(url: str) -> None:
    publish(url, "t", "a", "b", "c", delay="1h")
    answer = ask(url, "DELETE", "/topics/t")
    assert answer.json == {"deleted": True, "name": "t", "delayed_deleted": 3, "operation": 2}
    create(url, "t")
    assert messages(url) == []


def test_delayed_message_of_a_transaction_is_visible_after_commit(url: str) -> None:
    producer = Producer(url, "app-1")
    producer.put("t", delay="1h")
    assert messages(url) == []
    refused(ask(url, "GET", "/topics/t/delayed/0/0"), 404, "delayed_not_found")
    refused(ask(url, "DELETE", "/topics/t/delayed/0/0"), 404, "delayed_not_found")
    assert ask(url, "GET", "/delay/stats").json["pending_count"] == 0
    producer.commit()
    assert [one["offset"] for one in messages(url)] == [0]
    assert ask(url, "GET", "/delay/stats").json["pending_count"] == 1
    assert ask(url, "POST", "/topics/t/delayed/0/0/deliver").json == {"delivered": True}
    assert arrived(url, 0, 1) == ["x"]
