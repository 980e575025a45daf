"""Priorities over HTTP: who is served first, statistics, and reading in their order."""

from typing import Any

import pytest

from goqueue.limits import OFFSET_MAX
from goqueue.testing.broker import LocalBroker
from tests.api.members import Member
from tests.brokers import ask, create


def publish(url: str, *priorities: int | str, topic: str = "t") -> None:
    messages = [
        {"value": str(number), "priority": priority, "partition": 0} for number, priority in enumerate(priorities)
    ]
    assert ask(url, "POST", f"/topics/{topic}/messages", {"messages": messages}).status == 200


def read(url: str, query: str = "", topic: str = "t") -> Any:
    return ask(url, "GET", f"/topics/{topic}/partitions/0/messages?order=priority{query}")


def offsets(answer: Any) -> list[int]:
    return [message["offset"] for message in answer.json["messages"]]


def test_a_plain_read_is_in_the_order_of_the_log_and_another_as_a_group_would_have_it(
    topic_broker: LocalBroker,
) -> None:
    publish(topic_broker.url, 2, 4, 0, 2, 1)
    plain = ask(topic_broker.url, "GET", "/topics/t/partitions/0/messages")
    assert offsets(plain) == [0, 1, 2, 3, 4]
    answer = read(topic_broker.url)
    assert offsets(answer) == [2, 4, 0, 3, 1]
    assert answer.json["next_offset"] == 5


def test_a_read_by_priority_goes_on_where_it_was(topic_broker: LocalBroker) -> None:
    publish(topic_broker.url, *[0, 1, 2, 3, 4] * 20)
    seen: list[int] = []
    query = "&limit=30"
    while found := offsets(answer := read(topic_broker.url, query)):
        seen += found
        query = f"&limit=30&positions={answer.json['next_positions']}"
    assert sorted(seen) == list(range(100))
    for lane in range(5):
        assert [offset for offset in seen if offset % 5 == lane] == list(range(lane, 100, 5))
    publish(topic_broker.url, 0)
    assert offsets(read(topic_broker.url, query)) == [100]


def test_messages_without_room_come_in_the_next_read(topic_broker: LocalBroker) -> None:
    messages = [{"value": "v" * 1000, "priority": number % 2, "partition": 0} for number in range(6)]
    ask(topic_broker.url, "POST", "/topics/t/messages", {"messages": messages})
    first = read(topic_broker.url, "&max_bytes=2500")
    second = read(topic_broker.url, f"&positions={first.json['next_positions']}")
    assert sorted(offsets(first) + offsets(second)) == list(range(6))
    assert 0 < len(offsets(first)) < 6


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("&filter=key%3D%3Da", "filter"),
        ("&to_time=2026-01-01T00:00:00Z", "to_time"),
        ("&positions=1,2,3", "positions"),
        ("&positions=1,2,3,4,x", "positions"),
        ("&positions=1,2,3,4,-5", "positions"),
        (f"&positions=1,2,3,4,{OFFSET_MAX + 1}", "positions"),
    ],
)
def test_parameters_that_exclude_priority_order_are_refused(unchanged: str, query: str, place: str) -> None:
    answer = read(unchanged, query)
    assert (answer.status, answer.code) == (400, "request_invalid")
    assert [problem["place"] for problem in answer.json["details"]["problems"]] == [place]


def test_positions_need_an_order_by_priority(unchanged: str) -> None:
    answer = ask(unchanged, "GET", "/topics/t/partitions/0/messages?positions=1,1,1,1,1")
    assert (answer.status, answer.code) == (400, "request_invalid")


def test_statistics_count_ready_and_in_flight_by_priority(topic_broker: LocalBroker) -> None:
    publish(topic_broker.url, "critical", "normal", "normal", "low")
    found = ask(topic_broker.url, "GET", "/priority/stats").json
    assert found["messages_by_priority"] == {"critical": 1, "high": 0, "normal": 2, "low": 1, "background": 0}
    assert {name: lane["ready"] for name, lane in found["topics"]["t"]["0"].items()} == {
        "critical": 1, "high": 0, "normal": 2, "low": 1, "background": 0,
    }  # fmt: skip
    member = Member(topic_broker.url, "g", topics=["t"]).join()
    (urgent,) = member.poll(max_messages=1)
    assert urgent["priority"] == 0
    lanes = ask(topic_broker.url, "GET", "/priority/stats?topic=t&group=g").json["topics"]["t"]["0"]
    assert (lanes["critical"]["in_flight"], lanes["critical"]["dequeued"], lanes["critical"]["ready"]) == (1, 1, 0)
    assert lanes["critical"]["last_served"].endswith("Z")
    assert (lanes["normal"]["ready"], lanes["normal"]["last_served"]) == (2, None)


@pytest.mark.parametrize(("query", "status"), [("topic=none", 404), ("group=none", 404), ("topic=%2F", 400)])
def test_statistics_of_unknown_topics_are_refused(unchanged: str, query: str, status: int) -> None:
    assert ask(unchanged, "GET", f"/priority/stats?{query}").status == status


def test_weights_are_set_for_a_topic_and_bounded(broker: LocalBroker) -> None:
    create(broker.url, "t", lane_weights=[5, 4, 3, 2, 1], lane_boost_seconds=5)
    config = ask(broker.url, "GET", "/topics/t").json["config"]
    assert (config["lane_weights"], config["lane_boost_seconds"]) == ([5, 4, 3, 2, 1], 5.0)
    for wrong in ([1, 2, 3, 4], [0, 1, 1, 1, 1], [1, 1, 1, 1, 1001], "50", [1, 1, 1, 1, 1, 1]):
        answer = ask(broker.url, "PATCH", "/admin/topics/t", {"lane_weights": wrong})
        assert (answer.status, answer.code) == (400, "request_invalid"), wrong


@pytest.mark.parametrize("query", ["offset=2", "positions=0,0,2,0,0"])
def test_read_by_priority_beyond_the_end_is_refused_with_the_end(unchanged: str, query: str) -> None:
    answer = ask(unchanged, "GET", f"/topics/t/partitions/0/messages?order=priority&{query}")
    assert (answer.status, answer.code) == (404, "offset_out_of_range")
    assert answer.json["details"] == {"first": 0, "next": 1}
