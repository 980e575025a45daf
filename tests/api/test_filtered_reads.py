"""Reads with filters: by JSON and as frames, of one partition and of all, with patience, and past what is broken."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from goqueue.limits import FILTER_CHARACTERS_MAX, FILTERS_MAX
from goqueue.testing.broker import LocalBroker
from tests.api.test_reading import broker_with_damage
from tests.api.wire import fetch, messages, until
from tests.brokers import Answer, ask, create, publish

WHERE = "/topics/t/partitions/0/messages"
TOPIC = "/topics/t/messages"


def chosen(*filters: str, **more: Any) -> str:
    pairs = [*(("filter", text) for text in filters), *more.items()]
    return "&".join(f"{name}={quote(str(value))}" for name, value in pairs)


def get(broker: LocalBroker, *filters: str, path: str = WHERE, **more: Any) -> Answer:
    return ask(broker.url, "GET", f"{path}?{chosen(*filters, **more)}")


def values(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [message["value"] for message in answer.json["messages"]]


@pytest.fixture(scope="module")
def orders(module_broker: LocalBroker) -> LocalBroker:
    """A broker whose topic `t` holds the orders 0 to 9, each of its own total; no test changes it."""
    create(module_broker.url, "t")
    for number in range(10):
        order = json.dumps({"id": number, "order": {"total": number * 10}})
        publish(
            module_broker.url,
            "t",
            order,
            key=f"customer-{number % 3}",
            headers={"source": "web" if number % 2 else "till"},
        )
    return module_broker


def ids(answer: Answer) -> list[int]:
    return [json.loads(value)["id"] for value in values(answer)]


# --- what is given ---


def test_filtered_read_returns_matches_and_counts(orders: LocalBroker) -> None:
    answer = get(orders, "json.order.total>60")
    assert ids(answer) == [7, 8, 9]
    assert {name: answer.json[name] for name in ("next_offset", "scanned", "matched")} == {
        "next_offset": 10,
        "scanned": 10,
        "matched": 3,
    }


def test_frames_are_filtered_as_well(orders: LocalBroker) -> None:
    answer = fetch(orders.url, chosen("json.order.total>60"))
    assert [message.offset for message in messages(answer.body)] == [7, 8, 9]
    assert answer.headers["x-goqueue-next-offset"] == "10"
    assert (answer.headers["x-goqueue-scanned"], answer.headers["x-goqueue-matched"]) == ("10", "3")


def test_answer_without_filters_has_no_counts(orders: LocalBroker) -> None:
    assert set(get(orders).json) == {"messages", "next_offset"}
    assert "x-goqueue-scanned" not in fetch(orders.url).headers
    assert set(get(orders, path=TOPIC).json) == {"messages", "next_offsets"}


def test_a_limit_is_of_what_fits_and_the_next_read_goes_on_behind_it(orders: LocalBroker) -> None:
    offset, found, scanned = 0, [], 0
    while offset < 10:
        answer = get(orders, "header.source=web", limit=2, offset=offset)
        found.append(ids(answer))
        scanned += answer.json["scanned"]
        offset = answer.json["next_offset"]
    assert (found, scanned) == ([[1, 3], [5, 7], [9]], 10)


def test_bytes_bound_what_fits_and_one_message_is_given_always(orders: LocalBroker) -> None:
    assert ids(get(orders, "header.source=web", max_bytes=1, offset=2)) == [3]
    framed = fetch(orders.url, chosen("header.source=web", max_bytes=1, offset=2))
    assert [message.offset for message in messages(framed.body)] == [3]


def test_times_bound_filtered_reads(orders: LocalBroker) -> None:
    at = [message["timestamp"] for message in get(orders).json["messages"]]
    bounded = get(orders, "header.source=web", from_time=at[2], to_time=at[6])
    assert (ids(bounded), bounded.json["next_offset"]) == ([3, 5], 7)
    framed = fetch(orders.url, chosen("header.source=web", from_time=at[2], to_time=at[6]))
    assert [message.offset for message in messages(framed.body)] == [3, 5]
    assert ids(get(orders, "header.source=web", path=TOPIC, from_time=at[2], to_time=at[6])) == [3, 5]


def test_read_counters_equal_the_returned_messages(topic_broker: LocalBroker) -> None:
    publish(topic_broker.url, "t", *"abc")
    get(topic_broker, "value!=a")
    fetch(topic_broker.url, chosen("value=c"))
    assert 'goqueue_messages_read_total{topic="t"} 3' in ask(topic_broker.url, "GET", "/metrics").body.decode()


def test_an_offset_outside_is_refused_as_without_filters(orders: LocalBroker) -> None:
    answer = get(orders, "key=a", offset=11)
    assert (answer.status, answer.code) == (404, "offset_out_of_range")
    assert get(orders, "key=a", offset=10).json == {"messages": [], "next_offset": 10, "scanned": 0, "matched": 0}


# --- what is refused ---


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("kye=4", "filter 'kye=4' at position 0: 'kye' is not a field", "did you mean key?"),
        ("json.a", None, None),
        ("value", "an operator is missing", "= != ~ !~"),
        ("priority=urgent", "'urgent' is not a priority", "critical"),
        ("header.__producer", "is reserved for the broker", "cannot be filtered"),
        ("x" * (FILTER_CHARACTERS_MAX + 1), "it has 501 characters", None),
        ("", "it is empty", "fields are"),
    ],
)
@pytest.mark.parametrize("path", [WHERE, TOPIC])
def test_a_filter_that_cannot_be_read_is_refused(
    orders: LocalBroker, path: str, text: str, said: str | None, hint: str | None
) -> None:
    answer = get(orders, text, path=path)
    assert (answer.status == 200) is (said is None)
    if said is not None:
        assert answer.code == "request_invalid"
        assert said in answer.json["error"]
        assert answer.json["details"]["problems"][0]["place"].startswith("filter")
        assert (hint or "") in answer.json.get("hint", "")


def test_there_are_so_many_filters_and_no_more(orders: LocalBroker) -> None:
    assert get(orders, *["key~c"] * FILTERS_MAX).status == 200
    answer = get(orders, *["key~c"] * (FILTERS_MAX + 1))
    assert answer.code == "request_invalid"
    assert "at most 10" in answer.json["error"]


def test_a_filter_that_is_no_text_is_refused(orders: LocalBroker) -> None:
    for written in ("filter=key%3d%ff", "filter=key%3D%zz", "filter"):
        assert ask(orders.url, "GET", f"{WHERE}?{written}").code == "request_invalid"


# --- with patience ---


def waits(broker: LocalBroker) -> bool:
    """Return whether a reader waits in the only partition."""
    return bool(broker.daemon.runtime.broker.topics["t"].partitions[0]._watchers)


def test_waiting_filtered_read_returns_only_matches(topic_broker: LocalBroker) -> None:
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(get, topic_broker, "value=yes", wait="60s")
        for text in ("no", "neither"):
            until(topic_broker.url, lambda: waits(topic_broker))
            publish(topic_broker.url, "t", text)
        until(topic_broker.url, lambda: waits(topic_broker))
        assert not answer.done()
        publish(topic_broker.url, "t", "yes")
        assert values(answer.result()) == ["yes"]
        assert (answer.result().json["scanned"], answer.result().json["next_offset"]) == (3, 3)


def test_waiting_filtered_read_returns_its_position_at_the_timeout(orders: LocalBroker) -> None:
    answer = get(orders, "key=unknown", wait="1ms")
    assert answer.json == {"messages": [], "next_offset": 10, "scanned": 10, "matched": 0}


def test_waiting_request_ends_when_the_broker_stops(tmp_path: Path) -> None:
    broker = LocalBroker(str(tmp_path / "data")).start()
    create(broker.url, "t")
    publish(broker.url, "t", "no")
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(get, broker, "value=yes", wait="60s")
        until(broker.url, lambda: waits(broker))
        broker.stop()
        assert answer.result().json == {"messages": [], "next_offset": 1, "scanned": 1, "matched": 0}


# --- all partitions of a topic ---


def test_a_topic_is_filtered_in_the_order_of_its_times(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=3)
    for number in range(30):
        publish(broker.url, "t", str(number), partition=number * 5 % 3)
    answer = get(broker, "value~7", path=TOPIC)
    assert values(answer) == ["7", "17", "27"]
    assert answer.json["next_offsets"] == {"0": 10, "1": 10, "2": 10}
    assert (answer.json["scanned"], answer.json["matched"]) == (30, 3)
    few = get(broker, "value~7", path=TOPIC, limit=1)
    assert (values(few), few.json["matched"]) == (["7"], 1)
    rest = [get(broker, "value~7", path=f"/topics/t/partitions/{n}/messages", offset=at) for n, at in following(few)]
    assert sorted(value for part in rest for value in values(part)) == ["17", "27"]


def following(answer: Answer) -> list[tuple[str, int]]:
    return list(answer.json["next_offsets"].items())


def test_filtered_topic_read_keeps_time_order(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=2)
    for number in range(20):
        publish(broker.url, "t", f"{number:02}" + "x" * 900_000, partition=0)
    publish(broker.url, "t", "19 is the last", partition=1)
    answer = get(broker, "value^=19", path=TOPIC)
    assert values(answer) == []
    assert 0 < answer.json["next_offsets"]["0"] < 20
    assert answer.json["next_offsets"]["1"] == 0


# --- restarts, gaps, and damage ---


def test_damage_ends_an_answer_and_is_skipped_on_request(tmp_path: Path) -> None:
    with broker_with_damage(tmp_path, 2) as broker:
        first = get(broker, "value!~1")
        assert ([value[0] for value in values(first)], first.json["next_offset"]) == (["0"], 2)
        assert get(broker, "value!~1", offset=2).code == "range_damaged"
        rest = get(broker, "value!~4", offset=2, skip_damage="true")
        assert ([value[0] for value in values(rest)], rest.json["scanned"]) == (["3"], 2)


# --- dead letters ---


def test_dead_letters_are_browsed_and_redriven_by_filters(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    create(broker.url, "orders.dlq")
    for number in range(10):
        origin = {"dlq.topic": "orders", "dlq.partition": "0", "dlq.error": "late" if number % 2 else "lost"}
        publish(broker.url, "orders.dlq", json.dumps({"total": number}), headers=origin)
    letters, redrive = "/topics/orders/dead-letters", "/topics/orders/redrive"
    assert values(get(broker, "json.total>5", "header.dlq.error=late", path=letters)) == [
        '{"total": 7}',
        '{"total": 9}',
    ]
    assert get(broker, "jsn.total", path=letters).code == "request_invalid"
    request = {"filter": ["json.total>=8"], "dry_run": True}
    dry = ask(broker.url, "POST", redrive, request).json
    assert (dry["matched"], dry["moved"], dry["scanned"]) == (2, 0, 10)
    done = ask(broker.url, "POST", redrive, request | {"dry_run": False}).json
    assert (done["matched"], done["moved"]) == (2, 2)
    assert values(get(broker, path="/topics/orders/partitions/0/messages")) == ['{"total": 8}', '{"total": 9}']
    assert len(values(get(broker, path=letters))) == 8
    refused = ask(broker.url, "POST", redrive, {"filter": ["total>8"]})
    assert (refused.status, refused.code) == (400, "request_invalid")
