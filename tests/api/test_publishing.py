"""Publishing as JSON: what is stored, where, and what is refused before anything is."""

import base64
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from goqueue.partitioner import hash_function, partition_of
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.api.wire import fetch, messages
from tests.brokers import Answer, ask, create, read


@pytest.fixture
def url(broker: LocalBroker) -> str:
    """A broker with the topic `t` of one partition."""
    create(broker.url, "t")
    return broker.url


def post(url: str, *sent: Any, query: str = "", topic: str = "t") -> Answer:
    return ask(url, "POST", f"/topics/{topic}/messages?{query}", {"messages": sent})


def problems(answer: Answer) -> dict[str, str]:
    assert (answer.status, answer.code) == (400, "request_invalid")
    return {problem["place"]: problem["problem"] for problem in answer.json["details"]["problems"]}


def count(url: str) -> int:
    found: int = ask(url, "GET", "/topics/t").json["total_messages"]
    return found


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


# --- what is stored ---


def test_publish_returns_partition_and_offset_of_each_message(url: str) -> None:
    answer = post(url, {"value": "a"}, {"value": "b", "priority": 0})
    assert answer.json["results"] == [
        {"partition": 0, "offset": 0, "priority": 2, "delayed": False},
        {"partition": 0, "offset": 1, "priority": 0, "delayed": False},
    ]


@pytest.mark.parametrize("partitioner", ["murmur3", "murmur2"])
def test_keys_choose_the_partition(broker: LocalBroker, partitioner: Any) -> None:
    create(broker.url, "t", partitions=7, partitioner=partitioner)
    keys = [f"key-{number}" for number in range(30)]
    results = post(broker.url, *({"key": key, "value": "v"} for key in keys)).json["results"]
    expected = [partition_of(key.encode(), 7, hash_function(partitioner)) for key in keys]
    assert [result["partition"] for result in results] == expected
    assert len(set(expected)) > 1


def test_a_partition_that_is_named_is_stronger_than_the_key(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=7)
    results = post(broker.url, *({"key": f"{number}", "value": "v", "partition": 4} for number in range(5))).json[
        "results"
    ]
    assert [(result["partition"], result["offset"]) for result in results] == [(4, number) for number in range(5)]


def test_text_comes_back_as_text(url: str) -> None:
    texts = ["text", "", "käse 😀 \x00\x7f"]
    post(url, *({"value": text, "key": text or None} for text in texts), {"value": "text", "encoding": "utf-8"})
    found = read(url, "t")
    assert [message["value"] for message in found] == [*texts, "text"]
    assert [message["key"] for message in found] == ["text", None, texts[2], None]
    assert not any({"encoding", "key_encoding"} & message.keys() for message in found)


def test_bytes_go_in_and_come_out_as_base64(url: str) -> None:
    value, key = bytes(range(256)), b"\xff\x00"
    post(url, {"value": b64(value), "encoding": "base64", "key": b64(key), "key_encoding": "base64"})
    (found,) = read(url, "t")
    assert (found["value"], found["encoding"]) == (b64(value), "base64")
    assert (found["key"], found["key_encoding"]) == (b64(key), "base64")


def test_base64_of_text_comes_back_as_text(url: str) -> None:
    post(url, {"value": b64(b"plain"), "encoding": "base64"})
    (found,) = read(url, "t")
    assert (found["value"], "encoding" in found) == ("plain", False)


def test_null_with_a_key_is_a_tombstone(url: str) -> None:
    post(url, {"key": "k", "value": None})
    assert read(url, "t")[0]["value"] is None
    (stored,) = messages(fetch(url).body)
    assert stored.is_tombstone
    assert (stored.key, stored.value) == (b"k", b"")


def test_headers_keep_their_bytes_and_their_order(url: str) -> None:
    sent = {
        "z": "1",
        "many": ["a", {"value": b64(b"\xfe"), "encoding": "base64"}, "b"],
        "ä": "ü",
        "raw": {"value": "/w=="},
    }
    post(url, {"value": "x", "headers": sent})
    (stored,) = messages(fetch(url).body)
    assert list(stored.headers) == [
        ("z", b"1"), ("many", b"a"), ("many", b"\xfe"), ("many", b"b"), ("ä", "ü".encode()), ("raw", b"\xff"),
    ]  # fmt: skip
    (found,) = read(url, "t")
    assert found["headers"] == sent | {"raw": {"value": "/w==", "encoding": "base64"}}


