"""Reads with filters: by JSON and as frames, of one partition and of all, with patience, and past what is broken."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import zstandard

from goqueue.limits import FILTER_CHARACTERS_MAX, FILTER_SCAN_BYTES, FILTERS_MAX, MIB, VALUE_BYTES_MAX
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.api.wire import fetch, frames, messages, section, send, until
from tests.brokers import Answer, ask, broker, create, publish

__all__ = ["broker"]

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


@pytest.fixture
def orders(broker: LocalBroker) -> LocalBroker:
    """A broker whose topic `t` holds the orders 0 to 9, each of its own total."""
    create(broker.url, "t")
    for number in range(10):
        order = json.dumps({"id": number, "order": {"total": number * 10}})
        publish(
            broker.url, "t", order, key=f"customer-{number % 3}", headers={"source": "web" if number % 2 else "till"}
        )
    return broker


def ids(answer: Answer) -> list[int]:
    return [json.loads(value)["id"] for value in values(answer)]


# --- what is given ---


def test_the_answer_has_what_fits_and_says_how_much_was_looked_at(orders: LocalBroker) -> None:
    answer = get(orders, "json.order.total>60")
    assert ids(answer) == [7, 8, 9]
    assert {name: answer.json[name] for name in ("next_offset", "scanned", "matched")} == {
        "next_offset": 10,
        "scanned": 10,
        "matched": 3,
    }


def test_all_filters_have_to_hold(orders: LocalBroker) -> None:
    assert ids(get(orders, "key=customer-1", "header.source=web")) == [1, 7]
    assert ids(get(orders, "key=customer-1", "header.source=web", "json.id<5")) == [1]
    assert ids(get(orders, "key=customer-9")) == []
    assert ids(get(orders, "priority=normal", "value~order")) == list(range(10))


def test_frames_are_filtered_as_well(orders: LocalBroker) -> None:
    answer = fetch(orders.url, chosen("json.order.total>60"))
    assert [message.offset for message in messages(answer.body)] == [7, 8, 9]
    assert answer.headers["x-goqueue-next-offset"] == "10"
    assert (answer.headers["x-goqueue-scanned"], answer.headers["x-goqueue-matched"]) == ("10", "3")


def test_answers_without_filters_say_nothing_of_them(orders: LocalBroker) -> None:
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


def test_what_the_broker_counts_as_read_is_what_it_gave(orders: LocalBroker) -> None:
    get(orders, "json.order.total>60")
    fetch(orders.url, chosen("json.order.total>80"))
    counts = ask(orders.url, "GET", "/metrics").body.decode()
    assert 'goqueue_messages_read_total{topic="t"} 4' in counts


def test_an_offset_outside_is_refused_as_without_filters(orders: LocalBroker) -> None:
    answer = get(orders, "key=a", offset=11)
    assert (answer.status, answer.code) == (404, "offset_out_of_range")
    assert get(orders, "key=a", offset=10).json == {"messages": [], "next_offset": 10, "scanned": 0, "matched": 0}


def test_many_matches_are_told_as_well(broker: LocalBroker) -> None:
    create(broker.url, "t")
    send(broker.url, section(0, frames([b"%d" % number for number in range(5000)])))
    answer = get(broker, "value!~7", limit=10_000)
    assert values(answer) == [str(number) for number in range(5000) if "7" not in str(number)]
    assert answer.json["scanned"] == 5000


# --- how far one request looks ---


def test_one_request_looks_so_far_and_the_next_goes_on_there(broker: LocalBroker) -> None:
    create(broker.url, "t")
    count = FILTER_SCAN_BYTES // MIB + 3
    for number in range(count):
        send(broker.url, section(0, frames([b"%02d" % number + bytes(MIB - 100)])))
    offset, requests, found = 0, 0, []
    while offset < count:
        answer = fetch(broker.url, chosen(f"value^={count - 1}", offset=offset))
        following = int(answer.headers["x-goqueue-next-offset"])
        assert following > offset
        found += [message.offset for message in messages(answer.body)]
        offset, requests = following, requests + 1
    assert found == [count - 1]
    assert requests > 1


def test_small_values_that_hold_much_are_looked_at_a_few_at_a_time(broker: LocalBroker) -> None:
    create(broker.url, "t")
    bomb = zstandard.ZstdCompressor().compress(bytes(VALUE_BYTES_MAX))
    send(broker.url, section(0, frame.encode(bomb, flags=frame.COMPRESSED) * 5 + frame.encode(b"x")))
    offset, found = 0, []
    while offset < 6:
        answer = get(broker, "value~x", offset=offset)
        assert answer.json["next_offset"] > offset
        found += values(answer)
        offset = answer.json["next_offset"]
    assert found == ["x"]


def test_hostile_values_do_not_keep_others_from_being_read(broker: LocalBroker) -> None:
    create(broker.url, "t")
    hostile = [
        b"[" * 500_000,
        b'{"a":' * 100_000,
        b'{"a":"\xff"}',
        b"",
        b"\xff" * 1000,
        b'{"a":' + b"9" * 100_000 + b"}",
    ]
    send(broker.url, section(0, frames([*hostile, b'{"a":1}'])))
    assert values(get(broker, "json.a=1")) == ['{"a":1}']
    assert values(get(broker, "json.a!=2", "json.a<2")) == ['{"a":1}']


# --- what is refused ---


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("kye=4", "filter 'kye=4' at position 0: 'kye' is no field", "did you mean key?"),
        ("json.a", None, None),
        ("value", "an operator is missing", "= != ~ !~"),
        ("priority=urgent", "'urgent' is no priority", "critical"),
        ("header.__producer", "is the broker's own", "not shown"),
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


def test_other_parameters_are_given_once_as_ever(orders: LocalBroker) -> None:
    answer = ask(orders.url, "GET", f"{WHERE}?limit=1&limit=2&filter=key~c&filter=key~c")
    assert answer.code == "request_invalid"
    assert "limit is given twice" in answer.json["error"]


# --- with patience ---


def waits(broker: LocalBroker) -> bool:
    """Whether somebody waits for more in the only partition."""
    return bool(broker.daemon.runtime.broker.topics["t"].partitions[0]._watchers)


def test_who_waits_is_given_what_fits_and_not_what_does_not(orders: LocalBroker) -> None:
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(get, orders, "value=yes", offset=10, wait="60s")
        for text in ("no", "neither"):
            until(orders.url, lambda: waits(orders))
            publish(orders.url, "t", text)
        until(orders.url, lambda: waits(orders))
        assert not answer.done()
        publish(orders.url, "t", "yes")
        assert values(answer.result()) == ["yes"]
        assert (answer.result().json["scanned"], answer.result().json["next_offset"]) == (3, 13)


def test_who_waits_in_vain_is_told_how_far_it_came(orders: LocalBroker) -> None:
    answer = get(orders, "key=nobody", wait="1ms")
    assert answer.json == {"messages": [], "next_offset": 10, "scanned": 10, "matched": 0}


def test_nobody_waits_where_something_fits(orders: LocalBroker) -> None:
    assert ids(get(orders, "json.id=3", wait="60s")) == [3]


def test_who_waits_hears_when_the_topic_is_deleted(orders: LocalBroker) -> None:
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(get, orders, "key=nobody", offset=10, wait="60s")
        until(orders.url, lambda: waits(orders))
        ask(orders.url, "DELETE", "/topics/t")
        assert answer.result().code == "topic_not_found"


def test_who_waits_goes_home_when_the_broker_stops(tmp_path: Path) -> None:
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


def test_nothing_of_a_topic_is_given_before_what_was_not_looked_at_yet(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=2)
    for number in range(20):
        publish(broker.url, "t", f"{number:02}" + "x" * 900_000, partition=0)
    publish(broker.url, "t", "19 is the last", partition=1)
    answer = get(broker, "value^=19", path=TOPIC)
    assert values(answer) == []
    assert 0 < answer.json["next_offsets"]["0"] < 20
    assert answer.json["next_offsets"]["1"] == 0


# --- restarts, gaps, and damage ---


def test_a_restart_changes_nothing(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "t")
        publish(broker.url, "t", *map(str, range(100)))
        before = get(broker, "value^=4").json
    with LocalBroker(str(tmp_path / "data")) as broker:
        assert get(broker, "value^=4").json == before


def test_damage_ends_an_answer_is_told_and_passed_over_on_request(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "t")
        for number in range(5):
            publish(broker.url, "t", f"{number}" * 100)
    (log,) = (tmp_path / "data/logs/t/0").glob("*.log")
    content = bytearray(log.read_bytes())
    content[content.index(b"2" * 100) + 50] ^= 1
    log.write_bytes(content)
    with LocalBroker(str(tmp_path / "data")) as broker:
        first = get(broker, "value!~1")
        assert ([value[0] for value in values(first)], first.json["next_offset"]) == (["0"], 2)
        assert get(broker, "value!~1", offset=2).code == "range_damaged"
        rest = get(broker, "value!~4", offset=2, skip_damage="true")
        assert ([value[0] for value in values(rest)], rest.json["scanned"]) == (["3"], 2)


def test_many_filtered_readers_are_served_at_once(orders: LocalBroker) -> None:
    found: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: found.append(ids(get(orders, "json.order.total>60")))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[7, 8, 9]] * 16


# --- dead letters ---


@pytest.fixture
def letters(broker: LocalBroker) -> LocalBroker:
    """A broker with the dead letters 0 to 9 of the topic `orders`."""
    create(broker.url, "orders")
    create(broker.url, "orders.dlq")
    for number in range(10):
        publish(
            broker.url,
            "orders.dlq",
            json.dumps({"total": number}),
            headers={"dlq.topic": "orders", "dlq.partition": "0", "dlq.error": "late" if number % 2 else "lost"},
        )
    return broker


def test_dead_letters_are_filtered(letters: LocalBroker) -> None:
    found = get(letters, "json.total>5", "header.dlq.error=late", path="/topics/orders/dead-letters")
    assert values(found) == ['{"total": 7}', '{"total": 9}']
    assert get(letters, "jsn.total", path="/topics/orders/dead-letters").code == "request_invalid"


def test_dead_letters_that_fit_are_sent_back(letters: LocalBroker) -> None:
    wished = {"filter": ["json.total>=8"], "dry_run": True}
    path = "/topics/orders/redrive"
    dry = ask(letters.url, "POST", path, wished).json
    assert (dry["matched"], dry["moved"], dry["scanned"]) == (2, 0, 10)
    done = ask(letters.url, "POST", path, wished | {"dry_run": False}).json
    assert (done["matched"], done["moved"]) == (2, 2)
    assert values(get(letters, path="/topics/orders/partitions/0/messages")) == ['{"total": 8}', '{"total": 9}']
    assert len(values(get(letters, path="/topics/orders/dead-letters"))) == 8
    refused = ask(letters.url, "POST", path, {"filter": ["total>8"]})
    assert (refused.status, refused.code) == (400, "request_invalid")