def test_message_that_was_read_can_be_published_again(url: str) -> None:
    post(url, {"key": "/w==", "key_encoding": "base64", "value": "v", "headers": {"h": ["1", "2"]}, "priority": 4})
    (first,) = read(url, "t")
    post(url, {name: value for name, value in first.items() if name not in {"offset", "timestamp"}})
    second = read(url, "t")[1]
    assert {**second, "offset": 0, "timestamp": ""} == {**first, "timestamp": ""}


def test_priorities_have_numbers_and_names(url: str) -> None:
    results = post(url, *({"value": "v", "priority": one} for one in (*range(5), *frame.PRIORITIES, None)))
    assert [result["priority"] for result in results.json["results"]] == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 2]
    assert [message["priority"] for message in read(url, "t")] == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 2]


@pytest.mark.parametrize("acks", ["leader", "all"])
def test_answer_with_acks_has_offsets(url: str, acks: str) -> None:
    assert post(url, {"value": "x"}, query=f"acks={acks}").json["results"][0]["offset"] == 0


def test_answer_without_acks_has_no_offsets(url: str) -> None:
    answer = post(url, {"value": "a"}, {"value": "b"}, query="acks=none")
    assert answer.json["results"] == [{"partition": 0, "offset": None, "priority": 2, "delayed": False}] * 2
    post(url, {"value": "c"})
    assert [message["value"] for message in read(url, "t")] == ["a", "b", "c"]


# --- what is refused ---


def test_all_problems_are_named_and_nothing_is_stored(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=2)
    answer = post(
        broker.url,
        {"value": "good"},
        {"value": "?", "encoding": "base64", "key": "é", "key_encoding": "base64"},
        {"value": None},
        {"value": None, "key": ""},
        {"value": "v", "headers": {"__mine": "x", "h": {"value": "!"}}},
        {"value": "v", "partition": 99},
    )
    assert problems(answer).keys() == {
        "messages[1].key",
        "messages[1].value",
        "messages[2].value",
        "messages[3].value",
        "messages[4].headers.__mine",
        "messages[4].headers.h",
    }
    assert count(broker.url) == 0


def test_all_problems_of_form_are_named(url: str) -> None:
    sent: dict[str, Any] = {
        ".value": {"key": "k"},
        ".priority": {"value": "v", "priority": "urgent"},
        ".partition": {"value": "v", "partition": -1},
        ".headers.h": {"value": "v", "headers": {"h": []}},
        ".encoding": {"value": "v", "encoding": "hex"},
        ".vaule": {"vaule": "v", "value": "v"},
        "": "v",
    }
    assert set(problems(post(url, *sent.values()))) == {f"messages[{n}]{place}" for n, place in enumerate(sent)}
    assert count(url) == 0


def test_at_most_a_hundred_problems_are_reported(unchanged: str) -> None:
    answer = post(unchanged, *({"value": None} for _ in range(1000)))
    assert len(problems(answer)) == 100
    assert "at least 99 more problems" in answer.json["error"]


def test_a_partition_that_the_topic_does_not_have_is_refused_before_anything_is_stored(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=2)
    answer = post(broker.url, {"value": "a"}, {"value": "b", "partition": 2})
    assert (answer.status, answer.code) == (404, "partition_not_found")
    assert answer.json["details"] == {"partitions": 2, "place": "messages[1]"}
    assert count(broker.url) == 0


@pytest.mark.parametrize(
    "sent",
    [
        {"value": "x" * 2000},
        {"value": "x", "key": "k" * 2000},
        {"value": "x", "headers": {"h": "v" * 2000}},
        {"value": "x", "key": "k" * 70_000},
        {"value": "x", "headers": {"h" * 70_000: "v"}},
        {"value": "x", "headers": {"h": ["v" * 1000] * 70}},
    ],
)
def test_a_message_that_is_too_large_is_refused_with_the_others(broker: LocalBroker, sent: Any) -> None:
    create(broker.url, "t", max_message_bytes=1024)
    answer = post(broker.url, {"value": "small"}, sent)
    assert (answer.status, answer.code) == (413, "message_too_large")
    assert answer.json["details"]["place"] == "messages[1]"
    assert count(broker.url) == 0


def test_a_message_of_the_largest_size_is_taken(broker: LocalBroker) -> None:
    create(broker.url, "t", max_message_bytes=1024)
    assert post(broker.url, {"value": "x" * 1022}).status == 200  # two bytes count the headers
    assert post(broker.url, {"value": "x" * 1023}).status == 413


@pytest.mark.parametrize("body", [{}, {"messages": []}, {"messages": None}, [], "x", {"messages": [{}] * 10_001}])
def test_a_request_without_messages_or_with_too_many_is_refused(unchanged: str, body: Any) -> None:
    assert problems(ask(unchanged, "POST", "/topics/t/messages", body))


def test_acks_are_one_of_three(unchanged: str) -> None:
    assert problems(post(unchanged, {"value": "x"}, query="acks=1")) == {"acks": "is '1', not one of all, leader, none"}


# --- what fails in part ---


@pytest.fixture
def half_broken(tmp_path: Path) -> Any:
    """A topic of two partitions, the second of which takes nothing."""
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "t", partitions=2)
        post(broker.url, {"value": "a", "partition": 0}, {"value": "b", "partition": 1})
    shutil.rmtree(tmp_path / "data/logs/t/1")
    with LocalBroker(str(tmp_path / "data")) as broker:
        yield broker


def test_failure_of_one_partition_is_reported_for_each_message(half_broken: LocalBroker) -> None:
    sent = [{"value": str(number), "partition": number % 2} for number in range(4)]
    answer = post(half_broken.url, *sent)
    assert answer.status == 200
    good, bad, *others = answer.json["results"]
    assert good == {"partition": 0, "offset": 1, "priority": 2, "delayed": False}
    assert (bad["partition"], bad["offset"], bad["error"]["code"]) == (1, None, "log_fenced")
    assert bad["error"]["error"]
    assert [("error" in one) for one in others] == [False, True]
    assert [message["value"] for message in read(half_broken.url, "t")] == ["a", "0", "2"]


@pytest.mark.parametrize("messages_sent", [1, 2])
def test_request_fails_if_nothing_was_stored(half_broken: LocalBroker, messages_sent: int) -> None:
    answer = post(half_broken.url, *([{"value": "x", "partition": 1}] * messages_sent))
    assert (answer.status, answer.code) == (503, "log_fenced")
    assert "retry-after" in answer.headers


def test_overloaded_broker_is_reported_for_each_partition(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), server__in_flight_bytes="1MiB") as broker:
        create(broker.url, "t", partitions=2)
        large = "x" * 700_000
        answer = post(broker.url, {"value": large, "partition": 0}, {"value": large, "partition": 1})
        first, second = answer.json["results"]
        assert first["offset"] == 0
        assert second["error"]["code"] == "broker_overloaded"
        assert count(broker.url) == 1
        assert post(broker.url, {"value": large, "partition": 1}).status == 200


# --- topics that publishing makes ---


def test_publishing_makes_the_topic_where_that_is_allowed(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), topics__auto_create="true", topics__partitions="2") as broker:
        answer = post(broker.url, {"value": "x"}, topic="new")
        assert (answer.status, answer.json["results"][0]["offset"]) == (200, 0)
        assert ask(broker.url, "GET", "/topics/new").json["partitions"] == 2
        assert post(broker.url, {"value": "x"}, topic="no%20name").code == "topic_name_invalid"
        assert post(broker.url, {"value": "x"}, topic="__internal").code == "topic_name_invalid"
        assert ask(broker.url, "GET", "/topics/other").code == "topic_not_found"


def test_concurrent_first_publishes_create_one_topic(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), topics__auto_create="true") as broker:
        gate, statuses = threading.Barrier(8), list[int]()

        def first() -> None:
            gate.wait()
            statuses.append(post(broker.url, {"value": "x"}, topic="new").status)

        threads = [threading.Thread(target=first) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses == [200] * 8
        assert ask(broker.url, "GET", "/topics/new").json["total_messages"] == 8
